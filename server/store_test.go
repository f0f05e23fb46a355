//go:build unix

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/server"
)

// furtherHub starts a further hub on the database of one that is there.
func furtherHub(t *testing.T, first *running, o server.Options) *running {
	t.Helper()
	o.Home = t.TempDir()
	copyKeys(t, first.home, o.Home)
	return start(t, o)
}

func withStore(o server.Options, address string) server.Options {
	o.Store = address
	return o
}

// TestHubsOnOneDatabase has hubs that share a PostgreSQL database: whichever a client
// calls, it sees the same.
func TestHubsOnOneDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.Address(t)
	o := quiet()
	o.Store = address
	a := start(t, o)
	b := furtherHub(t, a, o)
	keys := a.add(t, "ada", "bob")
	ada, bob := keys[0], keys[1]
	send := func(r *running, text string) hub.EnvelopeID {
		t.Helper()
		return mustCall(t, r.as(ada), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: text}).ID
	}
	t.Run("a reader that waits on one hub gets what is sent through another", func(t *testing.T) {
		type got struct {
			in  mailroom.Inbox
			err error
		}
		answer := make(chan got, 1)
		go func() {
			in, err := rpc.Call(t.Context(), b.as(bob), api.Inbox, api.InboxParams{WaitS: 30})
			answer <- got{in, err}
		}()
		id := send(a, "over there")
		select {
		case g := <-answer:
			if g.err != nil || len(g.in.Messages) != 1 || g.in.Messages[0].ID != id {
				t.Errorf("got %v (%v), want %s", g.in.Messages, g.err, id)
			}
		case <-time.After(patience.For(time.Minute)):
			t.Fatal("the reader was not woken")
		}
		mustCall(t, a.as(bob), api.Inbox, api.InboxParams{Ack: api.AckSet{IDs: []hub.EnvelopeID{id}}})
		if in := mustCall(t, b.as(bob), api.Inbox, api.InboxParams{}); len(in.Messages) != 0 {
			t.Errorf("what was processed on one hub is still in the inbox on another: %v", in.Messages)
		}
	})
	t.Run("an agent that one hub added is known to all, and a key that one revoked is refused by all", func(t *testing.T) {
		toEve := func() error {
			_, err := rpc.Call(t.Context(), b.as(ada), api.Send, api.SendParams{To: api.Recipients{"eve"}, Text: "hello"})
			return err
		}
		if err := toEve(); err == nil {
			t.Error("a message to an agent that is not there was taken")
		}
		eve := a.add(t, "eve")[0]
		if err := toEve(); err != nil {
			t.Errorf("after: %v", err)
		}
		mustCall(t, b.as(eve), api.Whoami, api.None{})
		mustCall(t, a.as(a.operator), api.RevokeKeys, api.AgentParams{ID: "eve"})
		if _, err := rpc.Call(t.Context(), b.as(eve), api.Whoami, api.None{}); hub.CodeOf(err) != hub.CodeUnauthenticated {
			t.Errorf("revoked: got %v, want %s", err, hub.CodeUnauthenticated)
		}
	})
	t.Run("an agent that waits on one hub is seen to wait on another", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			rpc.Call(ctx, b.as(bob), api.Inbox, api.InboxParams{WaitS: 200}) // ended by cancel
			close(over)
		}()
		reach := func(want hub.Reach) {
			t.Helper()
			for deadline := time.Now().Add(patience.For(time.Minute)); ; {
				for _, p := range mustCall(t, a.as(a.operator), api.ListAgents, api.None{}).Agents {
					if p.ID == "bob" && p.Reach == want {
						return
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("bob never became %s on the other hub", want)
				}
				<-time.After(50 * time.Millisecond)
			}
		}
		reach(hub.ReachNow)
		cancel()
		<-over
		reach(hub.ReachOnPoll)
	})
	t.Run("a waiter of a session at one hub is replaced by a newer one at another", func(t *testing.T) {
		w := &wakeHub{running: a, t: t, keys: map[hub.AgentID]string{"bob": bob}}
		w.live.Store(a)
		s := w.session("bob", "claude", 42)
		old := s.waiting("old")
		newer := api.WakeWaitParams{Key: s.key, Mechanism: s.mechanism, Waiter: "new", Attended: true, Seconds: 1}
		mustCall(t, b.as(bob), api.WaitWake, newer)
		if got := old(); !got.call.Gone {
			t.Errorf("got %+v, want it gone", got)
		}
	})
	t.Run("the stream of events on one hub has what happens on another", func(t *testing.T) {
		s := b.listen(t, ada, "")
		id := send(a, "to be seen elsewhere")
		for {
			e, ok := s.next(t)
			if !ok {
				t.Fatal("the stream ended")
			}
			if e.Subject == string(id) && e.Action == actions.MessageSent {
				break
			}
		}
		s.close()
	})
	t.Run("a browser that signed in on one hub sees the page of another", func(t *testing.T) {
		send(a, "a page of two hubs")
		link := mustCall(t, a.as(a.operator), api.OpenWeb, api.None{})
		page, err := url.Parse(link.URL)
		if err != nil {
			t.Fatal(err)
		}
		on := func(r *running, cookie string) func(*http.Request) {
			return func(req *http.Request) {
				req.Host = page.Hostname() + ":" + req.URL.Port()
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				req.Header.Set("Origin", "null")
				req.Header.Set("Accept", "text/html")
				req.Header.Set("Cookie", cookie)
			}
		}
		in := a.do(t, "POST", "/sign-in", "", strings.NewReader(url.Values{"code": {link.Code}}.Encode()), on(a, ""))
		cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
		for _, r := range []*running{a, b} {
			if got := r.do(t, "GET", "/conversations", "", nil, on(r, cookie)); got.status != 200 || !bytes.Contains(got.body, []byte("a page of two hubs")) {
				t.Errorf("got %d %.300s", got.status, got.body)
			}
		}
	})
	t.Run("content that one hub stored can be read on another", func(t *testing.T) {
		content := bytes.Repeat([]byte("text "), 1000)
		put := a.do(t, "POST", "/artifacts", ada, bytes.NewReader(content))
		var ref struct{ Artifact hub.ArtifactRef }
		if err := json.Unmarshal(put.body, &ref); err != nil || ref.Artifact.SHA256 == "" {
			t.Fatalf("got %d %s", put.status, put.body)
		}
		if got := b.do(t, "GET", "/artifacts/"+ref.Artifact.SHA256, ada, nil); !bytes.Equal(got.body, content) {
			t.Errorf("got %d with %d bytes", got.status, len(got.body))
		}
	})
	t.Run("the journal of all hubs is one chain", func(t *testing.T) {
		for i := range 5 {
			send([]*running{a, b}[i%2], fmt.Sprint("message ", i))
		}
		for _, r := range []*running{a, b} {
			audit := mustCall(t, r.as(r.operator), api.Verify, api.VerifyParams{})
			if len(audit.Findings) > 0 {
				t.Errorf("got %v", audit.Findings)
			}
		}
	})
	t.Run("a home without the operator's key is refused, and ends no key", func(t *testing.T) {
		_, err := server.New(t.Context(), server.Options{Home: t.TempDir(), Addr: "127.0.0.1:0", Store: address})
		if hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v, want %s", err, hub.CodeConflict)
		}
		mustCall(t, a.as(a.operator), api.Whoami, api.None{})
	})
	t.Run("a home has one database", func(t *testing.T) {
		home := t.TempDir()
		o := quiet()
		o.Home = home
		start(t, o).stop()
		o.Addr = "127.0.0.1:0"
		if _, err := server.New(t.Context(), withStore(o, address)); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a home with hub.db: got %v, want %s", err, hub.CodeConflict)
		}
		c := furtherHub(t, a, withStore(quiet(), address))
		c.stop()
		if _, err := server.New(t.Context(), server.Options{Home: c.home, Addr: "127.0.0.1:0"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a home whose database is elsewhere: got %v, want %s", err, hub.CodeConflict)
		}
		if _, err := server.OpenRecords(c.home, nil); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("records: got %v, want %s", err, hub.CodeNotEnabled)
		}
		if kept, err := os.ReadFile(filepath.Join(c.home, server.StoreFile)); err != nil || strings.TrimSpace(string(kept)) != address {
			t.Errorf("got %q (%v)", kept, err)
		}
	})
	t.Run("what only files can do is refused with a hint", func(t *testing.T) {
		_, err := rpc.Call(t.Context(), a.as(a.operator), api.Backup, api.CopyParams{Path: filepath.Join(t.TempDir(), "x")})
		if hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("a backup: got %v, want %s", err, hub.CodeNotEnabled)
		}
	})
	t.Run("when one hub ends the others go on", func(t *testing.T) {
		a.stop()
		id := send(b, "still here")
		in := mustCall(t, b.as(bob), api.Inbox, api.InboxParams{NewOnly: true})
		if len(in.Messages) == 0 || in.Messages[len(in.Messages)-1].ID != id {
			t.Errorf("got %v, want %s at the end", in.Messages, id)
		}
	})
	t.Run("a table that was changed is found", func(t *testing.T) {
		store, err := postgres.Open(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if drift, err := store.SchemaDrift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("got %v (%v), want none", drift, err)
		}
		pgtest.Exec(t, address, `DROP TRIGGER journal_no_update ON journal`)
		if drift, err := store.SchemaDrift(t.Context()); err != nil || len(drift) != 1 {
			t.Errorf("got %v (%v), want one", drift, err)
		}
	})
}

// Two hubs that are the first on a database start at the same time.
func TestFirstHubsTogether(t *testing.T) {
	t.Parallel()
	together := func(t *testing.T, homes ...string) (address string, started []*server.Server, errs []error) {
		address = pgtest.Address(t)
		started, errs = make([]*server.Server, len(homes)), make([]error, len(homes))
		var wg sync.WaitGroup
		for i, home := range homes {
			wg.Go(func() {
				started[i], errs[i] = server.New(t.Context(), server.Options{Home: home, Addr: "127.0.0.1:0", Store: address, NoInboxFiles: true})
			})
		}
		wg.Wait()
		for _, s := range started {
			if s != nil {
				t.Cleanup(func() { s.Close() })
			}
		}
		return address, started, errs
	}
	t.Run("of two without a key one makes it, and the other is refused until it has it", func(t *testing.T) {
		homes := []string{t.TempDir(), t.TempDir()}
		address, _, errs := together(t, homes...)
		first, second := 0, 1
		if errs[0] != nil {
			first, second = 1, 0
		}
		if errs[first] != nil || hub.CodeOf(errs[second]) != hub.CodeConflict {
			t.Fatalf("got %v, want one that starts and one with %s", errs, hub.CodeConflict)
		}
		copyKeys(t, homes[first], homes[second])
		o := withStore(quiet(), address)
		o.Home = homes[second]
		r := start(t, o)
		if got := mustCall(t, r.as(r.operator), api.ListOperators, api.None{}); len(got.Operators) != 1 {
			t.Errorf("got %+v, want one key", got)
		}
	})
	t.Run("two with one key both start, and it is the operator's", func(t *testing.T) {
		made := start(t, quiet()) // for its keys
		made.stop()
		homes := []string{t.TempDir(), t.TempDir()}
		for _, home := range homes {
			copyKeys(t, made.home, home)
		}
		_, started, errs := together(t, homes...)
		for i, s := range started {
			if errs[i] != nil {
				t.Fatalf("hub %d: %v", i, errs[i])
			}
			s.TokenFor(t, made.secret)
		}
	})
}

// A worktree on another machine is inspected by the hub there.
func TestWorktreeOnAnotherMachine(t *testing.T) {
	t.Parallel()
	o := withStore(quiet(), pgtest.Address(t))
	o.Machine = "alpha"
	a := start(t, o)
	o.Machine = "beta"
	b := furtherHub(t, a, o)
	keys := a.add(t, "ada", "bob")
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	initiate := func(task string) (api.HandoffAnswer, error) {
		return rpc.Call(t.Context(), a.as(keys[0]), api.Handoff, api.HandoffParams{
			Action: "initiate", To: "bob", TaskID: task, Title: task, Summary: "s", NextStep: "n", Criteria: []string{"c"}, Worktree: repo, Branch: "main",
		})
	}
	if _, err := initiate("none"); hub.CodeOf(err) != hub.CodeOutsideRoots {
		t.Fatalf("under a root of no machine: got %v, want %s", err, hub.CodeOutsideRoots)
	}
	mustCall(t, b.as(b.operator), api.AddRoot, api.RootParams{Path: repo})
	move := func(p api.HandoffParams) api.HandoffAnswer {
		t.Helper()
		return mustCall(t, a.as(keys[1]), api.Handoff, p)
	}
	var ids []hub.HandoffID
	for _, task := range []string{"one", "two"} {
		made, err := initiate(task)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.Report.ID)
		accepted := move(api.HandoffParams{Action: "accept", ID: made.Report.ID})
		for _, c := range accepted.Report.Claims {
			if c.Result != hub.CheckVerified {
				t.Errorf("accept: got %+v, want it verified by the other hub", c)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "new.txt"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := move(api.HandoffParams{Action: "complete", ID: ids[0], Summary: "done", Artifacts: []hub.ArtifactRef{{Type: "file", Path: filepath.Join(repo, "new.txt")}}})
	if done.Report.Proof != hub.ProofVerified {
		t.Errorf("got %s (%s, %+v), want %s", done.Report.Proof, done.Report.ProofReason, done.Report.Claims, hub.ProofVerified)
	}
	if d := mustCall(t, a.as(a.operator), api.DiffHandoff, api.HandoffIDParams{ID: ids[0]}); !strings.Contains(d.Text, "new.txt") {
		t.Errorf("the difference: got %+v", d)
	}
	b.stop()
	away := move(api.HandoffParams{Action: "complete", ID: ids[1], Summary: "done"})
	if away.Report.Proof != hub.ProofUnproven || !regexp.MustCompile(`machine away: .* on beta`).MatchString(fmt.Sprint(away.Report.Claims)) {
		t.Errorf("without its hub: got %s, %+v, want it unproven and the machine named", away.Report.Proof, away.Report.Claims)
	}
}

// A check of a repository on another machine runs there; while no hub runs there, nothing counts as
// checked.
func TestCheckOnAnotherMachine(t *testing.T) {
	t.Parallel()
	r := newLandingRepo(t)
	o := withStore(quiet(), pgtest.Address(t))
	o.Checks = server.Checks{Program: program(t)}
	o.Machine = "alpha"
	a := start(t, o)
	o.Machine = "beta"
	b := furtherHub(t, a, o)
	keys := a.add(t, "ada", "bob")
	repo := api.RepositoryParams{Repository: r.dir}
	mustCall(t, b.as(b.operator), api.AddRoot, api.RootParams{Path: r.dir})
	mustCall(t, a.as(a.operator), api.AddCheck, api.AddCheckParams{RepositoryParams: repo, Name: "test", Command: []string{"sh", "-c", moduleCheck}, Unconfined: true, Required: true})
	run := api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: repo, Name: "test"}}
	got := mustCall(t, a.as(keys[1]), api.RunCheck, run).Result
	if got.State != hub.ResultPassed || got.Machine != "beta" || got.Commit != r.git("rev-parse", "HEAD") {
		t.Errorf("got %s on %s", got.State, got.Machine)
	}

	move := func(key string, p api.HandoffParams) (api.HandoffAnswer, error) {
		return rpc.Call(t.Context(), a.as(key), api.Handoff, p)
	}
	initiated := must(move(keys[0], api.HandoffParams{Action: "initiate", To: "bob", TaskID: "one", Title: "one", Summary: "s", NextStep: "n", Criteria: []string{"c"}, Worktree: r.dir}))(t)
	id := initiated.Report.ID
	must(move(keys[1], api.HandoffParams{Action: "accept", ID: id}))(t)
	r.write("mod/base", "broken\n")
	r.commit("broken")
	if failed := must(move(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "done"}))(t).Report; failed.Checks != hub.ChecksFailed || failed.Status != hub.HandoffActivated {
		t.Errorf("got checks %s, %s", failed.Checks, failed.Status)
	}

	b.stop()
	_, runErr := rpc.Call(t.Context(), a.as(keys[1]), api.RunCheck, run)
	_, completeErr := move(keys[1], api.HandoffParams{Action: "complete", ID: id, Summary: "done"})
	for what, err := range map[string]error{"a run": runErr, "a completion": completeErr} {
		if hub.CodeOf(err) != hub.CodeUnreachable || !regexp.MustCompile(`machine away: .* on beta`).MatchString(err.Error()) {
			t.Errorf("%s without its hub: got %v", what, err)
		}
	}
}

// While the database is away, calls wait for a bounded time and report that; the hubs go
// on by themselves when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	database := pgtest.Own(t, "fsync=off")
	a := start(t, withStore(quiet(), database.URL))
	keys := a.add(t, "ada", "bob")
	woken := make(chan error, 1)
	go func() {
		for {
			in, err := rpc.Call(t.Context(), a.as(keys[1]), api.Inbox, api.InboxParams{WaitS: 200})
			if hub.CodeOf(err) == hub.CodeDegraded {
				continue
			}
			if err == nil && len(in.Messages) != 1 {
				err = fmt.Errorf("got %d messages, want 1", len(in.Messages))
			}
			woken <- err
			return
		}
	}()
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"a change": func() error {
			_, err := rpc.Call(t.Context(), a.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "lost"})
			return err
		},
		"a read": func() error {
			_, err := rpc.Call(t.Context(), a.as(keys[0]), api.Inbox, api.InboxParams{})
			return err
		},
	} {
		err := call()
		if e, ok := errors.AsType[*hub.Error](err); !ok || e.Code != hub.CodeDegraded || e.Hint == "" {
			t.Errorf("%s: got %v, want %s with a hint", what, err, hub.CodeDegraded)
		}
	}
	if got := a.do(t, "GET", "/health", "", nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("/health: got %d %s", got.status, got.body)
	}
	if err := database.Launch(); err != nil {
		t.Fatal(err)
	}
	a.send(t, keys[0], "bob", "back")
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience.For(time.Minute)):
		t.Error("the reader that waited was not woken")
	}
}

// A kept agent stays on its machine: mail through any hub starts it there.
func TestKeptOnOneMachine(t *testing.T) {
	t.Parallel()
	w := startWakes(t, server.Options{Wakes: server.WakeLimits{Gap: time.Nanosecond}, Store: pgtest.Address(t), Machine: "alpha"}, "planner")
	o := w.opts
	o.Machine = "beta"
	other := furtherHub(t, w.running, o)
	dir := w.keepSelf("builder", nil)
	elsewhere := &wakeHub{running: other, t: t}
	elsewhere.until("the other hub shows it", func() bool { return elsewhere.kept("builder").State == keeper.Elsewhere }, func() any { return elsewhere.kept("builder") })
	_, err := rpc.Call(t.Context(), other.as(other.operator), api.StopAgent, api.StopParams{Agent: "builder"})
	if hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("stopping it on another machine: got %v, want %s", err, hub.CodeConflict)
	}
	mustCall(t, other.as(w.keys["planner"]), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "through the other hub"})
	if got := w.turns("builder", dir, 1); !strings.Contains(got[0].Texts, "through the other hub") {
		t.Errorf("got %+v", got)
	}
	elsewhere.until("the delivery counts as a probe on its machine", func() bool {
		p := elsewhere.standing("builder").Probe
		return p != nil && p.Machine == "alpha" && p.Proven && p.State == string(channel.TurnEnded)
	}, func() any { return elsewhere.standing("builder").Probe })
	if got := mustCall(t, other.as(other.operator), api.TestWake, api.WakeTestParams{Agent: "builder"}); !got.Proven || got.Machine != "alpha" {
		t.Errorf("a probe through the other hub: got %+v, want it proven on alpha", got)
	}
	w.running.stop()
	elsewhere.until("its machine is away", func() bool { return elsewhere.kept("builder").State == keeper.Away }, func() any { return elsewhere.kept("builder") })
	if p := elsewhere.standing("builder").Probe; !p.Away() || p.Detail != "no hub runs on alpha" || !p.Proven {
		t.Errorf("the probe while its machine is away: got %+v", p)
	}
}
