package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv1"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A RecordedFrame is one line of a recording.
type RecordedFrame struct {
	Direction jsonrpc.Direction `json:"direction"`
	Time      time.Time         `json:"time,omitzero"`
	Frame     json.RawMessage   `json:"frame,omitempty"`
	Text      string            `json:"text,omitempty"` // in place of a frame that is not JSON
	Truncated bool              `json:"truncated,omitempty"`
}

// NewRecordedFrame returns a frame as it is recorded.
func NewRecordedFrame(d jsonrpc.Direction, f jsonrpc.Frame) RecordedFrame {
	r := RecordedFrame{Direction: d, Time: f.Time.UTC(), Frame: f.Raw}
	if !json.Valid(f.Raw) {
		r.Frame, r.Text = nil, strings.ToValidUTF8(string(f.Raw), "\uFFFD")
	}
	return r
}

// encode returns the line with its end.
func (f RecordedFrame) encode() []byte {
	line, _ := strictjson.Encode(f) // valid JSON and valid text: cannot fail
	return append(line, '\n')
}

// MaxRecording is the largest recording of a run, in bytes.
const MaxRecording = 64 << 20

// A Recorder writes the recording of a run: every frame in both directions, with
// secrets redacted. A frame that was written survives a kill of this process. It is
// safe for concurrent use.
type Recorder struct {
	redactor *Redactor
	copies   func(line []byte) // gets the same lines; may be nil

	mu    sync.Mutex // guards what follows
	file  *os.File
	left  int64 // bytes until MaxRecording
	fault error // why recording ended early
}

// NewRecorder makes the file at path, which must not exist. copies, which may be
// nil, gets every line, also beyond MaxRecording.
func NewRecorder(path string, r *Redactor, copies func(line []byte)) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run: begin the recording: %w", err)
	}
	return &Recorder{redactor: r, copies: copies, file: f, left: MaxRecording}, nil
}

// Frame records a frame. It is a tap of a connection.
func (r *Recorder) Frame(d jsonrpc.Direction, f jsonrpc.Frame) {
	f.Raw = r.redactor.Redact(f.Raw)
	recorded := NewRecordedFrame(d, f)
	line := recorded.encode()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copies != nil {
		r.copies(line)
	}
	switch {
	case r.fault != nil || r.left <= 0:
	case int64(len(line)) > r.left:
		r.left = 0
		r.write(RecordedFrame{Direction: d, Time: recorded.Time, Truncated: true}.encode())
	default:
		r.left -= int64(len(line))
		r.write(line)
	}
}

func (r *Recorder) write(line []byte) {
	if _, err := r.file.Write(line); err != nil {
		r.fault = fmt.Errorf("run: record a frame: %w", err)
	}
}

// Close ends the recording. It reports an error if the recording is incomplete.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.fault, r.file.Close())
}

// maxLine is the longest line that Replay reads, in bytes.
const maxLine = jsonrpc.DefaultMaxFrame + 1<<20

// Replay reads a recording and calls each for every line, with the update in it if
// the frame is one. A line that cannot be read ends the replay with an error,
// except for the last line, which a kill may have cut off.
func Replay(r io.Reader, each func(f RecordedFrame, u *acp.Update) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	version := 1
	var unreadable error

	for n := 1; lines.Scan(); n++ {
		if unreadable != nil {
			return unreadable
		}
		var f RecordedFrame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			unreadable = fmt.Errorf("run: read line %d of the recording: %w", n, err)
			continue
		}

		var message struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result struct {
				Version int `json:"protocolVersion"`
			} `json:"result"`
		}
		json.Unmarshal(f.Frame, &message) // a frame of another form is none of these

		// The protocol version in an answer of the agent decides how its updates are decoded.
		var u *acp.Update
		if f.Direction == jsonrpc.In {
			if v := message.Result.Version; v != 0 {
				version = v
			}
			if message.Method == acpv1.MethodSessionUpdate {
				u = decodeUpdate(version, message.Params)
			}
		}

		if err := each(f, u); err != nil {
			return err
		}
	}

	if err := lines.Err(); err != nil {
		return fmt.Errorf("run: read the recording: %w", err)
	}
	return nil
}

// decodeUpdate decodes the params of session/update. It returns nil for params
// that are malformed.
func decodeUpdate(version int, params json.RawMessage) *acp.Update {
	if version == 1 {
		m := &acpv1.SessionNotification{}
		if m.UnmarshalJSON(params) != nil {
			return nil
		}
		return &acp.Update{V1: m}
	}
	m := &acpv2.UpdateSessionNotification{}
	if m.UnmarshalJSON(params) != nil {
		return nil
	}
	return &acp.Update{V2: m}
}
