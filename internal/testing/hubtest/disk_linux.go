package hubtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/patience"
)

// SmallDisk mounts a file system of a few MiB.
func SmallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	mounted(t, dir, syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)))
	return dir
}

// mounted unmounts a file system when the test ends. Without the rights to mount one
// the test is not run.
func mounted(t *testing.T, dir string, err error) {
	t.Helper()
	if err != nil {
		const missing = "mounting a small disk needs root (CAP_SYS_ADMIN)"
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
}

// An ExtDisk is a file system of a few MiB that can become read-only while files on it
// are open for writing.
type ExtDisk struct {
	Dir   string
	image string
}

// NewExtDisk mounts an ExtDisk.
func NewExtDisk(t *testing.T, size int) *ExtDisk {
	t.Helper()
	d := &ExtDisk{Dir: t.TempDir(), image: filepath.Join(t.TempDir(), "disk")}
	err := os.WriteFile(d.image, nil, 0o600)
	if err == nil {
		err = os.Truncate(d.image, int64(size)<<20)
	}
	if err == nil {
		err = command("mkfs.ext4", "-q", d.image)
	}
	if err == nil {
		err = command("mount", "-o", "loop", d.image, d.Dir)
	}
	mounted(t, d.Dir, err)
	return d
}

// Fail makes the disk read-only, as the kernel does after an error of the device.
// Remount ends that; no file may be open.
func (d *ExtDisk) Fail(t *testing.T) {
	t.Helper()
	if err := command("mount", "-o", "remount,abort", d.Dir); err != nil {
		t.Fatal(err)
	}
}

// Remount mounts a disk anew that has failed. A process that was started with mounts of its own, such
// as a confined check of another test, keeps the failed disk until it ends, and a new mount is the
// same disk until then.
func (d *ExtDisk) Remount(t *testing.T) {
	t.Helper()
	probe := filepath.Join(d.Dir, "probe")
	for end := time.Now().Add(patience.For(time.Minute)); ; {
		if err := errors.Join(command("umount", d.Dir), command("mount", "-o", "loop", d.image, d.Dir)); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(probe, nil, 0o600)
		if err == nil {
			err = os.Remove(probe)
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Lock makes every file and folder on the disk immutable, and returns how to end that. The
// -shm files of SQLite are memory that processes share: the kernel ends a process that writes
// into an immutable one.
func (d *ExtDisk) Lock(t *testing.T) (unlock func()) {
	t.Helper()
	flag := func(f string) {
		t.Helper()
		var err error
		for range 5 { // a hub may remove a file meanwhile
			args := []string{f}
			err = filepath.WalkDir(d.Dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && (e.IsDir() || e.Type().IsRegular()) && !strings.HasSuffix(path, "-shm") {
					args = append(args, path)
				}
				return err
			})
			if err = errors.Join(err, command("chattr", args...)); err == nil {
				return
			}
		}
		t.Fatal(err)
	}
	flag("+i")
	return func() { flag("-i") }
}

// command runs a program of the system.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
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
