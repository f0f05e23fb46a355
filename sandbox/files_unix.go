//go:build unix

package sandbox

import "syscall"

// openFlags keep an open from waiting for a pipe's other end, and a terminal
// from becoming ours.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY
