package web_test

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// A site is a hub with its page.
type site struct {
	t        testing.TB
	home     string
	url      string // of the hub
	page     string // of its page
	operator *rpc.Client
	keys     map[hub.AgentID]string
	thread   string // of the demo, with several messages
}

// newSite starts a hub with agents.
func newSite(t testing.TB, o server.Options, agents ...hub.AgentID) *site {
	t.Helper()
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	o.Addr = "127.0.0.1:0"
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	hubServer, err := server.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hubServer.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	key, err := os.ReadFile(filepath.Join(o.Home, server.OperatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, home: o.Home, url: hubServer.URL(), keys: map[hub.AgentID]string{}}
	s.operator = rpc.NewOperator("", s.url, strings.TrimSpace(string(key)), "")
	for _, id := range agents {
		s.keys[id] = do(s, s.operator, api.AddAgent, api.AgentParams{ID: id}).Key
	}
	s.page = strings.TrimSuffix(s.link().URL, "/sign-in")
	return s
}

// do calls an operation of the hub.
func do[S, P, R any](s *site, c *rpc.Client, o rpc.Operation[S, P, R], params P) R {
	s.t.Helper()
	got, err := rpc.Call(s.t.Context(), c, o, params)
	if err != nil {
		s.t.Fatalf("%s: %v", o.Method, err)
	}
	return got
}

func (s *site) as(agent hub.AgentID) *rpc.Client { return rpc.NewClient(s.url, s.keys[agent], "", nil) }

func (s *site) link() api.WebLink { return do(s, s.operator, api.OpenWeb, api.None{}) }

// invite returns a link for a viewer.
func (s *site) invite(name string) api.WebLink {
	return do(s, s.operator, api.InviteWeb, api.WebInviteParams{Name: name})
}

// send sends a text and returns its id.
func (s *site) send(from, to hub.AgentID, text string) hub.EnvelopeID {
	s.t.Helper()
	return do(s, s.as(from), api.Send, api.SendParams{To: api.Recipients{to}, Text: text}).ID
}

// hold sends a text that waits for the operator.
func (s *site) hold(from, to hub.AgentID, text string) hub.EnvelopeID {
	s.t.Helper()
	return do(s, s.as(from), api.Send, api.SendParams{To: api.Recipients{to}, Text: text, Policy: []byte(`{"visibility":"private","sensitivity":"low","human_gate":"required"}`)}).ID
}

// chromium returns the browser. Without one a test is skipped, and with CI=true it fails.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("chromium is not installed: scripts/chromium installs it")
	}
	t.Skip("chromium is not installed: scripts/chromium installs it")
	return ""
}

// A browser is a Chromium with a profile of its own.
type browser struct {
	t   testing.TB
	ctx context.Context
}

// newBrowser starts a browser. Its sandbox is off for root, who cannot have one.
func newBrowser(t testing.TB, options ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), append(opts, options...)...)
	ctx, cancelTabs := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits for the process
		cancelTabs()
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &browser{t: t, ctx: ctx}
}

// A tab is one page of a browser. Violations of the page's policy and errors of its
// scripts fail the test.
type tab struct {
	t   testing.TB
	ctx context.Context
}

func (b *browser) tab() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	p := &tab{b.t, ctx}
	p.run()
	var watch sync.WaitGroup
	problem := func(what string) {
		if ctx.Err() == nil {
			b.t.Error(what)
		}
	}
	issues, thrown := chromedp.Events(ctx, audits.IssueAdded), chromedp.Events(ctx, runtime.ExceptionThrown)
	watch.Go(func() {
		for e, err := range issues {
			if err != nil {
				return
			}
			if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
				problem(fmt.Sprintf("the policy was violated: %s %s", d.ViolatedDirective, d.BlockedURL))
			}
		}
	})
	watch.Go(func() {
		for e, err := range thrown {
			if err != nil {
				return
			}
			problem("a script failed: " + e.ExceptionDetails.Text)
		}
	})
	b.t.Cleanup(func() {
		cancel()
		watch.Wait()
	})
	command(p, audits.Enable, cdp.Empty{})
	command(p, runtime.Enable, cdp.Empty{})
	return p
}

// command sends a command of the browser's protocol.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	got, err := chromedp.Call(p.ctx, c, params)
	if err != nil {
		p.t.Fatalf("%s: %v", c.Method, err)
	}
	return got
}

// patient bounds a wait.
func (p *tab) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.ctx, patience.For(20*time.Second))
}

// run performs actions within the patience of a test. An action whose element was
// replaced between finding and using it has not happened, and is performed again.
func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx); err != nil { // the first call on a context must not end
		p.t.Fatal(err)
	}

	ctx, cancel := p.patient()
	defer cancel()
	for _, action := range actions {
		err := chromedp.Do(ctx, action)
		for replaced(err) && ctx.Err() == nil {
			err = chromedp.Do(ctx, action)
		}
		if err != nil {
			p.t.Fatalf("%v; the page says:\n%.3000s", err, p.text())
		}
	}
}

// replaced reports whether the page was rendered anew while an action looked for its
// element: the browser no longer knows the node.
func replaced(err error) bool {
	refused, ok := errors.AsType[*cdproto.Error](err)
	return ok && strings.Contains(refused.Message, "node with given id")
}

// text returns what the page says.
func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// open loads an address of the page.
func (p *tab) open(address string) {
	p.t.Helper()
	p.run(chromedp.Navigate(address))
}

// signIn opens the page as parley open does: with a file that posts the code.
func (p *tab) signIn(link api.WebLink) {
	p.t.Helper()
	page := template.Must(template.New("").Parse(`<form method="post" action="{{.URL}}"><input type="hidden" name="code" value="{{.Code}}"></form><script>document.forms[0].submit()</script>`))
	var b strings.Builder
	if err := page.Execute(&b, link); err != nil {
		p.t.Fatal(err)
	}
	file := filepath.Join(p.t.TempDir(), "open.html")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.open("file://" + file)
	p.until("the navigation is there", "!!document.querySelector('nav')")
}

// until waits until an expression is true. It asks again and again, because the page may
// be replaced meanwhile.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("not so: %s (%v); the page says:\n%.3000s", what, err, p.text())
		}
	}
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the page shows %q", text), fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// click clicks the element of a selector.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return out
}
