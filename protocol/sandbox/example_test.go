package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parley-agents/parley/protocol/sandbox"
)

// A texts is what a program that serves agents wants from a file system. It
// declares that itself; sandbox.Files is one, and so is editor.
type texts interface {
	Read(ctx context.Context, path string, line, limit int) (string, error)
	Write(ctx context.Context, path, text string) error
}

// An editor shows agents what is not saved yet.
type editor struct {
	texts
	unsaved map[string]string
}

func (e editor) Read(ctx context.Context, path string, line, limit int) (string, error) {
	if text, ok := e.unsaved[path]; ok && line <= 1 && limit == sandbox.AllLines {
		return text, nil
	}
	return e.texts.Read(ctx, path, line, limit)
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	roots, err := sandbox.Open(dir)
	if err != nil {
		panic(err)
	}
	defer roots.Close()

	path := filepath.Join(dir, "notes.txt")
	for _, files := range []texts{
		sandbox.NewFiles(roots),
		editor{sandbox.NewFiles(roots), map[string]string{path: "unsaved"}},
	} {
		err := files.Write(ctx, path, "saved")
		text, _ := files.Read(ctx, path, 1, sandbox.AllLines)
		fmt.Println(text, err)
		_, err = files.Read(ctx, "/etc/passwd", 1, sandbox.AllLines)
		fmt.Println(sandbox.CodeOf(err))
	}
	// Output:
	// saved <nil>
	// outside_roots
	// unsaved <nil>
	// outside_roots
}
