package records

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shape"
)

// A trail is the files of one family as they were when it was opened, read line
// by line.
type trail struct {
	family string
	after  int64 // entries up to here need no line
	upTo   int64 // entries up to here need one
	ended  bool  // it was said that lines are missing at the end

	files []*os.File
	sizes []int64
	at    int            // index of the file at hand
	lines *bufio.Scanner // of the file at hand
	n     int            // number of the line within it
	next  *line          // read and not used
	raw   []byte         // its bytes
}

// openTrail opens what there is of a family's files.
func openTrail(dir, family string, upTo int64) (*trail, error) {
	files := &track{family: family, dir: dir}
	t := &trail{family: family, upTo: upTo}
	// A file may be sealed between the look at the names and the opening.
	for {
		before, err := files.sealed()
		if err != nil {
			return nil, err
		}
		if err := t.open(append(before, sealed{path: files.path()})); err != nil {
			t.close()
			return nil, err
		}
		now, err := files.sealed()
		if err != nil || slices.Equal(before, now) {
			return t, err
		}
		t.close()
	}
}

// open opens files, as far as they exist.
func (t *trail) open(files []sealed) error {
	for _, s := range files {
		f, err := os.Open(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		t.files = append(t.files, f)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		t.sizes = append(t.sizes, info.Size())
	}
	return nil
}

func (t *trail) close() {
	for _, f := range t.files {
		f.Close()
	}
	t.files, t.sizes = nil, nil
}

// name returns the file at hand for people.
func (t *trail) name() string {
	if t.at < len(t.files) {
		return filepath.Join(t.family, filepath.Base(t.files[t.at].Name()))
	}
	return filepath.Join(t.family, t.family+".jsonl")
}

func (t *trail) where() string { return fmt.Sprintf("%s line %d", t.name(), t.n) }

// wholeLines splits at newlines and leaves a torn last line out.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// peek returns the next line without using it up, or nil at the end. Lines
// that cannot be read are findings.
func (v *verifier) peek(t *trail) *line {
	for t.next == nil && t.at < len(t.files) {
		if t.lines == nil {
			t.lines = bufio.NewScanner(io.LimitReader(t.files[t.at], t.sizes[t.at]))
			t.lines.Buffer(nil, maxLine)
			t.lines.Split(wholeLines)
			t.n = 0
		}
		if !t.lines.Scan() {
			if err := t.lines.Err(); err != nil {
				v.find(t.name(), "it cannot be read after line %d: %v", t.n, err)
			}
			t.lines = nil
			t.at++
			continue
		}
		t.n++
		v.out.Lines++
		l, err := decodeLine(t.lines.Bytes())
		if err != nil {
			v.find(t.where(), "it cannot be read: %v", err)
			continue
		}
		t.next, t.raw = &l, t.lines.Bytes()
	}
	return t.next
}

// compareLine finds the line of an entry and compares the two.
func (v *verifier) compareLine(t *trail, r hub.Reader, e hub.Entry) error {
	for {
		l := v.peek(t)
		switch {
		case l == nil && e.Seq > t.after && e.Seq <= t.upTo && !t.ended:
			v.find(t.name(), "it ends before the line of journal row %d", e.Seq)
			t.ended = true
			return nil
		case l == nil:
			return nil
		case l.Seq > e.Seq:
			if e.Seq > t.after {
				v.find(t.name(), "the line of journal row %d is missing", e.Seq)
			}
			return nil
		case l.Seq < e.Seq:
			v.outOfPlace(t, l)
			t.next = nil
			continue
		}
		what, err := v.differs(t, r, *l, e)
		if what != "" {
			v.find(t.where(), "%s", what)
		}
		t.next = nil
		return err
	}
}

// outOfPlace reports a line whose entry was not expected there, unless nothing
// is known about it.
func (v *verifier) outOfPlace(t *trail, l *line) {
	archived, _ := v.archived()
	if l.Seq <= t.after || l.Seq <= archived && !v.complete {
		return
	}
	v.find(t.where(), "it is about journal row %d, which has no place there", l.Seq)
}

// rest reports lines that no entry belongs to.
func (v *verifier) rest(t *trail) {
	for l := v.peek(t); l != nil; l = v.peek(t) {
		v.outOfPlace(t, l)
		t.next = nil
	}
}

// differs compares a line with its entry and with what the entry is about.
func (v *verifier) differs(t *trail, r hub.Reader, l line, e hub.Entry) (string, error) {
	if !same(l.Entry, e) {
		return fmt.Sprintf("it differs from journal row %d", e.Seq), nil
	}
	var want bytes.Buffer
	err := appendLine(&want, r, e)
	if hub.CodeOf(err) == hub.CodeDegraded {
		return "", nil // what it is about cannot be read, which is a finding of its own
	}
	if err != nil {
		return "", err
	}
	if bytes.Equal(bytes.TrimSuffix(want.Bytes(), []byte("\n")), t.raw) {
		return "", nil
	}
	if !begins(e.Action) {
		return fmt.Sprintf("what it says beside journal row %d is not what the database holds", e.Seq), nil
	}
	// The message may lie in an archive, or it is the database that was
	// changed; then the facts tell.
	var facts sentFacts
	if json.Unmarshal(e.Facts, &facts) == nil && (facts.Digest != "" || v.gone(hub.EnvelopeID(e.Subject), facts.Type)) && l.Message != nil {
		sent, err := shape.DecodeEnvelope(l.Message)
		if err == nil && len(facts.differences(hub.Message{Envelope: sent, Hop: facts.Hop, Cause: facts.Cause}, e)) == 0 {
			return "", nil
		}
	}
	return fmt.Sprintf("its message is not the one that journal row %d recorded", e.Seq), nil
}
