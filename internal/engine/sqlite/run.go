package sqlite

import (
	"cmp"
	"encoding/json"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// scanRun reads a row of runHead.
func scanRun(s *sqlite3.Stmt) (hub.Run, error) {
	r := hub.Run{
		ID:         hub.RunID(s.ColumnText(0)),
		Agent:      hub.AgentID(s.ColumnText(1)),
		By:         hub.AgentID(s.ColumnText(2)),
		Task:       s.ColumnText(3),
		Dir:        s.ColumnText(4),
		ThreadID:   s.ColumnText(5),
		Handoff:    hub.HandoffID(s.ColumnText(6)),
		Key:        hub.KeyID(s.ColumnText(7)),
		State:      hub.RunState(s.ColumnText(8)),
		Session:    s.ColumnText(9),
		StopReason: s.ColumnText(10),
		Reason:     s.ColumnText(11),
		Report:     columnJSON(s, 12),
		Verdict:    hub.RunVerdict(s.ColumnText(13)),
		Evidence:   columnJSON(s, 15),
		Message:    hub.EnvelopeID(s.ColumnText(16)),
		StartedAt:  columnTime(s, 17),
		ExpiresAt:  columnTime(s, 18),
		EndedAt:    columnTime(s, 19),
	}
	r.Contradictions = []hub.Contradiction{}
	if b := s.ColumnRawText(14); len(b) > 0 {
		if err := json.Unmarshal(b, &r.Contradictions); err != nil {
			return r, hub.Errorf(hub.CodeDegraded, "sqlite.Run", "run %s has broken contradictions: %v", r.ID, err)
		}
	}
	return r, nil
}

// runs collects the rows of a query for runHead.
func (q *query) runs(op string) ([]hub.Run, error) {
	var all []hub.Run
	for q.next() {
		r, err := scanRun(q.s)
		q.note(err)
		all = append(all, r)
	}
	return all, engineError(op, q.done())
}

func (r *reader) Run(id hub.RunID) (hub.Run, error) {
	const op = "sqlite.Run"
	q := r.c.query(stmtRun)
	q.text(string(id))
	all, err := q.runs(op)
	if err == nil && len(all) == 0 {
		err = notFound(op, "run", string(id))
	}
	if err != nil {
		return hub.Run{}, err
	}
	return all[0], nil
}

func (r *reader) Runs(f hub.RunQuery) ([]hub.Run, error) {
	id := stmtRuns
	switch { // by what restricts most
	case f.Handoff != "":
		id = stmtRunsOfHandoff
	case f.Open:
		id = stmtRunsOpen
	case f.Viewer != "":
		id = stmtRunsOfViewer
	}
	q := r.c.query(id)
	q.some(string(f.Viewer))
	q.some(string(f.Agent))
	q.some(string(f.Handoff))
	q.int(boolInt(f.Open))
	q.text(cmp.Or(string(f.Cursor), "~")) // no id comes after that
	q.int(int64(max(f.Limit, 0)))
	return q.runs("sqlite.Runs")
}

func (t *tx) AddRun(r hub.Run) error {
	const op = "sqlite.AddRun"
	if _, err := t.Run(r.ID); err == nil { // the engine would say only that something is in the way
		return hub.Errorf(hub.CodeConflict, op, "there is a run %s already", r.ID)
	} else if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	q := t.c.query(stmtAddRun)
	q.text(string(r.ID))
	q.text(string(r.Agent))
	q.text(string(r.By))
	q.text(r.Task)
	q.text(r.Dir)
	q.text(r.ThreadID)
	q.some(string(r.Handoff))
	q.text(string(r.Key))
	q.text(r.StartedAt.String())
	q.text(r.ExpiresAt.String())
	q.progress(r)
	_, err := t.change(op, &q)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(op, "agent or handoff of run", string(r.ID))
	}
	return err
}

// progress binds what changes of a run.
func (q *query) progress(r hub.Run) {
	contradictions := ""
	if len(r.Contradictions) > 0 {
		var err error
		contradictions, err = encodeJSON(r.Contradictions)
		q.note(err)
	}
	q.text(string(r.State))
	q.some(r.Session)
	q.some(r.StopReason)
	q.some(r.Reason)
	q.some(string(r.Report))
	q.some(string(r.Verdict))
	q.some(contradictions)
	q.some(string(r.Evidence))
	q.some(string(r.Message))
	q.time(r.EndedAt)
}

func (t *tx) PutRun(r hub.Run, was hub.RunState) error {
	const op = "sqlite.PutRun"
	q := t.c.query(stmtPutRun)
	q.text(string(r.ID))
	q.text(string(was))
	q.progress(r)
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "run %s is not %s any more", r.ID, was)
	}
	return err
}
