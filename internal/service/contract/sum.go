package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// contractSum returns the hash of all that hubs exchange about a contract.
// Contents count by their canonical form, so that who writes them differently
// does not seem to have others.
func contractSum(c hub.Contract) string {
	canonical := func(raw json.RawMessage) json.RawMessage { return json.RawMessage(`"` + hub.ContentHash(raw) + `"`) }
	c.Content = canonical(c.Content)
	for _, versions := range []*[]hub.ContractVersion{&c.History, &c.Conflicts} {
		*versions = slices.Clone(*versions)
		for i, v := range *versions {
			(*versions)[i].Content = canonical(v.Content)
		}
	}
	return sumOf(c)
}

// projectSum returns the hash of all that hubs exchange about a project itself.
func projectSum(p hub.Project) string { return sumOf(p) }

func sumOf(v any) string {
	b, _ := json.Marshal(v) // what is stored can be encoded
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// buckets sums up the packets of a project. The sum of a bucket does not depend
// on the order, and says which ids are there, which is enough: packets never
// change.
func buckets(r hub.Reader, id hub.ProjectID) ([]hub.PacketBucket, error) {
	var counts [256]int
	var sums [256][32]byte
	err := eachPacketID(r, id, func(_ hub.PacketID, sum [32]byte) {
		n := sum[0]
		counts[n]++
		for i := range sum {
			sums[n][i] ^= sum[i]
		}
	})
	out := []hub.PacketBucket{}
	for n, count := range counts {
		if count > 0 {
			out = append(out, hub.PacketBucket{N: n, Count: count, Sum: hex.EncodeToString(sums[n][:])})
		}
	}
	return out, err
}

// eachPacketID calls fn with the id of every packet and its hash.
func eachPacketID(r hub.Reader, id hub.ProjectID, fn func(hub.PacketID, [32]byte)) error {
	const at = 2000
	for after := hub.PacketID(""); ; {
		found, err := r.PacketIDs(id, after, at)
		if err != nil {
			return err
		}
		for _, packet := range found {
			fn(packet, sha256.Sum256([]byte(packet)))
		}
		if len(found) < at {
			return nil
		}
		after = found[len(found)-1]
	}
}
