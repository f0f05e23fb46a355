package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

// TestEveryCallIsAnswered lets agents that may be woken wait for mail while others send,
// look and load pages. A call that reads the store inside of a transaction would wait for
// itself here: the store has one connection for reading. PARLEY_LOAD_SECONDS is how long
// it works; without it each worker makes a few calls.
func TestEveryCallIsAnswered(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		everyCallIsAnswered(t, server.Options{})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		everyCallIsAnswered(t, server.Options{Store: pgtest.Address(t)})
	})
}

func everyCallIsAnswered(t *testing.T, o server.Options) {
	var names []hub.AgentID
	for i := range 8 {
		names = append(names, hub.AgentID(fmt.Sprint("agent-", i)))
	}
	w := startWakes(t, o, names...)
	w.allow(api.WakeAllowParams{Agent: names[0], Allow: true})
	for _, name := range names[:4] {
		w.terminalOf(name, nil)
	}
	load := &load{t: t, rounds: 4}
	if seconds := fromEnv(t, "PARLEY_LOAD_SECONDS", 0); seconds > 0 {
		load.until = time.Now().Add(time.Duration(seconds) * time.Second)
	}

	// Every agent waits for mail, and reads what comes.
	for _, name := range names {
		client := w.as(w.keys[name])
		load.add("inbox of "+string(name), func(ctx context.Context, _ int) error {
			_, err := rpc.Call(ctx, client, api.Inbox, api.InboxParams{NewOnly: true, WaitS: 1})
			return err
		})
	}

	// Meanwhile the operator writes to all, and everybody looks around.
	operator := w.as(w.operator)
	load.add("broadcasts", func(ctx context.Context, i int) error {
		_, err := rpc.Call(ctx, operator, api.Send, api.SendParams{To: api.Recipients{"*"}, Text: fmt.Sprint("news ", i)})
		return err
	})
	load.add("messages", func(ctx context.Context, i int) error {
		from, to := names[i%8], names[(i+3)%8]
		_, err := rpc.Call(ctx, w.as(w.keys[from]), api.Send, api.SendParams{To: api.Recipients{to}, Text: fmt.Sprint("question ", i), Priority: hub.PriorityHigh})
		return err
	})
	for range 5 {
		load.add("now", func(ctx context.Context, _ int) error {
			_, err := rpc.Call(ctx, operator, api.Now, api.None{})
			return err
		})
	}
	load.add("whoami", func(ctx context.Context, i int) error {
		_, err := rpc.Call(ctx, w.as(w.keys[names[i%8]]), api.Whoami, api.None{})
		return err
	})
	load.add("agent list", func(ctx context.Context, _ int) error {
		_, err := rpc.Call(ctx, operator, api.ListAgents, api.None{})
		return err
	})
	load.add("sessions", func(ctx context.Context, _ int) error {
		_, err := rpc.Call(ctx, operator, api.ListSessions, api.AgentNameParams{})
		return err
	})
	page := signedIn(t, w.running)
	load.add("page", func(ctx context.Context, i int) error {
		path := []string{"/", "/agents/" + string(names[i%8]), "/conversations", "/health"}[i%4]
		return page(ctx, path)
	})

	load.wait()
	t.Logf("%d calls were answered", load.answered.Load())
}

// A load is a number of workers that call a hub.
type load struct {
	t        *testing.T
	rounds   int       // of each worker, if there is no end
	until    time.Time // the end; zero for none
	answered atomic.Int64
	wg       sync.WaitGroup
}

// add starts a worker. A call that is not answered, or with an error, fails the test.
func (l *load) add(what string, call func(ctx context.Context, round int) error) {
	l.wg.Go(func() {
		for i := 0; l.more(i) && !l.t.Failed(); i++ {
			ctx, cancel := context.WithTimeout(context.Background(), patience.For(time.Minute))
			err := call(ctx, i)
			cancel()
			if err != nil {
				l.t.Errorf("%s, call %d: %v", what, i, err)
				return
			}
			l.answered.Add(1)
		}
	})
}

func (l *load) more(round int) bool {
	if l.until.IsZero() {
		return round < l.rounds
	}
	return time.Now().Before(l.until)
}

func (l *load) wait() { l.wg.Wait() }

// signedIn signs a browser in as the operator and returns a function that loads a page.
func signedIn(t *testing.T, r *running) func(ctx context.Context, path string) error {
	t.Helper()
	link := mustCall(t, r.as(r.operator), api.OpenWeb, api.None{})
	address, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	prepare := func(req *http.Request) {
		req.Host = address.Hostname() + ":" + req.URL.Port()
		req.Header.Set("Accept", "text/html")
	}
	form := strings.NewReader(url.Values{"code": {link.Code}}.Encode())
	in := r.do(t, http.MethodPost, "/sign-in", "", form, prepare, func(req *http.Request) {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "null")
	})
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")

	return func(ctx context.Context, path string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
		if err != nil {
			return err
		}
		prepare(req)
		req.Header.Set("Cookie", cookie)
		res, err := r.http.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: status %d", path, res.StatusCode)
		}
		return nil
	}
}
