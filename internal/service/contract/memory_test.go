package contract

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A memory is a store of projects that is quick enough for thousands of
// schedules. The rules of a real one are tested where it is made.
type memory struct {
	hub.Store // everything else is not there
	state     memoryState
}

type contractKey struct {
	project coord.ProjectID
	id      coord.ContractID
}

type packetKey struct {
	project coord.ProjectID
	id      coord.PacketID
}

type memoryState struct {
	projects  map[coord.ProjectID]coord.Project
	contracts map[contractKey]coord.Contract
	packets   map[packetKey]coord.Packet
	changes   []hub.Change
	entries   []hub.Entry
}

func newMemory() *memory {
	return &memory{state: memoryState{
		projects: map[coord.ProjectID]coord.Project{}, contracts: map[contractKey]coord.Contract{}, packets: map[packetKey]coord.Packet{},
	}}
}

func (m *memory) View(_ context.Context, fn func(hub.Reader) error) error {
	return fn(&memoryTx{s: &m.state})
}

func (m *memory) Update(_ context.Context, _ hub.Durability, fn func(hub.Tx) error) error {
	s := m.state
	s.projects, s.contracts, s.packets = maps.Clone(s.projects), maps.Clone(s.contracts), maps.Clone(s.packets)
	s.changes, s.entries = slices.Clip(s.changes), slices.Clip(s.entries)
	if err := fn(&memoryTx{s: &s}); err != nil {
		return err
	}
	m.state = s
	return nil
}

// A memoryTx has what this package calls while nobody is told and no file is
// shared.
type memoryTx struct {
	hub.Tx
	coord.Reader
	coord.Writer
	s *memoryState
}

func (t *memoryTx) Coordination() coord.Reader      { return t }
func (t *memoryTx) WriteCoordination() coord.Writer { return t }

var errMissing = hub.Errorf(hub.CodeNotFound, "memory", "it is not there")

func (t *memoryTx) Project(id coord.ProjectID) (coord.Project, error) {
	p, ok := t.s.projects[id]
	if !ok {
		return p, errMissing
	}
	return p, nil
}

func (t *memoryTx) Projects(after coord.ProjectID, limit int) (all []coord.Project, _ error) {
	for _, id := range slices.Sorted(maps.Keys(t.s.projects)) {
		if id > after && len(all) < limit {
			all = append(all, t.s.projects[id])
		}
	}
	return all, nil
}

// Peer returns none: hubs of these tests are not bound by invites.
func (t *memoryTx) Peer(coord.AID) (hub.Peer, error) { return hub.Peer{}, errMissing }

// Meta returns nothing, and PutMeta stores nothing: nothing is limited in these tests.
func (t *memoryTx) Meta(string) (string, error)  { return "", errMissing }
func (t *memoryTx) PutMeta(string, string) error { return nil }

func (t *memoryTx) PutProject(p, _ coord.Project) error { t.s.projects[p.ID] = p; return nil }

func (t *memoryTx) Contract(project coord.ProjectID, id coord.ContractID) (coord.Contract, error) {
	c, ok := t.s.contracts[contractKey{project, id}]
	if !ok {
		return c, errMissing
	}
	c.History, c.Conflicts = nil, nil
	return c, nil
}

func (t *memoryTx) Contracts(q coord.ContractQuery) (all []coord.Contract, _ error) {
	for key, c := range t.s.contracts {
		if key.project == q.Project && key.id > q.After && (q.Name == "" || c.Name == q.Name) {
			c.History, c.Conflicts = nil, nil
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b coord.Contract) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), q.Limit)], nil
}

func (t *memoryTx) Versions(project coord.ProjectID, id coord.ContractID) (history, conflicts []coord.ContractVersion, _ error) {
	c := t.s.contracts[contractKey{project, id}]
	return c.History, c.Conflicts, nil
}

func (t *memoryTx) PutContract(c, was coord.Contract) error {
	key := contractKey{c.Project, c.ID}
	if is := t.s.contracts[key]; is.Version != was.Version || is.UpdatedAt != was.UpdatedAt {
		return hub.Errorf(hub.CodeConflict, "memory", "it is not as it was")
	}
	if was.Version > 0 {
		c.History, c.Conflicts = t.s.contracts[key].History, t.s.contracts[key].Conflicts
	}
	t.s.contracts[key] = c
	return nil
}

func (t *memoryTx) AddVersion(project coord.ProjectID, id coord.ContractID, v coord.ContractVersion) error {
	c := t.s.contracts[contractKey{project, id}]
	c.History = append(slices.Clip(c.History), v)
	t.s.contracts[contractKey{project, id}] = c
	return nil
}

func (t *memoryTx) PutVersions(c coord.Contract) error {
	is := t.s.contracts[contractKey{c.Project, c.ID}]
	is.History, is.Conflicts = c.History, c.Conflicts
	t.s.contracts[contractKey{c.Project, c.ID}] = is
	return nil
}

// Verdict returns none, and PutVerdict stores none: every verdict is computed.
func (t *memoryTx) Verdict(coord.ProjectID, coord.ContractID, string) (coord.StoredVerdict, error) {
	return coord.StoredVerdict{}, errMissing
}
func (t *memoryTx) PutVerdict(coord.StoredVerdict) error { return nil }

func (t *memoryTx) Packet(project coord.ProjectID, id coord.PacketID) (coord.Packet, error) {
	p, ok := t.s.packets[packetKey{project, id}]
	if !ok {
		return p, errMissing
	}
	return p, nil
}

func (t *memoryTx) PutPacket(p, _ coord.Packet) error {
	t.s.packets[packetKey{p.Project, p.ID}] = p
	return nil
}

func (t *memoryTx) Packets(q coord.PacketQuery) (page coord.PacketPage, _ error) {
	for key, p := range t.s.packets {
		if key.project == q.Project {
			page.Packets = append(page.Packets, p)
		}
	}
	slices.SortFunc(page.Packets, func(a, b coord.Packet) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return page, nil
}

func (t *memoryTx) PacketIDs(project coord.ProjectID, after coord.PacketID, _ int) (ids []coord.PacketID, _ error) {
	for key := range t.s.packets {
		if key.project == project && key.id > after {
			ids = append(ids, key.id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (t *memoryTx) Sums(project coord.ProjectID) (sums coord.Sums, _ error) {
	var buckets [256]coord.PacketBucket
	for key := range t.s.packets {
		if b := &buckets[key.id.Bucket()]; key.project == project {
			b.N, b.Count, b.Sum = key.id.Bucket(), b.Count+1, coord.ToggleSum(b.Sum, string(key.id))
		}
	}
	sums.Buckets = slices.DeleteFunc(buckets[:], func(b coord.PacketBucket) bool { return b.Count == 0 })
	return sums, nil
}

func (t *memoryTx) ContractSums(project coord.ProjectID, after coord.ContractID, _ int) (all []coord.ContractSum, _ error) {
	for key, c := range t.s.contracts {
		if key.project == project && key.id > after {
			all = append(all, coord.ContractSum{ID: key.id, Sum: c.Sum()})
		}
	}
	slices.SortFunc(all, func(a, b coord.ContractSum) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func (t *memoryTx) AddChange(c hub.Change) error {
	c.Seq = int64(len(t.s.changes)) + 1
	t.s.changes = append(t.s.changes, c)
	return nil
}

func (t *memoryTx) Changes(seq int64, limit int) ([]hub.Change, error) {
	rest := t.s.changes[min(int(seq), len(t.s.changes)):]
	return rest[:min(len(rest), limit)], nil
}

func (t *memoryTx) Append(e hub.Entry) (hub.Entry, error) {
	e.Seq = int64(len(t.s.entries)) + 1
	t.s.entries = append(t.s.entries, e)
	return e, nil
}

func (t *memoryTx) Journal(q hub.JournalQuery) ([]hub.Entry, error) {
	rest := t.s.entries[min(int(q.After), len(t.s.entries)):]
	return rest[:min(len(rest), q.Limit)], nil
}
