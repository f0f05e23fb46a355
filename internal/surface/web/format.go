package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/shorten"
	"github.com/parley-agents/parley/internal/strictjson"
)

// functions are what templates can call.
var functions = template.FuncMap{
	"iso":         func(t hub.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"utc":         func(t hub.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
	"query":       func(v any) string { return url.QueryEscape(toString(v)) },
	"path":        func(v any) string { return url.PathEscape(toString(v)) },
	"text":        visible,
	"cut":         func(n int, s string) string { return shorten.Characters(visible(s), n) },
	"names":       joinNames,
	"brief":       func(hash string) string { return hash[:min(len(hash), 12)] },
	"bytes":       byteCount,
	"json":        pretty,
	"hue":         hue,
	"raw":         func(b json.RawMessage) string { return string(b) },
	"string":      toString,
	"subjectPath": subjectPath,
	"decision": func(token string, id, short any) any {
		return struct{ Token, ID, Short string }{token, toString(id), toString(short)}
	},
	"agentDo": func(token, action string, agent hub.AgentID, label string) any {
		return struct {
			Token, Action, Label string
			Agent                hub.AgentID
		}{token, action, label, agent}
	},
	"slug":  func(s any) string { return strings.ReplaceAll(toString(s), " ", "-") },
	"words": func(s any) string { return strings.ReplaceAll(toString(s), "_", " ") },
}

// subjectPath returns the address of the thing that an entry of the journal is about.
func subjectPath(e hub.Entry) string {
	if !hub.EnvelopeID(e.Subject).Valid() {
		return ""
	}
	switch family, _, _ := strings.Cut(string(e.Action), "."); family {
	case "message", "delivery", "channel":
		return "/messages/" + e.Subject
	case "handoff":
		return "/handoffs/" + e.Subject
	case "run":
		return "/runs/" + e.Subject
	}
	return ""
}

// hue returns a number from 0 to 11, the same for the same name.
func hue(name hub.AgentID) int {
	sum := 7
	for _, c := range name {
		sum = (sum*31 + int(c)) % 12
	}
	return sum
}

func toString(v any) string { return fmt.Sprint(v) }

// visible returns text of others without characters that hide or turn text around. Line
// ends and tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// pretty returns JSON with a member on each line.
func pretty(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return visible(string(raw))
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	enc.Encode(v) // what was decoded can be encoded
	return visible(strings.TrimSpace(out.String()))
}

// A message is an envelope as people read it.
type message struct {
	hub.Envelope
	Short  string // its short id
	Fields []field
	Hidden bool // its text is for operators alone
	Asks   bool // it waits for an answer
	Mine   bool // the operator wrote it
	Ledger []hub.Delivery
}

// A field is one member of a message's payload.
type field struct {
	Name string // "" for the main text
	Text string
}

// mainFields are the members that need no name on a page.
var mainFields = []string{"summary", "detail", "question", "answer", "text", "content", "objective"}

// message returns an envelope as the person may read it: text of high sensitivity is for
// operators alone.
func (v *visit) message(e hub.Envelope, short mailroom.ShortIDs) message {
	m := message{Envelope: e, Short: string(e.ID), Mine: e.From == hub.Operator, Asks: e.Type == hub.TypeKnowledgeQuery}
	if s, ok := short[string(e.ID)]; ok {
		m.Short = string(s)
	}
	if m.Hidden = !v.operator() && e.Policy.Sensitivity == hub.SensitivityHigh; m.Hidden {
		m.Envelope = e.Forgotten()
		return m
	}
	var cut struct {
		Summary string `json:"summary"`
		Detail  string `json:"detail"`
	}
	json.Unmarshal(e.Payload, &cut) // members of another type are no summary
	head, shortened := strings.CutSuffix(cut.Summary, "…")
	for name, value := range strictjson.Members(e.Payload) {
		if name == "summary" && shortened && strings.HasPrefix(cut.Detail, head) || name == "query_id" || name == "package_hash" {
			continue
		}
		var text string
		if json.Unmarshal(value.Raw(), &text) != nil {
			text = pretty(value.Raw())
		}
		if text = strings.TrimSpace(visible(text)); text == "" {
			continue
		}
		f := field{visible(strings.ReplaceAll(name, "_", " ")), text}
		if slices.Contains(mainFields, name) {
			f.Name = ""
		}
		m.Fields = append(m.Fields, f)
	}
	return m
}

// words returns the beginning of a message's text.
func (m message) words(n int) string {
	switch {
	case m.Hidden:
		return "text of high sensitivity, for operators"
	case len(m.Fields) == 0:
		return ""
	}
	text := m.Fields[0].Text
	for _, f := range m.Fields {
		if f.Name == "" {
			text = f.Text
			break
		}
	}
	return shorten.Characters(strings.Join(strings.Fields(text), " "), n)
}

// Words returns the beginning of a message's text, for a list.
func (m message) Words() string { return m.words(160) }

func byteCount(n int64) string {
	switch {
	case n >= 1<<30:
		return trim(float64(n)/(1<<30)) + " GiB"
	case n >= 1<<20:
		return trim(float64(n)/(1<<20)) + " MiB"
	case n >= 1<<10:
		return trim(float64(n)/(1<<10)) + " KiB"
	}
	return trim(float64(n)) + " B"
}

// trim writes a number with at most one digit after the point.
func trim(f float64) string {
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
}
