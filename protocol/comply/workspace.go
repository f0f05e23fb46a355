package comply

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/protocol/comply/jsont"
)

// A workspace has the folders of one test: a sandbox that the agent works in, a
// home, and a folder for temporary files. All lie in root, which newWorkspace makes
// and remove removes.
type workspace struct{ root, sandbox, home, temp string }

// tempName is the name of the folder for temporary files.
const tempName = "tmp"

// newWorkspace makes a workspace with files in its sandbox.
func newWorkspace(parent string, files []jsont.File) (_ *workspace, err error) {
	root, err := os.MkdirTemp(parent, "comply-")
	if err != nil {
		return nil, err
	}
	w := &workspace{root: root}
	defer func() {
		if err != nil {
			w.remove()
		}
	}()
	// Agents report real paths, and tests compare them as text.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	w.root = root
	w.sandbox = filepath.Join(root, "sandbox")
	w.home = filepath.Join(root, "home")
	w.temp = filepath.Join(root, tempName)
	for _, dir := range []string{w.sandbox, w.home, w.temp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return w, w.fill(files)
}

// fill writes the files of a test.
func (w *workspace) fill(files []jsont.File) error {
	dir, err := os.OpenRoot(w.sandbox)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if err := dir.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		if err := dir.WriteFile(name, f.Data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}

// remove removes all folders, also those that the agent has made unwritable.
func (w *workspace) remove() error {
	if os.RemoveAll(w.root) == nil {
		return nil
	}
	// A folder without the right to write keeps its files from being removed.
	filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700) // the second try shows whether it helped
		}
		return nil
	})
	return os.RemoveAll(w.root)
}
