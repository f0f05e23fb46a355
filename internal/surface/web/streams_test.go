package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// stream opens the event stream of an address. It stays open until it is closed, at the
// latest at the end of the test.
func (v *visitor) stream(address string) *http.Response {
	v.s.t.Helper()
	req, err := http.NewRequestWithContext(v.s.t.Context(), http.MethodGet, v.page+"/live?path="+url.QueryEscape(address), nil)
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.Header.Set("Cookie", "parley="+v.cookie)
	res, err := v.http.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	v.s.t.Cleanup(func() { res.Body.Close() })
	return res
}

// streamSoon opens a stream once the hub has noticed that others were closed.
func (v *visitor) streamSoon(address string, all *[]*http.Response) {
	t := v.s.t
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience.For(20 * time.Second))
	for {
		if res := v.stream(address); res.StatusCode == http.StatusOK {
			*all = append(*all, res)
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("no stream became free")
		}
	}
}

// refused checks that a stream was refused in words, and returns them.
func refused(t *testing.T, res *http.Response) string {
	t.Helper()
	if res.StatusCode != http.StatusTooManyRequests || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("got %s with %s, want 429 with plain text", res.Status, res.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStreamsAreBounded(t *testing.T) {
	s := newSite(t, server.Options{}, "planner")
	operator, second, ben, eve := s.visitor(), s.visitor(), s.visitor(), s.visitor()
	operator.signIn(s.link())
	second.signIn(s.link())
	ben.signIn(s.invite("ben"))
	eve.signIn(s.invite("eve"))
	n := 0
	address := func() string {
		n++
		return fmt.Sprintf("/conversations?q=%d", n)
	}
	open := func(v *visitor, count int, address func() string) (all []*http.Response) {
		t.Helper()
		for range count {
			res := v.stream(address())
			if res.StatusCode != http.StatusOK {
				t.Fatalf("stream %d: got %s, want 200", len(all)+1, res.Status)
			}
			all = append(all, res)
		}
		return all
	}
	ofBen := open(ben, 20, address)
	if text := refused(t, ben.stream("/")); !strings.Contains(text, "already has 20 live pages") || !strings.Contains(text, "reload this page") {
		t.Errorf("the 21st stream of a session is told %q", text)
	}
	open(operator, 1, func() string { return "/" })
	ofBen[0].Body.Close()
	ben.streamSoon("/", &ofBen)
	refused(t, ben.stream("/handoffs"))

	// Ben has 20 views. Viewers have 30 together, the hub has 50.
	open(eve, 10, address)
	if text := refused(t, eve.stream(address())); !strings.Contains(text, "cannot keep more pages live") {
		t.Errorf("a 31st view of viewers is told %q", text)
	}
	open(eve, 1, func() string { return "/" }) // ben looks at it already
	open(operator, 19, address)
	refused(t, second.stream(address()))
	open(second, 1, func() string { return "/" })
	if got := operator.get("/"); got.StatusCode != http.StatusOK {
		t.Errorf("a page is loaded beside the streams: got %d, want 200", got.StatusCode)
	}
}

func TestStreamOfRevokedSession(t *testing.T) {
	t.Run("an open stream ends when its session is revoked", func(t *testing.T) {
		s := newSite(t, server.Options{}, "planner", "builder")
		v := s.visitor()
		v.signIn(s.link())
		lines := bufio.NewScanner(v.stream("/").Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		do(s, s.operator, api.RevokeWeb, api.WebRevokeParams{All: true})
		s.hold("planner", "builder", "after the revocation")
		for lines.Scan() { // until the hub ends the stream
			if strings.Contains(lines.Text(), "after the revocation") {
				t.Fatal("the stream goes on")
			}
		}
	})
}

// A page that the hub does not follow says so, and follows again when it can.
func TestPageWithoutStream(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	p := newBrowser(t).tab()
	p.signIn(s.link())
	p.sees("live")
	p.open("about:blank") // its own stream ends
	var taken []*http.Response
	var v *visitor
	for len(taken) < 50 {
		if len(taken)%20 == 0 {
			v = s.visitor()
			v.signIn(s.link())
		}
		v.streamSoon(fmt.Sprintf("/conversations?q=%d", len(taken)), &taken)
	}
	p.open(s.page + "/handoffs")
	p.sees("not live: reload the page")
	p.until("the reason is there", "document.getElementById('live').title.includes('cannot keep more pages live')")
	for _, res := range taken {
		res.Body.Close()
	}
	p.open(s.page + "/handoffs")
	p.until("the page is live", "document.getElementById('live').innerText === 'live'")
}
