package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A Diff is the difference of two versions of a contract.
type Diff struct {
	From    int          `json:"from"`
	To      int          `json:"to"`
	Changes []Difference `json:"changes"`
	Cut     bool         `json:"cut,omitempty"` // there are more

	compat.Verdict // for the consumers of the contract
}

// A Difference is one value that changed.
type Difference struct {
	Path string          `json:"path"` // a JSON pointer
	Kind string          `json:"kind"` // added, removed or changed
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// maxDifferences is the number of differences in a diff, and maxDepth the depth to
// which values are compared.
const (
	maxDifferences = 1000
	maxDepth       = 64
)

// A DiffQuery chooses two contents of a contract.
type DiffQuery struct {
	InContract
	From    int             `json:"from,omitempty"`    // default the version before To, or the base of Content
	To      int             `json:"to,omitempty"`      // default the newest
	Content json.RawMessage `json:"content,omitempty"` // a content that it might have next, in place of To
}

// Diff returns the difference of two contents of a contract, with the verdict for each of its
// consumers.
func (s *Service) Diff(ctx context.Context, caller hub.Caller, q DiffQuery) (Diff, error) {
	got, err := s.comparison(ctx, "contract.Diff", caller, q.InContract, comparing{from: q.From, to: q.To, content: q.Content})
	if err != nil {
		return Diff{}, err
	}
	d := Diff{From: got.from, To: got.to, Changes: []Difference{}, Verdict: got.verdict}
	d.compare("", got.old, got.new, 0)
	return d, nil
}

// contentOf returns the content that a contract had in a version.
func contentOf(c coord.Contract, version int) (json.RawMessage, error) {
	if version == c.Version {
		return c.Content, nil
	}
	for _, v := range c.History {
		if federation.IsFold(v) && version <= v.Version {
			return nil, hub.Errorf(hub.CodeNotFound, "contract.Diff", "the versions of contract %s up to %d were folded into a digest", c.ID, v.Version)
		}
		if v.Version == version {
			return v.Content, nil
		}
	}
	return nil, hub.Errorf(hub.CodeNotFound, "contract.Diff", "contract %s has no version %d", c.ID, version)
}

// compare adds the differences of new from old. Objects are compared by member, lists
// by index, other values as a whole.
func (d *Diff) compare(path string, old, new json.RawMessage, depth int) {
	if d.Cut || bytes.Equal(old, new) {
		return
	}
	if depth < maxDepth {
		if a, b := members(old), members(new); a != nil && b != nil {
			names := maps.Clone(a)
			maps.Copy(names, b)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				d.member(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), a[name], b[name], depth)
			}
			return
		}
		if a, b := items(old), items(new); a != nil && b != nil {
			for i := range max(len(a), len(b)) {
				d.member(path+"/"+strconv.Itoa(i), at(a, i), at(b, i), depth)
			}
			return
		}
	}
	if coord.ContentHash(old) != coord.ContentHash(new) {
		d.add(Difference{Path: path, Kind: "changed", Old: old, New: new})
	}
}

func (d *Diff) member(path string, old, new json.RawMessage, depth int) {
	switch {
	case old == nil:
		d.add(Difference{Path: path, Kind: "added", New: new})
	case new == nil:
		d.add(Difference{Path: path, Kind: "removed", Old: old})
	default:
		d.compare(path, old, new, depth+1)
	}
}

func (d *Diff) add(x Difference) {
	if len(d.Changes) >= maxDifferences {
		d.Cut = true
		return
	}
	d.Changes = append(d.Changes, x)
}

// members returns the members of an object, nil for anything else.
func members(raw json.RawMessage) (m map[string]json.RawMessage) {
	if !bytes.HasPrefix(raw, []byte("{")) || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// items returns the items of a list, nil for anything else.
func items(raw json.RawMessage) (l []json.RawMessage) {
	if !bytes.HasPrefix(raw, []byte("[")) || json.Unmarshal(raw, &l) != nil {
		return nil
	}
	return l
}

func at(l []json.RawMessage, i int) json.RawMessage {
	if i < len(l) {
		return l[i]
	}
	return nil
}
