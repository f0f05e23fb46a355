package run

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"unicode"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// Limits of a problem's text, in which the agent is quoted.
const (
	maxStderrLines = 10
	maxStderrLine  = 300 // bytes
	maxData        = 500 // bytes of the data of an error
)

// Explain says for people why an agent failed: the error, the data that the agent sent
// with it, and the last lines of the agent's standard error, without secrets and
// without characters that move a cursor. hint is an advice; it may be empty.
func Explain(err error) (text, hint string) {
	text = err.Error()
	var answer *jsonrpc.Error
	if errors.As(err, &answer) && len(answer.Data) > 0 {
		data := string(answer.Data)
		json.Unmarshal(answer.Data, &data) // a string loses its quotes; all else stays
		text += "\nthe agent adds: " + shorten.Text(data, maxData)
	}
	if lines := lastLines(stderrOf(err)); len(lines) > 1 || (len(lines) == 1 && !strings.Contains(text, lines[0])) {
		text += "\nits standard error ends with:\n  " + strings.Join(lines, "\n  ")
	}
	return string(NewRedactor().Redact([]byte(plaintext.Text(text)))), startHint(err)
}

// stderrOf returns the end of the agent's standard error that comes with an error.
func stderrOf(err error) []byte {
	var start *acp.StartError
	var turn *fleet.TurnError
	var exit *jsonrpc.ExitError
	switch {
	case errors.As(err, &turn):
		return turn.Stderr
	case errors.As(err, &start):
		return start.Stderr
	case errors.As(err, &exit):
		return exit.Stderr
	}
	return nil
}

// lastLines returns the last lines of a text that are not blank.
func lastLines(text []byte) []string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(text), "\uFFFD")) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, shorten.Text(line, maxStderrLine))
		}
	}
	return lines[max(0, len(lines)-maxStderrLines):]
}

// startHint returns the next step for an agent that failed.
func startHint(err error) string {
	var fault *acp.Fault
	var answer *jsonrpc.Error
	errors.As(err, &fault)
	switch {
	case errors.Is(err, acp.ErrAuthRequired):
		return "give --auth METHOD; parley acp inspect lists the methods"
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return "install it, or give the path of its program; parley agent clis lists the known agents"
	case errors.Is(err, acp.ErrNoVersion2):
		return "give --v2 to offer version 2 of the protocol, too"
	case fault != nil && fault.Code == acp.FaultProse:
		return "give it the flag that makes it speak ACP; parley agent clis shows the commands of known agents"
	case fault != nil && fault.Code == acp.FaultSilent:
		return "start it by hand to see whether it waits for a login; --start-timeout gives it more time"
	case fault != nil && fault.Code == acp.FaultExit, errors.As(err, &answer):
		return "start it by hand in the same folder: it may need a login, a model or a setting"
	}
	return ""
}
