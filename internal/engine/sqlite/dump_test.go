package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/rows"
	"github.com/parley-agents/parley/internal/ground/shape"
)

// A dumped row with the table it belongs to.
type dumped struct{ table, row string }

// dumpOf returns everything that a store dumps.
func dumpOf(t testing.TB, s *Store, restricted bool) []dumped {
	t.Helper()
	var all []dumped
	begin := func(schema int) error {
		if schema != schemaVersion() || len(all) > 0 {
			t.Errorf("schema: got %d after %d rows, want %d first", schema, len(all), schemaVersion())
		}
		return nil
	}
	if err := s.Dump(t.Context(), begin, func(table string, row []byte) error {
		all = append(all, dumped{table, string(row)})
		return nil
	}, restricted); err != nil {
		t.Fatal(err)
	}
	return all
}

func anySchema(int) error { return nil }

// replay returns rows one after the other.
func replay(all []dumped) func() (string, []byte, error) {
	return func() (string, []byte, error) {
		if len(all) == 0 {
			return "", nil, io.EOF
		}
		d := all[0]
		all = all[1:]
		return d.table, []byte(d.row), nil
	}
}

// testHandoff returns a handoff with a complete package.
func testHandoff(t testing.TB, restricted bool) hub.Handoff {
	t.Helper()
	at := hub.At(time.Now())
	h := hub.Handoff{
		ID: hub.HandoffID(testIDs.Next()), ThreadID: "t1", TaskID: string(testIDs.Next()), From: "ada", To: "bob", Title: "parser",
		Reason: "leaving", Status: hub.HandoffProposed, Restricted: restricted, InitiatedAt: at,
	}
	pkg := `{"secret":"the plan","provenance":{"handoff_chain":["ada"]},"verification":{"package_hash":"%"}}`
	hash, err := shape.PackageHash([]byte(pkg))
	if err != nil {
		t.Fatal(err)
	}
	h.Hash, h.Package = hash, json.RawMessage(strings.ReplaceAll(pkg, "%", hash))
	return h
}

// fillEveryTable writes at least one row into every table.
func fillEveryTable(t testing.TB, s *Store) {
	t.Helper()
	now, instant := hub.At(time.Now()), coord.InstantAt(time.Now())
	m, parties := benchMessage(testIDs, "ada", "bob")
	n := int64(3)
	m.Sequence, m.Hop, m.Cause, m.Extra = &n, 2, m.ID, json.RawMessage(`{"x":"<\u0001&>"}`)
	m.Payload = json.RawMessage("{\"summary\":\"tab\\t, <html> & \u2028 ü 漢\"}")
	m.Context = &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "url", Value: "https://x/?a=<b>"}}}
	open, closed := testHandoff(t, false), testHandoff(t, true)
	gone, goneParties := benchMessage(testIDs, "ada", "bob") // its delivery had the greatest number
	old := hub.At(time.Now().Add(-200 * 24 * time.Hour))
	gone.ID = hub.NewIDs(func() time.Time { return old.Time }).Next()
	gone.CreatedAt, gone.ThreadID = gone.ID.Time(), string(gone.ID)
	steps := []func(hub.Tx) error{
		func(tx hub.Tx) error {
			return tx.PutAgent(hub.Agent{ID: "ada", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: now}, "")
		},
		func(tx hub.Tx) error {
			return tx.PutAgent(hub.Agent{ID: "bob", Role: hub.RoleReviewer, Auditor: true, State: hub.AgentPaused, CreatedAt: now}, "")
		},
		func(tx hub.Tx) error {
			return tx.AddKey(hub.Key{ID: "bob/z", Agent: "bob", Label: "z", Hash: "h1", Hint: "1234", CreatedAt: now})
		},
		func(tx hub.Tx) error {
			return tx.AddKey(hub.Key{ID: "bob/a", Agent: "bob", Label: "a", Hash: "h2", Hint: "1234", CreatedAt: now, ExpiresAt: now})
		},
		func(tx hub.Tx) error { return benchSend(tx, m, parties) },
		func(tx hub.Tx) error { _, err := tx.MarkProcessed(m.ID, "bob", now); return err },
		func(tx hub.Tx) error {
			return tx.PutSessionMark(hub.SessionMark{Agent: "bob", Session: "s", Message: m.ID, Hop: 2, At: now})
		},
		func(tx hub.Tx) error {
			return tx.AddReceipt(hub.Receipt{Actor: "ada", Key: "k", Request: "r", Message: m.ID, At: now})
		},
		func(tx hub.Tx) error { return tx.AddArtifactReader("abc", "ada") },
		func(tx hub.Tx) error {
			_, err := tx.WriteTeamspaces().PutTask(hub.Task{Title: "app#1", State: hub.TaskInProgress, Owner: "ada", UpdatedAt: now})
			return err
		},
		func(tx hub.Tx) error {
			return tx.WriteWakes().Put(hub.Wake{ID: "w_1", Agent: "bob", Channel: hub.ChannelSession, State: hub.WakeHanded, At: now, Messages: []hub.EnvelopeID{m.ID}}, "")
		},
		func(tx hub.Tx) error {
			return tx.AddSubscription(hub.Subscription{ID: "s1", Agent: "ada", Filter: hub.Filter{PriorityMin: hub.PriorityHigh}, CreatedAt: now})
		},
		func(tx hub.Tx) error {
			return tx.AddCopy(hub.Copy{Agent: "ada", Message: "m1", By: "s1", At: now, DueAt: now})
		},
		func(tx hub.Tx) error {
			return tx.PutHandoff(open, "", &hub.HandoffStep{State: hub.HandoffProposed, At: now, Actor: "ada", Note: "take it"})
		},
		func(tx hub.Tx) error {
			return tx.PutHandoff(closed, "", &hub.HandoffStep{State: hub.HandoffProposed, At: now, Actor: "ada"})
		},
		func(tx hub.Tx) error {
			return tx.PutRun(hub.Run{ID: hub.RunID(testIDs.Next()), Agent: "ada", By: "bob", Task: "go on", Handoff: closed.ID, State: hub.RunStarting, StartedAt: now, ExpiresAt: now}, "")
		},
		func(tx hub.Tx) error {
			return tx.WriteCoordination().PutProject(coord.Project{ID: "p", Name: "n", Status: coord.ProjectPlanning, CreatedAt: instant, UpdatedAt: instant, Repos: []coord.Repo{{ID: "r", Name: "back"}}}, coord.Project{})
		},
		func(tx hub.Tx) error {
			content := json.RawMessage(`{"path":"/<me>"}`)
			return tx.WriteCoordination().PutContract(coord.Contract{
				Project: "p", ID: "c", Type: coord.ContractAPI, Name: "n", Version: 2, Status: coord.ContractProposed, Content: content, ProposedBy: "r",
				CreatedAt: instant, UpdatedAt: instant, History: []coord.ContractVersion{{Version: 1, Content: content, ProposedBy: "r", At: instant}},
			}, coord.Contract{})
		},
		func(tx hub.Tx) error {
			return tx.WriteCoordination().PutPacket(coord.Packet{Project: "p", ID: "k", FromRepo: "r", At: instant, Type: coord.ContextQuestion, Content: json.RawMessage(`{}`)}, coord.Packet{})
		},
		func(tx hub.Tx) error {
			return tx.AddChange(hub.Change{Project: "p", Kind: hub.ChangePacket, Object: "k", At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteCoordination().PutVerdict(coord.StoredVerdict{Project: "p", Contract: "c", Pair: "x", Rules: 1, Body: "{}"})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteCoordination().AddResult(coord.ContractResult{Project: "p", Contract: "c", Repo: "r", Version: 1, Commit: "x", Kind: coord.ResultRun, Result: "success", At: instant})
			return err
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteCoordination().AddDeployment(coord.Deployment{Project: "p", Repo: "r", Env: "prod", Commit: "x", At: instant})
			return err
		},
		func(tx hub.Tx) error {
			return tx.WriteCoordination().PutFileRequest(coord.FileRequest{Project: "p", ID: "f", FromRepo: "r", Description: "d", At: instant})
		},
		func(tx hub.Tx) error {
			return tx.PutPeer(hub.Peer{AID: "a", Endpoint: "https://x", State: hub.PeerApproved, Access: coord.AccessRead, AddedAt: instant})
		},
		func(tx hub.Tx) error { return tx.PutOutbox(hub.Outbox{Peer: "a", Sent: 1}) },
		func(tx hub.Tx) error { return tx.AddDeadLetter(hub.DeadLetter{Peer: "a", Fault: "down", At: instant}) },
		func(tx hub.Tx) error {
			return tx.PutInvite(hub.Invite{ID: "i", Hash: "h", Project: "p", Repo: "back", CreatedAt: instant, ExpiresAt: instant})
		},
		func(tx hub.Tx) error {
			return tx.AddToken(hub.Token{ID: "t", Agent: "a", Project: "p", Permissions: coord.Contributor, By: hub.Operator, CreatedAt: now, ExpiresAt: now})
		},
		func(tx hub.Tx) error {
			return tx.PutDeliberation(hub.Deliberation{ID: "d", Kind: hub.KindNegotiation, State: hub.TalkOffered, From: "ada", Asked: []hub.AgentID{"bob"}, CreatedAt: now, UpdatedAt: now})
		},
		func(tx hub.Tx) error {
			return tx.AddDecision(hub.Decision{ID: "d", Title: "t", Decision: "d", At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().PutTeam(hub.Team{ID: "core", Lifecycle: hub.TeamForming, CreatedAt: now, UpdatedAt: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().PutMember(hub.Member{Team: "core", Agent: "ada", Role: hub.RoleExecutor, Since: now, By: hub.Operator, Reason: "joined"})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteTeamspaces().PutTask(hub.Task{Team: "core", State: hub.TaskBacklog, CreatedAt: now, UpdatedAt: now})
			return err
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().PutHeldAction(hub.HeldAction{ID: "h", Team: "core", Request: []byte(`{}`), At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().PutTeamArtifact(hub.TeamArtifact{Team: "core", ID: "a", At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().AddArtifactVersion(hub.ArtifactVersion{Team: "core", Artifact: "a", Version: 1, At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteTeamspaces().PutConflict(hub.Conflict{Team: "core", Artifact: "a", Version: 1, State: hub.MergeManual, At: now})
		},
		func(tx hub.Tx) error {
			r := hub.Reservation{ID: "r1", Fence: 1, Tree: hub.WorkingTree{Path: "/src"}, Path: "a", Holder: "bob", State: hub.ReservationHeld, Since: now, Active: now}
			return tx.WriteReservations().Put(r, "")
		},
		func(tx hub.Tx) error {
			return tx.WriteReservations().PutWait(hub.FileWait{Tree: "/src", Path: "a", Agent: "ada", Since: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteReservations().PutView(hub.FileView{Tree: "/src", Path: "a", Agent: "bob", Digest: "d", At: now})
		},
		func(tx hub.Tx) error {
			return tx.WriteReservations().AddNote(hub.FileNote{Agent: "bob", Kind: "lapsed", Path: "a", Text: "t"})
		},
		func(tx hub.Tx) error {
			return tx.WriteChecks().PutCheck(hub.RepositoryCheck{Repository: hub.Repository{Path: "/src"}, Name: "test", Command: []string{"true"}})
		},
		func(tx hub.Tx) error {
			return tx.WriteChecks().PutPolicy(hub.CheckPolicy{Repository: hub.Repository{Path: "/src"}, Require: true})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteChecks().PutResult(hub.CheckResult{Repository: hub.Repository{Path: "/src"}, Name: "test", State: hub.ResultPassed, Output: hub.CheckOutput{Tail: "ok"}}, "")
			return err
		},
		func(tx hub.Tx) error { return tx.WriteChecks().PutProgress(hub.NewProgress("h")) },
		func(tx hub.Tx) error {
			return tx.WriteLandings().PutPolicy(hub.LandingPolicy{Repository: "/src", Into: "main", SetAt: now})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteLandings().PutEntry(hub.LandingEntry{Repository: "/src", Into: "main", Owner: "bob", State: hub.EntryQueued, QueuedAt: now})
			return err
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteLandings().PutReview(hub.Review{Handoff: "h", State: hub.ReviewStateWaiting, AskedAt: now})
			return err
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteUsage().Add(hub.Usage{ModelCall: hub.ModelCall{ID: "m1", At: now}, Record: 1, Source: hub.UsageACP, Agent: "bob", CLI: "claude"})
			return err
		},
		func(tx hub.Tx) error {
			return tx.WriteUsage().PutBudget(hub.Budget{N: 1, Of: "hub", Limit: 1, Unit: hub.BudgetTurns, Per: hub.PerDay, SetAt: now, SetBy: hub.Operator})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteContinuations().PutContinuation(hub.Continuation{Handoff: "h", Task: "T-1", Of: "bob", Reason: hub.ContinueQuota, State: hub.ContinuationWaiting, At: now})
			return err
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteContinuations().AddRescue(hub.Rescue{Ref: "rescue/bob/1", Commit: "c1", Agent: "bob", Folder: "/src", At: now})
			return err
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteKept().PutKeptWork(hub.KeptWork{Tree: hub.WorkingTree{Path: "/src"}, Agent: "bob", Why: hub.KeptTurn, At: now, State: hub.KeptState{ID: "x"}})
			return err
		},
		func(tx hub.Tx) error {
			return tx.WriteEvents().PutSource(hub.EventSource{Name: "ci", Vendor: hub.VendorGitHub, To: "bob", Actors: hub.ActorsMembers, SetAt: now, SetBy: hub.Operator})
		},
		func(tx hub.Tx) error {
			_, err := tx.WriteEvents().AddDelivered("ci", "d1", now)
			return err
		},
		func(tx hub.Tx) error { return tx.WriteEvents().CountEvents("ci", hub.EventForged, 2) },
		func(tx hub.Tx) error {
			_, err := tx.WriteEvents().PutSchedule(hub.Schedule{Every: "1h", To: "bob", Text: "work", SetAt: now, SetBy: hub.Operator, Due: now})
			return err
		},
		func(tx hub.Tx) error { return tx.WriteTree().PutTile(hub.Tile{Hashes: make([]byte, 64)}) },
		func(tx hub.Tx) error {
			return tx.WriteTree().PutCheckpoint(hub.Checkpoint{Size: 2, At: now, Note: "parley/x\n2\n"})
		},
		func(tx hub.Tx) error { return tx.AddRoot(hub.Root{Path: "/src", AddedBy: hub.Operator, AddedAt: now}) },
		func(tx hub.Tx) error { return tx.PutMeta("name", "test") },
		func(tx hub.Tx) error { return tx.PutCursor("consumer", 1) },
		func(tx hub.Tx) error { return benchSend(tx, gone, goneParties) },
		func(tx hub.Tx) error {
			return tx.AddArchive(hub.Archive{Seq: 1, Hash: "x", Cutoff: old.Add(time.Hour), File: "f", SHA256: "y", Entries: 1, Messages: 1, At: now})
		},
		func(tx hub.Tx) error { _, err := tx.Prune(10); return err },
	}
	for i, step := range steps {
		if err := s.Update(t.Context(), hub.SurvivesKill, step); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

// contentOf returns the rows of every table that a dump holds, by table. The
// word index and the sums follow from the other rows, and a lease ends with its hub.
func contentOf(t testing.TB, c *conn) map[string][]string {
	t.Helper()
	content := map[string][]string{}
	for _, table := range rowsOf(t, c, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'message_text%' AND name NOT LIKE '%_sums' AND name <> 'leases'`) {
		where := ""
		if table == "cursors" {
			where = ` WHERE consumer <> '` + wordCursor + `'`
		}
		content[table] = rowsOf(t, c, `SELECT * FROM `+table+where)
		slices.Sort(content[table])
	}
	return content
}

func TestDump(t *testing.T) {
	home := t.TempDir()
	s := openAt(t, home, nil)
	fillEveryTable(t, s)
	copyHome := filepath.Join(t.TempDir(), "copy")
	all := dumpOf(t, s, true)
	if err := Load(t.Context(), copyHome, schemaVersion(), replay(all)); err != nil {
		t.Fatal(err)
	}
	t.Run("R3-005 what is loaded from a dump equals the original, table by table", func(t *testing.T) {
		got, want := contentOf(t, raw(t, copyHome)), contentOf(t, raw(t, home))
		for table, rows := range want {
			if len(rows) == 0 {
				t.Errorf("%s: nothing to compare", table)
			}
			if !slices.Equal(got[table], rows) {
				t.Errorf("%s:\ngot  %q\nwant %q", table, got[table], rows)
			}
		}
	})
	t.Run("every table is in a dump", func(t *testing.T) {
		var in []string
		for _, d := range rows.DumpTables {
			in = append(in, d.Name)
		}
		for table := range contentOf(t, raw(t, home)) {
			if !slices.Contains(in, table) {
				t.Errorf("%s is not", table)
			}
		}
	})
	loaded := openAt(t, copyHome, nil)
	t.Run("R3-130 the same database gives the same bytes", func(t *testing.T) {
		for _, other := range []*Store{s, loaded} {
			if got := dumpOf(t, other, true); !slices.Equal(got, all) {
				t.Errorf("second dump:\ngot  %q\nwant %q", got, all)
			}
		}
	})
	t.Run("a loaded database finds words and goes on", func(t *testing.T) {
		if got := countFound(t, loaded, "bob", "html"); got != 1 {
			t.Errorf("found %d messages, want 1", got)
		}
		wantMessage(t, loaded, put(t, loaded))
		if err := loaded.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("R3-065 a restricted package is left out, unless it is asked for", func(t *testing.T) {
		for _, tt := range []struct {
			restricted bool
			want       int
		}{{false, 1}, {true, 2}} {
			got, marked := 0, 0
			for _, d := range dumpOf(t, s, tt.restricted) {
				got += strings.Count(d.row, "the plan")
				marked += strings.Count(d.row, `"package_json":"{\"restricted\":true,\"package_hash\":\"`)
			}
			if got != tt.want || marked != 2-tt.want {
				t.Errorf("restricted %v: got %d packages and %d marks, want %d and %d", tt.restricted, got, marked, tt.want, 2-tt.want)
			}
		}
	})
	t.Run("a dump is a snapshot", func(t *testing.T) {
		before := dumpOf(t, s, false)
		var got []dumped
		err := s.Dump(t.Context(), anySchema, func(table string, row []byte) error {
			if len(got) == 0 {
				put(t, s)
			}
			got = append(got, dumped{table, string(row)})
			return nil
		}, false)
		if err != nil || !slices.Equal(got, before) {
			t.Errorf("a dump during a write: got %d rows (%v), want the %d from before it", len(got), err, len(before))
		}
	})
	t.Run("what the receiver reports ends a dump", func(t *testing.T) {
		full := errors.New("no room")
		err := s.Dump(t.Context(), anySchema, func(string, []byte) error { return full }, false)
		if !errors.Is(err, full) {
			t.Errorf("got %v, want %v", err, full)
		}
	})
	t.Run("a value that the hub does not write is named", func(t *testing.T) {
		dir := t.TempDir()
		openAt(t, dir, nil).Close()
		for _, value := range []string{`x'00ff'`, `1.5`, `CAST(x'ff' AS TEXT)`} {
			c := raw(t, dir)
			if err := c.db.Exec(`INSERT OR REPLACE INTO agents VALUES ('odd', 'executor', ` + value + `, 'active', 'now', NULL)`); err != nil {
				t.Fatal(err)
			}
			c.close()
			s := openAt(t, dir, nil)
			err := s.Dump(t.Context(), anySchema, func(string, []byte) error { return nil }, false)
			if e := wantCode(t, err, hub.CodeDegraded); !strings.Contains(e.Error(), "row 1 of agents has a value in auditor") {
				t.Errorf("%s: got %v", value, e)
			}
			s.Close()
		}
	})
}

func TestLoad(t *testing.T) {
	s := openTest(t, nil)
	fillEveryTable(t, s)
	all := dumpOf(t, s, false)
	find := func(table string) int { return slices.IndexFunc(all, func(d dumped) bool { return d.table == table }) }
	with := func(table, was, is string) []dumped {
		rows := slices.Clone(all)
		i := find(table)
		rows[i].row = strings.Replace(rows[i].row, was, is, 1)
		if rows[i] == all[i] {
			t.Fatalf("%s has no %s", table, was)
		}
		return rows
	}
	for _, tt := range []struct {
		name   string
		schema int
		rows   []dumped
		code   hub.Code
		text   string
	}{
		{"a newer schema", schemaVersion() + 1, all, hub.CodeConflict, "newer parley"},
		{"no schema", 0, all, hub.CodeInvalid, "not a schema version"},
		{"a table that is not there", schemaVersion(), []dumped{{"sqlite_schema", `{}`}}, hub.CodeInvalid, `no table named "sqlite_schema"`},
		{"a column too few", schemaVersion(), with("agents", `"role":"executor",`, ""), hub.CodeInvalid, "row 1 of agents: its member 2 is not role"},
		{"a column too many", schemaVersion(), with("agents", `}`, `,"x":1}`), hub.CodeInvalid, "more than 6 members"},
		{"a value of another kind", schemaVersion(), with("agents", `"executor"`, `["executor"]`), hub.CodeInvalid, "role: it is neither"},
		{"a number that is not whole", schemaVersion(), with("agents", `"auditor":0`, `"auditor":0.5`), hub.CodeInvalid, "not a whole number"},
		{"something behind a row", schemaVersion(), with("agents", `}`, `}{}`), hub.CodeInvalid, "something follows"},
		{"a row that is no JSON", schemaVersion(), []dumped{{"agents", `agents`}}, hub.CodeInvalid, "not a JSON object"},
		{"a row that is no UTF-8", schemaVersion(), []dumped{{"agents", "{\"id\":\"\xff\"}"}}, hub.CodeInvalid, "not valid UTF-8"},
		{"a state that does not exist", schemaVersion(), with("agents", `"active"`, `"asleep"`), hub.CodeInvalid, "row 1 of agents does not fit"},
		{"a row twice", schemaVersion(), append(slices.Clone(all), all[find("agents")]), hub.CodeInvalid, "row 3 of agents does not fit: it already exists"},
		{"a row whose owner is missing", schemaVersion(), slices.Delete(slices.Clone(all), find("messages"), find("messages")+1), hub.CodeInvalid, "of message_meta does not fit"},
	} {
		t.Run(tt.name+" is refused, and nothing is left", func(t *testing.T) {
			home := t.TempDir()
			e := wantCode(t, Load(t.Context(), home, tt.schema, replay(tt.rows)), tt.code)
			if !strings.Contains(e.Error(), tt.text) {
				t.Errorf("error: got %q, want it to say %q", e, tt.text)
			}
			wantNoDatabase(t, home)
		})
	}
	t.Run("a home with a hub in it is refused and left as it is", func(t *testing.T) {
		home := t.TempDir()
		other := openAt(t, home, nil)
		id := put(t, other)
		wantCode(t, Load(t.Context(), home, schemaVersion(), replay(all)), hub.CodeConflict) // it is open
		other.Close()
		wantCode(t, Load(t.Context(), home, schemaVersion(), replay(all)), hub.CodeConflict)
		wantMessage(t, openAt(t, home, nil), id)
	})
	t.Run("what the source reports is passed on, and nothing is left", func(t *testing.T) {
		home, broken := t.TempDir(), errors.New("the file is cut off")
		next := replay(all[:5])
		err := Load(t.Context(), home, schemaVersion(), func() (string, []byte, error) {
			table, row, err := next()
			if err == io.EOF {
				err = broken
			}
			return table, row, err
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		wantNoDatabase(t, home)
	})
	t.Run("a caller that gives up leaves nothing behind", func(t *testing.T) {
		home := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		next := replay(all)
		err := Load(ctx, home, schemaVersion(), func() (string, []byte, error) {
			cancel()
			return next()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		wantNoDatabase(t, home)
	})
	t.Run("what a killed load left is not in the way", func(t *testing.T) {
		home := t.TempDir()
		for _, name := range []string{"hub.db.load", "hub.db.load-wal"} {
			if err := os.WriteFile(filepath.Join(home, name), []byte("half a database"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := Load(t.Context(), home, schemaVersion(), replay(all)); err != nil {
			t.Fatal(err)
		}
		if got := dumpOf(t, openAt(t, home, nil), false); !slices.Equal(got, dumpOf(t, s, false)) {
			t.Error("the loaded database differs")
		}
	})
	t.Run("more rows than a batch are loaded and found", func(t *testing.T) {
		big := openTest(t, nil)
		const n = wordBatch + 3
		err := big.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for range n {
				m, parties := benchMessage(testIDs, "ada", "bob")
				if err := benchSend(tx, m, parties); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		if err := Load(t.Context(), home, schemaVersion(), replay(dumpOf(t, big, false))); err != nil {
			t.Fatal(err)
		}
		if got := countFound(t, openAt(t, home, nil), "bob", "printer"); got != n {
			t.Errorf("found %d messages, want %d", got, n)
		}
	})
}

// wantNoDatabase checks that a home has nothing but a lock file.
func wantNoDatabase(t *testing.T, home string) {
	t.Helper()
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != LockFile {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	for _, seed := range []string{
		`{"id":"a","n":1}`, `{"id":null,"n":-9223372036854775808}`, `{"id":"\ud800","n":1e3}`, `{"n":1,"id":"a"}`, `{"id":"a","n":1}x`, `[]`, ``, `{"id":{"n":1}}`,
	} {
		f.Add([]byte(seed))
	}
	columns := []string{"id", "n"}
	f.Fuzz(func(t *testing.T, row []byte) {
		values, err := rows.DecodeRow(columns, row)
		if err != nil {
			return
		}
		// What is taken can be written again, and then reads the same.
		var b bytes.Buffer
		b.WriteString(`{"id":`)
		enc := json.NewEncoder(&b)
		enc.Encode(values[0])
		b.WriteString(`,"n":`)
		enc.Encode(values[1])
		b.WriteString(`}`)
		again, err := rows.DecodeRow(columns, b.Bytes())
		if err != nil || !slices.Equal(again, values) {
			t.Errorf("%q: got %v, then %v (%v)", row, values, again, err)
		}
	})
}
