package keep

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A stamp is the state of a file or folder as the system tells it without reading it.
type stamp struct {
	size    int64
	mode    fs.FileMode
	written int64 // nanoseconds
	changed int64 // nanoseconds
	inode   uint64
	missing bool
}

func stampOf(info fs.FileInfo) stamp {
	inode, changed := nodeOf(info)
	return stamp{size: info.Size(), mode: info.Mode(), written: info.ModTime().UnixNano(), changed: changed.UnixNano(), inode: inode}
}

// lookAt returns the stamp of a path. One that cannot be read counts as missing.
func lookAt(path string) stamp {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{missing: true}
	}
	return stampOf(info)
}

// settleTime is the time after a write within which a second write can leave the same stamp:
// systems count times in steps.
const settleTime = 100 * time.Millisecond

// isFresh reports whether a file was written so shortly before a look that its stamp proves
// nothing.
func (s stamp) isFresh(at time.Time) bool {
	last := max(s.written, s.changed)
	return !s.missing && last > at.Add(-settleTime).UnixNano()
}

// A table is the last look at a working tree: the stamps of its files and folders, of the files
// of git that say what is committed and ignored, and the state that was found.
type table struct {
	marks map[string]stamp // by absolute path
	state hub.KeptState
	fresh bool // a stamp proves nothing
	o     Options
}

// isUnchanged reports whether the files and folders of a table are as they were. It looks at each
// of them once.
func (t *table) isUnchanged(ctx context.Context) bool {
	if t == nil || t.fresh {
		return false
	}
	type mark struct {
		path string
		was  stamp
	}
	work := make(chan []mark, 8)
	var differs atomic.Bool
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for some := range work {
				for _, m := range some {
					if !differs.Load() && lookAt(m.path) != m.was {
						differs.Store(true)
					}
				}
			}
		})
	}
	var some []mark
	for path, was := range t.marks {
		if some = append(some, mark{path, was}); len(some) == 256 {
			work <- some
			some = nil
		}
		if differs.Load() || ctx.Err() != nil {
			break
		}
	}
	work <- some
	close(work)
	looks.Wait()
	return !differs.Load() && ctx.Err() == nil
}

// markFiles notes the files of git on which a state depends: the head, the index, the branches,
// the stash and the rules of ignored files.
func (t *table) markFiles(p place) {
	for _, name := range []string{"HEAD", "index", "config.worktree", "info/sparse-checkout"} {
		t.mark(filepath.Join(p.gitDir, filepath.FromSlash(name)))
	}
	for _, name := range []string{"config", "packed-refs", "info/exclude", "logs/refs/stash", "refs/stash"} {
		t.mark(filepath.Join(p.common, filepath.FromSlash(name)))
	}
	filepath.WalkDir(filepath.Join(p.common, "refs", "heads"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			t.mark(path)
		}
		return nil
	})
}

// mark notes the stamp of a path.
func (t *table) mark(path string) {
	t.note(path, lookAt(path))
}

// note notes a stamp that was read before the content was.
func (t *table) note(path string, s stamp) {
	t.marks[path] = s
}
