package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/work/acpguard"
	"github.com/parley-agents/parley/internal/work/fleet"
	"github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/server"
)

// A runHub is the hub that records runs. It implements run.Hub.
type runHub struct {
	*rpc.Client
	url, home string
}

func (h *runHub) BeginRun(ctx context.Context, r hub.Run, timeout time.Duration) (hub.Run, string, error) {
	begun, err := rpc.Call(ctx, h.Client, api.BeginRun, api.RunParams{
		ID: r.ID, Agent: r.Agent, Task: r.Task, Dir: r.Dir, Handoff: r.Handoff, TimeoutS: int(timeout / time.Second),
	})
	return begun.Run, begun.Key, err
}

func (h *runHub) MoveRun(ctx context.Context, id hub.RunID, next hub.RunState, session string) error {
	_, err := rpc.Call(ctx, h.Client, api.MoveRun, api.RunMoveParams{ID: id, State: next, Session: session})
	return err
}

func (h *runHub) EndRun(ctx context.Context, r hub.Run) (hub.Run, error) {
	return rpc.Call(ctx, h.Client, api.EndRun, api.RunEndParams{ID: r.ID, RunEnding: api.RunEnding{
		State: r.State, StopReason: r.StopReason, Reason: r.Reason, Report: r.Report, Verdict: r.SentVerdict(),
		Contradictions: r.Contradictions, Evidence: r.Evidence,
	}})
}

// RecordUsage records the model calls of a run.
func (h *runHub) RecordUsage(ctx context.Context, r hub.Run, cli string, calls []hub.ModelCall) error {
	_, err := rpc.Call(ctx, h.Client, api.RecordUsage, usage.Report{
		Agent: r.Agent, Source: hub.UsageACP, CLI: cli, Session: r.Session, Run: r.ID, Turn: string(r.ID), Ended: true, Calls: append([]hub.ModelCall{}, calls...),
	})
	return err
}

// Tools returns the hub's tools, with this program as the bridge for agents that
// do not speak HTTP.
func (h *runHub) Tools(key string) *fleet.Tools {
	t := &fleet.Tools{Name: "parley", URL: h.url, Key: key, BridgeEnv: []string{"PARLEY_HOME=" + h.home}}
	if self, err := os.Executable(); err == nil {
		t.Bridge = []string{self, "mcp"}
	}
	return t
}

// checkCommit runs a line as a check of the repository around a folder, on a commit: if it is the
// name of a check that the operator allowed, or the text of its command. Else, and if the hub cannot
// read the repository, ok is false.
func (h *runHub) checkCommit(ctx context.Context, dir, commit, line string) (o run.Outcome, ok bool) {
	repo := api.RepositoryParams{Repository: dir}
	known, err := rpc.Call(ctx, h.Client, api.ListChecks, repo)
	if err != nil {
		return o, false
	}
	isNamed := func(c hub.RepositoryCheck) bool { return c.Name == line }
	isSame := func(c hub.RepositoryCheck) bool { return c.CommandText() == strings.TrimSpace(line) }
	i := slices.IndexFunc(known.Checks, isNamed)
	if i < 0 {
		i = slices.IndexFunc(known.Checks, isSame)
	}
	if i < 0 || known.Checks[i].InPlace {
		return o, false
	}

	wait := int(check.MaxWait.Seconds())
	got, err := rpc.Call(ctx, h.Client, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: repo, Name: known.Checks[i].Name}, Commit: commit, Wait: &wait})
	for err == nil && !got.Result.State.Over() {
		got, err = rpc.Call(ctx, h.Client, api.ShowResult, api.ResultParams{ID: got.Result.ID, Wait: &wait})
	}
	if err != nil {
		return o, false
	}
	return run.OutcomeOf(line, got.Result), true
}

// askFiles returns the function with which the agent of a run asks about files, with the key that
// it is lent.
func (h *runHub) askFiles(_ hub.Run, key string) acpguard.Ask {
	c := clientAt(h.home, h.url, key, "")
	return func(ctx context.Context, q reservation.Question) (reservation.Answer, error) {
		return rpc.Call(ctx, c, api.AskFiles, q)
	}
}

// deniesUnanswered reports whether changes of files in a folder are refused while the hub does not
// answer.
func (s hubSettings) deniesUnanswered(folder string) bool {
	dir, err := filepath.Abs(folder)
	return err == nil && s.ReservationsIn(dir).Unreachable == server.UnreachableDeny
}

func newRunHub(home, url, key string) *runHub {
	return &runHub{Client: clientAt(home, url, key, os.Getenv("PARLEY_SESSION")), url: url, home: home}
}

// hubForRun returns the hub that records a run: the hub that PARLEY_URL names or
// that runs in the home, else one that it starts there and that goes on after the
// run. That hub listens where serve would; if another program listens there, on a
// free port of loopback.
func (a *app) hubForRun(ctx context.Context, home string, c config) (*runHub, error) {
	settings, err := c.settings("addr")
	if err != nil {
		return nil, err
	}
	giveUp := time.Now().Add(startTime)
	for wait := firstWait; ; wait *= 2 {
		h, err := a.runningHub(ctx, home)
		if h != nil || err != nil {
			return h, err
		}
		flags := []string{"--for-runs"}
		if a.config != "" {
			flags = append(flags, "--config", a.config)
		}
		if l, err := net.Listen("tcp", cmp.Or(settings.Addr, server.DefaultAddr)); err == nil {
			l.Close()
		} else {
			flags = append(flags, "--addr", "127.0.0.1:0")
		}
		err = a.detachHub(ctx, home, flags...)
		if err != nil {
			mayTryAgain := hub.CodeOf(err) == hub.CodeConflict && ctx.Err() == nil && !time.Now().After(giveUp)
			if !mayTryAgain {
				return nil, err
			}
			pause(ctx, wait) // another run starts a hub right now
		}
	}
}

const (
	firstWait = 10 * time.Millisecond // before a second attempt; doubled for each further one
	startTime = 10 * time.Second      // for a hub to start and to answer
)

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// runningHub returns the hub that PARLEY_URL names or that runs in the home, nil if
// there is none.
func (a *app) runningHub(ctx context.Context, home string) (*runHub, error) {
	named := strings.TrimSpace(os.Getenv("PARLEY_URL")) != ""
	_, err := os.Stat(filepath.Join(home, server.URLFile)) // a hub that starts has none yet
	if !named && (err != nil || !server.Running(home)) {
		return nil, nil
	}
	url, err := a.hubURL()
	if err != nil {
		return nil, err
	}
	res, err := rpc.NewClient(url, "", "", nil).Do(ctx, "GET", "/health", "", nil)
	if err != nil {
		if named || !errors.Is(err, rpc.ErrUnreachable) {
			return nil, err
		}
		return nil, nil // a hub that was killed leaves its address
	}
	res.Body.Close()
	key := a.key
	if startedForRuns(home, url) {
		key = func() (string, error) { return a.keyInHome(home) }
	}
	secret, err := key()
	if err != nil {
		return nil, err
	}
	return newRunHub(home, url, secret), nil
}

// runURLFile holds the address of a hub that a run started. serve writes it before
// the hub answers, and removes that of a hub before.
const runURLFile = "run.url"

// startedForRuns reports whether the hub in the home was started by a run.
func startedForRuns(home, url string) bool {
	started, err := os.ReadFile(filepath.Join(home, runURLFile))
	return err == nil && string(started) == url
}

// keyInHome returns the key for a hub that a run started: the given one or, because
// the user who starts a hub operates it, the operator's.
func (a *app) keyInHome(home string) (string, error) {
	if cmp.Or(a.keyFile, os.Getenv("PARLEY_KEY"), os.Getenv(launch.Variable)) != "" {
		return a.key()
	}
	return operatorKey(home)
}
