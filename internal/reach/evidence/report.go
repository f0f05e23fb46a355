package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/protocol/report"
)

// CheckOptions changes a check. The zero value works.
type CheckOptions struct {
	Scope         []string // see Judge
	Build, Verify string   // commands of the user, run in that order; see Command
	Command       CommandOptions
	OnCommand     func(field, line string) // called before each, with BUILD or VERIFY; may be nil

	// OnCommit runs a line on a commit instead of in the folder, if the line is a check of the
	// repository; else ok is false. It is asked only in the top folder of a repository whose files
	// are all those of the commit. It may be nil.
	OnCommit func(ctx context.Context, commit, line string) (o Outcome, ok bool)

	// AllowTestChanges says that the task is to change tests, or the files that Build
	// and Verify run.
	AllowTestChanges bool

	// Settle ends the processes that the work left: it is called before the files are
	// compared and after each command. An error means that some go on. It may be nil.
	Settle func() error
}

// Check compares the folder with the base, runs the commands, and compares the
// report with both. rep is nil if there is no report; then, and if ctx ends, the
// verdict is unverified. An error says which part of the evidence is missing.
func (b *Base) Check(ctx context.Context, rep *report.Report, o CheckOptions) (Judgment, Record, error) {
	var claims report.Report
	if rep != nil {
		claims = *rep
	}

	facts := Facts{AllowTestChanges: o.AllowTestChanges}
	var errs []error
	settle := func(before string) {
		if o.Settle == nil {
			return
		}
		if err := o.Settle(); err != nil {
			errs = append(errs, err)
			facts.Commands = append(facts.Commands, CommandFact{ProcessesLeft, before, err.Error()})
		}
	}

	settle(fieldVerify)
	if got, err := b.Compare(ctx, NamedFiles(claims)); err != nil {
		errs = append(errs, fmt.Errorf("evidence: compare the files: %w", err))
	} else {
		facts.Changes = &got
	}

	// The files are compared again after each command, because it may change some.
	var changed []string
	run := func(field, line string) *Outcome {
		if line == "" || ctx.Err() != nil {
			return nil
		}
		if facts.Changes != nil {
			facts.Commands = append(facts.Commands, b.commandFacts(ctx, field, line, *facts.Changes)...)
		}
		if o.OnCommand != nil {
			o.OnCommand(field, line)
		}
		outcome, ok := o.onCommit(ctx, facts.Changes, line)
		if !ok {
			outcome = Command(ctx, b.given, line, &o.Command)
		}
		settle(field)
		drift, err := b.Since(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("evidence: compare the files after %s: %w", field, err))
			facts.Commands = append(facts.Commands, CommandFact{FilesUnproven, field, "the files could not be compared after " + field})
		}
		facts.Commands = append(facts.Commands, driftFacts(field, drift)...)
		changed = append(changed, drift.names()...)
		return &outcome
	}
	facts.Build = run(fieldBuild, o.Build)
	facts.Verify = run(fieldVerify, o.Verify)
	slices.Sort(changed)

	j := newJudgment(hub.RunUnverified)
	if rep != nil && ctx.Err() == nil {
		j = Judge(claims, facts, o.Scope)
	}
	r := NewRecord(b.Moment(), facts.Changes, facts.Verify, facts.Build, slices.Compact(changed))
	r.Unverified, r.Notes = j.Unverified, j.Notes
	return j, r, errors.Join(errs...)
}

// onCommit runs a line on the commit of the work, if it can. Changes are nil if the files could not
// be compared.
func (o CheckOptions) onCommit(ctx context.Context, c *Changes, line string) (Outcome, bool) {
	isCommitted := c != nil && c.After.Commit != "" && !c.After.Dirty && c.Folder == "."
	if o.OnCommit == nil || !isCommitted {
		return Outcome{}, false
	}
	return o.OnCommit(ctx, c.After.Commit, line)
}

// maxRecorded is the number of names in each list of a record.
const maxRecorded = 1000

// A Record is the evidence for a judgment, as it is stored and printed.
type Record struct {
	Before        Moment    `json:"before"`
	After         Moment    `json:"after"`
	Diff          Diff      `json:"diff"`
	Verify        *Outcome  `json:"verify,omitempty"`
	Build         *Outcome  `json:"build,omitempty"`
	VerifyChanged []string  `json:"verify_changed"` // files that VERIFY and BUILD changed, not the agent
	Unverified    []Finding `json:"unverified"`     // as in the judgment
	Notes         []Finding `json:"notes"`          // likewise
	Patch         string    `json:"-"`              // as in Changes
}

// TestsChanged reports whether something is unverified because a test changed, or a file
// that a command runs.
func (r Record) TestsChanged() bool {
	return slices.ContainsFunc(r.Unverified, func(f Finding) bool { return slices.Contains(allowed, f.Kind) })
}

// A Diff is a difference in figures and names.
type Diff struct {
	Files      int      `json:"files"`
	Insertions int      `json:"insertions"`
	Deletions  int      `json:"deletions"`
	Uncounted  int      `json:"uncounted,omitempty"` // files whose lines were not counted
	Created    []string `json:"created"`
	Modified   []string `json:"modified"`
	Deleted    []string `json:"deleted"`
	Truncated  bool     `json:"truncated"` // names were left out
}

// NewRecord makes a Record. changes, verify and build may be nil. Of each list at
// most 1,000 names are kept.
func NewRecord(before Moment, changes *Changes, verify, build *Outcome, verifyChanged []string) Record {
	if changes == nil {
		changes = &Changes{}
	}
	r := Record{Before: before, After: changes.After, Patch: changes.Patch, Verify: verify, Build: build, Unverified: []Finding{}, Notes: []Finding{}}
	kept := func(names []string) []string {
		r.Diff.Truncated = r.Diff.Truncated || len(names) > maxRecorded
		return append([]string{}, names[:min(len(names), maxRecorded)]...)
	}
	r.Diff = Diff{
		Files: len(changes.names()), Insertions: changes.Insertions, Deletions: changes.Deletions, Uncounted: changes.Uncounted,
	}
	r.Diff.Created = kept(changes.Created)
	r.Diff.Modified = kept(changes.Modified)
	r.Diff.Deleted = kept(changes.Deleted)
	r.VerifyChanged = kept(verifyChanged)
	return r
}
