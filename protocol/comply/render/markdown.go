package render

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// methodology is the paragraph under the title. Readers of a report may not know
// the tool.
const methodology = "Methodology: each agent was started once and initialized, then once more for each test, with a workspace and a home of its own. " +
	"It was tested over standard input and output, one JSON message per line. Its messages were compared with patterns; " +
	"its requests were answered by the test, or with real files, terminals and permissions in the workspace."

// clientMethodology is the same paragraph in a report about clients.
const clientMethodology = "Methodology: each client was started once for each test, with a workspace and a home of its own. " +
	"It started a scripted agent over standard input and output, which played one scenario in the first turn. " +
	"All messages in both directions were recorded and judged; frames that go out are those of the client."

// MarkdownOptions changes the form of a report. The zero value works.
type MarkdownOptions struct {
	Summary bool // a table of all tests and agents in place of a section for each test
}

// Markdown writes the report for people: a section for each agent with its header, and in
// it the findings with the frames that prove them. opts may be nil.
// It is written in one go at the end, so an error of w leaves no half of a section.
func (r *Report) Markdown(w io.Writer, opts *MarkdownOptions) error {
	if opts == nil {
		opts = &MarkdownOptions{}
	}
	m := &markdown{}
	title, method := "# ACP Compliance Report\n", methodology
	if r.Subject == SubjectClient {
		title = "# ACP Client Compliance Report\n"
		method = clientMethodology
	}
	m.line("%s", title)
	m.line("%s\n", method)
	if opts.Summary {
		m.table(r)
	}
	for i := range r.Agents {
		m.agent(&r.Agents[i], opts.Summary)
	}
	_, err := io.WriteString(w, plaintext.Text(m.text.String()))
	return err
}

// PullRequest writes a short summary in Markdown, for a comment on a pull request: the verdict,
// the totals, each MUST that fails the run with its fix, and the rest folded away.
// It is short because a platform cuts long comments; the full report belongs in a
// file.
func (r *Report) PullRequest(w io.Writer) error {
	m := &markdown{}
	verdict := "passed"
	if r.Failed() {
		verdict = "**failed**"
	}
	m.line("### ACP compliance: %s\n", verdict)

	subject := "agent"
	if r.Subject == SubjectClient {
		subject = "client"
	}
	m.line("| %s | %s |", subject, "PASS | WARN | PARTIAL | NA | FAIL | ERROR")
	m.line("|---|---:|---:|---:|---:|---:|---:|")
	for i := range r.Agents {
		a := &r.Agents[i]
		row := "| " + plain(a.Name)
		for _, s := range Statuses() {
			row += fmt.Sprintf(" | %d", a.Totals[s])
		}
		m.line("%s |", row)
	}
	m.line("")

	// Findings that fail the run are shown at once; the others are collected for the folded part.
	var rest []string
	for _, f := range r.Index() {
		item := fmt.Sprintf("- **%s** (%s) %s: %s. To do: %s", plain(f.Rule), f.Level, plain(f.Agent), plain(jsont.Shorten(f.Actual, 300)), plain(f.Fix))
		if f.Fails() {
			m.line("%s", item)
		} else {
			rest = append(rest, item)
		}
	}

	for _, a := range r.Agents {
		for _, id := range a.Stale {
			m.line("- the baseline is stale: %s of %s no longer fails", plain(id), plain(a.Name))
		}
	}

	if len(rest) > 0 {
		m.line("\n<details><summary>%d findings that do not fail the run</summary>\n\n%s\n</details>", len(rest), strings.Join(rest, "\n"))
	}

	m.line("\n%s, protocol version %d, suite %s", plain(r.Tool), r.Protocol, plain(r.Suite))
	_, err := io.WriteString(w, plaintext.Text(m.text.String()))
	return err
}

// A markdown collects the text of a report.
type markdown struct{ text strings.Builder }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(&m.text, format+"\n", args...) }

// markup escapes the characters that Markdown gives a meaning.
// Underscores are left alone: they are frequent in identifiers, and have no effect
// inside of words.
var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "|", `\|`)

// plain returns text of an agent so that Markdown and terminals take it for nothing but
// text in one line.
func plain(s string) string { return markup.Replace(oneLine(s)) }

// oneLine returns s as plain text, with spaces for line ends and tabs.
func oneLine(s string) string { return strings.ReplaceAll(plaintext.Line(s), "\t", " ") }

// code returns text of an agent as a code span in one line.
// The fence is longer than any run of backquotes in the text, which is how Markdown
// quotes them.
func code(s string) string {
	s = oneLine(s)
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 || s == "" {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// table writes the overview: a row for each test, a column for each agent, and a note for
// each status that is neither PASS nor NA. The last row is the ledger.
// Notes are numbered in the order of the cells and stand below the table, because a
// cell has room for a word only.
func (m *markdown) table(r *Report) {
	rows := [][]string{{"Compliance Area"}}
	var notes []string

	for _, a := range r.Agents {
		rows[0] = append(rows[0], plain(a.Name))
	}

	// All agents ran the same tests, so the tests of the first one give the rows.
	if len(r.Agents) > 0 {
		for i, t := range r.Agents[0].Tests {
			row := []string{plain(t.Area)}
			for _, a := range r.Agents {
				t := a.Tests[i]
				cell := string(t.Status)
				if t.Status != Pass && t.Status != NA {
					notes = append(notes, plain(t.remark()))
					cell += fmt.Sprintf(" [%d]", len(notes))
				}
				row = append(row, cell)
			}
			rows = append(rows, row)
		}

		row := []string{"Every frame"}
		for i := range r.Agents {
			cell, broken := Pass, r.Agents[i].Broken()
			for _, f := range broken {
				cell = Fail
				notes = append(notes, plain(jsont.Shorten(fmt.Sprintf("%s: expected %s; %s", f.Rule, f.Expected, f.Actual), 600)))
			}
			row = append(row, string(cell)+marks(len(notes)-len(broken), len(notes)))
		}
		rows = append(rows, row)
	}

	// The columns are padded, so that the table can be read as plain text, too.
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}

	for n, row := range rows {
		m.text.WriteString("|")
		for i, cell := range row {
			m.text.WriteString(" " + cell + strings.Repeat(" ", widths[i]-len([]rune(cell))) + " |")
		}
		m.line("")
		if n == 0 {
			m.text.WriteString("|")
			for _, width := range widths {
				m.text.WriteString(strings.Repeat("-", width+2) + "|")
			}
			m.line("")
		}
	}

	m.line("")
	for i, note := range notes {
		m.line("[%d] %s", i+1, note)
	}
	if len(notes) > 0 {
		m.line("")
	}
}

// marks returns the references to the notes after the first n, up to the last.
func marks(n, last int) (s string) {
	for n++; n <= last; n++ {
		s += fmt.Sprintf(" [%d]", n)
	}
	return s
}

// remark returns in one sentence why a result is not PASS.
// The finding that gave the status its reason is quoted with its rule and
// expectation.
func (t *Result) remark() string {
	s := t.Reason
	for _, f := range t.Findings {
		if f.Actual == t.Reason {
			s = fmt.Sprintf("%s: expected %s; %s", f.Rule, f.Expected, f.Actual)
			break
		}
	}
	switch {
	case t.Advisory && !t.Failed():
		s += " (optional, does not fail the run)"
	case t.Severity == jsont.Optional:
		s += " (optional)"
	}
	if t.Known {
		s += " (accepted by the baseline)"
	}
	return jsont.Shorten(s, 600)
}

// agent writes the section of one agent.
func (m *markdown) agent(a *AgentReport, summary bool) {
	title := "## %s\n"
	if summary {
		title = "## %s Summary\n"
	}
	m.line(title, plain(a.Name))
	m.line("- Protocol version: %s", code(string(a.ProtocolVersion)))
	if a.ClientCapabilities != nil {
		m.line("- Caps: %s", capsLine(a.ClientCapabilities))
		m.line("- Client: %s", code(string(a.ClientInfo)))
	} else {
		m.line("- Caps: %s%s", offeredLine(a.Offered), capsLine(a.AgentCapabilities))
		m.line("- Modes: %s", list(a.Modes, "not advertised"))
		m.line("- Commands: %s", list(a.Commands, "not advertised"))
	}
	m.line("- Notes: %s", notesLine(a))
	if forms := formsLine(a); forms != "" {
		m.line("- Prompts: %s", forms)
	}
	m.line("- Links: %s", linksLine(a))
	m.line("- Totals: %s\n", totalsLine(a))
	for _, id := range a.Stale {
		m.line("The baseline is stale: %s no longer fails. Remove its entry.\n", plain(id))
	}
	if summary {
		return
	}
	for i := range a.Tests {
		m.test(&a.Tests[i])
	}
	m.ledger(a)
}

// ledger writes the findings of the ledger, each rule once.
func (m *markdown) ledger(a *AgentReport) {
	if len(a.Ledger) == 0 {
		return
	}
	m.line("### Every frame\n")
	m.line("Findings from the checks of every frame, in any test. Each rule is listed once, with its first proof.\n")
	for _, f := range a.Ledger {
		m.finding(f)
		switch n := len(f.Tests); {
		case n > 1:
			m.line("  - first in %s, and in %d more conversations", code(f.Test), n-1)
		default:
			m.line("  - in %s", code(f.Test))
		}
	}
	m.line("")
}

// offeredLine returns what the client offered, files and terminals, before the capabilities of
// the agent; "" for version 2 of the protocol, which has neither.
func offeredLine(raw json.RawMessage) string {
	var c struct {
		FS *struct {
			Read  bool `json:"readTextFile"`
			Write bool `json:"writeTextFile"`
		} `json:"fs"`
		Terminal *bool `json:"terminal"`
	}
	if json.Unmarshal(raw, &c) != nil || c.FS == nil || c.Terminal == nil {
		return ""
	}
	return fmt.Sprintf("fs(read:%v, write:%v), terminal:%v; ", c.FS.Read, c.FS.Write, *c.Terminal)
}

// capsLine returns capabilities as a sorted list of paths with their values.
// Capabilities are foreign JSON: names and values are escaped, and the line is cut.
func capsLine(raw json.RawMessage) string {
	v, _ := jsont.Decode(raw)
	var parts []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		object, ok := v.(map[string]any)
		if !ok || len(object) == 0 {
			parts = append(parts, fmt.Sprintf("%s:%s", plain(path), plain(jsont.Brief(v))))
			return
		}
		for name, inner := range object {
			walk(jsont.Join(path, name), inner)
		}
	}
	if object, ok := v.(map[string]any); ok && len(object) > 0 {
		walk("", object)
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "not advertised"
	}
	return jsont.Shorten(strings.Join(parts, ", "), 4000)
}

// list returns items as one line of text, or the words for none.
func list(items []string, none string) string {
	if len(items) == 0 {
		return none
	}
	return jsont.Shorten(plain(strings.Join(items, ", ")), 4000)
}

// notesLine returns the problems of an agent in one line.
// Findings that several tests share are named once.
func notesLine(a *AgentReport) string {
	notes := slices.Clone(a.Notes)
	for _, t := range a.Tests {
		for _, part := range t.Ignored {
			notes = append(notes, t.ID+jsont.Extension+": "+part)
		}
		if t.Status == Fail || t.Status == Partial || t.Status == Errored {
			notes = append(notes, t.Area+": "+t.Reason)
		}
	}
	seen := map[string]bool{}
	for _, f := range a.Ledger {
		if s := fmt.Sprintf("%s (%s)", f.Actual, f.Rule); !seen[s] {
			seen[s] = true
			notes = append(notes, s)
		}
	}
	if len(notes) == 0 {
		return "none"
	}
	return jsont.Shorten(plain(strings.Join(notes, "; ")), 4000)
}

// linksLine returns the links of all findings, or of all tests if there is no finding.
// A link stands in angle brackets, so characters that would end it are removed.
func linksLine(a *AgentReport) string {
	var bad, all []string
	for _, t := range a.Tests {
		for _, f := range t.Findings {
			bad = append(bad, f.Docs...)
		}
		all = append(all, t.Docs...)
	}
	if len(bad) == 0 {
		bad = all
	}
	slices.Sort(bad)
	bad = slices.Compact(bad)
	if len(bad) == 0 {
		return "none"
	}
	for i, link := range bad {
		bad[i] = "<" + strings.Map(func(c rune) rune {
			endsLink := unicode.IsSpace(c) || c == '<' || c == '>'
			if endsLink || !plaintext.Visible(c) {
				return -1
			}
			return c
		}, link) + ">"
	}
	return strings.Join(bad, ", ")
}

// formsLine says how many tests the agent followed in English and by directive, "" for none.
func formsLine(a *AgentReport) string {
	count := map[Form]int{}
	for _, t := range a.Tests {
		count[t.Obeyed]++
	}
	if count[InEnglish]+count[ByDirective] == 0 {
		return ""
	}
	return fmt.Sprintf("followed in English in %d tests, by directive in %d", count[InEnglish], count[ByDirective])
}

// totalsLine returns the number of tests with each status, the best status first.
func totalsLine(a *AgentReport) string {
	var parts []string
	for _, s := range Statuses() {
		parts = append(parts, fmt.Sprintf("%s %d", s, a.Totals[s]))
	}
	return strings.Join(parts, ", ")
}

// test writes the section of one test.
func (m *markdown) test(t *Result) {
	m.line("### %s: %s\n", t.Status, plain(t.Title))
	m.line("%s, %s%s\n", code(t.ID), t.Severity, t.obeyedText())
	if t.Description != "" {
		m.line("%s\n", plain(t.Description))
	}
	for _, part := range t.Ignored {
		m.line("Not performed: %s\n", plain(part))
	}
	if t.Known {
		m.line("The baseline accepts this.\n")
	}
	if t.Reason != "" && len(t.Findings) == 0 {
		m.line("%s\n", plain(t.Reason))
	}
	for _, f := range t.Findings {
		m.finding(f)
	}
	if len(t.Findings) > 0 {
		m.line("")
	}
}

// obeyedText says which form of the prompts the agent followed, "" if that is not known.
func (t *Result) obeyedText() string {
	switch t.Obeyed {
	case InEnglish:
		return ", the agent followed the English prompt"
	case ByDirective:
		return ", the agent followed the directive in the prompt"
	}
	return ""
}

// finding writes a finding with its frames.
// The items have the same order in all reports, so two reports can be compared line
// by line.
func (m *markdown) finding(f rules.Finding) {
	m.line("- **%s** (%s)", plain(f.Rule), f.Level)
	m.line("  - expected: %s", plain(f.Expected))
	m.line("  - came: %s", plain(f.Actual))
	for _, frame := range f.Frames {
		m.line("  - frame %d, %s: %s", frame.Seq, frame.Direction, code(frame.Text))
	}
	switch {
	case f.Known:
		m.line("  - the baseline accepts this: %s", plain(f.Reason))
	case f.Unasked:
		m.line("  - the requirements of this run do not include it")
	}
	m.line("  - to do: %s", plain(f.Fix))
	for _, link := range f.Docs {
		m.line("  - %s", plain(link))
	}
}
