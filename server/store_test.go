//go:build unix

package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/patience"
	"github.com/parley-agents/parley/internal/pgtest"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// furtherHub starts a further hub on the database of one that is there.
func furtherHub(t *testing.T, first *running, address string) *running {
	t.Helper()
	o := quiet()
	o.Home, o.Store = t.TempDir(), address
	for _, name := range []string{server.OperatorKeyFile, "secrets.key"} {
		b, err := os.ReadFile(filepath.Join(first.home, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(o.Home, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return start(t, o)
}

// TestHubsOnOneDatabase has hubs that share a PostgreSQL database: whichever a client
// calls, it sees the same.
func TestHubsOnOneDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.Address(t)
	o := quiet()
	o.Store = address
	a := start(t, o)
	b := furtherHub(t, a, address)
	keys := a.add(t, "ada", "bob")
	ada, bob := keys[0], keys[1]
	send := func(r *running, text string) hub.EnvelopeID {
		t.Helper()
		return mustCall(t, r.as(ada), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: text}).ID
	}
	t.Run("a reader that waits on one hub gets what is sent through another", func(t *testing.T) {
		type got struct {
			in  mailroom.Inbox
			err error
		}
		answer := make(chan got, 1)
		go func() {
			in, err := rpc.Call(t.Context(), b.as(bob), api.Inbox, api.InboxParams{WaitS: 30})
			answer <- got{in, err}
		}()
		id := send(a, "over there")
		select {
		case g := <-answer:
			if g.err != nil || len(g.in.Messages) != 1 || g.in.Messages[0].ID != id {
				t.Errorf("got %v (%v), want %s", g.in.Messages, g.err, id)
			}
		case <-time.After(patience.For(time.Minute)):
			t.Fatal("the reader was not woken")
		}
		mustCall(t, a.as(bob), api.Inbox, api.InboxParams{Ack: api.AckSet{IDs: []hub.EnvelopeID{id}}})
		if in := mustCall(t, b.as(bob), api.Inbox, api.InboxParams{}); len(in.Messages) != 0 {
			t.Errorf("what was processed on one hub is still in the inbox on another: %v", in.Messages)
		}
	})
	t.Run("content that one hub stored can be read on another", func(t *testing.T) {
		content := bytes.Repeat([]byte("text "), 1000)
		put := a.do(t, "POST", "/artifacts", ada, bytes.NewReader(content))
		var ref struct{ Artifact hub.ArtifactRef }
		if err := json.Unmarshal(put.body, &ref); err != nil || ref.Artifact.SHA256 == "" {
			t.Fatalf("got %d %s", put.status, put.body)
		}
		if got := b.do(t, "GET", "/artifacts/"+ref.Artifact.SHA256, ada, nil); !bytes.Equal(got.body, content) {
			t.Errorf("got %d with %d bytes", got.status, len(got.body))
		}
	})
	t.Run("the journal of all hubs is one chain", func(t *testing.T) {
		for i := range 5 {
			send([]*running{a, b}[i%2], fmt.Sprint("message ", i))
		}
		for _, r := range []*running{a, b} {
			audit := mustCall(t, r.as(r.operator), api.Verify, api.VerifyParams{})
			if len(audit.Findings) > 0 {
				t.Errorf("got %v", audit.Findings)
			}
		}
	})
	t.Run("a home without the operator's key is refused, and ends no key", func(t *testing.T) {
		_, err := server.New(t.Context(), server.Options{Home: t.TempDir(), Addr: "127.0.0.1:0", Store: address})
		if hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("got %v, want %s", err, hub.CodeConflict)
		}
		mustCall(t, a.as(a.operator), api.Whoami, api.None{})
	})
	t.Run("a home has one database", func(t *testing.T) {
		home := t.TempDir()
		o := quiet()
		o.Home = home
		start(t, o).stop()
		o.Store, o.Addr = address, "127.0.0.1:0"
		if _, err := server.New(t.Context(), o); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a home with hub.db: got %v, want %s", err, hub.CodeConflict)
		}
		c := furtherHub(t, a, address)
		c.stop()
		if _, err := server.New(t.Context(), server.Options{Home: c.home, Addr: "127.0.0.1:0"}); hub.CodeOf(err) != hub.CodeConflict {
			t.Errorf("a home whose database is elsewhere: got %v, want %s", err, hub.CodeConflict)
		}
		if _, err := server.OpenRecords(c.home, nil); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("records: got %v, want %s", err, hub.CodeNotEnabled)
		}
		if kept, err := os.ReadFile(filepath.Join(c.home, server.StoreFile)); err != nil || strings.TrimSpace(string(kept)) != address {
			t.Errorf("got %q (%v)", kept, err)
		}
	})
	t.Run("what only files can do is refused with a hint", func(t *testing.T) {
		_, err := rpc.Call(t.Context(), a.as(a.operator), api.Backup, api.CopyParams{Path: filepath.Join(t.TempDir(), "x")})
		if hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("a backup: got %v, want %s", err, hub.CodeNotEnabled)
		}
	})
	t.Run("when one hub ends the others go on", func(t *testing.T) {
		a.stop()
		id := send(b, "still here")
		in := mustCall(t, b.as(bob), api.Inbox, api.InboxParams{NewOnly: true})
		if len(in.Messages) == 0 || in.Messages[len(in.Messages)-1].ID != id {
			t.Errorf("got %v, want %s at the end", in.Messages, id)
		}
	})
	t.Run("a table that was changed is found", func(t *testing.T) {
		store, err := postgres.Open(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if drift, err := store.SchemaDrift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("got %v (%v), want none", drift, err)
		}
		pgtest.Exec(t, address, `DROP TRIGGER journal_no_update ON journal`)
		if drift, err := store.SchemaDrift(t.Context()); err != nil || len(drift) != 1 {
			t.Errorf("got %v (%v), want one", drift, err)
		}
	})
}
