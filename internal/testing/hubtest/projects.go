package hubtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// at returns the n-th microsecond of a day.
func at(n int) coord.Instant {
	return coord.InstantAt(time.Date(2026, 3, 2, 0, 0, 0, n*1000, time.UTC))
}

// project stores a project with two repositories.
func (w *world) project(id coord.ProjectID) coord.Project {
	w.Helper()
	p := coord.Project{
		ID: id, Name: "Sign in", Objective: "One way in", Status: coord.ProjectPlanning, Policy: coord.AgreeAny, Breaking: "sunset 2026-12-31", Environments: []coord.Environment{{Name: "prod", At: at(2), Removed: true}}, CreatedAt: at(1), UpdatedAt: at(2),
		Stamps: coord.Stamps{Writes: []coord.Stamp{{Member: coord.MemberPolicy, Value: "any", At: at(2), By: "h"}}, Seen: map[coord.AID]coord.Instant{"h": at(2)}},
		Repos: []coord.Repo{
			{ID: "r1", Name: "back", Role: "backend", Language: "go", Paths: []string{"api/"}, URL: "https://x/<a>", Agent: "aid://a/b@1.0.0", Endpoint: "http://h", ClaimedAt: at(1), UpdatedAt: at(2)},
			{ID: "r2", Name: "front", Role: "frontend", Language: "typescript", Paths: []string{}},
		},
	}
	w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(p, coord.Project{}) })
	return p
}

// fullContract returns a contract with everything that it can have.
func fullContract(project coord.ProjectID, id coord.ContractID) coord.Contract {
	return coord.Contract{
		Project: project, ID: id, Type: coord.ContractAPI, Name: "Profile", Version: 3, Status: coord.ContractAgreed, Content: json.RawMessage(`{"path":"/<me>&","n":1.0}`),
		ProposedBy: "r1", CreatedAt: at(3), UpdatedAt: at(9), ReopenedAt: at(4),
		Stamps:          coord.Stamps{Writes: []coord.Stamp{{Member: coord.MemberStatus, Value: "agreed", Version: 3, At: at(9), By: "h"}}, Seen: map[coord.AID]coord.Instant{"h": at(9), "g": at(1)}},
		Implementations: []coord.Implementation{{Repo: "r1", Agent: "a", Status: coord.ImplInProgress, Plan: "p", Files: []string{"x.go"}, Notes: "n", StartedAt: at(8), Version: 3}},
		Agreements:      []coord.Agreement{{Repo: "r2", Agent: "b", Version: 3, Content: "h", At: at(7)}},
		Terms: coord.Terms{
			Format: "shape", Direction: "both", Provider: "r1", WrittenAt: at(3),
			Uses:     []coord.Use{{Repo: "r2", Parts: []string{"/n"}, Source: "uses.yaml", Declared: at(4), At: at(5), Removed: true}},
			Asks:     []coord.Ask{{Version: 3, Repo: "r2", Content: "h", Needed: true, At: at(6)}},
			Ends:     []coord.Ending{{Part: "/n", Until: "2026-12-31", Withdrawn: true, At: at(7)}},
			Tests:    []coord.ContractTest{{Repo: "r1", Check: "contract-tests", At: at(6), Removed: true}},
			Handover: &coord.Handover{Provider: "r2", Direction: "response", By: "r2", At: at(8)},
			Words:    []coord.Word{{Repo: "r1", Agent: "a", Provider: "r2", Direction: "response", At: at(9)}},
			InForce:  &coord.InForce{Version: 2, Content: "h", Since: at(5), Before: 1},
		},
		History: []coord.ContractVersion{
			{Version: 1, Content: json.RawMessage(`{"v":1}`), ProposedBy: "r1", At: at(3), ChangeNotes: "first"},
			{Version: 2, Content: json.RawMessage(`{"v":2}`), ProposedBy: "r2", At: at(5)},
		},
		Conflicts: []coord.ContractVersion{
			{Version: 3, Content: json.RawMessage(`{"v":"3b"}`), ProposedBy: "r2", At: at(6)},
			{Version: 2, Content: json.RawMessage(`{"v":"2b"}`), ProposedBy: "r2", At: at(6), Superseded: true},
			{Version: 2, Content: json.RawMessage(`{"v":"2c"}`), ProposedBy: "r2", At: at(4)},
		},
	}
}

// read returns a contract with History and Conflicts.
func (w *world) read(project coord.ProjectID, id coord.ContractID) coord.Contract {
	w.Helper()
	var c coord.Contract
	w.view(func(r hub.Reader) (err error) {
		if c, err = r.Coordination().Contract(project, id); err == nil {
			c.History, c.Conflicts, err = r.Coordination().Versions(project, id)
		}
		return err
	})
	return c
}

// sums compares the sums that the store keeps with those of the contents.
func (w *world) sums(what string, id coord.ProjectID) {
	w.Helper()
	want, counts := coord.Sums{Buckets: []coord.PacketBucket{}}, map[int]coord.PacketBucket{}
	var each []coord.ContractSum

	// The contracts as they are read give the sum of each, and the sum of all.
	var contracts []coord.Contract
	w.view(func(r hub.Reader) (err error) {
		contracts, err = r.Coordination().Contracts(coord.ContractQuery{Project: id, Limit: 100})
		return err
	})
	for _, c := range contracts {
		c = w.read(id, c.ID)
		each = append(each, coord.ContractSum{ID: c.ID, Sum: c.Sum()})
		want.Contracts = coord.ToggleSum(want.Contracts, string(c.ID)+" "+c.Sum())
	}

	// Each packet counts in the bucket of its id.
	w.view(func(r hub.Reader) error {
		packets, err := r.Coordination().PacketIDs(id, "", 1000)
		for _, k := range packets {
			b := counts[k.Bucket()]
			counts[k.Bucket()] = coord.PacketBucket{N: k.Bucket(), Count: b.Count + 1, Sum: coord.ToggleSum(b.Sum, string(k))}
		}
		for _, n := range slices.Sorted(maps.Keys(counts)) {
			want.Buckets = append(want.Buckets, counts[n])
		}
		if err != nil {
			return err
		}

		got, err := r.Coordination().Sums(id)
		same(w, what, got, want)
		if err != nil {
			return err
		}

		// Pages of one contract add up to the list of all.
		var listed []coord.ContractSum
		for after, more := coord.ContractID(""), true; more && err == nil; {
			var page []coord.ContractSum
			page, err = r.Coordination().ContractSums(id, after, 1)
			if more = len(page) > 0; more {
				listed, after = append(listed, page...), page[0].ID
			}
		}
		same(w, what, listed, each)
		return err
	})
}

func (w *world) tally(id coord.ProjectID) coord.Tally {
	w.Helper()
	var p coord.Project
	w.view(func(r hub.Reader) (err error) {
		p, err = r.Coordination().Project(id)
		return err
	})
	return p.Tally
}

// same compares what was stored with what is read.
func same[T any](w *world, what string, got, want T) {
	w.Helper()
	if !reflect.DeepEqual(got, want) {
		w.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

var projectTests = []storeTest{
	{"a project comes back as it was stored, also after a restart", func(w *world) {
		want := w.project("p1")
		w.store = w.reopen()
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().Project("p1")
			same(w, "project", got, want)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Coordination().Project("p2"); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(want, coord.Project{}) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { want.ID = "p2"; return tx.WriteCoordination().PutProject(want, want) })
	}},
	{"a project is replaced only if it is still as its writer read it", func(w *world) {
		was := w.project("p")
		renamed, claimed := was, was
		renamed.Name = "Other"
		claimed.Repos = slices.Clone(was.Repos)
		claimed.Repos[1].Agent = "aid://c/d@1.0.0"
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(renamed, was) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(claimed, was) })
		was, claimed.Name = renamed, renamed.Name
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(claimed, was) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutProject(renamed, was) })
	}},
	{"projects are listed by id, page by page", func(w *world) {
		for _, id := range []coord.ProjectID{"c", "a", "b"} {
			w.project(id)
		}
		w.view(func(r hub.Reader) error {
			first, err := r.Coordination().Projects("", 2)
			if err != nil {
				return err
			}
			rest, err := r.Coordination().Projects(first[1].ID, 2)
			if len(first) != 2 || first[0].ID != "a" || first[1].ID != "b" || len(rest) != 1 || rest[0].ID != "c" {
				w.Errorf("got %v and %v", first, rest)
			}
			return err
		})
	}},
	{"a contract comes back with its versions as it was stored", func(w *world) {
		w.project("p")
		want := fullContract("p", "c")
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(want, coord.Contract{}) })
		w.store = w.reopen()
		same(w, "contract", w.read("p", "c"), want)
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(want, coord.Contract{}) })
		w.refuse(hub.CodeNotFound, func(tx hub.Tx) error {
			return tx.WriteCoordination().PutContract(fullContract("nowhere", "c"), coord.Contract{})
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Coordination().Contract("p", "x"); return err })
	}},
	{"one id may name contracts of several projects", func(w *world) {
		w.project("p")
		w.project("q")
		a, b := fullContract("p", "c"), fullContract("q", "c")
		b.Name = "Other"
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(a, coord.Contract{}) })
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(b, coord.Contract{}) })
		same(w, "first", w.read("p", "c"), a)
		same(w, "second", w.read("q", "c"), b)
	}},
	{"a contract is put only in place of what it was made from", func(w *world) {
		w.project("p")
		was := fullContract("p", "c")
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(was, coord.Contract{}) })
		next := was
		next.Version = 4
		next.Status = coord.ContractProposed
		next.UpdatedAt = at(20)
		next.Content = json.RawMessage(`{}`)
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(next, was) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(next, was) })
		stale := next
		stale.UpdatedAt = at(19)
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(next, stale) })
		same(w, "contract", w.read("p", "c"), next)
	}},
	{"versions are added, and put as a whole", func(w *world) {
		w.project("p")
		c := fullContract("p", "c")
		c.History, c.Conflicts = nil, nil
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		v := coord.ContractVersion{Version: 1, Content: json.RawMessage(`{"v":1}`), ProposedBy: "r1", At: at(3), ChangeNotes: "why"}
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().AddVersion("p", "c", v) })
		c.History = []coord.ContractVersion{v}
		same(w, "after AddVersion", w.read("p", "c"), c)
		full := fullContract("p", "c")
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutVersions(full) })
		same(w, "after PutVersions", w.read("p", "c"), full)
	}},
	{"contracts with contents that lost can be found", func(w *world) {
		w.project("p")
		for _, id := range []coord.ContractID{"a", "b", "c"} {
			c := fullContract("p", id)
			if id == "b" {
				c.Conflicts = nil
			}
			w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		}
		find := func(after coord.ContractID, limit int) (ids []coord.ContractID) {
			w.view(func(r hub.Reader) (err error) {
				found, err := r.Coordination().Contracts(coord.ContractQuery{Project: "p", Conflicted: true, After: after, Limit: limit})
				for _, c := range found {
					ids = append(ids, c.ID)
				}
				return err
			})
			return ids
		}
		same(w, "conflicted", find("", 10), []coord.ContractID{"a", "c"})
		same(w, "after the first", find("a", 10), []coord.ContractID{"c"})
		gone := fullContract("p", "a")
		gone.Conflicts = nil
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutVersions(gone) })
		same(w, "after one is solved", find("", 10), []coord.ContractID{"c"})
	}},
	{"contracts are listed by id and filtered", func(w *world) {
		w.project("p")
		for i := range 5 {
			c := fullContract("p", coord.ContractID(fmt.Sprint("c", i)))
			if i%2 == 1 {
				c.Status, c.Type = coord.ContractVerified, coord.ContractModel
			}
			w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		}
		list := func(q coord.ContractQuery) (ids []coord.ContractID) {
			q.Project = "p"
			w.view(func(r hub.Reader) error {
				found, err := r.Coordination().Contracts(q)
				for _, c := range found {
					ids = append(ids, c.ID)
				}
				return err
			})
			return ids
		}
		same(w, "all", list(coord.ContractQuery{Limit: 10}), []coord.ContractID{"c0", "c1", "c2", "c3", "c4"})
		same(w, "a page", list(coord.ContractQuery{Limit: 2, After: "c1"}), []coord.ContractID{"c2", "c3"})
		same(w, "by status", list(coord.ContractQuery{Limit: 10, Status: coord.ContractVerified}), []coord.ContractID{"c1", "c3"})
		same(w, "by type", list(coord.ContractQuery{Limit: 10, Type: coord.ContractAPI}), []coord.ContractID{"c0", "c2", "c4"})
	}},
	{"what a project holds is counted", func(w *world) {
		w.project("p")
		c := coord.Contract{Project: "p", ID: "c", Type: coord.ContractCustom, Name: "n", Version: 1, Status: coord.ContractProposed, Content: json.RawMessage(`{}`), ProposedBy: "r1", CreatedAt: at(1), UpdatedAt: at(1)}
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		same(w, "proposed", w.tally("p"), coord.Tally{Contracts: 1, Bytes: 2})
		next := c
		next.Status = coord.ContractImplemented
		next.UpdatedAt = at(2)
		next.Content = json.RawMessage(`{"ab":1}`)
		next.Implementations = []coord.Implementation{{Repo: "r1", Status: coord.ImplComplete, Files: []string{}}}
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(next, c) })
		same(w, "implemented", w.tally("p"), coord.Tally{Contracts: 1, Started: 1, Implemented: 1, Bytes: 8})
		done := next
		done.Status, done.UpdatedAt = coord.ContractVerified, at(3)
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(done, next) })
		w.update(func(tx hub.Tx) error {
			return tx.WriteCoordination().AddVersion("p", "c", coord.ContractVersion{Version: 1, Content: json.RawMessage(`{}`), ProposedBy: "r1", At: at(1)})
		})
		w.update(func(tx hub.Tx) error {
			return tx.WriteCoordination().PutPacket(coord.Packet{Project: "p", ID: "k", FromRepo: "r1", Type: coord.ContextQuestion, Content: json.RawMessage(`{"é":1}`), At: at(1)}, coord.Packet{})
		})
		same(w, "all", w.tally("p"), coord.Tally{Contracts: 1, Started: 1, Implemented: 1, Verified: 1, Packets: 1, Bytes: 8 + 2 + 8})
		done.History, done.Conflicts = nil, nil
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutVersions(done) })
		same(w, "without versions", w.tally("p").Bytes, int64(8+8))
		w.update(func(tx hub.Tx) error {
			p, err := tx.Coordination().Project("p")
			if err != nil {
				return err
			}
			was := p
			p.Name, p.Tally = "Other", coord.Tally{}
			return tx.WriteCoordination().PutProject(p, was)
		})
		same(w, "after PutProject", w.tally("p").Contracts, 1)
	}},
	{"packets come back as they were stored, and are listed by time", func(w *world) {
		w.project("p")
		full := coord.Packet{Project: "p", ID: "k2", FromRepo: "r1", FromAgent: "a", At: at(2), Type: coord.ContextDecision, Content: json.RawMessage(`{"a":"<b>"}`), Related: []coord.ContractID{"c1", "c2"}, ReplyTo: "k1"}
		packets := []coord.Packet{
			{Project: "p", ID: "k3", FromRepo: "r2", At: at(3), Type: coord.ContextQuestion, Content: json.RawMessage(`{}`), Related: []coord.ContractID{"c11"}},
			full,
			{Project: "p", ID: "k1", FromRepo: "r2", At: at(1), Type: coord.ContextQuestion, Content: json.RawMessage(`{}`)},
			{Project: "p", ID: "k0", FromRepo: "r2", At: at(3), Type: coord.ContextQuestion, Content: json.RawMessage(`{}`), ReplyTo: "k1"},
		}
		for _, p := range packets {
			w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutPacket(p, coord.Packet{}) })
		}
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutPacket(full, coord.Packet{}) })
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().Packet("p", "k2")
			same(w, "packet", got, full)
			return err
		})
		list := func(q coord.PacketQuery) (ids []coord.PacketID, next string) {
			q.Project = "p"
			w.view(func(r hub.Reader) error {
				page, err := r.Coordination().Packets(q)
				for _, p := range page.Packets {
					ids = append(ids, p.ID)
				}
				next = page.Next
				return err
			})
			return ids, next
		}
		for _, test := range []struct {
			name string
			q    coord.PacketQuery
			want []coord.PacketID
		}{
			{"oldest first", coord.PacketQuery{Limit: 9}, []coord.PacketID{"k1", "k2", "k0", "k3"}},
			{"newest first", coord.PacketQuery{Limit: 9, Newest: true}, []coord.PacketID{"k3", "k0", "k2", "k1"}},
			{"of a type", coord.PacketQuery{Limit: 9, Type: coord.ContextDecision}, []coord.PacketID{"k2"}},
			{"about a contract", coord.PacketQuery{Limit: 9, Contract: "c1"}, []coord.PacketID{"k2"}},
			{"since a time", coord.PacketQuery{Limit: 9, Since: at(2)}, []coord.PacketID{"k2", "k0", "k3"}},
			{"answers to one", coord.PacketQuery{Limit: 9, ReplyTo: "k1"}, []coord.PacketID{"k2", "k0"}},
		} {
			got, next := list(test.q)
			same(w, test.name, got, test.want)
			same(w, test.name+": next", next, "")
			for _, newest := range []bool{false, true} { // page by page it is the same
				q := test.q
				q.Limit, q.Newest = 1, newest && q.ReplyTo == ""
				whole := q
				whole.Limit = 9
				want, _ := list(whole)
				var paged []coord.PacketID
				for more := true; more; more = q.Cursor != "" {
					var ids []coord.PacketID
					ids, q.Cursor = list(q)
					paged = append(paged, ids...)
				}
				same(w, test.name+", page by page", paged, want)
			}
		}
		w.miss(hub.CodeInvalid, func(r hub.Reader) error {
			_, err := r.Coordination().Packets(coord.PacketQuery{Project: "p", Limit: 1, Cursor: "x"})
			return err
		})
		was := full
		full.Content, full.At = json.RawMessage(`{"other":true}`), at(7)
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutPacket(full, was) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutPacket(full, was) }) // replaced meanwhile
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { was.ID = "k9"; return tx.WriteCoordination().PutPacket(was, was) })
		w.view(func(r hub.Reader) error {
			got, err := r.Coordination().Packet("p", "k2")
			same(w, "after PutPacket", got, full)
			if err != nil {
				return err
			}
			ids, err := r.Coordination().PacketIDs("p", "", 2)
			if err != nil {
				return err
			}
			rest, err := r.Coordination().PacketIDs("p", ids[1], 9)
			same(w, "ids", append(ids, rest...), []coord.PacketID{"k1", "k0", "k3", "k2"})
			return err
		})
	}},
	{"sums follow every write of contracts and packets", func(w *world) {
		w.project("p")
		w.project("q")
		c := fullContract("p", "c")
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		w.sums("a new contract", "p")
		next := c
		next.Version = 4
		next.Content = json.RawMessage(`{"z":1,"a":2}`)
		next.UpdatedAt = at(20)
		w.update(func(tx hub.Tx) error {
			if err := tx.WriteCoordination().AddVersion("p", "c", coord.ContractVersion{Version: 3, Content: c.Content, ProposedBy: "r1", At: at(9), ChangeNotes: "n"}); err != nil {
				return err
			}
			return tx.WriteCoordination().PutContract(next, c)
		})
		w.sums("the next version", "p")
		w.update(func(tx hub.Tx) error {
			next.History, next.Conflicts = next.History[1:], nil
			return tx.WriteCoordination().PutVersions(next)
		})
		w.sums("other versions", "p")
		w.update(func(tx hub.Tx) error {
			return tx.WriteCoordination().PutContract(fullContract("p", "d"), coord.Contract{})
		})
		for i := range 300 {
			p := coord.Packet{Project: "p", ID: coord.PacketID(fmt.Sprint("k", i)), FromRepo: "r1", Type: coord.ContextQuestion, Content: json.RawMessage(`{}`), At: at(i)}
			w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutPacket(p, coord.Packet{}) })
		}
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutContract(c, coord.Contract{}) })
		w.refuse(hub.CodeInternal, func(tx hub.Tx) error {
			if err := tx.WriteCoordination().PutContract(fullContract("p", "e"), coord.Contract{}); err != nil {
				return err
			}
			return hub.Errorf(hub.CodeInternal, "test", "changed my mind")
		})
		w.sums("all of it", "p")
		w.sums("an empty project", "q")
		w.store = w.reopen()
		w.sums("after a restart", "p")
	}},
	{"requests for files are kept, newest first", func(w *world) {
		w.project("p")
		a := coord.FileRequest{Project: "p", ID: "1", FromRepo: "r1", FromAgent: "a", Description: "the schema", Format: "sql", At: at(1)}
		b := coord.FileRequest{Project: "p", ID: "2", FromRepo: "r1", FromAgent: "a", Description: "a key", At: at(2)}
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutFileRequest(a) })
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutFileRequest(b) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutFileRequest(a) })
		a.FulfilledAt, a.File = at(3), "p/x.sql"
		w.update(func(tx hub.Tx) error { return tx.WriteCoordination().PutFileRequest(a) })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error { return tx.WriteCoordination().PutFileRequest(a) }) // fulfilled once
		w.view(func(r hub.Reader) error {
			all, err := r.Coordination().FileRequests("p", 10)
			same(w, "requests", all, []coord.FileRequest{b, a})
			if err != nil {
				return err
			}
			got, err := r.Coordination().FileRequest("p", "1")
			same(w, "request", got, a)
			return err
		})
		w.miss(hub.CodeNotFound, func(r hub.Reader) error { _, err := r.Coordination().FileRequest("p", "3"); return err })
		w.refuse(hub.CodeConflict, func(tx hub.Tx) error {
			return tx.WriteCoordination().PutFileRequest(coord.FileRequest{Project: "p", ID: "3", FulfilledAt: at(4)})
		})
	}},
}
