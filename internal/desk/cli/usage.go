package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// A spending is where a CLI leaves the counts of its model calls. A CLI without a count tells
// them by our plugin.
type spending struct {
	// file returns the transcript of a session whose hooks do not name it; nil if they do.
	file func(session string, getenv func(string) string) string

	// subagents returns patterns of the transcripts of subagents, beside that of a session; nil
	// if the subagents write into the same one.
	subagents func(transcript, session string) []string

	// named says that the first line of a subagent's transcript names the session: files of
	// other sessions match the patterns, too.
	named bool

	marks [][]byte // texts of which a line with counts has at least one

	// count reads the counts of a model call in a line. It reports false for a line without
	// any. model is the model of the lines before, which a line may change.
	count func(line []byte, model *string) (Count, bool)
}

// A Count is the usage of a model call as a CLI writes it, with the parts of the input apart. A
// call whose id is "" cannot be told from others and must not be counted.
type Count struct {
	hub.ModelCall
	Bad bool // the line has counts that cannot be read
}

// Counts reports whether the CLI leaves counts in transcripts.
func (c CLI) Counts() bool { return c.count != nil }

// Count reads the counts of a model call in a line of a transcript. It reports false for a line
// without any. model is the model of the lines before.
func (c CLI) Count(line []byte, model *string) (Count, bool) {
	for _, mark := range c.marks {
		if bytes.Contains(line, mark) {
			return c.count(line, model)
		}
	}
	return Count{}, false
}

// Counter returns the function that reads the lines of the CLI's transcripts.
func (c CLI) Counter() func(line []byte, model *string) (call hub.ModelCall, bad, ok bool) {
	return func(line []byte, model *string) (hub.ModelCall, bool, bool) {
		got, ok := c.Count(line, model)
		return got.ModelCall, got.Bad, ok
	}
}

// Transcripts returns the transcripts of a session: its own, which the hooks of the CLI may
// name, and those of its subagents.
func (c CLI) Transcripts(named, session string, getenv func(string) string) []string {
	if c.count == nil {
		return nil
	}
	own := named
	if own == "" && c.file != nil && plainSession().MatchString(session) {
		own = c.file(session, getenv)
	}
	if own == "" || !filepath.IsAbs(own) {
		return nil
	}
	out := []string{filepath.Clean(own)}
	if c.subagents == nil || !plainSession().MatchString(session) {
		return out
	}
	for _, pattern := range c.subagents(own, session) {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, path := range found {
			isOther := path == out[0] || (c.named && !namesSession(path, session))
			if !isOther && len(out) < maxTranscripts {
				out = append(out, path)
			}
		}
	}
	return out
}

// maxTranscripts bounds the transcripts of one session.
const maxTranscripts = 200

// plainSession is the form of the ids of sessions that become parts of paths.
var plainSession = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// firstLine is the part of a transcript, in bytes, in which its first line names the session.
const firstLine = 16 << 10

// namesSession reports whether the first line of a file names a session.
func namesSession(path, session string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, firstLine)
	n, _ := f.Read(head) // a shorter part is compared as it is
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.Contains(line, []byte(`"`+session+`"`))
}

// escaped returns a path in which characters of patterns have no meaning.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// split returns the tokens of a call whose input includes those of the cache.
func split(input, read, write, output, reasoning int64) hub.Tokens {
	rest := input - read - write
	if rest < 0 && input >= read {
		rest = input - read
	}
	return hub.Tokens{Input: rest, Output: output, CachedRead: read, CachedWrite: write, Reasoning: reasoning}
}

// modelName is the form of the names of models.
var modelName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@+\[\]() -]{0,127}$`)

// callID is the form of the ids of calls.
var callID = pattern.New(`^[A-Za-z0-9._:/@+=#-]{1,200}$`)

// counted returns the usage of a call. Ids and names that are not of the form of such are left
// out: a text must not come in their place.
func counted(id, model, at string, t hub.Tokens) Count {
	c := Count{ModelCall: hub.ModelCall{Tokens: t}, Bad: !t.Valid()}
	if callID().MatchString(id) {
		c.ID = id
	}
	if modelName().MatchString(model) {
		c.Model = model
	}
	if when, err := time.Parse(time.RFC3339Nano, at); err == nil {
		c.At = hub.At(when)
	}
	return c
}

// currencyForm is the form of the names of currencies.
var currencyForm = pattern.New(`^[A-Z]{3}$`)

// Plain returns a call without a model or a cost whose name or currency has an unusual form. An
// agent may name them as it likes, and the hub refuses such a call with all others of its turn.
func Plain(c hub.ModelCall) hub.ModelCall {
	if !modelName().MatchString(c.Model) {
		c.Model = ""
	}
	c.Currency = strings.ToUpper(c.Currency)
	if !currencyForm().MatchString(c.Currency) {
		c.Cost = 0
		c.Currency = ""
	}
	return c
}

// bad is the count of a line whose counts cannot be read.
var bad = Count{Bad: true}

// claudeUsage reads Claude Code's transcript. Every line of an answer repeats its usage under
// one message id. Its own messages about errors have a model that does not exist.
var claudeUsage = spending{
	marks: [][]byte{[]byte(`"usage"`)},
	subagents: func(transcript, session string) []string {
		return []string{filepath.Join(escaped(filepath.Dir(transcript)), session, "subagents", "agent-*.jsonl")}
	},
	count: func(line []byte, _ *string) (Count, bool) {
		var l struct {
			Type    string `json:"type"`
			At      string `json:"timestamp"`
			Message struct {
				ID    string `json:"id"`
				Model string `json:"model"`
				Usage *struct {
					Input  int64 `json:"input_tokens"`
					Write  int64 `json:"cache_creation_input_tokens"`
					Read   int64 `json:"cache_read_input_tokens"`
					Output int64 `json:"output_tokens"`
				} `json:"usage"`
			} `json:"message"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return bad, l.Type == "assistant"
		}
		u := l.Message.Usage
		if l.Type != "assistant" || u == nil || l.Message.Model == "<synthetic>" {
			return Count{}, false
		}
		return counted(l.Message.ID, l.Message.Model, l.At, hub.Tokens{Input: u.Input, Output: u.Output, CachedRead: u.Read, CachedWrite: u.Write}), true
	},
}

// codexUsage reads Codex's rollout file, in which each call has two lines: the other kind has
// running totals. The model is in an earlier line.
var codexUsage = spending{
	marks: [][]byte{[]byte(`"token_usage_record"`), []byte(`"turn_context"`)},
	named: true,
	subagents: func(transcript, _ string) []string {
		day := filepath.Dir(transcript)
		year := escaped(filepath.Dir(filepath.Dir(day)))
		return []string{filepath.Join(escaped(day), "rollout-*.jsonl"), filepath.Join(nextDay(year, day), "rollout-*.jsonl")}
	},
	count: func(line []byte, model *string) (Count, bool) {
		var l struct {
			Type    string `json:"type"`
			At      string `json:"timestamp"`
			Payload struct {
				Model    string `json:"model"`
				Response string `json:"response_id"`
				Thread   string `json:"thread_id"`
				Usage    *struct {
					Input     int64 `json:"input_tokens"`
					Cached    int64 `json:"cached_input_tokens"`
					Write     int64 `json:"cache_write_input_tokens"`
					Output    int64 `json:"output_tokens"`
					Reasoning int64 `json:"reasoning_output_tokens"`
				} `json:"usage"`
				Thus struct { // of the thread so far
					Total int64 `json:"total_tokens"`
				} `json:"thread_token_usage"`
			} `json:"payload"`
		}
		err := json.Unmarshal(line, &l)
		switch {
		case err != nil:
			return bad, l.Type == "token_usage_record"
		case l.Type == "turn_context":
			*model = l.Payload.Model
			return Count{}, false
		case l.Type != "token_usage_record" || l.Payload.Usage == nil:
			return Count{}, false
		}
		id := l.Payload.Response
		if id == "" {
			id = l.Payload.Thread + ":" + strconv.FormatInt(l.Payload.Thus.Total, 10)
		}
		u := l.Payload.Usage
		return counted(id, *model, l.At, split(u.Input, u.Cached, u.Write, u.Output, u.Reasoning)), true
	},
}

// nextDay returns the folder of the day after that of a path that ends in year, month and day.
// years is the folder with the years, for a pattern.
func nextDay(years, day string) string {
	parts := strings.Split(filepath.ToSlash(day), "/")
	n := len(parts)
	if n < 3 {
		return escaped(day)
	}
	date, err := time.Parse("2006/01/02", strings.Join(parts[n-3:], "/"))
	if err != nil {
		return escaped(day)
	}
	return filepath.Join(filepath.Dir(years), filepath.FromSlash(date.AddDate(0, 0, 1).Format("2006/01/02")))
}

// qwenUsage reads Qwen Code's transcript, in which each number is written twice: the lines for
// its own screen are left out.
var qwenUsage = spending{
	marks: [][]byte{[]byte(`"usageMetadata"`)},
	subagents: func(transcript, session string) []string {
		return []string{filepath.Join(escaped(filepath.Dir(filepath.Dir(transcript))), "subagents", session, "agent-*.jsonl")}
	},
	count: func(line []byte, _ *string) (Count, bool) {
		var l struct {
			Type  string `json:"type"`
			ID    string `json:"uuid"`
			At    string `json:"timestamp"`
			Model string `json:"model"`
			Usage *struct {
				Input    int64 `json:"promptTokenCount"`
				Output   int64 `json:"candidatesTokenCount"`
				Thoughts int64 `json:"thoughtsTokenCount"`
				Cached   int64 `json:"cachedContentTokenCount"`
			} `json:"usageMetadata"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return bad, l.Type == "assistant"
		}
		if l.Type != "assistant" || l.Usage == nil {
			return Count{}, false
		}
		return counted(l.ID, l.Model, l.At, split(l.Usage.Input, l.Usage.Cached, 0, l.Usage.Output, l.Usage.Thoughts)), true
	},
}

// geminiUsage reads Gemini CLI's transcript. An answer is written again under its id when its
// tools have ended: the last line counts. Thoughts come on top of the output.
var geminiUsage = spending{
	marks: [][]byte{[]byte(`"tokens"`)},
	subagents: func(transcript, session string) []string {
		return []string{filepath.Join(escaped(filepath.Dir(transcript)), session, "*.jsonl")}
	},
	count: func(line []byte, _ *string) (Count, bool) {
		var l struct {
			Type   string `json:"type"`
			ID     string `json:"id"`
			At     string `json:"timestamp"`
			Model  string `json:"model"`
			Tokens *struct {
				Input    int64 `json:"input"`
				Output   int64 `json:"output"`
				Cached   int64 `json:"cached"`
				Thoughts int64 `json:"thoughts"`
				Tool     int64 `json:"tool"`
			} `json:"tokens"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return bad, l.Type == "gemini"
		}
		if l.Type != "gemini" || l.Tokens == nil {
			return Count{}, false
		}
		t := l.Tokens
		return counted(l.ID, l.Model, l.At, split(sum(t.Input, t.Tool), t.Cached, 0, sum(t.Output, t.Thoughts), t.Thoughts)), true
	},
}

// sum adds counts of which one may be hostile: it is negative then.
func sum(a, b int64) int64 {
	if a < 0 || b < 0 || a > math.MaxInt64-b {
		return -1
	}
	return a + b
}

// copilotUsage reads the events of a session of Copilot CLI. Its cost counts requests, not money.
var copilotUsage = spending{
	marks: [][]byte{[]byte(`"session.usage_record"`)},
	file: func(session string, getenv func(string) string) string {
		home := getenv("COPILOT_HOME")
		if home == "" {
			home = filepath.Join(getenv("HOME"), ".copilot")
		}
		return filepath.Join(home, "session-state", session, "events.jsonl")
	},
	count: func(line []byte, _ *string) (Count, bool) {
		type usage struct {
			Model     string `json:"model"`
			Input     int64  `json:"inputTokens"`
			Output    int64  `json:"outputTokens"`
			Read      int64  `json:"cacheReadTokens"`
			Write     int64  `json:"cacheWriteTokens"`
			Reasoning int64  `json:"reasoningTokens"`
			Call      string `json:"apiCallId"`
		}
		var l struct {
			Type  string `json:"type"`
			ID    string `json:"id"`
			At    string `json:"timestamp"`
			Usage *usage `json:"usage"`
			Data  struct {
				Usage *usage `json:"usage"`
			} `json:"data"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return bad, l.Type == "session.usage_record"
		}
		u := l.Data.Usage
		if u == nil {
			u = l.Usage
		}
		if l.Type != "session.usage_record" || u == nil {
			return Count{}, false
		}
		id := u.Call
		if id == "" {
			id = l.ID
		}
		return counted(id, u.Model, l.At, split(u.Input, u.Read, u.Write, u.Output, u.Reasoning)), true
	},
}

// A pluginCall is a model call as our plugins tell it: the parts of the input apart, the output
// with reasoning.
type pluginCall struct {
	ID          string  `json:"id"`
	Model       string  `json:"model"`
	Input       int64   `json:"input"`
	Output      int64   `json:"output"`
	CachedRead  int64   `json:"cached_read"`
	CachedWrite int64   `json:"cached_write"`
	Reasoning   int64   `json:"reasoning"`
	Cost        float64 `json:"cost"` // in USD
	At          int64   `json:"at"`   // milliseconds since 1970
}

// maxPluginCalls bounds the calls that a plugin tells at once.
const maxPluginCalls = 5000

// readCalls returns the model calls of a plugin's event. Those without an id, and with counts
// that no model has, are left out.
func readCalls(raw json.RawMessage) (out []hub.ModelCall) {
	var calls []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &calls) != nil {
		return nil
	}
	for _, one := range calls[:min(len(calls), maxPluginCalls)] {
		var c pluginCall
		if json.Unmarshal(one, &c) != nil {
			continue
		}
		got := counted(c.ID, c.Model, "", hub.Tokens{Input: c.Input, Output: c.Output, CachedRead: c.CachedRead, CachedWrite: c.CachedWrite, Reasoning: c.Reasoning})
		if got.Bad || got.ID == "" {
			continue
		}
		if c.At > 0 {
			got.At = hub.At(time.UnixMilli(c.At))
		}
		if cost, ok := Millionths(c.Cost); ok && cost > 0 {
			got.Cost, got.Currency = cost, "USD"
		}
		out = append(out, got.ModelCall)
	}
	return out
}

// Millionths returns an amount of money in millionths, and whether it is one that a turn can
// cost.
func Millionths(amount float64) (int64, bool) {
	if math.IsNaN(amount) || amount < 0 || amount > hub.MaxCost/hub.Million {
		return 0, false
	}
	return int64(math.Round(amount * hub.Million)), true
}
