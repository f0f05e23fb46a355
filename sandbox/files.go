package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// AllLines, as a limit, means up to the end of the file.
const AllLines = -1

// FileOptions changes how Files works. The zero value works.
type FileOptions struct {
	MaxText int64 // bytes of one text that is read or written; default 16 MiB
	MaxScan int64 // bytes gone through to find a line; default 256 MiB
}

// Files reads and writes text files under roots. It is safe for concurrent
// use.
type Files struct {
	roots   *Roots
	maxText int64
	maxScan int64
}

// NewFiles returns the files under roots, which stay the caller's to close.
// opts may be nil.
func NewFiles(roots *Roots, opts *FileOptions) *Files {
	f := &Files{roots: roots, maxText: 16 << 20, maxScan: 256 << 20}
	if opts != nil && opts.MaxText > 0 {
		f.maxText = opts.MaxText
	}
	if opts != nil && opts.MaxScan > 0 {
		f.maxScan = opts.MaxScan
	}
	f.maxScan = max(f.maxScan, f.maxText)
	return f
}

// Read returns limit lines of the file at path, from the given line on. Lines
// are counted from 1, and 0 is taken for 1; a limit of AllLines means up to the
// end. Lines keep their ends, so that pages put together are the file; beyond
// the last line there is "".
//
// The path must be absolute. What is not a regular file, not UTF-8 or too
// large is refused, never cut or repaired: an agent would write it back.
func (f *Files) Read(ctx context.Context, path string, line, limit int) (string, error) {
	const verb = "read"
	p, err := f.roots.place(verb, path)
	if err != nil {
		return "", err
	}
	if line < 0 || limit < AllLines {
		return "", errorf(CodeInvalid, "read %s: line %d and limit %d must not be negative", path, line, limit)
	}
	file, info, err := f.open(verb, p, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if line <= 1 && limit == AllLines && info.Size() > f.maxText {
		return "", f.tooLarge(path)
	}
	text, err := readLines(&boundedReader{ctx: ctx, r: file, left: f.maxScan + 1}, line, limit, f.maxText)
	switch {
	case errors.Is(err, errTextBound):
		return "", f.tooLarge(path)
	case errors.Is(err, errScanBound):
		return "", errorf(CodeTooLarge, "read %s: line %d is not within the first %d bytes; ask for an earlier line", path, line, f.maxScan)
	case err != nil:
		return "", systemError(verb, path, err)
	case !utf8.Valid(text):
		return "", errorf(CodeNotText, "read %s: not UTF-8 text", path)
	}
	return string(text), nil
}

func (f *Files) tooLarge(path string) *Error {
	return errorf(CodeTooLarge, "read %s: more than %d bytes; ask for fewer lines", path, f.maxText)
}

// open opens the regular file at p. A pipe without a partner does not block
// it, and a device is not touched unless it takes the file's place meanwhile.
func (f *Files) open(verb string, p place, flag int) (*os.File, fs.FileInfo, error) {
	info, err := p.dir.Stat(p.rel)
	if err != nil {
		return nil, nil, f.roots.placeError(verb, p, err)
	}
	if err := regular(verb, p.path, info); err != nil {
		return nil, nil, err
	}
	file, err := p.dir.OpenFile(p.rel, flag|openFlags, 0)
	if err != nil {
		return nil, nil, f.roots.placeError(verb, p, err)
	}
	info, err = file.Stat()
	if err != nil {
		err = systemError(verb, p.path, err)
	} else {
		err = regular(verb, p.path, info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// regular returns an error unless info is that of a regular file.
func regular(verb, path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errorf(CodeDirectory, "%s %s: this is a folder; name a file in it", verb, path)
	case !info.Mode().IsRegular():
		return errorf(CodeNotRegular, "%s %s: not a regular file (%s)", verb, path, info.Mode().Type())
	}
	return nil
}

// Write makes text the whole content of the file at path, which must be
// absolute. Missing folders are made. Readers see the old text or the new,
// never a part: the text is written beside the file, synced, and takes its
// name. The file keeps its permissions, but not its other hard links.
//
// Where there is a link, what it leads to is written.
func (f *Files) Write(ctx context.Context, path, text string) error {
	const verb = "write"
	p, err := f.roots.place(verb, path)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return systemError(verb, path, err)
	}
	switch {
	case int64(len(text)) > f.maxText:
		return errorf(CodeTooLarge, "write %s: %d bytes, at most %d are allowed", path, len(text), f.maxText)
	case !utf8.ValidString(text):
		return errorf(CodeNotText, "write %s: not UTF-8 text", path)
	}
	old, err := f.existing(verb, p)
	if err != nil {
		return err
	}
	if err := p.dir.MkdirAll(filepath.Dir(p.rel), 0o755); err != nil {
		return f.roots.placeError(verb, p, err)
	}
	if err := replace(p, text, old); err != nil {
		return f.roots.placeError(verb, p, err)
	}
	return nil
}

// existing returns what is known about the file at p, or nil if there is none
// yet. It reports an error where nothing may be written: a rename asks for no
// right on the file that it replaces.
func (f *Files) existing(verb string, p place) (fs.FileInfo, error) {
	file, info, err := f.open(verb, p, os.O_WRONLY)
	if err == nil {
		file.Close()
		return info, nil
	}
	if CodeOf(err) != CodeNotFound {
		return nil, err
	}
	if _, err := p.dir.Lstat(p.rel); err == nil {
		return nil, errorf(CodeNotRegular, "write %s: a link to a file that is not there; remove the link or make its target", p.path)
	}
	return nil, nil
}

// replace writes text beside the file at p and gives it its name. The file
// keeps the permissions of old, unless that is nil.
func replace(p place, text string, old fs.FileInfo) (err error) {
	partial := filepath.Join(filepath.Dir(p.rel), ".sandbox-"+rand.Text()+".partial")
	perm := fs.FileMode(0o644)
	if old != nil {
		perm = 0o600 // what is not for all must not be so for a moment
	}
	file, err := p.dir.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.dir.Remove(partial))
		}
	}()
	if err := fill(file, text, old); err != nil {
		return err
	}
	return p.dir.Rename(partial, p.rel)
}

// fill writes text to file, gives it the permissions of old unless that is
// nil, and closes it.
func fill(file *os.File, text string, old fs.FileInfo) error {
	_, err := io.WriteString(file, text)
	if err == nil && old != nil {
		err = file.Chmod(old.Mode().Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
