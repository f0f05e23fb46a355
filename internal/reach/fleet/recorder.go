package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/jsonrpc"
)

// A Line is a frame as it is recorded: one line of JSON.
type Line struct {
	Direction jsonrpc.Direction `json:"direction"`
	Time      time.Time         `json:"time"`
	Frame     json.RawMessage   `json:"frame,omitempty"`
	Text      string            `json:"text,omitempty"` // in place of a frame that is no JSON
	Truncated bool              `json:"truncated,omitempty"`
}

// NewLine returns the line for a frame.
func NewLine(d jsonrpc.Direction, f jsonrpc.Frame) Line {
	l := Line{Direction: d, Time: f.Time.UTC(), Frame: f.Raw}
	if !json.Valid(f.Raw) {
		l.Frame, l.Text = nil, strings.ToValidUTF8(string(f.Raw), "\uFFFD")
	}
	return l
}

// MaxRecording is how many bytes of frames are recorded for one run.
const MaxRecording = 64 << 20

// A Recorder writes every frame of a conversation down, without secrets. What was
// written survives a kill of this process. It is safe for concurrent use.
type Recorder struct {
	redactor *Redactor
	copies   io.Writer // gets the same lines; may be nil

	mu    sync.Mutex // guards what follows
	file  *os.File
	left  int64
	fault error // why nothing more is recorded
}

// NewRecorder makes the file at path, which must not be there yet. What it
// records also goes to copies, which may be nil.
func NewRecorder(path string, r *Redactor, copies io.Writer) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("fleet: record: %w", err)
	}
	return &Recorder{redactor: r, copies: copies, file: f, left: MaxRecording}, nil
}

// Frame records a frame. It is a tap of a connection.
func (r *Recorder) Frame(d jsonrpc.Direction, f jsonrpc.Frame) {
	f.Raw = r.redactor.Redact(f.Raw)
	l := NewLine(d, f)
	line := encodeLine(l)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copies != nil {
		r.copies.Write(line) // who reads may be gone; the turn goes on
	}
	switch {
	case r.fault != nil || r.left <= 0:
	case int64(len(line)) > r.left:
		r.left = 0
		r.write(encodeLine(Line{Direction: d, Time: l.Time, Truncated: true}))
	default:
		r.left -= int64(len(line))
		r.write(line)
	}
}

func (r *Recorder) write(line []byte) {
	if _, err := r.file.Write(line); err != nil {
		r.fault = fmt.Errorf("fleet: record: %w", err)
	}
}

func encodeLine(l Line) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(l) // valid JSON and valid text into memory: cannot fail
	return []byte(b.String())
}

// Close ends the recording, and reports what kept it from being complete.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.fault, r.file.Close())
}
