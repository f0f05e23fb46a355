package signin_test

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/signin"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}

// A porch is where browsers of viewers sign in. The tests of package web sign in through
// pages.
type porch struct {
	*signin.Service
	*testing.T
	now time.Time
}

func newPorch(t *testing.T) *porch {
	t.Helper()
	p := &porch{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	p.Service, err = signin.New(t.Context(), storetest.Open(t, t.TempDir()), signin.Options{
		Clock: func() time.Time { return p.now }, Listen: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4100},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A browser is signed in.
type browser struct{ id, label, secret string }

// signIn invites a viewer for some time and signs a browser in.
func (p *porch) signIn(name string, life time.Duration) browser {
	p.Helper()
	link, err := p.Invite(p.Context(), operator, name, life)
	if err != nil {
		p.Fatal(err)
	}
	at, err := url.Parse(link.URL)
	if err != nil {
		p.Fatal(err)
	}
	label := signin.Label(at.Host)
	made, secret, err := p.Exchange(p.Context(), signin.Attempt{Code: link.Code, Label: label})
	if err != nil {
		p.Fatal(err)
	}
	return browser{made.ID, label, secret}
}

// isIn reports whether a browser is signed in.
func (p *porch) isIn(b browser) bool {
	p.Helper()
	_, _, err := p.Identify(p.Context(), b.label, b.secret)
	if err != nil && hub.CodeOf(err) != hub.CodeUnauthenticated {
		p.Fatal(err)
	}
	return err == nil
}

func TestOpenSessions(t *testing.T) {
	t.Run("at most 64 sessions are open, and the oldest gives way", func(t *testing.T) {
		const most = 64
		p := newPorch(t)
		var all []browser
		for i := range most + 1 {
			all = append(all, p.signIn(fmt.Sprint("viewer", i), 0))
		}
		open, err := p.Sessions(t.Context(), operator)
		if err != nil || len(open) != most || open[0].ID != all[1].id {
			t.Errorf("got %d open sessions (%v), want %d from the second on", len(open), err, most)
		}
		for i, want := range map[int]bool{0: false, 1: true, most: true} {
			if got := p.isIn(all[i]); got != want {
				t.Errorf("session %d: got signed in %v, want %v", i+1, got, want)
			}
		}
	})
}

func TestLifeOfViewers(t *testing.T) {
	const day = 24 * time.Hour
	p := newPorch(t)
	for _, c := range []struct {
		rule string
		life time.Duration
		want hub.Code
	}{
		{"a viewer is not invited for less than a minute", time.Minute - time.Second, hub.CodeInvalid},
		{"a viewer is not invited for less than no time", -time.Hour, hub.CodeInvalid},
		{"a viewer is not invited for more than 30 days", 30*day + time.Second, hub.CodeInvalid},
		{"a viewer is not invited for years", 2 * 365 * day, hub.CodeInvalid},
		{"a viewer may be invited for 30 days", 30 * day, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if _, err := p.Invite(t.Context(), operator, "ben", c.life); hub.CodeOf(err) != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for life, name := range map[time.Duration]string{0: "twelve hours", 30 * day: "the time of the invite"} {
		t.Run("the session of a viewer ends after "+name, func(t *testing.T) {
			b := p.signIn("ben", life)
			if life == 0 {
				life = 12 * time.Hour
			}
			p.now = p.now.Add(life - time.Second)
			if !p.isIn(b) {
				t.Error("it ended early")
			}
			p.now = p.now.Add(time.Second)
			if p.isIn(b) {
				t.Error("it goes on")
			}
		})
	}
}
