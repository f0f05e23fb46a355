package comply

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/comply/jsont"
)

//go:embed suite/*.jsont
var suite embed.FS

// Suite returns the built-in tests.
func Suite() ([]*jsont.Test, error) {
	// The path of a built-in test is its name, for reports.
	dir, err := fs.Sub(suite, "suite")
	if err != nil {
		return nil, err
	}
	return jsont.Load(dir, func(name string) string { return name })
}

// Load reads all tests in a folder and the folders in it. All broken files are
// in the error, each as a *FileError.
func Load(dir string) ([]*jsont.Test, error) {
	tests, err := jsont.Load(os.DirFS(dir), func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) })
	if err == nil && len(tests) == 0 {
		return nil, fmt.Errorf("comply: there is no %s file in %s", jsont.Extension, dir)
	}
	return tests, err
}
