package event

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// Bounds of the work that is searched for the owner of an event, of landings, handoffs and runs
// each, newest first.
const (
	maxOpen = 200 // that is not over
	maxOver = 50  // of all
)

// remotesTime is the most time to read the remotes of all folders for an event.
const remotesTime = 2 * time.Second

// An ownership is the agent whose work an event is about. agent is "" if the hub knows none.
type ownership struct {
	agent    hub.AgentID
	byCommit bool // the commit is known as the agent's
}

// owner returns the agent whose work an event is about. A task that a member names comes first;
// then the commit, which is unique, then the branch, and at last the repository with a contract. A
// branch on which several agents work has no owner. remotes are the addresses of the repositories of
// folders, as Service.remotes returns them.
func (s *Service) owner(rd hub.Reader, e hub.Event, member bool, remotes map[string][]string) (ownership, error) {
	if member && e.Task != "" {
		agent, err := taskOwner(rd, e.Task)
		if err != nil || agent != "" {
			return ownership{agent: agent}, err
		}
	}
	if e.Commit == "" && e.Branch == "" {
		return s.repositoryOwner(rd, e)
	}

	all, err := readWork(rd)
	if err != nil {
		return ownership{}, err
	}
	if agent := all.byCommit(e.Commit); agent != "" {
		return ownership{agent, true}, nil
	}
	if agent := all.byBranch(e, remotes); agent != "" {
		return ownership{agent: agent}, nil
	}
	agent, err := completedBy(rd, e.Commit)
	if err != nil || agent != "" {
		return ownership{agent, true}, err
	}
	return s.repositoryOwner(rd, e)
}

// taskOwner returns the owner of a task, of a handoff or a team; "" if there is none.
func taskOwner(rd hub.Reader, task string) (hub.AgentID, error) {
	handoffs, err := rd.Handoffs(hub.HandoffQuery{Task: task, Owned: true, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(handoffs) > 0 {
		return handoffs[0].To, nil
	}
	if !hub.TaskID(task).Valid() {
		return "", nil
	}
	t, err := rd.Teamspaces().Task(hub.TaskID(task))
	if hub.CodeOf(err) == hub.CodeNotFound {
		return "", nil
	}
	return t.Owner, err
}

// A work is a landing, a handoff or a run of an agent.
type work struct {
	agent   hub.AgentID
	folder  string // "" if it is not known
	branch  string // "" if it is not known
	commits []string
	isOver  bool
}

// A workList has the work that events can be about: landings first, then handoffs, then runs.
type workList []work

// readWork reads the work of agents.
func readWork(rd hub.Reader) (out workList, err error) {
	open := append(slices.Clone(hub.OpenLandings), hub.EntryReturned) // a new commit queues a returned one again
	for _, q := range []hub.LandingQuery{{States: open, Newest: true, Limit: maxOpen}, {Newest: true, Limit: maxOver}} {
		landings, err := rd.Landings().Entries(q)
		if err != nil {
			return nil, err
		}
		for _, l := range landings {
			out = append(out, work{
				agent: l.Owner, folder: l.Repository, branch: branchName(l.Branch),
				commits: []string{l.Commit, l.Merged, l.LandedCommit}, isOver: !slices.Contains(open, l.State),
			})
		}
	}

	handoffs, err := rd.Handoffs(hub.HandoffQuery{States: []hub.HandoffState{hub.HandoffActivated}, Limit: maxOpen})
	if err != nil {
		return nil, err
	}
	for _, h := range handoffs {
		folder, branch := placeOf(h)
		out = append(out, work{agent: h.To, folder: folder, branch: branch})
	}

	runs, err := rd.Runs(hub.RunQuery{Limit: maxOver})
	for _, r := range runs {
		if after, ok := endOf(r); ok {
			out = append(out, work{agent: r.Agent, folder: r.Dir, branch: after.Branch, commits: []string{after.Commit}, isOver: true})
		}
	}
	return out, err
}

// byCommit returns the owner of the landing or the agent of the run that has a commit.
func (l workList) byCommit(commit string) hub.AgentID {
	if commit == "" {
		return ""
	}
	i := slices.IndexFunc(l, func(w work) bool { return slices.Contains(w.commits, commit) })
	if i < 0 {
		return ""
	}
	return l[i].agent
}

// byBranch returns the only agent that works on the branch of an event: by a landing that is not
// over or a handoff that it owns, else by work that is over. "" if there is none, or several.
func (l workList) byBranch(e hub.Event, remotes map[string][]string) hub.AgentID {
	if e.Branch == "" {
		return ""
	}
	for _, isOver := range []bool{false, true} {
		var found []hub.AgentID
		for _, w := range l {
			isOn := w.isOver == isOver && w.branch == e.Branch
			if isOn && !isElsewhere(remotes[w.folder], e.Repository) {
				found = append(found, w.agent)
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
		if len(found) == 1 {
			return found[0]
		}
		if len(found) > 1 {
			return ""
		}
	}
	return ""
}

// isElsewhere reports whether a folder with such remotes is not of a repository. One whose remotes
// are not known may be.
func isElsewhere(remotes []string, repository string) bool {
	isSame := func(address string) bool { return sameRepository(address, repository) }
	return repository != "" && len(remotes) > 0 && !slices.ContainsFunc(remotes, isSame)
}

// remotes returns the addresses of the remotes of the folders in which agents work on the branch of
// an event. It is called before the transaction, because it reads files. Those that cannot be read
// within remotesTime are not known: the vendor waits for an answer, and agents name the folders.
func (s *Service) remotes(ctx context.Context, e hub.Event) (map[string][]string, error) {
	if s.o.Remotes == nil || e.Branch == "" || e.Repository == "" {
		return nil, nil
	}
	all, err := hub.Read(ctx, s.store, func(rd hub.Reader) (workList, error) { return readWork(rd) })
	if err != nil {
		return nil, fmt.Errorf("event: read work: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, remotesTime)
	defer cancel()
	out := map[string][]string{}
	for _, w := range all {
		if _, isKnown := out[w.folder]; w.branch == e.Branch && w.folder != "" && !isKnown {
			out[w.folder] = s.o.Remotes(ctx, w.folder)
		}
	}
	return out, nil
}

// branchName returns the name of a branch without the beginning of its ref.
func branchName(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// placeOf returns the folder and the branch that the package of a handoff names.
func placeOf(h hub.Handoff) (folder, branch string) {
	var p struct {
		Work struct {
			Branch string `json:"branch"`
			Folder string `json:"worktree_path"`
		} `json:"work_state"`
	}
	json.Unmarshal(h.Package, &p) // the hub checked it when it came; one without a branch has none
	return p.Work.Folder, branchName(p.Work.Branch)
}

// A moment is the state of the folder of a run at a time.
type moment struct {
	Commit string `json:"commit"`
	Branch string `json:"branch"`
	Dirty  bool   `json:"dirty"`
}

// endOf returns the state of the folder after a run. It reports false for a run that changed nothing,
// and for one whose evidence is the word of its own agent: that could claim the work of others.
func endOf(r hub.Run) (after moment, ok bool) {
	var p struct {
		Before moment `json:"before"`
		After  moment `json:"after"`
	}
	if !r.Verdict.Known() || json.Unmarshal(r.Evidence, &p) != nil {
		return moment{}, false
	}
	return p.After, p.After.Commit != p.Before.Commit || p.After.Dirty
}

// completedBy returns the agent that completed a handoff with a commit.
func completedBy(rd hub.Reader, commit string) (hub.AgentID, error) {
	if commit == "" {
		return "", nil
	}
	handoffs, err := rd.Handoffs(hub.HandoffQuery{Owned: true, Limit: maxOver})
	if err != nil {
		return "", err
	}
	for _, h := range handoffs {
		if h.Ending != hub.EndedDone {
			continue
		}
		steps, err := rd.HandoffSteps(h.ID)
		if err != nil {
			return "", err
		}
		for _, step := range steps {
			for _, c := range step.Checks {
				if c.Change != nil && c.Change.Now.Commit == commit {
					return h.To, nil
				}
			}
		}
	}
	return "", nil
}

// maxProjects is the most projects whose repositories are searched.
const maxProjects = 100

// repositoryOwner returns the agent of this hub that speaks for the repository of an event in a
// project with contracts; an empty ownership if there is none, or if there are several.
func (s *Service) repositoryOwner(rd hub.Reader, e hub.Event) (ownership, error) {
	if e.Repository == "" || s.o.AID == nil {
		return ownership{}, nil
	}
	projects, err := rd.Coordination().Projects("", maxProjects)
	if err != nil {
		return ownership{}, err
	}
	var found []string
	for _, p := range projects {
		for _, r := range p.Repos {
			isSame := r.Name == e.Repository || sameRepository(r.URL, e.Repository)
			if isSame && r.Agent != "" {
				found = append(found, string(r.Agent))
			}
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		return ownership{}, nil
	}

	agents, err := rd.Agents()
	for _, a := range agents {
		isAgent := a.ID != hub.Operator && a.ID != hub.Self
		if isAgent && string(s.o.AID(a.ID)) == found[0] {
			return ownership{agent: a.ID}, nil
		}
	}
	return ownership{}, err
}

// sameRepository reports whether an address such as https://example.com/acme/shop.git or
// git@example.com:acme/shop.git is that of a repository such as acme/shop.
func sameRepository(address, repository string) bool {
	address = strings.TrimSuffix(strings.TrimSuffix(address, "/"), ".git")
	rest, ok := strings.CutSuffix(strings.ToLower(address), strings.ToLower(repository))
	return ok && (strings.HasSuffix(rest, "/") || strings.HasSuffix(rest, ":"))
}
