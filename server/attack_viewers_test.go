package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// A browser is a session of the hub's page, without a browser.
type browser struct {
	s      *scene
	host   string // the name under which the session was made
	cookie string
	client *http.Client
}

// request makes a request under a host name. It does not follow redirects.
func (b browser) request(method, host, path string, form url.Values, header map[string]string) *http.Response {
	t := b.s.t
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Accept", "text/html")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "http://"+host)
	}
	if b.cookie != "" {
		req.Header.Set("Cookie", "parley="+b.cookie)
	}
	for name, value := range header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// page returns a page under a host name.
func (b browser) page(host, path string) (int, string) {
	b.s.t.Helper()
	res := b.request(http.MethodGet, host, path, nil, nil)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// hostOf returns the host of a link.
func (s *scene) hostOf(link api.WebLink) string {
	u, err := url.Parse(link.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	return u.Host
}

// newBrowser signs a browser in with a link.
func (s *scene) newBrowser(link api.WebLink) browser {
	b := browser{s: s, host: s.hostOf(link), client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for _, c := range b.request(http.MethodPost, b.host, "/sign-in", url.Values{"code": {link.Code}}, nil).Cookies() {
		b.cookie = c.Value
	}
	if b.cookie == "" {
		s.t.Fatalf("%s is not signed in", link.URL)
	}
	s.t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// viewers is what a viewer with an account on the machine tries: other names and ports,
// codes and cookies of others, pages and streams. TestOtherPorts does the same in a real
// browser.
func (s *scene) viewers() {
	operator := s.as(s.operator)
	open := func() api.WebLink { return must(rpc.Call(s.t.Context(), operator, api.OpenWeb, api.None{}))(s.t) }
	invite := func(name string) api.WebLink {
		return must(rpc.Call(s.t.Context(), operator, api.InviteWeb, api.WebInviteParams{Name: name}))(s.t)
	}
	boss, mallory, eve := s.newBrowser(open()), s.newBrowser(invite("mallory")), s.newBrowser(invite("eve"))
	s.try(boss.host == mallory.host || eve.host == mallory.host, "a viewer has the name %s of another person", mallory.host)
	s.tryCookies(boss, mallory, eve)
	s.tryCodes(open, invite, boss, mallory)
	s.tryAddresses(boss)
	s.tryRestricted(mallory)
	s.tryStreams(mallory)
	s.tryDifference()
}

// tryCookies shows each session under the names of the others, and looks for names of others
// on pages.
func (s *scene) tryCookies(all ...browser) {
	port := s.url[strings.LastIndex(s.url, ":"):]
	names := []string{"localhost" + port, "127.0.0.1" + port, strings.Repeat("a", 26) + ".localhost" + port}
	for _, b := range all {
		names = append(names, b.host)
	}
	for _, b := range all {
		for _, host := range names {
			for _, path := range []string{"/", "/journal/export", "/conversations", "/assets/app.js"} {
				status, body := b.page(host, path)
				s.try(host != b.host && (status < 400 || strings.Contains(body, "mallory")), "a session of %s at %s%s: status %d", b.host, host, path, status)
			}
		}
		for _, path := range []string{"/", "/journal", "/health"} {
			_, body := b.page(b.host, path)
			for _, other := range all {
				name, _, _ := strings.Cut(other.host, ".")
				s.try(other.host != b.host && strings.Contains(body, name), "%s tells %s the name %s", path, b.host, name)
			}
		}
	}
}

// tryCodes posts codes under other names and from other pages.
func (s *scene) tryCodes(open func() api.WebLink, invite func(string) api.WebLink, boss, mallory browser) {
	stranger := browser{s: s, client: boss.client}
	for _, host := range []string{mallory.host, s.hostOf(invite("dan"))} {
		for _, origin := range []string{"http://" + host, "null"} {
			res := stranger.request(http.MethodPost, host, "/sign-in", url.Values{"code": {open().Code}}, map[string]string{"Origin": origin})
			s.try(len(res.Cookies()) > 0, "the operator's code at %s from %s", host, origin)
		}
	}
	res := stranger.request(http.MethodPost, boss.host, "/sign-in", url.Values{"code": {invite("dan").Code}}, nil)
	s.try(len(res.Cookies()) > 0, "a viewer's code at the operator's name")
	for _, origin := range []string{"", "null", "http://evil.example", "http://" + mallory.host, "http://127.0.0.1:1", "file://"} {
		link := invite("dan")
		res := stranger.request(http.MethodPost, s.hostOf(link), "/sign-in", url.Values{"code": {link.Code}}, map[string]string{"Origin": origin})
		s.try(len(res.Cookies()) > 0, "a viewer's code from %q", origin)
		if origin == "null" {
			continue // the file of parley open
		}
		link = open()
		res = stranger.request(http.MethodPost, s.hostOf(link), "/sign-in", url.Values{"code": {link.Code}}, map[string]string{"Origin": origin})
		s.try(len(res.Cookies()) > 0, "the operator's code from %q", origin)
	}
}

// tryAddresses has forms lead away.
func (s *scene) tryAddresses(boss browser) {
	for _, back := range []string{
		"//evil.example", "//evil.example/handoffs", "/\\evil.example/handoffs", "\\\\evil.example", "http://evil.example/", "/\t/evil.example/handoffs", "/\n/evil.example", "/./\\evil.example", "///evil.example", "javascript:alert(1)", "/%2f/evil.example",
	} {
		for _, field := range []string{"back", "next"} {
			res := boss.request(http.MethodPost, boss.host, "/do/pause", url.Values{"agent": {"nobody"}, field: {back}}, nil)
			s.try(res.Header.Get("Location") != "/", "%s %q leads to %q", field, back, res.Header.Get("Location"))
		}
	}
}

// tryRestricted looks for the text of a restricted package.
func (s *scene) tryRestricted(mallory browser) {
	const secret = "opensesame"
	made := must(rpc.Call(s.t.Context(), s.as(s.alice), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "bob", TaskID: "W-1", Title: secret + " title", Objective: secret, Summary: secret + " summary", NextStep: secret, Criteria: api.Criteria{secret}, Reason: secret, Classification: "restricted", NeedsHuman: true,
	}))(s.t).Report
	run := hub.RunID(hub.NewIDs(time.Now).Next())
	must(rpc.Call(s.t.Context(), s.as(s.operator), api.BeginRun, api.RunParams{ID: run, Agent: "bob", Task: secret + " task", Handoff: made.ID, TimeoutS: 60}))(s.t)
	for _, path := range []string{
		"/", "/handoffs", "/handoffs/" + string(made.ID), "/runs", "/runs/" + string(run), "/agents/bob", "/agents/alice", "/conversations", "/conversations/" + made.ThreadID, "/conversations?type=handoff.initiate", "/journal", "/journal/export", "/teams",
	} {
		_, body := mallory.page(mallory.host, path)
		s.try(strings.Contains(body, secret), "%s has restricted text", path)
	}
}

// tryStreams opens more streams than a session may have.
func (s *scene) tryStreams(mallory browser) {
	for i := range 60 {
		res := mallory.request(http.MethodGet, mallory.host, "/live?path="+url.QueryEscape(fmt.Sprintf("/conversations?q=%d", i)), nil, nil)
		s.try(i >= 20 && res.StatusCode != http.StatusTooManyRequests, "stream %d: status %d", i+1, res.StatusCode)
	}
	a := s.call(s.t, s.alice, "parley/whoami", `{}`)
	s.try(a.status != http.StatusOK, "a call beside the streams: status %d", a.status)
}

// tryDifference fills a worktree that the operator looks at with files.
func (s *scene) tryDifference() {
	repo := filepath.Join(s.root, "filled")
	for _, args := range [][]string{{"init", "-q", repo}, {"-C", repo, "-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			s.t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	id := must(rpc.Call(s.t.Context(), s.as(s.fresh()), api.Handoff, api.HandoffParams{
		Action: "initiate", To: "bob", TaskID: "V-2", Title: "fill", Summary: "fill it with files", NextStep: "fill", Criteria: api.Criteria{"full"}, Reason: "because", Worktree: repo,
	}))(s.t).Report.ID
	must(rpc.Call(s.t.Context(), s.as(s.bob), api.Handoff, api.HandoffParams{Action: "accept", ID: id}))(s.t)
	for i := range 500 {
		if err := os.WriteFile(filepath.Join(repo, fmt.Sprint("file", i)), []byte("x\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	got := must(rpc.Call(s.t.Context(), s.as(s.operator), api.DiffHandoff, api.HandoffIDParams{ID: id}))(s.t)
	shown := strings.Count(got.Text, "diff --git ")
	s.try(shown > 200 || shown+got.More != 500, "%d files are shown and %d counted", shown, got.More)
}
