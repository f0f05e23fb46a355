package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// DefaultMaxFrame is the default limit of a frame, in bytes.
const DefaultMaxFrame = 64 << 20

// maxHead is how many bytes of a frame over the limit are kept.
const maxHead = 64 << 10

// A Flaw is a departure from one message per line that a Reader tolerates.
type Flaw string

// The flaws.
const (
	FlawBOM          Flaw = "byte_order_mark" // the line starts with a byte order mark
	FlawCRLF         Flaw = "crlf"            // the line ends in CR LF
	FlawBlankLines   Flaw = "blank_lines"     // there are blank lines before it
	FlawSeveralLines Flaw = "several_lines"   // the value is spread over lines
	FlawSameLine     Flaw = "same_line"       // it follows another value on the same line
	FlawNoLineEnd    Flaw = "no_line_end"     // the input ends without a line end
)

// A Frame is one JSON object or array as it came in or goes out.
type Frame struct {
	Raw   []byte    // the bytes of the value, without blanks and line end around it
	Time  time.Time // when its last byte was read, or just before it is written
	Flaws []Flaw    // nil for one value on a line of its own
}

// A Reader splits a stream of lines into frames.
//
// A line that starts with { or [ starts a frame. A value that is not complete at
// the end of its line goes on over the next lines, until it ends or proves not to be
// JSON. In the second case the lines read so far are considered one by one: a line
// that is a complete value is a frame, and the others belong to the problem. Text
// behind a value is read like a line of its own. Any other line that is not blank
// is a problem. A byte order mark at the start of a line is skipped.
//
// A Reader holds little more than the limit in memory and scans each byte at most a
// few times, for any input.
type Reader struct {
	src   io.Reader
	limit int
	dec   jsontext.Decoder
	line  bytes.Buffer // the source of dec; kept to save an allocation

	buf        []byte
	start, end int       // buf[start:end] was read from src and not returned yet
	err        error     // the final error of src
	read       time.Time // the time of the last read

	skip   bool // the rest of the line belongs to a frame over the limit
	within bool // a value of the same line was returned
	blank  bool // a blank line was skipped
	alone  int  // the next so many bytes are lines to be considered one by one
}

// NewReader returns a Reader of src that refuses frames of more than limit
// bytes. A limit of zero is DefaultMaxFrame.
func NewReader(src io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = DefaultMaxFrame
	}
	return &Reader{src: src, limit: limit}
}

// Next returns the next frame. If the error is a *Problem, the frame holds the
// refused bytes (of a frame over the limit the first 64 KiB), and reading can go on.
// Any other error is final; it is that of the underlying reader, usually io.EOF.
func (r *Reader) Next() (Frame, error) {
	for {
		if r.skip {
			if err := r.skipLine(); err != nil {
				return Frame{}, err
			}
		}

		n, err := r.lineEnd(0)
		if err != nil {
			return r.tooLarge(n)
		}
		if n == 0 {
			return Frame{}, r.err
		}

		line := r.buf[r.start : r.start+n]
		if isBlank(line) {
			r.take(n)
			r.blank = true
			continue
		}

		// After a broken value over several lines, each of its lines is considered alone.
		if r.alone > 0 {
			return r.nextAlone()
		}

		at, size, problem := r.value(line)
		if size == 0 && problem.Code == ProblemTruncated {
			return r.nextOverLines(at)
		}
		return r.give(at, size, n, problem)
	}
}

// value finds the value at the start of a line. It returns its offset and size, or
// a size of zero and the problem. A refused value whose end is known has both.
func (r *Reader) value(line []byte) (at, size int, problem *Problem) {
	at = indent(line)
	text := bytes.TrimRight(line[at:], blanks)
	if len(text) == 0 || (text[0] != '{' && text[0] != '[') {
		if jsontext.Value(text).IsValid() {
			return at, 0, problemf(ProblemNotMessage, text, "a message must be a JSON object, and a batch an array")
		}
		return at, 0, problemf(ProblemNotJSON, text, "not JSON: write only messages here, and logs to standard error")
	}
	size, err := r.extent(text)
	if err == nil {
		return at, size, nil
	}
	problem = syntaxProblem(text, err)
	if size, err = r.extent(text, lenient...); err != nil {
		size = 0
	}
	return at, size, problem
}

// lenient are the options of a decoder that finds the end of a refused value.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// extent returns the size of the value at the start of text.
func (r *Reader) extent(text []byte, opts ...jsontext.Options) (int, error) {
	r.line = *bytes.NewBuffer(text)
	r.dec.Reset(&r.line, opts...)
	v, err := r.dec.ReadValue()
	return len(v), err
}

// nextOverLines reads a value that starts at the given offset of the buffered line
// and does not end on it.
func (r *Reader) nextOverLines(at int) (Frame, error) {
	feed := &lineFeed{r: r, at: at, end: at}
	value, err := jsontext.NewDecoder(feed, lenient...).ReadValue()
	if err == nil {
		var problem *Problem
		if _, err := r.extent(value); err != nil {
			problem = syntaxProblem(value, err)
		}
		return r.give(at, len(value), feed.end, problem)
	}
	if feed.over {
		return r.tooLarge(feed.end)
	}
	r.alone = feed.end
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		// The line with the syntax error may start another value.
		before := r.buf[r.start : r.start+at+int(syntax.ByteOffset)]
		if i := bytes.LastIndexByte(before, '\n') + 1; i > 0 {
			r.alone = i
		}
	}
	return r.nextAlone()
}

// A lineFeed is the source of a decoder: the buffered line, and then the next lines.
type lineFeed struct {
	r    *Reader
	at   int  // the offset in the buffer of the next byte
	end  int  // the end of the current line
	over bool // the value is over the limit
}

func (l *lineFeed) Read(p []byte) (int, error) {
	if l.at == l.end {
		var err error
		if l.end, err = l.r.lineEnd(l.at); err != nil {
			l.over = true
			return 0, err
		}
		if l.end == l.at {
			return 0, io.EOF
		}
	}
	n := copy(p, l.r.buf[l.r.start+l.at:l.r.start+l.end])
	l.at += n
	return n, nil
}

// nextAlone returns the next frame among the lines that are considered one by one,
// or a problem for all lines before that frame.
func (r *Reader) nextAlone() (Frame, error) {
	n := 0
	for line := range bytes.Lines(r.buf[r.start : r.start+r.alone]) {
		at, size, problem := r.value(line)
		if size > 0 && n == 0 {
			return r.give(at, size, len(line), problem)
		}
		if size > 0 {
			break
		}
		n += len(line)
	}
	f, _ := r.give(0, 0, n, nil)
	return f, problemf(ProblemTruncated, f.Raw, "the JSON value is incomplete: write each message as one value on one line")
}

// give returns the frame of size bytes at the given offset of the next n bytes,
// which are whole lines. If size is zero, the frame is all of them.
func (r *Reader) give(at, size, n int, problem *Problem) (Frame, error) {
	all := r.buf[r.start : r.start+n]
	rest := all[at+size:]
	f := Frame{Time: r.read}
	if size == 0 {
		f.Raw = bytes.Clone(bytes.TrimRight(all, "\r\n"))
	} else {
		f.Raw = bytes.Clone(all[at : at+size])
		f.Flaws = r.flaws(all[:at], f.Raw, rest)
	}
	if size > 0 && !isBlank(rest) {
		r.take(at + size)
		r.within = true
	} else {
		r.take(n)
	}
	if problem != nil {
		return f, problem
	}
	return f, nil
}

// flaws returns the flaws of a value, given the bytes before and after it.
func (r *Reader) flaws(before, value, after []byte) (flaws []Flaw) {
	for _, c := range [...]struct {
		seen bool
		flaw Flaw
	}{
		{bytes.HasPrefix(before, bom), FlawBOM},
		{r.blank, FlawBlankLines},
		{r.within, FlawSameLine},
		{bytes.IndexByte(value, '\n') >= 0, FlawSeveralLines},
		{bytes.HasSuffix(after, []byte("\r\n")), FlawCRLF},
		{bytes.IndexByte(after, '\n') < 0, FlawNoLineEnd},
	} {
		if c.seen {
			flaws = append(flaws, c.flaw)
		}
	}
	return flaws
}

// take removes n bytes from the buffer.
func (r *Reader) take(n int) {
	r.start += n
	r.alone = max(0, r.alone-n)
	r.within, r.blank = false, false
}

// tooLarge returns the problem for a frame over the limit, of which n bytes are
// buffered. The rest of its line is skipped.
func (r *Reader) tooLarge(n int) (Frame, error) {
	head := r.buf[r.start : r.start+min(n, maxHead)]
	f := Frame{Raw: bytes.Clone(head[indent(head):]), Time: r.read}
	r.skip = r.buf[r.start+n-1] != '\n'
	r.take(n)
	return f, problemf(ProblemTooLarge, f.Raw, "the message is larger than the limit of %d bytes", r.limit)
}

// skipLine drops all bytes up to the next line end, and the line end.
func (r *Reader) skipLine() error {
	for {
		if i := bytes.IndexByte(r.buf[r.start:r.end], '\n'); i >= 0 {
			r.take(i + 1)
			r.skip = false
			return nil
		}
		r.take(r.end - r.start)
		if !r.fill() {
			return r.err
		}
	}
}

var errOverLimit = errors.New("over the limit")

// lineEnd returns the end of the line that starts at the given offset: the offset
// after the line feed, or the end of the input. It reads as much as it needs. If
// more than the limit is buffered, it returns errOverLimit and that number of bytes.
func (r *Reader) lineEnd(from int) (int, error) {
	scanned := from
	for {
		held := r.buf[r.start:r.end]
		i := bytes.IndexByte(held[scanned:], '\n')
		if i >= 0 {
			held = held[:scanned+i+1]
		}
		if len(held) > r.limit && len(bytes.TrimRight(held, "\r\n")) > r.limit {
			return len(held), errOverLimit
		}
		if i >= 0 {
			return len(held), nil
		}
		scanned = len(held)
		if !r.fill() {
			return scanned, nil
		}
	}
}

const minBuffer = 32 << 10

// fill reads into the buffer. It reports whether it read anything.
func (r *Reader) fill() bool {
	if r.err != nil {
		return false
	}
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buf) > 1<<20 { // it grew for a large frame
			r.buf = nil
		}
	}

	// The held bytes move to the front; the buffer grows if they fill more than half of it.
	if r.end == len(r.buf) {
		held := r.buf[r.start:r.end]
		if len(held) > len(r.buf)/2 || len(r.buf) == 0 {
			r.buf = make([]byte, min(max(minBuffer, 2*len(r.buf)), r.limit+minBuffer))
		}
		r.end = copy(r.buf, held)
		r.start = 0
	}

	// A reader that returns nothing a hundred times is broken; bufio.Reader gives up likewise.
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 {
			r.read = time.Now()
			return true
		}
		if err != nil {
			return false
		}
	}
	r.err = io.ErrNoProgress
	return false
}

var bom = []byte("\xef\xbb\xbf")

const blanks = " \t\r\n"

// indent returns the number of bytes before the text of a line.
func indent(line []byte) int {
	return len(line) - len(bytes.TrimLeft(bytes.TrimPrefix(line, bom), blanks))
}

func isBlank(line []byte) bool { return indent(line) == len(line) }
