package jsont

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Load reads all tests in a file system, required ones first, then by id. path
// returns the path of a file for people. All broken files are in the error, each
// as a *FileError.
// A broken file does not hide others: all files are read, and the tests that are
// good are returned beside the error.
func Load(dir fs.FS, path func(string) string) (tests []*Test, _ error) {
	var bad []error
	// Ids name tests in reports and baselines, so they must be unique over all
	// folders.
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
		t, err := Parse(path(name), source)
		if err != nil {
			bad = append(bad, err)
			return nil
		}

		if other, ok := seen[t.ID]; ok {
			bad = append(bad, &FileError{t.Path, 1, fmt.Errorf("the id is already used by %s: file names must be unique", other)})
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
