package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/protocol/acp/internal/wire"
)

type optional[T any] struct {
	value T
	state wire.State
}

func (o *optional[T]) Wire() (any, *wire.State) { return &o.value, &o.state }

type named struct {
	Name  string `acp:"name"`
	Value json.RawMessage
}

type tree struct {
	Name     string           `json:"name"`
	Size     optional[uint16] `json:"size,omitzero" acp:"null,min=1"`
	Tags     []string         `json:"tags" acp:"default"`
	Children optional[[]tree] `json:"children,omitzero"`
	Meta     json.RawMessage  `json:"_meta,omitzero" acp:"object"`
	Extra    []named          `json:"-"`
}

func decodeTree(raw string) (tree, *wire.Problem) {
	var x tree
	s := wire.NewScanner([]byte(raw))
	wire.Decode(s, &x)
	return x, s.End()
}

func TestStructure(t *testing.T) {
	t.Run("a value comes out as it came", func(t *testing.T) {
		for _, raw := range []string{
			`{"name":"a","tags":[]}`,
			`{"name":"a","size":null,"tags":["x"],"children":[{"name":"b","tags":[],"z":1.0}],"_meta":null,"Z":[1,1.50],"y":{"k":1,"k":2}}`,
			`{"name":"a","size":65535,"tags":[],"children":[]}`,
		} {
			x, p := decodeTree(raw)
			if p != nil {
				t.Errorf("%s: %+v", raw, p)
				continue
			}
			e := wire.NewEncoder()
			wire.Encode(e, &x)
			if got, p := e.End(); p != nil || string(got) != raw {
				t.Errorf("got  %s, %+v\nwant %s", got, p, raw)
			}
			c := &wire.Checker{}
			wire.Check(c, &x)
			if len(c.Problems) > 0 {
				t.Errorf("%s: got %v", raw, c.Problems)
			}
		}
	})
	t.Run("members come in any order", func(t *testing.T) {
		x, p := decodeTree(`{"tags":["x"],"size":2,"name":"a"}`)
		if p != nil || x.Name != "a" || x.Size.value != 2 || len(x.Tags) != 1 {
			t.Errorf("got %+v, %+v", x, p)
		}
	})
	t.Run("null is read as the default", func(t *testing.T) {
		if x, p := decodeTree(`{"name":"a","tags":null}`); p != nil || x.Tags != nil {
			t.Errorf("got %+v, %+v", x, p)
		}
	})
	for raw, path := range map[string]string{
		`{"tags":[]}`:                                              "",
		`{"name":"a","name":"b","tags":[]}`:                        "/name",
		`{"name":"a","Name":"b","tags":[]}`:                        "/Name",
		`{"name":"a","tags":[],"x":1,"X":2}`:                       "/X",
		`{"name":"a","tags":[1]}`:                                  "/tags/0",
		`{"name":"a","tags":[],"size":65536}`:                      "/size",
		`{"name":"a","tags":[],"children":null}`:                   "/children",
		`{"name":"a","tags":[],"children":[{"name":1,"tags":[]}]}`: "/children/0/name",
		`{"name":"a","tags":[],"_meta":[]}`:                        "/_meta",
	} {
		t.Run("refused: "+raw, func(t *testing.T) {
			if _, p := decodeTree(raw); p == nil || p.Path != path {
				t.Errorf("got %+v, want a problem at %q", p, path)
			}
		})
	}
	t.Run("a checker reports bounds and misplaced nulls", func(t *testing.T) {
		x := tree{Name: "\xff", Size: optional[uint16]{state: wire.Set}, Children: optional[[]tree]{state: wire.Null}, Extra: []named{{"TAGS", json.RawMessage("1")}}}
		c := &wire.Checker{}
		wire.Check(c, &x)
		var paths []string
		for _, p := range c.Problems {
			paths = append(paths, p.Path)
		}
		if got, want := len(paths), 4; got != want {
			t.Errorf("got problems at %v, want %d", paths, want)
		}
	})
}
