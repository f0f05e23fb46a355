package federation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
)

// foldMark begins the content that stands for folded versions. No other content
// begins with it; see the check of a contract.
const foldMark = `{"parley.folded":`

// keptVersions is the number of versions that stay when others are folded: enough
// fewer than MaxVersions that folding is seldom.
const keptVersions = MaxVersions * 3 / 4

// IsFold reports whether an entry of a history stands for the versions up to its own.
func IsFold(v coord.ContractVersion) bool { return bytes.HasPrefix(v.Content, []byte(foldMark)) }

// Fold returns a history, oldest version first, with at most MaxVersions entries. If
// there are more, the oldest become one entry with the number of the last of them,
// whose content is a digest over their contents. An entry that was folded before is
// part of the digest, so that it covers every version from the first.
func Fold(history []coord.ContractVersion) []coord.ContractVersion {
	if len(history) <= MaxVersions {
		return history
	}
	old := history[:len(history)-keptVersions+1]
	sum := sha256.New()
	for _, v := range old {
		fmt.Fprintf(sum, "%d %s %s\n", v.Version, coord.ContentHash(v.Content), v.ProposedBy)
	}
	last := old[len(old)-1]
	last.Content, _ = strictjson.Encode(map[string]any{"parley.folded": map[string]any{ // plain values: cannot fail
		"versions": last.Version, "sha256": hex.EncodeToString(sum.Sum(nil)),
	}})
	return append([]coord.ContractVersion{last}, history[len(old):]...)
}

// Parts returns copies that together hold the content of c, each with about limit bytes
// of earlier contents at most: the head of a contract with its newest versions, then
// the head with older ones. A receiver that merges ends with the whole.
func (c Copy) Parts(limit int) []Copy {
	if c.Contract == nil {
		return []Copy{c}
	}
	head := *c.Contract
	head.History, head.Conflicts = nil, nil
	var parts []Copy
	part, size := head, 0
	room := func(v coord.ContractVersion) {
		if n := len(v.Content) + len(v.ChangeNotes); size > 0 && size+n > limit {
			parts = append(parts, c.part(part))
			part, size = head, n
		} else {
			size += n
		}
	}
	for i := len(c.Contract.History) - 1; i >= 0; i-- {
		v := c.Contract.History[i]
		room(v)
		part.History = append([]coord.ContractVersion{v}, part.History...)
	}
	for _, v := range c.Contract.Conflicts {
		room(v)
		part.Conflicts = append(part.Conflicts, v)
	}
	return append(parts, c.part(part))
}

func (c Copy) part(k coord.Contract) Copy { return Copy{Project: c.Project, Contract: &k, Sum: c.Sum} }
