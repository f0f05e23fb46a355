package rows

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// maxRepoLists bounds how many decoded lists of repositories a reader
// remembers.
const maxRepoLists = 64

// repos decodes stored repositories. Every change in a project reads them, and
// they seldom change; the list is shared and must not be written to.
func (r *reader) repos(b []byte) ([]coord.Repo, error) {
	if list, ok := r.repoLists[string(b)]; ok {
		return list, nil
	}
	var list []coord.Repo
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(r.repoLists) >= maxRepoLists {
		clear(r.repoLists)
	}
	r.repoLists[string(b)] = slices.Clip(list)
	return slices.Clip(list), nil
}

var projects = newTable("projects", "project", "id, name, objective, status, policy, repos_json, created_at, updated_at, owner, stamps_json, breaking, environments_json", func(c *codec, p *coord.Project) {
	c.text((*string)(&p.ID))
	c.text(&p.Name)
	c.text(&p.Objective)
	c.text((*string)(&p.Status))
	c.text((*string)(&p.Policy))
	if c.q != nil {
		repos := slices.Concat([]coord.Repo{}, p.Repos) // never stored as null
		c.encoded(&repos, false)
	} else {
		p.Repos, c.err = c.r.repos(c.s.ColumnRawText(c.n))
		c.n++
	}
	c.moment(&p.CreatedAt)
	c.moment(&p.UpdatedAt)
	c.text((*string)(&p.Owner))
	c.encoded(&p.Stamps, p.Stamps.IsZero())
	c.optional((*string)(&p.Breaking))
	c.encoded(&p.Environments, len(p.Environments) == 0)
})

// talliedProjects reads projects with their tally, which follows the rows of the
// other tables and is not written with the project.
var talliedProjects = &table[coord.Project]{
	name: projects.name, noun: projects.noun,
	columns: slices.Concat(projects.columns, []string{"contracts", "started", "implemented", "verified", "packets", "bytes"}),
	fields: func(c *codec, p *coord.Project) {
		projects.fields(c, p)
		for _, n := range []*int{&p.Tally.Contracts, &p.Tally.Started, &p.Tally.Implemented, &p.Tally.Verified, &p.Tally.Packets} {
			c.int(n)
		}
		c.int64(&p.Tally.Bytes)
	},
}

var contracts = newTable("contracts", "contract", "project, id, type, name, version, status, proposed_by, created_at, updated_at, reopened_at, "+
	"implementations_json, agreements_json, content_json, stamps_json, terms_json", func(c *codec, v *coord.Contract) {
	c.text((*string)(&v.Project))
	c.text((*string)(&v.ID))
	c.text((*string)(&v.Type))
	c.text(&v.Name)
	c.int(&v.Version)
	c.text((*string)(&v.Status))
	c.text((*string)(&v.ProposedBy))
	c.moment(&v.CreatedAt)
	c.moment(&v.UpdatedAt)
	c.instant(&v.ReopenedAt)
	c.encoded(&v.Implementations, len(v.Implementations) == 0)
	c.encoded(&v.Agreements, len(v.Agreements) == 0)
	c.json(&v.Content)
	c.encoded(&v.Stamps, v.Stamps.IsZero())
	c.encoded(&v.Terms, v.Terms.IsZero())
})

// A contractVersion is a content that a contract had.
type contractVersion struct {
	coord.ContractVersion
	project, contract, hash, standing string
}

// The standings of a version: part of the history, lost against another content
// of the same version, or lost and replaced by a later version.
const (
	standingHistory    = "history"
	standingSuperseded = "superseded"
	standingLost       = "lost"
)

var versions = newTable("contract_versions", "version of a contract", "project, contract, version, sha256, standing, proposed_by, at, change_notes, content_json",
	func(c *codec, v *contractVersion) {
		c.text(&v.project)
		c.text(&v.contract)
		c.int(&v.Version)
		c.text(&v.hash)
		c.text(&v.standing)
		c.text((*string)(&v.ProposedBy))
		c.moment(&v.At)
		c.optional(&v.ChangeNotes)
		c.json(&v.Content)
	})

var packets = newTable("packets", "packet", "project, id, from_repo, from_agent, at, type, reply_to, related_json, content_json", func(c *codec, p *coord.Packet) {
	c.text((*string)(&p.Project))
	c.text((*string)(&p.ID))
	c.text((*string)(&p.FromRepo))
	c.text((*string)(&p.FromAgent))
	c.moment(&p.At)
	c.text((*string)(&p.Type))
	c.optional((*string)(&p.ReplyTo))
	c.encoded(&p.Related, len(p.Related) == 0)
	c.json(&p.Content)
})

var fileRequests = newTable("file_requests", "request for a file", "project, id, from_repo, from_agent, description, format, at, fulfilled_at, file",
	func(c *codec, r *coord.FileRequest) {
		c.text((*string)(&r.Project))
		c.text(&r.ID)
		c.text((*string)(&r.FromRepo))
		c.text((*string)(&r.FromAgent))
		c.text(&r.Description)
		c.optional(&r.Format)
		c.moment(&r.At)
		c.instant(&r.FulfilledAt)
		c.optional(&r.File)
	})

var (
	projectByID   = talliedProjects.query(`WHERE id = ?1`)
	projectsAfter = talliedProjects.query(`WHERE id > ?1 ORDER BY id LIMIT ?2`)
	putProject    = projects.update(1, "name", "")
	countUp       = statement(`UPDATE projects SET contracts = contracts + ?2, started = started + ?3, implemented = implemented + ?4,
		verified = verified + ?5, packets = packets + ?6, bytes = bytes + ?7 WHERE id = ?1`)

	contractByID  = contracts.query(`WHERE project = ?1 AND id = ?2`)
	putContract   = contracts.update(2, "type", ` AND version = ?16 AND updated_at = ?17`)
	putConflicted = statement(`UPDATE contracts SET conflicted = CASE WHEN ?3 = 1 OR EXISTS (
		SELECT 1 FROM contract_versions AS v WHERE v.project = ?1 AND v.contract = ?2 AND v.standing <> 'history') THEN 1 ELSE 0 END WHERE project = ?1 AND id = ?2`)

	versionsOf     = versions.query(`WHERE project = ?1 AND contract = ?2 ORDER BY version, sha256`)
	replaceVersion = statement(`INSERT INTO contract_versions (project, contract, version, sha256, standing, proposed_by, at, change_notes, content_json)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (project, contract, version, sha256)
		DO UPDATE SET standing = ?5, proposed_by = ?6, at = ?7, change_notes = ?8, content_json = ?9`)
	dropVersions = statement(`DELETE FROM contract_versions WHERE project = ?1 AND contract = ?2`)

	packetByID = packets.query(`WHERE project = ?1 AND id = ?2`)
	packetIDs  = statementIn(func(d Dialect) string {
		return `SELECT id FROM packets` + d.indexedBy("packets_at") + ` WHERE project = ?1 AND (at, id) > (?2, ?3) ORDER BY at, id LIMIT ?4`
	})
	putPacket = packets.update(2, "from_repo", "")

	fileRequestByID = fileRequests.query(`WHERE project = ?1 AND id = ?2`)
	fileRequestsOf  = fileRequests.query(`WHERE project = ?1 ORDER BY id DESC LIMIT ?2`)
	fulfilRequest   = fileRequests.update(2, "fulfilled_at", ` AND fulfilled_at IS NULL`)
)

func (r *reader) Project(id coord.ProjectID) (coord.Project, error) {
	return talliedProjects.one(r, string(id), projectByID, string(id))
}

func (r *reader) Projects(after coord.ProjectID, limit int) ([]coord.Project, error) {
	return talliedProjects.all(r, projectsAfter, string(after), max(limit, 0))
}

func (t *tx) PutProject(p, was coord.Project) error {
	if was.ID == "" {
		return projects.add(t, string(p.ID), &p)
	}
	stored, err := t.Project(p.ID)
	if err := unchanged(projects, string(p.ID), err, &stored, &was); err != nil {
		return err
	}
	_, err = projects.write(t, putProject, &p)
	return err
}

// unchanged reports CodeConflict unless the stored noun, as it was read with err,
// is the one that the caller believes in.
func unchanged[T any](t *table[T], name string, err error, stored, was *T) error {
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	is, _ := encodeJSON(stored) // stored or decoded before: cannot fail
	believed, _ := encodeJSON(was)
	if err != nil || is != believed {
		return hub.Errorf(hub.CodeConflict, t.op(), "%s %s has changed in the meantime or does not exist", t.noun, name)
	}
	return nil
}

// countUp adds to the tally of a project. Something is stored already when it
// is called, so that an error spoils the function at hand.
func (t *tx) countUp(id coord.ProjectID, by coord.Tally) error {
	if by == (coord.Tally{}) {
		return nil
	}
	n, err := t.run(projects.op(), countUp, string(id), by.Contracts, by.Started, by.Implemented, by.Verified, by.Packets, by.Bytes)
	if err == nil && n == 0 {
		err = notFound(projects.op(), projects.noun, string(id))
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

func (r *reader) Contract(project coord.ProjectID, id coord.ContractID) (coord.Contract, error) {
	return contracts.one(r, string(id), contractByID, string(project), string(id))
}

func (r *reader) Contracts(f coord.ContractQuery) ([]coord.Contract, error) {
	var w filter
	w.add("project = ?", string(f.Project))
	w.add("id > ?", string(f.After))
	w.equal("status", string(f.Status))
	w.equal("type", string(f.Type))
	w.equal("name", f.Name)
	if f.Conflicted {
		w.add("conflicted = 1")
	}
	return contracts.filtered(r, w, `ORDER BY id`, f.Limit)
}

func (t *tx) PutContract(c, was coord.Contract) error {
	if was.Version == 0 {
		return t.addContract(c)
	}
	if err := contracts.put(t, string(c.ID), putContract, &c, was.Version, was.UpdatedAt.Micro()); err != nil {
		return err
	}
	t.changedContract(c.Project, c.ID, &c)
	if !c.Stamps.Equal(was.Stamps) {
		if err := t.putConflicted(c); err != nil {
			return err
		}
	}
	now, before := c.Tally(), was.Tally()
	return t.countUp(c.Project, coord.Tally{
		Started: now.Started - before.Started, Implemented: now.Implemented - before.Implemented, Verified: now.Verified - before.Verified,
		Bytes: now.Bytes - before.Bytes,
	})
}

// putConflicted stores whether a contract has contents or moves that lost.
func (t *tx) putConflicted(c coord.Contract) error {
	_, err := t.run(contracts.op(), putConflicted, string(c.Project), string(c.ID), len(c.Stamps.Lost()) > 0)
	if err != nil {
		t.spoil(err)
	}
	return err
}

// addContract stores a new contract with its versions.
func (t *tx) addContract(c coord.Contract) error {
	err := contracts.add(t, string(c.ID), &c)
	if err == nil {
		t.changedContract(c.Project, c.ID, &c)
		err = t.countUp(c.Project, c.Tally())
	}
	if err == nil {
		err = t.addVersions(c)
	}
	return err
}

func (r *reader) Versions(project coord.ProjectID, id coord.ContractID) (history, conflicts []coord.ContractVersion, err error) {
	all, err := versions.all(r, versionsOf, string(project), string(id))
	history, conflicts = sortVersions(all)
	return history, conflicts, err
}

// sortVersions returns the earlier versions among all, oldest first, and those that
// lost, newest version first.
func sortVersions(all []contractVersion) (history, conflicts []coord.ContractVersion) {
	for _, v := range all {
		if v.standing == standingHistory {
			history = append(history, v.ContractVersion)
			continue
		}
		v.Superseded = v.standing == standingSuperseded
		conflicts = append(conflicts, v.ContractVersion)
	}
	slices.SortStableFunc(conflicts, func(a, b coord.ContractVersion) int {
		if a.Version != b.Version {
			return b.Version - a.Version
		}
		return b.At.Compare(a.At)
	})
	return history, conflicts
}

func (t *tx) AddVersion(project coord.ProjectID, id coord.ContractID, v coord.ContractVersion) error {
	if err := t.addVersion(project, id, v, standingHistory); err != nil {
		return err
	}
	t.changedContract(project, id, nil)
	return t.countUp(project, coord.Tally{Bytes: int64(len(v.Content))})
}

func (t *tx) addVersion(project coord.ProjectID, id coord.ContractID, v coord.ContractVersion, standing string) error {
	_, err := versions.write(t, replaceVersion, &contractVersion{v, string(project), string(id), coord.ContentHash(v.Content), standing})
	return err
}

// addVersions stores History and Conflicts of a contract that has neither.
func (t *tx) addVersions(c coord.Contract) error {
	bytes := int64(0)
	add := func(v coord.ContractVersion, standing string) error {
		bytes += int64(len(v.Content))
		return t.addVersion(c.Project, c.ID, v, standing)
	}

	var err error
	for _, v := range c.History {
		if err == nil {
			err = add(v, standingHistory)
		}
	}

	for _, v := range c.Conflicts {
		standing := standingLost
		if v.Superseded {
			standing = standingSuperseded
		}
		if err == nil {
			err = add(v, standing)
		}
	}

	// Some versions may be stored already, so that the transaction must not be committed.
	if err != nil {
		t.spoil(err)
		return err
	}

	if err := t.putConflicted(c); err != nil {
		return err
	}
	return t.countUp(c.Project, coord.Tally{Bytes: bytes})
}

func (t *tx) PutVersions(c coord.Contract) error {
	history, conflicts, err := t.Versions(c.Project, c.ID)
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, v := range slices.Concat(history, conflicts) {
		bytes -= int64(len(v.Content))
	}
	if _, err := t.run(versions.op(), dropVersions, string(c.Project), string(c.ID)); err != nil {
		return err
	}
	if err := t.addVersions(c); err != nil {
		return err
	}
	t.changedContract(c.Project, c.ID, nil)
	return t.countUp(c.Project, coord.Tally{Bytes: bytes})
}

func (r *reader) Packet(project coord.ProjectID, id coord.PacketID) (coord.Packet, error) {
	return packets.one(r, string(id), packetByID, string(project), string(id))
}

func (r *reader) Packets(f coord.PacketQuery) (coord.PacketPage, error) {
	var w filter
	w.add("project = ?", string(f.Project))
	w.equal("type", string(f.Type))
	if f.Contract != "" {
		w.add(r.c.Dialect().contains("related_json", "?"), `"`+string(f.Contract)+`"`)
	}
	w.equal("reply_to", string(f.ReplyTo))
	if f.Short != "" {
		w.add("substr(id, length(id) - ?) = ?", int64(len(f.Short)-1), f.Short)
	}
	if !f.Since.IsZero() {
		w.add("at >= ?", f.Since)
	}

	// A page continues behind the place of its cursor, in the order of times and ids.
	order := "ORDER BY at, id"
	at := int64(-1)
	after := ""
	compare := "(at, id) > (?, ?)"
	if f.Newest {
		order = "ORDER BY at DESC, id DESC"
		at = math.MaxInt64
		compare = "(at, id) < (?, ?)"
	}

	if f.Cursor != "" {
		text, rest, ok := strings.Cut(f.Cursor, " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if !ok || err != nil {
			return coord.PacketPage{}, hub.Errorf(hub.CodeInvalid, packets.op(), "cursor is not valid: use the cursor of the previous page")
		}
		at, after = n, rest
	}
	w.add(compare, at, after)

	limit := max(f.Limit, 0)
	all, err := packets.filtered(r, w, order, limit+1) // one more tells whether there are more
	if err != nil {
		return coord.PacketPage{}, err
	}

	page := coord.PacketPage{Packets: all}
	if len(all) > limit {
		page.Packets = all[:limit]
		if limit > 0 {
			last := all[limit-1]
			page.Next = strconv.FormatInt(last.At.Micro(), 10) + " " + string(last.ID)
		}
	}
	return page, nil
}

func (r *reader) PacketIDs(project coord.ProjectID, after coord.PacketID, limit int) (ids []coord.PacketID, err error) {
	at := int64(-1)
	if after != "" {
		last, err := r.Packet(project, after)
		if err != nil {
			return nil, err
		}
		at = last.At.Micro()
	}
	q := r.query(packetIDs)
	q.bind(string(project), at, string(after), max(limit, 0))
	for q.next() {
		ids = append(ids, coord.PacketID(q.s.ColumnText(0)))
	}
	return ids, engineError(packets.op(), q.done())
}

func (t *tx) PutPacket(p, was coord.Packet) error {
	tally := coord.Tally{Bytes: int64(len(p.Content) - len(was.Content))}
	if was.ID == "" {
		tally.Packets = 1
		if err := packets.add(t, string(p.ID), &p); err != nil {
			return err
		}
		if err := t.toggle(p.Project, p.ID.Bucket(), 1, string(p.ID)); err != nil {
			return err
		}
		return t.countUp(p.Project, tally)
	}
	stored, err := t.Packet(p.Project, p.ID)
	if err := unchanged(packets, string(p.ID), err, &stored, &was); err != nil {
		return err
	}
	if _, err := packets.write(t, putPacket, &p); err != nil {
		return err
	}
	return t.countUp(p.Project, tally)
}

func (r *reader) FileRequest(project coord.ProjectID, id string) (coord.FileRequest, error) {
	return fileRequests.one(r, id, fileRequestByID, string(project), id)
}

func (r *reader) FileRequests(project coord.ProjectID, limit int) ([]coord.FileRequest, error) {
	return fileRequests.all(r, fileRequestsOf, string(project), max(limit, 0))
}

func (t *tx) PutFileRequest(r coord.FileRequest) error {
	if r.FulfilledAt.IsZero() {
		return fileRequests.add(t, r.ID, &r)
	}
	return fileRequests.put(t, r.ID, fulfilRequest, &r)
}
