package coord

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// A ContractSum is the hash of all that hubs exchange about a contract.
type ContractSum struct {
	ID  ContractID `json:"id"`
	Sum string     `json:"sum"`
}

// A PacketBucket stands for the packets whose ids have a hash that begins with
// one byte.
type PacketBucket struct {
	N     int    `json:"n"` // the byte
	Count int    `json:"count"`
	Sum   string `json:"sum"` // over the ids, in any order
}

// Sums are the hashes of the contents of a project. The store keeps them, so that
// no reader loads the contents to compare them.
type Sums struct {
	Contracts string         // over the ids and sums of all contracts, in any order; "" if there are none
	Buckets   []PacketBucket // those that are not empty, by number
}

// Of returns one hash for a whole project: p and the contents of s.
func (s Sums) Of(p Project) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", p.Sum(), s.Contracts)
	for _, b := range s.Buckets {
		fmt.Fprintf(h, "%d %d %s\n", b.N, b.Count, b.Sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sum returns the hash of a contract as hubs exchange it. Contents are hashed
// in their canonical form, so that two spellings of one content have one sum; a
// content that is a text stands for the content with that hash. Hubs of older
// releases keep no stamps, so that the sum is without them.
func (c Contract) Sum() string {
	canonical := func(raw json.RawMessage) json.RawMessage {
		if len(raw) > 0 && raw[0] == '"' {
			return raw
		}
		return json.RawMessage(`"` + ContentHash(raw) + `"`)
	}
	c.Content, c.Stamps = canonical(c.Content), Stamps{}
	for _, versions := range []*[]ContractVersion{&c.History, &c.Conflicts} {
		*versions = slices.Clone(*versions)
		for i, v := range *versions {
			(*versions)[i].Content = canonical(v.Content)
		}
	}
	return sumOf(c)
}

// VersionSums returns a short hash for each content that a contract had, to tell
// another hub which it lacks.
func (c Contract) VersionSums() (sums []string) {
	for _, v := range c.History {
		sums = append(sums, v.sum("history"))
	}
	for _, v := range c.Conflicts {
		sums = append(sums, v.sum("lost"))
	}
	return sums
}

// WithoutVersions returns c without the contents that have one of the sums.
func (c Contract) WithoutVersions(sums []string) Contract {
	has := map[string]bool{}
	for _, s := range sums {
		has[s] = true
	}
	c.History = slices.DeleteFunc(slices.Clone(c.History), func(v ContractVersion) bool { return has[v.sum("history")] })
	c.Conflicts = slices.DeleteFunc(slices.Clone(c.Conflicts), func(v ContractVersion) bool { return has[v.sum("lost")] })
	return c
}

func (v ContractVersion) sum(standing string) string {
	v.Content = json.RawMessage(`"` + ContentHash(v.Content) + `"`)
	return fmt.Sprintf("%d-%.16s", v.Version, sumOf(struct {
		ContractVersion
		Standing string
	}{v, standing}))
}

// Sum returns the hash of a project with its repositories, without stamps.
func (p Project) Sum() string {
	p.Stamps = Stamps{}
	return sumOf(p)
}

func sumOf(v any) string {
	b, _ := json.Marshal(v) // stored before: cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Bucket returns the number of the bucket of a packet, which is the first byte of
// the hash of its id.
func (id PacketID) Bucket() int { return int(sha256.Sum256([]byte(id))[0]) }

// ToggleSum returns a sum over things in any order with one more thing, or without
// it if it was among them: the exclusive or of the hashes of all things. The sum of
// nothing is "".
func ToggleSum(sum, thing string) string {
	hash := sha256.Sum256([]byte(thing))
	if old, err := hex.DecodeString(sum); err == nil && len(old) == len(hash) {
		subtle.XORBytes(hash[:], hash[:], old)
	}
	if hash == [sha256.Size]byte{} {
		return ""
	}
	return hex.EncodeToString(hash[:])
}
