package hubtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of a few MiB.
func SmallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
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

// FillDisk takes what is left on the disk and returns how to give it back.
func FillDisk(t *testing.T, dir string) (empty func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for block := bytes.Repeat([]byte{1}, 4096); ; {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	f.Close()
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}
