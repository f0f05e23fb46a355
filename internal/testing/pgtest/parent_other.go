//go:build !linux

package pgtest

import "syscall"

// endsWithParent does nothing here: Main ends the server.
func endsWithParent(*syscall.SysProcAttr) {}
