package sandbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestConsent(t *testing.T) {
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	request := func(kind sandbox.Kind, names ...string) sandbox.Request {
		r := sandbox.Request{Kind: kind, Folders: []string{dir}, Options: options(sandbox.AllowOnce, sandbox.AllowAlways, sandbox.RejectOnce, "allow_session")}
		for _, name := range names {
			r.Paths = append(r.Paths, in(name))
		}
		return r
	}
	edit := request(sandbox.KindEdit, "a.txt", "sub")
	relative := request(sandbox.KindEdit)
	relative.Paths = []string{"a.txt"}
	for _, tt := range []struct {
		name    string
		policy  sandbox.Policy
		request sandbox.Request
		answer  sandbox.OptionKind
		changed []string
		want    []string
		known   bool
	}{
		{"none lets no file change", sandbox.PolicyNone, sandbox.Request{}, "", []string{"a.txt"}, []string{"a.txt"}, true},
		{"read lets no file change", sandbox.PolicyRead, sandbox.Request{}, "", []string{"a.txt", "b.txt"}, []string{"a.txt", "b.txt"}, true},
		{"write lets files change", sandbox.PolicyWrite, sandbox.Request{}, "", []string{"a.txt", "sub/b.txt"}, nil, true},
		{"but not those that programs run or obey", sandbox.PolicyWrite, sandbox.Request{}, "", []string{"a.txt", ".envrc", "CLAUDE.md"}, []string{".envrc", "CLAUDE.md"}, true},
		{"unless a person allowed it", sandbox.PolicyWrite, request(sandbox.KindEdit, "CLAUDE.md"), sandbox.AllowOnce, []string{"CLAUDE.md"}, nil, true},
		{"yolo lets everything change", sandbox.PolicyYolo, sandbox.Request{}, "", []string{".envrc"}, nil, true},
		{"ask without an answer lets no file change", sandbox.PolicyAsk, sandbox.Request{}, "", []string{"a.txt"}, []string{"a.txt"}, true},
		{"a yes covers its files and folders, and no others", sandbox.PolicyAsk, edit, sandbox.AllowOnce, []string{"a.txt", "sub/deep/b.txt", "subway.txt", "c.txt"}, []string{"subway.txt", "c.txt"}, true},
		{"a relative path is in the folder", sandbox.PolicyAsk, relative, sandbox.AllowOnce, []string{"a.txt"}, nil, true},
		{"a no covers nothing", sandbox.PolicyAsk, edit, sandbox.RejectOnce, []string{"a.txt"}, []string{"a.txt"}, true},
		{"a yes to reading covers nothing", sandbox.PolicyAsk, request(sandbox.KindRead, "a.txt"), sandbox.AllowOnce, []string{"a.txt"}, []string{"a.txt"}, true},
		{"the files of a command are not known", sandbox.PolicyAsk, request(sandbox.KindExecute), sandbox.AllowOnce, []string{"a.txt"}, nil, false},
		{"nor those of an edit that names none", sandbox.PolicyAsk, request(sandbox.KindEdit), sandbox.AllowOnce, []string{"a.txt"}, nil, false},
		{"nor those of a yes for all turns", sandbox.PolicyAsk, edit, sandbox.AllowAlways, []string{"b.txt"}, nil, false},
		{"nor those of a yes of a kind that is not known", sandbox.PolicyAsk, edit, "allow_session", []string{"b.txt"}, nil, false},
		{"no change is known after a command, too", sandbox.PolicyAsk, request(sandbox.KindExecute), sandbox.AllowOnce, nil, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c sandbox.Consent
			if tt.answer != "" {
				ask := c.Asker(func(context.Context, sandbox.Request) (string, error) { return string(tt.answer), nil })
				_, err := ask(t.Context(), tt.request)
				must(t, err)
			}
			var changed, want []string
			for _, name := range tt.changed {
				changed = append(changed, in(name))
			}
			for _, name := range tt.want {
				want = append(want, in(name))
			}
			got, known := c.Uncovered(tt.policy, dir, changed)
			if !slices.Equal(got, want) || known != tt.known {
				t.Errorf("got %v, known %v; want %v, known %v", got, known, want, tt.known)
			}
		})
	}
	t.Run("a turn forgets the permissions of the last one, but not those for all turns", func(t *testing.T) {
		var c sandbox.Consent
		answer := string(sandbox.AllowOnce)
		ask := c.Asker(func(context.Context, sandbox.Request) (string, error) { return answer, nil })
		ask(t.Context(), edit)
		c.Begin()
		if got, known := c.Uncovered(sandbox.PolicyAsk, dir, []string{in("a.txt")}); len(got) != 1 || !known {
			t.Errorf("got %v, %v after a yes for one turn", got, known)
		}
		answer = string(sandbox.AllowAlways)
		ask(t.Context(), edit)
		c.Begin()
		if got, known := c.Uncovered(sandbox.PolicyAsk, dir, []string{in("a.txt")}); len(got) != 0 || known {
			t.Errorf("got %v, %v after a yes for all turns", got, known)
		}
	})
	t.Run("an answer that fails is none", func(t *testing.T) {
		var c sandbox.Consent
		ask := c.Asker(func(context.Context, sandbox.Request) (string, error) {
			return string(sandbox.AllowAlways), errors.New("no terminal")
		})
		ask(t.Context(), edit)
		if got, known := c.Uncovered(sandbox.PolicyAsk, dir, []string{in("a.txt")}); len(got) != 1 || !known {
			t.Errorf("got %v, %v", got, known)
		}
		if c.Asker(nil) != nil {
			t.Error("an Asker was made of none")
		}
	})
}
