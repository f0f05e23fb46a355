//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package upgrade

import (
	"context"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// lockTry is the time between two attempts to lock a folder.
const lockTry = 50 * time.Millisecond

// lock waits until no other process replaces a program in the folder. It needs no file of its own.
// A file system that cannot lock a folder, such as NFS, does not prevent an upgrade.
func lock(ctx context.Context, folder string) (unlock func() error, err error) {
	l := flock.New(folder, flock.SetFlag(os.O_RDONLY))
	if _, err := l.TryLockContext(ctx, lockTry); ctx.Err() != nil {
		return nil, err
	}
	return l.Unlock, nil
}
