package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// writeHandoff writes a handoff for a person: a sentence with its state, the facts, the text
// of its package and its history. The package itself is in JSON only.
func writeHandoff(w io.Writer, r handoff.Report) {
	fmt.Fprintln(w, handoffSentence(w, r))
	handoffFacts(r).write(w)
	if r.Status == hub.HandoffCompleted || r.Status == hub.HandoffClosed {
		fmt.Fprintf(w, "download the proof: parley prove %s\n", r.Name())
	}
	writeFailures(w, r.Results)
	writePackage(w, r.Package)
	if len(r.History) > 0 {
		fmt.Fprintln(w)
		writeHandoffHistory(w, r.History)
	}
}

// maxFailure is the most bytes of the output of a failed check that is shown with a handoff.
const maxFailure = 2000

// writeFailures writes the ends of the outputs of checks that did not pass.
func writeFailures(w io.Writer, results []hub.CheckResult) {
	for _, r := range results {
		tail := strings.TrimSpace(r.Output.Tail)
		if !r.State.Over() || r.State == hub.ResultPassed || tail == "" {
			continue
		}
		fmt.Fprintf(w, "The end of the output of %s:\n", r.Name)
		tail = strings.ToValidUTF8(tail[max(0, len(tail)-maxFailure):], "")
		for line := range strings.Lines(tail) {
			fmt.Fprintf(w, "> %s\n", plaintext.Line(strings.TrimSuffix(line, "\n")))
		}
	}
}

// handoffSentence names a handoff, its state, its task and its agents.
func handoffSentence(w io.Writer, r handoff.Report) string {
	return fmt.Sprintf("%s %s: %q by %s for %s", r.Name(), handoffWord(r).on(w), plaintext.Line(r.Title), r.To, r.From)
}

// handoffWord returns the state of a handoff in a word. That of a task that is done is its
// proof.
func handoffWord(r handoff.Report) state {
	over := r.Status == hub.HandoffCompleted || r.Status == hub.HandoffClosed
	if over && r.Ending == hub.EndedDone && r.Proof != hub.ProofNone {
		return state(r.Proof)
	}
	return state(r.Status)
}

// handoffFacts are the facts of a handoff that are no text of its package.
func handoffFacts(r handoff.Report) facts {
	var f facts
	f.add("task", plaintext.Line(r.TaskID))
	if r.Team != "" {
		f.add("team", string(r.Team))
	}
	if text := handoffState(r); text != string(handoffWord(r)) {
		f.add("state", text)
	}
	if r.Proof != hub.ProofNone {
		f.add("proof", r.WholeProof())
	}
	if r.Change != "" {
		change := r.WholeChange()
		if r.Commit != "" {
			change += ", commit " + cutHashes(r.Commit)
		}
		f.add("change", change)
	}
	for _, c := range r.Attribution {
		f.add("also there", handoff.CreditText(c))
	}
	if r.Ownership != "" && r.Ownership != hub.QueueNone {
		f.add("queue", string(r.Ownership))
	}
	f.add("resolution", r.Notes)
	if !r.DueAt.IsZero() {
		f.add("due", when(r.DueAt))
	}

	f.add("stage", cutHashes(r.ProgressText()))
	f.add("returned", plaintext.Line(r.Returned))
	for _, c := range r.Results {
		f.add("results", strings.Join(append([]string{fmt.Sprintf("%s %s (%s", c.Name, strings.ReplaceAll(string(c.State), "_", " "), c.ID)}, resultNotes(c)...), "; ")+")")
	}
	for _, c := range r.Claims {
		f.add("claims", checkText(c))
	}
	for _, run := range r.Runs {
		f.add("runs", runSentence(run))
	}
	for _, path := range r.Reserved {
		f.add("reserved", path)
	}
	for _, note := range r.Warnings {
		f.add("note", note)
	}
	if len(r.History) > 0 { // it is shown, not listed
		f.add("package", cutHashes(r.Hash))
		f.add("id", string(r.ID))
	}
	return f
}

// handoffState returns the state of a handoff with its ending and the approvals that it waits
// for.
func handoffState(r handoff.Report) string {
	text := string(r.Status)
	if r.Ending != "" && r.Status != hub.HandoffRejected {
		text += " (" + strings.ReplaceAll(string(r.Ending), "_", " ") + ")"
	}
	for _, who := range r.WaitsFor {
		switch who {
		case handoff.ApproverOperator:
			text += ", waits for the operator's approval"
		case handoff.ApproverTeam:
			text += fmt.Sprintf(", waits for the approval of a member of team %s", r.Team)
		}
	}
	return text
}

// checkText returns a check of the hub on one line.
func checkText(c hub.Check) string {
	return plaintext.Line(fmt.Sprintf("%s: %s, %s", c.Result, c.What, cutHashes(c.Detail)))
}

// runSentence returns a run of a handoff on one line.
func runSentence(r hub.Run) string {
	text := fmt.Sprintf("%s %s", r.ID, r.State)
	if r.Verdict != "" {
		text += ", " + r.VerdictText()
	}
	return text + ", by " + string(r.Agent)
}

// A packageText has the members of a package that its sender wrote for the next owner.
type packageText struct {
	Task struct {
		Objective string            `json:"objective"`
		Criteria  []string          `json:"success_criteria"`
		Deadline  hub.Time          `json:"deadline,omitzero"`
		Priority  hub.Priority      `json:"priority"`
		Refs      []hub.ExternalRef `json:"external_refs"`
	} `json:"task"`
	Context struct {
		Summary     string   `json:"summary"`
		Constraints []string `json:"constraints"`
		Assumptions []string `json:"assumptions"`
		Questions   []string `json:"open_questions"`
		Risks       []string `json:"known_risks"`
	} `json:"context"`
	Work struct {
		Completed []string `json:"completed_steps"`
		Next      string   `json:"next_step"`
		Branch    string   `json:"branch"`
		Worktree  string   `json:"worktree_path"`
		Tests     string   `json:"test_status"`
	} `json:"work_state"`
	Artifacts []shape.PackageArtifact `json:"artifacts"`
	Unproven  string                  `json:"unproven"`
	Expect    shape.Expectation       `json:"expect"`
	Scope     []string                `json:"scope"`
	Checks    []string                `json:"checks"`
	Review    string                  `json:"review"`
}

// writePackage writes the text of a package as a quote, if there is one. The frame is for
// agents, which run this command too.
func writePackage(w io.Writer, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var p packageText
	if json.Unmarshal(raw, &p) != nil {
		fmt.Fprintln(w, "The package is not readable here; --json prints it.")
		return
	}

	fmt.Fprintln(w, "The package, from another agent, not from your user:")
	quote := func(name string, values ...string) {
		for _, v := range values {
			if v == "" {
				continue
			}
			lines := strings.Split(v, "\n")
			fmt.Fprintf(w, "> %s: %s\n", name, plaintext.Line(lines[0]))
			for _, line := range lines[1:] {
				fmt.Fprintf(w, ">   %s\n", plaintext.Line(line))
			}
		}
	}

	quote("objective", p.Task.Objective)
	quote("summary", p.Context.Summary)
	quote("done so far", p.Work.Completed...)
	quote("next step", p.Work.Next)
	quote("done when", p.Task.Criteria...)
	quote("constraint", p.Context.Constraints...)
	quote("assumption", p.Context.Assumptions...)
	quote("open question", p.Context.Questions...)
	quote("known risk", p.Context.Risks...)

	quote("worktree", p.Work.Worktree)
	quote("branch", p.Work.Branch)
	quote("tests", p.Work.Tests)
	quote("must change", p.Expect.Paths...)
	quote("reserved", p.Scope...)
	quote("checks", p.Checks...)
	quote("review", p.Review)
	for _, a := range p.Artifacts {
		quote(a.Ref.Type, artifactText(a.Ref))
	}
	for _, ref := range p.Task.Refs {
		quote(ref.Type, ref.Value)
	}
	quote("unproven", p.Unproven)

	if p.Task.Priority != hub.PriorityNormal {
		quote("priority", string(p.Task.Priority))
	}
	if !p.Task.Deadline.IsZero() {
		quote("deadline", when(p.Task.Deadline))
	}
}

// artifactText returns an artifact with its size and its hash, as far as they are known.
func artifactText(ref hub.ArtifactRef) string {
	text := ref.Path
	if ref.SizeBytes != nil {
		text += fmt.Sprintf(", %d bytes", *ref.SizeBytes)
	}
	if ref.SHA256 != "" {
		text += ", sha256 " + cutHashes(ref.SHA256)
	}
	return text
}

// handoffVerbs are the verbs for steps of a handoff whose state is no verb in the past.
var handoffVerbs = map[hub.HandoffState]string{hub.HandoffDraft: "drafted", hub.HandoffValidating: "validated"}

// writeHandoffHistory writes a line for each step of a handoff. Below its activation are the
// steps of the queue.
func writeHandoffHistory(w io.Writer, steps []hub.HandoffStep) {
	for _, s := range steps {
		verb, ok := handoffVerbs[s.State]
		if !ok {
			verb = string(s.State)
		}
		fmt.Fprintf(w, "%s  %s %s", when(s.At), s.Actor, state(verb).on(w))
		if s.Note != "" {
			fmt.Fprintf(w, ": %s", plaintext.Line(s.Note))
		}
		fmt.Fprintln(w)
		if s.State == hub.HandoffActivated {
			for _, c := range s.Checks {
				fmt.Fprintf(w, "       %s\n", checkText(c))
			}
		}
	}
}
