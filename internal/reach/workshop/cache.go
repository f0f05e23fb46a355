package workshop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Limits of a cache.
const (
	maxEntries    = 3        // of a check: the newest stay
	maxCacheBytes = 4 << 30  // of an entry
	maxCacheFiles = 400_000  // of an entry
	maxKeyBytes   = 64 << 20 // of the files of a setup key together
)

// caches are the kept folders of checks. An entry is a folder that is replaced whole: home, and
// the kept folders by their number. Nothing is shared between an entry and a run: a run gets a
// copy, and gives its own folders away when it fills an entry.
type caches struct {
	folder string

	mu    sync.Mutex               // guards locks
	locks map[string]*sync.RWMutex // of the folder of a check: it is copied from, or changed
}

// lock returns the lock of the entries of a check.
func (c *caches) lock(dir string) *sync.RWMutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks == nil {
		c.locks = map[string]*sync.RWMutex{}
	}
	if c.locks[dir] == nil {
		c.locks[dir] = new(sync.RWMutex)
	}
	return c.locks[dir]
}

// of returns the folder with the entries of a check.
func (c *caches) of(repository, name string) string {
	return filepath.Join(c.folder, short(repository), short(name))
}

// short returns a name for a folder, made of any text.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// cacheKey returns the name of the entry for a tree: the digest of the setup, the kept folders,
// the environment and its tools, and the files of the setup key.
func cacheKey(tree string, check Check, env []string) (string, error) {
	sum := sha256.New()
	put := func(parts ...string) {
		for _, part := range parts {
			fmt.Fprintf(sum, "%d:%s\n", len(part), part)
		}
	}
	for _, list := range [][]string{check.Setup, check.Keep, check.SetupKey} {
		put(strconv.Itoa(len(list)))
		put(list...)
	}
	put(runtime.GOOS, runtime.GOARCH)
	for _, name := range slices.Sorted(maps.Keys(check.Env)) {
		put(name, check.Env[name])
	}
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			put(path)
		}
	}
	put(tool(check.Setup), tool(check.Command))

	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", err
	}
	defer root.Close()
	left := int64(maxKeyBytes)
	for _, pattern := range check.SetupKey {
		names, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			return "", fmt.Errorf("the pattern %q: %w", pattern, err)
		}
		for _, name := range names {
			digest, err := fileDigest(root, name, &left)
			if err != nil {
				return "", fmt.Errorf("the setup key: %w", err)
			}
			put(name, digest)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// tool describes the program of a command: a new version of it makes a new entry.
func tool(command []string) string {
	if len(command) == 0 {
		return ""
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return command[0]
	}
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	return fmt.Sprint(path, " ", info.Size(), " ", info.ModTime().UnixNano())
}

// fileDigest returns the digest of a regular file, whose size is taken from left.
func fileDigest(root *os.Root, name string, left *int64) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	*left -= info.Size()
	if !info.Mode().IsRegular() || *left < 0 {
		return "", fmt.Errorf("%s is not a regular file, or too large", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, io.LimitReader(f, info.Size()))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// An entryCopy is what a run got from the cache.
type entryCopy struct {
	key  string
	own  []bool // by the number of a kept folder: the commit itself has something there
	full bool   // every kept folder is there
}

// get copies the entry of a key into the home folder and the tree of a run. A kept folder that
// the commit has itself is not replaced, and neither is one behind a link.
func (c *caches) get(ctx context.Context, dir, key, home, tree string, keep []string) (entryCopy, error) {
	e := entryCopy{key: key, own: make([]bool, len(keep)), full: true}
	for i, folder := range keep {
		e.own[i] = occupied(tree, folder)
	}
	lock := c.lock(dir)
	lock.RLock()
	defer lock.RUnlock()
	entry := filepath.Join(dir, key)
	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
		e.full = false
		return e, nil
	}

	var clone cloner
	if err := clone.tree(ctx, filepath.Join(entry, "home"), home); err != nil {
		return e, err
	}
	for i, folder := range keep {
		from := filepath.Join(entry, strconv.Itoa(i))
		if _, err := os.Stat(from); err != nil || e.own[i] {
			e.full = false
			continue
		}
		to := filepath.Join(tree, folder)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return e, err
		}
		if err := clone.tree(ctx, from, to); err != nil {
			return e, err
		}
	}
	return e, nil
}

// occupied reports whether there is something at a path in a tree, or a file or link on the way.
func occupied(tree, path string) bool {
	at := tree
	for _, part := range strings.Split(filepath.ToSlash(filepath.Clean(path)), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		if !info.IsDir() {
			return true
		}
	}
	return true
}

// put moves the home folder and the kept folders of a run into the entry of a key. An entry that
// would be too large is not made.
func (c *caches) put(ctx context.Context, dir string, e entryCopy, home, tree string, keep []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := os.Rename(home, filepath.Join(fresh, "home")); err != nil {
		return err
	}
	for i, folder := range keep {
		if e.own[i] || !plainFolder(tree, folder) {
			continue
		}
		if err := os.Rename(filepath.Join(tree, folder), filepath.Join(fresh, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	if !fits(ctx, fresh) {
		return nil
	}

	lock := c.lock(dir)
	lock.Lock()
	defer lock.Unlock()
	entry := filepath.Join(dir, e.key)
	old := fresh + ".old"
	if err := os.Rename(entry, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer os.RemoveAll(old)
	if err := os.Rename(fresh, entry); err != nil {
		return err
	}
	return c.trim(dir)
}

// plainFolder reports whether a path in a tree is a folder that no link leads to.
func plainFolder(tree, path string) bool {
	at := tree
	for _, part := range strings.Split(filepath.ToSlash(filepath.Clean(path)), "/") {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// fits reports whether a folder is not too large for a cache.
func fits(ctx context.Context, folder string) bool {
	var bytes, files int64
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		files++
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			bytes += info.Size()
		}
		if files > maxCacheFiles || bytes > maxCacheBytes {
			return errors.New("too large")
		}
		return nil
	})
	return err == nil
}

// trim removes the oldest entries of a check.
func (c *caches) trim(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type aged struct {
		name string
		at   int64
	}
	var all []aged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), "new-") {
			all = append(all, aged{e.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Compare(b.at, a.at) })
	for _, e := range all[min(len(all), maxEntries):] {
		if err := removeAll(filepath.Join(dir, e.name)); err != nil {
			return err
		}
	}
	return nil
}
