//go:build unix

package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

const (
	chaosHubs = 3
	pastLease = 12 * time.Second // another hub has the work of one that is silent for so long
)

// TestChaosPostgres has three hubs on one database under load. Hubs are killed, the
// database ends its connections or is killed itself, and a hub stands still for longer
// than its leases. At the end every send that was acknowledged is there once, every
// reader that waits has received it, each step was made once, and the records hold.
//
// PARLEY_CHAOS_KILLS is the number of faults (5, without the hub that stands still for
// so long), PARLEY_CHAOS_SEED repeats a run.
func TestChaosPostgres(t *testing.T) {
	t.Parallel()
	binary := program(t)
	database := pgtest.Own(t)
	faults, seed := fromEnv(t, "PARLEY_CHAOS_KILLS", 5), fromEnv(t, "PARLEY_CHAOS_SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("%d faults, seed %d", faults, seed)
	pause := time.Second
	if os.Getenv("PARLEY_CHAOS_KILLS") != "" {
		pause = pastLease
	}
	rnd := rand.New(rand.NewPCG(uint64(seed), 2))
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(2*time.Minute+time.Duration(faults)*30*time.Second))
	defer cancel()

	var hubs []*chaosHub
	for i := range chaosHubs {
		h := &chaosHub{t: t, binary: binary, home: filepath.Join(t.TempDir(), "home"), store: database.URL}
		if i > 0 {
			copyKeys(t, hubs[0].home, h.home)
		}
		h.start(ctx)
		hubs = append(hubs, h)
	}
	c := newChaos(hubs[0])
	c.answer, c.wait = patience.For(3*time.Second), 240
	c.enroll(ctx)
	direct := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.addresses = nil
		for _, h := range hubs {
			c.addresses = append(c.addresses, h.url)
		}
	}
	direct()
	close(c.gate)
	senders, readers := c.load(ctx, seed)
	await := func(what string, n int) {
		t.Helper()
		select {
		case <-c.after(n):
		case <-ctx.Done():
			t.Fatalf("%s: too few sends within the time: %s", what, hubs[0].log)
		}
	}
	kill := func(h *chaosHub) {
		h.kill()
		if rnd.IntN(3) == 0 { // also in the middle of a start, which nothing announces
			h.spawn(ctx)
			select {
			case <-time.After(time.Duration(rnd.IntN(60)) * time.Millisecond):
			case <-h.ready:
			}
			h.kill()
		}
	}
	kinds := []struct {
		name string
		do   func(h *chaosHub)
	}{
		{"a hub is killed", kill},
		{"the database ends its connections", func(*chaosHub) {
			database.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley'`)
		}},
		{"two hubs are killed", func(h *chaosHub) {
			kill(h)
			for _, other := range hubs {
				if other != h {
					kill(other)
					break
				}
			}
		}},
		{"the database is killed", func(*chaosHub) {
			if err := database.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := database.Launch(); err != nil {
				t.Fatal(err)
			}
		}},
		{"a hub stands still", func(h *chaosHub) {
			over := time.After(pause)
			if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if pause >= pastLease {
				await("while a hub stands still", 50)
			}
			<-over
			if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}},
	}
	count := map[string]int{}
	for n := range faults {
		await(fmt.Sprint("before fault ", n+1), 20+rnd.IntN(200))
		kind := kinds[n%len(kinds)]
		count[kind.name]++
		kind.do(hubs[rnd.IntN(len(hubs))])
		if rnd.IntN(2) == 0 {
			await("with the hubs that are left after "+kind.name, 20)
		}
		for _, h := range hubs {
			select {
			case <-h.ended:
				h.start(ctx)
			default:
			}
		}
		direct()
		if t.Failed() {
			t.FailNow()
		}
	}

	// All readers wait now: each message wakes the one that it is for.
	c.finish(true, false)
	senders.Wait()
	c.inTime(ctx, "the answers to the last sends")
	c.finish(true, true)
	for i := range chaosReaders {
		marker := fmt.Sprint("last-", i)
		c.asked[marker] = true
		got := must(rpc.Call(ctx, c.client(hubs[i%chaosHubs].url, "sender0"), api.Send, api.SendParams{To: api.Recipients{hub.AgentID(fmt.Sprint("reader", i))}, Text: marker}))(t)
		c.acknowledged(marker, got.ID)
	}
	over := make(chan struct{})
	go func() { readers.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(patience.For(time.Minute)): // shorter than readers wait
		t.Fatal("a reader was not woken")
	}
	messages := c.verify(ctx, "at the end")
	c.settled(messages)
	for i, h := range hubs {
		c.chaosHub = h
		if got, err := rpc.Call(ctx, c.operator(), api.Verify, api.VerifyParams{}); err != nil || !got.Clean() {
			t.Errorf("audit verify on hub %d: %v (%v)", i, got.Findings, err)
		}
	}
	c.transport.CloseIdleConnections()
	for _, h := range hubs {
		h.stop()
	}
	store, err := postgres.Open(ctx, database.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c.journal(ctx, store, messages)
	t.Logf("chaos: %d hubs, %d faults %v, %d messages acknowledged, lost %d, duplicated %d, %d tasks handed over", len(hubs), faults, count, len(c.acked), c.lostSends, c.doubleSends, len(c.tasks))
}

// copyKeys gives a further home the keys of hubs on one database.
func copyKeys(t *testing.T, from, to string) {
	t.Helper()
	err := os.MkdirAll(to, 0o700)
	for _, name := range []string{server.OperatorKeyFile, "secrets.key"} {
		var b []byte
		if err == nil {
			b, err = os.ReadFile(filepath.Join(from, name))
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
