package server

import (
	"net"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/handshake"
)

// ServeHTTPOn answers on a listener of the test's own, without the work that
// Serve does beside it.
func (s *Server) ServeHTTPOn(l net.Listener) error {
	return s.http.Serve(&boundedListener{Listener: l, most: maxConnections(), log: s.log})
}

// BoundUnread sets how many bytes callers may leave unread together.
func (s *Server) BoundUnread(most int64) { s.unread.most = most }

// Unread returns how many large answers are under way, and their bytes.
func (s *Server) Unread() (answers int, bytes int64) {
	s.unread.mu.Lock()
	defer s.unread.mu.Unlock()
	return len(s.unread.all), s.unread.bytes
}

// CloseHTTP ends ServeHTTPOn.
func (s *Server) CloseHTTP() error { return s.http.Close() }

// TokenFor returns a token for an operator's key, for tests without a network.
func (s *Server) TokenFor(t testing.TB, secret string) string {
	t.Helper()
	const channel = "test"
	x := handshake.Begin(secret)
	challenge, err := s.login.Challenge(t.Context(), channel, x.Opening)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := x.Answer(channel, challenge)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.login.Grant(channel, answer)
	if err != nil {
		t.Fatal(err)
	}
	return got.Token
}

// Impatient returns o for a hub that waits for a lock on its database for a moment only.
func Impatient(o Options) Options {
	o.busy = 100 * time.Millisecond
	return o
}

// TakeHooks returns o for a hub that takes so many webhooks of one source and address at once, and
// so many a second in the long run; as many as usual if rate is zero.
func TakeHooks(o Options, burst int, rate float64) Options {
	o.inBurst = burst
	o.inRate = rate
	return o
}

// StepSchedules sends the messages that are due, as the work beside requests does.
func (s *Server) StepSchedules(t testing.TB) {
	t.Helper()
	if _, err := s.schedules.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// SweepEvents forgets old deliveries of events, as the work beside requests does.
func (s *Server) SweepEvents(t testing.TB) {
	t.Helper()
	if err := s.outside.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// PollSources asks vendors for events, as the work beside requests does.
func (s *Server) PollSources(t testing.TB) {
	t.Helper()
	if err := s.polls.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Break makes a part of the hub panic: the work on peers beside requests, and the
// page of peers.
func (s *Server) Break() { s.syncer = nil }

// SweepFiles ends the reservations whose end has come, as the work beside requests does.
func (s *Server) SweepFiles(t testing.TB) {
	t.Helper()
	if err := s.files.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}
