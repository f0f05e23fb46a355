package web_test

import (
	"bufio"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/surface/web"
	"github.com/parley-agents/parley/internal/testing/hostiletest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hostileSite is a hub with hostile text in everything that its page shows.
func hostileSite(t *testing.T) *site {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, server.Options{Limits: server.Limits{Unsafe: true}, Roots: []string{root}}, "planner", "builder", "tester")
	token, err := s.operator.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &hostiletest.Hub{URL: s.url, Operator: token, Planner: s.keys["planner"], Builder: s.keys["builder"]}
	h.Fill(t)
	do(s, s.operator, api.AddSchedule, schedule.Setting{Every: "0 9 * * *", Zone: "UTC", To: "tester", Text: hostiletest.Text()})

	// A handoff whose worktree differs from its commit.
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	write(t, filepath.Join(root, "a.txt"), "before "+hostiletest.File())
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	made := do(s, s.as("planner"), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "builder", TaskID: "T-904", Title: hostiletest.Text(), Summary: hostiletest.Text() + " and more", NextStep: "n", Criteria: []string{"c"}, Reason: "r", Worktree: root,
	})
	do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "accept", ID: made.Report.ID})
	write(t, filepath.Join(root, "a.txt"), "after "+hostiletest.File())
	write(t, filepath.Join(root, "b"+"\u202e\u200b.txt"), hostiletest.File())

	// A run with a recording and a patch, and an agent that the hub runs.
	dir := s.loader("loader")
	write(t, filepath.Join(dir, "loader.go"), hostiletest.File())
	write(t, filepath.Join(dir, "output"), hostiletest.File())
	write(t, filepath.Join(dir, "check.sh"), "cat output\nexit 1\n")
	s.execute(dir, hostiletest.Text())
	s.keep("migrator")
	do(s, s.operator, api.PromptAgent, api.PromptParams{Agent: "migrator", Text: hostiletest.Text()})
	hostileLandings(s)

	// The name of a model is a word of an agent. The hub refuses one with hidden characters.
	call := hub.ModelCall{ID: "c1", Model: hostiletest.Marker, Tokens: hub.Tokens{Input: 1}}
	report := usage.Report{Source: hub.UsagePlugin, CLI: "pi", Ended: true, Calls: []hub.ModelCall{call}}
	do(s, s.as("builder"), api.RecordUsage, report)
	report.Calls[0].ID = "c2"
	report.Calls[0].Model = hostiletest.Text()
	if _, err := rpc.Call(t.Context(), s.as("builder"), api.RecordUsage, report); hub.CodeOf(err) != hub.CodeInvalid {
		t.Errorf("a model with hidden characters in its name: got %v, want it refused", err)
	}
	return s
}

// hostileLandings adds a repository with hostile text in its branches, files and output: a check
// that failed, a change that came back from its review, one that was cancelled, and one that waits.
func hostileLandings(s *site) {
	s.t.Helper()
	root, err := filepath.EvalSymlinks(s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	do(s, s.operator, api.AddRoot, api.RootParams{Path: root})
	w := &workshop{site: s}
	w.layOut(root)
	hidden := hostiletest.Marker + "\u202e\u200b"
	branches := []string{"one-" + hidden, "two-" + hidden, "three-" + hidden}
	for _, name := range branches {
		w.branch(name, name+".txt", hostiletest.File())
	}

	repository := api.RepositoryParams{Repository: w.app}
	do(s, s.operator, api.AddCheck, api.AddCheckParams{RepositoryParams: repository, Name: "test", Command: []string{"sh", "-c", "cat *.txt; exit 1 # " + hidden}, Unconfined: true})
	do(s, s.operator, api.RunCheck, api.RunCheckParams{CheckParams: api.CheckParams{RepositoryParams: repository, Name: "test"}, Commit: branches[0]})
	do(s, s.operator, api.SetLanding, api.LandingParams{Repo: w.app, Into: w.target(), Review: "operator", NoChecks: new(true)})
	for _, name := range branches {
		do(s, s.as("builder"), api.Land, api.LandParams{Ref: name, Repo: w.app})
	}
	findings := []hub.ReviewFinding{{Path: branches[0] + ".txt", Line: 1, Text: hostiletest.Text()}}
	do(s, s.operator, api.GiveReview, api.ReviewParams{ID: "l1", Verdict: "changes", Findings: findings})
	do(s, s.as("builder"), api.CancelLanding, api.EntryParams{ID: "l2", Reason: hostiletest.Text()})
}

// event reads the first event of the stream of a page.
func (v *visitor) event(address string) (title, main string) {
	v.s.t.Helper()
	req, err := http.NewRequestWithContext(v.s.t.Context(), http.MethodGet, v.page+"/live?after=0&path="+url.QueryEscape(address), nil)
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.Header.Set("Cookie", "parley="+v.cookie)
	res, err := v.http.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e struct{ Title, Main string }
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				v.s.t.Fatal(err)
			}
			return e.Title, e.Main
		}
	}
	v.s.t.Fatalf("the stream of %s ended: %v", address, lines.Err())
	return "", ""
}

// No page has a character that hides text or moves a cursor: not for an operator, not for
// a viewer, not in the stream of events, and not after a form that was refused.
func TestEveryPageIsPlainText(t *testing.T) {
	patience.NotUnderRace(t)
	s := hostileSite(t)
	routes := web.Routes()
	table := http.NewServeMux()
	for _, pattern := range routes {
		table.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	asked, shown := map[string]bool{}, map[string]bool{}
	check := func(method, address, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.page+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := table.Handler(req)
		asked[pattern] = true
		if strings.Contains(body, hostiletest.Marker) {
			shown[pattern] = true
		}
		if found := hostiletest.Find(html.UnescapeString(body)); found != "" && !strings.HasPrefix(address, "/assets/") {
			t.Errorf("%s %s: %s", method, address, found)
		}
		return pattern
	}

	operator, viewer := s.visitor(), s.visitor()
	check(http.MethodGet, "/sign-in", operator.get("/sign-in").body)
	wrong := s.link()
	wrong.Code = hostiletest.Text()
	check(http.MethodPost, "/sign-in", s.visitor().signIn(wrong).body)
	check(http.MethodPost, "/sign-in", operator.signIn(s.link()).body)
	check(http.MethodPost, "/sign-in", viewer.signIn(s.invite("ben")).body)
	streamed := map[string]bool{}
	for _, v := range []*visitor{operator, viewer} {
		for address, body := range v.crawl() {
			pattern := check(http.MethodGet, address, body)
			if still := strings.HasPrefix(address, "/assets/") || strings.HasPrefix(address, "/journal/"); still || streamed[pattern] {
				continue
			}
			streamed[pattern] = true
			title, main := v.event(address)
			check(http.MethodGet, "/live", title+main)
		}
	}
	for _, address := range []string{"/assets/app.js", "/journal/export", "/journal/verify", "/journal?actor=" + url.QueryEscape(hostiletest.Text()), "/" + url.PathEscape(hostiletest.Text())} {
		check(http.MethodGet, address, operator.get(address).body)
	}

	// Each form, with hostile text in every field; the next page tells what it led to.
	for _, action := range web.Changes() {
		fields := url.Values{"back": {"/"}}
		for _, name := range []string{"id", "agent", "text", "reason", "thread", "priority", "once", "aid", "project", "contract", "answer", "comment", "question", "choice", "policy", "team", "artifact", "newest", "beside", "merged", "to", "findings", "verdict", "with"} {
			fields.Set(name, hostiletest.Text())
		}
		check(http.MethodPost, "/do/"+action, operator.do(action, fields).body)
		check(http.MethodGet, "/", operator.get("/").body)
	}
	check(http.MethodPost, "/sign-out", operator.request(http.MethodPost, s.page+"/sign-out", url.Values{"token": {operator.token}}, nil).body)

	// The pages without text of others answer with figures, or are the same for all.
	bare := map[string]bool{"GET /sign-in": true, "POST /sign-in": true, "POST /sign-out": true, "POST /do/{action}": true, "GET /assets/{name}": true, "GET /journal/verify": true, "GET /journal/proof/{id}": true, "GET /health": true}
	for _, pattern := range routes {
		switch {
		case !asked[pattern]:
			t.Errorf("%s was not asked for", pattern)
		case !shown[pattern] && !bare[pattern]:
			t.Errorf("%s showed no text of others", pattern)
		}
	}
}
