// Package process identifies processes of this machine: a number alone does not,
// because the system uses numbers again.
package process

import "strings"

// Stamp names the instant at which a process began, and the machine on which its number
// counts: the boot, the namespace of process numbers and the ticks since the boot. It is
// empty for a process that has ended, and on systems that do not tell it.
func Stamp(pid int) string {
	here, began := place(), ticks(pid)
	if here == "" || began == "" {
		return ""
	}
	return here + "/" + began
}

// Ended reports whether the process of a number and a stamp is known to have ended. It
// reports false for a stamp of another machine or namespace, and without a stamp: there
// the number says nothing.
func Ended(pid int, stamp string) bool {
	here := place()
	if pid <= 0 || here == "" {
		return false
	}
	began, ok := strings.CutPrefix(stamp, here+"/")
	return ok && began != ticks(pid)
}

// Began returns the boot and the ticks at which a process began; "" for one that has
// ended, and on systems that do not tell it.
func Began(pid int) string {
	id, began := boot(), ticks(pid)
	if id == "" || began == "" {
		return ""
	}
	return id + "/" + began
}
