package rows

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub/coord"
)

// Sums are kept on write: PutPacket counts a packet into its bucket, and the sums of
// contracts follow at the end of the function that changed them, once for each, because
// a new version is two writes. The sum of a contract needs the hashes of its versions,
// which are stored, and not their contents. The invariant after every commit: each
// contract has its sum, and the counts of a project's sums are those of its tally.

// contractsPart is the part of a project's sums that stands for its contracts.
const contractsPart = 256

// sumsAtOnce is the number of things that FillSums reads at a time.
const sumsAtOnce = 256

var (
	contractSum     = statement(`SELECT sum FROM contract_sums WHERE project = ?1 AND id = ?2`)
	contractSums    = statement(`SELECT id, sum FROM contract_sums WHERE project = ?1 AND id > ?2 ORDER BY id LIMIT ?3`)
	putContractSum  = statement(`INSERT INTO contract_sums (project, id, sum) VALUES (?1, ?2, ?3) ON CONFLICT (project, id) DO UPDATE SET sum = ?3`)
	projectSums     = statement(`SELECT part, count, sum FROM project_sums WHERE project = ?1 ORDER BY part`)
	projectSum      = statement(`SELECT count, sum FROM project_sums WHERE project = ?1 AND part = ?2`)
	putProjectSum   = statement(`INSERT INTO project_sums (project, part, count, sum) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (project, part) DO UPDATE SET count = ?3, sum = ?4`)
	versionHashesOf = statement(`SELECT version, sha256, standing, proposed_by, at, change_notes FROM contract_versions WHERE project = ?1 AND contract = ?2 ORDER BY version, sha256`)

	dropContractSums = statement(`DELETE FROM contract_sums WHERE project = ?1`)
	dropProjectSums  = statement(`DELETE FROM project_sums WHERE project = ?1`)
	projectsUnsummed = statement(`SELECT id FROM projects AS p WHERE id > ?1
		AND (contracts <> coalesce((SELECT count FROM project_sums WHERE project = p.id AND part = 256), 0)
			OR packets <> coalesce((SELECT sum(count) FROM project_sums WHERE project = p.id AND part < 256), 0))
		ORDER BY id LIMIT 1`)
)

// A contractKey names a contract on this hub.
type contractKey struct {
	project coord.ProjectID
	id      coord.ContractID
}

func (r *reader) ContractSums(project coord.ProjectID, after coord.ContractID, limit int) (all []coord.ContractSum, err error) {
	q := r.query(contractSums)
	q.bind(string(project), string(after), max(limit, 0))
	for q.next() {
		all = append(all, coord.ContractSum{ID: coord.ContractID(q.s.ColumnText(0)), Sum: q.s.ColumnText(1)})
	}
	return all, engineError("store.ContractSums", q.done())
}

func (r *reader) Sums(project coord.ProjectID) (sums coord.Sums, err error) {
	sums.Buckets = []coord.PacketBucket{}
	q := r.query(projectSums)
	q.text(string(project))
	for q.next() {
		if part := int(q.s.ColumnInt64(0)); part == contractsPart {
			sums.Contracts = q.s.ColumnText(2)
		} else {
			sums.Buckets = append(sums.Buckets, coord.PacketBucket{N: part, Count: int(q.s.ColumnInt64(1)), Sum: q.s.ColumnText(2)})
		}
	}
	return sums, engineError("store.Sums", q.done())
}

// toggle adds things to a part of a project's sums, or takes them away if they are
// part of it. by is added to its count.
func (t *tx) toggle(project coord.ProjectID, part, by int, things ...string) error {
	const op = "store.Sums"
	q := t.query(projectSum)
	q.bind(string(project), part)
	var sum string
	if q.next() {
		by, sum = by+int(q.s.ColumnInt64(0)), q.s.ColumnText(1)
	}
	err := engineError(op, q.done())
	for _, thing := range things {
		sum = coord.ToggleSum(sum, thing)
	}
	if err == nil {
		_, err = t.run(op, putProjectSum, string(project), part, by, sum)
	}
	if err != nil {
		t.spoil(err)
	}
	return err
}

// summed is a contract with its sum, as the sum of its project has it.
func summed(id coord.ContractID, sum string) string { return string(id) + " " + sum }

// changedContract notes that the sum of a contract follows. head may be nil.
func (t *tx) changedContract(project coord.ProjectID, id coord.ContractID, head *coord.Contract) {
	if t.unsummed == nil {
		t.unsummed = map[contractKey]*coord.Contract{}
	}
	if key := (contractKey{project, id}); head != nil || t.unsummed[key] == nil {
		t.unsummed[key] = head
	}
}

// sumContracts stores the sums of the contracts that the function at hand changed.
func (t *tx) sumContracts() error {
	for _, key := range slices.SortedFunc(maps.Keys(t.unsummed), func(a, b contractKey) int {
		return cmp.Or(cmp.Compare(a.project, b.project), cmp.Compare(a.id, b.id))
	}) {
		if err := t.sumContract(key, t.unsummed[key]); err != nil {
			return err
		}
	}
	clear(t.unsummed)
	return nil
}

func (t *tx) sumContract(key contractKey, head *coord.Contract) error {
	const op = "store.Sums"
	if head == nil {
		c, err := t.Contract(key.project, key.id)
		if err != nil {
			return err
		}
		head = &c
	}

	c := *head
	var err error
	if c.History, c.Conflicts, err = t.versionHashes(key.project, key.id); err != nil {
		return err
	}

	q := t.query(contractSum)
	q.bind(string(key.project), string(key.id))
	sum, was := c.Sum(), ""
	if q.next() {
		was = q.s.ColumnText(0)
	}
	if err := q.done(); err != nil || sum == was {
		return engineError(op, err)
	}

	// A new contract is added to the sum of the project; a changed one replaces its old sum.
	if _, err := t.run(op, putContractSum, string(key.project), string(key.id), sum); err != nil {
		return err
	}
	if was == "" {
		return t.toggle(key.project, contractsPart, 1, summed(key.id, sum))
	}
	return t.toggle(key.project, contractsPart, 0, summed(key.id, was), summed(key.id, sum))
}

// versionHashes returns the versions of a contract with hashes in place of contents.
func (r *reader) versionHashes(project coord.ProjectID, id coord.ContractID) (history, conflicts []coord.ContractVersion, err error) {
	q := r.query(versionHashesOf)
	q.bind(string(project), string(id))
	var all []contractVersion
	for q.next() {
		v := contractVersion{standing: q.s.ColumnText(2), ContractVersion: coord.ContractVersion{
			Version: int(q.s.ColumnInt64(0)), Content: json.RawMessage(`"` + q.s.ColumnText(1) + `"`), ProposedBy: coord.RepoID(q.s.ColumnText(3)),
			At: coord.InstantMicro(q.s.ColumnInt64(4)), ChangeNotes: q.s.ColumnText(5),
		}}
		all = append(all, v)
	}
	history, conflicts = sortVersions(all)
	return history, conflicts, engineError("store.Sums", q.done())
}

// FillSums makes the sums of projects whose sums do not count all that they hold:
// those of a database that an older release made, or that was loaded from a dump.
func (t *tx) FillSums() error {
	for after := ""; ; {
		q := t.query(projectsUnsummed)
		q.text(after)
		found := q.next()
		if found {
			after = q.s.ColumnText(0)
		}
		if err := q.done(); err != nil || !found {
			return err
		}
		if err := t.fillProjectSums(coord.ProjectID(after)); err != nil {
			return err
		}
	}
}

func (t *tx) fillProjectSums(id coord.ProjectID) error {
	const op = "store.Sums"

	// The old sums are dropped, and every contract and packet is counted anew.
	for _, drop := range []StmtID{dropContractSums, dropProjectSums} {
		if _, err := t.run(op, drop, string(id)); err != nil {
			return err
		}
	}

	for last, more := coord.ContractID(""), true; more; {
		page, err := t.Contracts(coord.ContractQuery{Project: id, After: last, Limit: sumsAtOnce})
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := t.sumContract(contractKey{id, c.ID}, &c); err != nil {
				return err
			}
			last = c.ID
		}
		more = len(page) == sumsAtOnce
	}

	for last, more := coord.PacketID(""), true; more; {
		page, err := t.PacketIDs(id, last, sumsAtOnce)
		if err != nil {
			return err
		}
		for _, packet := range page {
			if err := t.toggle(id, packet.Bucket(), 1, string(packet)); err != nil {
				return err
			}
			last = packet
		}
		more = len(page) == sumsAtOnce
	}
	return nil
}
