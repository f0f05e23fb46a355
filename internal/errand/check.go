package errand

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
	"github.com/parley-agents/parley/internal/reach/fleet"
	"github.com/parley-agents/parley/report"
)

// found is what was found when a run was checked.
type found struct {
	verdict        hub.RunVerdict
	contradictions []hub.Contradiction
	evidence       json.RawMessage
}

// A proof is the evidence as it is recorded.
type proof struct {
	evidence.Record
	Unverified []evidence.Finding `json:"unverified"` // what could not be checked
	Notes      []evidence.Finding `json:"notes"`      // what does not speak against the report
}

// Bounds of what is recorded, so that a hub takes it in one call: findings of a
// kind, bytes of what one says, and bytes of the evidence.
const (
	maxFindings = 200
	maxFinding  = 400
	maxEvidence = 400 << 10
)

// first returns the findings that are recorded.
func first(all []evidence.Finding) []evidence.Finding {
	var kept []evidence.Finding
	for _, f := range all[:min(len(all), maxFindings)] {
		f.Claim, f.Found = brief(f.Claim), brief(f.Found)
		kept = append(kept, f)
	}
	return kept
}

// brief returns the beginning of a text that is too long.
func brief(s string) string {
	if len(s) <= maxFinding {
		return s
	}
	return strings.ToValidUTF8(s[:maxFinding], "") + "…"
}

// lookTime is how long looking at what an agent left may take that was stopped.
const lookTime = time.Minute

// check looks at what the agent left behind and, if there is a report, whether
// that is true. After an interruption no command is run.
func (e *errand) check(ctx context.Context, end *ending) {
	e.move(ctx, hub.RunChecking, "")
	interrupted := end.state == hub.RunInterrupted
	if interrupted {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lookTime)
		defer cancel()
	}
	var claims report.Report
	if end.report != nil {
		claims = end.report.Report
	}
	var changes *evidence.Changes
	if got, err := e.base.Compare(ctx, evidence.NamedFiles(claims)); err != nil {
		e.problem(fmt.Errorf("errand: the files could not be compared: %w", err))
	} else {
		changes = &got
	}
	var verify, build *evidence.Outcome
	var after []string
	if !interrupted {
		build = e.command(ctx, "BUILD", e.order.Build)
		verify = e.command(ctx, "VERIFY", e.order.Verify)
		if verify != nil || build != nil {
			var err error
			if after, err = e.base.Since(ctx); err != nil {
				e.problem(fmt.Errorf("errand: what the commands changed could not be told: %w", err))
			}
		}
		if ctx.Err() != nil { // while a command ran
			end.state, end.reason = hub.RunInterrupted, hub.RunCancelled
		}
	}
	f := &found{verdict: hub.RunUnverified, contradictions: []hub.Contradiction{}}
	p := proof{
		Record:     evidence.NewRecord(e.base.Moment(), changes, verify, build, after),
		Unverified: []evidence.Finding{}, Notes: []evidence.Finding{},
	}
	if end.state == hub.RunDone {
		v := evidence.Judge(claims, changes, verify, build, e.order.Dispatch.Scope, nil)
		f.verdict = hub.RunVerdict(v.Ruling)
		for _, c := range first(v.Contradictions) {
			f.contradictions = append(f.contradictions, hub.Contradiction{Kind: string(c.Kind), Claim: c.Claim, Found: c.Found})
		}
		p.Unverified, p.Notes = append(p.Unverified, first(v.Unverified)...), append(p.Notes, first(v.Notes)...)
	}
	raw, err := json.Marshal(p)
	if len(raw) > maxEvidence {
		p.Diff.Created, p.Diff.Modified, p.Diff.Deleted, p.Diff.Truncated = []string{}, []string{}, []string{}, true
		p.VerifyChanged, p.Unverified, p.Notes = nil, []evidence.Finding{}, []evidence.Finding{}
		raw, err = json.Marshal(p)
	}
	if err != nil {
		e.problem(fmt.Errorf("errand: %w", err))
		return
	}
	f.evidence = e.redact(raw)
	end.found = f
}

// command runs a command of the user's, if there is one.
func (e *errand) command(ctx context.Context, what, line string) *evidence.Outcome {
	if line == "" || ctx.Err() != nil {
		return nil
	}
	if e.opts.On.Command != nil {
		e.opts.On.Command(what, line)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.opts.Kill, cancel)()
	o := evidence.Command(ctx, e.order.Dir, line, &evidence.CommandOptions{
		Timeout: e.opts.VerifyTimeout, Env: fleet.Environment(e.account.Record().ID), Track: e.track,
	})
	return &o
}

// A writerFunc is a function that is written to.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// orNil returns f as a writer, or none.
func (f writerFunc) orNil() io.Writer {
	if f == nil {
		return nil
	}
	return f
}
