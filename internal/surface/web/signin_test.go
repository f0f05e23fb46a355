package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// A visitor is a browser without JavaScript.
type visitor struct {
	s      *site
	http   *http.Client
	page   string // under the name of its session
	cookie string
	token  string
}

func (s *site) visitor() *visitor {
	// The machine need not know that names ending in .localhost are itself.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.url, "http://"))
	}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &visitor{s: s, page: s.page, http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type answer struct {
	*http.Response
	body string
}

// request makes a request. A header without a value is left out.
func (v *visitor) request(method, address string, form url.Values, header map[string]string) answer {
	v.s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(v.s.t.Context(), method, address, body)
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", v.page)
	}
	if v.cookie != "" {
		req.Header.Set("Cookie", "parley="+v.cookie)
	}
	for name, value := range header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	res, err := v.http.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		v.s.t.Fatal(err)
	}
	return answer{res, string(raw)}
}

func (v *visitor) get(path string) answer {
	v.s.t.Helper()
	return v.request(http.MethodGet, v.page+path, nil, nil)
}

// status returns the status of an address, whose body may have no end.
func (v *visitor) status(path string) int {
	v.s.t.Helper()
	req, err := http.NewRequestWithContext(v.s.t.Context(), http.MethodGet, v.page+path, nil)
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.Header.Set("Cookie", "parley="+v.cookie)
	res, err := v.http.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

var tokenField = regexp.MustCompile(`name="token" value="([0-9a-f]+)"`)

// signIn exchanges the code of a link on its own page, and keeps the cookie and the token of
// forms.
func (v *visitor) signIn(link api.WebLink) answer {
	v.s.t.Helper()
	v.page = strings.TrimSuffix(link.URL, "/sign-in")
	got := v.request(http.MethodPost, link.URL, url.Values{"code": {link.Code}}, nil)
	for _, c := range got.Cookies() {
		v.cookie = c.Value
	}
	if v.cookie != "" {
		if m := tokenField.FindStringSubmatch(v.get("/").body); m != nil {
			v.token = m[1]
		}
	}
	return got
}

// do posts a change.
func (v *visitor) do(action string, form url.Values) answer {
	v.s.t.Helper()
	form.Set("token", v.token)
	return v.request(http.MethodPost, v.page+"/do/"+action, form, nil)
}

func TestSignIn(t *testing.T) {
	clock := new(hubtest.Clock)
	s := newSite(t, server.Options{Clock: clock.Now}, "planner")
	t.Run("a code works once", func(t *testing.T) {
		link, v := s.link(), s.visitor()
		got := v.signIn(link)
		if got.StatusCode != http.StatusOK || v.token == "" {
			t.Fatalf("sign-in: got %d, want 200 and a page with a token", got.StatusCode)
		}
		if got := s.visitor().signIn(link); got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) != 0 {
			t.Errorf("the same code again: got %d with cookies %v, want 401 without", got.StatusCode, got.Cookies())
		}
		if strings.Contains(link.URL, link.Code) {
			t.Errorf("the address %s holds the code", link.URL)
		}
	})
	t.Run("a code is too old after a minute", func(t *testing.T) {
		link := s.link()
		clock.Pass(61 * time.Second)
		if got := s.visitor().signIn(link); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d, want 401", got.StatusCode)
		}
	})
	t.Run("the cookie is bound to the host and to the site", func(t *testing.T) {
		got := s.visitor().signIn(s.link())
		want := regexp.MustCompile(`^parley=[A-Z2-7]{52}; Path=/; Expires=[^;]+; HttpOnly; SameSite=Strict$`)
		if cookie := got.Header.Get("Set-Cookie"); !want.MatchString(cookie) {
			t.Errorf("got %q, want it to match %s", cookie, want)
		}
	})
	t.Run("without a session nothing but the sign-in page is there", func(t *testing.T) {
		v := s.visitor()
		for _, path := range []string{"/", "/live?path=/", "/nothing", "/assets/app.js", "/metrics", "/methods", "/events", "/health"} {
			got := v.get(path)
			if got.StatusCode != http.StatusUnauthorized || strings.Contains(got.body, "planner") {
				t.Errorf("GET %s: got %d, want 401 without data:\n%.300s", path, got.StatusCode, got.body)
			}
		}
		if got := v.request(http.MethodPost, s.page+"/do/pause-all", url.Values{}, nil); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("a change: got %d, want 401", got.StatusCode)
		}
		if got := v.request(http.MethodPost, s.page+"/", url.Values{}, nil); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("JSON-RPC under the name of the page: got %d, want 401", got.StatusCode)
		}
	})
	t.Run("other names open nothing", func(t *testing.T) {
		v := s.visitor()
		v.signIn(s.link())
		for _, host := range []string{s.url, strings.Replace(s.url, "127.0.0.1", "localhost", 1), strings.Replace(s.page, "http://", "http://x", 1)} {
			for _, path := range []string{"/", "/sign-in", "/assets/app.css", "/live?path=/"} {
				got := v.request(http.MethodGet, host+path, nil, nil)
				if got.StatusCode < 400 || strings.Contains(got.body, "planner") || strings.Contains(got.body, strings.TrimPrefix(s.page, "http://")) {
					t.Errorf("GET %s%s: got %d, want an error that reveals nothing:\n%.300s", host, path, got.StatusCode, got.body)
				}
			}
		}
	})
	t.Run("a change needs the origin and the token", func(t *testing.T) {
		v := s.visitor()
		v.signIn(s.link())
		form := url.Values{"agent": {"planner"}, "token": {v.token}}
		for name, header := range map[string]map[string]string{
			"another origin": {"Origin": "http://evil.example"}, "no origin": {"Origin": ""}, "a file": {"Origin": "null"},
			"another port": {"Origin": "http://" + strings.Split(strings.TrimPrefix(s.page, "http://"), ":")[0] + ":1"},
		} {
			if got := v.request(http.MethodPost, s.page+"/do/pause", form, header); got.StatusCode != http.StatusSeeOther || !strings.Contains(v.get("/").body, "does not come from this page") {
				t.Errorf("%s: got %d, want a refusal", name, got.StatusCode)
			}
		}
		for name, token := range map[string]string{"no token": "", "another token": strings.Repeat("0", 32)} {
			form.Set("token", token)
			if v.request(http.MethodPost, s.page+"/do/pause", form, nil); !strings.Contains(v.get("/").body, "belongs to another session") {
				t.Errorf("%s was not refused", name)
			}
		}
		if a := do(s, s.operator, api.ListAgents, api.None{}).Agents; a[1].State != hub.AgentActive {
			t.Errorf("planner is %s after refused changes", a[1].State)
		}
		if v.do("pause", url.Values{"agent": {"planner"}}); do(s, s.operator, api.ListAgents, api.None{}).Agents[1].State != hub.AgentPaused {
			t.Error("planner is not paused after a change with origin and token")
		}
		v.do("resume", url.Values{"agent": {"planner"}})
	})
	t.Run("every answer carries the policy", func(t *testing.T) {
		v := s.visitor()
		for _, path := range []string{"/sign-in", "/", "/assets/app.css", "/nothing"} {
			h := v.get(path).Header
			if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q", path, csp)
			}
			if h.Get("Referrer-Policy") != "same-origin" {
				t.Errorf("%s: referrer policy %q", path, h.Get("Referrer-Policy"))
			}
		}
	})
	t.Run("no answer may be framed", func(t *testing.T) {
		stranger, v := s.visitor(), s.visitor()
		v.signIn(s.link())
		for _, path := range []string{"/sign-in", "/", "/assets/app.css", "/nothing"} {
			for name, h := range map[string]http.Header{"a stranger": stranger.get(path).Header, "an operator": v.get(path).Header} {
				if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" {
					t.Errorf("%s at %s: policy %q, and for older browsers %q", name, path, csp, h.Get("X-Frame-Options"))
				}
			}
		}
	})
	t.Run("a session is listed, revoked and expires", func(t *testing.T) {
		do(s, s.operator, api.RevokeWeb, api.WebRevokeParams{All: true})
		v, other := s.visitor(), s.visitor()
		v.signIn(s.link())
		other.signIn(s.link())
		list := do(s, s.operator, api.WebSessions, api.None{}).Sessions
		if len(list) != 2 || list[0].Hash != "" || list[0].Key != "" {
			t.Fatalf("sessions: got %+v, want two without hashes", list)
		}
		do(s, s.operator, api.RevokeWeb, api.WebRevokeParams{ID: list[0].ID})
		if got := v.get("/"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("a revoked session: got %d, want 401", got.StatusCode)
		}
		if got := other.get("/"); got.StatusCode != http.StatusOK {
			t.Errorf("the other session: got %d, want 200", got.StatusCode)
		}
		clock.Pass(12*time.Hour + time.Second)
		if got := other.get("/"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("after twelve hours: got %d, want 401", got.StatusCode)
		}
	})
	t.Run("signing out ends the session", func(t *testing.T) {
		v := s.visitor()
		v.signIn(s.link())
		v.request(http.MethodPost, s.page+"/sign-out", url.Values{"token": {v.token}}, nil)
		if got := v.get("/"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d, want 401", got.StatusCode)
		}
	})
	t.Run("the session of a further operator ends with the key", func(t *testing.T) {
		ana := do(s, s.operator, api.AddOperator, api.OperatorParams{Name: "ana"})
		v := s.visitor()
		v.signIn(do(s, rpc.NewOperator("", s.url, ana.Key, ""), api.OpenWeb, api.None{}))
		if got := v.get("/"); got.StatusCode != http.StatusOK || !strings.Contains(got.body, ">ana<") {
			t.Fatalf("got %d, want the page of ana", got.StatusCode)
		}
		do(s, s.operator, api.RemoveOperator, api.OperatorParams{Name: "ana"})
		if got := v.get("/"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("after the key was revoked: got %d, want 401", got.StatusCode)
		}
	})
	t.Run("agents make no links", func(t *testing.T) {
		if _, err := rpc.Call(t.Context(), s.as("planner"), api.OpenWeb, api.None{}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v, want %s", err, hub.CodeDenied)
		}
	})
}

func TestViewer(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	s.send("planner", "builder", "an ordinary word")
	do(s, s.as("planner"), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "the secret word", Policy: []byte(`{"visibility":"private","sensitivity":"high","human_gate":"required"}`)})
	v, operator := s.visitor(), s.visitor()
	v.signIn(s.invite("ben"))
	operator.signIn(s.link())
	t.Run("reads as an auditor does", func(t *testing.T) {
		if body := v.get("/").body; !strings.Contains(body, "an ordinary word") && !strings.Contains(body, "planner") {
			t.Errorf("the viewer does not see the messages:\n%.2000s", body)
		}
	})
	t.Run("text of high sensitivity is for operators", func(t *testing.T) {
		if body := v.get("/").body; strings.Contains(body, "the secret word") || !strings.Contains(body, "operators can read it") {
			t.Errorf("the viewer sees the text, or is not told of it:\n%.2000s", body)
		}
		if body := operator.get("/").body; !strings.Contains(body, "the secret word") {
			t.Error("the operator does not see the text")
		}
	})
	t.Run("an open page of an operator is not that of a viewer", func(t *testing.T) {
		one, other := operator.stream("/"), v.stream("/")
		if got := firstEvent(t, one.Body); !strings.Contains(got, "the secret word") {
			t.Errorf("the operator does not see the text: %.300s", got)
		}
		if got := firstEvent(t, other.Body); strings.Contains(got, "the secret word") || !strings.Contains(got, "operators can read it") {
			t.Errorf("the viewer sees the text, or is not told of it: %.300s", got)
		}
	})
	t.Run("the topic of a disagreement of high sensitivity is for operators", func(t *testing.T) {
		high := []byte(`{"visibility":"private","sensitivity":"high","human_gate":"none"}`)
		one := do(s, s.as("planner"), api.Send, api.SendParams{To: api.Recipients{"builder"}, Policy: high, Type: hub.TypePositionState,
			Payload: []byte(`{"topic":"the hidden topic","position":"yes","reasoning":"because","confidence":"high","open_to_revision":true}`)}).ID
		do(s, s.as("builder"), api.Inbox, api.InboxParams{})
		do(s, s.as("builder"), api.Send, api.SendParams{To: api.Recipients{"planner"}, ThreadID: string(one), Policy: high, Type: hub.TypePositionChallenge,
			Payload: []byte(`{"position_id":"` + string(one) + `","counter_position":"no","reasoning":"because","severity":"blocking"}`)})
		if body := v.get("/").body; strings.Contains(body, "the hidden topic") || !strings.Contains(body, `id="talk-`+string(one)) {
			t.Error("the viewer reads the topic, or does not see that a decision is due")
		}
		if body := operator.get("/").body; !strings.Contains(body, "the hidden topic") {
			t.Error("the operator does not read the topic")
		}
	})
	t.Run("changes nothing", func(t *testing.T) {
		m := regexp.MustCompile(`action="/sign-out"><input type="hidden" name="token" value="([0-9a-f]+)"`).FindStringSubmatch(v.get("/").body)
		v.token = m[1]
		for action, form := range map[string]url.Values{"pause": {"agent": {"planner"}}, "send": {"agent": {"planner"}, "text": {"hello"}}, "approve": {"id": {string(do(s, s.operator, api.ListHeld, api.None{}).Messages[0].ID)}}} {
			if got := v.do(action, form); got.StatusCode != http.StatusSeeOther || !strings.Contains(v.get("/").body, "viewers can only read") {
				t.Errorf("%s: got %d, want a refusal", action, got.StatusCode)
			}
		}
		if n := len(do(s, s.operator, api.ListHeld, api.None{}).Messages); n != 1 {
			t.Errorf("%d messages are held after the refusals, want 1", n)
		}
	})
	t.Run("invites and sign-ins are in the journal", func(t *testing.T) {
		var seen []string
		for _, e := range do(s, s.operator, api.Audit, api.AuditParams{Limit: 1000}).Entries {
			if strings.HasPrefix(string(e.Action), "web.") {
				seen = append(seen, string(e.Actor)+" "+string(e.Action))
			}
		}
		want := "operator web.invited, viewer:ben web.signed_in, operator web.signed_in"
		if got := strings.Join(seen, ", "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
