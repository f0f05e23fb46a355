// Package blobs keeps content in files named by its SHA-256. Content that is too
// large for a message goes here, and the message carries the reference.
package blobs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

// Options changes how a Store works. The zero value works.
type Options struct {
	MaxFile  int64 // bytes of one file; default 64 MiB
	MaxTotal int64 // bytes of all; default 1 GiB
}

// A Store is a folder of files. It is safe for concurrent use.
type Store struct {
	dir      string
	maxFile  int64
	maxTotal int64

	mu      sync.Mutex // guards stored and pending
	stored  int64      // bytes; perhaps more than there are, never fewer
	pending int64      // bytes that are on their way
}

// Open returns the store in dir, which is made when something is put there.
func Open(dir string, opts *Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	s := &Store{dir: dir, maxFile: 64 << 20, maxTotal: 1 << 30}
	if opts != nil && opts.MaxFile > 0 {
		s.maxFile = opts.MaxFile
	}
	if opts != nil && opts.MaxTotal > 0 {
		s.maxTotal = opts.MaxTotal
	}
	err = s.each(func(path string, d fs.DirEntry) error {
		if filepath.Ext(path) == partial {
			return os.Remove(path) // left by a crash
		}
		return nil
	})
	if err == nil {
		s.stored, err = s.size()
	}
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	return s, nil
}

// each calls f for every file.
func (s *Store) each(f func(path string, d fs.DirEntry) error) error {
	return filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = f(path, d)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing was stored yet, or it was removed meanwhile
		}
		return err
	})
}

// Each calls f with the hash of everything that is stored.
func (s *Store) Each(f func(sha256 string) error) error {
	return s.each(func(path string, _ fs.DirEntry) error {
		if filepath.Ext(path) == partial {
			return nil
		}
		return f(filepath.Base(filepath.Dir(path)) + filepath.Base(path))
	})
}

// size returns how many bytes are stored.
func (s *Store) size() (n int64, err error) {
	err = s.each(func(path string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil && filepath.Ext(path) != partial {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// partial ends the name of a file that is being written.
const partial = ".partial"

// Put stores the content of r, syncs it to disk, and returns its path, its
// hash and its size. Content that is there already is not stored twice. Bytes
// count against the total from the moment they arrive.
func (s *Store) Put(r io.Reader) (path, sum string, size int64, err error) {
	const op = "blobs.Put"
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", "", 0, degraded(op, err)
	}

	tmp, err := os.CreateTemp(s.dir, "*"+partial)
	if err != nil {
		return "", "", 0, degraded(op, err)
	}
	defer os.Remove(tmp.Name()) // after the rename there is nothing to remove
	defer tmp.Close()

	// Bytes are reserved as they arrive, and stay reserved only if the content is kept.
	kept := false
	disk := &diskWriter{s: s, f: tmp}
	defer func() { s.release(disk.reserved, kept) }()

	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(disk, hash), io.LimitReader(r, s.maxFile+1))
	var refused *hub.Error
	switch {
	case errors.As(err, &refused):
		return "", "", 0, refused
	case err != nil:
		return "", "", 0, hub.Errorf(hub.CodeInvalid, op, "the content ended early: %v", err)
	case size > s.maxFile:
		return "", "", 0, hub.Errorf(hub.CodeTooLarge, op, "the artifact is larger than %d bytes", s.maxFile)
	}

	// The hash is the name, so that a file of that name has this content.
	sum = hex.EncodeToString(hash.Sum(nil))
	path = s.path(sum)
	if _, err := os.Stat(path); err == nil {
		return path, sum, size, nil
	}

	if err := keep(tmp, path); err != nil {
		return "", "", 0, degraded(op, err)
	}
	kept = true
	return path, sum, size, nil
}

// keep makes a written file permanent under its name.
func keep(tmp *os.File, path string) error {
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Rename(tmp.Name(), path)
}

// Open returns stored content. It reports CodeNotFound when there is none.
func (s *Store) Open(sum string) (*os.File, error) {
	const op = "blobs.Open"
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != sum {
		return nil, hub.Errorf(hub.CodeInvalid, op, "%q is not a SHA-256 in lower-case hex", sum)
	}
	f, err := os.Open(s.path(sum))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hub.Errorf(hub.CodeNotFound, op, "no artifact with hash %s", sum)
	case err != nil:
		return nil, degraded(op, err)
	}
	return f, nil
}

// Remove removes stored content, if it is there.
func (s *Store) Remove(sum string) error {
	f, err := s.Open(sum)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close(), os.Remove(s.path(sum))); err != nil {
		return degraded("blobs.Remove", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored -= info.Size()
	return nil
}

func (s *Store) path(sum string) string { return filepath.Join(s.dir, sum[:2], sum[2:]) }

// reserve makes room for bytes that have arrived, and reports whether there was.
func (s *Store) reserve(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored+s.pending+size > s.maxTotal {
		return false
	}
	s.pending += size
	return true
}

// recount reserves room after it has counted the files: some may have been
// removed, and content that arrived twice at once was counted twice.
func (s *Store) recount(op string, size int64) error {
	stored, err := s.size()
	if err != nil {
		return degraded(op, err)
	}
	s.mu.Lock()
	s.stored = stored
	s.mu.Unlock()
	if !s.reserve(size) {
		return hub.Errorf(hub.CodeTooLarge, op, "this hub's artifacts have reached their limit of %d bytes", s.maxTotal).
			WithHint("the operator can remove old files from the hub's artifacts folder")
	}
	return nil
}

// release ends a reservation; kept says whether its bytes were stored.
func (s *Store) release(size int64, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending -= size
	if kept {
		s.stored += size
	}
}

// A diskWriter writes a file, after it has reserved room for the bytes. Its errors
// are of type *hub.Error, unlike those of the reader beside it.
type diskWriter struct {
	s        *Store
	f        *os.File
	reserved int64
}

func (w *diskWriter) Write(b []byte) (int, error) {
	const op = "blobs.Put"
	size := int64(len(b))
	if !w.s.reserve(size) {
		if err := w.s.recount(op, size); err != nil {
			return 0, err
		}
	}
	w.reserved += size
	n, err := w.f.Write(b)
	if err != nil {
		return n, degraded(op, err)
	}
	return n, nil
}

func degraded(op string, err error) *hub.Error {
	e := hub.Errorf(hub.CodeDegraded, op, "cannot store or read the artifact now: %w", err)
	if errors.Is(err, syscall.ENOSPC) {
		return e.WithHint("the disk is full; free some space and try again")
	}
	return e.WithHint("make the hub's artifacts folder writable")
}
