package server_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

func TestLockedDatabase(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	r := start(t, server.Impatient(quiet()))
	keys := r.add(t, "alice", "bob")
	first := r.send(t, keys[0], "bob", "before")
	t.Run("R3-115 a locked database gives a degraded answer, and the hub recovers by itself", func(t *testing.T) {
		other := openDB(t, r.home, sqlite3.OPEN_READWRITE)
		defer other.Close()
		if err := other.Exec(`BEGIN EXCLUSIVE`); err != nil {
			t.Fatal(err)
		}
		before := r.tables(t)
		a := r.call(t, keys[0], "acp/send", `{"to":["bob"],"text":"meanwhile"}`)
		a.wantError(t, -32000, hub.CodeDegraded)
		if a.Error.Data.Hint == "" {
			t.Error("there is no hint")
		}
		r.wantSame(t, before)
		// Reading goes on, and so do all doors.
		if got := must(rpc.Call(t.Context(), r.as(keys[1]), api.Query, api.QueryParams{}))(t); len(got.Messages) != 1 || got.Messages[0].ID != first {
			t.Errorf("query: got %+v, want the message from before", got.Messages)
		}
		if a := r.do(t, "GET", "/health", "", nil); !strings.Contains(string(a.body), "status") {
			t.Errorf("health: got %s, want an answer", a.body)
		}
		if err := other.Exec(`ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		id := r.send(t, keys[0], "bob", "after")
		in := must(rpc.Call(t.Context(), r.as(keys[1]), api.Inbox, api.InboxParams{}))(t)
		if len(in.Messages) != 2 || in.Messages[1].ID != id {
			t.Errorf("inbox: got %d messages, want those from before and after", len(in.Messages))
		}
	})
}

func TestPanic(t *testing.T) {
	t.Run("a panic of a request, or of work beside requests, does not end the hub", func(t *testing.T) {
		log := new(syncBuffer)
		o := quiet()
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		r := startBroken(t, o)
		for i := range 2 {
			req, err := http.NewRequest(http.MethodGet, r.url+"/peers", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+r.operator)
			if res, err := r.http.Do(req); err == nil {
				res.Body.Close()
				t.Errorf("a page that panics: got %s, want no answer", res.Status)
			}
			if a := r.do(t, "GET", "/health", "", nil); a.status != http.StatusOK {
				t.Errorf("/health: got %d %s", a.status, a.body)
			}
			r.add(t, hub.AgentID("alice"+strconv.Itoa(i))) // changes are taken
		}
		r.stop()
		for _, want := range []string{"panic while a request was answered", "work beside requests failed, it begins again", "op=peers"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log)
			}
		}
	})
}

// A syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestForeignJournalRow(t *testing.T) {
	t.Run("a hub that meets a journal row it did not write stops writing and says so", func(t *testing.T) {
		r := start(t, quiet())
		key := r.add(t, "alice", "bob")[0]
		r.send(t, key, "bob", "one")
		db := openDB(t, r.home, sqlite3.OPEN_READWRITE)
		err := db.Exec(`INSERT INTO journal SELECT seq + 1, at, actor, action, subject, outcome, facts_json, hash FROM journal ORDER BY seq DESC LIMIT 1`)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := rpc.Call(t.Context(), r.as(key), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "two"})
			wantCode(t, err, hub.CodeDegraded)
			if err == nil || !strings.Contains(err.Error(), "did not write") {
				t.Errorf("got %v, want that the journal has a row of another program", err)
			}
		}
		a := r.do(t, "GET", "/health", "", nil)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "did not write") {
			t.Errorf("/health: got %d %s", a.status, a.body)
		}
		if got := must(rpc.Call(t.Context(), r.as(key), api.Query, api.QueryParams{}))(t); len(got.Messages) != 1 {
			t.Errorf("reading: got %d messages, want 1", len(got.Messages))
		}
	})
}
