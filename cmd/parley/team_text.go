package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/service/team"
)

// writeTeam writes an answer about a team for a person: a sentence with the state, the facts,
// and lists in columns.
func writeTeam(w io.Writer, got team.Answer) {
	switch {
	case got.Status == "held":
		fmt.Fprintf(w, "%s %s: the operator must approve it\n", cmp.Or(string(got.ShortID), got.ID), state("held").on(w))
	case got.Task != nil:
		writeTask(w, *got.Task, got.Reserved, got.Warnings)
	case got.Decision != nil:
		writeRuling(w, *got.Decision)
	case got.Team != nil:
		writeWholeTeam(w, *got.Team)
		if got.Next != "" {
			fmt.Fprintf(w, "more: add --cursor %s\n", got.Next)
		}
	default:
		io.WriteString(w, team.Render(got))
	}
}

// writeWholeTeam writes a team with its members, tasks, conflicts and decisions.
func writeWholeTeam(w io.Writer, t team.View) {
	parts := []string{counted(len(t.Members), "member")}
	for _, s := range hub.TaskStates {
		if n := t.TaskCounts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if n := len(t.Conflicts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d to merge", n))
	}
	fmt.Fprintf(w, "%s %s: %s\n", t.ID, state(t.Lifecycle).on(w), strings.Join(parts, ", "))

	var f facts
	f.add("goal", t.Objective)
	for _, m := range t.Members {
		f.add("members", fmt.Sprintf("%s, %s", m.Agent, m.Role))
	}
	f.add("you are", string(t.You))
	for _, p := range t.Proposals {
		f.add("proposed", fmt.Sprintf("%s as %s, waits for %s", p.Agent, p.Role, joined(p.Needs)))
	}
	f.add("operator approves", strings.Join(words(t.Policy.HumanGateActions), ", "))
	f.add("successors", strings.Join(words(t.Policy.Successors), ", "))
	for _, k := range t.Conflicts {
		f.add("to merge", conflictText(k))
	}
	f.write(w)

	if len(t.Tasks) > 0 {
		fmt.Fprintln(w)
		writeTable(w, "TASK, STATE, OWNER, REVIEWER, CLASS, AFTER, TITLE", t.Tasks, func(k hub.Task) []any {
			return []any{k.ID, state(k.State), cmp.Or(string(k.Owner), "-"), cmp.Or(string(k.Reviewer), "-"), k.Class, cmp.Or(joinedWords(k.DependsOn), "-"), taskTitle(k)}
		})
	}
	if len(t.Decisions) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range t.Decisions {
		d.Team = "" // the sentence above names it
		writeRuling(w, d)
	}
}

// taskTitle returns the title of a task with the reason of its state.
func taskTitle(t hub.Task) string {
	if t.Reason == "" {
		return t.Title
	}
	return fmt.Sprintf("%s (%s)", t.Title, t.Reason)
}

// conflictText names the versions that are to be merged, or the merge that is to be signed.
func conflictText(k hub.Conflict) string {
	if k.Result > 0 {
		return fmt.Sprintf("version %d of %s, the merge of version %d by %s, to be signed", k.Result, k.Artifact, k.Version, k.MergedBy)
	}
	return fmt.Sprintf("version %d of %s by %s, made from %d, is %s", k.Version, k.Artifact, k.Author, k.Base, k.State)
}

// writeTask writes a task of a team, with the files that were reserved when it started and the
// warnings.
func writeTask(w io.Writer, t hub.Task, reserved, warnings []string) {
	fmt.Fprintf(w, "%s %s: %q", t.ID, state(t.State).on(w), plaintext.Line(t.Title))
	if t.Owner != "" {
		fmt.Fprintf(w, " by %s", t.Owner)
	}
	fmt.Fprintln(w)

	var f facts
	f.add("team", string(t.Team))
	f.add("because", t.Reason)
	f.add("reviewer", string(t.Reviewer))
	if t.Class != hub.ClassNormal {
		f.add("class", string(t.Class))
	}
	f.add("after", joinedWords(t.DependsOn))
	if len(t.Scope) > 0 {
		f.add("files", fmt.Sprintf("%s in %s", strings.Join(t.Scope, ", "), t.Worktree))
	}
	f.add("created", fmt.Sprintf("%s by %s", when(t.CreatedAt), t.CreatedBy))
	if !t.StartedAt.IsZero() {
		f.add("started", when(t.StartedAt))
	}
	if !t.DoneAt.IsZero() {
		f.add("done", when(t.DoneAt))
	}
	for _, path := range reserved {
		f.add("reserved", path)
	}
	for _, note := range warnings {
		f.add("note", note)
	}
	f.write(w)
}

// joinedWords returns values as a list.
func joinedWords[T ~string](all []T) string { return strings.Join(words(all), ", ") }
