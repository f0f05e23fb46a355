package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/rows"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

// testBusy is how long tests wait for a lock that will not come.
const testBusy = 20 * time.Millisecond

// openTest opens a store in a folder of its own.
func openTest(t testing.TB, opts *Options) *Store {
	t.Helper()
	return openAt(t, t.TempDir(), opts)
}

// openAt opens a store that indexes nothing by itself as long as little waits.
func openAt(t testing.TB, dir string, opts *Options) *Store {
	t.Helper()
	o := Options{patience: time.Hour}
	if opts != nil {
		o = *opts
		o.patience = cmp.Or(o.patience, time.Hour)
	}
	s, err := Open(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var testIDs = hub.NewIDs(time.Now)

// tryPut stores a message.
func tryPut(s *Store) (hub.EnvelopeID, error) {
	m, parties := benchMessage(testIDs, "ada", "bob")
	return m.ID, s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return benchSend(tx, m, parties) })
}

func put(t testing.TB, s *Store) hub.EnvelopeID {
	t.Helper()
	id, err := tryPut(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantMessage(t testing.TB, s *Store, id hub.EnvelopeID) {
	t.Helper()
	if err := s.View(context.Background(), func(r hub.Reader) error { _, err := r.Message(id); return err }); err != nil {
		t.Errorf("message %s: %v", id, err)
	}
}

func wantCode(t testing.TB, err error, want hub.Code) *hub.Error {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("got code %q (%v), want %q", got, err, want)
	}
	var e *hub.Error
	if !errors.As(err, &e) {
		e = new(hub.Error)
	}
	return e
}

// raw opens the database as another program would.
func raw(t testing.TB, dir string) *conn {
	t.Helper()
	c, err := openConn(filepath.Join(dir, databaseName), testBusy, readerCache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return c
}

// makeDatabase runs statements on a database of its own in dir, which is then closed.
func makeDatabase(t testing.TB, dir, sql string) {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPragmas(t *testing.T) {
	check := func(t *testing.T, c *conn, pragma, want string) {
		t.Helper()
		got, err := firstText(c, "PRAGMA "+pragma)
		if err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", pragma, got, err, want)
		}
	}
	all := func(t *testing.T, s *Store, writerSync string) {
		t.Helper()
		put(t, s)
		if err := s.Update(context.Background(), hub.SurvivesPowerLoss, func(tx hub.Tx) error { return tx.PutMeta("k", "v") }); err != nil {
			t.Fatal(err)
		}
		idle(t, s, func() {
			conns := []*conn{s.conn.c}
			for range cap(s.readers) {
				r := <-s.readers
				defer func() { s.readers <- r }()
				conns = append(conns, r.c)
			}
			for i, c := range conns {
				check(t, c, "journal_mode", "wal")
				check(t, c, "foreign_keys", "1")
				check(t, c, "busy_timeout", "5000")
				sync := "1"
				if i == 0 {
					sync = writerSync
				}
				check(t, c, "synchronous", sync)
			}
		})
	}
	t.Run("R3-078 every connection has the pragmas of the protocol", func(t *testing.T) {
		all(t, openTest(t, &Options{Readers: 3}), "1")
	})
	t.Run("full durability keeps the writer in sync", func(t *testing.T) {
		all(t, openTest(t, &Options{Full: true}), "2")
	})
	t.Run("a change that must survive power loss is committed in sync", func(t *testing.T) {
		s := openTest(t, nil)
		for level, want := range map[hub.Durability]string{hub.SurvivesKill: "1", hub.SurvivesPowerLoss: "2"} {
			err := s.Update(context.Background(), level, func(tx hub.Tx) error {
				check(t, s.conn.c, "synchronous", want)
				return tx.PutMeta("k", want)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestBackground(t *testing.T) {
	s := openTest(t, &Options{Readers: 2})
	nothing := func(hub.Reader) error { return nil }
	err := s.View(hub.InBackground(t.Context()), func(hub.Reader) error {
		ctx, cancel := context.WithTimeout(hub.InBackground(t.Context()), 20*time.Millisecond)
		defer cancel()
		if err := s.View(ctx, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("work in the background took the reader of the callers: %v", err)
		}
		return s.View(t.Context(), nothing)
	})
	if err != nil {
		t.Errorf("a caller found no reader: %v", err)
	}
}

// idle calls fn while the writer does nothing but wait for it.
func idle(t testing.TB, s *Store, fn func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Update(context.Background(), hub.SurvivesKill, func(hub.Tx) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	<-entered
	defer func() {
		close(leave)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	fn()
}

// protocolDDL is the text that the protocol publishes.
const protocolDDL = `
CREATE TABLE IF NOT EXISTS messages (
  id                TEXT PRIMARY KEY,
  protocol          TEXT NOT NULL DEFAULT 'acp',
  version           TEXT NOT NULL DEFAULT '1.0.0',
  from_agent        TEXT NOT NULL,
  to_agents_json    TEXT NOT NULL,           -- normalized recipient array
  team              TEXT,
  reply_to          TEXT,
  thread_id         TEXT,
  type              TEXT NOT NULL,
  topic             TEXT,
  priority          TEXT NOT NULL DEFAULT 'normal',
  status            TEXT NOT NULL DEFAULT 'pending',
  payload_json      TEXT NOT NULL,
  policy_json       TEXT NOT NULL,
  context_json      TEXT,
  external_refs_json TEXT,
  sequence          INTEGER,
  expires_at        TEXT,
  payload_bytes     INTEGER NOT NULL,
  created_at        TEXT NOT NULL DEFAULT (datetime('now','utc')),
  updated_at        TEXT
);

CREATE INDEX IF NOT EXISTS idx_messages_from ON messages(from_agent, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_messages_thread ON messages(thread_id, created_at);
CREATE INDEX IF NOT EXISTS idx_messages_type ON messages(type, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_messages_status ON messages(status, created_at DESC);

CREATE TABLE IF NOT EXISTS delivery_log (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id    TEXT NOT NULL,
  recipient     TEXT NOT NULL,
  channel       TEXT NOT NULL,               -- session|inbox|channel|wake
  status        TEXT NOT NULL DEFAULT 'pending',
  delivered_at  TEXT,
  read_at       TEXT,
  error         TEXT,
  FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS handoffs (
  id                 TEXT PRIMARY KEY,
  thread_id          TEXT NOT NULL,
  task_id            TEXT NOT NULL,
  from_agent         TEXT NOT NULL,
  to_agent           TEXT NOT NULL,
  title              TEXT NOT NULL,
  reason             TEXT NOT NULL,
  package_json       TEXT NOT NULL,
  status             TEXT NOT NULL DEFAULT 'proposed',
  provenance_json    TEXT NOT NULL,
  verification_json  TEXT NOT NULL,
  initiated_at       TEXT NOT NULL DEFAULT (datetime('now','utc')),
  resolved_at        TEXT,
  resolution_notes   TEXT
);

-- Prevent multiple active handoffs on the same task
CREATE UNIQUE INDEX IF NOT EXISTS idx_handoffs_task_active
ON handoffs(task_id)
WHERE status IN ('proposed','validating','accepted','activated');

CREATE TABLE IF NOT EXISTS acp_meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

INSERT OR IGNORE INTO acp_meta (key, value) VALUES ('schema_version', '1');
INSERT OR IGNORE INTO acp_meta (key, value) VALUES ('protocol_version', '1.0.0');
`

// rowsOf returns the rows of a statement, columns joined by "|".
func rowsOf(t testing.TB, c *conn, sql string) []string {
	t.Helper()
	st, _, err := c.db.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	all := []string{}
	for st.Step() {
		var columns []string
		for i := range st.ColumnCount() {
			columns = append(columns, st.ColumnText(i))
		}
		all = append(all, strings.Join(columns, "|"))
	}
	if err := st.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSchema(t *testing.T) {
	t.Run("R3-079 the protocol's tables and indexes are as published", func(t *testing.T) {
		theirs := t.TempDir()
		makeDatabase(t, theirs, protocolDDL)
		ours := t.TempDir()
		openAt(t, ours, nil)
		const list = `SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name`
		have := rowsOf(t, raw(t, ours), list)
		for _, want := range rowsOf(t, raw(t, theirs), list) {
			if !slices.Contains(have, want) {
				t.Errorf("missing or different: %s", want)
			}
		}
		for _, table := range []string{"messages", "delivery_log", "handoffs", "acp_meta"} {
			columns := "PRAGMA table_xinfo(" + table + ")"
			if got, want := rowsOf(t, raw(t, ours), columns), rowsOf(t, raw(t, theirs), columns); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", table, got, want)
			}
		}
	})
	t.Run("R3-080 deleting a message removes its deliveries and all else about it", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		gone, kept := put(t, s), put(t, s)
		for _, id := range []hub.EnvelopeID{gone, kept} {
			if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
				_, err := tx.MarkProcessed(id, "bob", hub.At(time.Now()))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		c := raw(t, dir)
		if err := s.IndexText(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := c.db.Exec(`DELETE FROM messages WHERE id = '` + string(gone) + `'`); err != nil {
			t.Fatal(err)
		}
		for table, want := range map[string]string{
			"messages": "1", "delivery_log": "1", "message_meta": "1", "message_party": "2", "processed": "1",
			`message_text WHERE message_text MATCH 'printer'`: "1",
		} {
			if got := rowsOf(t, c, "SELECT count(*) FROM "+table); got[0] != want {
				t.Errorf("%s: got %s rows, want %s", table, got[0], want)
			}
		}
		wantMessage(t, s, kept)
		if err := s.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("R3-081 the versions of schema and protocol are recorded", func(t *testing.T) {
		s := openTest(t, nil)
		if err := s.View(context.Background(), func(r hub.Reader) error {
			for key, want := range map[string]string{"schema_version": "1", "protocol_version": "1.0.0"} {
				if got, err := r.Meta(key); err != nil || got != want {
					t.Errorf("%s: got %q (%v), want %q", key, got, err, want)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"schema_version", "protocol_version"} {
			err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta(key, "9") })
			wantCode(t, err, hub.CodeInvalid)
		}
	})
	t.Run("R3-057 a task has one active handoff, also for plain SQL", func(t *testing.T) {
		dir := t.TempDir()
		openAt(t, dir, nil)
		c := raw(t, dir)
		insert := func(id, status string) error {
			return c.db.Exec(fmt.Sprintf(`INSERT INTO handoffs (id, thread_id, task_id, from_agent, to_agent, title, reason,
				package_json, status, provenance_json, verification_json) VALUES ('%s','t','task','a','b','x','y','{}','%s','{}','{}')`, id, status))
		}
		if err := errors.Join(insert("h1", "rejected"), insert("h2", "proposed"), insert("h3", "closed")); err != nil {
			t.Fatal(err)
		}
		for _, status := range []string{"proposed", "validating", "accepted", "activated"} {
			if err := insert("h4", status); !errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
				t.Errorf("a second one that is %s: got %v, want a unique violation", status, err)
			}
		}
	})
	t.Run("R3-120 the journal is append-only, also for plain SQL", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		put(t, s)
		put(t, s)
		c := raw(t, dir)
		before := rowsOf(t, c, "SELECT * FROM journal")
		for _, sql := range []string{
			`UPDATE journal SET actor = 'eve'`, `UPDATE journal SET seq = 9 WHERE seq = 1`, `DELETE FROM journal`, `DELETE FROM journal WHERE seq = 2`,
			`INSERT INTO journal SELECT seq, at, 'eve', action, subject, outcome, facts_json, hash FROM journal WHERE seq = 2`,
		} {
			if err := c.db.Exec(sql); !errors.Is(err, sqlite3.CONSTRAINT) {
				t.Errorf("%s: got %v, want it refused", sql, err)
			}
		}
		if after := rowsOf(t, c, "SELECT * FROM journal"); !slices.Equal(after, before) {
			t.Errorf("got %q, want %q", after, before)
		}
	})
	t.Run("the database knows every state of the domain and no other", func(t *testing.T) {
		s := openTest(t, nil)
		m, parties := benchMessage(testIDs, "ada", "bob")
		var row int64
		if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) (err error) {
			if err := tx.AddMessage(m, parties); err != nil {
				return err
			}
			if err := tx.PutAgent(hub.Agent{ID: "ada", Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: m.CreatedAt}, ""); err != nil {
				return err
			}
			if err = tx.AddDelivery(hub.Delivery{MessageID: m.ID, Recipient: "bob", Channel: hub.ChannelInbox, Status: hub.DeliveryPending}); err != nil {
				return err
			}
			rows, err := tx.Deliveries(m.ID)
			if err == nil {
				row = rows[0].ID
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		try := func(what string, fn func(tx hub.Tx) error, ok bool) {
			t.Helper()
			err := s.Update(context.Background(), hub.SurvivesKill, fn)
			if ok && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if !ok {
				wantCode(t, err, hub.CodeInvalid)
			}
		}
		was := m.Status
		for _, next := range append(hub.MessageStatuses, "nonsense") {
			e := m.Envelope
			e.Status = next
			try(string(next), func(tx hub.Tx) error { return tx.PutStatus(e, was) }, next != "nonsense")
			was = next
		}
		for _, next := range append(hub.DeliveryStatuses, "nonsense") {
			try(string(next), func(tx hub.Tx) error { return tx.PutDelivery(hub.Delivery{ID: row, Status: next}) }, next != "nonsense")
		}
		state := hub.PartyUnread
		for _, next := range []hub.PartyState{
			hub.PartySender, hub.PartyHeld, hub.PartyDelivered, hub.PartyRead, hub.PartyExpired, hub.PartyFailed, hub.PartyUnread, "nonsense",
		} {
			try(string(next), func(tx hub.Tx) error { return tx.PutParty(m.ID, "bob", next, state) }, next != "nonsense")
			state = next
		}
		before := hub.AgentActive
		for _, next := range []hub.AgentState{hub.AgentPaused, hub.AgentActive, "nonsense"} {
			try(string(next), func(tx hub.Tx) error { return tx.PutAgent(hub.Agent{ID: "ada", State: next}, before) }, next != "nonsense")
			before = next
		}
		n, np := benchMessage(testIDs, "ada", "bob")
		n.Status = "nonsense"
		try("insert", func(tx hub.Tx) error { return tx.AddMessage(n, np) }, false)
	})
	t.Run("references are copied to their own column", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		m, parties := benchMessage(testIDs, "ada", "bob")
		m.Context = &hub.Context{ExternalRefs: []hub.ExternalRef{{Type: "pr", Value: "7"}}}
		m.Payload = []byte("{ \"a b\" : [1, 2] }\n")
		if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.AddMessage(m, parties) }); err != nil {
			t.Fatal(err)
		}
		got := rowsOf(t, raw(t, dir), `SELECT external_refs_json, context_json, payload_bytes, to_agents_json, created_at FROM messages`)
		want := `[{"type":"pr","value":"7"}]|{"external_refs":[{"type":"pr","value":"7"}]}|13|["bob"]|` + m.CreatedAt.String()
		if got[0] != want {
			t.Errorf("got %s, want %s", got[0], want)
		}
	})
}

func TestMigration(t *testing.T) {
	t.Run("R3-082 opening again changes nothing", func(t *testing.T) {
		dir := t.TempDir()
		list := func() []string {
			s := openAt(t, dir, nil)
			defer s.Close()
			return rowsOf(t, raw(t, dir), `SELECT type, name, sql FROM sqlite_schema ORDER BY type, name`)
		}
		first := list()
		c := raw(t, dir)
		if err := c.db.Exec(`PRAGMA user_version = 0`); err != nil { // as if it had been killed before it was noted
			t.Fatal(err)
		}
		c.close()
		if again := list(); !slices.Equal(again, first) {
			t.Errorf("got %q, want %q", again, first)
		}
	})
	t.Run("R1-083 projects of an older database get their sums", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		fillEveryTable(t, s)
		read := func(s *Store) (sums coord.Sums, each []coord.ContractSum) {
			err := s.View(t.Context(), func(r hub.Reader) (err error) {
				if sums, err = r.Coordination().Sums("p"); err == nil {
					each, err = r.Coordination().ContractSums("p", "", 9)
				}
				return err
			})
			if err != nil || len(each) != 1 || len(sums.Buckets) != 1 || sums.Contracts == "" {
				t.Fatalf("got %+v, %+v, %v", sums, each, err)
			}
			return sums, each
		}
		sums, each := read(s)
		s.Close()
		c := raw(t, dir)
		if err := c.db.Exec(`DROP TABLE contract_sums; DROP TABLE project_sums; PRAGMA user_version = 11`); err != nil {
			t.Fatal(err)
		}
		c.close()
		s = openAt(t, dir, nil)
		defer s.Close()
		if again, eachAgain := read(s); !reflect.DeepEqual(again, sums) || !reflect.DeepEqual(eachAgain, each) {
			t.Errorf("got %+v and %+v, want %+v and %+v", again, eachAgain, sums, each)
		}
	})
	t.Run("a database of schema 18 gets a table of wakes, and keeps its documents", func(t *testing.T) {
		dir := t.TempDir()
		openAt(t, dir, nil).Close()
		c := raw(t, dir)
		if err := c.db.Exec(`DROP TABLE wakes; INSERT INTO acp_meta (key, value) VALUES ('router/bob','{"barren":2}'); PRAGMA user_version = 18`); err != nil {
			t.Fatal(err)
		}
		c.close()
		s := openAt(t, dir, nil)
		defer s.Close()
		err := s.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			if got, err := tx.Meta("router/bob"); err != nil || got != `{"barren":2}` {
				t.Errorf("got %s, %v", got, err)
			}
			return tx.WriteWakes().Put(hub.Wake{ID: "w_1", Agent: "bob", Channel: hub.ChannelSession, State: hub.WakeReserved, At: hub.At(time.Now())}, "")
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("a database of schema 19 keeps its queue: items become tasks", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, databaseName)
		if err := protect(path); err != nil {
			t.Fatal(err)
		}
		c, err := openConn(path, time.Second, readerCache)
		if err != nil {
			t.Fatal(err)
		}
		for version := range 19 {
			if err := migrateOne(c, version); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.db.Exec(hubtest.QueueBefore20); err != nil {
			t.Fatal(err)
		}
		c.close()
		s := openAt(t, dir, nil)
		defer s.Close()
		hubtest.CheckQueue(t, s)
		if drift, err := s.SchemaDrift(t.Context()); err != nil || len(drift) > 0 {
			t.Errorf("the schema differs from a new one: %v (%v)", drift, err)
		}
	})
	t.Run("a dump of schema 19 keeps its queue", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home")
		err := Load(t.Context(), home, 19, replay([]dumped{
			{"acp_meta", `{"key":"workq","value":"[{\"item\":\"a\",\"by\":\"ada\",\"at\":\"2026-01-01T00:00:01.000Z\"}]"}`},
			{"claims", `{"item":"b","owner":"bob","claimed_at":"2026-01-01T00:00:02.000Z"}`},
			{"teams", `{"id":"core","lifecycle":"active","revision":1,"body_json":"{}"}`},
			{"team_tasks", `{"n":7,"team":"core","state":"backlog","owner":null,"revision":1,"body_json":"{\"task_id\":\"T-7\",\"team\":\"core\"}"}`},
		}))
		if err != nil {
			t.Fatal(err)
		}
		got := rowsOf(t, raw(t, home), `SELECT n, coalesce(team, '-'), coalesce(item, '-'), coalesce(owner, '-') FROM tasks ORDER BY n`)
		if want := []string{"7|core|-|-", "8|-|a|-", "9|-|b|bob"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("R1-069 scopes of peers become grants with the permissions of their invites", func(t *testing.T) {
		dir := t.TempDir()
		openAt(t, dir, nil).Close()
		c := raw(t, dir)
		err := c.db.Exec(`
			INSERT INTO peers (aid, endpoint, state, trust, native, health, fails, added_at) VALUES
				('guest','https://g','approved','verified',1,'up',0,1), ('host','https://h','approved','verified',1,'up',0,1),
				('added','https://a','approved','verified',1,'up',0,1), ('gone','https://x','removed','unknown',1,'up',0,1);
			INSERT INTO acp_meta (key, value) VALUES ('peer.scope/guest','["p","q"]'), ('peer.scope/host','["p"]'), ('peer.scope/gone','');
			INSERT INTO invites (id, hash, hint, project, repo, permissions_json, created_by, created_at, expires_at, redeemed_at, redeemed_by) VALUES
				('i1','h1','x','p','front','["project:read"]','operator',1,9,2,'guest'), ('i2','h2','x','q','web','["contract:propose"]','operator',1,9,3,'guest');
			INSERT INTO projects (id, name, objective, status, policy, repos_json, created_at, updated_at) VALUES
				('p','n','o','planning','any','[]',1,1), ('q','n','o','planning','any','[]',1,1), ('r','n','o','planning','all','[]',1,1);
			INSERT INTO journal (seq, at, actor, action, subject, outcome, facts_json, hash) VALUES
				(1,'2026-01-01T00:00:00.000Z','operator','token.minted','p','ok','{"agent":"aid://ci.example/ci@1.0.0","expires":"2026-01-02T00:00:00Z","jti":"T1","permissions":["project:read"]}','x'),
				(2,'2026-01-01T00:00:00.000Z','operator','project.changed','q','ok','{"action":"contract.SetPolicy","status":"any"}','y');
			PRAGMA user_version = 9;`)
		if err != nil {
			t.Fatal(err)
		}
		c.close()
		s := openAt(t, dir, nil)
		defer s.Close()
		err = s.View(t.Context(), func(r hub.Reader) error {
			for aid, want := range map[coord.AID][]coord.Grant{
				"guest": {{Project: "p", Repos: []string{"front"}, Permissions: []coord.Permission{coord.PermitRead}}, {Project: "q", Repos: []string{"web"}, Permissions: []coord.Permission{coord.PermitPropose}}},
				"host":  {{Project: "p", Repos: []string{}, Permissions: coord.Permissions, Host: true}}, "added": nil, "gone": nil,
			} {
				p, err := r.Peer(aid)
				if err != nil || !reflect.DeepEqual(p.Grants, want) {
					t.Errorf("%s: got %+v (%v), want %+v", aid, p.Grants, err, want)
				}
				if _, err := r.Meta("peer.scope/" + string(aid)); hub.CodeOf(err) != hub.CodeNotFound {
					t.Errorf("the old row of %s is still there: %v", aid, err)
				}
			}
			for id, want := range map[coord.ProjectID]coord.AgreementPolicy{"p": coord.AgreeCounterparty, "q": coord.AgreeAny, "r": coord.AgreeAll} {
				if p, err := r.Coordination().Project(id); err != nil || p.Policy != want {
					t.Errorf("policy of %s: got %s (%v), want %s", id, p.Policy, err, want)
				}
			}
			token, err := r.Token("T1")
			if token.Agent != "aid://ci.example/ci@1.0.0" || token.Project != "p" || token.ExpiresAt.String() != "2026-01-02T00:00:00.000Z" || len(token.Permissions) != 1 {
				t.Errorf("token: got %+v", token)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("R3-082 a database of another program is taken over with its messages", func(t *testing.T) {
		dir := t.TempDir()
		makeDatabase(t, dir, protocolDDL+`
			INSERT INTO messages (id, from_agent, to_agents_json, thread_id, type, topic, priority, status, payload_json, policy_json, payload_bytes, created_at) VALUES
			('01900000-0000-7000-8000-000000000001', 'ada', '["bob", "cleo"]', 't1', 'status.update', 'build', 'normal', 'pending', '{"summary":"green lights"}',
				'{"visibility":"private","sensitivity":"low","human_gate":"none"}', 26, '2026-01-01 10:00:00'),
			('m2', 'bob', '["ada"]', 't1', 'status.update', NULL, 'critical', 'delivered', '{"summary":"red lights"}',
				'{"visibility":"private","sensitivity":"low","human_gate":"none"}', 24, '2026-01-01 10:00:00'),
			('m3', 'ada', '["*"]', 't1', 'knowledge.push', NULL, 'low', 'read', '{"summary":"to all"}',
				'{"visibility":"private","sensitivity":"low","human_gate":"none"}', 20, '2026-01-01T10:00:02.000Z'),
			('m4', 'ada', '["bob"]', 't1', 'status.update', NULL, 'low', 'pending', '{"summary":"gated lights"}',
				'{"visibility":"private","sensitivity":"low","human_gate":"required"}', 26, '2026-01-01T10:00:03.000Z');
			INSERT INTO delivery_log (message_id, recipient, channel, status) VALUES ('m3','cleo','inbox','read'),('m3','bob','inbox','read');`)
		s := openAt(t, dir, nil)
		const m1 = hub.EnvelopeID("01900000-0000-7000-8000-000000000001")
		if err := s.IndexText(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := s.View(context.Background(), func(r hub.Reader) error {
			for _, c := range []struct {
				name string
				q    hub.Query
				want []hub.EnvelopeID
			}{
				{"bob", hub.Query{Viewer: "bob"}, []hub.EnvelopeID{"m3", "m2", m1}},
				{"cleo", hub.Query{Viewer: "cleo"}, []hub.EnvelopeID{"m3", m1}},
				{"eve", hub.Query{Viewer: "eve"}, nil},
				{"text", hub.Query{Viewer: "cleo", Text: "lights"}, []hub.EnvelopeID{m1}},
				{"topic", hub.Query{Viewer: "bob", Topic: "build"}, []hub.EnvelopeID{m1}},
				{"thread", hub.Query{Audit: true, Thread: "t1"}, []hub.EnvelopeID{"m4", "m3", "m2", m1}},
			} {
				c.q.Limit = 9
				page, err := r.Query(c.q)
				var got []hub.EnvelopeID
				for _, m := range page.Messages {
					got = append(got, m.ID)
				}
				if err != nil || !slices.Equal(got, c.want) {
					t.Errorf("%s: got %v (%v), want %v", c.name, got, err, c.want)
				}
			}
			for agent, want := range map[hub.AgentID][]hub.EnvelopeID{"ada": {"m2"}, "bob": {m1}, "cleo": {m1}} {
				page, err := r.Inbox(agent, hub.InboxFilter{Limit: 9})
				var got []hub.EnvelopeID
				for _, m := range page.Messages {
					got = append(got, m.ID)
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("inbox of %s: got %v (%v), want %v", agent, got, err, want)
				}
			}
			held, err := r.Query(hub.Query{Audit: true, Held: true, Limit: 9})
			if err != nil || len(held.Messages) != 1 || held.Messages[0].ID != "m4" {
				t.Errorf("held: got %v (%v), want m4", held, err)
			}
			m, err := r.Message(m1)
			if want := "2026-01-01T10:00:00.000Z"; err != nil || m.CreatedAt.String() != want {
				t.Errorf("created at: got %s (%v), want %s", m.CreatedAt, err, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for name, sql := range map[string]string{
		"schema number":    `PRAGMA user_version = 99`,
		"schema version":   `UPDATE acp_meta SET value = '2' WHERE key = 'schema_version'`,
		"protocol version": `UPDATE acp_meta SET value = '2.0.0' WHERE key = 'protocol_version'`,
	} {
		t.Run("R3-082 a newer "+name+" is refused and left alone", func(t *testing.T) {
			dir := t.TempDir()
			makeDatabase(t, dir, protocolDDL+sql)
			wantRefused(t, dir, hub.CodeConflict, "newer parley")
		})
	}
	t.Run("a downgrade is refused with the copy from before the upgrade", func(t *testing.T) {
		dir := t.TempDir()
		makeDatabase(t, dir, protocolDDL+`PRAGMA user_version = 99`)
		for _, schema := range []int{3, schemaVersion() + 1} { // this version cannot open the second
			if err := os.MkdirAll(UpgradeDir(dir, schema), 0o700); err != nil {
				t.Fatal(err)
			}
			makeDatabase(t, UpgradeDir(dir, schema), protocolDDL)
		}
		_, err := Open(dir, nil)
		if e := wantCode(t, err, hub.CodeConflict); !strings.Contains(e.Hint, UpgradeDir(dir, 3)+" ") {
			t.Errorf("the hint %q does not name the copy", e.Hint)
		}
	})
	t.Run("an upgrade begins with a copy, or not at all", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		put(t, s)
		s.Close()
		c := raw(t, dir)
		if err := c.db.Exec(`PRAGMA user_version = 7`); err != nil {
			t.Fatal(err)
		}
		c.close()
		full := errors.New("full")
		copied := t.TempDir()
		for _, result := range []error{full, nil} {
			calls := 0
			s, err := Open(dir, &Options{BeforeUpgrade: func(schema int, backup func(string) error) error {
				calls++
				if schema != 7 {
					t.Errorf("schema %d, want 7", schema)
				}
				if result != nil {
					return result
				}
				return backup(filepath.Join(copied, databaseName))
			}})
			if calls != 1 || (err != nil) != (result != nil) {
				t.Fatalf("%d calls, %v; want one call and %v", calls, err, result)
			}
			want := int64(7)
			if err == nil {
				want = int64(schemaVersion())
				s.Close()
			}
			c := raw(t, dir)
			if got, err := c.number(`PRAGMA user_version`); err != nil || got != want {
				t.Errorf("schema %d (%v), want %d", got, err, want)
			}
			c.close()
		}
		c = raw(t, copied)
		if got := rowsOf(t, c, `SELECT count(*) FROM messages`); got[0] != "1" {
			t.Errorf("the copy has %s messages, want 1", got[0])
		}
		if got, err := c.number(`PRAGMA user_version`); err != nil || got != 7 {
			t.Errorf("the copy has schema %d (%v), want 7", got, err)
		}
		c.close()
	})
	t.Run("tables that are not a hub's are refused and left alone", func(t *testing.T) {
		dir := t.TempDir()
		makeDatabase(t, dir, `CREATE TABLE messages (words TEXT); INSERT INTO messages VALUES ('x')`)
		wantRefused(t, dir, hub.CodeConflict, "not belong to a hub")
	})
}

// wantRefused checks that the database in dir is refused and not changed.
func wantRefused(t *testing.T, dir string, code hub.Code, text string) {
	t.Helper()
	path := filepath.Join(dir, databaseName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, nil)
	if err == nil {
		s.Close()
	}
	e := wantCode(t, err, code)
	if err != nil && !strings.Contains(err.Error(), text) || !strings.Contains(e.Hint, "nothing was changed") {
		t.Errorf("got %v, hint %q; want a text with %q and the hint that nothing was changed", err, e.Hint, text)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestDamage(t *testing.T) {
	whole := func(t *testing.T) (string, []byte) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		for range 50 {
			put(t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, databaseName))
		if err != nil {
			t.Fatal(err)
		}
		return dir, b
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"an empty file":         func([]byte) []byte { return nil },
		"a cut header":          func(b []byte) []byte { return b[:60] },
		"something else":        func(b []byte) []byte { return bytes.Repeat([]byte("not a database. "), 500) },
		"a cut file":            func(b []byte) []byte { return b[:len(b)/2] },
		"a schema of nonsense":  func(b []byte) []byte { clear(b[100:4096]); return b },
		"an overwritten header": func(b []byte) []byte { copy(b, "garbage"); return b },
	} {
		t.Run("R3-115 "+name+" is refused and left alone", func(t *testing.T) {
			dir, b := whole(t)
			if err := os.WriteFile(filepath.Join(dir, databaseName), damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, dir, hub.CodeDegraded, "damaged")
		})
	}
	t.Run("a log without its database is refused", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, databaseName+"-wal"), []byte("frames"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, nil)
		wantCode(t, err, hub.CodeDegraded)
	})
	t.Run("a database that was left half made is made again", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, databaseName+".new"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		put(t, openAt(t, dir, nil))
	})
	t.Run("Check finds a damaged page", func(t *testing.T) {
		dir, b := whole(t)
		page := len(b) / 4096 / 2 * 4096
		for i := range 2048 {
			b[page+i] ^= 0x5a
		}
		if err := os.WriteFile(filepath.Join(dir, databaseName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, nil)
		if err == nil {
			err = s.Check(context.Background())
			s.Close()
		}
		wantCode(t, err, hub.CodeDegraded)
	})
}

func TestTrouble(t *testing.T) {
	t.Run("R3-115 a database held by another process is reported, and used when it is free", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, &Options{Busy: testBusy})
		first := put(t, s)
		other := raw(t, dir)
		for _, how := range []string{"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"} {
			if err := other.db.Exec(how); err != nil {
				t.Fatal(err)
			}
			_, err := tryPut(s)
			if e := wantCode(t, err, hub.CodeDegraded); e.Hint == "" {
				t.Error("want a hint")
			}
			wantMessage(t, s, first)
			if err := other.db.Exec("ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			wantMessage(t, s, put(t, s))
		}
	})
	t.Run("R3-115 a home that cannot be made is reported", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(filepath.Join(file, "home"), nil)
		wantCode(t, err, hub.CodeDegraded)
	})
	t.Run("R3-115 a database that cannot be opened is reported", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, databaseName), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, nil)
		wantCode(t, err, hub.CodeDegraded)
	})
	t.Run("a caller who gives up while he waits is not served", func(t *testing.T) {
		s := openTest(t, nil)
		idle(t, s, func() {
			ctx, cancel := context.WithCancel(context.Background())
			answer := make(chan error)
			go func() {
				answer <- s.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.PutMeta("k", "v") })
			}()
			for s.writer.Queued() == 0 {
				runtime.Gosched()
			}
			cancel()
			if err := <-answer; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
		})
		put(t, s)
		err := s.View(context.Background(), func(r hub.Reader) error { _, err := r.Meta("k"); return err })
		wantCode(t, err, hub.CodeNotFound)
	})
	t.Run("a read that takes too long ends with its context", func(t *testing.T) {
		s := openTest(t, nil)
		ctx, cancel := context.WithCancel(context.Background())
		err := s.View(ctx, func(r hub.Reader) error {
			cancel()
			_, err := r.Agents()
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		put(t, s)
	})
	t.Run("a function that ends the goroutine ends nobody else", func(t *testing.T) {
		s := openTest(t, nil)
		err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
			if err := tx.PutMeta("k", "v"); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		wantCode(t, err, hub.CodeInternal)
		wantMessage(t, s, put(t, s))
		err = s.View(context.Background(), func(r hub.Reader) error { _, err := r.Meta("k"); return err })
		wantCode(t, err, hub.CodeNotFound)
	})
	t.Run("a panic in a view leaves the reader usable", func(t *testing.T) {
		s := openTest(t, &Options{Readers: 1})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			s.View(context.Background(), func(hub.Reader) error { panic("mine") })
		}()
		wantMessage(t, s, put(t, s))
	})
	t.Run("those who wait together are committed together", func(t *testing.T) {
		s := openTest(t, nil)
		var wg sync.WaitGroup
		var commits int
		s.conn.c.db.CommitHook(func() bool { commits++; return true })
		idle(t, s, func() {
			for range 100 {
				wg.Go(func() {
					if _, err := tryPut(s); err != nil {
						t.Error(err)
					}
				})
			}
			for s.writer.Queued() < 100 {
				runtime.Gosched()
			}
		})
		wg.Wait()
		idle(t, s, func() {
			if commits != 1 {
				t.Errorf("got %d commits for 100 callers, want 1", commits)
			}
		})
	})
	t.Run("a queue that is full makes callers wait until their context ends", func(t *testing.T) {
		s := openTest(t, nil)
		var wg sync.WaitGroup
		idle(t, s, func() {
			for range rows.MaxQueue {
				wg.Go(func() {
					if _, err := tryPut(s); err != nil {
						t.Error(err)
					}
				})
			}
			for s.writer.Queued() < rows.MaxQueue {
				runtime.Gosched()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			err := s.Update(ctx, hub.SurvivesKill, func(hub.Tx) error { return nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want context.DeadlineExceeded", err)
			}
		})
		wg.Wait()
	})
}

func TestHome(t *testing.T) {
	t.Run("a second opener is told who is first", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		_, err := Open(dir, nil)
		e := wantCode(t, err, hub.CodeConflict)
		if want := strconv.Itoa(os.Getpid()); err == nil || !strings.Contains(err.Error(), want) || e.Hint == "" {
			t.Errorf("got %v, hint %q; want the pid %s and a hint", err, e.Hint, want)
		}
		if err := os.Remove(filepath.Join(dir, LockFile)); err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, nil)
		wantCode(t, err, hub.CodeConflict)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		openAt(t, dir, nil)
	})
	t.Run("the lock file of a process that is gone is no obstacle", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, LockFile), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		openAt(t, dir, nil)
	})
	t.Run("nobody else can read the files", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "home")
		put(t, openAt(t, dir, nil))
		for path, want := range map[string]os.FileMode{
			"": 0o700, databaseName: 0o600, databaseName + "-wal": 0o600, databaseName + "-shm": 0o600, LockFile: 0o600,
		} {
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%q: got mode %o, want %o", path, got, want)
			}
		}
	})
	t.Run("closing leaves one file and the lock", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		put(t, s)
		if n, err := s.Size(); err != nil || n == 0 {
			t.Errorf("size: got %d (%v)", n, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{databaseName, LockFile}; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	})
	t.Run("R3-004 what was acknowledged survives a kill", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		var ids []hub.EnvelopeID
		for range 20 {
			ids = append(ids, put(t, s))
		}
		// What a killed process leaves behind: its files, and no lock.
		image := t.TempDir()
		idle(t, s, func() {
			for _, name := range []string{databaseName, databaseName + "-wal", LockFile} {
				b, err := os.ReadFile(filepath.Join(dir, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(image, name), b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		again := openAt(t, image, nil)
		for _, id := range ids {
			wantMessage(t, again, id)
		}
		if err := again.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("the log does not grow for ever", func(t *testing.T) {
		dir := t.TempDir()
		s := openAt(t, dir, nil)
		big := strings.Repeat("x", 1<<20)
		var top int64
		for i := range 160 { // several times what makes a checkpoint due
			if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
				return tx.PutMeta("k"+strconv.Itoa(i%4), big)
			}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
			if err != nil {
				t.Fatal(err)
			}
			top = max(top, info.Size())
		}
		if limit := int64(walPages+walPages/4) * 4096 * 2; top > limit {
			t.Errorf("got a log of %d bytes, want at most %d", top, limit)
		}
	})
}
