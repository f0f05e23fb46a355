package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
)

// A home of the version before gates were closed: its policies ask for no check, for a reviewer that is not
// there, or for none, and have entries. Nothing is opened and nothing is dropped, and the operator reads
// once what is open and what keeps work from landing.
func TestLandingPoliciesOfBefore(t *testing.T) {
	d := newDesk(t)
	d.hub.add(t, "ada")
	d.allow(d.ctx, d.operator, api.LandingParams{Review: "operator"}) // for the check
	must(rpc.Call(d.ctx, d.operator, api.LandingOff, api.LandingParams{Repo: d.dir}))(t)
	for _, into := range []string{"bare", "ghost", "open"} {
		d.git("branch", into)
		d.branch("to-"+into, "mod/"+into, "ok\n")
	}
	d.hub.stop()

	// The rows as that version wrote them.
	store, err := sqlite.Open(d.hub.home, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(kind, raw string, args ...any) {
		t.Helper()
		raw = fmt.Sprintf(raw, args...)
		err := store.Update(d.ctx, hub.SurvivesKill, func(tx hub.Tx) (err error) {
			var p hub.LandingPolicy
			var e hub.LandingEntry
			var v hub.Review
			switch kind {
			case "policy":
				err = errors.Join(json.Unmarshal([]byte(raw), &p), tx.WriteLandings().PutPolicy(p))
			case "entry":
				if err = json.Unmarshal([]byte(raw), &e); err == nil {
					_, err = tx.WriteLandings().PutEntry(e)
				}
			case "review":
				if err = json.Unmarshal([]byte(raw), &v); err == nil {
					_, err = tx.WriteLandings().PutReview(v)
				}
			}
			return err
		})
		if err != nil {
			t.Fatalf("%s %s: %v", kind, raw, err)
		}
	}
	for _, p := range []struct{ into, more, state string }{
		{"bare", `"checks":[],"review":"none","by":"operator"`, `"state":"queued"`},
		{"ghost", `"checks":["test"],"review":"ghost","by":"operator"`, `"state":"waiting","waits_for":"review","reason":"waits for the review of ghost"`},
		{"open", `"checks":["test"],"review":"none","by":"auto"`, `"state":"queued"`},
	} {
		put("policy", `{"repository":%q,"into":%q,%s,"batch":4,"set_at":"2026-11-01T10:00:00Z"}`, d.dir, p.into, p.more)
		ref := "to-" + p.into
		put("entry", `{"repository":%q,"into":%q,"ref":%q,"branch":%[3]q,"commit":%[4]q,"tree":%[5]q,"owner":"ada","priority":"normal",%[6]s,"tries":0,"approved_by":"operator","queued_at":"2026-11-01T10:00:00Z","moved_at":"2026-11-01T10:00:00Z"}`,
			d.dir, p.into, ref, d.git("rev-parse", ref), d.git("rev-parse", ref+"^{tree}"), p.state)
	}
	put("review", `{"entry":"l2","repository":%q,"commit":%q,"authors":["ada"],"reviewer":"ghost","state":"waiting","verdict":"","findings":[],"asked_at":"2026-11-01T10:00:00Z"}`, d.dir, d.git("rev-parse", "to-ghost"))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	o := unlimited()
	o.Home = d.hub.home
	o.Roots = []string{filepath.Dir(d.dir)}
	o.Checks.Program = program(t)
	d.hub = start(t, o)
	d.operator = d.hub.as(d.hub.operator)
	notices := func() (out []string) {
		t.Helper()
		for _, m := range must(rpc.Call(d.ctx, d.operator, api.Inbox, api.InboxParams{}))(t).Messages {
			var p struct {
				Summary  string
				Policies []string
			}
			json.Unmarshal(m.Payload, &p)
			if len(p.Policies) > 0 {
				out = append(out, strings.Join(p.Policies, "\n"))
			}
		}
		return out
	}
	for len(notices()) == 0 {
		must(rpc.Call(d.ctx, d.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
	}
	want := []string{
		"nothing lands in bare of app: no check is asked for in app: --check test, or --no-checks to land unchecked",
		"nothing lands in ghost of app: it waits for the review of ghost: no agent named ghost on this hub",
		"open of app lands without review: a policy of an earlier version",
	}
	if got := notices(); len(got) != 1 || got[0] != strings.Join(want, "\n") {
		t.Errorf("notices: %q", got)
	}
	now := must(rpc.Call(d.ctx, d.operator, api.Now, api.None{}))(t)
	for _, text := range want {
		found := false
		for _, n := range now.Landing {
			found = found || n.Text == text
		}
		if !found {
			t.Errorf("page Now lacks %q: %+v", text, now.Landing)
		}
	}

	// doctor has the same, each with the line that ends it.
	doctor := exec.CommandContext(d.ctx, program(t), "doctor", "--home", d.hub.home, "--as-operator")
	doctor.Env = append(os.Environ(), "PARLEY_HOME="+d.hub.home)
	said, err := doctor.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // it ends with 1 where something is wrong
		t.Fatal(err)
	}
	for _, text := range append(want, "parley land policy set --repo "+d.dir+" --into bare --check", "parley land policy set --repo "+d.dir+" --into ghost --review") {
		if !strings.Contains(string(said), text) {
			t.Errorf("doctor lacks %q: %s", text, said)
		}
	}

	// What was queued is there: it waits for what is missing, or lands as it did.
	isBusy := func(e hub.LandingEntry) bool {
		return e.State == hub.EntryQueued || e.State == hub.EntryTrying || (e.ID == "l2" && !strings.Contains(e.Reason, "no agent named ghost"))
	}
	states := map[hub.LandingID]hub.LandingEntry{}
	for busy := true; busy; {
		busy = false
		for _, into := range []string{"bare", "ghost", "open"} {
			for _, e := range must(rpc.Call(d.ctx, d.operator, api.ListLandings, api.LandingsParams{Repo: d.dir, Into: into}))(t).Entries {
				states[e.ID] = e
				busy = busy || isBusy(e)
			}
		}
		if busy {
			must(rpc.Call(d.ctx, d.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
		}
	}
	if e := states["l1"]; e.State != hub.EntryWaiting || e.Waits != hub.WaitsForChecks || !strings.Contains(e.Missing[0].Next, "--check NAME") {
		t.Errorf("without a check: %+v", e)
	}
	if e := states["l2"]; e.State != hub.EntryWaiting || e.Waits != hub.WaitsForReview {
		t.Errorf("without a reviewer: %+v", e)
	}
	if e := states["l3"]; e.State != hub.EntryLanded {
		t.Errorf("as open as before: %+v", e)
	}

	d.hub.stop()
	o.Home = d.hub.home
	d.hub = start(t, o)
	d.operator = d.hub.as(d.hub.operator)
	must(rpc.Call(d.ctx, d.operator, api.Land, api.LandParams{Ref: "to-bare", Repo: d.dir, Into: "open"}))(t)
	for _, e := range must(rpc.Call(d.ctx, d.operator, api.ListLandings, api.LandingsParams{Repo: d.dir, Into: "open"}))(t).Entries {
		for e.State.Open() {
			must(rpc.Call(d.ctx, d.operator, api.Inbox, api.InboxParams{WaitS: 1, NewOnly: true}))(t)
			e = must(rpc.Call(d.ctx, d.operator, api.ShowEntry, api.EntryParams{ID: e.ID}))(t).Entries[0]
		}
	}
	if got := notices(); len(got) != 1 {
		t.Errorf("after the second start: %q", got)
	}
}
