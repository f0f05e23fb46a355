package initrepo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/checkfile"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// timeout is the time limit of a check that init adds.
const timeout = 10 * time.Minute

// Wishes are the choices of the person. The zero value takes all that was found.
type Wishes struct {
	Checks    []Check // instead of those that were found; see NoChecks
	NoChecks  bool
	Into      string // branch to land in, default the one that is checked out
	NoLanding bool
	NoGuard   bool
}

// A Hook is the pre-commit hook of a repository, as the guard sees it.
type Hook interface {
	State() (installed bool, problem string)
	Install() (changed bool, err error)
	Remove() (changed bool, err error)
}

// A Plan has a line for each part of a set-up.
type Plan struct {
	Repository Repository `json:"repository"`
	Hub        string     `json:"hub,omitempty"` // home in which a hub is started
	Folder     Step       `json:"folder"`
	Checks     []Step     `json:"checks"`
	Landing    Step       `json:"landing"`
	Guard      Step       `json:"guard"`
	Agents     []string   `json:"agents"` // CLIs that are installed

	// Proposed and Tests are all that parley.yaml proposes, if its checks are to be trusted.
	Proposed []hub.RepositoryCheck `json:"proposed,omitempty"`
	Tests    checkfile.Tests       `json:"contract_tests,omitempty"`

	checks  []Check // those of Checks
	trusted bool    // the checks come from the repository's own file
	digest  string  // of that file, as the plan shows it
	into    string
	hook    Hook
}

// A Step is one part of a plan.
type Step struct {
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
	Text  string `json:"text"` // for people
}

// A State says what happens to a part.
type State string

// The states.
const (
	New   State = "new"   // it will be set up
	There State = "there" // it was set up before
	Added State = "added" // this run set it up
	Off   State = "off"   // it is not wanted, or cannot be; the text says why
)

// IsIdle reports whether there is nothing to do.
func (p Plan) IsIdle() bool { return p.Hub == "" && p.IsDone() }

// IsDone reports whether no part is still to be set up.
func (p Plan) IsDone() bool {
	steps := append([]Step{p.Folder, p.Landing, p.Guard}, p.Checks...)
	return !slices.ContainsFunc(steps, func(s Step) bool { return s.State == New })
}

// Prepare plans the set-up of a repository. c is nil while no hub runs: then everything is new.
func Prepare(ctx context.Context, c *rpc.Client, r Repository, w Wishes, hook Hook) (Plan, error) {
	p := Plan{Repository: r, Checks: []Step{}, Agents: []string{}, hook: hook}
	p.Folder = Step{State: New, Text: "agents may work here and in its worktrees"}
	var policy *api.LandingAnswer
	if c != nil {
		isRoot, err := hasRoot(ctx, c, r.Path)
		if err != nil {
			return p, err
		}
		if isRoot {
			p.Folder.State = There
			if err := p.knownChecks(ctx, c); err != nil {
				return p, err
			}
			if policy, err = landingOf(ctx, c, r.Path); err != nil {
				return p, err
			}
		}
	}
	if len(p.Checks) == 0 {
		p.newChecks(ctx, w)
	}
	p.planLanding(w, policy)
	p.planGuard(w)
	return p, nil
}

// hasRoot reports whether the hub may read a folder.
func hasRoot(ctx context.Context, c *rpc.Client, path string) (bool, error) {
	list, err := rpc.Call(ctx, c, api.ListRoots, api.None{})
	return slices.ContainsFunc(list.Roots, func(r hub.Root) bool {
		rel, err := filepath.Rel(r.Path, path)
		return err == nil && filepath.IsLocal(rel)
	}), err
}

// knownChecks plans the checks that the hub has for the repository already.
func (p *Plan) knownChecks(ctx context.Context, c *rpc.Client) error {
	got, err := rpc.Call(ctx, c, api.ListChecks, api.RepositoryParams{Repository: p.Repository.Path})
	if err != nil {
		return err
	}
	for _, one := range got.Checks {
		p.Checks = append(p.Checks, Step{Name: one.Name, State: There, Text: one.CommandText()})
		p.checks = append(p.checks, Check{Name: one.Name, Command: one.Command})
	}
	return nil
}

// landingOf returns the landing policy of a repository, or nil.
func landingOf(ctx context.Context, c *rpc.Client, path string) (*api.LandingAnswer, error) {
	got, err := rpc.Call(ctx, c, api.ShowLanding, api.LandingParams{Repo: path})
	switch hub.CodeOf(err) {
	case "":
		return &got, nil
	case hub.CodeNotFound:
		return nil, nil
	}
	return nil, err
}

// newChecks plans the checks that were found, or those that the person gave.
func (p *Plan) newChecks(ctx context.Context, w Wishes) {
	switch {
	case w.NoChecks:
	case len(w.Checks) > 0:
		p.checks = w.Checks
	default:
		p.checks = p.Repository.Checks(ctx)
	}
	if slices.ContainsFunc(p.checks, func(c Check) bool { return c.proposed }) {
		file := p.Repository.proposed(ctx)
		p.Proposed = file.Checks.Of(hub.Repository{Path: p.Repository.Path})
		p.Tests = file.ContractTests
		p.digest = file.Digest()
	}
	for _, c := range p.checks {
		p.trusted = p.trusted || c.proposed
		line := hub.CommandText(c.Command)
		if len(c.Setup) > 0 {
			line += ", after " + hub.CommandText(c.Setup)
		}
		text := fmt.Sprintf("%s   (%s)   required, 10 minutes", line, c.Source)
		if c.proposed {
			text = fmt.Sprintf("%s   (%s)", line, c.Source)
		}
		p.Checks = append(p.Checks, Step{Name: c.Name, State: New, Text: text})
	}
}

// planLanding plans the landing policy. A branch gets one only if there is a check to ask.
func (p *Plan) planLanding(w Wishes, policy *api.LandingAnswer) {
	p.into = w.Into
	if p.into == "" {
		p.into = p.Repository.Branch
	}
	switch {
	case policy != nil:
		p.Landing = Step{Name: policy.Landing.Into, State: There, Text: "into " + policy.Landing.Into}
	case w.NoLanding:
		p.Landing = Step{State: Off, Text: "not wanted"}
	case p.Repository.Commit == "":
		p.Landing = Step{State: Off, Text: "there is no commit yet"}
	case p.into == "":
		p.Landing = Step{State: Off, Text: "no branch is checked out; name one with --into"}
	case len(p.checks) == 0:
		p.Landing = Step{State: Off, Text: "no test command was found; name it with --check"}
	default:
		named := strings.Join(names(p.checks), ", ")
		verb := "passes"
		if len(p.checks) > 1 {
			verb = "pass"
		}
		p.Landing = Step{Name: p.into, State: New, Text: fmt.Sprintf("into %s when %s %s and you approve", p.into, named, verb)}
	}
}

// planGuard plans the pre-commit hook.
func (p *Plan) planGuard(w Wishes) {
	installed, problem := p.hook.State()
	switch {
	case installed:
		p.Guard = Step{State: There, Text: "commits of agents are checked; yours never"}
	case w.NoGuard:
		p.Guard = Step{State: Off, Text: "not wanted"}
	case problem != "":
		p.Guard = Step{State: Off, Text: problem}
	default:
		p.Guard = Step{State: New, Text: "commits of agents are checked; yours never"}
	}
}

// Apply carries the plan out and writes what it added to the record of a home. progress gets a
// line before each step that takes long. Landing is set only after every check passed on the
// commit of now.
func (p *Plan) Apply(ctx context.Context, c *rpc.Client, home string, progress func(string)) (err error) {
	done := entry{Repository: p.Repository.Path}
	defer func() { err = errors.Join(err, note(home, done)) }()

	if p.Folder.State == New {
		isRoot, err := hasRoot(ctx, c, p.Repository.Path)
		if err != nil {
			return err
		}
		p.Folder.State = There
		if !isRoot {
			if _, err := rpc.Call(ctx, c, api.AddRoot, api.RootParams{Path: p.Repository.Path}); err != nil {
				return err
			}
			p.Folder.State = Added
			done.Root = true
		}
	}
	if err := p.addChecks(ctx, c, &done); err != nil {
		return err
	}
	if p.Guard.State == New {
		changed, err := p.hook.Install()
		if err != nil {
			return err
		}
		p.Guard.State = Added
		done.Guard = changed
	}
	if p.Landing.State == New {
		return p.setLanding(ctx, c, &done, progress)
	}
	return nil
}

// addChecks adds the planned checks, or trusts those of the repository's own file.
func (p *Plan) addChecks(ctx context.Context, c *rpc.Client, done *entry) error {
	at := api.RepositoryParams{Repository: p.Repository.Path}
	isNew := slices.ContainsFunc(p.Checks, func(s Step) bool { return s.State == New })
	if isNew && p.trusted {
		// The hub refuses a file that is not the one in the plan.
		if _, err := rpc.Call(ctx, c, api.TrustChecks, api.TrustParams{RepositoryParams: at, Digest: p.digest}); err != nil {
			return err
		}
	}
	for i, s := range p.Checks {
		if s.State != New {
			continue
		}
		one := p.checks[i]
		if !p.trusted {
			params := api.AddCheckParams{
				RepositoryParams: at, Name: one.Name, Command: one.Command, Setup: one.Setup, SetupKey: one.setupKey, Keep: one.keep,
				Timeout: timeout.String(), Required: true,
			}
			if _, err := rpc.Call(ctx, c, api.AddCheck, params); err != nil {
				return err
			}
		}
		p.Checks[i].State = Added
		done.Checks = append(done.Checks, one.Name)
	}
	return nil
}

// setLanding runs the checks on the commit of now and sets the landing policy if all pass.
func (p *Plan) setLanding(ctx context.Context, c *rpc.Client, done *entry, progress func(string)) error {
	for _, one := range p.checks {
		progress(fmt.Sprintf("running %s on %s ...", hub.CommandText(one.Command), p.into))
		result, err := run(ctx, c, p.Repository, one.Name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			p.Landing = Step{State: Off, Text: fmt.Sprintf("%s could not run on %.7s: %v", one.Name, p.Repository.Commit, err)}
			return nil
		case result.State != hub.ResultPassed:
			word := strings.ReplaceAll(string(result.State), "_", " ")
			p.Landing = Step{State: Off, Text: fmt.Sprintf("%s %s on %.7s (%s); when it passes, run parley init again", one.Name, word, result.Commit, result.ID)}
			return nil
		}
	}
	set := api.LandingParams{Repo: p.Repository.Path, Into: p.into, Checks: names(p.checks), By: hub.LandingOperator}
	if _, err := rpc.Call(ctx, c, api.SetLanding, set); err != nil {
		return err
	}
	p.Landing.State = Added
	done.Landing = p.into
	return nil
}

// run runs a check on the commit of a repository and waits for its end.
func run(ctx context.Context, c *rpc.Client, r Repository, name string) (hub.CheckResult, error) {
	got, err := rpc.Call(ctx, c, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: api.RepositoryParams{Repository: r.Path}, Name: name}, Commit: r.Commit})
	if err != nil {
		return hub.CheckResult{}, err
	}
	for !got.Result.State.Over() {
		if got, err = rpc.Call(ctx, c, api.ShowResult, api.ResultParams{ID: got.Result.ID}); err != nil {
			return hub.CheckResult{}, err
		}
	}
	return got.Result, nil
}
