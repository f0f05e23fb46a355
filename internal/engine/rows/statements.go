package rows

// A StmtID names a prepared statement.
type StmtID int

// statements holds the text of every prepared statement by its id, in each dialect. Each
// is declared beside the methods that use it.
var statements [2][]string

// statement declares a prepared statement with the same text in every dialect.
func statement(sql string) StmtID {
	return statementIn(func(Dialect) string { return sql })
}

// statementIn declares a prepared statement whose text differs between the dialects.
func statementIn(sql func(Dialect) string) StmtID {
	for _, d := range []Dialect{SQLite, PostgreSQL} {
		statements[d] = append(statements[d], sql(d))
	}
	return StmtID(len(statements[SQLite]) - 1)
}

// Statement declares a statement of an engine's own. It is called before the first
// connection is made.
func Statement(sql string) StmtID { return statement(sql) }

// Statements returns the text of every statement in a dialect, by its id. The texts of
// engines' own statements are good in the dialect of their engine alone.
func Statements(d Dialect) []string { return statements[d] }

// MessageWidth is how many columns MessageColumns has, and MessageColumns are those
// that ScanMessage reads: of messages AS m and message_meta AS d.
const (
	MessageWidth   = 23
	MessageColumns = messageColumns
)

// messageColumns are the columns that scanMessage reads.
const messageColumns = `m.id, m.protocol, m.version, m.from_agent, m.to_agents_json, m.team, m.thread_id,
	m.reply_to, m.type, m.topic, m.priority, m.status, m.sequence, m.expires_at, m.payload_json,
	m.policy_json, m.context_json, m.created_at, m.updated_at, d.hop, d.cause_id, d.extra_json, d.seq`

// inboxArm declares one of the two arms of an inbox. Each walks its part of the index in
// order; the reader merges them. The list of states is there to match the condition of
// the index.
func inboxArm(state string) StmtID {
	return statementIn(func(d Dialect) string {
		return `SELECT ` + messageColumns + `, p.rank
			FROM message_party AS p` + d.indexedBy("message_party_inbox") +
			d.join(`message_meta AS d ON d.seq = p.seq`) +
			d.join(`messages AS m ON m.id = d.message_id`) + `
			WHERE p.agent = ?1 AND p.state = '` + state + `' AND p.state IN ('unread','delivered')
			AND (p.rank, p.seq) > (?2, ?3) AND (m.expires_at IS NULL OR m.expires_at > ?4)
			ORDER BY p.rank, p.seq LIMIT ?5`
	})
}

// countArm declares one of the two arms of a count. With one state in each the engine
// needs no table for the list of states.
func countArm(state string) StmtID {
	return statementIn(func(d Dialect) string {
		return `SELECT count(*) FROM (SELECT 1 FROM message_party` + d.indexedBy("message_party_inbox") + `
			WHERE agent = ?1 AND state = '` + state + `' AND state IN ('unread','delivered') LIMIT ?2) AS n`
	})
}

// journalOf declares a statement for the entries about a subject; rest is their order.
func journalOf(rest string) StmtID {
	return statementIn(func(d Dialect) string {
		return `SELECT ` + journalColumns + ` FROM journal` + d.indexedBy("journal_subject") + ` WHERE seq > ?1 AND subject = ?3 AND subject <> '' ` + rest
	})
}

// notHandoff leaves out the messages about handoffs, which are kept for ever.
const notHandoff = ` AND m.type NOT IN ('handoff.initiate','handoff.accept','handoff.reject','handoff.complete') `

const (
	journalColumns = `seq, at, actor, action, subject, outcome, facts_json, hash`
	journalHead    = `SELECT ` + journalColumns + ` FROM journal `
)

var (
	stmtMessage = statement(`SELECT ` + messageColumns + ` FROM messages AS m
		LEFT JOIN message_meta AS d ON d.message_id = m.id WHERE m.id = ?1`)
	stmtParties = statementIn(func(d Dialect) string {
		return `SELECT p.agent, p.state, p.hidden FROM message_meta AS d` +
			d.join(`message_party AS p`+d.indexedBy("message_party_seq")+` ON p.seq = d.seq`) + ` WHERE d.message_id = ?1`
	})
	stmtParty = statementIn(func(d Dialect) string {
		return `SELECT p.agent, p.state, p.hidden FROM message_meta AS d` +
			d.join(`message_party AS p ON p.agent = ?2 AND p.seq = d.seq`) + ` WHERE d.message_id = ?1`
	})
	stmtInboxUnread    = inboxArm("unread")
	stmtInboxDelivered = inboxArm("delivered")
	stmtCountUnread    = countArm("unread")
	stmtCountDelivered = countArm("delivered")
	stmtThreadSize     = statementIn(func(d Dialect) string {
		return `SELECT count(*) FROM (SELECT 1 FROM messages` + d.indexedBy("idx_messages_thread") + ` WHERE thread_id = ?1 LIMIT ?2) AS n`
	})
	stmtThreadRounds = statementIn(func(d Dialect) string {
		return `SELECT count(*) FROM (SELECT 1 FROM messages` + d.indexedBy("idx_messages_thread") + ` WHERE thread_id = ?1 AND type = ?3 LIMIT ?2) AS n`
	})
	stmtSentSince = statementIn(func(d Dialect) string {
		return `SELECT created_at, to_agents_json, type, payload_json FROM messages` + d.indexedBy("idx_messages_from") + `
			WHERE from_agent = ?1 AND created_at >= ?2 AND NOT (` + d.contains(`coalesce(context_json, '')`, `'"copy_of":'`) + `)
			ORDER BY created_at DESC, id DESC LIMIT ?3`
	})
	stmtExpired = statementIn(func(d Dialect) string {
		return `SELECT id FROM messages` + d.indexedBy("message_expires") + `
			WHERE expires_at IS NOT NULL AND status IN ('pending','delivered') AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2`
	})
	stmtDeliveries = statementIn(func(d Dialect) string {
		return `SELECT id, message_id, recipient, channel, status, delivered_at, read_at, error
			FROM delivery_log` + d.indexedBy("delivery_log_message") + ` WHERE message_id = ?1 ORDER BY id`
	})
	stmtProcessed   = statement(`SELECT 1 FROM processed WHERE message_id = ?1 AND recipient = ?2`)
	stmtSessionMark = statement(`SELECT message_id, hop, at FROM session_marks WHERE agent = ?1 AND session = ?2`)
	stmtReceipt     = statement(`SELECT request, message_id, at FROM receipts WHERE actor = ?1 AND key = ?2`)
	stmtAddMessage  = statement(`INSERT INTO messages (id, protocol, version, from_agent, to_agents_json, team, reply_to, thread_id,
		type, topic, priority, status, payload_json, policy_json, context_json, external_refs_json, sequence, expires_at,
		payload_bytes, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21) ON CONFLICT DO NOTHING`)
	stmtAddMeta   = statement(`INSERT INTO message_meta (seq, message_id, hop, cause_id, extra_json) VALUES (?1, ?2, ?3, ?4, ?5)`)
	stmtLastSeq   = statement(`SELECT (SELECT max(seq) FROM message_meta WHERE seq >= ?1 AND seq < ?2) FROM message_meta WHERE seq = ?1`)
	stmtAddParty  = statement(`INSERT INTO message_party (agent, seq, state, rank, type, hidden) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`)
	stmtPutStatus = statement(`UPDATE messages SET status = ?2, updated_at = ?3 WHERE id = ?1 AND status = ?4`)
	stmtPutParty  = statement(`UPDATE message_party SET state = ?3, hidden = CASE ?3 WHEN 'unread' THEN 0 WHEN 'held' THEN 1 ELSE hidden END
		WHERE agent = ?2 AND seq = (SELECT seq FROM message_meta WHERE message_id = ?1) AND state = ?4`)
	stmtAddDelivery = statement(`INSERT INTO delivery_log (message_id, recipient, channel, status, delivered_at, read_at, error)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`)
	stmtPutDelivery   = statement(`UPDATE delivery_log SET status = ?2, delivered_at = ?3, read_at = ?4, error = ?5 WHERE id = ?1`)
	stmtMarkProcessed = statement(`INSERT INTO processed (message_id, recipient, at) VALUES (?1, ?2, ?3)
		ON CONFLICT DO NOTHING`)
	stmtPutSessionMark = statement(`INSERT INTO session_marks (agent, session, message_id, hop, at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (agent, session) DO UPDATE SET message_id = excluded.message_id, hop = excluded.hop, at = excluded.at`)
	stmtAddReceipt     = statement(`INSERT INTO receipts (actor, key, request, message_id, at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`)
	stmtForgetReceipts = statementIn(func(d Dialect) string {
		return `DELETE FROM receipts WHERE (actor, key) IN
			(SELECT actor, key FROM receipts` + d.indexedBy("receipts_at") + ` WHERE at < ?1 ORDER BY at LIMIT ?2)`
	})
	stmtForgetMarks = statementIn(func(d Dialect) string {
		return `DELETE FROM session_marks WHERE (agent, session) IN
			(SELECT agent, session FROM session_marks` + d.indexedBy("session_marks_at") + ` WHERE at < ?1 ORDER BY at LIMIT ?2)`
	})
	stmtArchives   = statement(`SELECT seq, hash, cutoff, file, sha256, entries, messages, at FROM journal_archives ORDER BY seq`)
	stmtAddArchive = statement(`INSERT INTO journal_archives (seq, hash, cutoff, file, sha256, entries, messages, at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`)
	stmtMessagesBefore = statement(`SELECT ` + messageColumns + ` FROM messages AS m LEFT JOIN message_meta AS d ON d.message_id = m.id
		WHERE m.id > ?2 AND m.id < ?1` + notHandoff + `ORDER BY m.id LIMIT ?3`)
	stmtPruneJournal = statement(`DELETE FROM journal WHERE seq IN
		(SELECT seq FROM journal WHERE seq <= ?2 ORDER BY seq LIMIT ?1)`)
	stmtPruneMessages   = statement(`DELETE FROM messages WHERE id IN (` + prunedMessages + `)`)
	stmtJournal         = statement(journalHead + `WHERE seq > ?1 ORDER BY seq LIMIT ?2`)
	stmtJournalNewest   = statement(journalHead + `WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2`)
	stmtJournalOf       = journalOf(`ORDER BY seq LIMIT ?2`)
	stmtJournalOfNewest = journalOf(`ORDER BY seq DESC LIMIT ?2`)
	stmtAppend          = statement(`INSERT INTO journal (` + journalColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`)
	stmtCursor          = statement(`SELECT seq FROM cursors WHERE consumer = ?1`)
	stmtPutCursor       = statement(`INSERT INTO cursors (consumer, seq) VALUES (?1, ?2)
		ON CONFLICT (consumer) DO UPDATE SET seq = excluded.seq`)
	stmtMeta    = statement(`SELECT value FROM acp_meta WHERE key = ?1`)
	stmtPutMeta = statement(`INSERT INTO acp_meta (key, value) VALUES (?1, ?2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`)
)
