package api

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// maxSteps is the number of steps of a recording in one answer.
const maxSteps = 1000

// A RunRecording is what the files of a run say. It has no steps if the run was executed
// on another machine, or its files were removed.
type RunRecording struct {
	Steps  []run.RecordedStep `json:"steps"`
	More   bool               `json:"more,omitempty"`   // there are further steps
	Patch  string             `json:"patch,omitempty"`  // the changes of the files as a unified diff
	Again  bool               `json:"again,omitempty"`  // the run can be executed again
	Policy sandbox.Policy     `json:"policy,omitempty"` // that the run had
}

// runRecording returns the recording of a run, for the operator: it holds the content of
// files.
func runRecording(_ context.Context, s *Services, a hub.Caller, p RunIDParams) (RunRecording, error) {
	out := RunRecording{Steps: []run.RecordedStep{}}
	if err := a.OperatorOnly("parley/run/recording"); err != nil {
		return out, err
	}

	// A run without a record has no recording; that is an empty answer.
	record, err := s.RunFiles.Record(p.ID)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return out, nil
	}
	if err != nil {
		return out, err
	}

	if record.Order != nil {
		out.Again, out.Policy = record.State.Over(), record.Order.Policy
	}
	if out.Patch, err = s.RunFiles.Patch(p.ID); err != nil {
		return out, err
	}

	// The steps are read from the frames, which a run without a recording lacks.
	f, err := os.Open(s.RunFiles.Frames(p.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, hub.Errorf(hub.CodeDegraded, "parley/run/recording", "cannot open the recording: %v", err)
	}
	defer f.Close()
	steps, more, err := run.Steps(f, maxSteps)
	out.Steps, out.More = append(out.Steps, steps...), more
	return out, err
}

// RunAgainParams name a run, and the permissions of the agent in the new one.
type RunAgainParams struct {
	ID     hub.RunID      `json:"run_id"`
	Policy sandbox.Policy `json:"policy"` // none, read or write
}

// RunAgain names the run that began.
type RunAgain struct {
	ID hub.RunID `json:"run_id"`
}

func runAgain(ctx context.Context, s *Services, a hub.Caller, p RunAgainParams) (RunAgain, error) {
	id, err := s.Repeater.Repeat(ctx, a, p.ID, p.Policy)
	return RunAgain{id}, err
}

// HandoffIDParams name a handoff.
type HandoffIDParams struct {
	ID hub.HandoffID `json:"handoff_id"`
}

func handoffDiff(ctx context.Context, s *Services, a hub.Caller, p HandoffIDParams) (handoff.Diff, error) {
	id, err := s.Handoffs.Resolve(ctx, "parley/handoff/diff", a, p.ID)
	if err != nil {
		return handoff.Diff{}, err
	}
	return s.Handoffs.Diff(ctx, a, id)
}
