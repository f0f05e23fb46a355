package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// TestReal is the rest of what must hold in a real browser; make test-real runs it.
func TestReal(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("PARLEY_REAL is not set: make test-real runs this")
	}
	t.Run("two browsers are live, and a decision counts once", twoBrowsers)
	t.Run("the link leaves no secret in the history", noSecretInHistory)
	t.Run("another port never sees the cookie", otherPort)
	t.Run("an approval with the keyboard alone", keyboard)
	t.Run("a stream that was cut loses nothing", cutStream)
	t.Run("without JavaScript", withoutScript)
	t.Run("times are those of the reader, and a page in the background notifies", background)
	t.Run("a recording is played back", playback)
	t.Run("no page is wider than a phone", phone)
	t.Run("text of agents is never HTML", hostileText)
	t.Run("axe finds nothing serious", axe)
}

func twoBrowsers(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	a, b := newBrowser(t).tab(), newBrowser(t).tab()
	a.signIn(s.link())
	b.signIn(s.link())
	a.sees("live")
	b.sees("live")
	for n := range 5 {
		held := s.hold("planner", "builder", fmt.Sprintf("request number %d", n))
		button := fmt.Sprintf(`document.querySelector('#held-%s form[action="/do/%%s"] button')`, held)
		approve, deny := fmt.Sprintf(button, "approve"), fmt.Sprintf(button, "deny")
		a.until("the request is in one browser", "!!"+approve)
		b.until("the request is in the other browser", "!!"+deny)
		var both sync.WaitGroup
		both.Go(func() { eval[any](a, approve+".click()") })
		both.Go(func() { eval[any](b, deny+".click()") })
		both.Wait()
		a.sees("Nothing is waiting for you")
		b.sees("Nothing is waiting for you")
	}
	decisions := 0
	for _, e := range do(s, s.operator, api.Audit, api.AuditParams{Limit: 1000}).Entries {
		if e.Action == actions.MessageApproved || e.Action == actions.MessageDenied {
			decisions++
		}
	}
	if decisions != 5 {
		t.Errorf("%d decisions are in the journal, want 5", decisions)
	}
}

func noSecretInHistory(t *testing.T) {
	s := newSite(t, server.Options{})
	p, link := newBrowser(t).tab(), s.link()
	p.signIn(link)
	history, err := chromedp.Run(p.ctx, chromedp.NavigationEntries())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	if len(history.Entries) == 0 || strings.Contains(string(raw), link.Code) {
		t.Errorf("the history holds the code: %s", raw)
	}
	if got := eval[string](p, "document.cookie"); got != "" {
		t.Errorf("a script can read the cookie: %q", got)
	}
}

func otherPort(t *testing.T) {
	s := newSite(t, server.Options{})
	var mu sync.Mutex
	var cookies, referrers []string
	requests := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		cookies = append(cookies, r.Header["Cookie"]...)
		if from := r.Header.Get("Referer"); strings.Contains(from, strings.TrimPrefix(s.page, "http://")) {
			referrers = append(referrers, from)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<img src="%s/assets/app.js"><form id="f" method="post" action="%s/do/pause-all"><input name="token" value="x"></form>other`, s.page, s.page)
	}))
	defer other.Close()
	p := newBrowser(t).tab()
	p.signIn(s.link())
	port := other.URL[strings.LastIndex(other.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "localhost", "evil.localhost"} {
		p.open("http://" + host + port + "/")
		p.sees("other")
	}
	mu.Lock()
	if requests < 3 || len(cookies) > 0 || len(referrers) > 0 {
		t.Errorf("%d requests with cookies %v and referrers %v, want none", requests, cookies, referrers)
	}
	mu.Unlock()
	// A form of the other page is not signed in here: the cookie is strict.
	eval[any](p, "document.getElementById('f').submit()")
	p.sees("sign in with: parley open")
}

func keyboard(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	held := s.hold("planner", "builder", "May I?")
	p := newBrowser(t).tab()
	p.signIn(s.link())
	p.sees("live")
	for range 60 {
		p.run(chromedp.KeyEvent("\t"))
		if eval[bool](p, fmt.Sprintf(`document.activeElement.matches('#held-%s form[action="/do/approve"] button')`, held)) {
			visible := eval[string](p, "getComputedStyle(document.activeElement).outlineStyle")
			if visible == "none" {
				t.Error("the focus cannot be seen")
			}
			p.run(chromedp.KeyEvent("\r"))
			p.sees("Nothing is waiting for you")
			return
		}
	}
	t.Error("60 tabs do not lead to the button")
}

func background(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	s.send("planner", "builder", "hello")
	p := newBrowser(t).tab()
	command(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
	command(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.notices = [];
		window.Notification = class { constructor(title, o) { notices.push(title + ": " + o.body); } static permission = "granted"; };
		Object.defineProperty(document, "hidden", { get: () => !!window.away });`})
	p.signIn(s.link())
	p.sees("live")
	at := do(s, s.operator, api.Query, api.QueryParams{Limit: 1}).Messages[0].CreatedAt.In(time.FixedZone("", (5*60+45)*60))
	p.until("the time is that of the reader's zone", fmt.Sprintf("[...document.querySelectorAll('time')].some(t => t.title.includes(%q))", at.Format(":04:05")))
	p.until("the time says how long ago", "[...document.querySelectorAll('time')].every(t => /now|ago|in /.test(t.textContent))")
	s.hold("planner", "builder", "first")
	p.until("the number is in the title", "document.title.startsWith('(1)')")
	if got := eval[int](p, "notices.length"); got != 0 {
		t.Errorf("a page that is seen gave %d notices", got)
	}
	eval[any](p, "window.away = true; document.dispatchEvent(new Event('visibilitychange'))")
	s.hold("planner", "builder", "second")
	p.until("the notice tells how much waits", "notices.length === 1 && notices[0] === 'Parley: 2 items are waiting for you.'")
}

func playback(t *testing.T) {
	s := newSite(t, server.Options{}, "tester")
	id := runDemo(s)
	p := newBrowser(t).tab()
	p.signIn(s.link())
	p.open(s.page + "/runs/" + string(id))
	p.until("the player is there", "!!document.querySelector('.player:not([hidden])')")
	p.until("everything is shown at first", "document.querySelectorAll('.replay li').length > 3 && !document.querySelector('.replay li.later')")
	eval[any](p, "const r = document.querySelector('.player input'); r.value = 0; r.dispatchEvent(new Event('input', {bubbles: true}))")
	p.until("the beginning has few steps", "document.querySelectorAll('.replay li.later').length > 0")
	p.click("[data-play]")
	p.until("it plays to its end", "!document.querySelector('.replay li.later') && document.querySelector('[data-play]').textContent === 'Play'")
}

func phone(t *testing.T) {
	one, two := demoSite(t), pairSite(t)
	p := newBrowser(t).tab()
	p.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	for _, s := range []*site{one, two} {
		v := s.visitor()
		v.signIn(s.link())
		p.signIn(s.link())
		for address := range v.crawl() {
			if strings.HasPrefix(address, "/assets") || strings.HasPrefix(address, "/journal/") {
				continue
			}
			p.open(s.page + address)
			if wide := eval[int](p, "document.documentElement.scrollWidth"); wide > 360 {
				t.Errorf("%s is %d pixels wide: %s", address, wide, eval[string](p, "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 365).slice(0, 5).map(e => e.tagName + '.' + e.className).join(' ')"))
			}
		}
	}
}

// A relay passes connections on to the hub, and can cut them.
type relay struct {
	net.Listener
	to    string
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.set(true)
		all.Wait()
	})
	return r
}

func (r *relay) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer out.Close()
	r.mu.Lock()
	if r.cut {
		r.mu.Unlock()
		return
	}
	r.conns[in], r.conns[out] = true, true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(out, in)
		out.Close()
	}()
	io.Copy(in, out)
	in.Close()
	<-done
}

// set cuts every connection and refuses new ones, or lets them pass again.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	if cut {
		for c := range r.conns {
			c.Close()
		}
		clear(r.conns)
	}
}

func cutStream(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	r := newRelay(t, strings.TrimPrefix(s.url, "http://"))
	link := s.link()
	_, port, _ := net.SplitHostPort(r.Addr().String())
	link.URL = s.page[:strings.LastIndex(s.page, ":")] + ":" + port + "/sign-in"
	p := newBrowser(t).tab()
	p.signIn(link)
	first := s.send("planner", "builder", "before the cut")
	p.open(strings.TrimSuffix(link.URL, "/sign-in") + "/conversations/" + string(first))
	p.sees("live")
	before := eval[string](p, "document.body.dataset.seq")
	r.set(true)
	p.sees("reconnecting")
	for n := range 8 {
		do(s, s.as("builder"), api.Send, api.SendParams{To: api.Recipients{"planner"}, Text: fmt.Sprintf("said while cut %d", n), ThreadID: string(first)})
	}
	r.set(false)
	for n := range 8 {
		p.sees(fmt.Sprintf("said while cut %d", n))
	}
	p.sees("live")
	if got := eval[int](p, "document.querySelectorAll('.chat > li').length"); got != 9 {
		t.Errorf("the page shows %d messages, want 9", got)
	}
	if after := eval[string](p, "document.body.dataset.seq"); after == before {
		t.Errorf("the id of the last event is still %s", after)
	}
	do(s, s.as("builder"), api.Send, api.SendParams{To: api.Recipients{"planner"}, Text: "after the cut", ThreadID: string(first)})
	p.sees("after the cut")
}

func withoutScript(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	held := s.hold("planner", "builder", "May I?")
	p := newBrowser(t).tab()
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.open(s.page + "/")
	p.run(chromedp.SendKeys(chromedp.CSS("#code"), s.link().Code), chromedp.Click(chromedp.CSS("form button.main")), chromedp.WaitVisible(chromedp.CSS("nav")))
	p.run(chromedp.Click(chromedp.CSS(fmt.Sprintf(`#held-%s form[action="/do/approve"] button`, held))), chromedp.WaitVisible(chromedp.CSS(".empty")))
	if got := do(s, s.as("builder"), api.Inbox, api.InboxParams{}); len(got.Messages) != 1 {
		t.Errorf("builder has %d messages after the approval, want 1", len(got.Messages))
	}
	for _, path := range []string{"/conversations", "/handoffs", "/teams", "/files", "/runs", "/contracts", "/journal", "/health"} {
		p.open(s.page + path)
		p.run(chromedp.WaitVisible(chromedp.CSS("main h1")))
	}
}

// corpus are texts that become scripts or markup where HTML is not escaped.
var corpus = []string{
	`<script>window.hacked=1</script>`, `<img src=x onerror="window.hacked=1">`, `"><svg onload=window.hacked=1>`, `'-window.hacked=1-'`, `javascript:window.hacked=1`,
	`</title><script>window.hacked=1</script>`, `{{.Data}}${window.hacked=1}`, `<iframe srcdoc="<script>parent.hacked=1</script>">`, "<a href=javascript:window.hacked=1>x</a>",
	`</textarea><script>window.hacked=1</script>`, `<style>*{display:none}</style>`, `<base href=//evil.example>`, `<!--`, `]]>`, "\u202etxt.exe", `<math><mtext><img src=x onerror=window.hacked=1>`,
	`&lt;script&gt;window.hacked=1&lt;/script&gt;`, `<form action=//evil.example><button>`, "<meta http-equiv=refresh content='0;url=//evil.example'>",
}

func hostileText(t *testing.T) {
	s := newSite(t, server.Options{Limits: server.Limits{Unsafe: true}, Coordination: server.Coordination{Repo: "backend"}}, "planner", "builder")
	for n, bad := range corpus {
		quoted, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		try := func(p api.SendParams) {
			p.To = api.Recipients{"builder"}
			if n%3 == 0 {
				p.To = api.Recipients{"operator"}
			}
			if _, err := rpc.Call(t.Context(), s.as("planner"), api.Send, p); hub.CodeOf(err) == hub.CodeInternal {
				t.Errorf("send %q: %v", bad, err)
			}
		}
		try(api.SendParams{Text: bad, Topic: bad})
		try(api.SendParams{Type: hub.TypeStatusUpdate, Payload: []byte(`{"summary":` + string(quoted) + `,"detail":` + string(quoted) + `,"blockers":[` + string(quoted) + `]}`)})
		try(api.SendParams{Text: bad, ThreadID: "t" + bad})
		params := api.HandoffParams{
			Action: "initiate", To: "builder", TaskID: fmt.Sprintf("T-%d", n), Title: "x " + bad, Objective: bad, Summary: bad + " and more words", NextStep: bad, Criteria: []string{bad}, Reason: bad, NeedsHuman: n%2 == 0,
		}
		do(s, s.operator, api.Handoff, params)
	}
	id := hub.RunID(hub.NewIDs(time.Now).Next())
	do(s, s.operator, api.BeginRun, api.RunParams{ID: id, Agent: "builder", Task: strings.Join(corpus, " "), Dir: "/tmp/" + corpus[1], TimeoutS: 60})
	report, err := json.Marshal(map[string]any{"summary": corpus, "status": corpus[0], corpus[1]: corpus[2]})
	if err != nil {
		t.Fatal(err)
	}
	do(s, s.operator, api.MoveRun, api.RunMoveParams{ID: id, State: hub.RunRunning, Session: corpus[1]})
	do(s, s.operator, api.MoveRun, api.RunMoveParams{ID: id, State: hub.RunChecking})
	do(s, s.operator, api.EndRun, api.RunEndParams{ID: id, RunEnding: api.RunEnding{State: hub.RunDone, StopReason: corpus[0], Verdict: hub.RunContradicted, Report: report,
		Contradictions: []hub.Contradiction{{Kind: corpus[1], Claim: corpus[2], Found: corpus[0]}},
		Evidence:       []byte(`{"diff":{"created":["<img src=x onerror=window.hacked=1>"]},"verify":{"command":"<script>window.hacked=1</script>","output_tail":"<img src=x onerror=window.hacked=1>"}}`),
	}})
	project := do(s, s.operator, coordination.CreateProject, coordination.NewProject{Name: corpus[0], Objective: corpus[1], Repos: []coordination.NewRepo{{Name: "backend", Role: "backend", Language: "go"}}}).Project
	in := coordination.InProject{Project: project}
	do(s, s.operator, coordination.JoinProject, coordination.JoinParams{InProject: in, Repo: "backend"})
	do(s, s.operator, coordination.Propose, contract.Proposal{InProject: in, Type: coord.ContractAPI, Name: corpus[1], Content: []byte(`{"method":"<script>window.hacked=1</script>","path":"<img src=x onerror=window.hacked=1>"}`)})
	s.team("", api.TeamParams{Action: "create", Team: "bad", Name: corpus[0], Objective: strings.Join(corpus, " "), Members: []team.Seat{{Agent: "planner", Role: hub.RoleCoordinator}, {Agent: "builder", Role: hub.RoleExecutor}}})
	s.team("", api.TeamParams{Action: "task", Team: "bad", Title: corpus[1]})
	s.team("planner", api.TeamParams{Action: "decide", Team: "bad", Title: corpus[0], Decision: corpus[9], Rationale: corpus[1]})
	for i, as := range []hub.AgentID{"planner", "planner", "builder"} { // the third is in conflict with the second
		parent, text := int64(min(i, 1)), strings.Join(corpus, fmt.Sprintf(" %d\n", i))
		s.team(as, api.TeamParams{Action: "artifact", Team: "bad", Artifact: "a.html", ParentVersion: &parent, Content: &text, Note: corpus[9]})
	}
	v := s.visitor()
	v.signIn(s.link())
	addresses := v.crawl()
	if addresses["/teams/bad/merge/a.html?beside=3"] == "" {
		t.Error("the conflict is not among the pages")
	}
	p := newBrowser(t).tab()
	p.signIn(s.link())
	seen := 0
	for address := range addresses {
		if strings.HasPrefix(address, "/assets") || strings.HasPrefix(address, "/journal/") {
			continue
		}
		seen++
		p.open(s.page + address)
		if bad := eval[string](p, `[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on') || /^\s*javascript:/i.test(a.value) && ['href','src','action'].includes(a.name)) || e.matches('main script, main style, iframe, base, main meta, math, form[action*="evil"]')).map(e => e.outerHTML.slice(0, 200)).join('\n') + (window.hacked ? ' hacked' : '')`); bad != "" {
			t.Errorf("%s: %s", address, bad)
		}
	}
	if seen < 20 {
		t.Errorf("%d pages were looked at, want at least 20", seen)
	}
}

func axe(t *testing.T) {
	file := filepath.Join("..", "..", "..", ".cache", "axe", "node_modules", "axe-core", "axe.min.js")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: scripts/axe fetches it", err)
	}
	s, two := demoSite(t), pairSite(t)
	p := newBrowser(t).tab()
	check := func(s *site, addresses ...string) {
		for _, scheme := range []string{"light", "dark"} {
			command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			for _, address := range addresses {
				p.open(s.page + address)
				eval[any](p, string(source)+";undefined")
				if found := eval[string](p, `axe.run().then(r => r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical').map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary).join(' | ')).join('\n'))`); found != "" {
					t.Errorf("%s, %s:\n%s", address, scheme, found)
				}
			}
		}
	}
	check(s, "/sign-in")
	p.signIn(s.link())
	v := s.visitor()
	v.signIn(s.link())
	handoff := do(s, s.operator, api.Handoff, api.HandoffParams{Action: "list", State: hub.HandoffCompleted}).Listing.Handoffs
	if len(handoff) == 0 {
		handoff = do(s, s.operator, api.Handoff, api.HandoffParams{Action: "list"}).Listing.Handoffs
	}
	message := do(s, s.operator, api.Query, api.QueryParams{Limit: 1}).Messages[0]
	run := do(s, s.operator, api.ListRuns, api.RunListParams{}).Runs[0]
	check(s, "/", "/agents/planner", "/conversations", "/conversations/"+message.ThreadID, "/messages/"+string(message.ID), "/handoffs", "/handoffs/"+string(handoff[0].ID), "/files", "/runs", "/runs/"+string(run.ID), "/journal", "/journal/verify", "/health",
		"/teams", "/teams/avatars", "/teams/avatars?state=blocked", "/teams/avatars/artifacts/config/rollout.toml?version=2&from=1", "/teams/avatars/merge/config/rollout.toml")
	p.signIn(two.link())
	w := two.visitor()
	w.signIn(two.link())
	paths := []string{"/contracts"}
	for address := range w.crawl() {
		if strings.HasPrefix(address, "/contracts/") {
			paths = append(paths, address)
		}
	}
	check(two, paths...)
}
