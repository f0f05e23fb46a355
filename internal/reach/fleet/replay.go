package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/parley-agents/parley/acp"
	"github.com/parley-agents/parley/acp/acpv1"
	"github.com/parley-agents/parley/acp/acpv2"
	"github.com/parley-agents/parley/jsonrpc"
)

// maxLine is how long a recorded line may be.
const maxLine = jsonrpc.DefaultMaxFrame + 1<<20

// Replay reads a recording, and calls each for every line, with the update that
// the frame is, if it is one. A line that cannot be read ends it, unless it is
// the last one: a kill may have torn that.
func Replay(r io.Reader, each func(l Line, u *acp.Update) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	version := 1
	var torn error
	for n := 1; lines.Scan(); n++ {
		if torn != nil {
			return torn
		}
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			torn = fmt.Errorf("fleet: line %d of the recording cannot be read: %w", n, err)
			continue
		}
		var frame struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			Result struct {
				Version int `json:"protocolVersion"`
			} `json:"result"`
		}
		json.Unmarshal(l.Frame, &frame) // what it does not fit is none of these
		if l.Direction == jsonrpc.In && frame.Result.Version != 0 {
			version = frame.Result.Version
		}
		var u *acp.Update
		if l.Direction == jsonrpc.In && frame.Method == acpv1.MethodSessionUpdate {
			u = update(version, frame.Params)
		}
		if err := each(l, u); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("fleet: the recording cannot be read: %w", err)
	}
	return nil
}

// update reads the params of session/update, nil if they are none.
func update(version int, params json.RawMessage) *acp.Update {
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
