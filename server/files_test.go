package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// A sharedTree is a hub with a repository in which several agents work.
type sharedTree struct {
	*running
	t      *testing.T
	server *server.Server
	root   string
	repo   string
	now    atomic.Int64 // nanoseconds
	keys   map[hub.AgentID]string
}

func newSharedTree(t *testing.T, change ...func(*server.Options)) *sharedTree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &sharedTree{t: t, root: root, repo: filepath.Join(root, "repo"), keys: map[hub.AgentID]string{}}
	w.now.Store(time.Now().UnixNano())
	w.write("repo/a.txt", "one\n")
	w.write("repo/src/b.txt", "b\n")
	w.git("init", "-q", "-b", "main")
	w.commit("first")

	o := unlimited()
	o.Roots = []string{root}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	o.Clock = func() time.Time { return time.Unix(0, w.now.Load()) }
	for _, c := range change {
		c(&o)
	}
	w.running = startAs(t, o, func(s *server.Server) { w.server = s })
	names := []hub.AgentID{"builder", "tester", "mallory"}
	for i, key := range w.add(t, names...) {
		w.keys[names[i]] = key
	}
	return w
}

func (w *sharedTree) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// git runs git in the repository as a user would, apart from this machine's configuration.
func (w *sharedTree) git(args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.repo
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (w *sharedTree) commit(message string) {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "-m", message)
}

// ask asks as an agent about a file of the repository.
func (w *sharedTree) ask(agent hub.AgentID, kind reservation.Kind, paths ...string) reservation.Answer {
	w.t.Helper()
	return must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.AskFiles, reservation.Question{Tree: w.repo, Kind: kind, Paths: paths, Session: "s-" + string(agent)}))(w.t)
}

// edit changes a file of the repository as an agent, with the questions of its guard.
func (w *sharedTree) edit(agent hub.AgentID, name, content string) {
	w.t.Helper()
	if got := w.ask(agent, reservation.Edit, name); got.Decision != reservation.Allow {
		w.t.Fatalf("%s edits %s: got %+v, want allow", agent, name, got)
	}
	w.write("repo/"+name, content)
	w.ask(agent, reservation.After, name)
}

// pass lets time pass, and ends the reservations whose end has come.
func (w *sharedTree) pass(d time.Duration) {
	w.t.Helper()
	w.now.Add(int64(d))
	w.renew()
	w.server.SweepFiles(w.t)
}

// list returns the reservations as "state path holder".
func (w *sharedTree) list() (out []string) {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(w.operator), api.ListFiles, reservation.Filter{}))(w.t)
	for _, r := range got.Reservations {
		out = append(out, fmt.Sprintf("%s %s %s", r.State, r.Path, r.Holder))
	}
	return out
}

func (w *sharedTree) wantList(want ...string) {
	w.t.Helper()
	if got := w.list(); strings.Join(got, ", ") != strings.Join(want, ", ") {
		w.t.Errorf("reservations: got %q, want %q", got, want)
	}
}

// report reports an event of the agent's session.
func (w *sharedTree) report(agent hub.AgentID, e wake.Event) {
	w.t.Helper()
	must(rpc.Call(w.t.Context(), w.as(w.keys[agent]), api.ReportWake, wake.Report{Key: wake.Key{CLI: "claude", ID: "s-" + string(agent), Process: 7}, Cwd: w.repo, Event: e}))(w.t)
}

// wantClean expects that the journal agrees with the store.
func (w *sharedTree) wantClean() {
	w.t.Helper()
	got := must(rpc.Call(w.t.Context(), w.as(w.operator), api.Verify, api.VerifyParams{}))(w.t)
	if !got.Clean() {
		w.t.Errorf("audit: got %v, want none", got.Findings)
	}
}

func TestReservations(t *testing.T) {
	w := newSharedTree(t)
	t.Run("an edit reserves, and another agent is denied with a name", func(t *testing.T) {
		if got := w.ask("builder", reservation.Edit, "a.txt"); got.Decision != reservation.Allow || got.Reason != reservation.ReasonFree || got.Fence == 0 {
			t.Errorf("a free file: got %+v", got)
		}
		got := w.ask("tester", reservation.Edit, filepath.Join(w.repo, "a.txt"))
		if got.Decision != reservation.Deny || got.Reason != reservation.ReasonHeld || len(got.Denied) != 1 || got.Denied[0].Holder != "builder" {
			t.Errorf("a held file: got %+v", got)
		}
		if !strings.Contains(got.Text, "builder") || len(got.Text) > 400 {
			t.Errorf("text: got %q", got.Text)
		}
		w.wantList("held a.txt builder")
		w.wantClean()
	})
	t.Run("a denial is counted with the refusals", func(t *testing.T) {
		if got := w.journal(t, 0); !strings.Contains(strings.Join(got, "\n"), string(hub.CodeOwnership)) {
			t.Errorf("journal: got %q, want a refusal with %s", got, hub.CodeOwnership)
		}
	})
	t.Run("the holder's commit frees the file, and the waiting agent is told", func(t *testing.T) {
		w.write("repo/a.txt", "two\n")
		w.ask("builder", reservation.After, "a.txt")
		w.commit("second")
		w.server.SweepFiles(t)
		w.wantList()
		inbox := must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.Inbox, api.InboxParams{}))(t)
		raw, err := json.Marshal(inbox.Messages)
		if err != nil || !strings.Contains(string(raw), "a.txt is free") {
			t.Errorf("inbox: got %s, %v", raw, err)
		}
	})
	t.Run("a person is never denied", func(t *testing.T) {
		w.edit("builder", "a.txt", "three\n")
		for _, kind := range []reservation.Kind{reservation.Edit, reservation.Commit, reservation.Read, reservation.After} {
			got := must(rpc.Call(t.Context(), w.as(w.operator), api.AskFiles, reservation.Question{Tree: w.repo, Kind: kind, Paths: []string{"a.txt"}}))(t)
			if got.Decision != reservation.Allow {
				t.Errorf("%s: got %+v, want allow", kind, got)
			}
		}
		w.wantList("held a.txt builder")
	})
	t.Run("the session's end leaves an orphan with its difference, which the next agent is told", func(t *testing.T) {
		w.report("builder", wake.EventStart)
		w.report("builder", wake.EventEnd)
		w.server.SweepFiles(t)
		w.wantList("orphan a.txt builder")
		w.wantClean()
		rows := must(rpc.Call(t.Context(), w.as(w.operator), api.ListFiles, reservation.Filter{Tree: w.repo}))(t).Reservations
		a := w.do(t, "GET", "/artifacts/"+rows[0].Left, w.operator, nil)
		if !strings.Contains(string(a.body), "+three") || rows[0].Lines != 2 {
			t.Errorf("difference: got %s in %+v", a.body, rows[0])
		}
		got := w.ask("tester", reservation.Edit, "a.txt")
		if got.Decision != reservation.Allow || len(got.Notes) != 1 || got.Notes[0].Kind != reservation.NoteOrphan {
			t.Errorf("the next agent: got %+v", got)
		}
		if a := w.do(t, "GET", "/artifacts/"+rows[0].Left, w.keys["tester"], nil); a.status != 200 {
			t.Errorf("the next agent reads the difference: got %d %s", a.status, a.body)
		}
		now := must(rpc.Call(t.Context(), w.as(w.operator), api.ListFiles, reservation.Filter{Tree: w.repo}))(t).Reservations
		if len(now) != 1 || now[0].Holder != "tester" || now[0].Left != rows[0].Left {
			t.Errorf("the next holder: got %+v, want the difference of the former one", now)
		}
		w.wantClean()
	})
}

// TestQuestionsDoNotGrowTheJournal has twenty agents ask again and again: a file that an agent
// holds is its own, and a file of another agent is refused. The journal has the reservations and
// the count of the refusals, no entry for a question.
func TestQuestionsDoNotGrowTheJournal(t *testing.T) {
	const agents, rounds = 20, 10
	w := newSharedTree(t)
	names := make([]hub.AgentID, agents)
	for i := range names {
		names[i] = hub.AgentID(fmt.Sprint("agent", i))
	}
	for i, key := range w.add(t, names...) {
		w.keys[names[i]] = key
	}

	askAll := func() {
		for i, name := range names {
			if got := w.ask(name, reservation.Edit, fmt.Sprint(name, ".txt")); got.Decision != reservation.Allow {
				t.Fatalf("%s edits its file: got %+v", name, got)
			}
			other := names[(i+agents-1)%agents]
			if got := w.ask(name, reservation.Edit, fmt.Sprint(other, ".txt")); i > 0 && got.Decision != reservation.Deny {
				t.Fatalf("%s edits the file of %s: got %+v", name, other, got)
			}
		}
	}
	w.ask(names[agents-1], reservation.Edit, fmt.Sprint(names[agents-1], ".txt"))
	askAll()
	before := w.journalHead(t)
	for range rounds {
		askAll()
	}

	// A test of the journal has the counts of refusals.
	for _, entry := range w.journal(t, before) {
		if !strings.Contains(entry, string(actions.Refused)) {
			t.Errorf("%d questions about held files: got the journal entry %q", 2*agents*rounds, entry)
		}
	}
	w.wantClean()
}

func TestReservationsAreHeldByActivity(t *testing.T) {
	w := newSharedTree(t, func(o *server.Options) { o.Reservations.Idle = 10 * time.Minute })
	w.report("builder", wake.EventPrompt)
	w.edit("builder", "a.txt", "two\n")
	w.edit("builder", "src/b.txt", "two\n")

	w.pass(9 * time.Minute)
	w.report("builder", wake.EventTool)
	w.pass(9 * time.Minute)
	w.wantList("held a.txt builder", "held src/b.txt builder")

	// A call of a tool is a sign of life, too.
	must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.Files, api.FilesParams{Action: "list"}))(t)
	w.ask("builder", reservation.Read, "a.txt")
	w.pass(9 * time.Minute)
	w.wantList("held a.txt builder", "held src/b.txt builder")

	w.pass(2 * time.Minute)
	w.wantList("orphan a.txt builder", "orphan src/b.txt builder")
	got := w.ask("builder", reservation.Read, "a.txt")
	if len(got.Notes) != 2 || got.Notes[0].Kind != reservation.NoteLapsed {
		t.Errorf("the former holder is told: got %+v", got.Notes)
	}
	w.wantClean()
}

func TestBadQuestionsAboutFiles(t *testing.T) {
	w := newSharedTree(t)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": outside, "passwd": "/etc/passwd", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(w.repo, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.write("repo/sub/.git", "gitdir: ../.git/modules/sub\n")
	w.write("repo/sub/c.txt", "c\n")
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("f%d.txt", i)
	}

	quoted := func(v any) string { raw, _ := json.Marshal(v); return string(raw) }
	ask := func(tree, kind string, paths ...string) string {
		return fmt.Sprintf(`{"tree":%q,"kind":%q,"paths":%s}`, tree, kind, quoted(append([]string{}, paths...)))
	}
	reserve := func(patterns string, more string) string {
		return fmt.Sprintf(`{"tree":%q,"patterns":%s%s}`, w.repo, patterns, more)
	}
	const asks, reserves, releases, lists = "parley/reservations/ask", "parley/reservations/reserve", "parley/reservations/release", "parley/reservations/list"
	for _, tt := range []struct {
		name, method, params string
		want                 hub.Code
	}{
		{"an unknown kind", asks, ask(w.repo, "write", "a.txt"), hub.CodeInvalid},
		{"no tree", asks, `{"kind":"edit","paths":["a.txt"]}`, hub.CodeInvalid},
		{"a relative tree", asks, ask("repo", "edit", "a.txt"), hub.CodeInvalid},
		{"a tree under no root", asks, ask(outside, "edit", "a.txt"), hub.CodeOutsideRoots},
		{"a tree that was moved or deleted", asks, ask(filepath.Join(w.root, "gone"), "edit", "a.txt"), hub.CodeNotFound},
		{"a file as the tree", asks, ask(filepath.Join(w.repo, "a.txt"), "edit", "a.txt"), hub.CodeInvalid},
		{"no path", asks, ask(w.repo, "edit"), hub.CodeInvalid},
		{"an empty path", asks, ask(w.repo, "edit", ""), hub.CodeInvalid},
		{"a path outside of the tree", asks, ask(w.repo, "edit", "../b.txt"), hub.CodeInvalid},
		{"an absolute path outside of the tree", asks, ask(w.repo, "edit", "/etc/passwd"), hub.CodeInvalid},
		{"a link out of the tree", asks, ask(w.repo, "edit", "passwd"), hub.CodeInvalid},
		{"a file behind a link out of the tree", asks, ask(w.repo, "edit", "out/x.txt"), hub.CodeInvalid},
		{"a link to itself", asks, ask(w.repo, "edit", "loop"), hub.CodeInvalid},
		{"a file of a submodule", asks, ask(w.repo, "edit", "sub/c.txt"), hub.CodeInvalid},
		{"5,000 paths", asks, ask(w.repo, "edit", many...), hub.CodeTooLarge},
		{"an unknown member", asks, `{"tree":"/x","kind":"edit","paths":["a"],"agent":"builder"}`, hub.CodeInvalid},
		{"a pattern that matches everything", reserves, reserve(`["*"]`, ""), hub.CodeInvalid},
		{"the top as a pattern", reserves, reserve(`["."]`, ""), hub.CodeInvalid},
		{"a deep pattern that matches everything", reserves, reserve(`["**"]`, ""), hub.CodeInvalid},
		{"a pattern out of the tree", reserves, reserve(`["../*"]`, ""), hub.CodeInvalid},
		{"a pattern with magic words", reserves, reserve(`[":(top)src"]`, ""), hub.CodeInvalid},
		{"no pattern", reserves, reserve(`[]`, ""), hub.CodeInvalid},
		{"a time that is none", reserves, reserve(`["src"]`, `,"for":"soon"`), hub.CodeInvalid},
		{"a time that is too long", reserves, reserve(`["src"]`, `,"for":"48h"`), hub.CodeInvalid},
		{"a time that is over", reserves, reserve(`["src"]`, `,"for":"-2h"`), hub.CodeInvalid},
		{"a long reason", reserves, reserve(`["src"]`, `,"why":"`+strings.Repeat("x", 501)+`"`), hub.CodeTooLarge},
		{"a reservation for another agent", reserves, reserve(`["src"]`, `,"agent":"builder"`), hub.CodeDenied},
		{"a reservation for a handoff that does not exist", reserves, reserve(`["src"]`, `,"handoff":"h99"`), hub.CodeNotFound},
		{"a file that nobody reserved", releases, fmt.Sprintf(`{"tree":%q,"paths":["src/b.txt"]}`, w.repo), hub.CodeNotFound},
		{"an unknown reservation", releases, `{"id":"r999"}`, hub.CodeNotFound},
		{"an unknown state", lists, `{"state":"lost"}`, hub.CodeInvalid},
		{"an unknown cursor", lists, `{"cursor":"x"}`, hub.CodeInvalid},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			a := w.call(t, w.keys["mallory"], tt.method, tt.params)
			if a.Error == nil || a.Error.Data.Reason != tt.want {
				t.Errorf("got %.500s, want %s", a.body, tt.want)
			}
		})
	}
	w.wantList()

	t.Run("a pattern of too many files is refused", func(t *testing.T) {
		for i := range 4097 {
			w.write(fmt.Sprintf("repo/many/%d.txt", i), "x")
		}
		w.call(t, w.keys["mallory"], reserves, reserve(`["many"]`, "")).wantError(t, -32602, hub.CodeTooLarge)
	})
	t.Run("an agent holds at most 4,096 files", func(t *testing.T) {
		for part := range slices.Chunk(many[:4096], reservation.MaxQuestion) {
			if got := w.ask("tester", reservation.Edit, part...); got.Decision != reservation.Allow {
				t.Errorf("4,096 files: got %.300s", fmt.Sprint(got))
			}
		}
		w.call(t, w.keys["tester"], asks, ask(w.repo, "edit", "one-more.txt")).wantError(t, -32602, hub.CodeTooLarge)
		must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.ReleaseFiles, reservation.Release{Tree: w.repo}))(t)
	})
	t.Run("names that differ in case are two files here", func(t *testing.T) {
		w.edit("builder", "twin.txt", "x\n")
		w.edit("tester", "Twin.txt", "y\n")
		w.wantList("held twin.txt builder", "held Twin.txt tester")
	})
}

func TestAuthorityOverReservations(t *testing.T) {
	w := newSharedTree(t)
	w.edit("builder", "a.txt", "two\n")
	release := func(key string, paths ...string) error {
		_, err := rpc.Call(t.Context(), w.as(key), api.ReleaseFiles, reservation.Release{Tree: w.repo, Paths: paths})
		return err
	}
	t.Run("an agent releases its own alone", func(t *testing.T) {
		if err := release(w.keys["mallory"], "a.txt"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v, want %s", err, hub.CodeDenied)
		}
		if err := release(w.keys["mallory"]); err != nil {
			t.Errorf("all of its own, which are none: got %v", err)
		}
		w.wantList("held a.txt builder")
	})
	t.Run("the operator releases any, and the holder is told", func(t *testing.T) {
		if err := release(w.operator, "a.txt"); err != nil {
			t.Error(err)
		}
		w.wantList()
		inbox := must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.Inbox, api.InboxParams{}))(t)
		raw, err := json.Marshal(inbox.Messages)
		if err != nil || !strings.Contains(string(raw), "the operator released a.txt") {
			t.Errorf("inbox: got %s, %v", raw, err)
		}
	})
	t.Run("the coordinator of a team reserves and releases for its members", func(t *testing.T) {
		seats := w.team(t, "web", nil, team.Seat{Agent: "lead", Role: hub.RoleCoordinator}, team.Seat{Agent: "hand", Role: hub.RoleExecutor})
		r := api.ReserveParams{Request: reservation.Request{Tree: w.repo, Patterns: []string{"src"}, Agent: "hand"}}
		if _, err := rpc.Call(t.Context(), w.as(seats["lead"]), api.ReserveFiles, r); err != nil {
			t.Errorf("reserve: %v", err)
		}
		w.wantList("held src hand")
		if err := release(seats["lead"], "src"); err != nil {
			t.Errorf("release: %v", err)
		}
		r.Agent = "builder"
		if _, err := rpc.Call(t.Context(), w.as(seats["lead"]), api.ReserveFiles, r); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("for another agent: got %v, want %s", err, hub.CodeDenied)
		}
		r.Agent = "lead"
		if _, err := rpc.Call(t.Context(), w.as(seats["hand"]), api.ReserveFiles, r); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("a member for its coordinator: got %v, want %s", err, hub.CodeDenied)
		}
	})
	t.Run("an agent that claims the session of another does not live by it", func(t *testing.T) {
		w.report("builder", wake.EventPrompt)
		q := reservation.Question{Tree: w.repo, Kind: reservation.Edit, Paths: []string{"a.txt"}, Session: "s-builder"}
		must(rpc.Call(t.Context(), w.as(w.keys["mallory"]), api.AskFiles, q))(t)
		w.pass(time.Hour)
		w.wantList()
		w.wantClean()
	})
	t.Run("a session that lies about its folder is refused", func(t *testing.T) {
		for folder, want := range map[string]hub.Code{"/etc": hub.CodeOutsideRoots, "repo": hub.CodeInvalid, w.root + "/gone": hub.CodeNotFound} {
			k := wake.Key{CLI: "claude", ID: "liar", Process: 8}
			must(rpc.Call(t.Context(), w.as(w.keys["mallory"]), api.ReportWake, wake.Report{Key: k, Cwd: folder, Event: wake.EventStart}))(t)
			_, err := rpc.Call(t.Context(), w.as(w.keys["mallory"]), api.Files, api.FilesParams{Action: "reserve", Paths: []string{"src"}})
			if hub.CodeOf(err) != want {
				t.Errorf("%s: got %v, want %s", folder, err, want)
			}
		}
	})
	t.Run("the guard of a repository can be off", func(t *testing.T) {
		off := false
		w := newSharedTree(t, func(o *server.Options) {
			o.Repositories = []server.Repository{{Path: o.Roots[0] + "/repo", Reservations: server.Reservations{Guard: &off}}}
		})
		w.edit("builder", "a.txt", "two\n")
		w.edit("tester", "a.txt", "three\n")
		w.wantList()
	})
}

func TestReservationsOfATreeThatIsGone(t *testing.T) {
	w := newSharedTree(t)
	w.report("builder", wake.EventPrompt)
	w.edit("builder", "a.txt", "two\n")
	w.edit("builder", "src/b.txt", "two\n")
	if err := os.Rename(w.repo, w.repo+"-moved"); err != nil {
		t.Fatal(err)
	}
	w.server.SweepFiles(t)
	w.wantList("held a.txt builder", "held src/b.txt builder")
	must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.ReleaseFiles, reservation.Release{Tree: w.repo, Paths: []string{"a.txt"}}))(t)
	w.wantList("held src/b.txt builder")
	w.report("builder", wake.EventEnd)
	w.server.SweepFiles(t)
	w.wantList()
	w.wantClean()
}

func TestRulesOfRepositories(t *testing.T) {
	off := false
	o := server.Options{
		Reservations: server.Reservations{Idle: time.Hour, Unreachable: server.UnreachableDeny},
		Repositories: []server.Repository{{Path: "/src/app", Reservations: server.Reservations{Idle: time.Minute}}, {Path: "/src/app/inner", Reservations: server.Reservations{Guard: &off}}},
	}
	if got := o.ReservationsIn("/src/other"); got.Idle != time.Hour || got.Unreachable != server.UnreachableDeny || !got.Guarded() {
		t.Errorf("elsewhere: got %+v", got)
	}
	if got := o.ReservationsIn("/src/app/x"); got.Idle != time.Minute || got.Unreachable != server.UnreachableDeny {
		t.Errorf("in the repository: got %+v", got)
	}
	if got := o.ReservationsIn("/src/app/inner"); got.Guarded() || got.Idle != time.Hour {
		t.Errorf("in the inner repository: got %+v", got)
	}
	for _, bad := range []server.Reservations{{Idle: time.Second}, {Idle: 25 * time.Hour}, {Unreachable: "ask"}} {
		for _, o := range []server.Options{{Reservations: bad}, {Repositories: []server.Repository{{Path: "/x", Reservations: bad}}}} {
			o.Home, o.Addr = t.TempDir(), "127.0.0.1:0"
			if s, err := server.New(t.Context(), o); hub.CodeOf(err) != hub.CodeInvalid {
				if err == nil {
					s.Close()
				}
				t.Errorf("%+v: got %v, want %s", bad, err, hub.CodeInvalid)
			}
		}
	}
}

// What waits for a person about files: an agent that waits for long, together with the notice
// about it, and a violation until its notice is read.
func TestFilesWaitForAPerson(t *testing.T) {
	w := newSharedTree(t)
	want := func(kinds ...string) []attention.Item {
		t.Helper()
		items := must(rpc.Call(t.Context(), w.as(w.operator), api.Now, api.None{}))(t).Waiting.Items()
		var got []string
		for _, i := range items {
			got = append(got, string(i.Kind)+" "+string(i.Agent))
		}
		if strings.Join(got, ", ") != strings.Join(kinds, ", ") {
			t.Errorf("got %q, want %q", got, kinds)
		}
		return items
	}

	must(rpc.Call(t.Context(), w.as(w.keys["builder"]), api.ReserveFiles, api.ReserveParams{Request: reservation.Request{Tree: w.repo, Patterns: []string{"a.txt"}}}))(t)
	w.ask("tester", reservation.Edit, "a.txt")
	w.pass(29 * time.Minute)
	want()
	w.pass(2 * time.Minute)
	if items := want("blocked tester"); len(items) == 1 && (items[0].Title != "a.txt" || items[0].Command != "parley files release --id r1") {
		t.Errorf("got %+v", items[0])
	}
	must(rpc.Call(t.Context(), w.as(w.operator), api.ReleaseFiles, reservation.Release{ID: "r1"}))(t)
	mail := want("mail hub") // the notice is still unread

	w.edit("builder", "src/b.txt", "two\n")
	command := reservation.Question{Tree: w.repo, Kind: reservation.Edit, Command: "make"}
	must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.AskFiles, command))(t)
	w.write("repo/src/b.txt", "made\n")
	command.Kind = reservation.After
	must(rpc.Call(t.Context(), w.as(w.keys["tester"]), api.AskFiles, command))(t)
	items := want("violation hub", "mail hub")
	for _, i := range append(mail[:1:1], items[0]) {
		must(rpc.Call(t.Context(), w.as(w.operator), api.Inbox, api.InboxParams{Peek: true, Ack: api.AckSet{IDs: []hub.EnvelopeID{hub.EnvelopeID(i.ID)}}}))(t)
	}
	want()
}
