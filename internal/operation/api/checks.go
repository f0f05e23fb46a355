package api

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/check"
)

// RepositoryParams name a repository by a folder in it.
type RepositoryParams struct {
	Repository string `json:"repo,omitempty"` // an absolute path
}

// folder returns the folder, which must be an absolute path.
func (p RepositoryParams) folder(op string) (string, error) {
	if !filepath.IsAbs(p.Repository) {
		return "", hub.Errorf(hub.CodeInvalid, op, "repo must be the absolute path of a folder in the repository, got %.200q", p.Repository)
	}
	return filepath.Clean(p.Repository), nil
}

// AddCheckParams are the parameters of parley/check/add.
type AddCheckParams struct {
	RepositoryParams
	Name       string            `json:"name"`
	Command    []string          `json:"command"`
	Setup      []string          `json:"setup,omitempty"`
	SetupKey   []string          `json:"setup_key,omitempty"`
	Keep       []string          `json:"keep,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Writable   []string          `json:"writable,omitempty"`
	Timeout    string            `json:"timeout,omitempty"` // a duration such as 10m
	Network    *bool             `json:"network,omitempty"`
	JUnit      string            `json:"junit,omitempty"`
	Required   bool              `json:"required,omitempty"`
	When       []string          `json:"when,omitempty"`
	Unconfined bool              `json:"unconfined,omitempty"`
	InPlace    bool              `json:"in_place,omitempty"`
}

// A CheckAnswer has one check.
type CheckAnswer struct {
	Check hub.RepositoryCheck `json:"check"`
}

func checkAdd(ctx context.Context, s *Services, a hub.Caller, p AddCheckParams) (CheckAnswer, error) {
	const op = "parley/check/add"
	folder, err := p.folder(op)
	if err != nil {
		return CheckAnswer{}, err
	}
	c := hub.RepositoryCheck{
		Name: p.Name, Command: p.Command, Setup: p.Setup, SetupKey: p.SetupKey, Keep: p.Keep, Env: p.Env, Writable: p.Writable, Network: p.Network, JUnit: p.JUnit,
		Required: p.Required, When: p.When, Unconfined: p.Unconfined, InPlace: p.InPlace,
	}
	if p.Timeout != "" {
		if err := c.Timeout.UnmarshalText([]byte(p.Timeout)); err != nil || c.Timeout <= 0 {
			return CheckAnswer{}, hub.Errorf(hub.CodeInvalid, op, "timeout must be a duration such as 10m or 90s, got %.50q", p.Timeout)
		}
	}
	c, err = s.Checks.Add(ctx, a, folder, c)
	return CheckAnswer{c}, err
}

func checkList(ctx context.Context, s *Services, _ hub.Caller, p RepositoryParams) (check.Listing, error) {
	if p.Repository == "" {
		return s.Checks.List(ctx, "")
	}
	folder, err := p.folder("parley/check/list")
	if err != nil {
		return check.Listing{}, err
	}
	return s.Checks.List(ctx, folder)
}

// CheckParams name a check of a repository.
type CheckParams struct {
	RepositoryParams
	Name string `json:"name"`
}

func checkShow(ctx context.Context, s *Services, _ hub.Caller, p CheckParams) (check.Shown, error) {
	folder, err := p.folder("parley/check/show")
	if err != nil {
		return check.Shown{}, err
	}
	return s.Checks.Show(ctx, folder, p.Name)
}

func checkRemove(ctx context.Context, s *Services, a hub.Caller, p CheckParams) (check.Listing, error) {
	folder, err := p.folder("parley/check/remove")
	if err != nil {
		return check.Listing{}, err
	}
	return s.Checks.Remove(ctx, a, folder, p.Name)
}

// TrustParams are the parameters of parley/check/trust.
type TrustParams struct {
	RepositoryParams
	Digest string `json:"digest"` // of the checks that the operator read, from parley/check/list
}

func checkTrust(ctx context.Context, s *Services, a hub.Caller, p TrustParams) (check.Listing, error) {
	folder, err := p.folder("parley/check/trust")
	if err != nil {
		return check.Listing{}, err
	}
	return s.Checks.Trust(ctx, a, folder, p.Digest)
}

// RequireParams are the parameters of parley/check/require.
type RequireParams struct {
	RepositoryParams
	Require bool `json:"require"`
}

func checkRequire(ctx context.Context, s *Services, a hub.Caller, p RequireParams) (check.Listing, error) {
	folder, err := p.folder("parley/check/require")
	if err != nil {
		return check.Listing{}, err
	}
	return s.Checks.Require(ctx, a, folder, p.Require)
}

// RunCheckParams are the parameters of parley/check/run.
type RunCheckParams struct {
	CheckParams
	Commit string `json:"commit,omitempty"` // a revision; default the commit that is checked out
	Again  bool   `json:"again,omitempty"`  // run it though there is a kept result

	Contract string `json:"contract,omitempty"` // a version to test, such as User@2: the run finds its content in the file that PARLEY_CONTRACT names
	Version  int    `json:"version,omitempty"`  // of Contract, if that does not name it

	Wait *int `json:"wait_s,omitempty"` // seconds to wait for the result; default 20, at most 100
}

// A ResultAnswer has one result.
type ResultAnswer struct {
	Result hub.CheckResult `json:"result"`
}

// waitOf returns the time that a call waits for results: 20 seconds unless it says otherwise.
func waitOf(op string, seconds *int) (time.Duration, error) {
	if seconds == nil {
		return check.DefaultWait, nil
	}
	d := time.Duration(*seconds) * time.Second
	if d < 0 || d > check.MaxWait {
		return 0, hub.Errorf(hub.CodeInvalid, op, "wait_s must be at most %d, got %d", int(check.MaxWait.Seconds()), *seconds)
	}
	return d, nil
}

// contract returns the version of a contract to test, such as User@2.
func (p RunCheckParams) contract() string {
	if p.Version > 0 {
		return fmt.Sprintf("%s@%d", p.Contract, p.Version)
	}
	return p.Contract
}

func checkRun(ctx context.Context, s *Services, a hub.Caller, p RunCheckParams) (ResultAnswer, error) {
	const op = "parley/check/run"
	folder, err := p.folder(op)
	if err != nil {
		return ResultAnswer{}, err
	}
	wait, err := waitOf(op, p.Wait)
	if err != nil {
		return ResultAnswer{}, err
	}
	r, err := s.Checks.Run(ctx, a, check.Request{Folder: folder, Name: p.Name, Commit: p.Commit, Again: p.Again, Contract: p.contract(), Wait: wait})
	return ResultAnswer{r}, err
}

// ResultParams are the parameters of parley/check/result.
type ResultParams struct {
	ID   hub.CheckResultID `json:"id"`
	Wait *int              `json:"wait_s,omitempty"` // as in RunCheckParams, but 0 by default
}

// checkResult returns a result. Viewers do not get its output, which may quote files.
func checkResult(ctx context.Context, s *Services, a hub.Caller, p ResultParams) (ResultAnswer, error) {
	if p.Wait != nil {
		wait, err := waitOf("parley/check/result", p.Wait)
		if err != nil {
			return ResultAnswer{}, err
		}
		if err := s.Checks.Wait(ctx, []hub.CheckResultID{p.ID}, wait); err != nil && hub.CodeOf(err) != hub.CodeNotFound {
			return ResultAnswer{}, err
		}
	}
	r, err := s.Checks.Result(ctx, p.ID)
	if a.Kind == hub.CallerViewer {
		r.Output.Tail = ""
	}
	return ResultAnswer{r}, err
}

// ResultsParams are the parameters of parley/check/results. Empty members do not restrict.
type ResultsParams struct {
	Repository string            `json:"repository,omitempty"` // as results name it
	Name       string            `json:"name,omitempty"`
	Commit     string            `json:"commit,omitempty"` // the whole id
	Handoff    hub.HandoffID     `json:"handoff_id,omitempty"`
	State      hub.CheckState    `json:"state,omitempty"`
	Cursor     hub.CheckResultID `json:"cursor,omitempty"`
	Limit      strictjson.Count  `json:"limit,omitzero"`
}

func checkResults(ctx context.Context, s *Services, a hub.Caller, p ResultsParams) (check.Page, error) {
	q := hub.CheckResultQuery{Name: p.Name, Commit: p.Commit, Cursor: p.Cursor, Limit: int(p.Limit)}
	q.Repository.Path = p.Repository
	if p.State != "" {
		q.States = []hub.CheckState{p.State}
	}
	if p.Handoff != "" {
		id, err := s.Handoffs.Resolve(ctx, "parley/check/results", a, p.Handoff)
		if err != nil {
			return check.Page{}, err
		}
		q.Handoff = id
	}
	return s.Checks.Results(ctx, q)
}
