package rows

import (
	"cmp"

	"github.com/parley-agents/parley/hub"
)

var runs = newTable("runs", "run", "id, agent, by_agent, task, dir, thread_id, handoff_id, key_id, started_at, expires_at, "+
	"state, session_id, stop_reason, reason, report_json, verdict, contradictions_json, evidence_json, message_id, ended_at, verdict_by, claimed_verdict",
	func(c *codec, r *hub.Run) {
		c.text((*string)(&r.ID))
		c.text((*string)(&r.Agent))
		c.text((*string)(&r.By))
		c.text(&r.Task)
		c.text(&r.Dir)
		c.text(&r.ThreadID)
		c.optional((*string)(&r.Handoff))
		c.text((*string)(&r.Key))
		c.stamp(&r.StartedAt)
		c.stamp(&r.ExpiresAt)
		c.text((*string)(&r.State))
		c.optional(&r.Session)
		c.optional(&r.StopReason)
		c.optional(&r.Reason)
		c.json(&r.Report)
		verdict := string(r.Verdict)
		if r.Verdict == hub.RunClaimed { // the column has no word for it: claimed_verdict is set
			verdict = ""
		}
		c.optional(&verdict)
		if c.q == nil {
			r.Contradictions = []hub.Contradiction{}
		}
		c.encoded(&r.Contradictions, len(r.Contradictions) == 0)
		c.json(&r.Evidence)
		c.optional((*string)(&r.Message))
		c.time(&r.EndedAt)
		c.optional((*string)(&r.VerdictBy))
		c.optional((*string)(&r.ClaimedVerdict))
		if c.q == nil {
			r.Verdict = hub.RunVerdict(verdict)
			if r.ClaimedVerdict != "" {
				r.Verdict = hub.RunClaimed
			}
			r.VerdictNote = r.Note()
		}
	})

var (
	runByID = runs.query(`WHERE id = ?1`)
	putRun  = runs.update(1, "state", ` AND state = ?23`)
)

func (r *reader) Run(id hub.RunID) (hub.Run, error) {
	return runs.one(r, string(id), runByID, string(id))
}

func (r *reader) Runs(f hub.RunQuery) ([]hub.Run, error) {
	var w filter
	if f.Viewer != "" {
		w.add(`id IN (SELECT id FROM runs WHERE agent = ? UNION SELECT id FROM runs WHERE by_agent = ?)`, string(f.Viewer), string(f.Viewer))
	}
	w.equal("agent", string(f.Agent))
	w.equal("by_agent", string(f.By))
	w.equal("handoff_id", string(f.Handoff))
	if f.Open {
		w.add(`state IN ('starting','running','checking')`)
	}
	w.add(`id < ?`, cmp.Or(string(f.Cursor), lastID))
	return runs.filtered(r, w, `ORDER BY id DESC`, f.Limit)
}

func (t *tx) PutRun(r hub.Run, was hub.RunState) error {
	if was != "" {
		return runs.put(t, string(r.ID), putRun, &r, string(was))
	}
	// The trigger that keeps runs for ever answers before the primary key does.
	if _, err := t.Run(r.ID); err == nil {
		return hub.Errorf(hub.CodeConflict, runs.op(), "run %s already exists", r.ID)
	} else if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	err := runs.add(t, string(r.ID), &r)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return notFound(runs.op(), "agent or handoff of run", string(r.ID))
	}
	return err
}
