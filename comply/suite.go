package comply

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed suite/*.jsont
var shipped embed.FS

// Suite returns the tests that are built in.
func Suite() ([]*Test, error) {
	dir, err := fs.Sub(shipped, "suite")
	if err != nil {
		return nil, err
	}
	return load(dir, func(name string) string { return name })
}

// Load reads all tests in a folder and the folders in it. All broken files are
// in the error, each as a *FileError.
func Load(dir string) ([]*Test, error) {
	tests, err := load(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
	if err == nil && len(tests) == 0 {
		return nil, fmt.Errorf("comply: there is no %s file in %s", Extension, dir)
	}
	return tests, err
}

func load(dir fs.FS, place func(string) string) (tests []*Test, _ error) {
	var bad []error
	seen := map[string]string{}
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(name, Extension) {
			return nil
		}
		source, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		t, err := Parse(place(name), source)
		if err != nil {
			bad = append(bad, err)
			return nil
		}
		if other, ok := seen[t.ID]; ok {
			bad = append(bad, &FileError{t.Path, 1, fmt.Errorf("its id is that of %s: file names must differ", other)})
			return nil
		}
		seen[t.ID] = t.Path
		tests = append(tests, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("comply: read tests: %w", err)
	}
	// Required tests come first: "required" sorts after "optional".
	slices.SortFunc(tests, func(a, b *Test) int {
		if a.Severity != b.Severity {
			return strings.Compare(string(b.Severity), string(a.Severity))
		}
		return strings.Compare(a.ID, b.ID)
	})
	return tests, errors.Join(bad...)
}
