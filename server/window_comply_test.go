package server_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/desk/window"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/goodagent"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/proof"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/comply"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// asGoodAgent in the environment makes the test binary an agent that does what prompts say, and
// keeps every rule of the protocol.
const asGoodAgent = "SERVER_TEST_AS_GOOD_AGENT"

// beGoodAgent is that agent.
func beGoodAgent() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := goodagent.Serve(ctx, nil, os.Environ(), os.Stdin, os.Stdout, os.Stderr); err != nil && ctx.Err() == nil {
		os.Exit(1)
	}
}

// TestWindowComplies runs our own compliance tests of agents with a window, while mail starts
// turns of the same kept agent beside them. The window must break no rule, and no turn of the
// mail may be lost. TestWindows has the race detector look at windows; make test-real has it look at
// these tests, too.
func TestWindowComplies(t *testing.T) {
	patience.NotUnderRace(t)
	if testing.Short() {
		t.Skip("starts processes")
	}
	w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: 1, PerHour: 1000, PairPerHour: 1000}}, "planner")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	w.keepSelf("builder", func(p *api.KeepParams) {
		p.Command = []string{env, asGoodAgent + "=1", self}
		p.Policy = sandbox.PolicyAsk
	})
	key := w.key("builder", "")

	// Mail starts a turn while each test begins, unless the last such turn still runs.
	ctx, enough := context.WithCancel(t.Context())
	turns := new(atomic.Int32)
	mailed := make(chan error, 1)
	begun := make(chan struct{}, 1)
	go func() { mailed <- w.mailOn(ctx, begun, turns) }()
	progress := func(e comply.Event) {
		if e.Result != nil {
			return
		}
		select {
		case begun <- struct{}{}:
		default:
		}
	}

	agent := comply.Agent{Name: "window", Serve: func(ctx context.Context, s *comply.Stdio) error {
		return window.Serve(ctx, w.socket(key), window.Options{Agent: "builder", Version: "test"}, s.In, s.Out)
	}}
	report, err := comply.Run(t.Context(), []comply.Agent{agent}, windowTests(t), &comply.Options{Jobs: 4, TimeoutScale: 3, Progress: progress})
	enough()
	if failed := <-mailed; failed != nil {
		t.Error(failed)
	}
	if err != nil {
		t.Fatal(err)
	}

	for _, f := range report.Index() {
		if f.Level == comply.Must || f.Level == comply.Should {
			t.Errorf("%s in %v: want %s, got %s", f.Rule, f.Tests, f.Expected, f.Actual)
		}
	}
	totals := report.Agents[0].Totals
	t.Logf("%v, and %d turns of mail", totals, turns.Load())
	if report.Failed() || totals[comply.Pass] < 15 {
		t.Errorf("the run failed: %v, %v", report.Failed(), totals)
	}
	if turns.Load() < 2 {
		t.Errorf("mail started %d turns beside the tests, want at least 2", turns.Load())
	}
}

// windowTests returns the tests in which prompts, questions and sessions of a window meet the
// turns of others. Those that need a fixture of their own are left out, and so is session.list:
// tests that run at the same time share the list of the agent.
func windowTests(t *testing.T) []*comply.Test {
	t.Helper()
	suite, err := comply.Suite()
	if err != nil {
		t.Fatal(err)
	}
	begins := []string{"required.", "session.load", "session.many", "session.close", "prompt.text", "prompt.cancel", "prompt.parallel", "prompt.stop", "permission.", "tool.order", "update.session", "rpc.ids"}
	return slices.DeleteFunc(proof.Applicable(suite, 1), func(x *comply.Test) bool {
		return !slices.ContainsFunc(begins, func(begin string) bool { return strings.HasPrefix(x.ID, begin) })
	})
}

// mailOn sends builder a message for each value, and waits until the turn that it started has
// ended, until ctx ends. It counts the turns.
func (w *wakeHub) mailOn(ctx context.Context, begun <-chan struct{}, turns *atomic.Int32) error {
	operator := w.socket(w.secret)
	planner := w.as(w.keys["planner"])
	for after := int64(0); ; {
		select {
		case <-begun:
		case <-ctx.Done():
			return nil
		}
		if _, err := rpc.Call(ctx, planner, api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "go on"}); err != nil && ctx.Err() == nil {
			return err
		}
		for ended := false; !ended && ctx.Err() == nil; {
			got, err := rpc.Call(ctx, operator, api.FollowSession, api.SessionEventsParams{Agent: "builder", After: after, WaitS: 5})
			if err != nil && ctx.Err() == nil {
				return err
			}
			for _, e := range got.Events {
				after = e.N
				if e.Kind == keeper.EventEnd {
					ended = true
					turns.Add(1)
				}
			}
		}
	}
}
