package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxLine is how many bytes a line of the trail may have: a package with
// everything around it, several times over.
const maxLine = 4 << 20

// A track is the file of one family, with the sealed files before it. Lines are
// only ever added.
type track struct {
	family string
	dir    string
	seal   int64 // bytes after which the file is sealed
	skip   int64 // entries up to here need no line
}

func (t *track) path() string { return filepath.Join(t.dir, t.family+".jsonl") }

// sealedPath is the name of a file whose last line has the given number.
func (t *track) sealedPath(last int64) string {
	return filepath.Join(t.dir, fmt.Sprintf("%s-%012d.jsonl", t.family, last))
}

// A sealed file is one that is not written to any more.
type sealed struct {
	path string
	last int64 // number of its last line, as its name says
}

// sealed returns the files before the one that is written to, in order.
func (t *track) sealed() ([]sealed, error) {
	entries, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []sealed
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".jsonl"), t.family+"-")
		last, err := strconv.ParseInt(digits, 10, 64)
		if ok && err == nil && last > 0 && t.sealedPath(last) == filepath.Join(t.dir, e.Name()) {
			all = append(all, sealed{filepath.Join(t.dir, e.Name()), last})
		}
	}
	slices.SortFunc(all, func(a, b sealed) int { return int(min(max(a.last-b.last, -1), 1)) })
	return all, nil
}

// newest returns the file that holds the last line of all: the one that is
// written to or, if that has no line, the newest sealed one. It is "" if there
// is no line at all.
func (t *track) newest() (string, error) {
	if info, err := os.Stat(t.path()); err == nil && info.Size() > 0 {
		return t.path(), nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	all, err := t.sealed()
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[len(all)-1].path, nil
}

// errBroken says that the end of a file is nothing that the hub wrote.
var errBroken = errors.New("its last line cannot be read")

// tail returns the last complete line of a file and the size up to its end. A
// file without a complete line gives a line with number 0 and size 0.
func tail(path string) (line, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return line{}, 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return line{}, 0, err
	}
	start := max(size-2*maxLine, 0) // room for a complete line and a torn one
	buf := make([]byte, size-start)
	if _, err := f.ReadAt(buf, start); err != nil && err != io.EOF {
		return line{}, 0, err
	}
	end := bytes.LastIndexByte(buf, '\n')
	if end < 0 {
		if start > 0 {
			return line{}, 0, errBroken
		}
		return line{}, 0, nil
	}
	l, err := decodeLine(buf[bytes.LastIndexByte(buf[:end], '\n')+1 : end])
	if err != nil {
		return line{}, 0, fmt.Errorf("%w: %w", errBroken, err)
	}
	return l, start + int64(end) + 1, nil
}

// add appends whole lines, the last of which has the given number, and returns
// when they are on disk.
func (t *track) add(lines []byte, last int64) error {
	f, err := os.OpenFile(t.path(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // again, after a failure
	before, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Write(lines); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	t.skip = last
	sealed := before+int64(len(lines)) >= t.seal
	if sealed {
		if err := os.Rename(t.path(), t.sealedPath(last)); err != nil {
			return err
		}
	}
	if before > 0 && !sealed {
		return nil
	}
	return syncFolder(t.dir)
}
