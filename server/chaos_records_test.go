package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

const oldMessages = 600 // from before the time that messages are kept

// TestChaosRecords kills a real hub while it archives and exports, again and
// again: every old message is in the store or in an archive that the store
// knows, no half export can be taken for one, and the records hold.
func TestChaosRecords(t *testing.T) {
	t.Parallel()
	binary := program(t) // before the clock starts
	kills, seed := fromEnv(t, "PARLEY_CHAOS_KILLS", 5), fromEnv(t, "PARLEY_CHAOS_SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("%d kills, seed %d", kills, seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute+time.Duration(kills)*10*time.Second))
	defer cancel()
	c := newChaos(&chaosHub{t: t, binary: binary, home: filepath.Join(t.TempDir(), "home")})
	old := agedHome(t, c.home)
	exports := t.TempDir()
	for n := range kills {
		c.start(ctx)
		operator := c.operator()
		var calls sync.WaitGroup
		calls.Go(func() {
			_, err := rpc.Call(ctx, operator, api.Archive, api.ArchiveParams{})
			c.lost(ctx, "archive", err)
		})
		calls.Go(func() {
			_, err := rpc.Call(ctx, operator, api.Export, api.CopyParams{Path: filepath.Join(exports, fmt.Sprint("export", n))})
			c.lost(ctx, "export", err)
		})
		select { // in the midst of it, which nothing announces
		case <-time.After(time.Duration(rnd.IntN(120)) * time.Millisecond):
		case <-ctx.Done():
		}
		c.kill()
		calls.Wait()
		c.records(ctx, fmt.Sprintf("after kill %d", n+1), old)
		c.exports(ctx, exports)
		if t.Failed() {
			t.FailNow()
		}
	}
	c.start(ctx)
	operator := c.operator()
	for held := "not asked"; held != ""; { // consumers may have to catch up first
		report, err := rpc.Call(ctx, operator, api.Archive, api.ArchiveParams{})
		if err != nil {
			t.Fatal(err)
		}
		held = report.HeldBackBy
	}
	if got, err := rpc.Call(ctx, operator, api.Verify, api.VerifyParams{}); err != nil || !got.Clean() {
		t.Errorf("at the end: %v (%v)", got.Findings, err)
	}
	c.stop()
	if left := c.records(ctx, "at the end", old); left != 0 {
		t.Errorf("%d of the old messages are still in the store", left)
	}
}

// agedHome makes a home with messages that are older than messages are kept,
// and returns their ids.
func agedHome(t *testing.T, home string) []hub.EnvelopeID {
	t.Helper()
	store, err := sqlite.Open(home, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-200 * 24 * time.Hour)
	clock := func() time.Time { return now }
	who := keys.New(store, &keys.Options{Clock: clock})
	operator := hub.Caller{ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	_, err = who.EnsureOperator(t.Context(), "")
	for _, id := range []hub.AgentID{"ada", "bob"} {
		_, _, _, added := who.AddAgent(t.Context(), operator, hub.Agent{ID: id}, keys.NewKey{})
		err = errors.Join(err, added)
	}
	mail, opened := mailroom.New(store, who, &mailroom.Options{Clock: clock, Limits: mailroom.Limits{Unsafe: true}})
	if err = errors.Join(err, opened); err != nil {
		t.Fatal(err)
	}
	var ids []hub.EnvelopeID
	for n := range oldMessages {
		now = now.Add(time.Minute)
		got, err := mail.Send(t.Context(), hub.Caller{ID: "ada"}, mailroom.Draft{To: []hub.AgentID{"bob"}, Type: hub.TypeStatusUpdate, Text: fmt.Sprint("old ", n)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.ID)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// records checks the records of a hub that is not running, and that each old
// message is in the store or in an archive that the store knows. It returns how
// many are in the store.
func (c *chaos) records(ctx context.Context, when string, old []hub.EnvelopeID) (stored int) {
	c.t.Helper()
	r, err := server.OpenRecords(c.home, nil)
	if err != nil {
		c.t.Fatalf("%s: %v", when, err)
	}
	got, err := r.Verify(ctx)
	if err != nil || !got.Clean() {
		c.t.Errorf("%s: %v (%v)", when, got.Findings, err)
	}
	if err := r.Close(); err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
	store, err := sqlite.Open(c.home, nil)
	if err != nil {
		c.t.Fatalf("%s: %v", when, err)
	}
	defer store.Close()
	var archived strings.Builder
	err = store.View(ctx, func(rd hub.Reader) error {
		archives, err := rd.Archives()
		for _, a := range archives {
			raw, read := os.ReadFile(filepath.Join(c.home, "archive", a.File))
			err = errors.Join(err, read)
			archived.Write(raw)
		}
		if err != nil {
			return err
		}
		for _, id := range old {
			_, err := rd.Message(id)
			switch {
			case err == nil:
				stored++
			case hub.CodeOf(err) != hub.CodeNotFound:
				return err
			case !strings.Contains(archived.String(), string(id)):
				return fmt.Errorf("message %s is neither in the store nor in an archive", id)
			}
		}
		return nil
	})
	if err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
	return stored
}

// exports checks that each folder under an export's name is a whole export.
func (c *chaos) exports(ctx context.Context, dir string) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "export?"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, name := range names {
		home := filepath.Join(c.t.TempDir(), "home")
		if _, err := server.Import(ctx, name, home); err != nil {
			c.t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := server.OpenRecords(home, nil)
		if err != nil {
			c.t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := r.Verify(ctx); err != nil || !got.Clean() {
			c.t.Errorf("%s: %v (%v)", name, got.Findings, err)
		}
		if err := r.Close(); err != nil {
			c.t.Error(err)
		}
		if err := os.RemoveAll(name); err != nil { // seen
			c.t.Error(err)
		}
	}
}
