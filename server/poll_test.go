package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/server"
)

// A standIn is a server with the lists of events of vendors, in their documented shapes. Nothing was
// recorded from a real one.
type standIn struct {
	*httptest.Server
	mu       sync.Mutex        // guards the fields below
	lists    map[string]string // bodies by path
	asked    map[string]int    // requests by path
	same     map[string]int    // requests that were answered with 304
	broken   map[string]bool   // paths that are answered with an error
	header   http.Header       // of the last request
	interval string            // of X-Poll-Interval
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{lists: map[string]string{}, asked: map[string]int{}, same: map[string]int{}, broken: map[string]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	body, ok := s.lists[path]
	s.asked[path]++
	s.header = r.Header.Clone()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if s.broken[path] {
		http.Error(w, "try again", http.StatusBadGateway)
		return
	}
	etag := fmt.Sprintf(`"%s"`, hookCommit(body))
	w.Header().Set("ETag", etag)
	if s.interval != "" {
		w.Header().Set("X-Poll-Interval", s.interval)
	}
	if r.Header.Get("If-None-Match") == etag {
		s.same[path]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write([]byte(body))
}

// set changes a list.
func (s *standIn) set(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path] = body
}

// counts returns the requests for a path, and those that were answered with 304.
func (s *standIn) counts(path string) (asked, same int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path], s.same[path]
}

// startPolls starts a hub with two agents, and shows what it warns of: a poll that fails is asked again
// later.
func startPolls(t *testing.T) *wakeHub {
	t.Helper()
	o := server.Options{Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	return startWakes(t, o, "planner", "builder")
}

// poll lets time pass until the hub asks again, also if its last question or this one failed.
func (w *wakeHub) poll() {
	w.t.Helper()
	for range 2 {
		w.pass(10 * time.Minute)
		w.server.PollSources(w.t)
	}
}

// TestPolls asks a stand-in of each vendor for events.
func TestPolls(t *testing.T) {
	t.Parallel()
	t.Run("github: new events come once, and nothing new costs nothing", func(t *testing.T) {
		t.Parallel()
		w := startPolls(t)
		w.addSource(event.Setting{To: "builder"})
		vendor := newStandIn(t)
		const list, runs = "/repos/acme/shop/events", "/repos/acme/shop/actions/runs"
		at := func(d time.Duration) string { return w.clock.Now().Add(d).UTC().Format(time.RFC3339) }
		old := `{"id":"1","type":"IssueCommentEvent","actor":{"login":"ada"},"created_at":"` + at(-time.Hour) + `","payload":{"action":"created","issue":{"title":"t"},"comment":{"body":"old","user":{"login":"ada"},"author_association":"OWNER"}}}`
		vendor.set(list, "["+old+"]")
		vendor.set(runs, `{"total_count":0,"workflow_runs":[]}`)
		vendor.interval = "60"
		got := mustCall(t, w.as(w.operator), api.PollSource, event.PollSetting{Name: "hooks", Repository: "acme/shop", API: vendor.URL, Token: "tok-en"})
		if len(got.Source.Polls) != 1 || got.Source.Polls[0].Sealed != "" {
			t.Errorf("got %+v", got.Source.Polls)
		}
		w.server.PollSources(t)

		w.pass(2 * time.Minute)
		w.server.PollSources(t)
		if _, same := vendor.counts(list); same == 0 {
			t.Error("the list was asked for without the tag of its last answer")
		}
		if auth := vendor.header.Get("Authorization"); auth != "Bearer tok-en" {
			t.Errorf("got authorization %q", auth)
		}

		push := `{"id":"2","type":"PushEvent","actor":{"login":"ada"},"created_at":"` + at(0) + `","payload":{"ref":"refs/heads/parser","head":"` + hookCommit("a") + `","commits":[{"sha":"x","message":"parser: reads"}]}}`
		word := `{"id":"3","type":"PullRequestReviewCommentEvent","actor":{"login":"eve"},"created_at":"` + at(time.Second) + `","payload":{"action":"created","comment":{"body":"do it","user":{"login":"eve"},"author_association":"NONE"},"pull_request":{"title":"Parser","head":{"ref":"parser","sha":"` + hookCommit("a") + `"}}}}`
		vendor.set(list, "["+word+","+push+","+old+"]")
		vendor.set(runs, `{"total_count":1,"workflow_runs":[{"id":9,"run_attempt":1,"name":"build","head_branch":"parser","head_sha":"`+hookCommit("a")+`","status":"completed","conclusion":"failure","html_url":"https://github.com/acme/shop/actions/runs/9","updated_at":"`+at(2*time.Second)+`"}]}`)
		for range 3 {
			w.pass(2 * time.Minute)
			w.server.PollSources(t)
		}
		var words []string
		for _, m := range w.inboxOf("builder") {
			e := events(t, []hub.Envelope{m})[0]
			words = append(words, string(m.Priority)+" "+string(e.Kind)+" "+e.State+" "+e.Title)
		}
		want := []string{"normal push pushed parser: reads", "normal ci failure build", "low comment created Parser"}
		if strings.Join(words, "; ") != strings.Join(want, "; ") {
			t.Errorf("got %q, want %q", words, want)
		}
		if asked, _ := vendor.counts(list); asked > 5 {
			t.Errorf("the list was asked for %d times", asked)
		}

		mustCall(t, w.as(w.operator), api.PollSource, event.PollSetting{Name: "hooks", Repository: "acme/shop", Stop: true})
		before, _ := vendor.counts(list)
		w.pass(time.Hour)
		w.server.PollSources(t)
		if after, _ := vendor.counts(list); after != before {
			t.Error("a poll that was stopped asks")
		}
	})

	for vendor, c := range map[hub.EventVendor]struct {
		lists  map[string]string
		header string
		want   string
	}{
		hub.VendorGitLab: {map[string]string{
			"/projects/acme%2Fshop/events":    `[{"id":1,"action_name":"pushed to","author_username":"ada","created_at":"AT","push_data":{"ref":"parser","ref_type":"branch","commit_to":"COMMIT","commit_title":"parser: reads"}},{"id":2,"action_name":"commented on","target_type":"Note","target_title":"Parser","author_username":"eve","created_at":"AT","note":{"body":"hello"}}]`,
			"/projects/acme%2Fshop/pipelines": `[{"id":7,"status":"failed","ref":"parser","sha":"COMMIT","web_url":"https://gitlab.com/p/7","updated_at":"AT"},{"id":8,"status":"running","ref":"parser","sha":"COMMIT","updated_at":"AT"}]`,
		}, "Private-Token", "normal push parser: reads; normal ci pipeline; low comment Parser"},
		hub.VendorGitea: {map[string]string{
			"/repos/acme/shop/activities/feeds": `[{"id":1,"op_type":"commit_repo","act_user":{"login":"ada"},"ref_name":"refs/heads/parser","content":"{\"HeadCommit\":{\"Sha1\":\"COMMIT\",\"Message\":\"parser: reads\"}}","created":"AT"},{"id":2,"op_type":"comment_issue","act_user":{"login":"eve"},"content":"5|hello","created":"AT"}]`,
			"/repos/acme/shop/actions/tasks":    `{"workflow_runs":[{"id":7,"name":"build","head_branch":"parser","head_sha":"COMMIT","status":"failure","url":"https://git.example.com/7","updated_at":"AT"}]}`,
		}, "Authorization", "normal push parser: reads; normal ci build; low comment #5"},
	} {
		t.Run(string(vendor)+": events of all lists come", func(t *testing.T) {
			t.Parallel()
			w := startPolls(t)
			w.addSource(event.Setting{Vendor: vendor, To: "builder"})
			s := newStandIn(t)
			for path, body := range c.lists {
				body = strings.ReplaceAll(body, "AT", w.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339))
				s.set(path, strings.ReplaceAll(body, "COMMIT", hookCommit("a")))
			}
			mustCall(t, w.as(w.operator), api.PollSource, event.PollSetting{Name: "hooks", Repository: "acme/shop", API: s.URL, Token: "tok-en"})
			w.poll()
			var words []string
			for _, m := range w.inboxOf("builder") {
				e := events(t, []hub.Envelope{m})[0]
				words = append(words, string(m.Priority)+" "+string(e.Kind)+" "+e.Title)
			}
			if got := strings.Join(words, "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if s.header.Get(c.header) == "" {
				t.Errorf("the token is not in %s", c.header)
			}
		})
	}

	t.Run("gitlab: a retried pipeline that fails again is a new result", func(t *testing.T) {
		t.Parallel()
		w := startPolls(t)
		w.addSource(event.Setting{Vendor: hub.VendorGitLab, To: "builder"})
		s := newStandIn(t)
		s.set("/projects/acme%2Fshop/events", `[]`)
		mustCall(t, w.as(w.operator), api.PollSource, event.PollSetting{Name: "hooks", Repository: "acme/shop", API: s.URL})
		for range 2 {
			w.pass(10 * time.Minute)
			s.set("/projects/acme%2Fshop/pipelines", fmt.Sprintf(`[{"id":7,"status":"failed","ref":"parser","sha":%q,"updated_at":%q}]`, hookCommit("a"), w.clock.Now().UTC().Format(time.RFC3339)))
			w.poll() // nothing new the second time
		}
		if got := events(t, w.inboxOf("builder")); len(got) != 2 {
			t.Errorf("got %+v, want both results", got)
		}
	})

	t.Run("a poll that is replaced misses no event, and one that is added again begins anew", func(t *testing.T) {
		t.Parallel()
		w := startPolls(t)
		w.addSource(event.Setting{To: "builder"})
		vendor := newStandIn(t)
		const list = "/repos/acme/shop/events"
		set := event.PollSetting{Name: "hooks", Repository: "acme/shop", API: vendor.URL}
		mustCall(t, w.as(w.operator), api.PollSource, set)
		push := func(id string) string { // a list with a push that is a minute from now
			return fmt.Sprintf(`[{"id":%q,"type":"PushEvent","actor":{"login":"ada"},"created_at":%q,"payload":{"ref":"refs/heads/parser","head":%q}}]`, id, w.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339), hookCommit(id))
		}
		early := push("1")
		w.pass(10 * time.Minute)

		set.Stop = true
		mustCall(t, w.as(w.operator), api.PollSource, set)
		set.Stop = false
		mustCall(t, w.as(w.operator), api.PollSource, set)
		vendor.set(list, early)
		w.poll()
		if got := events(t, w.inboxOf("builder")); len(got) != 0 {
			t.Errorf("an event from before the poll was added: got %+v", got)
		}

		late := push("2")
		w.pass(10 * time.Minute)
		set.Seconds = 300
		mustCall(t, w.as(w.operator), api.PollSource, set)
		vendor.set(list, late) // the vendor takes minutes to list it
		w.poll()
		if got := events(t, w.inboxOf("builder")); len(got) != 1 || got[0].Commit != hookCommit("2") {
			t.Errorf("after the poll was replaced: got %+v", got)
		}
	})

	t.Run("a list that is not there or cannot be read does not hide the others", func(t *testing.T) {
		t.Parallel()
		w := startPolls(t)
		w.addSource(event.Setting{To: "builder"})
		vendor := newStandIn(t)
		const list, runs = "/repos/acme/shop/events", "/repos/acme/shop/actions/runs"
		push := func(id string) string {
			return fmt.Sprintf(`{"id":%q,"type":"PushEvent","actor":{"login":"ada"},"created_at":%q,"payload":{"ref":"refs/heads/parser","head":%q}}`, id, w.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339), hookCommit(id))
		}
		mustCall(t, w.as(w.operator), api.PollSource, event.PollSetting{Name: "hooks", Repository: "acme/shop", API: vendor.URL})
		first := push("1")
		vendor.set(list, "["+first+"]")
		w.poll() // the list of runs does not exist
		if got := events(t, w.inboxOf("builder")); len(got) != 1 {
			t.Errorf("without runs: got %+v", got)
		}

		second := push("2")
		vendor.set(list, "["+second+","+first+"]")
		vendor.set(runs, `{"workflow_runs":[]}`)
		vendor.mu.Lock()
		vendor.broken[runs] = true
		vendor.mu.Unlock()
		w.poll()
		if got := events(t, w.inboxOf("builder")); len(got) != 2 || got[1].Commit != hookCommit("2") {
			t.Errorf("while runs cannot be read: got %+v", got)
		}
		counts := mustCall(t, w.as(w.operator), api.ShowSource, api.SourceParams{Name: "hooks"}).Source.Counts
		if counts[hub.EventStored] != 2 || counts[hub.EventRepeated] != 0 {
			t.Errorf("got counts %v, want none for events that a list has again", counts)
		}
	})

	t.Run("addresses and repositories that could leak a token are refused", func(t *testing.T) {
		t.Parallel()
		w := startPolls(t)
		w.addSource(event.Setting{To: "builder"})
		for name, p := range map[string]event.PollSetting{
			"http":           {Repository: "acme/shop", API: "http://api.example.com"},
			"another scheme": {Repository: "acme/shop", API: "file:///etc/passwd"},
			"a password":     {Repository: "acme/shop", API: "https://a:b@example.com"},
			"a path":         {Repository: "acme/../../user", API: "https://api.example.com"},
			"a query":        {Repository: "acme/shop?x=1", API: "https://api.example.com"},
			"no owner":       {Repository: "shop", API: "https://api.example.com"},
			"too often":      {Repository: "acme/shop", API: "https://api.example.com", Seconds: 1},
			"too rarely":     {Repository: "acme/shop", API: "https://api.example.com", Seconds: 18_446_744_104}, // 30 seconds, if it overflows
			"not there":      {Repository: "acme/shop", Stop: true},
		} {
			p.Name = "hooks"
			if _, err := rpc.Call(t.Context(), w.as(w.operator), api.PollSource, p); err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
	})
}
