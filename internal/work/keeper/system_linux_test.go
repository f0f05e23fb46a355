package keeper

import (
	"os"
	"syscall"
	"testing"
)

func TestLockFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFolder(dir); err == nil {
		t.Error("a folder was locked twice")
	}
	unlock()
	again, err := lockFolder(dir)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	again()
	if _, err := lockFolder(dir + "/none"); err == nil {
		t.Error("a folder that does not exist was locked")
	}
}

func TestResident(t *testing.T) {
	group, err := syscall.Getpgid(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got := resident(group); got < 1 {
		t.Errorf("the processes of this group have %d MiB", got)
	}
}
