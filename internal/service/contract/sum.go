package contract

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/federation"
)

// contractSum returns the hash of a contract as hubs exchange it. Contents are hashed
// in their canonical form, so that two spellings of one content have one sum. Hubs
// of older releases keep no stamps, so that the sum is without them.
func contractSum(c hub.Contract) string {
	canonical := func(raw json.RawMessage) json.RawMessage { return json.RawMessage(`"` + hub.ContentHash(raw) + `"`) }
	c.Content, c.Stamps = canonical(c.Content), hub.Stamps{}
	for _, versions := range []*[]hub.ContractVersion{&c.History, &c.Conflicts} {
		*versions = slices.Clone(*versions)
		for i, v := range *versions {
			(*versions)[i].Content = canonical(v.Content)
		}
	}
	return sumOf(c)
}

// headSum returns the hash of a project with its repositories, without stamps.
func headSum(p hub.Project) string {
	p.Stamps = hub.Stamps{}
	return sumOf(p)
}

// sumOf returns the hash of a thing as hubs exchange it.
func sumOf(v any) string {
	b, _ := json.Marshal(v) // stored before: cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// idsAtOnce is the number of packet ids per read.
const idsAtOnce = 2000

// buckets returns the sums of the packets of a project. The sum of a bucket is the
// exclusive or of the hashes of its ids: it does not depend on their order, and ids
// are enough because packets never change. The cost is one hash per packet.
func buckets(r hub.Reader, id hub.ProjectID) ([]federation.PacketBucket, error) {
	var counts [256]int
	var sums [256][sha256.Size]byte
	for after, more := hub.PacketID(""), true; more; {
		found, err := r.PacketIDs(id, after, idsAtOnce)
		if err != nil {
			return nil, err
		}
		for _, packet := range found {
			sum := sha256.Sum256([]byte(packet))
			counts[sum[0]]++
			subtle.XORBytes(sums[sum[0]][:], sums[sum[0]][:], sum[:])
			after = packet
		}
		more = len(found) == idsAtOnce
	}
	out := []federation.PacketBucket{}
	for n, count := range counts {
		if count > 0 {
			out = append(out, federation.PacketBucket{N: n, Count: count, Sum: hex.EncodeToString(sums[n][:])})
		}
	}
	return out, nil
}
