package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// A stream is an open stream of events.
type stream struct {
	answer *http.Response
	lines  *bufio.Scanner
	close  func()
}

// listen opens a stream; after is the number to go on after, or "" for none.
func (r *running) listen(t *testing.T, key, after string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := r.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{answer: res, lines: bufio.NewScanner(res.Body), close: func() { cancel(); res.Body.Close() }}
	t.Cleanup(s.close)
	if res.StatusCode == http.StatusOK && !s.lines.Scan() { // the first comment: the stream stands
		t.Fatalf("the stream ended before it began: %v", s.lines.Err())
	}
	return s
}

// next returns the next event, or false when the stream has ended.
func (s *stream) next(t *testing.T) (hub.Entry, bool) {
	t.Helper()
	var e hub.Entry
	id, name := "", ""
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatalf("data: %v in %q", err, value)
			}
			if id != strconv.FormatInt(e.Seq, 10) || name != string(e.Action) {
				t.Errorf("event: got id %s and name %s, want those of the entry %d %s", id, name, e.Seq, e.Action)
			}
			return e, true
		}
	}
	return e, false
}

func TestEvents(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	r := start(t, unlimited())
	keys := r.add(t, "alice", "bob", "carol")
	alice, bob, carol := keys[0], keys[1], keys[2]

	t.Run("a stream is server-sent events that nobody stores", func(t *testing.T) {
		s := r.listen(t, alice, "")
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store"} {
			if got := s.answer.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	})
	t.Run("an agent sees what it sent or got and nothing else", func(t *testing.T) {
		mine, others := r.listen(t, bob, ""), r.listen(t, carol, "")
		id := r.send(t, alice, "bob", "for bob")
		last := r.send(t, alice, "carol", "for carol")
		if e, _ := mine.next(t); e.Subject != string(id) || e.Action != actions.MessageSent || e.Actor != "alice" {
			t.Errorf("bob's first event: got %+v, want that alice sent %s", e, id)
		}
		if e, _ := others.next(t); e.Subject != string(last) {
			t.Errorf("carol's first event: got %+v, want %s", e, last)
		}
	})
	t.Run("the operator sees everything", func(t *testing.T) {
		s := r.listen(t, r.operator, "")
		id := r.send(t, alice, "bob", "for bob, seen by the operator")
		if e, _ := s.next(t); e.Subject != string(id) {
			t.Errorf("event: got %+v, want %s", e, id)
		}
	})
	t.Run("what a human gate holds is not there for its recipient before approval", func(t *testing.T) {
		s := r.listen(t, bob, "")
		held := must(rpc.Call(t.Context(), r.as(alice), api.Send, api.SendParams{
			To: api.Recipients{"bob"}, Text: "held", Policy: []byte(`{"human_gate":"required"}`)}))(t).ID
		open := r.send(t, alice, "bob", "open")
		if e, _ := s.next(t); e.Subject != string(open) {
			t.Errorf("first event: got %s about %s, want the message that is not held, %s", e.Action, e.Subject, open)
		}
		must(rpc.Call(t.Context(), r.as(r.operator), api.Approve, api.IDParams{ID: held}))(t)
		if e, _ := s.next(t); e.Subject != string(held) || e.Action != actions.MessageApproved {
			t.Errorf("event: got %s about %s, want the approval of %s", e.Action, e.Subject, held)
		}
	})
	t.Run("what a human denied never appears for its recipient", func(t *testing.T) {
		s := r.listen(t, bob, "")
		denied := must(rpc.Call(t.Context(), r.as(alice), api.Send, api.SendParams{
			To: api.Recipients{"bob"}, Text: "denied", Policy: []byte(`{"human_gate":"required"}`)}))(t).ID
		must(rpc.Call(t.Context(), r.as(r.operator), api.Deny, api.IDParams{ID: denied, Reason: "no"}))(t)
		open := r.send(t, alice, "bob", "after the denial")
		if e, _ := s.next(t); e.Subject != string(open) {
			t.Errorf("event: got %s about %s, want only %s", e.Action, e.Subject, open)
		}
	})
	t.Run("a number that is none is refused", func(t *testing.T) {
		for _, id := range []string{"x", "-1", "1.5", "99999999999999999999", "1000000"} {
			s := r.listen(t, alice, id)
			var a answer
			json.NewDecoder(s.answer.Body).Decode(&a)
			if s.answer.StatusCode != http.StatusBadRequest || a.Error == nil || a.Error.Data.Reason != hub.CodeInvalid {
				t.Errorf("Last-Event-ID %s: got status %d %+v, want 400 schema_invalid", id, s.answer.StatusCode, a.Error)
			}
		}
		if a := r.do(t, "GET", "/events?after=x", alice, nil); a.status != http.StatusBadRequest {
			t.Errorf("?after=x: got status %d, want 400", a.status)
		}
	})
	t.Run("?after= begins after a number", func(t *testing.T) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/events?after=0", nil)
		req.Header.Set("Authorization", "Bearer "+r.operator)
		res := must(r.http.Do(req))(t)
		defer res.Body.Close()
		s := &stream{lines: bufio.NewScanner(res.Body)}
		if e, _ := s.next(t); e.Seq != 1 {
			t.Errorf("first event: got %d, want 1", e.Seq)
		}
	})
	t.Run("who comes back misses nothing and sees nothing twice while others send", func(t *testing.T) {
		const senders, each, perVisit = 4, 30, 7
		head := r.journalHead(t)
		var wg sync.WaitGroup
		for i := range senders {
			c := r.as([]string{alice, bob, carol, r.operator}[i])
			wg.Go(func() {
				for n := range each {
					if _, err := rpc.Call(t.Context(), c, api.Send, api.SendParams{To: api.Recipients{"alice"}, Text: fmt.Sprintf("%d/%d", i, n)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		seen, last := map[int64]bool{}, int64(head)
		for len(seen) < senders*each {
			s := r.listen(t, r.operator, strconv.FormatInt(last, 10))
			for range perVisit {
				if len(seen) == senders*each {
					break
				}
				e, ok := s.next(t)
				if !ok {
					t.Fatal("the stream ended")
				}
				if e.Seq != last+1 || seen[e.Seq] {
					t.Fatalf("event: got %d, want %d", e.Seq, last+1)
				}
				seen[e.Seq], last = true, e.Seq
			}
			s.close()
		}
		wg.Wait()
		if got := r.journalHead(t); int64(got) != last {
			t.Errorf("last event: got %d, want %d", last, got)
		}
	})
	t.Run("a revoked key ends its open stream at once", func(t *testing.T) {
		s := r.listen(t, carol, "")
		must(rpc.Call(t.Context(), r.as(r.operator), api.RevokeKeys, api.AgentParams{ID: "carol"}))(t)
		r.send(t, alice, "carol", "too late")
		if e, ok := s.next(t); ok {
			t.Errorf("event: got %+v, want the end", e)
		}
	})
	t.Run("a stream ends when the hub stops", func(t *testing.T) {
		s := r.listen(t, alice, "")
		r.stop()
		if e, ok := s.next(t); ok {
			t.Errorf("event: got %+v, want the end", e)
		}
		if err := s.lines.Err(); err != nil {
			t.Errorf("end of the stream: got %v, want a proper one", err)
		}
	})
}
