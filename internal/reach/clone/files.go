package clone

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"

	"github.com/parley-agents/parley/internal/ground/git"
)

// files are the files of one working tree. All paths are relative to its top, with slashes,
// and no operation leaves it.
type files struct {
	tree    tree
	source  source
	root    *os.Root
	scratch *git.Scratch
	pause   func(before string) // see Copies

	raw      bool // files count in the form in which they are, too
	modes    bool // the file system keeps the permission to execute
	links    bool // links are links
	caseless bool // names that differ in case only are one file
}

// openFiles opens the files of a tree, which the caller closes.
func (c *Copies) openFiles(ctx context.Context, s source, t tree) (*files, error) {
	root, err := os.OpenRoot(t.Folder)
	if err != nil {
		return nil, err
	}
	scratch, err := git.NewScratch(ctx, c.folder, t.Folder, t.GitDir, s.common)
	if err != nil {
		root.Close()
		return nil, failed(err, "read the settings", t.Folder)
	}
	return &files{
		tree:     t,
		source:   s,
		root:     root,
		scratch:  scratch,
		pause:    c.pause,
		modes:    scratch.Is("core.filemode", true),
		links:    scratch.Is("core.symlinks", true),
		caseless: scratch.Is("core.ignorecase", false),
	}, nil
}

func (f *files) close() {
	f.root.Close()
	f.scratch.Close()
}

// A state is what a working tree has at a path. Its zero value stands for nothing.
type state struct {
	info   fs.FileInfo // nil if there is nothing
	id     string      // of the content as git would store it; "" for a folder or a device
	raw    string      // of the content without the conversion by filters; may be ""
	parent string      // the folder above that is none, so that there can be nothing
}

// absent reports whether there is nothing at the path.
func (s state) absent() bool { return s.info == nil }

// same reports whether a state still is that of a file, which has not been written since.
func (s state) same(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.Mode() == info.Mode() && s.info.ModTime().Equal(info.ModTime())
}

// look returns the states of paths. Files are converted as the user's own filters do it.
func (f *files) look(ctx context.Context, paths []string) (map[string]state, error) {
	out := map[string]state{}
	var regular []string
	for _, name := range paths {
		s := state{parent: f.blocked(name)}
		info, err := f.root.Lstat(name)
		if s.parent != "" || err != nil {
			if err != nil && s.parent == "" && !missing(err) {
				return nil, err
			}
			out[name] = s
			continue
		}

		s.info = info
		switch {
		case info.Mode().IsRegular():
			regular = append(regular, name)
		case isLink(info.Mode()):
			target, err := f.root.Readlink(name)
			if err != nil {
				return nil, err
			}
			s.id = f.source.blobID(target)
		}
		out[name] = s
	}

	ids, err := f.hash(ctx, regular)
	if err != nil {
		return nil, err
	}
	for i, name := range regular {
		s := out[name]
		s.id = ids[i]
		out[name] = s
	}
	if !f.raw {
		return out, nil
	}

	f.scratch.Plain = true
	raws, err := f.hash(ctx, regular)
	f.scratch.Plain = false
	if err != nil {
		return nil, err
	}
	for i, name := range regular {
		s := out[name]
		s.raw = raws[i]
		out[name] = s
	}
	return out, nil
}

// missing reports whether an error says that a file, or a folder above it, is not there.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// blocked returns the folder above a path that is a file or a link, "" if none is.
func (f *files) blocked(name string) string {
	for i, b := range name {
		if b != '/' {
			continue
		}
		info, err := f.root.Lstat(name[:i])
		if err != nil {
			return ""
		}
		if !info.IsDir() {
			return name[:i]
		}
	}
	return ""
}

// hash returns the ids of the contents of regular files. A file that cannot be read has "".
func (f *files) hash(ctx context.Context, names []string) ([]string, error) {
	out := make([]string, len(names))
	var list strings.Builder
	var readable []int
	for i, name := range names {
		file, err := f.root.Open(name)
		if err != nil {
			continue
		}
		file.Close()
		readable = append(readable, i)
		list.WriteString(quoteName(name) + "\n")
	}
	if len(readable) == 0 {
		return out, nil
	}

	cmd := f.git(ctx, f.tree.index(), "hash-object", "--stdin-paths")
	cmd.Stdin = strings.NewReader(list.String())
	said, err := output(cmd, "compare files", f.tree.Folder)
	if err != nil {
		return nil, err
	}
	for i, id := range strings.Split(said, "\n") {
		out[readable[i]] = id
	}
	return out, nil
}

// quoteName returns a name as git reads it in a list of lines.
func quoteName(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(name) + `"`
}

// git returns a command on the files and an index.
func (f *files) git(ctx context.Context, index string, args ...string) *exec.Cmd {
	return f.scratch.Command(ctx, program, f.tree.Folder, index, args...)
}

// index returns the path of the tree's index.
func (t tree) index() string { return t.GitDir + string(os.PathSeparator) + "index" }

// blobID returns the id of a content.
func (s source) blobID(content string) string {
	text := fmt.Sprintf("blob %d\x00%s", len(content), content)
	if s.format == formatSHA256 {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// is reports whether a state is that of an entry of a tree.
func (f *files) is(s state, mode, id string) bool {
	switch {
	case mode == modeNone:
		return s.absent()
	case s.absent():
		return false
	case mode == modeSubmodule:
		return s.info.IsDir()
	case s.id != id && s.raw != id:
		return false
	case mode == modeLink:
		return isLink(s.info.Mode()) || !f.links
	case !s.info.Mode().IsRegular():
		return false
	}
	executable := s.info.Mode()&0o100 != 0
	return !f.modes || executable == (mode == "100755")
}

// makeFolders makes the folders above a path. One that is a file or a link is an error.
func (f *files) makeFolders(name string) error {
	for i, b := range name {
		if b != '/' {
			continue
		}
		f.pause("make the folder " + name[:i])
		err := f.root.Mkdir(name[:i], 0o777)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if at := f.blocked(name); at != "" {
		return &fs.PathError{Op: "mkdir", Path: at, Err: fs.ErrExist}
	}
	return nil
}

// dropFolders removes the folders above a path that are empty.
func (f *files) dropFolders(name string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := f.root.Lstat(dir); err != nil || !info.IsDir() || f.root.Remove(dir) != nil {
			return
		}
	}
}

// place moves a file to a path at which there is nothing. It reports fs.ErrExist if there is
// a file now: it replaces none.
func (f *files) place(from, to string) error {
	if err := f.makeFolders(to); err != nil {
		return err
	}
	info, err := f.root.Lstat(from)
	if err != nil {
		return err
	}
	if isLink(info.Mode()) {
		target, err := f.root.Readlink(from)
		if err == nil {
			f.pause("write the link " + to)
			err = f.root.Symlink(target, to)
		}
		if err != nil {
			return err
		}
		f.pause("remove " + from)
		return f.root.Remove(from)
	}

	f.pause("write " + to)
	switch err := f.root.Link(from, to); {
	case err == nil:
		f.pause("remove " + from)
		return f.root.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, err := f.root.Lstat(to); err == nil { // the file system has no hard links
		return &fs.PathError{Op: "create", Path: to, Err: fs.ErrExist}
	}
	return f.root.Rename(from, to)
}
