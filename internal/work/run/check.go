package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/protocol/report"
)

// Evidence is the evidence of a run as it is recorded.
type Evidence = evidence.Record

// An Outcome is the outcome of a command of the user.
type Outcome = evidence.Outcome

// OutcomeOf returns the result of a check of a repository as the outcome of a line that names it.
func OutcomeOf(line string, r hub.CheckResult) Outcome { return evidence.OutcomeOf(line, r) }

// Limits of a record, so that a hub takes it in one call.
const (
	maxFindings = 200       // of each kind
	maxFinding  = 400       // bytes of a claim or of a finding
	maxEvidence = 400 << 10 // bytes
	maxReport   = 200 << 10 // bytes of a report that is kept whole
)

// shortened returns the findings that are recorded.
func shortened(all []evidence.Finding) []evidence.Finding {
	kept := []evidence.Finding{}
	for _, f := range all[:min(len(all), maxFindings)] {
		f.Claim, f.Found = shorten.Text(f.Claim, maxFinding), shorten.Text(f.Found, maxFinding)
		kept = append(kept, f)
	}
	return kept
}

// compareTime is the time for the comparison after an interruption.
const compareTime = time.Minute

// check compares the files with their state before the run and, if there is a
// report, the report with the files. After an interruption no command is run.
func (e *execution) check(ctx context.Context, end *ending) {
	e.move(ctx, hub.RunChecking, "")
	opts := evidence.CheckOptions{
		Scope: e.spec.Dispatch.Scope, Build: e.spec.Build, Verify: e.spec.Verify, OnCommand: e.opts.On.Command,
		Command:          evidence.CommandOptions{Timeout: e.opts.CommandTimeout, Env: fleet.Environment(e.folder.Record().ID)},
		AllowTestChanges: e.spec.AllowTestChanges,
	}
	if e.opts.OnCommit != nil {
		opts.OnCommit = func(ctx context.Context, commit, line string) (Outcome, bool) {
			return e.opts.OnCommit(ctx, e.spec.Dir, commit, line)
		}
	}
	if e.opts.Start == nil {
		opts.Settle = e.settle
	}

	// An interrupted run gets a short time of its own for the comparison; the check of any other
	// run ends with Kill.
	interrupted := end.state == hub.RunInterrupted
	var cancel context.CancelFunc
	if interrupted {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), compareTime)
		opts.Build, opts.Verify = "", ""
	} else {
		ctx, cancel = context.WithCancel(ctx)
		defer context.AfterFunc(e.opts.Kill, cancel)()
	}
	defer cancel()

	var claims *report.Report
	if end.state == hub.RunDone && end.report != nil {
		claims = &end.report.Report
	}
	found, record, err := e.base.Check(ctx, claims, opts)
	e.problem(err)
	if ctx.Err() != nil && !interrupted { // while a command ran
		end.state, end.reason = hub.RunInterrupted, hub.RunCancelled
	}

	// A breach of the policy is the first note of the evidence.
	if end.breach = e.breach(record.Diff); end.breach != nil {
		record.Notes = append([]evidence.Finding{end.breach.finding()}, record.Notes...)
		e.problem(errors.New("run: " + end.breach.String()))
	}

	e.problem(e.folder.writePatch(NewRedactor(e.key).Redact([]byte(record.Patch))))
	record.Unverified, record.Notes = shortened(record.Unverified), shortened(record.Notes)

	// Evidence over the limit is recorded without its lists.
	raw, err := json.Marshal(record)
	if len(raw) > maxEvidence {
		d := &record.Diff
		d.Created = []string{}
		d.Modified = []string{}
		d.Deleted = []string{}
		d.Truncated = true
		record.VerifyChanged = nil
		record.Unverified = []evidence.Finding{}
		record.Notes = []evidence.Finding{}
		raw, err = json.Marshal(record)
	}
	if err != nil {
		e.problem(fmt.Errorf("run: encode the evidence: %w", err))
		return
	}

	end.verdict, end.evidence = found.Verdict, NewRedactor(e.key).Redact(raw)
	for _, c := range shortened(found.Contradictions) {
		end.contradictions = append(end.contradictions, hub.Contradiction(c))
	}
}

// settle ends the processes that the agent or a command left, before they change a file
// that is compared.
func (e *execution) settle() error {
	err := KillLeft(e.folder.Record().ID)
	if e.pen != nil {
		err = errors.Join(err, e.pen.Kill())
	}
	return err
}

// claims returns a report as it is recorded, nil if there is none. Of one that is
// too large the status, the results and the numbers of files are kept.
func (e *execution) claims(r *report.Result) (json.RawMessage, error) {
	if r == nil {
		return nil, nil
	}
	raw, err := json.Marshal(r)
	if len(raw) > maxReport {
		raw, err = json.Marshal(map[string]any{
			"status": r.Status, "status_known": r.Status.Known(), "tests": r.Tests, "build": r.Build, "truncated": true,
			"files_created_total": len(r.FilesCreated), "files_modified_total": len(r.FilesModified),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("run: encode the report: %w", err)
	}
	return NewRedactor(e.key).Redact(raw), nil
}
