package durable

import (
	"os"
	"syscall"
	"unsafe"
)

// Flags of MoveFileExW.
const (
	moveReplaceExisting = 0x1
	moveWriteThrough    = 0x8 // return only when the move is on disk
)

var moveFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("MoveFileExW")

func rename(from, to string) error {
	fail := func(err error) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: err} }
	old, err := syscall.UTF16PtrFromString(from)
	if err != nil {
		return fail(err)
	}
	new, err := syscall.UTF16PtrFromString(to)
	if err != nil {
		return fail(err)
	}
	ok, _, err := moveFileEx.Call(uintptr(unsafe.Pointer(old)), uintptr(unsafe.Pointer(new)), moveReplaceExisting|moveWriteThrough)
	if ok == 0 {
		return fail(err)
	}
	return nil
}

// SyncDir does nothing: Windows cannot sync a folder, and rename writes through.
func SyncDir(string) error { return nil }
