package web

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/handoff"
)

// A column is the part of the board for some states.
type column struct {
	Name, Empty string
	States      []hub.HandoffState
	Cards       []card
	More        bool
}

// A card is a handoff on the board.
type card struct {
	handoff.Report
	Late bool
}

const boardPage = 40 // handoffs of one state

func newCard(r handoff.Report) card {
	return card{r, !r.DueAt.IsZero() && r.DueAt.Before(time.Now())}
}

func handoffs(ctx context.Context, v *visit) (string, any, error) {
	board := []column{
		{Name: "Proposed", Empty: "Tasks that wait for their receiver to accept them.", States: []hub.HandoffState{hub.HandoffProposed, hub.HandoffValidating}},
		{Name: "In work", Empty: "Tasks that their receiver has accepted.", States: []hub.HandoffState{hub.HandoffAccepted, hub.HandoffActivated}},
		{Name: "Done", Empty: "Tasks that their owner has completed, with the proof.", States: []hub.HandoffState{hub.HandoffCompleted, hub.HandoffClosed}},
		{Name: "Refused", Empty: "Tasks that were rejected or withdrawn, or that failed the checks.", States: []hub.HandoffState{hub.HandoffRejected}},
	}
	for i := range board {
		for _, state := range board[i].States {
			got, err := perform(ctx, v, api.Handoff, api.HandoffParams{Action: "list", State: state, Limit: boardPage})
			if err != nil {
				return "", nil, err
			}
			for _, r := range got.Listing.Handoffs {
				board[i].Cards = append(board[i].Cards, newCard(r))
			}
			board[i].More = board[i].More || got.Listing.Next != ""
		}
	}
	return "Handoffs", board, nil
}

type handoffData struct {
	card
	Here    string
	Agents  []hub.AgentID
	Open    bool // somebody has it or is to have it
	Waits   bool // for the operator
	CanHand bool // the operator can hand it on: no agent has it
	Over    bool // it has ended, and the difference is kept
	Hidden  bool // the package is for operators alone
	Spent   string
	Stopped *hub.Continuation // its owner cannot go on; nil if it can
	Task    taskView
	Diff    patchView
}

// A taskView is what a package says about its task.
type taskView struct {
	Task struct {
		Objective string   `json:"objective"`
		Criteria  []string `json:"success_criteria"`
	} `json:"task"`
	Context struct {
		Summary string `json:"summary"`
	} `json:"context"`
	Work struct {
		Next     string `json:"next_step"`
		Worktree string `json:"worktree_path"`
		Branch   string `json:"branch"`
	} `json:"work_state"`
}

// A patchView is a unified diff on a page.
type patchView struct {
	handoff.Diff
	Files []filePatch
	More  int // files that are not shown
}

func newPatchView(d handoff.Diff) patchView {
	files, more := parsePatch(d.Text)
	return patchView{d, files, more + d.More}
}

func oneHandoff(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.Handoff, api.HandoffParams{Action: "show", ID: hub.HandoffID(v.r.PathValue("id"))})
	if err != nil {
		return "", nil, err
	}

	d := handoffData{card: newCard(*got.Report), Here: v.r.URL.RequestURI(), Spent: spendText(got.Spend)}
	d.Hidden = d.Restricted && !v.operator()
	json.Unmarshal(d.Package, &d.Task) // members of another type are not shown

	// The changes of the worktree hold the content of files, so that they are for operators alone.
	if v.operator() {
		diff, err := perform(ctx, v, api.DiffHandoff, api.HandoffIDParams{ID: d.ID})
		if err != nil {
			return "", nil, err
		}
		d.Diff = newPatchView(diff)
	}

	switch d.Status {
	case hub.HandoffAccepted, hub.HandoffActivated:
		d.Open = true
	case hub.HandoffProposed:
		d.Waits = len(d.WaitsFor) > 0
	case hub.HandoffRejected, hub.HandoffClosed:
		d.CanHand, d.Over = true, true
	case hub.HandoffCompleted:
		d.Over = true
	}

	if d.Agents, err = v.agentNames(ctx); err != nil {
		return "", nil, err
	}
	d.Stopped, err = v.stoppedTask(ctx, d.ID)
	return d.Title, d, err
}

// stoppedTask returns the continuation of a task whose owner cannot go on; nil if there is none.
func (v *visit) stoppedTask(ctx context.Context, id hub.HandoffID) (*hub.Continuation, error) {
	got, err := perform(ctx, v, api.Continuations, api.ContinuationListParams{Open: true})
	for _, c := range got.Continuations {
		if c.Handoff == id && c.State == hub.ContinuationWaiting {
			return &c, err
		}
	}
	return nil, err
}

// stoppedTasks returns the continuations of a team's tasks that came without a handoff and whose
// owners cannot go on.
func (v *visit) stoppedTasks(ctx context.Context, id hub.TeamID) (out []hub.Continuation, err error) {
	got, err := perform(ctx, v, api.Continuations, api.ContinuationListParams{Open: true})
	if err != nil {
		return nil, err
	}
	for _, c := range got.Continuations {
		if c.Handoff != "" || c.State != hub.ContinuationWaiting {
			continue
		}
		_, err := perform(ctx, v, api.Team, api.TeamParams{Action: "task", Team: id, Task: hub.TaskID(c.Task)})
		switch {
		case hub.CodeOf(err) == hub.CodeNotFound: // a task of another team
		case err != nil:
			return nil, err
		default:
			out = append(out, c)
		}
	}
	return out, nil
}

// continueTask hands the task of an agent that cannot go on to another one.
func continueTask(ctx context.Context, f form) (string, error) {
	got, err := perform(ctx, f.visit, api.ContinueTask, api.ContinueParams{Handoff: hub.HandoffID(f.Get("id")), With: strings.TrimSpace(f.Get("with"))})
	if err != nil {
		return "", err
	}
	if got.To == got.Of {
		return fmt.Sprintf("%s continues the task.", got.To), nil
	}
	return fmt.Sprintf("The task is offered to %s.", got.To), nil
}
