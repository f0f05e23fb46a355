package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// A trailReader reads the segments of a trail one after the other, as they were
// when it was opened.
type trailReader struct {
	upTo int64 // the trail needs a line for every entry up to here that no archive holds

	segments []*segment
	at       int   // index of the current segment
	next     *line // read and not compared yet
	ended    bool  // lines were reported missing at the end
}

// openTrail opens the segments of a trail. Findings are about segments that
// cannot be opened.
func (v *verifier) openTrail() error {
	v.trail = &trailReader{upTo: v.Cursor}
	for {
		before, err := segmentsIn(v.folders.Trail)
		if err != nil {
			return err
		}
		for _, path := range before {
			s, err := openSegment(path)
			switch {
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, errUnsealed): // archived meanwhile; being begun
			case err != nil:
				v.find(filepath.Base(path), "it cannot be read: %v", err)
			default:
				v.trail.segments = append(v.trail.segments, s)
			}
		}
		// A segment may be begun while the others are opened.
		now, err := segmentsIn(v.folders.Trail)
		isEmpty := len(before) == 0 && len(now) == 0
		hasNewest := len(now) > 0 && slices.Contains(before, now[len(now)-1])
		if err != nil || isEmpty || hasNewest {
			return err
		}
		v.trail.close()
	}
}

func (t *trailReader) close() {
	if t == nil {
		return
	}
	for _, s := range t.segments {
		s.close()
	}
	t.segments = nil
}

// name returns the name of the current segment.
func (t *trailReader) name() string {
	if t.at < len(t.segments) {
		return filepath.Base(t.segments[t.at].path)
	}
	if n := len(t.segments); n > 0 {
		return filepath.Base(t.segments[n-1].path)
	}
	return "trail"
}

// where names the current line.
func (t *trailReader) where() string { return fmt.Sprintf("%s line %d", t.name(), t.segments[t.at].n) }

// peek returns the next line with an entry, or nil at the end. Lines that cannot
// be read are findings.
func (v *verifier) peek() *line {
	t := v.trail
	for t.next == nil && t.at < len(t.segments) {
		l, err := t.segments[t.at].next()
		bad := new(lineError)
		switch {
		case err == nil && l.Entry != nil:
			v.Out.Lines++
			t.next = &l
		case err == nil:
			v.find(t.where(), "a trail cannot contain this line")
		case errors.As(err, &bad):
			v.Out.Lines++
			v.find(t.where(), "it cannot be read: %v", bad.err)
		default:
			if err != io.EOF && (err != errUnsealed || t.at < len(t.segments)-1) {
				v.find(t.name(), "it cannot be read after line %d: %v", t.segments[t.at].n, err)
			}
			t.at++
		}
	}
	return t.next
}

// compareHeader compares the header of the current segment with the entry before
// its first line.
func (v *verifier) compareHeader(before hub.Head) {
	s := v.trail.segments[v.trail.at]
	want := line{Format: segmentFormat, Version: segmentVersion, After: before.Seq, Hash: before.Hash}
	if s.n == 2 && !want.bytesEqual(s.first) {
		v.find(v.trail.name()+" line 1", "it does not name journal row %d, the last one before the segment", before.Seq)
	}
}

// compareLine finds the line of an entry in the trail and compares the two.
func (v *verifier) compareLine(r hub.Reader, e hub.Entry, before hub.Head) error {
	t := v.trail
	if t == nil {
		return nil
	}

	// Lines of earlier entries are out of place, and are passed over.
	archived, _ := v.archived()
	for {
		l := v.peek()
		switch {
		case l == nil && e.Seq > archived && e.Seq <= t.upTo && !t.ended:
			v.find(t.name(), "it ends before journal row %d", e.Seq)
			t.ended = true
			return nil
		case l == nil:
			return nil
		case l.Entry.Seq > e.Seq:
			if e.Seq > archived {
				v.find(t.name(), "the line for journal row %d is missing", e.Seq)
			}
			return nil
		case l.Entry.Seq < e.Seq:
			v.outOfPlace(l)
			t.next = nil
			continue
		}

		v.compareHeader(before)
		what, err := v.differs(r, *l, e)
		if what != "" {
			v.find(t.where(), "%s", what)
		}
		t.next = nil
		return err
	}
}

// outOfPlace reports a line whose entry was not expected there, unless its
// entry lies in an archive that was not read.
func (v *verifier) outOfPlace(l *line) {
	if archived, _ := v.archived(); l.Entry.Seq > archived || v.Complete {
		v.find(v.trail.where(), "it is about journal row %d, which does not belong there", l.Entry.Seq)
	}
}

// restOfTrail reports lines that no entry belongs to.
func (v *verifier) restOfTrail() {
	if v.trail == nil {
		return
	}
	for l := v.peek(); l != nil; l = v.peek() {
		v.outOfPlace(l)
		v.trail.next = nil
	}
}

// differs compares a line with its entry and with the thing that the entry is
// about, and returns a sentence if it differs.
func (v *verifier) differs(r hub.Reader, l line, e hub.Entry) (string, error) {
	raw := v.trail.segments[v.trail.at].raw
	if !sameEntry(*l.Entry, e) {
		return fmt.Sprintf("it differs from journal row %d", e.Seq), nil
	}
	want, err := entryLine(r, e, true)
	switch {
	case hub.CodeOf(err) == hub.CodeDegraded:
		return "", nil // the thing cannot be read, which is a finding of its own
	case err != nil:
		return "", err
	case want.bytesEqual(raw):
		return "", nil
	case e.Action == actions.HandoffProposed:
		return fmt.Sprintf("its data beside journal row %d differs from the database", e.Seq), nil
	}

	if beginsMessage(e.Action) {
		// An archive may hold the message, or the database was changed; then
		// the facts of the entry decide.
		sentence, err := v.messageDiffers(r, l, e, want)
		if err != nil || sentence != "" {
			return sentence, err
		}
		want.Envelope = l.Envelope
	}
	if !want.bytesEqual(raw) {
		return "it is not in the form that the hub writes", nil
	}
	return "", nil
}

// messageDiffers compares the message of a line with the facts of its entry, and returns a
// sentence if it differs. want is the line as the database has it.
func (v *verifier) messageDiffers(r hub.Reader, l line, e hub.Entry, want line) (string, error) {
	changed := fmt.Sprintf("its message differs from journal row %d", e.Seq)
	var facts sentFacts
	if json.Unmarshal(e.Facts, &facts) != nil || l.Envelope == nil {
		return changed, nil
	}
	comparesFacts := facts.Digest != "" || v.mayBeArchived(hub.EnvelopeID(e.Subject), facts.Type)
	if !comparesFacts {
		return changed, nil
	}
	sent, err := shape.DecodeEnvelope(l.Envelope)
	if err != nil {
		return changed, nil
	}

	// A text may be missing only after it was removed, and must be missing then.
	if facts.forgotten(sent) {
		removed, err := v.recordedLater(r, e.Subject, actions.MessageForgotten)
		if err != nil {
			return "", err
		}
		if removed.Seq == 0 {
			return changed, nil
		}
	} else if !sent.IsForgotten() && want.forgotten() {
		return "it holds a removed text; parley hub forget " + e.Subject + " removes it here as well", nil
	}

	msg := hub.Message{Envelope: sent, Hop: facts.Hop, Cause: facts.Cause}
	if len(facts.differences(msg, e)) > 0 {
		return changed, nil
	}
	return "", nil
}

// forgotten reports whether the line has an envelope without its text.
func (l line) forgotten() bool {
	e, err := shape.DecodeEnvelope(l.Envelope)
	return l.Envelope != nil && err == nil && e.IsForgotten()
}

// bytesEqual reports whether the line is written as raw.
func (l line) bytesEqual(raw []byte) bool {
	var buf bytes.Buffer
	err := l.encode(&buf)
	return err == nil && bytes.Equal(bytes.TrimSuffix(buf.Bytes(), []byte("\n")), raw)
}
