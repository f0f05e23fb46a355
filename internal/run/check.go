package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/internal/shorten"
	"github.com/parley-agents/parley/report"
)

// A judgment is the result of the check of a run, as it is recorded.
type judgment struct {
	verdict        hub.RunVerdict
	contradictions []hub.Contradiction
	evidence       json.RawMessage
}

// Evidence is the evidence of a run as it is recorded.
type Evidence struct {
	evidence.Record
	Unverified []evidence.Finding `json:"unverified"` // claims that could not be checked
	Notes      []evidence.Finding `json:"notes"`      // findings that do not contradict the report
}

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

// check compares the files with what they were and, if there is a report, the
// report with the files. After an interruption no command is run.
func (e *execution) check(ctx context.Context, end *ending) {
	e.move(ctx, hub.RunChecking, "")
	interrupted := end.state == hub.RunInterrupted
	if interrupted {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), compareTime)
		defer cancel()
	}
	var claims report.Report
	if end.report != nil {
		claims = end.report.Report
	}
	var changes *evidence.Changes
	if got, err := e.base.Compare(ctx, evidence.NamedFiles(claims)); err != nil {
		e.problem(fmt.Errorf("run: compare the files: %w", err))
	} else {
		changes = &got
	}
	var verify, build *evidence.Outcome
	var after []string
	if !interrupted {
		build = e.command(ctx, "BUILD", e.spec.Build)
		verify = e.command(ctx, "VERIFY", e.spec.Verify)
		if verify != nil || build != nil {
			var err error
			if after, err = e.base.Since(ctx); err != nil {
				e.problem(fmt.Errorf("run: compare the files after the commands: %w", err))
			}
		}
		if ctx.Err() != nil { // while a command ran
			end.state, end.reason = hub.RunInterrupted, hub.RunCancelled
		}
	}
	j := &judgment{verdict: hub.RunUnverified, contradictions: []hub.Contradiction{}}
	kept := Evidence{
		Record:     evidence.NewRecord(e.base.Moment(), changes, verify, build, after),
		Unverified: []evidence.Finding{}, Notes: []evidence.Finding{},
	}
	if end.state == hub.RunDone {
		v := evidence.Judge(claims, changes, verify, build, e.spec.Dispatch.Scope, nil)
		j.verdict = hub.RunVerdict(v.Ruling)
		for _, c := range shortened(v.Contradictions) {
			j.contradictions = append(j.contradictions, hub.Contradiction{Kind: string(c.Kind), Claim: c.Claim, Found: c.Found})
		}
		kept.Unverified, kept.Notes = shortened(v.Unverified), shortened(v.Notes)
	}
	raw, err := json.Marshal(kept)
	if len(raw) > maxEvidence {
		kept.Diff.Created, kept.Diff.Modified, kept.Diff.Deleted, kept.Diff.Truncated = []string{}, []string{}, []string{}, true
		kept.VerifyChanged, kept.Unverified, kept.Notes = nil, []evidence.Finding{}, []evidence.Finding{}
		raw, err = json.Marshal(kept)
	}
	if err != nil {
		e.problem(fmt.Errorf("run: encode the evidence: %w", err))
		return
	}
	j.evidence = NewRedactor(e.key).Redact(raw)
	end.judgment = j
}

// command runs a command of the user's, if there is one.
func (e *execution) command(ctx context.Context, field, line string) *evidence.Outcome {
	if line == "" || ctx.Err() != nil {
		return nil
	}
	if e.opts.On.Command != nil {
		e.opts.On.Command(field, line)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.opts.Kill, cancel)()
	o := evidence.Command(ctx, e.spec.Dir, line, &evidence.CommandOptions{
		Timeout: e.opts.CommandTimeout, Env: fleet.Environment(e.folder.Record().ID), Track: e.track,
	})
	return &o
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
