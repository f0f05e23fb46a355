package handoff

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Limits of the search for other tasks in a worktree.
const (
	maxOwned   = 500  // the newest handoffs to the owner
	maxActive  = 1000 // handoffs and runs that are not over
	maxRecents = 200  // the newest handoffs and runs of all agents, of which some have ended
)

// A setting is what the store knows about the worktree of a task.
type setting struct {
	accepted hub.WorkState // when the task was accepted
	since    hub.WorkState // with which the work is compared
	known    bool          // there are such states
	path     string        // of the worktree
	commits  []string      // of the owner's other tasks in the repository
	tasks    []hub.ShortID // those tasks, in the same order
	base     hub.ShortID   // the handoff of the owner whose completion since is; empty if it is the acceptance of the task
	same     hub.ShortID   // the handoff whose change did this task, too

	visible map[string]string // digests of what can be seen in the files of the package, as they came; by path

	credits   []hub.Credit    // other agents that worked there in the same time
	elsewhere []hub.OtherTask // of other agents in other worktrees of the repository, in the same time
}

// taskWith returns the other task of the owner that has the change that was refused; "" if none is known.
func (x setting) taskWith(c *hub.WorkChange) hub.ShortID {
	if c == nil || c.Before == 0 {
		return x.base
	}
	for _, commit := range c.Known {
		if at := slices.Index(x.commits, commit); at >= 0 {
			return x.tasks[at]
		}
	}
	return ""
}

// others returns the agents that worked there in the same time.
func (x setting) others() (names []hub.AgentID) {
	for _, c := range x.credits {
		names = append(names, c.Agent)
	}
	return names
}

// readSetting finds the state with which the work of a task is compared, and the other
// agents in its worktree.
func readSetting(r hub.Reader, op string, h hub.Handoff, same hub.HandoffID) (setting, error) {
	x, err := readBase(r, op, h, same)
	if err == nil && x.known {
		err = x.readOthers(r, h)
	}
	return x, err
}

// readBase finds the state with which the work of a task is compared.
//
// A change counts for one task: the state is the newest one of the acceptance of the task
// and of the completions of the owner's other tasks there. With same it is the state before
// the completion of that task. The commits of those completions count as from before, also
// those in other worktrees of the repository.
func readBase(r hub.Reader, op string, h hub.Handoff, same hub.HandoffID) (x setting, err error) {
	steps, err := readSteps(r, h.ID)
	if err != nil {
		return x, err
	}
	x.visible = visibleFiles(steps)
	if x.accepted, x.known = acceptedState(steps); !x.known {
		return x, nil
	}

	x.since, x.path = x.accepted, x.accepted.Path
	done, err := completions(r, h, x.accepted)
	if err != nil {
		return x, err
	}

	if same != "" {
		if x.same, err = r.ShortID(string(same)); err != nil {
			return x, err
		}
		at := slices.IndexFunc(done, func(d completion) bool { return d.handoff.ID == same })
		if at < 0 || done[at].proof != hub.ProofVerified {
			return x, hub.Errorf(hub.CodeConflict, op, "same_change_as: %s is not one of your tasks in this repository verified since you accepted this one", x.same).
				WithHint("{handoff.list} lists yours")
		}
		done = done[:at]
	}

	// The work is compared with the last completion in the same worktree, if there is one.
	for _, d := range done {
		short, err := r.ShortID(string(d.handoff.ID))
		if err != nil {
			return x, err
		}
		x.commits = append(x.commits, d.state.Commit)
		x.tasks = append(x.tasks, short)
		if d.state.Path == x.path {
			x.since = d.state
			x.base = short
		}
	}
	return x, nil
}

// visibleFiles returns the digests of what could be seen in the files of a package when they were checked
// for the first time.
func visibleFiles(steps []hub.HandoffStep) map[string]string {
	out := map[string]string{}
	for _, step := range steps {
		for _, c := range step.Checks {
			_, isKnown := out[c.Compared.Path]
			if c.Compared.Visible != "" && !isKnown {
				out[c.Compared.Path] = c.Compared.Visible
			}
		}
	}
	return out
}

// A completion is the end of a task in a worktree.
type completion struct {
	handoff hub.Handoff
	state   hub.WorkState
	proof   hub.Proof
}

// completions returns the other tasks that the owner of h completed in the repository of a
// state since it accepted h, the newest last.
func completions(r hub.Reader, h hub.Handoff, in hub.WorkState) (done []completion, err error) {
	owned, err := r.Handoffs(hub.HandoffQuery{To: h.To, Limit: maxOwned})
	if err != nil {
		return nil, err
	}
	for _, other := range owned {
		if other.ID == h.ID || other.Ending != hub.EndedDone || other.ResolvedAt.Before(h.AcceptedAt.Time) {
			continue
		}
		steps, err := readSteps(r, other.ID)
		if err != nil {
			return nil, err
		}
		p := proofOf(other, lastChecks(steps))
		if p.Change == nil || p.Change.Now.Tree == "" {
			continue
		}
		if now := p.Change.Now; now.Path == in.Path || (in.Repository != "" && now.Repository == in.Repository) {
			done = append(done, completion{other, now, p.Proof})
		}
	}
	slices.SortStableFunc(done, func(a, b completion) int { return a.handoff.ResolvedAt.Compare(b.handoff.ResolvedAt.Time) })
	return done, nil
}

// readOthers finds the agents other than the owner of h that have a handoff or a run in the
// worktree, or had one since h was accepted, and their handoffs in other worktrees.
func (x *setting) readOthers(r hub.Reader, h hub.Handoff) error {
	if err := x.readHandoffs(r, h); err != nil {
		return err
	}
	return x.readRuns(r, h)
}

// readHandoffs adds the handoffs of other agents that are open, or ended since h was
// accepted.
func (x *setting) readHandoffs(r hub.Reader, h hub.Handoff) error {
	states := []hub.HandoffState{hub.HandoffAccepted, hub.HandoffActivated}
	open, err := r.Handoffs(hub.HandoffQuery{States: states, Limit: maxActive})
	if err != nil {
		return err
	}
	recent, err := r.Handoffs(hub.HandoffQuery{Limit: maxRecents})
	if err != nil {
		return err
	}

	seen := map[hub.HandoffID]bool{}
	for _, other := range append(open, recent...) {
		over := !other.ResolvedAt.IsZero() && other.ResolvedAt.Before(h.AcceptedAt.Time)
		isUnrelated := other.To == h.To || other.AcceptedAt.IsZero() || over
		if isUnrelated || seen[other.ID] {
			continue
		}
		seen[other.ID] = true
		if err := x.addOther(r, other); err != nil {
			return err
		}
	}
	return nil
}

// readRuns credits the other agents whose runs in the worktree are open, or ended since h
// was accepted.
func (x *setting) readRuns(r hub.Reader, h hub.Handoff) error {
	open, err := r.Runs(hub.RunQuery{Open: true, Limit: maxActive})
	if err != nil {
		return err
	}
	recent, err := r.Runs(hub.RunQuery{Limit: maxRecents})
	if err != nil {
		return err
	}

	for _, run := range append(open, recent...) {
		over := !run.EndedAt.IsZero() && run.EndedAt.Before(h.AcceptedAt.Time)
		ofTask := run.Agent == h.To || run.By == h.To || run.Handoff == h.ID
		rel, err := filepath.Rel(x.path, run.Dir)
		here := err == nil && filepath.IsLocal(rel)
		if here && !over && !ofTask {
			x.credit(run.Agent, "run "+string(run.ID))
		}
	}
	return nil
}

// addOther notes a handoff of another agent, if it is in the repository.
func (x *setting) addOther(r hub.Reader, other hub.Handoff) error {
	steps, err := readSteps(r, other.ID)
	if err != nil {
		return err
	}
	state, ok := acceptedState(steps)
	here := state.Path == x.path
	beside := state.Repository != "" && state.Repository == x.accepted.Repository
	if !ok || (!here && !beside) {
		return nil
	}
	short, err := r.ShortID(string(other.ID))
	if err != nil {
		return err
	}
	name := "handoff " + cmp.Or(string(short), string(other.ID))
	if here {
		x.credit(other.To, name)
		return nil
	}
	task := hub.OtherTask{Agent: other.To, Name: name, Path: state.Path}
	if done := proofOf(other, lastChecks(steps)).Change; done != nil {
		task.Commit = done.Now.Commit
	}
	x.elsewhere = append(x.elsewhere, task)
	return nil
}

// credit notes once that another agent worked in the worktree.
func (x *setting) credit(agent hub.AgentID, why string) {
	if !slices.ContainsFunc(x.credits, func(c hub.Credit) bool { return c.Agent == agent }) {
		x.credits = append(x.credits, hub.Credit{Agent: agent, Why: why})
	}
}

// agentsAmong returns the agents of the hub that have the name of an author, written as
// "name <address>": as the name, the address, or the part of the address before the @.
func (s *Service) agentsAmong(ctx context.Context, authors []string) (found []hub.AgentID, err error) {
	err = s.store.View(ctx, func(r hub.Reader) error {
		found = nil
		for _, author := range authors {
			name, address, _ := strings.Cut(strings.TrimSuffix(author, ">"), " <")
			local, _, _ := strings.Cut(address, "@")
			for _, word := range []string{name, address, local} {
				a, err := r.Agent(hub.AgentID(strings.ToLower(word)))
				switch {
				case hub.CodeOf(err) == hub.CodeNotFound:
					continue
				case err != nil:
					return err
				}
				if !slices.Contains(found, a.ID) {
					found = append(found, a.ID)
				}
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("handoff: find the authors: %w", err)
	}
	return found, nil
}
