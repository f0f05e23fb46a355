//go:build unix

package server_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/engine/rows"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

// A dumper is a store of either kind.
type dumper interface {
	Dump(ctx context.Context, begin func(schema int) error, emit func(table string, row []byte) error, restricted bool) error
	Close() error
}

// dumpStore returns the rows of a store and closes it. Cursors of consumers go on by
// themselves and are left out.
func dumpStore(t *testing.T, s dumper, err error) (all []string) {
	t.Helper()
	if err == nil {
		err = s.Dump(t.Context(), func(int) error { return nil }, func(table string, row []byte) error {
			if table != "cursors" {
				all = append(all, table+" "+string(row))
			}
			return nil
		}, true)
		s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func sameRows(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("row %d differs\ngot  %.2000q\nwant %.2000q", i, slices.Concat(got[min(i, len(got)):])[:min(1, len(got)-min(i, len(got)))], want[min(i, len(want)):][:min(1, len(want)-min(i, len(want)))])
		}
	}
}

// TestCopyStore copies a hub from SQLite to PostgreSQL and back. Each hub goes on where
// the one before was.
func TestCopyStore(t *testing.T) {
	t.Parallel()
	o := quiet()
	o.Home = t.TempDir()
	first := start(t, o)
	keys := first.add(t, "ada", "bob")
	ada, bob := first.as(keys[0]), first.as(keys[1])
	operator := first.as(first.operator)
	for _, text := range []string{"the word is blackbird", "tab\tline\nback\\slash \\N ünïcode \u2028"} {
		mustCall(t, ada, api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: text, Topic: "birds"})
	}
	mustCall(t, bob, api.Inbox, api.InboxParams{})
	mustCall(t, operator, api.Team, api.TeamParams{Action: "create", Team: "auth", Objective: "log in", Members: []team.Seat{{Agent: "ada", Role: hub.RoleCoordinator}, {Agent: "bob", Role: hub.RoleExecutor}}})
	mustCall(t, ada, api.Team, api.TeamParams{Action: "task", Team: "auth", Title: "rotate keys", Owner: "bob"})
	project := coordination.InProject{Project: mustCall(t, operator, coordination.CreateProject, coordination.NewProject{Name: "shop", Objective: "sell", Repos: []coordination.NewRepo{{Name: "backend", Role: "backend", Language: "go"}}}).Project}
	mustCall(t, ada, coordination.JoinProject, coordination.JoinParams{InProject: project, Repo: "backend"})
	mustCall(t, ada, coordination.Propose, contract.Proposal{InProject: project, Type: coord.ContractAPI, Name: "orders", Content: []byte(`{"method":"GET","path":"/orders"}`)})
	content := bytes.Repeat([]byte("text "), 500_000) // more than one chunk
	if put := first.do(t, "POST", "/artifacts", keys[0], bytes.NewReader(content)); put.status != 200 && put.status != 201 {
		t.Fatalf("got %d %s", put.status, put.body)
	}
	columns := first.rows(t, `SELECT t.name || '.' || c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.sql LIKE 'CREATE TABLE%' ORDER BY t.name, c.cid`)
	first.stop()
	address := pgtest.Address(t)
	t.Run("both engines have the same columns", func(t *testing.T) {
		store, err := postgres.Open(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		got := pgtest.Column(t, address, `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema() AND
			table_name || '.' || column_name NOT IN ('agent_keys.rowid', 'roots.machine') ORDER BY table_name COLLATE "C", ordinal_position`)
		for _, d := range rows.DumpTables {
			of := func(all []string) []string {
				return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !strings.HasPrefix(c, d.Name+".") })
			}
			if d.Name != "sqlite_sequence" && !slices.Equal(of(got), of(columns)) {
				t.Errorf("PostgreSQL has %v, SQLite %v", of(got), of(columns))
			}
		}
	})
	copyTo := func(from, to string) error {
		audit, err := server.CopyStore(t.Context(), server.StoreCopy{From: from, To: to, Home: o.Home, Machine: "here"})
		if err == nil && (len(audit.Findings) > 0 || audit.Entries == 0) {
			t.Errorf("%s to %s: got %+v", from, to, audit)
		}
		return err
	}
	here := "sqlite:" + o.Home
	for name, c := range map[string]server.StoreCopy{
		"two on SQLite": {From: here, To: "sqlite:" + t.TempDir()}, "none on SQLite": {From: address, To: address}, "no home": {From: "sqlite:", To: address}, "no address": {From: here, To: "mysql://x"},
	} {
		if _, err := server.CopyStore(t.Context(), c); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("%s: got %v, want %s", name, err, hub.CodeInvalid)
		}
	}
	if err := copyTo(here, address); err != nil {
		t.Fatal(err)
	}
	was, err := sqlite.Open(o.Home, nil)
	want := dumpStore(t, was, err)
	there, err := postgres.Open(t.Context(), address, &postgres.Options{Machine: "here"})
	sameRows(t, dumpStore(t, there, err), want)
	if err := copyTo(here, address); hub.CodeOf(err) != hub.CodeConflict {
		t.Errorf("into a database that is in use: got %v, want %s", err, hub.CodeConflict)
	}

	// The home goes on with the database elsewhere.
	if err := os.Rename(filepath.Join(o.Home, "hub.db"), filepath.Join(o.Home, "hub.db.old")); err != nil {
		t.Fatal(err)
	}
	o.Store, o.Machine = address, "here"
	second := start(t, o)
	bob = second.as(keys[1])
	if got := mustCall(t, bob, api.Query, api.QueryParams{Text: "blackbird"}); len(got.Messages) != 1 {
		t.Errorf("a search for a word: got %d messages, want 1", len(got.Messages))
	}
	mustCall(t, second.as(keys[0]), api.Send, api.SendParams{To: api.Recipients{"bob"}, Text: "from the other side"})
	if audit := mustCall(t, second.as(second.operator), api.Verify, api.VerifyParams{}); len(audit.Findings) > 0 {
		t.Errorf("got %v", audit.Findings)
	}
	export := filepath.Join(t.TempDir(), "export")
	if got := mustCall(t, second.as(second.operator), api.Export, api.CopyParams{Path: export, Restricted: true}); got.Head.Seq == 0 {
		t.Errorf("got %+v", got)
	}
	second.stop()
	back := filepath.Join(t.TempDir(), "back")
	if err := copyTo(address, "sqlite:"+back); err != nil {
		t.Fatal(err)
	}
	there, err = postgres.Open(t.Context(), address, &postgres.Options{Machine: "here"})
	want = dumpStore(t, there, err)
	again, err := sqlite.Open(back, nil)
	sameRows(t, dumpStore(t, again, err), want)
	o.Home, o.Store = back, ""
	third := start(t, o)
	bob = third.as(keys[1])
	if got := mustCall(t, bob, api.Query, api.QueryParams{Text: "other side"}); len(got.Messages) != 1 {
		t.Errorf("a search for a word: got %d messages, want 1", len(got.Messages))
	}
	if audit := mustCall(t, third.as(third.operator), api.Verify, api.VerifyParams{}); len(audit.Findings) > 0 {
		t.Errorf("got %v", audit.Findings)
	}
	if _, err := server.Import(t.Context(), export, filepath.Join(t.TempDir(), "home")); err != nil {
		t.Errorf("an export of PostgreSQL: %v", err)
	}
}
