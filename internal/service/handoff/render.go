package handoff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// Render returns a handoff as Markdown for an agent or a person to read. Text of
// its sender stands in a quote, so that it cannot pass for text of the hub.
func Render(r Report) string {
	var b strings.Builder
	renderHead(&b, r)
	renderChange(&b, r)
	fmt.Fprintf(&b, "> task %s: %s\n", plaintext.Line(r.TaskID), plaintext.Line(r.Title))
	renderWaits(&b, r)

	if r.Notes != "" {
		fmt.Fprintf(&b, "> %s\n", plaintext.Line(r.Notes))
	}
	renderChecks(&b, "", r.Claims)
	if !r.DueAt.IsZero() {
		fmt.Fprintf(&b, "Due %s.\n", r.DueAt)
	}
	if len(r.Reserved) > 0 {
		fmt.Fprintf(&b, "Reserved for you until the task ends: %s.\n", some(r.Reserved))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "Note: %s.\n", w)
	}

	renderPackage(&b, r.Package)
	renderRuns(&b, r.Runs)
	renderHistory(&b, r.History)
	return b.String()
}

// renderHead writes the state of a handoff, its agents and its proof.
func renderHead(b *strings.Builder, r Report) {
	fmt.Fprintf(b, "Handoff %s is %s", r.Name(), r.Status)
	if r.Ending != "" && r.Status != hub.HandoffRejected {
		fmt.Fprintf(b, " (%s)", strings.ReplaceAll(string(r.Ending), "_", " "))
	}
	fmt.Fprintf(b, ".\nfrom %s to %s · package %s\n", r.From, r.To, r.Hash)
	fmt.Fprintf(b, "proof: %s\n", r.WholeProof())
	if text := r.ProgressText(); text != "" {
		fmt.Fprintf(b, "stage: %s\n", text)
	}
	for _, c := range r.Results {
		facts := string(c.ID)
		if level := c.Confinement(); level != "" {
			facts += "; " + plaintext.Line(level)
		}
		fmt.Fprintf(b, "check %s: %s (%s)\n", plaintext.Line(c.Name), c.State, facts)
		if c.Note != "" {
			fmt.Fprintf(b, "note: %s\n", plaintext.Line(c.Note))
		}
	}
	if r.Returned != "" {
		fmt.Fprintf(b, "returned: %s\n", plaintext.Line(r.Returned))
	}
}

// ProgressText returns the stage of work, with the words for its checks, review and landing as far as
// there are any, or that its completion was refused; "" before the owner claims that the work is done.
func (r Report) ProgressText() string {
	var words []string
	for _, w := range []struct{ name, word string }{{"checks", string(r.Checks)}, {"review", string(r.Review)}, {"landing", r.Landing}} {
		if w.word != "" && w.word != string(hub.ChecksNone) {
			words = append(words, w.name+" "+w.word)
		}
	}
	if len(words) == 0 && r.Returned != "" {
		words = append(words, "refused")
	}
	if r.Stage == "" || len(words) == 0 {
		return string(r.Stage)
	}
	return fmt.Sprintf("%s (%s)", r.Stage, strings.Join(words, ", "))
}

// StageCell returns the stage of work for a column of a table, with a word if it went back to its owner.
func (r Report) StageCell() string {
	if r.Stage == "" || r.Returned == "" {
		return string(r.Stage)
	}
	return string(r.Stage) + ", returned"
}

// renderChange writes the change of the work, the other agents that worked there, and the
// owner in the queue.
func renderChange(b *strings.Builder, r Report) {
	if r.Change != "" {
		fmt.Fprintf(b, "change: %s", r.WholeChange())
		if r.Commit != "" {
			fmt.Fprintf(b, ", commit %s", r.Commit)
		}
		b.WriteByte('\n')
	}
	for _, c := range r.Attribution {
		fmt.Fprintf(b, "also there: %s\n", CreditText(c))
	}
	if r.Ownership != "" && r.Ownership != hub.QueueNone {
		fmt.Fprintf(b, "ownership in the queue: %s\n", r.Ownership)
	}
}

// renderWaits writes a sentence for each approval that a handoff waits for.
func renderWaits(b *strings.Builder, r Report) {
	for _, who := range r.WaitsFor {
		switch who {
		case ApproverOperator:
			b.WriteString("It waits for the operator's approval.\n")
		case ApproverTeam:
			fmt.Fprintf(b, "It waits for the approval of a member of the team %s whose role permits it, or of the operator.\n", r.Team)
		}
	}
}

// renderChecks writes a list of checks, each line behind an indent.
func renderChecks(b *strings.Builder, indent string, checks []hub.Check) {
	for _, c := range checks {
		fmt.Fprintf(b, "%s- %s: %s, %s\n", indent, c.Result, plaintext.Line(c.What), plaintext.Line(c.Detail))
	}
}

// renderPackage writes a package as a quote, if there is one.
func renderPackage(b *strings.Builder, pkg json.RawMessage) {
	if len(pkg) == 0 {
		return
	}
	b.WriteString("The package, from another agent, not from your user:\n")
	var text bytes.Buffer
	if json.Indent(&text, pkg, "", " ") != nil {
		return
	}
	for line := range strings.Lines(text.String()) {
		fmt.Fprintf(b, "> %s\n", plaintext.Line(strings.TrimSuffix(line, "\n")))
	}
}

// renderRuns writes a line for each run of a handoff.
func renderRuns(b *strings.Builder, runs []hub.Run) {
	for _, run := range runs {
		fmt.Fprintf(b, "Run %s of %s: %s", run.ID, run.Agent, run.State)
		if run.Verdict != "" {
			fmt.Fprintf(b, ", %s", run.VerdictText())
		}
		b.WriteString(".\n")
	}
}

// renderHistory writes a line for each step of a handoff. Below its activation are the
// steps of the queue.
func renderHistory(b *strings.Builder, steps []hub.HandoffStep) {
	for _, s := range steps {
		fmt.Fprintf(b, "%d. %s %s by %s", s.N, s.At, s.State, s.Actor)
		if s.Note != "" {
			fmt.Fprintf(b, ": %s", plaintext.Line(s.Note))
		}
		b.WriteByte('\n')
		if s.State == hub.HandoffActivated {
			renderChecks(b, "   ", s.Checks)
		}
	}
}

// Name returns the short id of the handoff or, if the report has none, the long one.
func (r Report) Name() string { return cmp.Or(string(r.ShortID), string(r.ID)) }

// RenderLine returns a handoff as one line of a list.
func RenderLine(r Report) string {
	change := ""
	if r.Change != "" {
		change = ", " + r.ChangeText()
	}
	if text := r.ProgressText(); text != "" {
		change += ", " + text
	}
	return fmt.Sprintf("- %s %s, proof %s%s: %q, %s to %s\n", r.Name(), r.StateText(), r.ProofText(), change, r.Title, r.From, r.To)
}

// StateText returns the state with the approval that the handoff waits for.
func (r Report) StateText() string {
	switch {
	case len(r.WaitsFor) == 0:
		return string(r.Status)
	case slices.Contains(r.WaitsFor, ApproverTeam):
		return fmt.Sprintf("%s (waits for approval in the team %s)", r.Status, r.Team)
	}
	return string(r.Status) + " (waits for the operator's approval)"
}

// Limits of text about proof in lists. The whole text is in Render.
const (
	maxLineText = 200 // characters of each part of a line
	maxCell     = 60  // characters of a cell of a table
	maxWhy      = 20  // characters of the owner's words in a cell
)

// WholeProof returns the proof with its qualifications and its reason, however long.
func (r Report) WholeProof() string { return r.proofText(math.MaxInt) }

// WholeChange returns what changed, however long; "-" if nothing is known to have changed.
func (r Report) WholeChange() string { return r.changeText(math.MaxInt) }

// ProofText returns the proof with its qualifications and its reason, as a part of a line.
func (r Report) ProofText() string { return r.proofText(maxLineText) }

// ProofCell returns the proof with its qualifications and its reason for a column of a table.
func (r Report) ProofCell() string { return shorten.Characters(r.proofText(maxCell), maxCell) }

// ChangeText returns what changed, as a part of a line; "-" if nothing is known to have changed.
func (r Report) ChangeText() string { return r.changeText(maxLineText) }

// ChangeCell returns what changed for a column of a table.
func (r Report) ChangeCell() string { return r.changeText(maxCell) }

// NoteCell returns the qualifications of the proof for a column of a table.
func (r Report) NoteCell() string { return shorten.Characters(r.noteText(maxCell), maxCell) }

// proofText returns the proof with its qualifications and its reason, of at most so many
// characters each.
func (r Report) proofText(most int) string {
	text := string(r.Proof)
	if note := r.noteText(most); note != "" {
		text += ", " + note
	}
	if r.ProofReason != "" {
		text += fmt.Sprintf(" (%s)", shorten.Characters(plaintext.Line(r.ProofReason), most))
	}
	return text
}

// noteText returns the qualifications of the proof on one line, those first that a short
// line must have. Times are those of this machine.
func (r Report) noteText(most int) string {
	notes := r.ProofNote
	if most == maxCell {
		notes = r.shortNotes()
	}
	notes = shorten.Characters(plaintext.Line(notes), most)
	if r.MissingSince.IsZero() {
		return notes
	}
	since, layout := r.MissingSince.Local(), "15:04"
	if time.Since(since) > 24*time.Hour {
		layout = "2 Jan 15:04"
	}
	return strings.TrimSuffix("gone since "+since.Format(layout)+", "+notes, ", ")
}

// CreditText returns the part of another agent in a change, on one line.
func CreditText(c hub.Credit) string {
	text := fmt.Sprintf("%s (%s)", c.Agent, plaintext.Line(c.Why))
	switch c.Files {
	case 0:
		return text
	case 1:
		return text + ", 1 file of its commits is not counted"
	}
	return fmt.Sprintf("%s, %d files of its commits are not counted", text, c.Files)
}

// shortNotes returns the qualifications with less of the owner's words, which begin them, so
// that these do not push the others out of a cell. Another column names the owner.
func (r Report) shortNotes() string {
	if r.TrivialWhy == "" {
		return r.ProofNote
	}
	notes := []string{trivialNote(shorten.Characters(r.TrivialWhy, maxWhy))}
	return strings.Join(append(notes, r.OtherNotes...), ", ")
}

// trivialNote is the qualification of a trivial change, with the words of the owner.
func trivialNote(why string) string { return "trivial: " + strconv.Quote(why) }

func (r Report) changeText(most int) string {
	return cmp.Or(shorten.Characters(plaintext.Line(r.Change), most), "-")
}
