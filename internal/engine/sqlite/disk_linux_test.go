package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		const missing = "mounting a small tmpfs needs root (CAP_SYS_ADMIN)"
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %v", missing, err)
		}
		t.Skipf("%s: %v", missing, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	t.Run("R3-115 a full disk is reported, and forgotten when there is room", func(t *testing.T) {
		dir := smallDisk(t)
		s := openAt(t, dir, &Options{busy: testBusy})
		first := put(t, s)

		filler := filepath.Join(dir, "filler")
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for block := bytes.Repeat([]byte{1}, 4096); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		f.Close()

		var failed error
		for range 5000 { // what was allocated before may still be used
			if _, failed = tryPut(s); failed != nil {
				break
			}
		}
		wantCode(t, failed, hub.CodeDegraded)
		wantMessage(t, s, first) // reading goes on
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, s, put(t, s))
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
