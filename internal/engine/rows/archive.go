package rows

import "github.com/parley-agents/parley/hub"

func (r *reader) Archives() ([]hub.Archive, error) {
	q := r.query(stmtArchives)
	var all []hub.Archive
	for q.next() {
		all = append(all, hub.Archive{
			Seq: q.s.ColumnInt64(0), Hash: q.s.ColumnText(1), Cutoff: columnTime(q.s, 2), File: q.s.ColumnText(3),
			SHA256: q.s.ColumnText(4), Entries: int(q.s.ColumnInt64(5)), Messages: int(q.s.ColumnInt64(6)), At: columnTime(q.s, 7),
		})
	}
	return all, engineError("store.Archives", q.done())
}

func (r *reader) MessagesBefore(t hub.Time, after hub.EnvelopeID, limit int) ([]hub.Message, error) {
	q := r.query(stmtMessagesBefore)
	q.text(string(hub.FirstID(t)))
	q.text(string(after))
	q.int(int64(max(limit, 0)))
	var all []hub.Message
	for q.next() {
		m, _, err := r.scanMessage(q.s)
		q.note(err)
		all = append(all, m)
	}
	return all, engineError("store.MessagesBefore", q.done())
}

func (t *tx) AddArchive(a hub.Archive) error {
	const op = "store.AddArchive"
	q := t.query(stmtAddArchive)
	q.int(a.Seq)
	q.text(a.Hash)
	q.text(a.Cutoff.String())
	q.text(a.File)
	q.text(a.SHA256)
	q.int(int64(a.Entries))
	q.int(int64(a.Messages))
	q.text(a.At.String())
	_, err := t.change(op, &q)
	return err
}

func (t *tx) Prune(limit int) (int, error) {
	const op = "store.Prune"
	archives, err := t.Archives()
	if err != nil || len(archives) == 0 {
		return 0, err
	}

	// The artifacts are read before the messages that name them are removed.
	last := archives[len(archives)-1]
	artifacts, _, err := t.first(op, prunedArtifacts, int64(max(limit, 0)), string(hub.FirstID(last.Cutoff)))
	if err != nil {
		return 0, err
	}

	messages, entries := t.query(stmtPruneMessages), t.query(stmtPruneJournal)
	messages.int(int64(max(limit, 0)))
	messages.text(string(hub.FirstID(last.Cutoff)))
	entries.int(int64(max(limit, 0)))
	entries.int(last.Seq)

	total := 0
	for _, q := range [...]*query{&messages, &entries} {
		n, err := t.change(op, q)
		if err != nil {
			return total, err
		}
		total += int(n)
	}

	// An artifact of the removed messages loses its readers unless something else names it.
	if artifacts != "[]" && artifacts != "" {
		q := t.dynamic(pruneReaders(t.c.Dialect()))
		q.text(artifacts)
		q.int(last.Seq)
		_, err = t.change(op, &q)
	}
	return total, err
}

// prunedMessages selects the first ?1 messages before the id ?2 that an archive holds.
const prunedMessages = `SELECT m.id FROM messages AS m WHERE m.id < ?2` + notHandoff + `ORDER BY m.id LIMIT ?1`
