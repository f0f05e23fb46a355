package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/server"
)

// label returns the host name of a link, without the port.
func label(t testing.TB, link api.WebLink) string {
	t.Helper()
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Hostname()
}

func TestLabels(t *testing.T) {
	s := newSite(t, server.Options{}, "planner")
	ana := do(s, s.operator, api.AddOperator, api.OperatorParams{Name: "ana"}).Key
	asAna := rpc.NewOperator("", s.url, ana, "")
	operator, viewer := s.visitor(), s.visitor()
	operator.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	t.Run("each operator and each invite has a name of its own", func(t *testing.T) {
		names := map[string]bool{}
		for _, link := range []api.WebLink{s.link(), do(s, asAna, api.OpenWeb, api.None{}), s.invite("ben"), s.invite("ben"), s.invite("eve")} {
			names[label(t, link)] = true
		}
		if len(names) != 5 {
			t.Errorf("five links have the names %v, want five", names)
		}
	})
	t.Run("an operator keeps the name", func(t *testing.T) {
		was := label(t, do(s, asAna, api.OpenWeb, api.None{}))
		if got := label(t, do(s, asAna, api.OpenWeb, api.None{})); got != was {
			t.Errorf("a second link: got %s, want %s", got, was)
		}
	})
	t.Run("a session is valid under its own name alone", func(t *testing.T) {
		for name, v := range map[string]visitor{
			"the operator's cookie under the viewer's name": {s: s, http: operator.http, cookie: operator.cookie, token: operator.token, page: viewer.page},
			"the viewer's cookie under the operator's name": {s: s, http: viewer.http, cookie: viewer.cookie, token: viewer.token, page: operator.page},
		} {
			for _, path := range []string{"/", "/journal/export", "/assets/app.js"} {
				if got := v.get(path); got.StatusCode != http.StatusUnauthorized || strings.Contains(got.body, "planner") {
					t.Errorf("%s: GET %s: got %d, want 401", name, path, got.StatusCode)
				}
			}
			if got := v.status("/live?path=/"); got != http.StatusUnauthorized {
				t.Errorf("%s: the stream: got %d, want 401", name, got)
			}
			got := v.request(http.MethodPost, v.page+"/do/pause", url.Values{"agent": {"planner"}, "token": {v.token}}, nil)
			if got.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: a change: got %d, want 401", name, got.StatusCode)
			}
		}
		for name, v := range map[string]*visitor{"operator": operator, "viewer": viewer} {
			if got := v.get("/"); got.StatusCode != http.StatusOK {
				t.Errorf("the %s under the own name: got %d, want 200", name, got.StatusCode)
			}
		}
	})
	t.Run("a name that the hub did not make shows the sign-in page", func(t *testing.T) {
		v := *operator
		v.page = strings.Replace(s.page, strings.TrimSuffix(label(t, s.link()), ".localhost"), strings.Repeat("a", 26), 1)
		if got := v.get("/"); got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.body, `action="/sign-in"`) {
			t.Errorf("got %d, want the sign-in page", got.StatusCode)
		}
	})
	t.Run("a code works under its own name alone", func(t *testing.T) {
		for name, link := range map[string]api.WebLink{"operator": s.link(), "viewer": s.invite("eve")} {
			for _, page := range []string{operator.page, viewer.page, strings.TrimSuffix(s.invite("dan").URL, "/sign-in")} {
				v := s.visitor()
				v.page = page
				if strings.HasPrefix(link.URL, page) {
					continue
				}
				got := v.request(http.MethodPost, page+"/sign-in", url.Values{"code": {link.Code}}, nil)
				if got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) > 0 {
					t.Errorf("the code of the %s at %s: got %d with %v, want 401 without a cookie", name, page, got.StatusCode, got.Cookies())
				}
			}
			if got := s.visitor().signIn(link); got.StatusCode != http.StatusOK {
				t.Errorf("the code of the %s at its own name afterwards: got %d, want 200", name, got.StatusCode)
			}
		}
	})
	t.Run("a code is taken from its own page", func(t *testing.T) {
		own := strings.TrimSuffix(s.link().URL, "/sign-in")
		for _, origin := range []string{"", "http://evil.example", "http://127.0.0.1:1", "http://" + label(t, s.link()) + ":1", strings.Replace(own, "http:", "https:", 1), "file://", "NULL"} {
			for name, link := range map[string]api.WebLink{"operator": s.link(), "viewer": s.invite("eve")} {
				got := s.visitor().request(http.MethodPost, link.URL, url.Values{"code": {link.Code}}, map[string]string{"Origin": origin})
				if got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
					t.Errorf("the %s from %q: got %d with %v, want 403 without a cookie", name, origin, got.StatusCode, got.Cookies())
				}
			}
		}
	})
	t.Run("a page without an origin signs an operator in and no viewer", func(t *testing.T) {
		for name, tt := range map[string]struct {
			link api.WebLink
			want int
		}{"operator": {s.link(), http.StatusOK}, "viewer": {s.invite("eve"), http.StatusForbidden}} {
			got := s.visitor().request(http.MethodPost, tt.link.URL, url.Values{"code": {tt.link.Code}}, map[string]string{"Origin": "null"})
			if got.StatusCode != tt.want || (len(got.Cookies()) > 0) != (tt.want == http.StatusOK) {
				t.Errorf("%s: got %d with %v, want %d", name, got.StatusCode, got.Cookies(), tt.want)
			}
		}
	})
	t.Run("no page and no list tells a viewer's reader the name of an operator", func(t *testing.T) {
		secret := strings.TrimSuffix(label(t, s.link()), ".localhost")
		for address, body := range viewer.crawl() {
			if strings.Contains(body, secret) {
				t.Errorf("%s has the operator's name", address)
			}
		}
		for _, one := range do(s, s.operator, api.WebSessions, api.None{}).Sessions {
			if one.Label != "" || one.Hash != "" || one.Key != "" {
				t.Errorf("the list has %+v", one)
			}
		}
	})
}

// Before names were separate, a session had none.
func TestSessionsWithoutNameEnd(t *testing.T) {
	home := t.TempDir()
	var cookie, page string
	t.Run("sign in", func(t *testing.T) { // the hub stops with the subtest
		s := newSite(t, server.Options{Home: home})
		v := s.visitor()
		v.signIn(s.link())
		cookie, page = v.cookie, v.page
	})
	store, err := sqlite.Open(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		open, err := hub.ReadMeta[[]signin.Session](tx, "web.sessions")
		if err != nil || len(open) != 1 || open[0].Label == "" {
			t.Errorf("stored: %+v, %v, want one session with a name", open, err)
			return err
		}
		open[0].Label = ""
		return hub.WriteMeta(tx, "web.sessions", open)
	})
	if closed := store.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	s := newSite(t, server.Options{Home: home})
	v := s.visitor()
	v.cookie = cookie
	v.page = page[:strings.LastIndex(page, ":")] + s.url[strings.LastIndex(s.url, ":"):]
	if v.page != s.page {
		t.Errorf("after a restart the page is %s, want %s", s.page, v.page)
	}
	if got := v.get("/"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d, want 401", got.StatusCode)
	}
	if got := do(s, s.operator, api.WebSessions, api.None{}).Sessions; len(got) != 0 {
		t.Errorf("listed: %+v", got)
	}
}

// A listener is a program on another port of the machine, which keeps the cookies that
// browsers send it.
type listener struct {
	*httptest.Server
	mu       sync.Mutex // guards the fields below
	requests int
	cookies  []string
}

func newListener(t *testing.T) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.requests++
		l.cookies = append(l.cookies, r.Header["Cookie"]...)
		l.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		// The second request is one of this site: a strict cookie of the name goes with it.
		fmt.Fprint(w, `<img src="/second"><a id="go" href="/third">go</a><p>listens</p><script>fetch("/fourth", {credentials: "include"}).then(() => document.title = "asked")</script>`)
	}))
	t.Cleanup(l.Close)
	return l
}

// TestOtherPorts is the attack of a viewer with an account on the machine: a link to
// another port under the viewer's own name, which the operator opens.
func TestOtherPorts(t *testing.T) {
	s := newSite(t, server.Options{}, "planner")
	l := newListener(t)
	port := l.URL[strings.LastIndex(l.URL, ":"):]
	mallory := s.invite("mallory")
	names := map[string]string{"the viewer's own name": label(t, mallory), "another invite": label(t, s.invite("eve")), "localhost": "localhost", "the address": "127.0.0.1"}
	p := newBrowser(t).tab()
	p.signIn(s.link())
	for what, name := range names {
		p.open("http://" + name + port + "/")
		p.until(what+" was asked again", "document.title === 'asked'")
		p.click("#go")
		p.until(what+" was asked once more", "location.pathname === '/third' && document.title === 'asked'")
	}
	l.mu.Lock()
	got, requests := l.cookies, l.requests
	l.mu.Unlock()
	if requests < 4*len(names) || len(got) > 0 {
		t.Errorf("%d requests brought the cookies %v, want none", requests, got)
	}
	t.Run("the operator is signed in as before", func(t *testing.T) {
		p.open(s.page + "/")
		p.until("the navigation is there", "!!document.querySelector('nav')")
	})
	t.Run("a cookie of the viewer is the viewer's", func(t *testing.T) {
		other := newBrowser(t).tab()
		other.open(mallory.URL)
		other.until("the sign-in page is there", "!!document.getElementById('code')")
		eval[any](other, fmt.Sprintf("document.getElementById('code').value = %q; document.querySelector('form button').click()", mallory.Code))
		other.sees("mallory (viewer)")
		other.open("http://" + label(t, mallory) + port + "/")
		other.until("the listener was asked", "document.title === 'asked'")
		l.mu.Lock()
		taken := l.cookies
		l.mu.Unlock()
		if len(taken) == 0 {
			t.Fatal("the listener got no cookie of its own name: this browser does not do what the attack needs")
		}
		for _, c := range taken {
			for _, page := range []string{s.page, strings.TrimSuffix(mallory.URL, "/sign-in")} {
				v := s.visitor()
				v.page, v.cookie = page, strings.TrimPrefix(c, "parley=")
				if body := v.get("/").body; strings.Contains(body, `action="/do/`) {
					t.Errorf("the cookie steers the hub at %s", page)
				}
			}
		}
	})
}

// A form leads back to a page of this site and nowhere else.
func TestBackIsLocal(t *testing.T) {
	s := newSite(t, server.Options{}, "planner")
	v := s.visitor()
	v.signIn(s.link())
	hostile := []string{
		"//evil.example", "//evil.example/", "//evil.example/handoffs", "///evil.example/handoffs", "/\\evil.example", "/\\evil.example/handoffs", "\\\\evil.example/handoffs", "\\/evil.example/handoffs",
		"http://evil.example/handoffs", "https:evil.example", "javascript:alert(1)", "/\t/evil.example/handoffs", "/\n/evil.example", "\t//evil.example/handoffs", " //evil.example/handoffs", "/\r\nX: y", "/handoffs\x00",
		"/%2f/evil.example", "/.//evil.example/handoffs", "/./\\evil.example", "/handoffs/..//evil.example/", "evil.example", "handoffs", "", "?q=1", "#x", "/\u0085/evil.example",
	}
	for _, back := range hostile {
		for name, form := range map[string]url.Values{
			"back after a change":  {"agent": {"planner"}, "back": {back}},
			"next after a change":  {"agent": {"planner"}, "back": {"/handoffs"}, "next": {back}},
			"back after a refusal": {"agent": {"nobody"}, "back": {back}},
		} {
			if name == "next after a change" && back == "" {
				continue // there is none
			}
			if got := v.do("reset", form); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/" {
				t.Errorf("%s: %q leads to %q with %d, want / with 303", name, back, got.Header.Get("Location"), got.StatusCode)
			}
		}
		if got := v.status("/live?path=" + url.QueryEscape(back)); got != http.StatusBadRequest && got != http.StatusNotFound {
			t.Errorf("the stream of %q: got %d, want a refusal", back, got)
		}
	}
	for _, back := range []string{"/", "/handoffs", "/conversations?q=a%2F%2Fb&agent=planner", "/agents/planner"} {
		if got := v.do("reset", url.Values{"agent": {"planner"}, "back": {back}}).Header.Get("Location"); got != back {
			t.Errorf("%s leads to %s", back, got)
		}
	}
}
