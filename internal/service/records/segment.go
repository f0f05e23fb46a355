package records

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/parley-agents/parley/hub"
)

// The form of a segment, in its header.
const (
	segmentFormat  = "parley-segment"
	segmentVersion = 1

	// The first version wrote archives under another name: the same lines,
	// without rows in entries, and an end that has no hashes.
	oldArchiveFormat = "parley-archive"
)

// maxLine is the most bytes of a line: a message to many recipients, with the
// delivery ledger of each.
const maxLine = 64 << 20

// A line is one line of a segment: the header, an entry of the journal, a
// message, a row of a table or the seal. The header comes first and has Format;
// every other line has exactly one of Entry, Message, Table and Seal.
type line struct {
	Format  string `json:"format,omitempty"`
	Version int    `json:"version,omitempty"`
	After   int64  `json:"after,omitempty"`  // number of the entry before the first one here
	Hash    string `json:"hash,omitempty"`   // hash of that entry
	Schema  int    `json:"schema,omitempty"` // of the database, if rows of tables follow

	Entry    *hub.Entry      `json:"entry,omitempty"`
	Envelope json.RawMessage `json:"envelope,omitempty"` // beside the entry of a sending: the envelope as it was sent
	Handoff  *handoffRow     `json:"handoff,omitempty"`  // beside the entry of a proposal

	Message *messageRow `json:"message,omitempty"`

	Table string          `json:"table,omitempty"`
	Row   json.RawMessage `json:"row,omitempty"`

	Seal *seal `json:"seal,omitempty"`
	End  *seal `json:"end,omitempty"` // the seal of an old archive
}

// A seal is the last line of a segment: counts and hashes of the lines before it.
type seal struct {
	First    int64  `json:"first"` // number of the first entry; 0 if there is none
	Last     int64  `json:"last"`
	Hash     string `json:"hash"` // of the entry Last
	Entries  int    `json:"entries"`
	Messages int    `json:"messages"`
	Rows     int    `json:"rows"`
	SHA256   string `json:"sha256"` // of all bytes before the seal
}

// add counts a line.
func (s *seal) add(l line) {
	switch {
	case l.Entry != nil:
		if s.Entries == 0 {
			s.First = l.Entry.Seq
		}
		s.Last, s.Hash = l.Entry.Seq, l.Entry.Hash
		s.Entries++
	case l.Message != nil:
		s.Messages++
	case l.Table != "":
		s.Rows++
	}
}

// encode writes the line as JSON, without escapes for HTML, and a newline. The
// same line gives the same bytes.
func (l line) encode(buf *bytes.Buffer) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(l)
}

// decodeLine reads a line; first says that it must be a header.
func decodeLine(raw []byte, first bool) (line, error) {
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return line{}, err
	}
	set := 0
	for _, is := range []bool{l.Entry != nil, l.Message != nil, l.Table != "", l.Seal != nil || l.End != nil} {
		if is {
			set++
		}
	}
	switch {
	case first && (set > 0 || (l.Format != segmentFormat && l.Format != oldArchiveFormat)):
		return line{}, errors.New("it is not the header of a segment")
	case first && l.Version != segmentVersion:
		return line{}, errVersion
	case !first && (set != 1 || l.Format != ""):
		return line{}, errors.New("it is not an entry, message, row or seal")
	case l.Entry != nil && l.Entry.Seq <= 0:
		return line{}, errors.New("its entry has no number")
	}
	return l, nil
}

// errVersion reports a segment of another version.
var errVersion = fmt.Errorf("it is not of version %d, the only version that this parley reads", segmentVersion)

// A segmentWriter writes a segment from header to seal.
type segmentWriter struct {
	out  *bufio.Writer
	sum  hash.Hash
	buf  bytes.Buffer
	seal seal
}

func newSegmentWriter(w io.Writer) *segmentWriter {
	sum := sha256.New()
	return &segmentWriter{out: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), sum: sum}
}

// put writes one line.
func (w *segmentWriter) put(l line) error {
	w.seal.add(l)
	w.buf.Reset()
	if err := l.encode(&w.buf); err != nil {
		return err
	}
	_, err := w.out.Write(w.buf.Bytes())
	return err
}

// close writes the seal and returns the SHA-256 of the whole segment.
func (w *segmentWriter) close() (string, error) {
	if err := w.out.Flush(); err != nil {
		return "", err
	}
	w.seal.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	s := w.seal
	if err := w.put(line{Seal: &s}); err != nil {
		return "", err
	}
	if err := w.out.Flush(); err != nil {
		return "", err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), nil
}

// A segment is a file that is read line by line. The file may still grow: its
// size when it was opened is its end.
type segment struct {
	path   string
	header line
	first  []byte // the header as it is written
	raw    []byte // the line that next returned, without its newline
	n      int    // its number, counted from 1
	size   int64  // bytes up to its end
	sealed bool   // the seal was read

	file   *os.File
	lines  *bufio.Scanner
	length int64 // of the file
	sum    hash.Hash
	seal   seal // of the lines that were read so far
}

// openSegment opens a segment and reads its header. It reports errUnsealed if
// the file has no complete line.
func openSegment(path string) (*segment, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{path: path, file: f, length: info.Size(), sum: sha256.New()}
	s.lines = bufio.NewScanner(io.LimitReader(f, s.length))
	s.lines.Buffer(nil, maxLine)
	s.lines.Split(splitLines)
	if s.header, err = s.next(); err != nil {
		f.Close()
		return nil, err
	}
	s.first = bytes.Clone(s.raw)
	s.seal.Last, s.seal.Hash = s.header.After, s.header.Hash
	return s, nil
}

// splitLines splits at newlines and leaves out a last line that has none.
func splitLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// errUnsealed reports that a segment ends without a seal: it was cut off, or it
// is the one that the trail is being written to.
var errUnsealed = errors.New("it ends without a seal")

// A lineError reports a line that cannot be read. The next call of next goes on
// after it.
type lineError struct {
	n   int
	err error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.n, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// next returns the next line between header and seal. It returns io.EOF when a
// seal has ended the segment and fits the lines before it, and errUnsealed when
// the file ends without one.
func (s *segment) next() (line, error) {
	if !s.lines.Scan() {
		switch err := s.lines.Err(); {
		case err != nil:
			return line{}, err
		case s.sealed && s.size == s.length:
			return line{}, io.EOF
		case s.sealed:
			return line{}, errors.New("there is data after the seal")
		}
		return line{}, errUnsealed
	}

	s.n++
	s.raw = s.lines.Bytes()
	s.size += int64(len(s.raw)) + 1
	l, err := decodeLine(s.raw, s.n == 1)
	switch {
	case err != nil:
	case s.sealed:
		err = errors.New("it follows the seal")
	case l.Seal != nil || l.End != nil:
		err = s.checkSeal(l)
	default:
		s.seal.add(l)
	}

	// The seal covers the lines before it, so its own line is added to the sum after the check.
	s.sum.Write(s.raw)
	s.sum.Write([]byte{'\n'})

	// Nothing may follow a seal, so the next read must find the end of the file.
	switch {
	case err != nil:
		return line{}, &lineError{s.n, err}
	case s.sealed:
		return s.next()
	}
	return l, nil
}

// checkSeal compares a seal with the lines before it.
func (s *segment) checkSeal(l line) error {
	s.sealed = true
	s.seal.SHA256 = s.fileSum()
	got := l.Seal
	if l.End != nil { // of an old archive, which has no hashes
		got = l.End
		got.Hash, got.SHA256 = s.seal.Hash, s.seal.SHA256
	}
	if *got != s.seal {
		return errors.New("the seal does not match the lines before it")
	}
	return nil
}

// fileSum returns the SHA-256 of the lines that were read.
func (s *segment) fileSum() string { return hex.EncodeToString(s.sum.Sum(nil)) }

func (s *segment) close() { s.file.Close() }

// readSegment calls each with every line of a segment between its header and its
// seal. It returns the segment as far as it was read, nil if it has no header, and an
// error unless the seal ends it.
func readSegment(path string, each func(line) error) (*segment, error) {
	s, err := openSegment(path)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for {
		l, err := s.next()
		if err == nil {
			err = each(l)
		}
		switch {
		case err == io.EOF:
			return s, nil
		case err != nil:
			return s, err
		}
	}
}

// openRegular opens a file to read it. Anything but a regular file is refused:
// a pipe would wait for a writer.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}
