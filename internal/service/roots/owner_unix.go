//go:build unix

package roots

import (
	"os"
	"syscall"
)

// sameOwner reports whether two folders belong to one user.
func sameOwner(a, b string) bool {
	x, errX := os.Lstat(a)
	y, errY := os.Lstat(b)
	if errX != nil || errY != nil {
		return false
	}
	ownerX, okX := x.Sys().(*syscall.Stat_t)
	ownerY, okY := y.Sys().(*syscall.Stat_t)
	return okX && okY && ownerX.Uid == ownerY.Uid
}
