package rows

import (
	"encoding/json"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// lastID comes after every id.
const lastID = "~"

// handoffs joins the protocol's table, which stays as published, with the hub's
// own columns. It is read as one and written as two.
var handoffs = &table[hub.Handoff]{
	name: "handoffs JOIN handoff_meta ON handoff_id = id", noun: "handoff",
	columns: []string{
		"id", "thread_id", "task_id", "from_agent", "to_agent", "title", "reason", "package_json", "status", "package_hash",
		"initiated_at", "resolved_at", "resolution_notes", "previous_id", "restricted", "needs_human", "approved_at", "ownership", "deadline",
		"accepted_at", "escalated_at", "reject_reason", "ending", "team", "team_approved_by",
	},
	computed: map[string]func(Dialect) string{
		"package_hash": func(d Dialect) string { return d.member("verification_json", "package_hash") },
	},
	fields: func(c *codec, h *hub.Handoff) {
		c.text((*string)(&h.ID))
		c.text(&h.ThreadID)
		c.text(&h.TaskID)
		c.text((*string)(&h.From))
		c.text((*string)(&h.To))
		c.text(&h.Title)
		c.text(&h.Reason)
		c.json(&h.Package)
		c.text((*string)(&h.Status))
		c.text(&h.Hash)
		c.time(&h.InitiatedAt)
		c.time(&h.ResolvedAt)
		c.optional(&h.Notes)
		c.optional((*string)(&h.Previous))
		c.bool(&h.Restricted)
		c.bool(&h.NeedsHuman)
		c.time(&h.ApprovedAt)
		c.text((*string)(&h.Ownership))
		c.time(&h.Deadline)
		c.time(&h.AcceptedAt)
		c.time(&h.Escalated)
		c.optional((*string)(&h.RejectReason))
		c.optional((*string)(&h.Ending))
		c.optional((*string)(&h.Team))
		c.optional((*string)(&h.TeamApprovedBy))
	},
}

var handoffSteps = newTable("handoff_history", "step of a handoff", "n, state, at, actor, note, checks_json", func(c *codec, s *hub.HandoffStep) {
	c.int(&s.N)
	c.text((*string)(&s.State))
	c.stamp(&s.At)
	c.text((*string)(&s.Actor))
	c.optional(&s.Note)
	c.encoded(&s.Checks, len(s.Checks) == 0)
})

var (
	handoffByID = handoffs.query(`WHERE id = ?1`)
	stepsOf     = handoffSteps.query(`WHERE handoff_id = ?1 ORDER BY n`)
	addHandoff  = statement(`INSERT INTO handoffs (id, thread_id, task_id, from_agent, to_agent, title, reason, package_json, status,
		provenance_json, verification_json, initiated_at, resolved_at, resolution_notes)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`)
	addHandoffMeta = statement(`INSERT INTO handoff_meta (handoff_id, previous_id, restricted, needs_human, deadline, team, approved_at, ownership,
		accepted_at, escalated_at, reject_reason, ending, team_approved_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`)
	addStep = statement(`INSERT INTO handoff_history (handoff_id, n, state, at, actor, note, checks_json)
		VALUES (?1, 1 + (SELECT count(*) FROM handoff_history WHERE handoff_id = ?1), ?2, ?3, ?4, ?5, ?6)`)
	putHandoff     = statement(`UPDATE handoffs SET status = ?2, resolved_at = ?3, resolution_notes = ?4 WHERE id = ?1 AND status = ?5`)
	putHandoffMeta = statement(`UPDATE handoff_meta SET approved_at = ?3, ownership = ?4, accepted_at = ?5, escalated_at = ?6, reject_reason = ?7,
		ending = ?8, team_approved_by = ?9 WHERE handoff_id = ?1 AND (SELECT status FROM handoffs WHERE id = ?1) = ?2`)
)

func (r *reader) Handoff(id hub.HandoffID) (hub.Handoff, error) {
	return handoffs.one(r, string(id), handoffByID, string(id))
}

func (r *reader) Handoffs(f hub.HandoffQuery) ([]hub.Handoff, error) {
	var w filter
	for _, agent := range []hub.AgentID{f.Viewer, f.Agent} {
		if agent != "" {
			w.add(`id IN (SELECT id FROM handoffs WHERE from_agent = ? UNION SELECT id FROM handoffs WHERE to_agent = ?)`, string(agent), string(agent))
		}
	}

	w.equal("from_agent", string(f.From))
	w.equal("to_agent", string(f.To))
	w.equal("task_id", f.Task)

	if len(f.States) > 0 {
		var states []any
		for _, s := range f.States {
			states = append(states, string(s))
		}
		w.add(`status IN (?`+strings.Repeat(`, ?`, len(states)-1)+`)`, states...)
	}
	if f.Owned {
		w.add(`accepted_at IS NOT NULL`)
	}

	// A late handoff is open past its deadline or for too long, and was not escalated recently.
	if l := f.Late; l != nil {
		w.add(`status IN ('accepted','activated')`)
		w.add(`accepted_at < ? OR deadline <= ?`, l.AcceptedBefore, l.DeadlineBy)
		w.add(`escalated_at IS NULL OR escalated_at < ?`, l.EscalatedBefore)
	}

	if f.Cursor != "" {
		w.add(`id < ?`, string(f.Cursor))
	}
	return handoffs.filtered(r, w, `ORDER BY id DESC`, f.Limit)
}

func (r *reader) HandoffSteps(id hub.HandoffID) ([]hub.HandoffStep, error) {
	return handoffSteps.all(r, stepsOf, string(id))
}

func (t *tx) PutHandoff(h hub.Handoff, was hub.HandoffState, step *hub.HandoffStep) error {
	const op = "store.PutHandoff"
	var err error
	switch {
	case was == "":
		err = t.addHandoff(op, h)
	case step == nil:
		return t.compareAndSet("handoff", string(h.ID), putHandoffMeta, append([]any{string(h.ID), string(was)}, progress(h)...)...)
	default:
		err = t.moveHandoff(op, h, was)
	}
	if err != nil {
		return err
	}
	var checks string
	if len(step.Checks) > 0 {
		checks, err = encodeJSON(step.Checks)
	}
	if err == nil {
		_, err = t.run(op, addStep, string(h.ID), string(step.State), step.At.String(), string(step.Actor), orNull(step.Note), orNull(checks))
	}
	if err != nil {
		t.spoil(err) // the handoff is stored without its step
	}
	return err
}

// progress returns the values of the hub's own columns that change.
func progress(h hub.Handoff) []any {
	return []any{h.ApprovedAt, string(h.Ownership), h.AcceptedAt, h.Escalated, orNull(h.RejectReason), orNull(h.Ending), orNull(h.TeamApprovedBy)}
}

// addHandoff stores a new handoff without its first step.
func (t *tx) addHandoff(op string, h hub.Handoff) error {
	if !h.Status.Known() {
		return hub.Errorf(hub.CodeInvalid, op, "%q is not a handoff state", h.Status)
	}
	// Both obstacles are looked for first: the engine would name neither.
	if _, err := t.Handoff(h.ID); err == nil {
		return hub.Errorf(hub.CodeConflict, op, "handoff %s already exists", h.ID)
	} else if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	if h.Status.Active() {
		if err := t.claimed(op, h.TaskID); err != nil {
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

	if _, err := t.run(op, addHandoff, string(h.ID), h.ThreadID, h.TaskID, string(h.From), string(h.To), h.Title, h.Reason, string(h.Package),
		string(h.Status), string(members.Provenance), string(members.Verification), h.InitiatedAt.String(), h.ResolvedAt, orNull(h.Notes)); err != nil {
		return err
	}
	_, err := t.run(op, addHandoffMeta, append([]any{string(h.ID), orNull(h.Previous), h.Restricted, h.NeedsHuman, h.Deadline, orNull(h.Team)}, progress(h)...)...)
	if err == nil {
		err = t.addShortID(hub.ShortHandoff, string(h.ID))
	}
	if err != nil {
		t.spoil(err) // half a handoff is stored
	}
	return err
}

// moveHandoff stores a move without its step.
func (t *tx) moveHandoff(op string, h hub.Handoff, was hub.HandoffState) error {
	if h.Status.Active() && !was.Active() { // a draft that is proposed claims its task
		if err := t.claimed(op, h.TaskID); err != nil {
			return err
		}
	}
	err := t.compareAndSet("handoff", string(h.ID), putHandoff, string(h.ID), string(h.Status), h.ResolvedAt, orNull(h.Notes), string(was))
	if err == nil {
		_, err = t.run(op, putHandoffMeta, append([]any{string(h.ID), string(h.Status)}, progress(h)...)...)
	}
	return err
}

// claimed reports CodeOwnership if a handoff claims the task.
func (t *tx) claimed(op, task string) error {
	active, err := t.Handoffs(hub.HandoffQuery{Task: task, States: hub.ActiveHandoffs, Limit: 1})
	if err != nil || len(active) == 0 {
		return err
	}
	h := active[0]
	return hub.Errorf(hub.CodeOwnership, op, "task %q already has an active handoff: %s from %s to %s is %s", task, h.ID, h.From, h.To, h.Status)
}
