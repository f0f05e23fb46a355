//go:build !unix

package pgtest

import "syscall"

// runAs does nothing here: there is no root to run PostgreSQL as.
func runAs(*syscall.SysProcAttr, int, int) {}
