package team

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// Render returns an answer as short text.
func Render(a Answer) string {
	var b strings.Builder
	switch {
	case a.Status == "held":
		fmt.Fprintf(&b, "held: the operator must approve it (%s)\n", cmp.Or(string(a.ShortID), a.ID))
	case a.Task != nil:
		b.WriteString(renderTask(*a.Task))
		renderFiles(&b, a)
	case a.Decision != nil:
		fmt.Fprintf(&b, "%s: %s\n", a.Decision.Status, plaintext.Line(a.Decision.Decision))
	case a.Decisions != nil:
		b.WriteString(renderList(a.Decisions, renderDecision, "No decisions.\n"))
	case a.Artifact != nil:
		b.WriteString(renderArtifact(*a.Artifact))
		renderVersions(&b, a)
	case a.Artifacts != nil:
		b.WriteString(renderList(a.Artifacts, renderArtifact, "No artifacts.\n"))
	case a.Team != nil:
		renderWhole(&b, *a.Team)
	default:
		b.WriteString(renderList(a.Teams, renderTeam, "No teams.\n"))
	}

	if a.Next != "" {
		fmt.Fprintf(&b, "More: cursor %s\n", a.Next)
	}
	return b.String()
}

// renderFiles writes the files that were reserved with the start of a task, and the warnings.
func renderFiles(b *strings.Builder, a Answer) {
	if len(a.Reserved) > 0 {
		fmt.Fprintf(b, "Reserved for %s: %s.\n", a.Task.Owner, plaintext.Line(strings.Join(a.Reserved, ", ")))
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(b, "Note: %s.\n", plaintext.Line(w))
	}
}

// renderList returns the lines of a list, or a sentence if it has none.
func renderList[T any](list []T, line func(T) string, none string) string {
	if len(list) == 0 {
		return none
	}
	var b strings.Builder
	for _, x := range list {
		b.WriteString(line(x))
	}
	return b.String()
}

// renderWhole writes a team with its members, its tasks, its conflicts and its decisions.
func renderWhole(b *strings.Builder, t View) {
	b.WriteString(renderTeam(t))
	for _, m := range t.Members {
		fmt.Fprintf(b, "- %s, %s\n", m.Agent, m.Role)
	}
	for _, p := range t.Proposals {
		fmt.Fprintf(b, "proposed: %s as %s, waits for %s\n", p.Agent, p.Role, joined(p.Needs))
	}
	if gates := t.Policy.HumanGateActions; len(gates) > 0 {
		fmt.Fprintf(b, "waits for the operator: %s\n", joined(gates))
	}

	b.WriteString(renderList(t.Tasks, renderTask, ""))
	b.WriteString(renderList(t.Conflicts, renderConflict, ""))
	b.WriteString(renderList(t.Decisions, renderDecision, ""))
}

func renderTeam(v View) string {
	s := fmt.Sprintf("%s is %s, %d members", v.ID, v.Lifecycle, len(v.Members))
	for _, state := range hub.TaskStates {
		if n := v.TaskCounts[state]; n > 0 {
			s += fmt.Sprintf(", %d %s", n, state)
		}
	}
	if n := len(v.Conflicts); n > 0 {
		s += fmt.Sprintf(", %d to merge", n)
	}
	if v.You != "" {
		s += fmt.Sprintf("; you are %s", v.You)
	}
	return s + "\n> goal: " + plaintext.Line(v.Objective) + "\n"
}

func numbersText(all []int64) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// renderConflict names the versions that are to be merged, or the merge that is to be
// signed.
func renderConflict(k hub.Conflict) string {
	if k.Result > 0 {
		return fmt.Sprintf("to sign: version %d of %s, the merge of version %d, by %s\n", k.Result, k.Artifact, k.Version, k.MergedBy)
	}
	return fmt.Sprintf("to merge: version %d of %s by %s, made from %d, is %s\n", k.Version, k.Artifact, k.Author, k.Base, k.State)
}

// renderDecision returns a decision in a line, quoted.
func renderDecision(d hub.Decision) string {
	s := fmt.Sprintf("> %s by %s", d.Status, joined(d.Deciders))
	if d.Title != d.Decision {
		s += ", about " + plaintext.Line(d.Title)
	}
	s += ": " + plaintext.Line(d.Decision)
	if d.Rationale != "" {
		s += " (because: " + plaintext.Line(d.Rationale) + ")"
	}
	return s + "\n"
}

func renderTask(t hub.Task) string {
	s := fmt.Sprintf("%s %s", t.ID, t.State)
	if t.Owner != "" {
		s += ", " + string(t.Owner)
	}
	if t.Reviewer != "" {
		s += ", reviewer " + string(t.Reviewer)
	}
	if t.Class != hub.ClassNormal {
		s += ", " + string(t.Class)
	}
	if len(t.DependsOn) > 0 {
		s += ", after " + joined(t.DependsOn)
	}
	if t.Reason != "" {
		s += ", because: " + plaintext.Line(t.Reason)
	}
	return s + ": " + plaintext.Line(t.Title) + "\n"
}

func renderArtifact(a hub.TeamArtifact) string {
	s := fmt.Sprintf("%s version %d, %d bytes, %s", a.ID, a.Version, a.Size, a.State)
	if len(a.Beside) > 0 {
		s += fmt.Sprintf(", to merge with it: %s", numbersText(a.Beside))
	}
	if a.Sensitivity == hub.SensitivityHigh {
		s += ", high sensitivity"
	}
	return s + "\n"
}

// renderVersions writes the versions of an answer, and the content of the one that was
// read.
func renderVersions(b *strings.Builder, a Answer) {
	if a.Versions == nil && a.Version != nil {
		a.Versions = []hub.ArtifactVersion{*a.Version}
	}
	for _, v := range a.Versions {
		from := v.Parents
		if len(from) == 0 {
			from = []int64{v.Parent}
		}
		fmt.Fprintf(b, "- version %d by %s from %s", v.Version, v.Author, numbersText(from))
		if v.Note != "" {
			b.WriteString(": " + plaintext.Line(v.Note))
		}
		b.WriteByte('\n')
	}
	for _, k := range a.Conflicts {
		fmt.Fprintf(b, "conflict: version %d, made from %d, is %s\n", k.Version, k.Base, k.State)
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(b, "Note: %s.\n", plaintext.Line(w))
	}
	if a.Content != nil {
		renderContent(b, a)
	}
}
