//go:build unix

package sandbox

import "syscall"

// openFlags keep an open from waiting for the other end of a pipe, and from taking a
// controlling terminal.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY
