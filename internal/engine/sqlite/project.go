package sqlite

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
)

// columnInstant reads a stored time of coordination; NULL is the zero time.
func columnInstant(s *sqlite3.Stmt, col int) hub.Instant { return hub.InstantMicro(s.ColumnInt64(col)) }

// maxRepoLists bounds what a connection remembers of decoded repositories.
const maxRepoLists = 64

// repos decodes stored repositories. Every change in a project reads them, and
// they seldom change themselves; nobody may write to the list.
func (c *conn) repos(b []byte) ([]hub.Repo, error) {
	if list, ok := c.repoLists[string(b)]; ok {
		return list, nil
	}
	var list []hub.Repo
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(c.repoLists) >= maxRepoLists {
		clear(c.repoLists)
	}
	c.repoLists[string(b)] = slices.Clip(list)
	return slices.Clip(list), nil
}

// scanProject reads a row of projectHead.
func (c *conn) scanProject(s *sqlite3.Stmt) (hub.Project, error) {
	p := hub.Project{
		ID: hub.ProjectID(s.ColumnText(0)), Name: s.ColumnText(1), Objective: s.ColumnText(2), Status: hub.ProjectStatus(s.ColumnText(3)),
		Policy: hub.AgreementPolicy(s.ColumnText(4)), CreatedAt: columnInstant(s, 6), UpdatedAt: columnInstant(s, 7),
		Tally: hub.Tally{
			Contracts: s.ColumnInt(8), Started: s.ColumnInt(9), Implemented: s.ColumnInt(10), Verified: s.ColumnInt(11),
			Packets: s.ColumnInt(12), Bytes: s.ColumnInt64(13),
		},
	}
	var err error
	if p.Repos, err = c.repos(s.ColumnRawText(5)); err != nil {
		return p, hub.Errorf(hub.CodeDegraded, "sqlite.Project", "project %s has broken repositories: %v", p.ID, err)
	}
	return p, nil
}

func (r *reader) Project(id hub.ProjectID) (hub.Project, error) {
	q := r.c.query(stmtProject)
	q.text(string(id))
	return one("sqlite.Project", "project", string(id), &q, r.c.scanProject)
}

func (r *reader) Projects(after hub.ProjectID, limit int) ([]hub.Project, error) {
	q := r.c.query(stmtProjects)
	q.text(string(after))
	q.int(int64(max(limit, 0)))
	return collect("sqlite.Projects", &q, r.c.scanProject)
}

func (t *tx) AddProject(p hub.Project) error {
	const op = "sqlite.AddProject"
	_, err := t.putProject(op, stmtAddProject, p)
	if hub.CodeOf(err) == hub.CodeConflict {
		return hub.Errorf(hub.CodeConflict, op, "there is a project %s already", p.ID)
	}
	return err
}

func (t *tx) PutProject(p hub.Project) error {
	const op = "sqlite.PutProject"
	n, err := t.putProject(op, stmtPutProject, p)
	if err == nil && n == 0 {
		return notFound(op, "project", string(p.ID))
	}
	return err
}

func (t *tx) putProject(op string, id stmtID, p hub.Project) (int64, error) {
	repos, err := encodeJSON(slices.Concat([]hub.Repo{}, p.Repos)) // never null
	if err != nil {
		return 0, engineError(op, err)
	}
	q := t.c.query(id)
	q.text(string(p.ID))
	q.text(p.Name)
	q.text(p.Objective)
	q.text(string(p.Status))
	q.text(string(p.Policy))
	q.text(repos)
	q.int(p.CreatedAt.Micro())
	q.int(p.UpdatedAt.Micro())
	return t.change(op, &q)
}

// countUp adds to what is counted of a project.
func (t *tx) countUp(op string, id hub.ProjectID, by hub.Tally) error {
	if by == (hub.Tally{}) {
		return nil
	}
	q := t.c.query(stmtCountUp)
	q.text(string(id))
	for _, n := range [...]int{by.Contracts, by.Started, by.Implemented, by.Verified, by.Packets} {
		q.int(int64(n))
	}
	q.int(by.Bytes)
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		err = notFound(op, "project", string(id))
		t.spoil(err) // there is something in it already
	}
	return err
}

// scanContract reads a row of contractHead.
func scanContract(s *sqlite3.Stmt) (hub.Contract, error) {
	c := hub.Contract{
		Project: hub.ProjectID(s.ColumnText(0)), ID: hub.ContractID(s.ColumnText(1)), Type: hub.ContractType(s.ColumnText(2)), Name: s.ColumnText(3),
		Version: s.ColumnInt(4), Status: hub.ContractStatus(s.ColumnText(5)), ProposedBy: hub.RepoID(s.ColumnText(6)),
		CreatedAt: columnInstant(s, 7), UpdatedAt: columnInstant(s, 8), ReopenedAt: columnInstant(s, 9), Content: columnJSON(s, 12),
	}
	for col, list := range map[int]any{10: &c.Implementations, 11: &c.Agreements} {
		if b := s.ColumnRawText(col); len(b) > 0 {
			if err := json.Unmarshal(b, list); err != nil {
				return c, hub.Errorf(hub.CodeDegraded, "sqlite.Contract", "contract %s is broken: %v", c.ID, err)
			}
		}
	}
	return c, nil
}

func (r *reader) Contract(project hub.ProjectID, id hub.ContractID) (hub.Contract, error) {
	q := r.c.query(stmtContract)
	q.text(string(project))
	q.text(string(id))
	return one("sqlite.Contract", "contract", string(id), &q, scanContract)
}

func (r *reader) Contracts(f hub.ContractQuery) ([]hub.Contract, error) {
	q := r.c.query(stmtContracts)
	q.text(string(f.Project))
	q.text(string(f.After))
	q.some(string(f.Status))
	q.some(string(f.Type))
	q.int(int64(max(f.Limit, 0)))
	return collect("sqlite.Contracts", &q, scanContract)
}

func (r *reader) Conflicted(project hub.ProjectID, after hub.ContractID, limit int) ([]hub.ContractID, error) {
	q := r.c.query(stmtConflicted)
	q.text(string(project))
	q.text(string(after))
	q.int(int64(max(limit, 0)))
	return collect("sqlite.Conflicted", &q, func(s *sqlite3.Stmt) (hub.ContractID, error) { return hub.ContractID(s.ColumnText(0)), nil })
}

func (t *tx) AddContract(c hub.Contract) error {
	const op = "sqlite.AddContract"
	q, err := t.bindContract(op, stmtAddContract, c)
	if err != nil {
		return err
	}
	q.int(boolInt(len(c.Conflicts) > 0))
	if _, err := t.change(op, &q); err != nil {
		if hub.CodeOf(err) == hub.CodeConflict {
			return hub.Errorf(hub.CodeConflict, op, "there is a contract %s already", c.ID)
		}
		return err
	}
	// From here on an error leaves half a contract behind.
	if err := t.countUp(op, c.Project, c.Tally()); err != nil {
		t.spoil(err)
		return err
	}
	if err := t.addVersions(op, c); err != nil {
		t.spoil(err)
		return err
	}
	return nil
}

// bindContract binds the parameters that storing a contract begins with.
func (t *tx) bindContract(op string, id stmtID, c hub.Contract) (query, error) {
	var implementations, agreements string
	var err error
	if len(c.Implementations) > 0 {
		if implementations, err = encodeJSON(c.Implementations); err != nil {
			return query{}, engineError(op, err)
		}
	}
	if len(c.Agreements) > 0 {
		if agreements, err = encodeJSON(c.Agreements); err != nil {
			return query{}, engineError(op, err)
		}
	}
	q := t.c.query(id)
	q.text(string(c.Project))
	q.text(string(c.ID))
	q.text(string(c.Type))
	q.text(c.Name)
	q.int(int64(c.Version))
	q.text(string(c.Status))
	q.text(string(c.ProposedBy))
	q.int(c.CreatedAt.Micro())
	q.int(c.UpdatedAt.Micro())
	q.instant(c.ReopenedAt)
	q.some(implementations)
	q.some(agreements)
	q.text(string(c.Content))
	return q, nil
}

func (t *tx) PutContract(c, was hub.Contract) error {
	const op = "sqlite.PutContract"
	q, err := t.bindContract(op, stmtPutContract, c)
	if err != nil {
		return err
	}
	q.int(int64(was.Version))
	q.int(was.UpdatedAt.Micro())
	n, err := t.change(op, &q)
	if err != nil {
		return err
	}
	if n == 0 {
		return hub.Errorf(hub.CodeConflict, op, "contract %s is not as it was any more", c.ID)
	}
	now, before := c.Tally(), was.Tally()
	return t.countUp(op, c.Project, hub.Tally{
		Started: now.Started - before.Started, Implemented: now.Implemented - before.Implemented, Verified: now.Verified - before.Verified,
		Bytes: now.Bytes - before.Bytes,
	})
}

// What a row of contract_versions stands for.
const (
	standingHistory    = "history"
	standingSuperseded = "superseded"
	standingLost       = "lost"
)

func (r *reader) Versions(project hub.ProjectID, id hub.ContractID) (history, conflicts []hub.ContractVersion, err error) {
	q := r.c.query(stmtVersions)
	q.text(string(project))
	q.text(string(id))
	for q.next() {
		v := hub.ContractVersion{
			Version: q.s.ColumnInt(0), ProposedBy: hub.RepoID(q.s.ColumnText(2)), At: columnInstant(q.s, 3), ChangeNotes: q.s.ColumnText(4),
			Content: columnJSON(q.s, 5),
		}
		switch q.s.ColumnText(1) {
		case standingHistory:
			history = append(history, v)
		case standingSuperseded:
			v.Superseded = true
			fallthrough
		default:
			conflicts = append(conflicts, v)
		}
	}
	slices.SortStableFunc(conflicts, func(a, b hub.ContractVersion) int {
		if a.Version != b.Version {
			return b.Version - a.Version
		}
		return b.At.Compare(a.At)
	})
	return history, conflicts, engineError("sqlite.Versions", q.done())
}

func (t *tx) AddVersion(project hub.ProjectID, id hub.ContractID, v hub.ContractVersion) error {
	const op = "sqlite.AddVersion"
	if err := t.addVersion(op, project, id, v, standingHistory); err != nil {
		return err
	}
	return t.countUp(op, project, hub.Tally{Bytes: int64(len(v.Content))})
}

func (t *tx) addVersion(op string, project hub.ProjectID, id hub.ContractID, v hub.ContractVersion, standing string) error {
	q := t.c.query(stmtAddVersion)
	q.text(string(project))
	q.text(string(id))
	q.int(int64(v.Version))
	q.text(hub.ContentHash(v.Content))
	q.text(standing)
	q.text(string(v.ProposedBy))
	q.int(v.At.Micro())
	q.some(v.ChangeNotes)
	q.text(string(v.Content))
	_, err := t.change(op, &q)
	return err
}

// addVersions stores History and Conflicts of a contract that has neither.
func (t *tx) addVersions(op string, c hub.Contract) error {
	bytes := int64(0)
	add := func(v hub.ContractVersion, standing string) error {
		bytes += int64(len(v.Content))
		return t.addVersion(op, c.Project, c.ID, v, standing)
	}
	for _, v := range c.History {
		if err := add(v, standingHistory); err != nil {
			return err
		}
	}
	for _, v := range c.Conflicts {
		standing := standingLost
		if v.Superseded {
			standing = standingSuperseded
		}
		if err := add(v, standing); err != nil {
			return err
		}
	}
	return t.countUp(op, c.Project, hub.Tally{Bytes: bytes})
}

func (t *tx) PutVersions(c hub.Contract) error {
	const op = "sqlite.PutVersions"
	history, conflicts, err := t.Versions(c.Project, c.ID)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, v := range slices.Concat(history, conflicts) {
		bytes -= int64(len(v.Content))
	}
	q := t.c.query(stmtDropVersions)
	q.text(string(c.Project))
	q.text(string(c.ID))
	if _, err = t.change(op, &q); err == nil {
		err = t.addVersions(op, c)
	}
	if err == nil {
		err = t.countUp(op, c.Project, hub.Tally{Bytes: bytes})
	}
	if err == nil {
		q := t.c.query(stmtPutConflicted)
		q.text(string(c.Project))
		q.text(string(c.ID))
		q.int(boolInt(len(c.Conflicts) > 0))
		_, err = t.change(op, &q)
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

// scanPacket reads a row of packetHead.
func scanPacket(s *sqlite3.Stmt) (hub.Packet, error) {
	p := hub.Packet{
		Project: hub.ProjectID(s.ColumnText(0)), ID: hub.PacketID(s.ColumnText(1)), FromRepo: hub.RepoID(s.ColumnText(2)), FromAgent: hub.AID(s.ColumnText(3)),
		At: columnInstant(s, 4), Type: hub.ContextType(s.ColumnText(5)), ReplyTo: hub.PacketID(s.ColumnText(6)), Content: columnJSON(s, 8),
	}
	if b := s.ColumnRawText(7); len(b) > 0 {
		if err := json.Unmarshal(b, &p.Related); err != nil {
			return p, hub.Errorf(hub.CodeDegraded, "sqlite.Packet", "packet %s is broken: %v", p.ID, err)
		}
	}
	return p, nil
}

func (r *reader) Packet(project hub.ProjectID, id hub.PacketID) (hub.Packet, error) {
	q := r.c.query(stmtPacket)
	q.text(string(project))
	q.text(string(id))
	return one("sqlite.Packet", "packet", string(id), &q, scanPacket)
}

func (r *reader) Packets(f hub.PacketQuery) (hub.PacketPage, error) {
	const op = "sqlite.Packets"
	id, at, after := stmtPacketsUp, int64(-1), ""
	if f.Newest {
		id, at = stmtPacketsDown, math.MaxInt64
	}
	if f.ReplyTo != "" {
		id, at = stmtReplies, -1
	}
	if f.Cursor != "" {
		text, rest, ok := strings.Cut(f.Cursor, " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return hub.PacketPage{}, hub.Errorf(hub.CodeInvalid, op, "cursor: not one that a page gave")
		}
		at, after = n, rest
	}
	limit := max(f.Limit, 0)
	q := r.c.query(id)
	q.text(string(f.Project))
	q.some(string(f.Type))
	if f.Contract == "" {
		q.null()
	} else {
		q.text(`"` + string(f.Contract) + `"`)
	}
	q.int(f.Since.Micro())
	q.int(at)
	q.text(after)
	q.int(int64(limit) + 1) // one more tells whether there are more
	if f.ReplyTo != "" {
		q.text(string(f.ReplyTo))
	}
	all, err := collect(op, &q, scanPacket)
	if err != nil {
		return hub.PacketPage{}, err
	}
	page := hub.PacketPage{Packets: all}
	if len(all) > limit {
		page.Packets = all[:limit]
		if limit > 0 {
			last := all[limit-1]
			page.Next = strconv.FormatInt(last.At.Micro(), 10) + " " + string(last.ID)
		}
	}
	return page, nil
}

func (r *reader) PacketIDs(project hub.ProjectID, after hub.PacketID, limit int) ([]hub.PacketID, error) {
	at := int64(-1)
	if after != "" {
		last, err := r.Packet(project, after)
		if err != nil {
			return nil, err
		}
		at = last.At.Micro()
	}
	q := r.c.query(stmtPacketIDs)
	q.text(string(project))
	q.int(at)
	q.text(string(after))
	q.int(int64(max(limit, 0)))
	return collect("sqlite.PacketIDs", &q, func(s *sqlite3.Stmt) (hub.PacketID, error) { return hub.PacketID(s.ColumnText(0)), nil })
}

func (t *tx) AddPacket(p hub.Packet) error {
	const op = "sqlite.AddPacket"
	if _, err := t.putPacket(op, stmtAddPacket, p); err != nil {
		if hub.CodeOf(err) == hub.CodeConflict {
			return hub.Errorf(hub.CodeConflict, op, "there is a packet %s already", p.ID)
		}
		return err
	}
	return t.countUp(op, p.Project, hub.Tally{Packets: 1, Bytes: int64(len(p.Content))})
}

func (t *tx) PutPacket(p hub.Packet) error {
	const op = "sqlite.PutPacket"
	was, err := t.Packet(p.Project, p.ID)
	if err != nil {
		return err
	}
	if _, err := t.putPacket(op, stmtPutPacket, p); err != nil {
		return err
	}
	return t.countUp(op, p.Project, hub.Tally{Bytes: int64(len(p.Content) - len(was.Content))})
}

func (t *tx) putPacket(op string, id stmtID, p hub.Packet) (int64, error) {
	related := ""
	if len(p.Related) > 0 {
		var err error
		if related, err = encodeJSON(p.Related); err != nil {
			return 0, engineError(op, err)
		}
	}
	q := t.c.query(id)
	q.text(string(p.Project))
	q.text(string(p.ID))
	q.text(string(p.FromRepo))
	q.text(string(p.FromAgent))
	q.int(p.At.Micro())
	q.text(string(p.Type))
	q.some(string(p.ReplyTo))
	q.some(related)
	q.text(string(p.Content))
	return t.change(op, &q)
}

// scanRequest reads a row of requestHead.
func scanRequest(s *sqlite3.Stmt) (hub.FileRequest, error) {
	return hub.FileRequest{
		Project: hub.ProjectID(s.ColumnText(0)), ID: s.ColumnText(1), FromRepo: hub.RepoID(s.ColumnText(2)), FromAgent: hub.AID(s.ColumnText(3)),
		Description: s.ColumnText(4), Format: s.ColumnText(5), At: columnInstant(s, 6), FulfilledAt: columnInstant(s, 7), File: s.ColumnText(8),
	}, nil
}

func (r *reader) FileRequest(project hub.ProjectID, id string) (hub.FileRequest, error) {
	q := r.c.query(stmtFileRequest)
	q.text(string(project))
	q.text(id)
	return one("sqlite.FileRequest", "request for a file", id, &q, scanRequest)
}

func (r *reader) FileRequests(project hub.ProjectID, limit int) ([]hub.FileRequest, error) {
	q := r.c.query(stmtFileRequests)
	q.text(string(project))
	q.int(int64(max(limit, 0)))
	return collect("sqlite.FileRequests", &q, scanRequest)
}

func (t *tx) AddFileRequest(r hub.FileRequest) error {
	q := t.c.query(stmtAddFileRequest)
	q.text(string(r.Project))
	q.text(r.ID)
	q.text(string(r.FromRepo))
	q.text(string(r.FromAgent))
	q.text(r.Description)
	q.some(r.Format)
	q.int(r.At.Micro())
	q.instant(r.FulfilledAt)
	q.some(r.File)
	_, err := t.change("sqlite.AddFileRequest", &q)
	return err
}

func (t *tx) PutFileRequest(r hub.FileRequest) error {
	const op = "sqlite.PutFileRequest"
	q := t.c.query(stmtPutFileRequest)
	q.text(string(r.Project))
	q.text(r.ID)
	q.instant(r.FulfilledAt)
	q.some(r.File)
	n, err := t.change(op, &q)
	if err == nil && n == 0 {
		return notFound(op, "request for a file", r.ID)
	}
	return err
}
