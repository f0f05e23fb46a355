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

// AllLines is the limit that reads up to the end of the file.
const AllLines = -1

// Limits of Files.
const (
	maxText = 16 << 20  // bytes of a text that is read or written
	maxScan = 256 << 20 // bytes that are scanned to find a line
)

// Files reads and writes text files under roots. A text has at most 16 MiB, and a line
// that begins after the first 256 MiB of a file is not found. Files is safe for
// concurrent use: a writer replaces a file as a whole, so that a reader at the same time
// sees one text or the other.
type Files struct{ roots *Roots }

// NewFiles returns the files under roots. The caller closes the roots.
func NewFiles(roots *Roots) *Files { return &Files{roots} }

// Read returns limit lines of the file at path, from the given line on. Lines are
// counted from 1, and 0 counts as 1; AllLines reads up to the end. Lines keep their
// line ends, so that consecutive pages are the file. Beyond the last line the text
// is empty.
//
// The path must be absolute. A file that is not regular, not UTF-8 or too large is
// refused, never cut or repaired, because an agent could write the text back.
func (f *Files) Read(ctx context.Context, path string, line, limit int) (string, error) {
	const verb = "read"
	p, err := f.roots.place(verb, path)
	if err != nil {
		return "", err
	}

	if line < 0 || limit < AllLines {
		return "", errorf(CodeInvalid, "read %s: line %d or limit %d is negative", path, line, limit)
	}

	file, info, err := f.open(verb, p, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()

	// A whole file that is too large is refused by its size, before it is read.
	if line <= 1 && limit == AllLines && info.Size() > maxText {
		return "", tooLarge(path)
	}

	text, err := readLines(&boundedReader{ctx: ctx, r: file, left: maxScan + 1}, line, limit, maxText)
	switch {
	case errors.Is(err, errTextBound):
		return "", tooLarge(path)
	case errors.Is(err, errScanBound):
		return "", errorf(CodeTooLarge, "read %s: line %d is beyond the first %d bytes; read an earlier line", path, line, maxScan)
	case err != nil:
		return "", systemError(verb, path, err)
	case !utf8.Valid(text):
		return "", errorf(CodeNotText, "read %s: not UTF-8 text", path)
	}
	return string(text), nil
}

func tooLarge(path string) *Error {
	return errorf(CodeTooLarge, "read %s: more than %d bytes; read fewer lines", path, maxText)
}

// open opens the regular file at p. It checks the type before and after: a pipe
// without another end does not block it, and a device is opened only if it takes the
// place of the file in between.
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

// regular reports a file that is not regular.
func regular(verb, path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errorf(CodeDirectory, "%s %s: is a folder; name a file in it", verb, path)
	case !info.Mode().IsRegular():
		return errorf(CodeNotRegular, "%s %s: not a regular file (%s)", verb, path, info.Mode().Type())
	}
	return nil
}

// Write replaces the content of the file at path, which must be absolute. It creates
// missing folders. Readers see the old text or the new, never a part: the text is
// written to a temporary file beside it, synced and renamed. The file keeps its
// permissions, but not its other hard links. If path is a link, its target is
// written.
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
	case len(text) > maxText:
		return errorf(CodeTooLarge, "write %s: the text has %d bytes; the limit is %d", path, len(text), maxText)
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

// existing returns the info of the file at p, nil if it does not exist. It reports a
// file that may not be written, which a rename would replace without asking.
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
		return nil, errorf(CodeNotRegular, "write %s: the target of the link does not exist; remove the link or create its target", p.path)
	}
	return nil, nil
}

// replace writes text to a temporary file beside p and renames it. The file gets the
// permissions of old, unless that is nil.
func replace(p place, text string, old fs.FileInfo) (err error) {
	partial := filepath.Join(filepath.Dir(p.rel), ".sandbox-"+rand.Text()+".partial")
	perm := fs.FileMode(0o644)
	if old != nil {
		perm = 0o600 // until fill sets the permissions: they may be narrower than the default
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

// fill writes text to file, sets the permissions of old unless that is nil, syncs and
// closes it.
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
