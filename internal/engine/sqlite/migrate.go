package sqlite

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/rows"
	"github.com/parley-agents/parley/internal/ground/durable"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// The tables. A file is named after the version of the schema that it leads to: 0001 has the
// protocol's own tables, word for word.
//
//go:embed schema/0*.sql
var schemas embed.FS

// wholeSchema makes the tables of a new store at once, as all migrations together would.
//
//go:embed schema/whole.sql
var wholeSchema string

// A migration leads from one version of the schema to the next. It runs in a transaction and may run again.
type migration struct {
	columns [][2]string // table and column of text; added where it is missing
	sql     string
	after   func(*conn) error // nil, or work that SQL does not express
}

// columnLine is how a file names a column that a table gets: SQLite cannot add one only if it is missing.
var columnLine = pattern.New(`(?m)^-- column ([a-z_]+)\.([a-z_]+)$`)

// migrations returns the way from an empty database. The version of a database is PRAGMA user_version;
// acp_meta says which version of the protocol's tables these are, and stays.
var migrations = sync.OnceValue(func() []migration {
	names, err := fs.Glob(schemas, "schema/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	all := make([]migration, len(names))
	for i, name := range names {
		text, err := schemas.ReadFile(name)
		if err != nil || !strings.HasPrefix(path.Base(name), fmt.Sprintf("%04d_", i+1)) {
			panic(fmt.Sprintf("%s is not the migration to version %d (%v)", name, i+1, err))
		}
		all[i].sql = string(text)
		for _, m := range columnLine().FindAllStringSubmatch(all[i].sql, -1) {
			all[i].columns = append(all[i].columns, [2]string{m[1], m[2]})
		}
	}
	all[1].after = backfill
	return all
})

// schemaVersion is the version of the schema that this program makes.
func schemaVersion() int { return len(migrations()) }

// run brings a database from the version before to this one.
func (m migration) run(c *conn) error {
	for _, column := range m.columns {
		if err := addColumn(c, column[0], column[1]); err != nil {
			return err
		}
	}
	if err := c.db.Exec(m.sql); err != nil || m.after == nil {
		return err
	}
	return m.after(c)
}

// addColumn adds a column of text to a table that lacks it.
func addColumn(c *conn, table, column string) error {
	n, err := c.number(`SELECT count(*) FROM pragma_table_info('` + table + `') WHERE name = '` + column + `'`)
	if err != nil || n > 0 {
		return err
	}
	return c.db.Exec(`ALTER TABLE ` + table + ` ADD COLUMN ` + column + ` TEXT`)
}

// ready makes sure that there is a database that this version can work with, and
// returns a connection to it. beforeUpgrade is that of the options.
//
// A connection that opens a log which no other connection has open reads all of it
// (recovery), and one that closes it as the last copies all of it into the database.
// After a kill the log is large, so that both should happen once: a connection of
// each step stays open until the next one has its own.
func (s *Store) ready(beforeUpgrade func(int, func(string) error) error) (*conn, error) {
	examined, err := examine(s.path, s.busy)
	if errors.Is(err, os.ErrNotExist) {
		if err := create(s.path, s.busy); err != nil {
			return nil, err
		}
		return openConn(s.path, s.busy, readerCache)
	}
	if err != nil {
		return nil, err
	}
	defer examined.Close()

	// The copy of the old version is made before the first change.
	if beforeUpgrade != nil {
		schema, err := (&conn{db: examined}).number(`PRAGMA user_version`)
		if err == nil && schema < int64(schemaVersion()) {
			err = beforeUpgrade(int(schema), func(path string) error { return s.copyTo(context.Background(), path) })
		}
		if err != nil {
			return nil, err
		}
	}

	c, err := openConn(s.path, s.busy, readerCache)
	if err != nil {
		return nil, err
	}
	if err := migrate(c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// UpgradesDir is the folder of a home with the copy of the home from before the last
// upgrade, see UpgradeDir.
const UpgradesDir = "upgrades"

// UpgradeDir returns the folder for the copy of a home whose tables have a version.
func UpgradeDir(home string, schema int) string {
	return filepath.Join(home, UpgradesDir, fmt.Sprintf("schema-%d", schema))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// protect makes the database's files and keeps them from other users. The
// engine would make those that are missing readable for everyone.
func protect(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		err = f.Chmod(0o600)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// create makes a database beside path and moves it there when it is complete,
// so that a database at path always is one.
func create(path string, busy time.Duration) error {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return hub.Errorf(hub.CodeDegraded, "sqlite.Open", "hub.db is missing, but its log hub.db-wal exists").WithHint(restoreHint)
	}
	draft := path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(draft + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := protect(draft); err != nil {
		return err
	}
	c, err := openConn(draft, busy, readerCache)
	if err != nil {
		return err
	}
	if err := createWhole(c); err != nil {
		c.close()
		return engineError("sqlite.Open", err)
	}
	if err := c.close(); err != nil { // takes the log along
		return err
	}
	if err := errors.Join(durable.SyncFile(draft), durable.Rename(draft, path)); err != nil {
		return err
	}
	return protect(path)
}

// protocolTables are the columns that a database which exists must have, where
// it has the table.
var protocolTables = []struct{ name, columns string }{
	{"messages", `id, protocol, version, from_agent, to_agents_json, team, reply_to, thread_id, type, topic, priority, status,
		payload_json, policy_json, context_json, external_refs_json, sequence, expires_at, payload_bytes, created_at, updated_at`},
	{"delivery_log", `id, message_id, recipient, channel, status, delivered_at, read_at, error`},
	{"handoffs", `id, thread_id, task_id, status, initiated_at, resolved_at`},
	{"acp_meta", `key, value`},
}

// headerSize is how many bytes an SQLite database starts with.
const headerSize = 100

// examine looks at an existing database without changing it, and returns the
// connection it did so with. It returns os.ErrNotExist if there is none.
func examine(path string, busy time.Duration) (*sqlite3.Conn, error) {
	if err := examineFile(path); err != nil {
		return nil, err
	}
	if err := protect(path); err != nil {
		return nil, err
	}
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READONLY)
	if err == nil {
		err = db.BusyTimeout(busy)
	}
	if err == nil {
		err = examineTables(&conn{db: db}, filepath.Dir(path))
	}
	if err != nil {
		if db != nil {
			db.Close()
		}
		return nil, engineError("sqlite.Open", err)
	}
	return db, nil
}

// examineFile looks at the bytes with which a database begins.
func examineFile(path string) error {
	damaged := func(format string, args ...any) error {
		return hub.Errorf(hub.CodeDegraded, "sqlite.Open", "hub.db is damaged: "+format, args...).WithHint(restoreHint)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < headerSize {
		return damaged("it has %d bytes, fewer than any database", info.Size())
	}

	var header [headerSize]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return err
	}
	if string(header[:16]) != "SQLite format 3\x00" {
		return damaged("it is not an SQLite database")
	}
	// Without a log to complete it the file must be as long as it says.
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() == 0 {
		page := int64(binary.BigEndian.Uint16(header[16:]))
		if page == 1 {
			page = 65536
		}
		if want := page * int64(binary.BigEndian.Uint32(header[28:])); info.Size() < want {
			return damaged("it has %d bytes of %d", info.Size(), want)
		}
	}
	return nil
}

// examineTables looks at the tables and the versions of the database in a home.
func examineTables(c *conn, home string) error {
	const op = "sqlite.Open"
	version, err := c.number(`PRAGMA user_version`)
	if err != nil {
		return err
	}

	newer := func(what string) error {
		e := hub.Errorf(hub.CodeConflict, op, "hub.db was made by a newer parley: %s", what)
		for schema := schemaVersion(); schema >= 0; schema-- { // a copy that this version can open
			if dir := UpgradeDir(home, schema); exists(filepath.Join(dir, databaseName)) {
				return e.WithHint("nothing was changed; upgrade parley, or restore the copy from before the upgrade, without later changes: %s (docs/upgrade.md)", dir)
			}
		}
		return e.WithHint("nothing was changed; upgrade parley")
	}
	if version > int64(schemaVersion()) {
		return newer(fmt.Sprintf("schema %d, this parley supports %d", version, schemaVersion()))
	}

	// A table of the protocol must have its columns, or it is another program's.
	for _, table := range protocolTables {
		there, err := c.number(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '` + table.name + `'`)
		if err != nil {
			return err
		}
		if there == 0 {
			continue
		}
		st, _, err := c.db.Prepare(`SELECT ` + table.columns + ` FROM ` + table.name)
		if errors.Is(err, sqlite3.ERROR) {
			return hub.Errorf(hub.CodeConflict, op, "hub.db has a table %s that does not belong to a hub: %v", table.name, err).
				WithHint("use another home; nothing was changed")
		}
		if err != nil {
			return err
		}
		st.Close()
	}

	// The versions of the protocol in acp_meta tell whether a newer program made the file.
	if there, err := c.number(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'acp_meta'`); err != nil || there == 0 {
		return err
	}
	schema, err := firstText(c, `SELECT value FROM acp_meta WHERE key = 'schema_version'`)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(schema); schema != "" && (err != nil || n != 1) {
		return newer("schema_version " + schema)
	}

	protocol, err := firstText(c, `SELECT value FROM acp_meta WHERE key = 'protocol_version'`)
	if err != nil {
		return err
	}
	if major, _, _ := strings.Cut(protocol, "."); protocol != "" && major != "1" {
		return newer("protocol_version " + protocol)
	}
	return nil
}

// migrate brings the schema up to date.
func migrate(c *conn) error {
	const op = "sqlite.Open"
	for {
		version, err := c.number(`PRAGMA user_version`)
		if err != nil {
			return engineError(op, err)
		}
		if version >= int64(schemaVersion()) {
			return nil
		}
		if err := migrateOne(c, int(version)); err != nil {
			return engineError(op, fmt.Errorf("schema %d: %w", version+1, err))
		}
	}
}

// createWhole makes the tables in a database that has none.
func createWhole(c *conn) (err error) {
	txn, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer txn.End(&err)
	if err := c.db.Exec(wholeSchema); err != nil {
		return err
	}
	return c.db.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, schemaVersion()))
}

// migrateOne leads from one version of the schema to the next.
func migrateOne(c *conn, from int) (err error) {
	txn, err := c.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer txn.End(&err)
	if err := migrations()[from].run(c); err != nil {
		return err
	}
	return c.db.Exec(fmt.Sprintf(`PRAGMA user_version = %d`, from+1))
}

// stateFor maps the status of a message to the state of its recipients.
var stateFor = map[hub.MessageStatus]hub.PartyState{
	hub.StatusPending:   hub.PartyUnread,
	hub.StatusDelivered: hub.PartyDelivered,
	hub.StatusRead:      hub.PartyRead,
	hub.StatusExpired:   hub.PartyExpired,
	hub.StatusFailed:    hub.PartyFailed,
}

// backfillSize is how many messages are read at a time.
const backfillSize = 256

// backfill files messages that another program wrote.
func backfill(c *conn) error {
	if err := normalizeTimes(c); err != nil {
		return err
	}

	t := newTx(c)
	for {
		s, _, err := c.db.Prepare(`SELECT ` + strings.NewReplacer("d.hop", "0", "d.cause_id", "NULL", "d.extra_json", "NULL",
			"d.seq", "0").Replace(rows.MessageColumns) + ` FROM messages AS m
			WHERE NOT EXISTS (SELECT 1 FROM message_meta AS d WHERE d.message_id = m.id)
			ORDER BY m.created_at, m.id LIMIT ` + strconv.Itoa(backfillSize))
		if err != nil {
			return err
		}

		// The statement is read to its end and closed before a message is filed.
		var found []hub.Message
		for s.Step() {
			m, _, err := t.ScanMessage(s)
			if err != nil {
				s.Close()
				return err
			}
			found = append(found, m)
		}
		err = s.Err()
		s.Close()
		if err != nil {
			return err
		}

		for _, m := range found {
			parties, err := partiesOf(t, m)
			if err != nil {
				return err
			}
			if err := t.FileMessage("sqlite.Open", &m, parties); err != nil {
				return err
			}
		}

		if len(found) < backfillSize {
			return nil
		}
	}
}

var stmtUnfiled = rows.Statement(`SELECT ` + rows.MessageColumns + `, m.rowid FROM messages AS m LEFT JOIN message_meta AS d ON d.message_id = m.id
	WHERE m.rowid > ?1 AND NOT EXISTS (SELECT 1 FROM message_party AS p INDEXED BY message_party_seq WHERE p.seq = d.seq)
	ORDER BY m.rowid LIMIT ?2`)

// fileUnfiled writes the rows that messages are found by for messages without
// them. Databases of schema 5 have such messages after a kill, because they
// were stored first and filed later; another program may add some. All of them
// lie behind the cursor of the word index. Their own row says everything: the
// sender, and recipients who have not read.
func (t *tx) fileUnfiled() error {
	const op = "sqlite.Open"

	// Each turn takes the next rows behind the last one.
	for found, after := backfillSize, t.lag.indexed; found == backfillSize; {
		q := t.Ask(stmtUnfiled, after, backfillSize)
		type message struct {
			hub.Message
			seq int64 // 0 without a row of message_meta
		}

		var batch []message
		for q.Next() {
			m, seq, err := t.ScanMessage(q.Row())
			q.Note(err)
			batch, after = append(batch, message{m, seq}), q.Row().ColumnInt64(rows.MessageWidth)
		}
		if err := q.Done(); err != nil {
			return err
		}

		for _, m := range batch {
			parties, err := partiesOf(t, m.Message)
			switch {
			case err != nil:
			case m.seq != 0:
				err = t.AddParties(op, m.seq, &m.Message, parties)
			default:
				err = t.FileMessage(op, &m.Message, parties)
			}
			if err != nil {
				return err
			}
		}

		found = len(batch)
	}
	return nil
}

// normalizeTimes rewrites times of the form that the tables' own defaults
// have, YYYY-MM-DD HH:MM:SS, so that all times sort as text.
func normalizeTimes(c *conn) error {
	for table, columns := range map[string][]string{
		"messages":     {"created_at", "updated_at", "expires_at"},
		"delivery_log": {"delivered_at", "read_at"},
		"handoffs":     {"initiated_at", "resolved_at"},
	} {
		for _, column := range columns {
			// Other forms stay: this one is surely UTC in whole seconds.
			if err := c.db.Exec(fmt.Sprintf(`UPDATE %[1]s SET %[2]s = replace(%[2]s, ' ', 'T') || '.000Z'
				WHERE %[2]s GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9]'`, table, column)); err != nil {
				return err
			}
		}
	}
	return nil
}

// partiesOf returns the parties of a message that has none. The recipients of a
// broadcast stand in the delivery ledger alone. A message that needs approval is
// held unless it was delivered: nothing says that a person approved it.
func partiesOf(t *tx, m hub.Message) ([]hub.Party, error) {
	to := m.To
	if m.Broadcast() {
		ledger, err := t.Deliveries(m.ID)
		if err != nil {
			return nil, err
		}
		to = nil
		for _, d := range ledger {
			to = append(to, d.Recipient)
		}
	}
	state, ok := stateFor[m.Status]
	if !ok {
		state = hub.PartyUnread
	}
	if state == hub.PartyUnread && m.Policy.HumanGate == hub.GateRequired {
		state = hub.PartyHeld
	}
	parties := []hub.Party{{Agent: m.From, State: hub.PartySender}}
	seen := map[hub.AgentID]bool{m.From: true}
	for _, id := range to {
		if !seen[id] {
			seen[id] = true
			parties = append(parties, hub.Party{Agent: id, State: state})
		}
	}
	return parties, nil
}
