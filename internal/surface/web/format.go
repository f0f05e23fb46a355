package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// functions are what templates can call.
var functions = template.FuncMap{
	"iso":         func(t hub.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"utc":         func(t hub.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
	"query":       func(v any) string { return url.QueryEscape(toString(v)) },
	"path":        func(v any) string { return url.PathEscape(toString(v)) },
	"text":        plaintext.Text,
	"cut":         func(n int, s string) string { return shorten.Characters(plaintext.Text(s), n) },
	"names":       joinNames,
	"credit":      handoff.CreditText,
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
	"agentDo": func(token, back, action string, agent hub.AgentID, label string) any {
		return struct {
			Token, Back, Action, Label string
			Agent                      hub.AgentID
		}{token, back, action, label, agent}
	},
	"question": func(token, back string, agent hub.AgentID, q any) any {
		return struct {
			Token, Back string
			Agent       hub.AgentID
			Question    any
		}{token, back, agent, q}
	},
	"dataOf": func(top any, here string, data any) any {
		return struct {
			Frame any
			Here  string
			Data  any
		}{top, here, data}
	},
	"initial": func(name hub.AgentID) string { return strings.ToUpper(string(name[:min(1, len(name))])) },
	"slug":    func(s any) string { return strings.ReplaceAll(toString(s), " ", "-") },
	"words":   func(s any) string { return strings.ReplaceAll(toString(s), "_", " ") },
}

// subjectPath returns the address of the thing that an entry of the journal is about.
func subjectPath(e hub.Entry) string {
	if id, ok := strings.CutPrefix(e.Subject, "team/"); ok && hub.TeamID(id).Valid() {
		return "/teams/" + id
	}
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

// pretty returns JSON with a member on each line.
func pretty(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	enc.Encode(v) // what was decoded can be encoded
	return strings.TrimSpace(out.String())
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
	Link   string // to the run or handoff that it tells of
}

// A field is one member of a message's payload.
type field struct {
	Name string // "" for the main text
	Text string
	Code bool // an object or a list of objects, as JSON
	main int  // the place of the main text in mainFields
}

// rank puts the main text first and objects last.
func (f field) rank() int {
	switch {
	case f.Name == "":
		return f.main
	case f.Code:
		return len(mainFields) + 1
	}
	return len(mainFields)
}

// mainFields are the members that need no name on a page.
var mainFields = []string{"summary", "detail", "question", "answer", "text", "content", "objective", "message"}

// summarized is the part of a payload by which a page shortens and links a message.
type summarized struct {
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Run      string `json:"run_id"`
	Handoff  string `json:"handoff_id"`
	Artifact string `json:"artifact_id"`
}

// repeats reports whether the detail begins with the text of the summary, which was cut.
func (s summarized) repeats() bool {
	head, shortened := strings.CutSuffix(s.Summary, "…")
	return shortened && strings.HasPrefix(s.Detail, head)
}

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

	// A message that the hub has a sentence for is shown as that sentence.
	var known summarized
	json.Unmarshal(e.Payload, &known) // members of another type are no summary
	m.Link = link(e, known)
	if sentence := mailroom.Sentence(e); sentence != "" {
		m.Fields = []field{{Text: sentence}}
		return m
	}

	// The words of another agent in a notice stand below its sentence.
	if quotes := e.Quotes(); len(quotes) > 0 {
		m.Fields = []field{{Text: short.Headline(e)}}
		for _, q := range quotes {
			if len(quotes) > 1 {
				m.Fields = append(m.Fields, field{Text: plaintext.Text(q.Summary)})
			}
			for _, one := range q.Said {
				m.Fields = append(m.Fields, field{Name: one.Name, Text: plaintext.Text(one.Text)})
			}
		}
		return m
	}

	// Any other message is shown as the members of its payload, the main text first.
	_, notice := e.NoticeSubject()
	for name, value := range strictjson.Members(e.Payload) {
		isSubject := notice && name == hub.NoticeMember
		isRepeated := name == "summary" && known.repeats()
		if isSubject || isRepeated || slices.Contains(unshown, name) {
			continue
		}
		if f, ok := fieldOf(name, value.Raw()); ok {
			m.Fields = append(m.Fields, f)
		}
	}
	slices.SortStableFunc(m.Fields, func(a, b field) int { return cmp.Compare(a.rank(), b.rank()) })
	return m
}

// unshown are the members of payloads that mean nothing to a person.
var unshown = []string{"query_id", "package_hash", "run_id", "handoff_id"}

// fieldOf returns a member of a payload as a page shows it, and false if it is empty.
func fieldOf(name string, raw json.RawMessage) (field, bool) {
	f := field{Name: strings.ReplaceAll(name, "_", " ")}
	var list []string
	switch {
	case json.Unmarshal(raw, &f.Text) == nil:
	case json.Unmarshal(raw, &list) == nil:
		f.Text = strings.Join(list, "\n")
	default:
		f.Text = pretty(raw)
		f.Code = strings.Contains(f.Text, "\n")
	}

	f.Text = strings.TrimSpace(plaintext.Text(f.Text))
	if f.main = slices.Index(mainFields, name); f.main >= 0 {
		f.Name = ""
	}
	return f, f.Text != "" && f.Text != "null" && f.Text != "{}"
}

// link returns the page of the thing that a message is about, "" if it has none.
func link(e hub.Envelope, about summarized) string {
	switch {
	case hub.EnvelopeID(about.Run).Valid():
		return "/runs/" + about.Run
	case hub.EnvelopeID(about.Handoff).Valid():
		return "/handoffs/" + about.Handoff
	case e.From != hub.Self || !hub.TeamID(e.Team).Valid():
		return ""
	case hub.ValidArtifactID(about.Artifact):
		return fmt.Sprintf("/teams/%s/artifacts/%s", e.Team, about.Artifact)
	}
	return "/teams/" + e.Team
}

// hiddenWords stand for a text that the person may not read.
const hiddenWords = "high-sensitivity text, for operators only"

// words returns the beginning of a message's text.
func (m message) words(n int) string {
	switch {
	case m.Hidden:
		return hiddenWords
	case len(m.Fields) == 0:
		return string(m.Type)
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

// Others reports whether the message says more than its main text.
func (m message) Others() bool {
	return slices.ContainsFunc(m.Fields, func(f field) bool { return f.Name != "" })
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
