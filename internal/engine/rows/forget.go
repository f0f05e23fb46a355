package rows

import "github.com/parley-agents/parley/hub"

var (
	stmtForgetMessage = statement(`UPDATE messages SET payload_json = ?2, payload_bytes = ?3, topic = NULL, context_json = NULL, external_refs_json = NULL WHERE id = ?1`)
	stmtForgetMeta    = statement(`UPDATE message_meta SET extra_json = NULL WHERE message_id = ?1`)
	stmtSeqOf         = statement(`SELECT seq FROM message_meta WHERE message_id = ?1`)
)

// namesArtifact has no index to use, and is prepared each time for that reason.
func namesArtifact(d Dialect) string {
	has := func(column string) string { return d.contains(column, `?1`) }
	return `SELECT 1 WHERE
		EXISTS (SELECT 1 FROM messages WHERE ` + has(`payload_json`) + ` OR ` + has(`coalesce(context_json, '')`) + `) OR
		EXISTS (SELECT 1 FROM handoffs WHERE ` + has(`package_json`) + ` OR ` + has(`verification_json`) + `) OR
		EXISTS (SELECT 1 FROM handoff_history WHERE ` + has(`coalesce(checks_json, '')`) + `) OR
		EXISTS (SELECT 1 FROM team_versions WHERE sha256 = ?1)`
}

// NamesArtifact reads every message and handoff: it is for removals, which are rare.
func (r *reader) NamesArtifact(sha256 string) (bool, error) {
	q := r.dynamic(namesArtifact(r.c.Dialect()))
	q.text(sha256)
	found := q.next()
	return found, engineError("store.NamesArtifact", q.done())
}

func (t *tx) ForgetText(id hub.EnvelopeID) error {
	const op = "store.ForgetText"
	m, err := t.Message(id)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	parties, err := t.Parties(id)
	if err != nil {
		return err
	}

	// The index knows the message by its seq.
	q := t.query(stmtSeqOf)
	q.text(string(id))
	var seq int64
	if q.next() {
		seq = q.s.ColumnInt64(0)
	}
	if err := q.done(); err != nil {
		return engineError(op, err)
	}

	m.Envelope = m.Forgotten()
	if _, err := t.run(op, stmtForgetMessage, string(id), string(m.Payload), int64(len(m.Payload))); err != nil {
		return err
	}
	if _, err := t.run(op, stmtForgetMeta, string(id)); err != nil {
		return err
	}
	return engineError(op, t.index.Replaced(seq, &m, parties))
}
