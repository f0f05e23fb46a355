package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

func TestLargeInbox(t *testing.T) {
	t.Run("an answer is paged by bytes, and no message is lost", func(t *testing.T) {
		hubtest.NoGoroutinesLeft(t)
		r := start(t, unlimited())
		keys := r.add(t, "alice", "bob")
		refs := strings.Repeat(`{"type":"ticket","value":"12345678"},`, 1500)
		const n = 12
		for i := range n {
			r.call(t, keys[0], "acp/send", fmt.Sprintf(`{"to":["bob"],"text":"%d","context":{"external_refs":[%s]}}`, i, strings.TrimSuffix(refs, ","))).wantOK(t, nil)
		}
		seen := map[hub.EnvelopeID]bool{}
		for cursor := ""; ; {
			a := r.call(t, keys[1], "acp/inbox", fmt.Sprintf(`{"cursor":%q,"limit":200}`, cursor))
			var page struct {
				Messages []hub.Envelope
				Next     string
			}
			a.wantOK(t, &page)
			if most := 256<<10 + hub.MaxEnvelope + 4096; len(a.Result) > most {
				t.Fatalf("an answer has %d bytes, want at most %d", len(a.Result), most)
			}
			for _, m := range page.Messages {
				seen[m.ID] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(seen) != n {
			t.Errorf("got %d messages, want %d", len(seen), n)
		}
		found := must(rpc.Call(t.Context(), r.as(keys[1]), api.Query, api.QueryParams{Limit: 200}))(t)
		if got := len(found.Messages); got == n || found.Next == "" {
			t.Errorf("a query has %d messages and next %q, want fewer than %d and a cursor", got, found.Next, n)
		}
	})
}

func TestSlowReader(t *testing.T) {
	t.Run("a caller that does not read its answer loses the connection", func(t *testing.T) {
		inBubble(t, func(t *testing.T, conn net.Conn, key string) {
			in := bufio.NewReaderSize(conn, 16)
			ask := func(method, path string, body []byte) *http.Response {
				t.Helper()
				req, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+key)
				go req.Write(conn)
				res, err := http.ReadResponse(in, req)
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			content := bytes.Repeat([]byte("x"), 1<<20)
			var put server.Artifact
			if err := json.NewDecoder(ask("POST", "/artifacts", content).Body).Decode(&put); err != nil {
				t.Fatal(err)
			}

			res := ask("GET", "/artifacts/"+put.Artifact.SHA256, nil)
			<-time.After(29 * time.Second) // a slow reader
			some := make([]byte, 300<<10)
			if _, err := io.ReadFull(res.Body, some); err != nil {
				t.Fatalf("after 29 s: %v", err)
			}
			<-time.After(40 * time.Second) // one that has stopped
			rest, err := io.ReadAll(res.Body)
			if got := len(some) + len(rest); err == nil || got >= len(content) {
				t.Errorf("got %d bytes and the error %v, want the answer cut off", got, err)
			}
		})
	})
}

func TestUnreadAnswers(t *testing.T) {
	t.Run("the answers that callers leave unread together are bounded, and a caller that reads gets its own", func(t *testing.T) {
		withDials(t, func(t *testing.T, s *server.Server, dial func() net.Conn, key string) {
			const most, callers, size = 1 << 20, 24, 225 << 10
			s.BoundUnread(most)
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","method":"parley/whoami"}`, strings.Repeat("x", size)) // the answer has the same id
			ask := func() net.Conn {
				conn := dial()
				req, err := http.NewRequest("POST", "http://localhost/", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Content-Type", "application/json")
				go req.Write(conn)
				return conn
			}
			for range callers {
				defer ask().Close() // and reads nothing
			}
			synctest.Wait()
			if n, bytes := s.Unread(); n != callers || bytes < callers*size {
				t.Fatalf("got %d answers of %d bytes under way, want those of all %d callers", n, bytes, callers)
			}

			reader := ask()
			defer reader.Close()
			res, err := http.ReadResponse(bufio.NewReader(reader), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || len(got) < size {
				t.Errorf("a caller that reads got %d bytes: %v", len(got), err)
			}
			<-time.After(3 * time.Second) // all the others have stalled
			synctest.Wait()
			if n, bytes := s.Unread(); bytes > most || n == 0 {
				t.Errorf("got %d answers of %d bytes under way, want at most %d bytes", n, bytes, most)
			}
		})
	})
}

func TestClockSetBack(t *testing.T) {
	t.Run("an agent at its limit waits a minute, however far the clock was set back", func(t *testing.T) {
		hubtest.NoGoroutinesLeft(t)
		o := quiet()
		o.Home = t.TempDir()
		r := start(t, o)
		key := r.add(t, "alice", "bob")[0]
		r.stop()
		store, err := sqlite.Open(o.Home, nil)
		if err != nil {
			t.Fatal(err)
		}
		tomorrow := hub.At(time.Now().Add(24 * time.Hour))
		ids := hub.NewIDs(func() time.Time { return tomorrow.Time })
		err = store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for range 10 {
				id := ids.Next()
				m := hub.Message{Envelope: hub.Envelope{
					ID: id, Protocol: hub.Protocol, Version: hub.Version, From: "alice", To: []hub.AgentID{"bob"}, ThreadID: string(id), Type: hub.TypeStatusUpdate,
					Priority: hub.PriorityNormal, Status: hub.StatusPending, Payload: json.RawMessage(`{"summary":"x"}`), Policy: hub.DefaultPolicy, CreatedAt: tomorrow,
				}}
				if err := tx.AddMessage(m, []hub.Party{{Agent: "alice", State: hub.PartySender}, {Agent: "bob", State: hub.PartyUnread}}); err != nil {
					return err
				}
				if _, err := tx.Append(hub.Entry{At: tomorrow, Actor: "alice", Action: actions.MessageSent, Subject: string(id), Outcome: hub.OutcomeOK, Facts: json.RawMessage(`{}`)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(err, store.Close()); err != nil {
			t.Fatal(err)
		}
		r = start(t, o)
		_, err = rpc.Call(t.Context(), r.as(key), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "the eleventh"})
		wantCode(t, err, hub.CodeRateLimited)
		var e *hub.Error
		if !errors.As(err, &e) || e.RetryAfter > time.Minute {
			t.Errorf("got %v, want a wait of a minute at most", err)
		}
	})
}
