package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/work/keeper"
)

// openContinuations builds the service that lets tasks go on whose agent cannot.
func (s *Server) openContinuations(context.Context) error {
	s.continuations = continuation.New(s.store, continuation.Parts{
		Trees: rescueTrees{s}, Handoffs: s.handoffs, Agents: onwardAgents{s}, Files: onwardFiles{s}, Mail: s.mail,
	}, &continuation.Options{Clock: s.clock, Bus: s.hints, Log: s.log, Patience: s.opts.Patience})
	return nil
}

// movedHandoffs tells the continuations, which are built after the handoffs, about handoffs that
// moved.
type movedHandoffs struct{ s *Server }

// Moved implements handoff.Continuations.
func (m movedHandoffs) Moved(tx hub.Tx, h hub.Handoff) ([]hub.Message, error) {
	if m.s.continuations == nil {
		return nil, nil
	}
	return m.s.continuations.Moved(tx, h)
}

// rescueTrees keeps the uncommitted work of working trees in the hub's copies of repositories.
type rescueTrees struct{ s *Server }

// keptRefs begins the names of the refs that hold rescues in a copy.
const keptRefs = "refs/parley/"

// copyOf returns the copy of the repository around a folder that is under a root, or in which the
// hub runs an agent.
func (t rescueTrees) copyOf(ctx context.Context, folder string) (*clone.Copy, error) {
	if _, err := repositories(t).Find(ctx, folder); err != nil && !t.s.runsIn(ctx, folder) {
		return nil, err
	}
	c, err := t.s.copies.Of(ctx, folder)
	return c, rescueError(err)
}

// runsIn reports whether the hub runs an agent in a folder.
func (s *Server) runsIn(ctx context.Context, folder string) bool {
	kept, err := s.keeper.List(ctx)
	if err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(folder) // a link in it may lead anywhere
	if err != nil {
		return false
	}
	for _, k := range kept {
		if rel, err := filepath.Rel(k.Dir, real); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// rescueError returns an error of a copy with the code of its cause.
func rescueError(err error) error {
	if errors.Is(err, clone.ErrTooLarge) {
		return hub.Errorf(hub.CodeTooLarge, "server.Rescue", "%w", err)
	}
	return gitError(err)
}

// Save implements continuation.Trees.
func (t rescueTrees) Save(ctx context.Context, folder, name, message string) (continuation.Saved, error) {
	c, err := t.copyOf(ctx, folder)
	if err != nil {
		return continuation.Saved{}, err
	}
	got, err := c.Snapshot(ctx, folder, message)
	if err != nil {
		return continuation.Saved{}, rescueError(err)
	}
	out := continuation.Saved{Clean: got.Clean, Branch: c.Branch(ctx), Tree: got.Commit.Tree}
	out.Rescue = hub.Rescue{
		Copy: c.Folder(), Ref: keptRefs + name, Commit: got.Commit.ID, Base: got.Base, Files: got.Files, Bytes: got.Bytes,
		Submodules: got.Submodules, Unreadable: got.Unreadable,
	}
	if got.Clean {
		return out, nil
	}
	if out.Insertions, out.Deletions, err = c.Lines(ctx, got.Base, got.Commit.ID); err != nil {
		return out, rescueError(err)
	}
	if out.Paths, err = c.Paths(ctx, got.Base, got.Commit.ID); err != nil {
		return out, rescueError(err)
	}
	return out, rescueError(c.Keep(ctx, name, got.Commit.ID))
}

// Names implements continuation.Trees.
func (t rescueTrees) Names(ctx context.Context) (out []hub.Rescue, err error) {
	kept, err := t.s.copies.Names(ctx, "rescue")
	for _, one := range kept {
		out = append(out, hub.Rescue{Copy: one.Folder, Ref: keptRefs + one.Name})
	}
	return out, rescueError(err)
}

// Drop implements continuation.Trees.
func (t rescueTrees) Drop(ctx context.Context, r hub.Rescue) error {
	c, err := t.s.copies.At(ctx, r.Copy)
	if err != nil {
		return rescueError(err)
	}
	return rescueError(c.Drop(ctx, strings.TrimPrefix(r.Ref, keptRefs)))
}

// Apply implements continuation.Trees.
func (t rescueTrees) Apply(ctx context.Context, r hub.Rescue, folder string) (continuation.Applied, error) {
	c, err := t.copyOf(ctx, folder)
	if err != nil {
		return continuation.Applied{}, err
	}
	got, err := c.Apply(ctx, r.Commit, folder)
	if err != nil {
		return continuation.Applied{}, rescueError(err)
	}
	out := continuation.Applied{Paths: got.Paths, Kept: got.Kept}
	for _, w := range got.Waits {
		out.Waits = append(out.Waits, fmt.Sprintf("%s: %s", w.Reason, strings.Join(w.Paths, ", ")))
	}
	for _, x := range got.Conflicts {
		out.Conflicts = append(out.Conflicts, x.Path)
	}
	return out, nil
}

// Patch implements continuation.Trees.
func (t rescueTrees) Patch(ctx context.Context, r hub.Rescue, most int) (string, bool, error) {
	c, err := t.s.copies.At(ctx, r.Copy)
	if err != nil {
		return "", false, rescueError(err)
	}
	patch, cut, err := c.Patch(ctx, r.Base, r.Commit, most)
	return patch, cut, rescueError(err)
}

// onwardAgents runs the agents that take over tasks.
type onwardAgents struct{ s *Server }

// Kept implements continuation.Agents.
func (a onwardAgents) Kept(ctx context.Context, agent hub.AgentID) (continuation.Kept, bool, error) {
	d, ok, err := a.s.keeper.Kept(ctx, agent)
	out := continuation.Kept{Folder: d.Dir, CLI: d.CLI}
	out.Until, out.Reason, out.Rests = a.s.keeper.Rests(ctx, agent)
	for _, one := range d.Or {
		out.Or = append(out.Or, one.Name)
	}
	if err != nil {
		return out, ok, err
	}
	out.LogIn, err = a.logIn(ctx, agent, d.CLI)
	return out, ok, err
}

// logIn returns the line with which a person gives an agent a login again: that of the CLI with which
// it is kept or was seen last in a terminal.
func (a onwardAgents) logIn(ctx context.Context, agent hub.AgentID, kept string) (string, error) {
	if kept != "" {
		return cli.LogIn(kept), nil
	}
	sessions, err := hub.Read(ctx, a.s.store, func(rd hub.Reader) ([]wake.Session, error) { return a.s.wakes.List(rd, agent) })
	if err != nil || len(sessions) == 0 {
		return "", err
	}
	last := slices.MaxFunc(sessions, func(a, b wake.Session) int { return a.Since.Compare(b.Since.Time) })
	return cli.LogIn(last.CLI), nil
}

// StandInName implements continuation.Agents.
func (a onwardAgents) StandInName(ctx context.Context, of hub.AgentID, cli string) (hub.AgentID, error) {
	return a.s.keeper.StandInName(ctx, of, cli)
}

// StandIn implements continuation.Agents.
func (a onwardAgents) StandIn(ctx context.Context, of hub.AgentID, p continuation.Program) error {
	name, err := a.s.keeper.StandIn(ctx, of, keeper.Definition{CLI: p.CLI, Command: p.Command, Path: p.Path, Dir: p.Folder})
	if err != nil {
		return err
	}
	return a.s.wakes.Inherit(ctx, name, of)
}

// Dismiss implements continuation.Agents. An agent that has another task goes on with it.
func (a onwardAgents) Dismiss(ctx context.Context, agent hub.AgentID) error {
	if a.s.hasTasks(ctx, agent) {
		return nil
	}
	return a.s.keeper.Dismiss(ctx, agent)
}

// Resume implements continuation.Agents.
func (a onwardAgents) Resume(ctx context.Context, agent hub.AgentID, text string) error {
	return a.s.keeper.Resume(ctx, agent, text)
}

// Blocked implements continuation.Agents.
func (a onwardAgents) Blocked(ctx context.Context, agent hub.AgentID) string {
	return a.s.blocked(ctx, agent)
}

// Off implements continuation.Agents.
func (a onwardAgents) Off(ctx context.Context, agent hub.AgentID) string {
	known, err := hub.Read(ctx, a.s.store, func(rd hub.Reader) (hub.Agent, error) { return rd.Agent(agent) })
	isPaused := err == nil && known.State == hub.AgentPaused
	switch {
	case isPaused:
		return fmt.Sprintf("%s is paused", agent)
	case a.s.keeper.IsStopped(ctx, agent):
		return fmt.Sprintf("%s is stopped", agent)
	}
	return ""
}

// Working implements continuation.Agents.
func (a onwardAgents) Working(ctx context.Context, agent hub.AgentID) bool {
	if a.s.keeper.Busy(agent) {
		return true
	}
	working, err := hub.Read(ctx, a.s.store, func(rd hub.Reader) (bool, error) {
		sessions, err := a.s.wakes.List(rd, agent)
		for _, one := range sessions {
			if one.State == wake.SessionWorking && one.ID != keeper.SessionID {
				return true, nil
			}
		}
		return false, err
	})
	return err == nil && working
}

// Closed implements continuation.Agents.
func (a onwardAgents) Closed(rd hub.Reader, agent hub.AgentID) (at hub.Time, closed bool, err error) {
	sessions, err := a.s.wakes.List(rd, agent)
	if err != nil || len(sessions) == 0 {
		return at, false, err
	}
	for _, one := range sessions {
		if one.State != wake.SessionEnded || one.ID == keeper.SessionID {
			return at, false, nil
		}
		if one.Since.After(at.Time) {
			at = one.Since
		}
	}
	return at, true, nil
}

// onwardFiles moves reserved files to the next owner of a task.
type onwardFiles struct{ s *Server }

// MoveFiles implements continuation.Files.
func (f onwardFiles) MoveFiles(ctx context.Context, folder string, from, to hub.AgentID, id hub.HandoffID) error {
	top, err := f.s.files.Top(ctx, folder)
	if err != nil {
		return err
	}
	held, err := hub.Read(ctx, f.s.store, func(rd hub.Reader) ([]hub.Reservation, error) { return rd.Reservations().OfAgent(from) })
	if err != nil {
		return err
	}
	var paths []string
	for _, r := range held {
		if r.Tree.Path != top {
			continue
		}
		if _, err := f.s.files.Release(ctx, hub.Caller{Kind: hub.CallerAgent, ID: from}, reservation.Release{ID: r.ID}); err != nil {
			return err
		}
		paths = append(paths, r.Path)
	}
	if len(paths) == 0 {
		return nil
	}
	_, err = f.s.files.Reserve(ctx, hub.Caller{Kind: hub.CallerAgent, ID: to}, reservation.Request{Tree: top, Patterns: paths, Agent: to, Handoff: id})
	return err
}

// cannotGoOn continues the tasks of a kept agent that cannot go on.
func (s *Server) cannotGoOn(ctx context.Context, e keeper.Ended) {
	_, err := s.continuations.Stop(ctx, continuation.Cause{Agent: e.Agent, Reason: e.Reason, Until: e.Until, Said: e.Said})
	if err != nil {
		s.log.Warn("the tasks of an agent that cannot go on were not continued", "agent", e.Agent, "err", err)
	}
}

// returned is told by the keeper that an agent can go on, and returns the text about its tasks.
func (s *Server) returned(ctx context.Context, agent hub.AgentID) string {
	text, err := s.continuations.Returned(ctx, agent)
	if err != nil {
		s.log.Warn("the tasks of an agent that can go on cannot be read", "agent", agent, "err", err)
	}
	return text
}

// onward returns the text that the next turn of an agent begins with, once.
func (s *Server) onward(ctx context.Context, agent hub.AgentID) string {
	text, err := s.continuations.Pending(ctx, agent)
	if err == nil && text == "" {
		text, err = s.continuations.OtherOwners(ctx, agent)
	}
	if err != nil {
		s.log.Warn("the text for an agent that continues a task cannot be read", "agent", agent, "err", err)
	}
	return text
}

// hasSuccessor reports whether the team of a task of an agent names successors.
func (s *Server) hasSuccessor(ctx context.Context, agent hub.AgentID) bool {
	has, err := s.continuations.HasSuccessor(ctx, agent)
	if err != nil {
		s.log.Warn("the successors of an agent cannot be read", "agent", agent, "err", err)
	}
	return has
}

// hasTasks reports whether an agent owns a task or was offered one.
func (s *Server) hasTasks(ctx context.Context, agent hub.AgentID) bool {
	has, err := hub.Read(ctx, s.store, func(rd hub.Reader) (bool, error) {
		open, err := rd.Handoffs(hub.HandoffQuery{To: agent, States: hub.ActiveHandoffs, Limit: 1})
		if err != nil || len(open) > 0 {
			return true, err
		}
		tasks, err := rd.Teamspaces().Tasks(hub.TaskQuery{Owner: agent, States: []hub.TaskState{hub.TaskAssigned, hub.TaskInProgress, hub.TaskRework}, Limit: 1})
		return len(tasks) > 0, err
	})
	return err != nil || has
}
