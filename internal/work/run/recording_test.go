package run_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

func TestRedact(t *testing.T) {
	t.Setenv("SERVICE_API_KEY", `quoted"and\slashed/value`)
	t.Setenv("GITHUB_TOKEN", "hunter2hunter2")
	t.Setenv("SHORT_TOKEN", "abc")
	t.Setenv("KEYBOARD", "querty-layout")
	t.Setenv("SSH_AUTH_SOCK", "/run/agent.sock")
	r := run.NewRedactor("the key of the run")
	for _, test := range []struct{ name, text, want string }{
		{"a secret that is known", `my key is the key of the run!`, `my key is [redacted]!`},
		{"a value of the environment", `hunter2hunter2`, `[redacted]`},
		{"a value as JSON writes it", `{"a":"quoted\"and\\slashed/value"}`, `{"a":"[redacted]"}`},
		{"a value as it is", `quoted"and\slashed/value`, `[redacted]`},
		{"a bearer token", `{"Authorization":"Bearer abcdefgh12345"}`, `{"Authorization":"Bearer [redacted]"}`},
		{"a key of a hub", `PARLEY_KEY=cacp_sk_live_abcdefgh1234`, `PARLEY_KEY=[redacted]`},
		{"a key of a service", "use sk-" + strings.Repeat("a1", 12) + " please", `use [redacted] please`},
		{"a token of a forge", `ghp_0123456789abcdefghijABCDEFGHIJ`, `[redacted]`},
		{"a key at the beginning of a line", `{"text":"so:\ncacp_sk_live_abcdefgh1234\nyes"}`, `{"text":"so:\n[redacted]\nyes"}`},
		{"two of them", `Bearer abcdefgh1 and Bearer abcdefgh2.`, `Bearer [redacted] and Bearer [redacted]`},
		{"short values are words", `abc`, `abc`},
		{"a path is no secret", `/run/agent.sock`, `/run/agent.sock`},
		{"a name that is not a key's", `querty-layout`, `querty-layout`},
		{"words about bearers", `the bearer of bad news, basic understanding`, `the bearer of bad news, basic understanding`},
		{"words with a mark in them", `a task-oriented-approach-to-things`, `a task-oriented-approach-to-things`},
	} {
		if got := string(r.Redact([]byte(test.text))); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"a":"Bearer aaaaaaaaaaaa","b":"sEcReT\"\\x"}`)
	f.Add(`"cacp_sk_live_aaaaaaaaaaaaa`)
	r := run.NewRedactor("sEcReT\"\\x", "plain-secret")
	f.Fuzz(func(t *testing.T, text string) {
		got := r.Redact([]byte(text))
		if bytes.Contains(got, []byte("plain-secret")) {
			t.Errorf("a secret is left in %q", got)
		}
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Errorf("%q was JSON, %q is not", text, got)
		}
	})
}

// recorded records frames and returns the file.
func recorded(t *testing.T, limit int64, frames ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "frames.jsonl")
	r, err := run.NewRecorder(path, run.NewRedactor("the key of the run"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Limit(limit)
	for _, f := range frames {
		r.Frame(jsonrpc.In, jsonrpc.Frame{Raw: []byte(f), Time: time.Unix(1, 0)})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRecorder(t *testing.T) {
	got := string(recorded(t, run.MaxRecording, `{"x":"<the key of the run>"}`, "prose \xff"))
	want := `{"direction":"in","time":"1970-01-01T00:00:01Z","frame":{"x":"<[redacted]>"}}` + "\n" +
		`{"direction":"in","time":"1970-01-01T00:00:01Z","text":"prose ` + "\uFFFD" + `"}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	big := `"` + strings.Repeat("x", 200) + `"`
	raw := recorded(t, 1000, big, big, big, big, big)
	if len(raw) > 1100 || !strings.HasSuffix(string(raw), `"truncated":true}`+"\n") || bytes.Count(raw, []byte("\n")) != 4 {
		t.Errorf("%d bytes in %d lines are recorded", len(raw), bytes.Count(raw, []byte("\n")))
	}
}

func TestReplay(t *testing.T) {
	update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}}`
	raw := recorded(t, run.MaxRecording, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`, update, `{"method":"session/update","params":{}}`)
	read := func(raw []byte) (said string, lines int, err error) {
		err = run.Replay(bytes.NewReader(raw), func(_ run.RecordedFrame, u *acp.Update) error {
			lines++
			if u != nil {
				said += u.Text()
			}
			return nil
		})
		return said, lines, err
	}
	if said, lines, err := read(raw); said != "hello" || lines != 3 || err != nil {
		t.Errorf("got %q, %d lines, %v", said, lines, err)
	}
	if said, lines, err := read(append(raw, `{"direction":"in","fra`...)); said != "hello" || lines != 3 || err != nil {
		t.Errorf("a torn end: got %q, %d lines, %v", said, lines, err)
	}
	if _, _, err := read(append([]byte("nonsense\n"), raw...)); err == nil {
		t.Error("nonsense in the middle was not seen")
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"direction":"in","frame":{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}}`))
	f.Add([]byte(`{"direction":"in","frame":{"result":{"protocolVersion":2}}}` + "\n" + `{"direction":"in","frame":{"method":"session/update","params":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		run.Replay(bytes.NewReader(raw), func(_ run.RecordedFrame, u *acp.Update) error { // must not panic
			if u != nil {
				u.Kind()
				u.Text()
				u.ToolCall()
			}
			return nil
		})
	})
}
