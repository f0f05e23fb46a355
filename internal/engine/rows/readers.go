package rows

import (
	"strconv"

	"github.com/parley-agents/parley/hub"
)

var (
	// The greatest number of a kind is at the end of the primary key: one step.
	lastShortID    = statement(`SELECT n FROM short_ids WHERE kind = ?1 ORDER BY n DESC LIMIT 1`)
	addShortID     = statement(`INSERT INTO short_ids (kind, n, id) VALUES (?1, ?2, ?3)`)
	shortID        = statement(`SELECT kind || n FROM short_ids WHERE id = ?1`)
	longID         = statement(`SELECT id FROM short_ids WHERE kind = ?1 AND n = ?2`)
	artifactReader = statement(`SELECT agent FROM artifact_readers WHERE sha256 = ?1 AND agent = ?2`)
	addReader      = statement(`INSERT INTO artifact_readers (sha256, agent) VALUES (?1, ?2) ON CONFLICT DO NOTHING`)
	removeReaders  = statement(`DELETE FROM artifact_readers WHERE sha256 = ?1`)

	// prunedArtifacts are those that the messages name which Prune removes.
	prunedArtifacts = statementIn(func(d Dialect) string {
		return `SELECT ` + d.arrayOf(`a.value ->> 'sha256'`) + ` FROM messages AS n` + d.joinArtifacts(`n.context_json`) + `
			WHERE a.value ->> 'sha256' IS NOT NULL AND n.id IN (` + prunedMessages + `)`
	})
)

// pruneReaders removes the readers of some artifacts, unless a message, handoff or
// version in the store names the artifact, or the reader stored it after the archive. It
// reads every message once, however many artifacts there are, and is prepared each
// time for that reason.
func pruneReaders(d Dialect) string {
	return `DELETE FROM artifact_readers WHERE sha256 IN (SELECT value FROM ` + d.elements(`?1`) + `)
		AND sha256 NOT IN (
			SELECT a.value ->> 'sha256' FROM messages AS m` + d.joinArtifacts(`m.context_json`) + `
			WHERE a.value ->> 'sha256' IS NOT NULL
			UNION ALL SELECT a.value -> 'ref' ->> 'sha256' FROM handoffs AS h` + d.joinArtifacts(`h.package_json`) + `
			WHERE a.value -> 'ref' ->> 'sha256' IS NOT NULL
			UNION ALL SELECT sha256 FROM team_versions)
		AND NOT EXISTS (SELECT 1 FROM journal AS j
			WHERE j.subject = sha256 AND j.subject <> '' AND j.actor = agent AND j.action = 'artifact.put' AND j.seq > ?2)`
}

// first returns the first column of the first row of a query, and whether there
// is one.
func (r *reader) first(op string, id StmtID, args ...any) (text string, found bool, err error) {
	q := r.query(id)
	q.bind(args...)
	if found = q.next(); found {
		text = q.s.ColumnText(0)
	}
	return text, found, engineError(op, q.done())
}

func (r *reader) ShortID(id string) (hub.ShortID, error) {
	const op = "store.ShortID"
	text, found, err := r.first(op, shortID, id)
	if err == nil && !found {
		err = notFound(op, "short id of", id)
	}
	return hub.ShortID(text), err
}

func (r *reader) LongID(s hub.ShortID) (string, error) {
	const op = "store.LongID"
	kind, n, ok := s.Split()
	if !ok {
		return "", notFound(op, "short id", string(s))
	}
	text, found, err := r.first(op, longID, kind, n)
	if err == nil && !found {
		err = notFound(op, "short id", string(s))
	}
	return text, err
}

func (r *reader) ReadsArtifact(sha256 string, agent hub.AgentID) (bool, error) {
	_, found, err := r.first("store.ReadsArtifact", artifactReader, sha256, string(agent))
	return found, err
}

// ShortID implements hub.Tx.
func (t *tx) ShortID(id string) (hub.ShortID, error) {
	if s, ok := t.batch.shorts[id]; ok {
		return s, nil
	}
	return t.reader.ShortID(id)
}

// addShortID gives an id the next number of its kind.
func (t *tx) addShortID(kind, id string) error {
	const op = "store.addShortID"
	last, known := t.batch.counts[kind]
	if !known {
		q := t.query(lastShortID)
		q.text(kind)
		if q.next() {
			last = q.s.ColumnInt64(0)
		}
		if err := q.done(); err != nil {
			return engineError(op, err)
		}
	}
	t.batch.counts[kind] = last + 1
	t.batch.shorts[id] = hub.ShortID(kind + strconv.FormatInt(last+1, 10))
	return t.Later(op, addShortID, kind, last+1, id)
}

func (t *tx) AddArtifactReader(sha256 string, agent hub.AgentID) error {
	_, err := t.run("store.AddArtifactReader", addReader, sha256, string(agent))
	return err
}

func (t *tx) RemoveArtifactReaders(sha256 string) error {
	_, err := t.run("store.RemoveArtifactReaders", removeReaders, sha256)
	return err
}
