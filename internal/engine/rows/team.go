package rows

import "github.com/parley-agents/parley/hub"

var teams = newTable("teams", "team", "id, lifecycle, revision, body_json", func(c *codec, t *hub.Team) {
	c.text((*string)(&t.ID))
	c.text((*string)(&t.Lifecycle))
	c.int64(&t.Revision)
	c.encoded(t, false)
})

var members = newTable("team_members", "member", "team, n, agent, role, since, by, reason, until, ending", func(c *codec, m *hub.Member) {
	c.text((*string)(&m.Team))
	c.int64(&m.N)
	c.text((*string)(&m.Agent))
	c.text((*string)(&m.Role))
	c.stamp(&m.Since)
	c.text((*string)(&m.By))
	c.text(&m.Reason)
	c.time(&m.Until)
	c.optional(&m.Ending)
})

var heldActions = newTable("team_held", "held action", "id, team, verdict, body_json", func(c *codec, h *hub.HeldAction) {
	c.text(&h.ID)
	c.text((*string)(&h.Team))
	c.optional(&h.Verdict)
	c.encoded(h, false)
})

var (
	teamByID    = teams.query(`WHERE id = ?1`)
	putTeam     = teams.update(1, "lifecycle", ` AND revision = ?5`)
	lastMember  = statement(`SELECT n FROM team_members WHERE team = ?1 ORDER BY n DESC LIMIT 1`)
	endMember   = members.update(2, "until", ` AND until IS NULL`)
	heldByID    = heldActions.query(`WHERE id = ?1`)
	waitingHeld = heldActions.query(`WHERE id > '' AND verdict IS NULL ORDER BY id LIMIT ?1`)
	endHeld     = heldActions.update(1, "verdict", ` AND verdict IS NULL`)
)

func (r *reader) Team(id hub.TeamID) (hub.Team, error) {
	return teams.one(r, string(id), teamByID, string(id))
}

func (r *reader) Teams(q hub.TeamQuery) ([]hub.Team, error) {
	var w filter
	if q.Member != "" {
		w.add(`id IN (SELECT team FROM team_members WHERE agent = ? AND until IS NULL)`, string(q.Member))
	}
	w.equal("lifecycle", string(q.Lifecycle))
	if !q.All && q.Lifecycle == "" {
		w.add(`lifecycle <> 'archived'`)
	}
	w.add(`id > ?`, string(q.Cursor))
	return teams.filtered(r, w, `ORDER BY id`, q.Limit)
}

func (r *reader) Members(q hub.MemberQuery) ([]hub.Member, error) {
	var w filter
	w.equal("team", string(q.Team))
	w.equal("agent", string(q.Agent))
	if !q.Ended {
		w.add(`until IS NULL`)
	}
	w.add(`n > ?`, q.After)
	return members.filtered(r, w, `ORDER BY team, n`, q.Limit)
}

func (r *reader) HeldAction(id string) (hub.HeldAction, error) {
	return heldActions.one(r, id, heldByID, id)
}

func (r *reader) HeldActions(limit int) ([]hub.HeldAction, error) {
	return heldActions.all(r, waitingHeld, limit)
}

func (t *tx) PutTeam(team hub.Team) error {
	was := team.Revision
	team.Revision++
	if was == 0 {
		return teams.add(t, string(team.ID), &team)
	}
	return teams.put(t, string(team.ID), putTeam, &team, was)
}

// number returns the number that a statement finds, or 0.
func (t *tx) number(op string, id StmtID, args ...any) (n int64, err error) {
	q := t.query(id)
	q.bind(args...)
	if q.next() {
		n = q.s.ColumnInt64(0)
	}
	return n, engineError(op, q.done())
}

func (t *tx) PutMember(m hub.Member) error {
	name := string(m.Agent) + " of " + string(m.Team)
	if m.N != 0 {
		return members.put(t, name, endMember, &m)
	}
	n, err := t.number(members.op(), lastMember, string(m.Team))
	if err != nil {
		return err
	}
	m.N = n + 1
	return members.add(t, name, &m)
}

func (t *tx) PutHeldAction(h hub.HeldAction) error {
	if h.Verdict == "" {
		return heldActions.add(t, h.ID, &h)
	}
	return heldActions.put(t, h.ID, endHeld, &h)
}
