// Package transcript reads the usage of model calls from the files that agent CLIs write of
// their sessions, from a cursor on.
//
// [Read] returns counts, names of models and ids, and no other word of a file. It reads each file
// once: the cursor says how far, how the file began and what stood before the place, so that a file
// that was replaced is read anew. The caller recognises calls that it knows by their ids, as in a copy of a file. A
// read takes the memory of one line, whatever the size of the file.
//
// The package does not know how a CLI writes its lines: a [Counter] does (internal/desk/cli).
// It follows no links and reads regular files only.
package transcript

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parley-agents/parley/hub"
)

const (
	maxLine  = 8 << 20   // bytes of a line; a longer one is skipped
	headSize = 4 << 10   // bytes at the beginning by which a file is known again
	tailSize = 256       // bytes before the cursor by which it is known again
	maxRead  = 256 << 20 // bytes of one read; the next one goes on
	maxCalls = 4000      // of one read
	buffer   = 64 << 10
)

// A Cursor is the place in a file up to which it was read.
type Cursor struct {
	Offset int64  `json:"offset"`
	Head   string `json:"head,omitempty"`  // SHA-256 of the first bytes
	Size   int    `json:"size,omitempty"`  // how many bytes these are
	Tail   string `json:"tail,omitempty"`  // SHA-256 of the bytes before the place; empty if it was not read there
	Model  string `json:"model,omitempty"` // of the lines before the place
}

// A Counter reads the usage of a model call from a line; ok is false for a line without any, and
// bad says that it has counts that cannot be read. model is the model of the lines before.
type Counter func(line []byte, model *string) (call hub.ModelCall, bad, ok bool)

// A Reading is the result of a read.
type Reading struct {
	Calls   []hub.ModelCall // one for each id, with the counts of its last line
	Refused int             // lines with counts that no model has, or without an id
	Skipped int             // lines that are too long
	Cursor  Cursor          // the place behind the last whole line
	More    bool            // the file has more
}

// End returns the cursor behind everything that a file has now; the zero cursor if there is no
// such file.
func End(path string) (Cursor, error) {
	f, size, err := open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return Cursor{}, nil
		}
		return Cursor{}, err
	}
	defer f.Close()
	c := Cursor{Offset: size}
	return c, c.mark(f)
}

// Back returns the cursor some bytes before a place.
func (c Cursor) Back(bytes int64) Cursor {
	c.Offset -= bytes
	c.Tail = ""
	return c
}

// mark notes the hash of the beginning of the file and of the bytes before the place.
func (c *Cursor) mark(f *os.File) (err error) {
	if c.Head, c.Size, err = headOf(f, headSize); err != nil {
		return err
	}
	c.Tail, err = tailOf(f, c.Offset)
	return err
}

// Read reads a file from a cursor on. A file that is not there yet has nothing to read.
func Read(ctx context.Context, path string, from Cursor, count Counter) (Reading, error) {
	f, size, err := open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return Reading{Cursor: from}, nil
		}
		return Reading{Cursor: from}, err
	}
	defer f.Close()

	// Another file under the name is read from its beginning.
	isSame, err := sameFile(f, size, from)
	if err != nil {
		return Reading{Cursor: from}, err
	}
	if !isSame {
		from = Cursor{}
	}
	if _, err := f.Seek(from.Offset, io.SeekStart); err != nil {
		return Reading{Cursor: from}, fmt.Errorf("transcript: %w", err)
	}
	part := &io.LimitedReader{R: f, N: maxRead}
	r := &reader{ctx: ctx, in: bufio.NewReaderSize(part, buffer), count: count, at: map[string]int{}}
	r.out.Cursor = from
	if err := r.read(); err != nil {
		return r.out, fmt.Errorf("transcript: %w", err)
	}
	if part.N <= 0 { // the last line may have been cut
		r.out.More = true
	}
	return r.out, r.out.Cursor.mark(f)
}

// At returns the cursor at a place to which another reader read a file; at its beginning if the file is
// shorter. model is the model of the lines before.
func At(path string, offset int64, model string) (Cursor, error) {
	f, size, err := open(path)
	if err != nil {
		return Cursor{}, err
	}
	defer f.Close()
	if offset > size {
		return Cursor{}, nil
	}
	c := Cursor{Offset: offset, Model: model}
	return c, c.mark(f)
}

// open opens a regular file, and returns its size.
func open(path string) (*os.File, int64, error) {
	seen, err := os.Lstat(path)
	if err != nil {
		return nil, 0, err
	}
	if !seen.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("transcript: %s is a link or no file, and is not read", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(seen, info) {
		err = fmt.Errorf("transcript: %s was replaced", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// headOf returns the hash of the first bytes of a file, at most limit, and their number.
func headOf(f *os.File, limit int) (string, int, error) {
	return hashOf(f, 0, limit)
}

// tailOf returns the hash of the bytes before a place in a file.
func tailOf(f *os.File, offset int64) (string, error) {
	n := min(offset, tailSize)
	sum, _, err := hashOf(f, offset-n, int(n))
	return sum, err
}

// hashOf returns the hash of at most limit bytes of a file from a place on, and their number.
func hashOf(f *os.File, from int64, limit int) (string, int, error) {
	raw := make([]byte, limit)
	n, err := f.ReadAt(raw, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, fmt.Errorf("transcript: %w", err)
	}
	sum := sha256.Sum256(raw[:n])
	return hex.EncodeToString(sum[:]), n, nil
}

// sameFile reports whether a file is the one of a cursor, and has not become shorter.
func sameFile(f *os.File, size int64, c Cursor) (bool, error) {
	if c.Head == "" {
		return c.Offset == 0, nil
	}
	if size < c.Offset {
		return false, nil
	}
	head, n, err := headOf(f, c.Size)
	beginsSame := err == nil && n == c.Size && head == c.Head
	if !beginsSame || c.Tail == "" {
		return beginsSame, err
	}
	tail, err := tailOf(f, c.Offset)
	return tail == c.Tail, err
}

// A reader reads the lines of a file.
type reader struct {
	ctx   context.Context
	in    *bufio.Reader
	count Counter
	at    map[string]int // the places of calls in out, by their ids
	line  []byte
	out   Reading
}

// read reads whole lines until the file, the time or the room for calls ends.
func (r *reader) read() error {
	for len(r.out.Calls) < maxCalls && r.ctx.Err() == nil {
		n, whole, err := r.next()
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case !whole && n >= maxRead: // a line without an end
			r.out.Cursor.Offset += n
			r.out.Skipped++
			r.out.More = true
			return nil
		case !whole:
			return nil // the rest is a line that is being written
		}
		r.out.Cursor.Offset += n
		r.take()
	}
	r.out.More = true
	return nil
}

// next reads the next line. It returns its length, and whether it is whole. A line that is too
// long is empty.
func (r *reader) next() (n int64, whole bool, err error) {
	r.line = r.line[:0]
	isLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		n += int64(len(part))
		if isLong = isLong || len(r.line)+len(part) > maxLine; isLong {
			r.line = r.line[:0]
		} else {
			r.line = append(r.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return n, false, err
		}
		if isLong {
			r.out.Skipped++
		}
		return n, true, nil
	}
}

// take counts the line.
func (r *reader) take() {
	line := bytes.TrimSpace(r.line)
	if len(line) == 0 {
		return
	}
	call, bad, ok := r.count(line, &r.out.Cursor.Model)
	switch i, known := r.at[call.ID]; {
	case !ok:
	case bad || call.ID == "":
		r.out.Refused++
	case known:
		r.out.Calls[i] = call
	default:
		r.at[call.ID] = len(r.out.Calls)
		r.out.Calls = append(r.out.Calls, call)
	}
}
