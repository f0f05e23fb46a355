package evidence

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// A ruled is a working tree with rules about what is ignored in it, which git
// reads in the scratch.
type ruled struct {
	scratch *scratch
	tree    *os.Root
	count   int // entries met
	bytes   int // of rule files copied
}

// pass counts an entry of the working tree.
func (r *ruled) pass() error {
	if r.count++; r.count > maxEntries {
		return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree has more than %d files and folders", maxEntries)
	}
	return nil
}

// A stranger is in the working tree but not in the commit.
type stranger struct {
	name   string
	folder bool
}

// copyRules copies a file that says what is ignored or converted to where git
// looks for it.
func (r *ruled) copyRules(name string, e fs.DirEntry) error {
	if base := e.Name(); base != ".gitignore" && base != ".gitattributes" || !e.Type().IsRegular() {
		return nil
	}
	b, err := readSmall(r.tree, name, maxInfo)
	if err != nil {
		return explain(name, err)
	}
	if r.bytes += len(b); r.bytes > maxRules {
		return hub.Errorf(hub.CodeTooLarge, "evidence.Repository", "the working tree has more than %d bytes of rules", maxRules)
	}
	if err := r.scratch.tree.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	return r.scratch.tree.WriteFile(name, b, 0o600)
}

// ignored asks git which names are ignored.
func (r *ruled) ignored(ctx context.Context, strangers []stranger) (map[string]bool, error) {
	if len(strangers) == 0 {
		return nil, nil
	}
	const here = "./" // keeps a name that begins with a colon from meaning something
	var input []byte
	for _, s := range strangers {
		if s.folder { // some rules are for folders only
			if err := r.scratch.tree.MkdirAll(s.name, 0o700); err != nil {
				return nil, err
			}
		}
		input = append(append(append(input, here...), s.name...), 0)
	}
	names := map[string]bool{}
	err := r.scratch.run(ctx, input, func(out io.Reader) error {
		for name, err := range zeroTerminated(out) {
			if err != nil {
				return err
			}
			names[strings.TrimPrefix(name, here)] = true
		}
		return nil
	}, "check-ignore", "-z", "--stdin")
	var exit *exitError
	if errors.As(err, &exit) && exit.code == 1 { // none
		return nil, nil
	}
	return names, err
}
