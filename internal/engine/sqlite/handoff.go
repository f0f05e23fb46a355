package sqlite

import (
	"cmp"
	"encoding/json"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// scanHandoff reads a row of handoffHead.
func scanHandoff(s *sqlite3.Stmt) (hub.Handoff, error) {
	h := hub.Handoff{
		ID:           hub.HandoffID(s.ColumnText(0)),
		ThreadID:     s.ColumnText(1),
		TaskID:       s.ColumnText(2),
		From:         hub.AgentID(s.ColumnText(3)),
		To:           hub.AgentID(s.ColumnText(4)),
		Title:        s.ColumnText(5),
		Reason:       s.ColumnText(6),
		Package:      columnJSON(s, 7),
		Status:       hub.HandoffState(s.ColumnText(9)),
		InitiatedAt:  columnTime(s, 10),
		ResolvedAt:   columnTime(s, 11),
		Notes:        s.ColumnText(12),
		Previous:     hub.HandoffID(s.ColumnText(13)),
		Restricted:   s.ColumnBool(14),
		NeedsHuman:   s.ColumnBool(15),
		ApprovedAt:   columnTime(s, 16),
		Ownership:    hub.Ownership(s.ColumnText(17)),
		Deadline:     columnTime(s, 18),
		AcceptedAt:   columnTime(s, 19),
		Escalated:    columnTime(s, 20),
		RejectReason: hub.RejectReason(s.ColumnText(21)),
		Ending:       hub.Ending(s.ColumnText(22)),
	}
	var v struct {
		Hash string `json:"package_hash"`
	}
	if err := json.Unmarshal(s.ColumnRawText(8), &v); err != nil {
		return h, hub.Errorf(hub.CodeDegraded, "sqlite.Handoff", "handoff %s has a broken verification: %v", h.ID, err)
	}
	h.Hash = v.Hash
	return h, nil
}

func (r *reader) Handoff(id hub.HandoffID) (hub.Handoff, error) {
	q := r.c.query(stmtHandoff)
	q.text(string(id))
	return one("sqlite.Handoff", "handoff", string(id), &q, scanHandoff)
}

func (r *reader) ActiveHandoff(task string) (hub.Handoff, error) {
	q := r.c.query(stmtActiveHandoff)
	q.text(task)
	return one("sqlite.ActiveHandoff", "active handoff of task", task, &q, scanHandoff)
}

func (r *reader) Handoffs(f hub.HandoffQuery) ([]hub.Handoff, error) {
	const op = "sqlite.Handoffs"
	id := stmtHandoffs
	if f.Viewer != "" {
		id = stmtHandoffsOfViewer
	}
	states := ""
	if len(f.States) > 0 {
		var err error
		if states, err = encodeJSON(f.States); err != nil {
			return nil, engineError(op, err)
		}
	}
	q := r.c.query(id)
	q.some(string(f.Viewer))
	q.some(string(f.Agent))
	q.some(string(f.From))
	q.some(string(f.To))
	q.some(f.Task)
	q.some(states)
	q.text(cmp.Or(string(f.Cursor), "~")) // no id comes after that
	q.int(int64(max(f.Limit, 0)))
	return collect(op, &q, scanHandoff)
}

func (r *reader) HandoffSteps(id hub.HandoffID) ([]hub.HandoffStep, error) {
	q := r.c.query(stmtHandoffSteps)
	q.text(string(id))
	var all []hub.HandoffStep
	for q.next() {
		s := hub.HandoffStep{
			N: q.s.ColumnInt(0), State: hub.HandoffState(q.s.ColumnText(1)), At: columnTime(q.s, 2),
			Actor: hub.AgentID(q.s.ColumnText(3)), Note: q.s.ColumnText(4),
		}
		if b := q.s.ColumnRawText(5); len(b) > 0 {
			if err := json.Unmarshal(b, &s.Checks); err != nil {
				q.note(hub.Errorf(hub.CodeDegraded, "sqlite.HandoffSteps", "step %d of handoff %s has broken checks: %v", s.N, id, err))
			}
		}
		all = append(all, s)
	}
	return all, engineError("sqlite.HandoffSteps", q.done())
}

func (r *reader) Owned(task string) ([]hub.Handoff, error) {
	q := r.c.query(stmtOwned)
	q.text(task)
	return collect("sqlite.Owned", &q, scanHandoff)
}

func (r *reader) Late(acceptedBefore, deadlineBy, escalatedBefore hub.Time, limit int) ([]hub.Handoff, error) {
	q := r.c.query(stmtLate)
	q.text(acceptedBefore.String())
	q.text(deadlineBy.String())
	q.text(escalatedBefore.String())
	q.int(int64(max(limit, 0)))
	return collect("sqlite.Late", &q, scanHandoff)
}

func (t *tx) AddHandoff(h hub.Handoff, first hub.HandoffStep) error {
	const op = "sqlite.AddHandoff"
	if !h.Status.Known() {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a state of a handoff", h.Status)
	}
	// What is in the way is looked up first: the engine would say only that
	// something is.
	if _, err := t.Handoff(h.ID); err == nil {
		return hub.Errorf(hub.CodeConflict, op, "there is a handoff %s already", h.ID)
	} else if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if h.Status.Active() {
		if other, err := t.ActiveHandoff(h.TaskID); err == nil {
			return taskTaken(op, h.TaskID, other)
		} else if hub.CodeOf(err) != hub.CodeNotFound {
			return err
		}
	}
	var members struct {
		Provenance   json.RawMessage `json:"provenance"`
		Verification json.RawMessage `json:"verification"`
	}
	if err := json.Unmarshal(h.Package, &members); err != nil || members.Provenance == nil || members.Verification == nil {
		return hub.Errorf(hub.CodeInvalid, op, "handoff %s has no complete package", h.ID)
	}
	q := t.c.query(stmtAddHandoff)
	q.text(string(h.ID))
	q.text(h.ThreadID)
	q.text(h.TaskID)
	q.text(string(h.From))
	q.text(string(h.To))
	q.text(h.Title)
	q.text(h.Reason)
	q.text(string(h.Package))
	q.text(string(h.Status))
	q.text(string(members.Provenance))
	q.text(string(members.Verification))
	q.text(h.InitiatedAt.String())
	q.time(h.ResolvedAt)
	q.some(h.Notes)
	if _, err := t.change(op, &q); err != nil {
		return err
	}
	// From here on an error leaves half a handoff behind.
	q = t.c.query(stmtAddHandoffMeta)
	q.text(string(h.ID))
	q.some(string(h.Previous))
	q.int(boolInt(h.Restricted))
	q.int(boolInt(h.NeedsHuman))
	q.time(h.ApprovedAt)
	q.text(string(h.Ownership))
	q.time(h.Deadline)
	q.time(h.AcceptedAt)
	q.time(h.Escalated)
	q.some(string(h.RejectReason))
	q.some(string(h.Ending))
	_, err := t.change(op, &q)
	if err == nil {
		err = t.addStep(op, h.ID, first)
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

func taskTaken(op, task string, other hub.Handoff) error {
	return hub.Errorf(hub.CodeOwnership, op, "the task %q has an active handoff already: %s from %s to %s is %s", task, other.ID, other.From, other.To, other.Status)
}

func (t *tx) addStep(op string, id hub.HandoffID, s hub.HandoffStep) error {
	checks := ""
	if len(s.Checks) > 0 {
		var err error
		if checks, err = encodeJSON(s.Checks); err != nil {
			return engineError(op, err)
		}
	}
	q := t.c.query(stmtAddStep)
	q.text(string(id))
	q.text(string(s.State))
	q.text(s.At.String())
	q.text(string(s.Actor))
	q.some(s.Note)
	q.some(checks)
	_, err := t.change(op, &q)
	return err
}

func (t *tx) PutHandoff(h hub.Handoff, was hub.HandoffState, step hub.HandoffStep) error {
	const op = "sqlite.PutHandoff"
	q := t.c.query(stmtPutHandoff)
	q.text(string(h.ID))
	q.text(string(h.Status))
	q.time(h.ResolvedAt)
	q.some(h.Notes)
	q.text(string(was))
	n, err := t.change(op, &q)
	switch {
	case hub.CodeOf(err) == hub.CodeConflict: // a draft that is proposed claims its task
		if other, err := t.ActiveHandoff(h.TaskID); err == nil {
			return taskTaken(op, h.TaskID, other)
		}
		return err
	case err != nil:
		return err
	case n == 0:
		return hub.Errorf(hub.CodeConflict, op, "handoff %s is not %s any more", h.ID, was)
	}
	if err := t.NoteHandoff(h); err != nil {
		t.spoil(err)
		return err
	}
	if err := t.addStep(op, h.ID, step); err != nil {
		t.spoil(err)
		return err
	}
	return nil
}

func (t *tx) NoteHandoff(h hub.Handoff) error {
	const op = "sqlite.NoteHandoff"
	q := t.c.query(stmtPutHandoffMeta)
	q.text(string(h.ID))
	q.time(h.ApprovedAt)
	q.text(string(h.Ownership))
	q.time(h.AcceptedAt)
	q.time(h.Escalated)
	q.some(string(h.RejectReason))
	q.some(string(h.Ending))
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return notFound(op, "handoff", string(h.ID))
	}
	return err
}
