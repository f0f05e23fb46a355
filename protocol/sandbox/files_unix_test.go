//go:build unix

package sandbox_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/protocol/sandbox"
)

func TestOnlyRegularFiles(t *testing.T) {
	root := folder(t)
	must(t, syscall.Mkfifo(root+"/pipe", 0o644))
	// The name of a socket must be short, so it is made by a relative one.
	t.Chdir(root)
	listener, err := net.Listen("unix", "socket")
	must(t, err)
	defer listener.Close()
	files := sandbox.NewFiles(open(t, root, "/dev"))
	for _, path := range []string{root + "/pipe", root + "/socket", "/dev/zero", "/dev/null", "/dev/tty"} {
		t.Run(filepath.Base(path)+" is not read, and nothing waits", func(t *testing.T) {
			_, err := files.Read(t.Context(), path, 1, 1)
			wantCode(t, err, sandbox.CodeNotRegular)
		})
		t.Run(filepath.Base(path)+" is not written, and nothing waits", func(t *testing.T) {
			wantCode(t, files.Write(t.Context(), path, "text"), sandbox.CodeNotRegular)
			if info, err := os.Lstat(path); err != nil || info.Mode().IsRegular() {
				t.Errorf("got %v (%v), want that it is still there", info, err)
			}
		})
	}
}

// While somebody swaps a file for a pipe and back, nobody waits for the pipe's
// other end.
func TestPipesThatAppear(t *testing.T) {
	root := folder(t)
	path := root + "/bait"
	put(t, path, "harmless")
	files := sandbox.NewFiles(open(t, root))
	churn(t, func(int) {
		if err := errors.Join(
			syscall.Mkfifo(root+"/next", 0o644), os.Rename(root+"/next", path),
			os.WriteFile(root+"/next", []byte("harmless"), 0o644), os.Rename(root+"/next", path),
		); err != nil {
			t.Error(err)
		}
	})
	for range 20_000 {
		got, err := files.Read(t.Context(), path, 1, sandbox.AllLines)
		if code := sandbox.CodeOf(err); code != sandbox.CodeNotRegular && (err != nil || got != "harmless") {
			t.Fatalf("read: got %q (%v), want the text or %s", got, err, sandbox.CodeNotRegular)
		}
	}
}

func TestWriteKeepsPermissions(t *testing.T) {
	root := folder(t)
	files := sandbox.NewFiles(open(t, root))
	for _, want := range []os.FileMode{0o600, 0o644, 0o755, 0o777} {
		path := filepath.Join(root, want.String())
		put(t, path, "old")
		must(t, os.Chmod(path, want))
		must(t, files.Write(t.Context(), path, "new"))
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("permissions: got %v, want %v", got, want)
		}
	}
}

func TestPermissionsOfTheSystemCount(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("the superuser may do anything; run this as another user too")
		return
	}
	root := folder(t)
	put(t, root+"/locked", "old")
	must(t, os.Chmod(root+"/locked", 0o400))
	put(t, root+"/hidden", "old")
	must(t, os.Chmod(root+"/hidden", 0o000))
	files := sandbox.NewFiles(open(t, root))
	t.Run("a file that may not be written is not replaced", func(t *testing.T) {
		wantCode(t, files.Write(t.Context(), root+"/locked", "new"), sandbox.CodePermission)
	})
	t.Run("a file that may not be read is not", func(t *testing.T) {
		_, err := files.Read(t.Context(), root+"/hidden", 1, sandbox.AllLines)
		wantCode(t, err, sandbox.CodePermission)
	})
}
