// Package keep keeps the uncommitted content of working trees in a store of its own.
//
// A [Store] is a folder in the hub's home with one store of objects for each repository of a
// user. [Store.Keep] writes the state of a working tree there: for each path that differs from
// the checked-out commit its bytes, its mode and its state in the index, the small ignored
// files, the entries of the stash, and the commits of branches that no remote has. Equal states
// are one. [Store.Back] writes files of a state into a tree, [Store.Sweep] removes states that no
// longer belong to anything.
//
// Nothing of the user's repository changes: git only lists there, in commands that convert no
// content and take no lock, and none of the repository's programs runs. Files are read here, as
// they are, and never through a link. A tree in which nothing changed costs one look at each of
// its files and folders: their sizes, times and inodes are compared with those of the last look.
//
// A state is written after all its objects. A process that is killed in between leaves objects
// that the next sweep removes.
package keep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/durable"
)

const (
	maxFile       = 50 << 20 // bytes of a file; a larger one is named
	maxIgnored    = 1 << 20  // bytes of an ignored file
	maxIgnoredAll = 200      // ignored files of one state
	maxEntries    = 1000     // of an ignored folder; a larger one is named
	maxCompared   = 1 << 20  // bytes of a file whose lines are counted
	maxList       = 1 << 28  // bytes of a list of git
	spareDisk     = 4 << 20  // bytes that a keeping leaves free on the disk of the store

	objectFolder = "objects"
	stateFolder  = "states"
	packFolder   = "packs"
	draftName    = "tmp-"        // begins the names of files that are being written
	originFile   = "parley.json" // in the folder of a repository's store
)

// A Store is the folder of kept work in a hub's home. One process uses it at a time. It is safe
// for concurrent use.
type Store struct {
	folder string
	pause  func(before string) // called before each write to the store; for tests

	mu    sync.Mutex // guards repos
	repos map[string]*repo
}

// A repo is the store of one repository.
type repo struct {
	folder string
	lock   chan struct{} // has room for one holder: a keeping, a return of files, a sweep

	// tables are the last looks at working trees, by their tops. They are guarded by lock.
	tables map[string]*table
}

// Open opens the folder of kept work, and makes it if there is none. It removes what a killed
// process was writing.
func Open(folder string) (*Store, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	s := &Store{folder: folder, pause: func(string) {}, repos: map[string]*repo{}}
	for _, below := range []string{"*/*", "*/" + objectFolder + "/*"} {
		drafts, _ := filepath.Glob(filepath.Join(folder, filepath.FromSlash(below), draftName+"*")) // the pattern is valid
		for _, draft := range drafts {
			if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return s, nil
}

// keyOf returns the name of the store of a repository, and of a folder without git.
func keyOf(t hub.WorkingTree) string {
	of := t.Repository
	if of == "" {
		of = "folder " + t.Path
	}
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:16])
}

// Folder returns the folder with the kept work of the repository of a tree.
func (s *Store) Folder(t hub.WorkingTree) string { return filepath.Join(s.folder, keyOf(t)) }

// open returns the store of the repository of a tree, locked, and the function that unlocks it.
func (s *Store) open(ctx context.Context, t hub.WorkingTree) (*repo, func(), error) {
	s.mu.Lock()
	r := s.repos[keyOf(t)]
	if r == nil {
		r = &repo{folder: s.Folder(t), lock: make(chan struct{}, 1), tables: map[string]*table{}}
		s.repos[keyOf(t)] = r
	}
	s.mu.Unlock()

	select {
	case r.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, hub.Errorf(hub.CodeOverloaded, "keep.Open", "the hub is still keeping the work in %s: %w", t.Path, ctx.Err())
	}
	unlock := func() { <-r.lock }
	for _, name := range []string{objectFolder, stateFolder, packFolder} {
		if err := os.MkdirAll(filepath.Join(r.folder, name), 0o700); err != nil {
			unlock()
			return nil, nil, full(err)
		}
	}
	return r, unlock, nil
}

// full returns an error of writing to the store with its code.
func full(err error) error {
	return hub.Errorf(hub.CodeDegraded, "keep.Write", "the store of kept work cannot be written: %w", err)
}

// A state is the uncommitted state of a working tree, as it is stored.
type state struct {
	Version int             `json:"version"`
	Tree    string          `json:"tree"`
	Files   []file          `json:"files"`
	Stash   []stashed       `json:"stash,omitempty"`
	Refs    []ref           `json:"refs,omitempty"`  // the branches of the repository
	Packs   []string        `json:"packs,omitempty"` // with the commits of the branches that no remote has
	Clean   map[name]string `json:"clean,omitempty"` // files of the state before a command that are not in Files, with their objects now
	Summary hub.KeptState   `json:"summary"`
}

// A file is a path that differs from the base, or a small ignored file.
type file struct {
	Path  name   `json:"path"`
	Blob  string `json:"blob,omitempty"` // empty if the path is not in the tree
	Mode  uint32 `json:"mode,omitempty"` // as fs.FileMode: the permissions, and whether it is a link
	Size  int64  `json:"size,omitempty"`
	Kind  string `json:"kind"`            // as hub.KeptFile.State
	Base  string `json:"base,omitempty"`  // the object in the checked-out commit
	Index *entry `json:"index,omitempty"` // nil if the index has the path as the base does
}

// An entry is a path in the index.
type entry struct {
	Mode string `json:"mode,omitempty"` // empty if the path was removed from the index
	Blob string `json:"blob,omitempty"`
}

// A ref is a branch with its commit.
type ref struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
}

// A stashed is an entry of the stash with the files that it changes.
type stashed struct {
	Commit  string `json:"commit"`
	Parent  string `json:"parent"`
	Message string `json:"message"`
	Files   []file `json:"files"`
}

// A name is a path with slashes, whose bytes need not be UTF-8.
type name string

// MarshalText writes bytes that JSON cannot have, and the percent sign, as % and two digits.
func (n name) MarshalText() ([]byte, error) {
	var b strings.Builder
	for i := 0; i < len(n); i++ {
		isPlain := n[i] >= 0x20 && n[i] < 0x7f && n[i] != '%'
		if isPlain {
			b.WriteByte(n[i])
			continue
		}
		fmt.Fprintf(&b, "%%%02x", n[i])
	}
	return []byte(b.String()), nil
}

// UnmarshalText reads a name that MarshalText wrote.
func (n *name) UnmarshalText(text []byte) error {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+2 >= len(text) {
			return errors.New("keep: a name ends in the middle of a byte")
		}
		raw, err := hex.DecodeString(string(text[i+1 : i+3]))
		if err != nil {
			return err
		}
		b.WriteByte(raw[0])
		i += 2
	}
	*n = name(b.String())
	return nil
}

// writeState stores a state and returns it with its id.
func (r *repo) writeState(v state, pause func(string)) (state, error) {
	v.Version = 1
	v.Summary.ID = ""
	raw, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	sum := sha256.Sum256(raw)
	v.Summary.ID = hex.EncodeToString(sum[:20])
	file := filepath.Join(r.folder, stateFolder, v.Summary.ID)
	if _, err := os.Lstat(file); err == nil {
		return v, nil
	}
	pause("state")
	return v, r.write(file, raw)
}

// readState returns a stored state. It reports CodeNotFound if there is none.
func (r *repo) readState(id string) (state, error) {
	var v state
	if id == "" || strings.ContainsAny(id, `/\.`) {
		return v, hub.Errorf(hub.CodeNotFound, "keep.Read", "no kept state %.60q", id)
	}
	raw, err := os.ReadFile(filepath.Join(r.folder, stateFolder, id))
	if errors.Is(err, fs.ErrNotExist) {
		return v, hub.Errorf(hub.CodeNotFound, "keep.Read", "the kept state %.60s is not in the store", id)
	}
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("keep: read the state %s: %w", id, err)
	}
	v.Summary.ID = id
	return v, nil
}

// write writes a file that appears whole or not at all.
func (r *repo) write(file string, content []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(file), draftName)
	if err != nil {
		return full(err)
	}
	_, err = draft.Write(content)
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), file)
	}
	if err != nil {
		os.Remove(draft.Name())
		return full(err)
	}
	return nil
}

// hasRoom reports whether the disk of the store has room for some bytes.
func (r *repo) hasRoom(bytes int64) error {
	free, known := durable.Free(r.folder)
	if known && free < uint64(bytes)+spareDisk {
		return hub.Errorf(hub.CodeDegraded, "keep.Write", "the disk of the hub has %d bytes left, and the changed files have %d", free, bytes)
	}
	return nil
}
