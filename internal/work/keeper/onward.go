package keeper

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/quota"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/sandbox"
)

// Self is the successor that is the agent itself, in a new session.
const Self = "self"

const (
	maxSuccessors = 8
	folderEvery   = 2 * time.Second // between two looks whether the folder of a resting agent is free
	maxPlan       = 2000            // bytes of a plan that is kept
)

// An Ended says why an agent cannot go on.
type Ended struct {
	Agent  hub.AgentID            `json:"agent"`
	Reason hub.ContinuationReason `json:"reason"`
	Until  hub.Time               `json:"until,omitzero"` // when it can go on, if the vendor says so
	Said   string                 `json:"said,omitempty"` // its last plan
}

// checkSuccessors refuses a list of successors that cannot work.
func checkSuccessors(op string, list []Successor) error {
	if len(list) > maxSuccessors {
		return hub.Errorf(hub.CodeTooLarge, op, "too many successors: %d, limit %d", len(list), maxSuccessors)
	}
	for _, s := range list {
		if s.Name != Self && !hub.AgentID(s.Name).Valid() {
			return hub.Errorf(hub.CodeInvalid, op, "or: %.50q is neither a CLI nor an agent, nor self", s.Name)
		}
	}
	return nil
}

// final reports whether a failed turn would fail again at once: another try costs time and shows
// nothing new. A turn without a sign of life is such a one if a successor waits.
func (a *agent) final(ctx context.Context, r result) bool {
	switch a.classOf(r).Class {
	case quota.OutOfQuota, quota.Login, quota.FullInput:
		return true
	}
	return r.hung && a.hasSuccessor(ctx)
}

// hasSuccessor reports whether another agent may take over the tasks of this one without a person.
func (a *agent) hasSuccessor(ctx context.Context) bool {
	return len(a.record.Or) > 0 || (a.o.HasSuccessor != nil && a.o.HasSuccessor(ctx, a.name))
}

// classOf returns the class of the error with which a turn ended.
func (a *agent) classOf(r result) quota.Ending {
	return quota.Classify(a.record.CLI, r.problem, a.o.Clock.Now().Time)
}

// endedBy returns why the agent cannot go on after a failed turn.
func (a *agent) endedBy(r result) Ended {
	ending := a.classOf(r)
	e := Ended{Agent: a.name, Reason: hub.ContinueError, Said: a.said()}
	switch ending.Class {
	case quota.OutOfQuota:
		e.Reason = hub.ContinueQuota
	case quota.Rate:
		e.Reason = hub.ContinueRate
	case quota.Login:
		e.Reason = hub.ContinueLogin
	case quota.FullInput:
		e.Reason = hub.ContinueContext
	case quota.Overload:
		e.Reason = hub.ContinueOverload
	default:
		switch {
		case r.hung:
			e.Reason = hub.ContinueHang
		case r.crashed:
			e.Reason = hub.ContinueCrash
		}
	}
	if !ending.Until.IsZero() {
		e.Until = hub.At(ending.Until)
	}
	return e
}

// dropTurn ends a turn that is not tried again, and lets its task go on.
func (a *agent) dropTurn(ctx context.Context, t turn, given bool, r result) {
	e := a.endedBy(r)
	if !given && t.Wake != "" {
		a.handed(ctx, t.Wake, channel.Failed, string(a.name)+" "+e.Reason.Text())
	}
	text := fmt.Sprintf("%s %s", a.name, e.Reason.Text())
	if !e.Until.IsZero() {
		text += " until " + e.Until.String() + "; it is not started before"
	}
	if line := cli.LogIn(a.record.CLI); e.Reason == hub.ContinueLogin && line != "" {
		text += "; log in with: " + line
	}
	a.record.Turn = nil
	a.saveAndTell(ctx, func(r *record) {
		r.Turn = nil
		r.Cannot = a.cannot(e)
	}, text)
	a.reportTurn(ctx, wake.Report{Event: wake.EventTurnEnd, NoQuota: e.Reason == hub.ContinueQuota})
	a.endTurn(r)
	a.cannotGoOn(ctx, e)
}

// spentTurn lets the tasks of an agent go on whose budget was spent by its last turn.
func (a *agent) spentTurn(ctx context.Context) {
	if a.o.CannotGoOn != nil && a.blocked(ctx, a.name) != "" && a.hasSuccessor(ctx) {
		a.cannotGoOn(ctx, Ended{Agent: a.name, Reason: hub.ContinueBudget, Said: a.said()})
	}
}

// cannot notes that the tasks of the agent have to go on without it, and returns what its record
// stores of that until the hub has continued them: after a kill the next start does. It is nil if
// nothing continues tasks.
func (a *agent) cannot(e Ended) *Ended {
	a.record.Cannot = nil
	if a.o.CannotGoOn != nil {
		a.record.Cannot = &e
	}
	return a.record.Cannot
}

// cannotGoOn frees the folder of the agent, so that a successor can work there, and tells the
// hub. It rests if one does, or if the time is known at which it can go on.
func (a *agent) cannotGoOn(ctx context.Context, e Ended) {
	if a.o.CannotGoOn == nil {
		return
	}
	a.end()
	isFull := e.Reason == hub.ContinueContext
	if isFull {
		a.record.Session = "" // it would be full at once
	}
	a.save(ctx, func(r *record) {
		r.Cannot = a.cannot(e)
		if isFull {
			r.Session = ""
		}
	})
	a.unlockFolder()
	a.setYielding(true)
	a.o.CannotGoOn(ctx, e)
	a.setYielding(false)
	if ctx.Err() != nil {
		return // the next start tells it again
	}

	a.record.Cannot = nil
	if !a.replaced(ctx) && e.Until.IsZero() {
		a.couldNot = true
		a.save(ctx, func(r *record) { r.Cannot = nil })
		if err := a.lockFolder(); err != nil {
			a.giveUp(ctx, fmt.Sprintf("another program keeps an agent in %s", a.record.Dir))
		}
		return
	}

	why := e.Reason.Text()
	if !e.Until.IsZero() {
		why += " until " + e.Until.String()
	}
	a.record.Rest = &rest{Reason: e.Reason, Until: e.Until}
	a.log.add("rest", why)
	a.save(ctx, func(r *record) {
		r.Rest = a.record.Rest
		r.Cannot = nil
		r.Problem = "it " + why
	})
}

// setYielding notes whether the agent has given its folder free while the hub looks for a
// successor.
func (a *agent) setYielding(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.yielding = is
}

// isYielding reports whether the agent waits until the hub has looked for a successor.
func (a *agent) isYielding() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.yielding
}

// rests waits until the agent can go on and no other agent works in its folder. Its mail stays
// unannounced meanwhile.
func (a *agent) rests(ctx context.Context) {
	a.move(Sleeping)
	a.move(Resting)
	a.report(ctx, wake.EventEnd, "")
	for ctx.Err() == nil {
		if left := a.record.Rest.Until.Sub(a.o.Clock.Now().Time); !a.record.Rest.Until.IsZero() && left > 0 {
			a.rest(ctx, min(left, folderEvery))
			continue
		}
		if !a.replaced(ctx) && a.blocked(ctx, a.name) == "" && a.lockFolder() == nil {
			break
		}
		a.rest(ctx, folderEvery)
	}
	if ctx.Err() != nil {
		return
	}

	a.record.Rest = nil
	a.save(ctx, func(r *record) {
		r.Rest = nil
		r.Problem = ""
	})
	a.move(Sleeping)
	if a.o.Returned == nil {
		return
	}
	if text := a.o.Returned(ctx, a.name); text != "" {
		a.work(ctx, turn{By: ByHub, Prompt: text})
	}
}

// workedOn tells the hub that an agent goes on with its tasks after all, though it could not.
func (a *agent) workedOn(ctx context.Context) {
	if a.couldNot && a.o.Returned != nil {
		a.o.Returned(ctx, a.name) // the text is about the turn that it just had
	}
	a.couldNot = false
}

// replaced reports whether another agent is kept in the same folder and neither rests nor is
// stopped.
func (a *agent) replaced(ctx context.Context) bool {
	all, err := hub.Read(ctx, a.store, readAll)
	return err != nil || slices.ContainsFunc(all, func(r record) bool {
		return r.Agent != a.name && r.Dir == a.record.Dir && !r.Stopped && r.Rest == nil
	})
}

// retire stops an agent that stood in for another one and has no task any more, so that the first
// one gets its folder back.
func (a *agent) retire(ctx context.Context) {
	isDone := a.record.For != "" && a.o.OpenTasks != nil && !a.o.OpenTasks(ctx, a.name)
	if !isDone {
		return
	}
	a.record.Stopped = true
	a.log.add("stop", "its task is done")
	a.save(ctx, func(r *record) {
		r.Stopped = true
		r.Problem = fmt.Sprintf("its task for %s is done", a.record.For)
		r.Since = a.o.Clock.Now()
	})
}

// lockFolder takes the lock of the agent's folder, unless it has it.
func (a *agent) lockFolder() error {
	if a.unlock != nil {
		return nil
	}
	unlock, err := lockFolder(a.record.Dir)
	if err == nil {
		a.unlock = unlock
	}
	return err
}

// unlockFolder gives the lock back.
func (a *agent) unlockFolder() {
	if a.unlock != nil {
		a.unlock()
		a.unlock = nil
	}
}

// hangs reports whether a turn gave no sign of life for too long: for the time of the agent, or for
// the time of patience if a successor waits.
func (a *agent) hangs(ctx context.Context, seen watched, now time.Time) bool {
	if seen.hangs(now, a.record.Hang.or(defaultHang)) {
		return true
	}
	return a.o.Patience > 0 && seen.hangs(now, a.o.Patience) && a.hasSuccessor(ctx)
}

// planned keeps the plan that the agent sent last.
func (a *agent) planned(u *acp.Update) {
	if u.Kind() != acp.KindPlan {
		return
	}
	var lines []string
	for _, e := range u.Plan() {
		lines = append(lines, fmt.Sprintf("%s (%s)", e.Content, e.Status))
	}
	if len(lines) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plan = shorten.Text("plan: "+strings.Join(lines, "; "), maxPlan)
}

// said returns the plan that the agent sent last.
func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.plan
}

// Kept returns the folder, the CLI and the successors of an agent that the hub runs, and whether it
// does.
func (k *Keeper) Kept(ctx context.Context, name hub.AgentID) (Definition, bool, error) {
	r, err := k.find(ctx, "keeper.Kept", name)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return Definition{}, false, nil
	}
	return r.Definition, err == nil, err
}

// StandIn keeps an agent of a CLI in the folder of another agent, which it stands in for, and
// returns its name. A command that is empty is that of the successor with the CLI's name.
func (k *Keeper) StandIn(ctx context.Context, of hub.AgentID, d Definition) (hub.AgentID, error) {
	const op = "keeper.StandIn"
	was, isKept, err := k.Kept(ctx, of)
	if err != nil {
		return "", err
	}
	d.For = of
	if isKept {
		d = d.inherit(was)
	}
	if d.Policy == "" { // a person asked it to go on with work in this folder
		d.Policy = sandbox.PolicyWrite
	}
	if len(d.Command) == 0 {
		d.Command = installed(d.CLI)
	}
	d.Agent = standInName(d.For, d.CLI)
	if d.Agent == of {
		return "", hub.Errorf(hub.CodeConflict, op, "%s is that agent itself", of)
	}
	if len(d.Command) == 0 {
		return "", hub.Errorf(hub.CodeNotFound, op, "no agent or known CLI named %q", d.CLI).WithHint("parley agent clis lists the CLIs")
	}

	// It may work there already, on another task of the same agent.
	there, err := k.find(ctx, op, d.Agent)
	works := err == nil && there.For == d.For && there.Dir == realDir(d.Dir) && !there.Stopped && there.Rest == nil
	if works {
		return d.Agent, nil
	}

	again := func() {}
	if isKept {
		if again, err = k.vacate(ctx, of, d.Dir); err != nil {
			return "", err
		}
	}
	_, err = k.keep(ctx, op, hub.Caller{ID: hub.Self}, d, hub.Agent{}, false)
	again()
	return d.Agent, err
}

// StandInName returns the name of the agent of a CLI that would stand in for another agent.
func (k *Keeper) StandInName(ctx context.Context, of hub.AgentID, cli string) (hub.AgentID, error) {
	was, _, err := k.Kept(ctx, of)
	if was.For != "" {
		of = was.For
	}
	return standInName(of, cli), err
}

// Dismiss stops an agent that stands in for another one and got no task.
func (k *Keeper) Dismiss(ctx context.Context, name hub.AgentID) error {
	k.halt(name)
	return k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		r, err := hub.ReadMeta[record](tx, recordKey(name))
		if err != nil || r.Agent == "" {
			return err
		}
		r.Stopped = true
		r.Problem = "it got no task"
		r.Since = k.o.Clock.Now()
		return hub.WriteMeta(tx, recordKey(name), r)
	})
}

// Rests reports whether an agent that the hub runs rests until it can go on, why, and until when, if that
// is known.
func (k *Keeper) Rests(ctx context.Context, name hub.AgentID) (until hub.Time, why hub.ContinuationReason, rests bool) {
	r, err := k.find(ctx, "keeper.Rests", name)
	if err != nil || r.Rest == nil {
		return hub.Time{}, "", false
	}
	return r.Rest.Until, r.Rest.Reason, true
}

// IsStopped reports whether the hub runs an agent that is stopped.
func (k *Keeper) IsStopped(ctx context.Context, name hub.AgentID) bool {
	r, err := k.find(ctx, "keeper.IsStopped", name)
	return err == nil && r.Stopped
}

// inherit returns the definition of an agent that stands in for another one, with the folder, the
// policy and the limits of that one. A stand-in of a stand-in is one of the first agent.
func (d Definition) inherit(was Definition) Definition {
	if was.For != "" {
		d.For = was.For
	}
	i := slices.IndexFunc(was.Or, func(s Successor) bool { return s.Name == d.CLI })
	if len(d.Command) == 0 && i >= 0 {
		d.Command = was.Or[i].Command
	}
	if d.Path == "" {
		d.Path = was.Path
	}
	d.Dir = was.Dir
	d.Branch = was.Branch
	d.Policy = was.Policy
	d.Or = was.Or
	d.Memory = was.Memory
	d.Idle = was.Idle
	d.Hang = was.Hang
	d.Question = was.Question
	d.PerHour = was.PerHour
	return d
}

// realDir returns the path of a folder without links.
func realDir(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// vacate has a kept agent rest that still holds its folder, so that another one can work there. An
// agent that found out by itself that it cannot go on has given it free, and waits for the answer:
// it must not be waited for. The function that it returns serves the agent again.
func (k *Keeper) vacate(ctx context.Context, name hub.AgentID, dir string) (again func(), err error) {
	k.mu.Lock()
	a := k.agents[name]
	k.mu.Unlock()
	if a != nil && a.isYielding() {
		return func() {}, nil
	}
	if unlock, err := lockFolder(dir); err == nil {
		unlock()
		return func() {}, nil
	}
	k.halt(name)
	err = k.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		r, err := hub.ReadMeta[record](tx, recordKey(name))
		if err != nil || r.Agent == "" {
			return err
		}
		r.Rest = &rest{Reason: hub.ContinueClosed}
		r.Problem = "another agent continues its task"
		r.Turn = nil
		r.Cannot = nil
		return hub.WriteMeta(tx, recordKey(name), r)
	})
	return func() { k.restart(name) }, err
}

// installed returns the command of a CLI on the PATH of the hub, by its path; nil if there is none.
func installed(name string) []string {
	command, err := cli.Command(name)
	if err != nil {
		return nil
	}
	program, err := exec.LookPath(command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return nil
	}
	return append([]string{program}, command[1:]...)
}

// standInName returns the name of the agent of a CLI that stands in for another one.
func standInName(of hub.AgentID, cli string) hub.AgentID {
	name := string(of) + "-" + cli
	const longest = 64
	return hub.AgentID(name[max(0, len(name)-longest):])
}

// Resume gives a kept agent a turn of its own with a text of the hub.
func (k *Keeper) Resume(ctx context.Context, name hub.AgentID, text string) error {
	const op = "keeper.Resume"
	a, err := k.serving(ctx, op, name)
	if err != nil {
		return err
	}
	err = k.change(ctx, hub.Caller{ID: hub.Self}, name, actions.AgentPrompted, func(_ hub.Tx, r *record) error {
		if len(r.Prompts) == maxPrompts {
			return hub.Errorf(hub.CodeRateLimited, op, "%d prompts are already waiting for %s", maxPrompts, name)
		}
		r.Prompts = append(r.Prompts, prompt{Text: text, By: ByHub})
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case a.prompts <- struct{}{}:
	default: // it will look
	}
	return nil
}
