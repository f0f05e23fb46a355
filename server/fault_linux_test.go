package server_test

import (
	"bytes"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// TestRescueOnFullDisk has an agent stop whose uncommitted work does not fit on the disk of the hub.
func TestRescueOnFullDisk(t *testing.T) {
	w, dir, report := terminalTaskAt(t, server.Options{Home: hubtest.SmallDisk(t, 16)})
	large := make([]byte, 40<<20)
	rand.New(rand.NewSource(1)).Read(large) // nothing to compress
	path := filepath.Join(dir, "large.bin")
	if err := os.WriteFile(path, large, 0o600); err != nil {
		t.Fatal(err)
	}
	report(wake.EventEnd, "")
	w.until("the task waits", func() bool { return len(w.continuations()) == 1 }, func() any { return w.continuations() })
	c := w.continuations()[0]
	if c.Rescue != nil || !strings.Contains(c.Why, "the uncommitted work stays in "+dir) {
		t.Errorf("got %+v, want it to say that nothing was kept", c)
	}
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, large) {
		t.Errorf("the file changed: %v", err)
	}

	// The hub has room again: what did not fit is gone from its copy.
	must(rpc.Call(t.Context(), w.as(w.keys["planner"]), api.Send, api.SendParams{To: api.Recipients{"tester"}, Text: strings.Repeat("x", 100_000)}))(t)
}

func TestFullDisk(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	o := server.Options{Home: hubtest.SmallDisk(t, 4)}
	o.Limits.Unsafe = true
	r := start(t, o)
	keys := r.add(t, "alice", "bob")
	c := r.as(keys[0])
	t.Run("R3-115 on a full disk sends get a degraded answer, reading goes on, and there is no loss when there is room again", func(t *testing.T) {
		empty := hubtest.FillDisk(t, o.Home)
		acknowledged := map[hub.EnvelopeID]bool{}
		var failed error
		for i := 0; i < 5000 && failed == nil; i++ { // what was allocated before may still be used
			receipt, err := rpc.Call(t.Context(), c, api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: strconv.Itoa(i) + strings.Repeat(" x", 100)})
			if failed = err; err == nil {
				acknowledged[receipt.ID] = true
			}
		}
		wantCode(t, failed, hub.CodeDegraded)
		must(rpc.Call(t.Context(), c, api.Query, api.QueryParams{}))(t)
		a := r.do(t, "POST", "/artifacts", keys[0], bytes.NewReader(make([]byte, 1<<20)))
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("artifact: got status %d, want 503", a.status)
		}
		a.wantReason(t, -32000, hub.CodeDegraded)
		if got := r.files(t, "artifacts"); len(got) != 0 {
			t.Errorf("artifacts: got %q, want nothing left of what did not fit", got)
		}
		empty()
		acknowledged[r.send(t, keys[0], "bob", "there is room again")] = true
		stored := r.rows(t, `SELECT id FROM messages`)
		if len(stored) != len(acknowledged) {
			t.Errorf("messages: got %d, want the %d that were acknowledged", len(stored), len(acknowledged))
		}
		for _, id := range stored {
			if !acknowledged[hub.EnvelopeID(id)] {
				t.Errorf("message %s is stored but was not acknowledged", id)
			}
		}
	})
}

func TestLogOnASmallDisk(t *testing.T) {
	patience.NotUnderRace(t)
	t.Run("the log is copied into the database while the hub works, before it fills a small disk", func(t *testing.T) {
		const disk = 12 // MiB
		o := quiet()
		o.Home = hubtest.SmallDisk(t, disk)
		r := start(t, o)
		key := r.add(t, "alice", "bob")[0]
		path := filepath.Join(o.Home, "hub.db-wal")
		var written, largest, before int64
		for written < 2*disk<<20 {
			for _, method := range []string{"parley/agent/pause", "parley/agent/resume"} { // changes few rows, so that the database stays small
				if a := r.call(t, r.operator, method, `{"id":"bob"}`); a.Error != nil {
					t.Fatalf("after %d MiB of log: %v", written>>20, a.Error)
				}
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if written += info.Size() - before; info.Size() < before {
				written += before // emptied
			}
			before, largest = info.Size(), max(largest, info.Size())
		}
		if most := int64(disk << 20 / 2); largest > most {
			t.Errorf("the log had %d bytes, want at most %d", largest, most)
		}
		if a := r.do(t, "GET", "/health", "", nil); a.status != http.StatusOK {
			t.Errorf("/health: got %d %s", a.status, a.body)
		}
		r.send(t, key, "bob", "still well")
		if audit := must(rpc.Call(t.Context(), r.as(r.operator), api.Verify, api.VerifyParams{}))(t); !audit.Clean() {
			t.Errorf("audit: %v", audit.Findings)
		}
	})
}

func TestReadOnlyDisk(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	t.Run("R3-115 a hub on a read-only file system is refused with what to do", func(t *testing.T) {
		o := quiet()
		o.Home = hubtest.SmallDisk(t, 4)
		r := start(t, o)
		r.add(t, "alice")
		r.stop()
		if err := syscall.Mount("tmpfs", o.Home, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=4m"); err != nil {
			t.Fatalf("remount read-only: %v", err)
		}
		wantRefused(t, server.Options{Home: o.Home, Addr: "127.0.0.1:0"}, hub.CodeDegraded, "read-only")
		if err := syscall.Mount("tmpfs", o.Home, "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
			t.Fatalf("remount: %v", err)
		}
		again := start(t, o)
		if got := must(rpc.Call(t.Context(), again.as(again.operator), api.ListAgents, api.None{}))(t); len(got.Agents) != 2 {
			t.Errorf("agents: got %d, want alice and the operator", len(got.Agents))
		}
	})
}
