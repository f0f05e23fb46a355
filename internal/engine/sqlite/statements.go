package sqlite

// A stmtID names a prepared statement.
type stmtID int

const (
	stmtBegin stmtID = iota
	stmtCommit
	stmtRollback
	stmtSnapshot

	stmtAgent
	stmtAgents
	stmtKeyByHash
	stmtKeys
	stmtAddAgent
	stmtSetAgentState
	stmtAddKey
	stmtRevokeKeys

	stmtMessage
	stmtParties
	stmtParty
	stmtInboxUnread
	stmtInboxDelivered
	stmtCountUnread
	stmtCountDelivered
	stmtHeld
	stmtThreadSize
	stmtThreadRounds
	stmtThreadSequence
	stmtSentSince
	stmtBroadcastsSince
	stmtExpired
	stmtDeliveries
	stmtProcessed
	stmtSessionMark
	stmtReceipt

	stmtQueryThread
	stmtQueryText
	stmtQueryPartyType
	stmtQueryParty
	stmtQueryAgent
	stmtQueryType
	stmtQueryStatus
	stmtQueryAll

	stmtAddMessage
	stmtAddMeta
	stmtLastSeq
	stmtAddParty
	stmtAddText
	stmtPutStatus
	stmtPutParty
	stmtAddDelivery
	stmtPutDelivery
	stmtMarkProcessed
	stmtPutSessionMark
	stmtAddReceipt
	stmtForgetReceipts
	stmtForgetMarks

	stmtHandoff
	stmtActiveHandoff
	stmtHandoffs
	stmtHandoffsOfViewer
	stmtHandoffSteps
	stmtOwned
	stmtLate
	stmtAddHandoff
	stmtAddHandoffMeta
	stmtAddStep
	stmtPutHandoff
	stmtPutHandoffMeta

	stmtRun
	stmtRuns
	stmtRunsOfViewer
	stmtRunsOfHandoff
	stmtRunsOpen
	stmtAddRun
	stmtPutRun

	stmtProject
	stmtProjects
	stmtAddProject
	stmtPutProject
	stmtCountUp
	stmtContract
	stmtContracts
	stmtConflicted
	stmtAddContract
	stmtPutContract
	stmtPutConflicted
	stmtVersions
	stmtAddVersion
	stmtDropVersions
	stmtPacket
	stmtPacketsUp
	stmtPacketsDown
	stmtReplies
	stmtPacketIDs
	stmtAddPacket
	stmtPutPacket
	stmtFileRequest
	stmtFileRequests
	stmtAddFileRequest
	stmtPutFileRequest

	stmtChanges
	stmtFirstChange
	stmtLastChange
	stmtAddChange
	stmtDropChanges

	stmtPeer
	stmtPeerByKey
	stmtPeers
	stmtPutPeer
	stmtOutbox
	stmtOutboxes
	stmtPutOutbox
	stmtDeadLetters
	stmtAddDeadLetter
	stmtTrimDeadLetters
	stmtInvite
	stmtInviteByHash
	stmtInvites
	stmtInvitesOf
	stmtAddInvite
	stmtPutInvite

	stmtArchives
	stmtAddArchive
	stmtMessagesBefore
	stmtPruneJournal
	stmtPruneMessages

	stmtJournal
	stmtJournalNewest
	stmtJournalOf
	stmtJournalOfNewest
	stmtJournalHead
	stmtAppend

	stmtLease
	stmtRaiseLease
	stmtCursor
	stmtPutCursor
	stmtUnindexed
	stmtUnfiled
	stmtMeta
	stmtPutMeta

	stmtCount
)

// messageWidth is how many columns messageColumns has.
const messageWidth = 23

// messageColumns are the columns that scanMessage reads.
const messageColumns = `m.id, m.protocol, m.version, m.from_agent, m.to_agents_json, m.team, m.thread_id,
	m.reply_to, m.type, m.topic, m.priority, m.status, m.sequence, m.expires_at, m.payload_json,
	m.policy_json, m.context_json, m.created_at, m.updated_at, d.hop, d.cause_id, d.extra_json, d.seq`

// inboxHead and inboxRest frame the two arms of an inbox. Each walks its
// part of the index in order; the reader merges them. The list of states is
// there to match the condition of the index.
const (
	inboxHead = `SELECT ` + messageColumns + `, p.rank
		FROM message_party AS p INDEXED BY message_party_inbox
		CROSS JOIN message_meta AS d ON d.seq = p.seq
		CROSS JOIN messages AS m ON m.id = d.message_id
		WHERE p.agent = ?1 AND p.state = `
	inboxRest = ` AND p.state IN ('unread','delivered') AND (p.rank, p.seq) > (?2, ?3) AND (m.expires_at IS NULL OR m.expires_at > ?4)
		ORDER BY p.rank, p.seq LIMIT ?5`
)

// countHead and countRest frame the two arms of a count. With one state in each
// the engine needs no table for the list of states.
const (
	countHead = `SELECT count(*) FROM (SELECT 1 FROM message_party INDEXED BY message_party_inbox WHERE agent = ?1 AND state = `
	countRest = ` AND state IN ('unread','delivered') LIMIT ?2)`
)

// The parts of a query for runs: ?1 viewer, ?2 agent, ?3 handoff, ?4 whether only
// those that are not over, ?5 id to stay below, ?6 limit.
const (
	runColumns = `id, agent, by_agent, task, dir, thread_id, handoff_id, key_id, state, session_id, stop_reason, reason, report_json,
		verdict, contradictions_json, evidence_json, message_id, started_at, expires_at, ended_at`
	runHead = `SELECT ` + runColumns + ` FROM runs `
	runRest = ` AND (?1 IS NULL OR agent = ?1 OR by_agent = ?1) AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR handoff_id = ?3)
		AND (?4 = 0 OR state IN ('starting','running','checking')) AND id < ?5 ORDER BY id DESC LIMIT ?6`
)

// The parts of a query. Parameters have the same numbers in each:
// ?1 viewer, ?2 agent, ?3 thread, ?4 type, ?5 status, ?6 topic, ?7 least seq,
// ?8 seq to stay below, ?9 limit, ?10 text, ?11 time of the cursor, ?12 since,
// ?13 until. The order of the tables is fixed by CROSS JOIN, because each
// statement is there for the sake of one index.
const (
	// restFilters holds whatever did not choose the index.
	restFilters = `
		AND (?2 IS NULL OR EXISTS (SELECT 1 FROM message_party AS a WHERE a.agent = ?2 AND a.seq = d.seq))
		AND (?3 IS NULL OR m.thread_id = ?3)
		AND (?4 IS NULL OR m.type = ?4)
		AND (?5 IS NULL OR m.status = ?5)
		AND (?6 IS NULL OR m.topic = ?6)`
	viewerFilter = `
		AND (?1 IS NULL OR EXISTS (SELECT 1 FROM message_party AS v WHERE v.agent = ?1 AND v.seq = d.seq AND v.hidden = 0))`

	partyHead   = `SELECT ` + messageColumns + ` FROM message_party AS p `
	partyJoin   = ` CROSS JOIN message_meta AS d ON d.seq = p.seq CROSS JOIN messages AS m ON m.id = d.message_id `
	messageHead = `SELECT ` + messageColumns + ` FROM messages AS m `
	messageJoin = ` CROSS JOIN message_meta AS d ON d.message_id = m.id `

	// createdOrder walks an index that ends in created_at. Messages of one
	// millisecond are sorted by seq.
	createdOrder = ` AND (?11 IS NULL OR m.created_at <= ?11) AND (?11 IS NULL OR m.created_at < ?11 OR d.seq < ?8)
		AND m.created_at >= ?12 AND m.created_at < ?13` + viewerFilter + restFilters + `
		ORDER BY m.created_at DESC, d.seq DESC LIMIT ?9`
)

// handoffHead reads what scanHandoff wants. Parameters of handoffRest: ?1 viewer,
// ?2 agent, ?3 sender, ?4 receiver, ?5 task, ?6 states as a JSON array, ?7 the
// id to stay below, ?8 limit.
const (
	handoffHead = `SELECT h.id, h.thread_id, h.task_id, h.from_agent, h.to_agent, h.title, h.reason, h.package_json, h.verification_json,
		h.status, h.initiated_at, h.resolved_at, h.resolution_notes, x.previous_id, x.restricted, x.needs_human, x.approved_at,
		x.ownership, x.deadline, x.accepted_at, x.escalated_at, x.reject_reason, x.ending
		FROM handoffs AS h JOIN handoff_meta AS x ON x.handoff_id = h.id `
	handoffRest = `
		AND (?1 IS NULL OR h.from_agent = ?1 OR h.to_agent = ?1)
		AND (?2 IS NULL OR h.from_agent = ?2 OR h.to_agent = ?2)
		AND (?3 IS NULL OR h.from_agent = ?3)
		AND (?4 IS NULL OR h.to_agent = ?4)
		AND (?5 IS NULL OR h.task_id = ?5)
		AND (?6 IS NULL OR h.status IN (SELECT value FROM json_each(?6)))
		AND h.id < ?7 `
)

// What the rows of coordination are read by.
const (
	projectHead = `SELECT id, name, objective, status, policy, repos_json, created_at, updated_at,
		contracts, started, implemented, verified, packets, bytes FROM projects `
	contractHead = `SELECT project, id, type, name, version, status, proposed_by, created_at, updated_at, reopened_at,
		implementations_json, agreements_json, content_json FROM contracts `
	packetHead = `SELECT project, id, from_repo, from_agent, at, type, reply_to, related_json, content_json FROM packets `
	// packetRest: ?1 project, ?2 type, ?3 contract as it stands in the list,
	// ?4 since; the cursor is ?5 and ?6, the limit ?7.
	packetRest  = ` AND (?2 IS NULL OR type = ?2) AND (?3 IS NULL OR instr(related_json, ?3) > 0) AND at >= ?4 `
	requestHead = `SELECT project, id, from_repo, from_agent, description, format, at, fulfilled_at, file FROM file_requests `
	peerHead    = `SELECT aid, endpoint, repo, state, trust, legacy, native, key_hash, sealed, health, fails, fault, seen, added_at FROM peers `
	outboxHead  = `SELECT peer, sent, catch_up, tries, next_try, fault FROM outboxes `
	inviteHead  = `SELECT id, hash, hint, project, repo, permissions_json, created_by, created_at, expires_at, redeemed_at, redeemed_by,
		revoked_at FROM invites `
)

// notHandoff leaves out what is kept for ever.
const notHandoff = ` AND m.type NOT IN ('handoff.initiate','handoff.accept','handoff.reject','handoff.complete') `

const (
	journalColumns = `seq, at, actor, action, subject, outcome, facts_json, hash`
	journalHead    = `SELECT ` + journalColumns + ` FROM journal `
	journalOf      = journalHead + `INDEXED BY journal_subject WHERE seq > ?1 AND subject = ?3 AND subject <> '' `
)

var statements = [stmtCount]string{
	stmtBegin:    `BEGIN IMMEDIATE`,
	stmtCommit:   `COMMIT`,
	stmtRollback: `ROLLBACK`,
	stmtSnapshot: `SELECT 1 FROM sqlite_schema LIMIT 1`,

	stmtAgent:         `SELECT id, role, auditor, state, created_at FROM agents WHERE id = ?1`,
	stmtAgents:        `SELECT id, role, auditor, state, created_at FROM agents ORDER BY id`,
	stmtKeyByHash:     `SELECT id, agent, label, hash, hint, created_at, expires_at, revoked_at FROM agent_keys WHERE hash = ?1`,
	stmtKeys:          `SELECT id, agent, label, hash, hint, created_at, expires_at, revoked_at FROM agent_keys WHERE agent = ?1 ORDER BY created_at, rowid`,
	stmtAddAgent:      `INSERT INTO agents (id, role, auditor, state, created_at) VALUES (?1, ?2, ?3, ?4, ?5)`,
	stmtSetAgentState: `UPDATE agents SET state = ?2 WHERE id = ?1`,
	stmtAddKey: `INSERT INTO agent_keys (id, agent, label, hash, hint, created_at, expires_at, revoked_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
	stmtRevokeKeys: `UPDATE agent_keys SET revoked_at = ?3
		WHERE agent = ?1 AND revoked_at IS NULL AND (?2 IS NULL OR label = ?2)`,

	stmtMessage: `SELECT ` + messageColumns + ` FROM messages AS m
		LEFT JOIN message_meta AS d ON d.message_id = m.id WHERE m.id = ?1`,
	stmtParties: `SELECT p.agent, p.state, p.hidden FROM message_meta AS d
		CROSS JOIN message_party AS p INDEXED BY message_party_seq ON p.seq = d.seq WHERE d.message_id = ?1`,
	stmtParty: `SELECT p.agent, p.state, p.hidden FROM message_meta AS d
		CROSS JOIN message_party AS p ON p.agent = ?2 AND p.seq = d.seq WHERE d.message_id = ?1`,
	stmtInboxUnread:    inboxHead + `'unread'` + inboxRest,
	stmtInboxDelivered: inboxHead + `'delivered'` + inboxRest,
	stmtCountUnread:    countHead + `'unread'` + countRest,
	stmtCountDelivered: countHead + `'delivered'` + countRest,
	stmtHeld: `SELECT ` + messageColumns + ` FROM
		(SELECT DISTINCT seq FROM message_party INDEXED BY message_party_held WHERE state = 'held' ORDER BY seq LIMIT ?1) AS p
		CROSS JOIN message_meta AS d ON d.seq = p.seq
		CROSS JOIN messages AS m ON m.id = d.message_id ORDER BY d.seq`,
	stmtThreadSize: `SELECT count(*) FROM (SELECT 1 FROM messages INDEXED BY idx_messages_thread WHERE thread_id = ?1 LIMIT ?2)`,
	stmtThreadRounds: `SELECT count(*) FROM (SELECT 1 FROM messages INDEXED BY idx_messages_thread
		WHERE thread_id = ?1 AND type = ?2 LIMIT ?3)`,
	stmtThreadSequence: `SELECT sequence FROM messages INDEXED BY message_sequences
		WHERE thread_id = ?1 AND sequence IS NOT NULL ORDER BY sequence DESC LIMIT 1`,
	stmtSentSince: `SELECT created_at, to_agents_json, type, payload_json FROM messages INDEXED BY idx_messages_from
		WHERE from_agent = ?1 AND created_at >= ?2 ORDER BY created_at DESC, id DESC LIMIT ?3`,
	stmtBroadcastsSince: `SELECT created_at FROM messages INDEXED BY message_broadcasts
		WHERE from_agent = ?1 AND created_at >= ?2 AND to_agents_json = '["*"]' ORDER BY created_at DESC LIMIT ?3`,
	stmtExpired: `SELECT id FROM messages INDEXED BY message_expires
		WHERE expires_at IS NOT NULL AND status IN ('pending','delivered') AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2`,
	stmtDeliveries: `SELECT id, message_id, recipient, channel, status, delivered_at, read_at, error
		FROM delivery_log INDEXED BY delivery_log_message WHERE message_id = ?1 ORDER BY id`,
	stmtProcessed:   `SELECT 1 FROM processed WHERE message_id = ?1 AND recipient = ?2`,
	stmtSessionMark: `SELECT message_id, hop, at FROM session_marks WHERE agent = ?1 AND session = ?2`,
	stmtReceipt:     `SELECT request, message_id, at FROM receipts WHERE actor = ?1 AND key = ?2`,

	stmtQueryThread: messageHead + `INDEXED BY idx_messages_thread` + messageJoin + `WHERE m.thread_id = ?3` + createdOrder,
	stmtQueryType:   messageHead + `INDEXED BY idx_messages_type` + messageJoin + `WHERE m.type = ?4` + createdOrder,
	stmtQueryStatus: messageHead + `INDEXED BY idx_messages_status` + messageJoin + `WHERE m.status = ?5` + createdOrder,
	stmtQueryText: `SELECT ` + messageColumns + ` FROM message_text AS t
		CROSS JOIN message_meta AS d ON d.seq = t.rowid CROSS JOIN messages AS m ON m.id = d.message_id
		WHERE message_text MATCH ?10 AND t.rowid >= ?7 AND t.rowid < ?8` + viewerFilter + restFilters + `
		ORDER BY t.rowid DESC LIMIT ?9`,
	stmtQueryPartyType: partyHead + `INDEXED BY message_party_type` + partyJoin + `
		WHERE p.agent = ?1 AND p.type = ?4 AND p.seq >= ?7 AND p.seq < ?8 AND p.hidden = 0` + restFilters + `
		ORDER BY p.seq DESC LIMIT ?9`,
	stmtQueryParty: partyHead + partyJoin + `
		WHERE p.agent = ?1 AND p.seq >= ?7 AND p.seq < ?8 AND p.hidden = 0` + restFilters + `
		ORDER BY p.seq DESC LIMIT ?9`,
	stmtQueryAgent: partyHead + partyJoin + `
		WHERE p.agent = ?2 AND p.seq >= ?7 AND p.seq < ?8` + viewerFilter + restFilters + `
		ORDER BY p.seq DESC LIMIT ?9`,
	stmtQueryAll: `SELECT ` + messageColumns + ` FROM message_meta AS d CROSS JOIN messages AS m ON m.id = d.message_id
		WHERE d.seq >= ?7 AND d.seq < ?8` + viewerFilter + restFilters + `
		ORDER BY d.seq DESC LIMIT ?9`,

	stmtAddMessage: `INSERT INTO messages (id, protocol, version, from_agent, to_agents_json, team, reply_to, thread_id,
		type, topic, priority, status, payload_json, policy_json, context_json, external_refs_json, sequence, expires_at,
		payload_bytes, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)`,
	stmtAddMeta:  `INSERT INTO message_meta (seq, message_id, hop, cause_id, extra_json) VALUES (?1, ?2, ?3, ?4, ?5)`,
	stmtLastSeq:  `SELECT (SELECT max(seq) FROM message_meta WHERE seq >= ?1 AND seq < ?2) FROM message_meta WHERE seq = ?1`,
	stmtAddParty: `INSERT INTO message_party (agent, seq, state, rank, type, hidden) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
	stmtAddText:  `INSERT INTO message_text (rowid, tags, body, mine) VALUES (?1, ?2, ?3, ?4)`,
	stmtUnindexed: `SELECT ` + messageColumns + `, m.rowid FROM messages AS m CROSS JOIN message_meta AS d ON d.message_id = m.id
		WHERE m.rowid > ?1 ORDER BY m.rowid LIMIT ?2`,
	stmtUnfiled: `SELECT ` + messageColumns + `, m.rowid FROM messages AS m LEFT JOIN message_meta AS d ON d.message_id = m.id
		WHERE m.rowid > ?1 AND NOT EXISTS (SELECT 1 FROM message_party AS p INDEXED BY message_party_seq WHERE p.seq = d.seq)
		ORDER BY m.rowid LIMIT ?2`,
	stmtPutStatus: `UPDATE messages SET status = ?2, updated_at = ?3 WHERE id = ?1 AND status = ?4`,
	stmtPutParty: `UPDATE message_party SET state = ?3, hidden = CASE ?3 WHEN 'unread' THEN 0 WHEN 'held' THEN 1 ELSE hidden END
		WHERE agent = ?2 AND seq = (SELECT seq FROM message_meta WHERE message_id = ?1) AND state = ?4`,
	stmtAddDelivery: `INSERT INTO delivery_log (message_id, recipient, channel, status, delivered_at, read_at, error)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
	stmtPutDelivery: `UPDATE delivery_log SET status = ?2, delivered_at = ?3, read_at = ?4, error = ?5 WHERE id = ?1`,
	stmtMarkProcessed: `INSERT INTO processed (message_id, recipient, at) VALUES (?1, ?2, ?3)
		ON CONFLICT DO NOTHING`,
	stmtPutSessionMark: `INSERT INTO session_marks (agent, session, message_id, hop, at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (agent, session) DO UPDATE SET message_id = excluded.message_id, hop = excluded.hop, at = excluded.at`,
	stmtAddReceipt: `INSERT INTO receipts (actor, key, request, message_id, at) VALUES (?1, ?2, ?3, ?4, ?5)`,
	stmtForgetReceipts: `DELETE FROM receipts WHERE (actor, key) IN
		(SELECT actor, key FROM receipts INDEXED BY receipts_at WHERE at < ?1 ORDER BY at LIMIT ?2)`,
	stmtForgetMarks: `DELETE FROM session_marks WHERE (agent, session) IN
		(SELECT agent, session FROM session_marks INDEXED BY session_marks_at WHERE at < ?1 ORDER BY at LIMIT ?2)`,

	stmtHandoff:       handoffHead + `WHERE h.id = ?1`,
	stmtActiveHandoff: handoffHead + `WHERE h.task_id = ?1 AND h.status IN ('proposed','validating','accepted','activated')`,
	stmtHandoffs:      handoffHead + `WHERE 1` + handoffRest + `ORDER BY h.id DESC LIMIT ?8`,
	stmtHandoffsOfViewer: handoffHead + `WHERE h.id IN (SELECT id FROM handoffs INDEXED BY handoffs_from WHERE from_agent = ?1
		UNION SELECT id FROM handoffs INDEXED BY handoffs_to WHERE to_agent = ?1)` + handoffRest + `ORDER BY h.id DESC LIMIT ?8`,
	stmtHandoffSteps: `SELECT n, state, at, actor, note, checks_json FROM handoff_history WHERE handoff_id = ?1 ORDER BY n`,
	stmtOwned:        handoffHead + `WHERE h.task_id = ?1 AND x.accepted_at IS NOT NULL ORDER BY h.id`,
	stmtLate: handoffHead + `WHERE h.status IN ('accepted','activated') AND (x.accepted_at < ?1 OR x.deadline <= ?2)
		AND (x.escalated_at IS NULL OR x.escalated_at < ?3) LIMIT ?4`,
	stmtAddHandoff: `INSERT INTO handoffs (id, thread_id, task_id, from_agent, to_agent, title, reason, package_json, status,
		provenance_json, verification_json, initiated_at, resolved_at, resolution_notes)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`,
	stmtAddHandoffMeta: `INSERT INTO handoff_meta (handoff_id, previous_id, restricted, needs_human, approved_at, ownership, deadline,
		accepted_at, escalated_at, reject_reason, ending) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`,
	stmtAddStep: `INSERT INTO handoff_history (handoff_id, n, state, at, actor, note, checks_json)
		VALUES (?1, 1 + (SELECT count(*) FROM handoff_history WHERE handoff_id = ?1), ?2, ?3, ?4, ?5, ?6)`,
	stmtPutHandoff: `UPDATE handoffs SET status = ?2, resolved_at = ?3, resolution_notes = ?4 WHERE id = ?1 AND status = ?5`,
	stmtPutHandoffMeta: `UPDATE handoff_meta SET approved_at = ?2, ownership = ?3, accepted_at = ?4, escalated_at = ?5, reject_reason = ?6, ending = ?7
		WHERE handoff_id = ?1`,

	stmtRun:  runHead + `WHERE id = ?1`,
	stmtRuns: runHead + `WHERE 1` + runRest,
	stmtRunsOfViewer: runHead + `WHERE id IN (SELECT id FROM runs INDEXED BY runs_agent WHERE agent = ?1
		UNION SELECT id FROM runs INDEXED BY runs_by WHERE by_agent = ?1)` + runRest,
	stmtRunsOfHandoff: runHead + `INDEXED BY runs_handoff WHERE handoff_id = ?3` + runRest,
	stmtRunsOpen:      runHead + `INDEXED BY runs_open WHERE state IN ('starting','running','checking')` + runRest,
	stmtAddRun: `INSERT INTO runs (id, agent, by_agent, task, dir, thread_id, handoff_id, key_id, started_at, expires_at, state, session_id,
		stop_reason, reason, report_json, verdict, contradictions_json, evidence_json, message_id, ended_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)`,
	stmtPutRun: `UPDATE runs SET state = ?3, session_id = ?4, stop_reason = ?5, reason = ?6, report_json = ?7, verdict = ?8,
		contradictions_json = ?9, evidence_json = ?10, message_id = ?11, ended_at = ?12 WHERE id = ?1 AND state = ?2`,

	stmtProject:  projectHead + `WHERE id = ?1`,
	stmtProjects: projectHead + `WHERE id > ?1 ORDER BY id LIMIT ?2`,
	stmtAddProject: `INSERT INTO projects (id, name, objective, status, policy, repos_json, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
	stmtPutProject: `UPDATE projects SET name = ?2, objective = ?3, status = ?4, policy = ?5, repos_json = ?6, created_at = ?7, updated_at = ?8
		WHERE id = ?1`,
	stmtCountUp: `UPDATE projects SET contracts = contracts + ?2, started = started + ?3, implemented = implemented + ?4,
		verified = verified + ?5, packets = packets + ?6, bytes = bytes + ?7 WHERE id = ?1`,

	stmtContract: contractHead + `WHERE project = ?1 AND id = ?2`,
	stmtContracts: contractHead + `WHERE project = ?1 AND id > ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR type = ?4)
		ORDER BY id LIMIT ?5`,
	stmtConflicted: `SELECT id FROM contracts INDEXED BY contracts_conflicted WHERE project = ?1 AND id > ?2 AND conflicted = 1 ORDER BY id LIMIT ?3`,
	stmtAddContract: `INSERT INTO contracts (project, id, type, name, version, status, proposed_by, created_at, updated_at, reopened_at,
		implementations_json, agreements_json, content_json, conflicted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`,
	stmtPutContract: `UPDATE contracts SET type = ?3, name = ?4, version = ?5, status = ?6, proposed_by = ?7, created_at = ?8, updated_at = ?9,
		reopened_at = ?10, implementations_json = ?11, agreements_json = ?12, content_json = ?13
		WHERE project = ?1 AND id = ?2 AND version = ?14 AND updated_at = ?15`,
	stmtPutConflicted: `UPDATE contracts SET conflicted = ?3 WHERE project = ?1 AND id = ?2 AND conflicted <> ?3`,
	stmtVersions: `SELECT version, standing, proposed_by, at, change_notes, content_json FROM contract_versions
		WHERE project = ?1 AND contract = ?2 ORDER BY version, sha256`,
	stmtAddVersion: `INSERT INTO contract_versions (project, contract, version, sha256, standing, proposed_by, at, change_notes, content_json)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT (project, contract, version, sha256) DO UPDATE SET standing = excluded.standing, proposed_by = excluded.proposed_by,
		at = excluded.at, change_notes = excluded.change_notes, content_json = excluded.content_json`,
	stmtDropVersions: `DELETE FROM contract_versions WHERE project = ?1 AND contract = ?2`,

	stmtPacket: packetHead + `WHERE project = ?1 AND id = ?2`,
	stmtPacketsUp: packetHead + `INDEXED BY packets_at WHERE project = ?1 AND (at, id) > (?5, ?6)` + packetRest + `
		ORDER BY at, id LIMIT ?7`,
	stmtPacketsDown: packetHead + `INDEXED BY packets_at WHERE project = ?1 AND (at, id) < (?5, ?6)` + packetRest + `
		ORDER BY at DESC, id DESC LIMIT ?7`,
	stmtReplies: packetHead + `INDEXED BY packets_reply WHERE project = ?1 AND reply_to = ?8 AND (at, id) > (?5, ?6)` + packetRest + `
		ORDER BY at, id LIMIT ?7`,
	stmtPacketIDs: `SELECT id FROM packets INDEXED BY packets_at WHERE project = ?1 AND (at, id) > (?2, ?3) ORDER BY at, id LIMIT ?4`,
	stmtAddPacket: `INSERT INTO packets (project, id, from_repo, from_agent, at, type, reply_to, related_json, content_json)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`,
	stmtPutPacket: `UPDATE packets SET from_repo = ?3, from_agent = ?4, at = ?5, type = ?6, reply_to = ?7, related_json = ?8, content_json = ?9
		WHERE project = ?1 AND id = ?2`,
	stmtFileRequest:  requestHead + `WHERE project = ?1 AND id = ?2`,
	stmtFileRequests: requestHead + `WHERE project = ?1 ORDER BY id DESC LIMIT ?2`,
	stmtAddFileRequest: `INSERT INTO file_requests (project, id, from_repo, from_agent, description, format, at, fulfilled_at, file)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`,
	stmtPutFileRequest: `UPDATE file_requests SET fulfilled_at = ?3, file = ?4 WHERE project = ?1 AND id = ?2`,

	stmtChanges:     `SELECT seq, project, kind, object, version, at, origin FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2`,
	stmtFirstChange: `SELECT min(seq) FROM changes`,
	stmtLastChange:  `SELECT max(seq) FROM changes`,
	stmtAddChange:   `INSERT INTO changes (project, kind, object, version, at, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
	stmtDropChanges: `DELETE FROM changes WHERE seq IN (SELECT seq FROM changes WHERE seq <= ?1 AND seq < (SELECT max(seq) FROM changes)
		ORDER BY seq LIMIT ?2)`,

	stmtPeer:      peerHead + `WHERE aid = ?1`,
	stmtPeerByKey: peerHead + `WHERE key_hash = ?1`,
	stmtPeers:     peerHead + `ORDER BY aid`,
	stmtPutPeer: `INSERT INTO peers (aid, endpoint, repo, state, trust, legacy, native, key_hash, sealed, health, fails, fault, seen, added_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
		ON CONFLICT (aid) DO UPDATE SET endpoint = excluded.endpoint, repo = excluded.repo, state = excluded.state, trust = excluded.trust,
		legacy = excluded.legacy, native = excluded.native, key_hash = excluded.key_hash, sealed = excluded.sealed, health = excluded.health,
		fails = excluded.fails, fault = excluded.fault, seen = excluded.seen, added_at = excluded.added_at`,
	stmtOutbox:   outboxHead + `WHERE peer = ?1`,
	stmtOutboxes: outboxHead + `ORDER BY peer`,
	stmtPutOutbox: `INSERT INTO outboxes (peer, sent, catch_up, tries, next_try, fault) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (peer) DO UPDATE SET sent = excluded.sent, catch_up = excluded.catch_up, tries = excluded.tries,
		next_try = excluded.next_try, fault = excluded.fault`,
	stmtDeadLetters:   `SELECT change_json, fault, at FROM dead_letters WHERE peer = ?1 ORDER BY id DESC LIMIT ?2`,
	stmtAddDeadLetter: `INSERT INTO dead_letters (peer, change_json, fault, at) VALUES (?1, ?2, ?3, ?4)`,
	stmtTrimDeadLetters: `DELETE FROM dead_letters WHERE peer = ?1 AND id <=
		(SELECT id FROM dead_letters WHERE peer = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`,
	stmtInvite:       inviteHead + `WHERE id = ?1`,
	stmtInviteByHash: inviteHead + `WHERE hash = ?1`,
	stmtInvites:      inviteHead + `ORDER BY id DESC LIMIT ?1`,
	stmtInvitesOf:    inviteHead + `WHERE project = ?2 ORDER BY id DESC LIMIT ?1`,
	stmtAddInvite: `INSERT INTO invites (id, hash, hint, project, repo, permissions_json, created_by, created_at, expires_at, redeemed_at,
		redeemed_by, revoked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)`,
	stmtPutInvite: `UPDATE invites SET redeemed_at = ?2, redeemed_by = ?3, revoked_at = ?4
		WHERE id = ?1 AND redeemed_at IS NULL AND revoked_at IS NULL`,

	stmtArchives: `SELECT seq, hash, cutoff, file, sha256, entries, messages, at FROM journal_archives ORDER BY seq`,
	stmtAddArchive: `INSERT INTO journal_archives (seq, hash, cutoff, file, sha256, entries, messages, at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,
	stmtMessagesBefore: messageHead + `LEFT JOIN message_meta AS d ON d.message_id = m.id
		WHERE m.id > ?2 AND m.id < ?1` + notHandoff + `ORDER BY m.id LIMIT ?3`,
	stmtPruneJournal: `DELETE FROM journal WHERE seq IN
		(SELECT seq FROM journal WHERE seq <= ?2 ORDER BY seq LIMIT ?1)`,
	stmtPruneMessages: `DELETE FROM messages WHERE id IN (SELECT m.id FROM messages AS m
		WHERE m.id < ?2` + notHandoff + `ORDER BY m.id LIMIT ?1)`,

	stmtJournal:         journalHead + `WHERE seq > ?1 ORDER BY seq LIMIT ?2`,
	stmtJournalNewest:   journalHead + `WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2`,
	stmtJournalOf:       journalOf + `ORDER BY seq LIMIT ?2`,
	stmtJournalOfNewest: journalOf + `ORDER BY seq DESC LIMIT ?2`,
	stmtJournalHead:     `SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`,
	stmtAppend:          `INSERT INTO journal (` + journalColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`,

	stmtLease: `SELECT number FROM leases WHERE name = ?1`,
	stmtRaiseLease: `INSERT INTO leases (name, number) VALUES (?1, 1)
		ON CONFLICT (name) DO UPDATE SET number = number + 1`,
	stmtCursor: `SELECT seq FROM cursors WHERE consumer = ?1`,
	stmtPutCursor: `INSERT INTO cursors (consumer, seq) VALUES (?1, ?2)
		ON CONFLICT (consumer) DO UPDATE SET seq = excluded.seq`,
	stmtMeta: `SELECT value FROM acp_meta WHERE key = ?1`,
	stmtPutMeta: `INSERT INTO acp_meta (key, value) VALUES (?1, ?2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
}
