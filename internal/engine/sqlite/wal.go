package sqlite

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3/vfs"
)

// walVFS is the file system of the operating system, except that a write-ahead
// log is written in large pieces: the engine writes header and page of each
// frame by themselves, which makes dozens of system calls for one commit.
const walVFS = "parley-wal"

func init() {
	vfs.Register(walVFS, logVFS{vfs.Find("").(vfs.VFSFilename)})
}

// databaseURI returns the name under which the engine opens a file through
// walVFS.
func databaseURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/...
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "vfs=" + walVFS}
	return u.String()
}

type logVFS struct{ vfs.VFSFilename }

// OpenFilename implements vfs.VFSFilename.
func (v logVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		file = &logFile{File: file}
	}
	return file, flags, err
}

const (
	frameHeader = 24      // bytes before each page; 4 to 8 are not 0 in the last frame of a commit
	maxHeld     = 1 << 20 // bytes of frames that are held back
)

// A logFile is a write-ahead log as one connection has it open. Frames at its
// end are held back until the last one of their commit, and written with it.
// Nobody looks for them before that: the engine tells others of a commit after
// it has written all of it. Everything else is done at once, after what is held
// back.
type logFile struct {
	vfs.File
	held  []byte // frames, and maybe a header
	start int64  // where held belongs
	page  bool   // a page is due, whose header was held back
	last  bool   // it ends a commit
	end   int64  // after what was written or held back last
}

// WriteAt implements vfs.File.
func (f *logFile) WriteAt(p []byte, off int64) (int, error) {
	frame := off == f.end && (f.page || len(p) == frameHeader)
	f.end = off + int64(len(p))
	if !frame {
		if err := f.flush(); err != nil {
			return 0, err
		}
		return f.File.WriteAt(p, off)
	}
	if len(f.held) == 0 {
		f.start = off
	}
	f.held = append(f.held, p...)
	if f.page = !f.page; f.page {
		f.last = p[4]|p[5]|p[6]|p[7] != 0
		return len(p), nil
	}
	if f.last || len(f.held) >= maxHeld {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// flush writes what is held back. What cannot be written is forgotten: the
// engine undoes the transaction.
func (f *logFile) flush() error {
	f.page = false
	if len(f.held) == 0 {
		return nil
	}
	_, err := f.File.WriteAt(f.held, f.start)
	f.held = f.held[:0]
	return err
}

// ReadAt implements vfs.File.
func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// Truncate implements vfs.File.
func (f *logFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync implements vfs.File.
func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// Size implements vfs.File.
func (f *logFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Close implements vfs.File.
func (f *logFile) Close() error { return errors.Join(f.flush(), f.File.Close()) }
