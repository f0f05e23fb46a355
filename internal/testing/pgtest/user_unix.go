//go:build unix

package pgtest

import "syscall"

// runAs makes a process run as another user.
func runAs(a *syscall.SysProcAttr, uid, gid int) {
	a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
