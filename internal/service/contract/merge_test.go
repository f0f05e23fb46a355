package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// randomContract returns a copy of a contract as some hub might have it: few
// values, so that copies agree, differ and tie.
func randomContract(r *rand.Rand) coord.Contract {
	content := func(version int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"v":%d,"x":%d}`, version, r.IntN(3)))
	}
	repo := func() coord.RepoID { return coord.RepoID(fmt.Sprint("r", r.IntN(3))) }
	at := func() coord.Instant { return coord.InstantMicro(int64(1 + r.IntN(4))) }
	c := coord.Contract{
		Project: "p", ID: "c", Type: coord.ContractCustom, Name: "n", Version: 1 + r.IntN(3), Status: coord.ContractStatuses[r.IntN(5)],
		ProposedBy: repo(), CreatedAt: at(), UpdatedAt: at(), ReopenedAt: coord.InstantMicro(int64(r.IntN(3))),
	}
	c.Content = content(c.Version)
	for v := 1; v < c.Version; v++ {
		c.History = append(c.History, coord.ContractVersion{Version: v, Content: content(v), ProposedBy: repo(), At: at(), ChangeNotes: fmt.Sprint(r.IntN(2))})
	}
	for v := c.Version; v >= 1; v-- {
		if r.IntN(3) == 0 {
			lost := coord.ContractVersion{Version: v, Content: content(v), ProposedBy: repo(), At: at(), Superseded: v < c.Version && r.IntN(2) == 0}
			if v < c.Version || c.UpdatedAt.Compare(lost.At) > 0 && !sameContent(lost, coord.ContractVersion{Version: v, Content: c.Content}) {
				c.Conflicts = append(c.Conflicts, lost)
			}
		}
	}
	for i := range 3 {
		if r.IntN(2) == 0 {
			c.Implementations = append(c.Implementations, coord.Implementation{
				Repo: coord.RepoID(fmt.Sprint("r", i)), Status: coord.ImplementationStatuses[r.IntN(4)], Files: []string{fmt.Sprint(r.IntN(2))}, StartedAt: at(),
				CompletedAt: coord.InstantMicro(int64(r.IntN(4))), Version: 1 + r.IntN(2),
			})
		}
	}
	for range r.IntN(3) {
		c.Agreements = append(c.Agreements, coord.Agreement{Repo: repo(), Version: 1 + r.IntN(2), Content: "h", At: at()})
	}
	return mergeContract(c, c) // as it is stored
}

// randomStamps returns the stamps of three hubs that wrote some members and took some
// copies of each other.
func randomStamps(r *rand.Rand, members ...string) (all [3]coord.Stamps) {
	for range r.IntN(8) {
		i, j := r.IntN(3), r.IntN(3)
		if i != j {
			all[i] = mergeStamps(all[i], all[j])
			continue
		}
		by := coord.AID(fmt.Sprint("h", i))
		at := coord.InstantMicro(max(all[i].Seen[by].Micro(), int64(r.IntN(4))) + 1)
		all[i] = all[i].With(coord.Stamp{Member: members[r.IntN(len(members))], Value: fmt.Sprint(r.IntN(2)), Version: r.IntN(2), At: at, By: by}, false)
	}
	return all
}

func randomProject(r *rand.Rand) coord.Project {
	at := func() coord.Instant { return coord.InstantMicro(int64(r.IntN(4))) }
	p := coord.Project{
		ID: "p", Name: fmt.Sprint("n", r.IntN(2)), Status: coord.ProjectStatuses[r.IntN(4)], Policy: coord.AgreementPolicies[r.IntN(3)],
		CreatedAt: at(), UpdatedAt: at(),
	}
	for i := range 3 {
		if r.IntN(2) == 0 {
			x := coord.Repo{ID: coord.RepoID(fmt.Sprint("r", i)), Name: "x", UpdatedAt: at(), Endpoint: fmt.Sprint(r.IntN(2)), Term: r.IntN(2)}
			if r.IntN(3) > 0 {
				x.Agent, x.ClaimedAt = coord.AID(fmt.Sprint("a", r.IntN(2))), at()
			}
			p.Repos = append(p.Repos, x)
		}
	}
	return mergeProject(p, p)
}

// laws checks that it does not matter which of three copies comes first, how
// they are grouped, or how often one comes.
func laws[T any](t *testing.T, seed uint64, merge func(a, b T) T, same func(a, b T) bool, random func(*rand.Rand) T) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	a, b, c := random(r), random(r), random(r)
	want := merge(merge(a, b), c)
	for name, got := range map[string]T{
		"b before a":         merge(merge(b, a), c),
		"c first":            merge(c, merge(a, b)),
		"b with c first":     merge(a, merge(b, c)),
		"a with c first":     merge(merge(a, c), b),
		"a again":            merge(want, a),
		"b again":            merge(b, want),
		"the outcome itself": merge(want, want),
	} {
		if !same(got, want) {
			t.Fatalf("seed %d, %s:\n got %+v\nwant %+v\nfrom %+v\n     %+v\n     %+v", seed, name, got, want, a, b, c)
		}
	}
}

func contractLaws(t *testing.T, seed uint64) {
	t.Helper()
	stamps := randomStamps(rand.New(rand.NewPCG(seed, 3)), coord.MemberPolicy, coord.MemberStatus, "later")
	n := 0
	next := func() coord.Stamps { n++; return stamps[n%3] }
	laws(t, seed, mergeContract, sameContract, func(r *rand.Rand) coord.Contract {
		c := randomContract(r)
		c.Stamps = next()
		return c
	})
	laws(t, seed, mergeProject, sameProject, func(r *rand.Rand) coord.Project {
		p := randomProject(r)
		p.Stamps = next()
		return mergeProject(p, p)
	})
}

func TestMergeLaws(t *testing.T) {
	t.Parallel()
	t.Run("R1-056 copies merged in any order, grouping and number give one result", func(t *testing.T) {
		for seed := range uint64(schedules) {
			contractLaws(t, seed)
		}
	})
}

// FuzzSync checks that nothing a peer sends breaks a hub, that what it takes can
// be written and read again, and that it is no news the second time.
func FuzzSync(f *testing.F) {
	seed := func(copies ...federation.Copy) {
		raw, err := json.Marshal(copies)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, true)
		f.Add(raw, false)
	}
	c := randomContract(rand.New(rand.NewPCG(1, 1)))
	seed(federation.Copy{Project: "p", Contract: &c}, federation.Copy{Project: "p", Packet: &coord.Packet{ID: "k", FromRepo: "r1", Type: coord.ContextCode, Content: json.RawMessage(`{"a":1}`)}})
	seed(federation.Copy{Project: "p", Repo: &coord.Repo{ID: "r9", Name: "n", Role: "r", Language: "l", Agent: "a"}}, federation.Copy{Project: "p"}, federation.Copy{Project: "../p"})
	seed(federation.Copy{Project: "q", Head: &coord.Project{ID: "q", Name: "n", Status: coord.ProjectPlanning, Repos: []coord.Repo{{ID: "r", Name: "n", Role: "r", Language: "l"}}}})
	f.Add([]byte(`[{"projectId":"p","contract":{"contract_id":"c","type":"custom","name":"n","version":1,"status":"agreed","content":{},"proposed_by":"r","implementations":[{"repo_id":"r0","status":"complete"}]}}]`), false)
	f.Fuzz(func(t *testing.T, raw []byte, native bool) {
		var copies []federation.Copy
		if json.Unmarshal(raw, &copies) != nil || len(copies) > 100 {
			return
		}
		ctx := t.Context()
		s := New(newMemory(), &Options{Clock: func() time.Time { return start }, Self: "aid://a/b@1.0.0", Repo: "r0"})
		s.newID = func() string { return "r0" }
		if _, err := s.Sync(ctx, "x", true, []federation.Copy{{Project: "p", Head: &coord.Project{
			ID: "p", Name: "n", Status: coord.ProjectPlanning, Repos: []coord.Repo{{ID: "r0", Name: "r0", Role: "r", Language: "l", Agent: "aid://a/b@1.0.0", UpdatedAt: coord.InstantAt(start)}},
		}}}); err != nil {
			t.Fatal(err)
		}
		var last []federation.SyncResult
		for range 3 {
			done, err := s.Sync(ctx, "peer", native, copies)
			if err != nil {
				t.Fatal(err)
			}
			last = done
		}
		for i, d := range last {
			if d.Status != federation.SyncSkipped && d.Status != federation.SyncError {
				t.Errorf("copy %d is news each time it comes: %+v", i, d)
			}
		}
		projects, err := s.Projects(ctx, hub.Caller{}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range projects {
			var b bytes.Buffer
			if err := s.WriteProject(ctx, hub.Caller{}, p.ID, &b, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := federation.DecodeProject(b.Bytes()); err != nil {
				t.Errorf("what was taken cannot be sent on: %v\n%s", err, b.Bytes())
			}
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(contractLaws)
}

func TestMerge(t *testing.T) {
	t.Parallel()
	at := coord.InstantMicro
	impl := func(status coord.ImplementationStatus, started, completed int64, version int) coord.Implementation {
		return coord.Implementation{Repo: "r", Status: status, StartedAt: at(started), CompletedAt: at(completed), Version: version}
	}
	for _, test := range []struct {
		name      string
		won, lost coord.Implementation
	}{
		{"the newer report stands", impl(coord.ImplInProgress, 5, 0, 1), impl(coord.ImplComplete, 1, 4, 1)},
		{"complete beats in progress on a tie", impl(coord.ImplComplete, 1, 5, 1), impl(coord.ImplInProgress, 5, 0, 1)},
		{"that it needs another look beats complete on a tie", impl(coord.ImplNeedsRevision, 1, 5, 1), impl(coord.ImplComplete, 1, 5, 1)},
		{"a version that was guessed does not beat one that was said", impl(coord.ImplComplete, 1, 5, 1), impl(coord.ImplComplete, 1, 5, 2)},
	} {
		t.Run("R1-084 "+test.name, func(t *testing.T) {
			for _, order := range [][2]coord.Implementation{{test.won, test.lost}, {test.lost, test.won}} {
				got := mergeImplementations(order[:1], order[1:])
				if len(got) != 1 || !sameImplementation(got[0], test.won) {
					t.Errorf("got %+v, want %+v", got, test.won)
				}
			}
		})
	}
	t.Run("a content that a later version replaced is history, its rival a conflict", func(t *testing.T) {
		v := func(version int, text string, when int64) coord.ContractVersion {
			return coord.ContractVersion{Version: version, Content: json.RawMessage(`"` + text + `"`), At: at(when)}
		}
		a := coord.Contract{Version: 3, Content: json.RawMessage(`"3"`), UpdatedAt: at(9), History: []coord.ContractVersion{v(1, "1", 1), v(2, "2a", 4)}}
		b := coord.Contract{Version: 2, Content: json.RawMessage(`"2b"`), UpdatedAt: at(20), History: []coord.ContractVersion{v(1, "1", 1)}}
		got := mergeContract(b, a)
		if !sameVersions(got.History, a.History) || !sameVersions(got.Conflicts, []coord.ContractVersion{v(2, "2b", 20)}) {
			t.Errorf("got %+v and %+v", got.History, got.Conflicts)
		}
	})
	t.Run("of too many contents that lost the newest are kept", func(t *testing.T) {
		c := coord.Contract{Version: 1, Content: json.RawMessage(`0`), UpdatedAt: at(1000)}
		for i := range federation.MaxConflicts + 5 {
			c = mergeContract(c, coord.Contract{Version: 1, Content: json.RawMessage(fmt.Sprint(i + 1)), UpdatedAt: at(int64(i + 1))})
		}
		if n := len(c.Conflicts); n != federation.MaxConflicts || c.Conflicts[0].At != at(federation.MaxConflicts+5) {
			t.Errorf("got %d, the newest at %v", n, c.Conflicts[0].At)
		}
	})
	t.Run("two hubs may each bring the last agreement", func(t *testing.T) {
		p := coord.Project{Policy: coord.AgreeAll, Repos: []coord.Repo{{ID: "a", Name: "a"}, {ID: "b", Name: "b"}, {ID: "c", Name: "c"}}}
		c := coord.Contract{Version: 1, Status: coord.ContractProposed, Content: json.RawMessage(`{}`), ProposedBy: "a", UpdatedAt: at(1)}
		agree := func(repo coord.RepoID, when int64) coord.Contract {
			x := c
			x.UpdatedAt = at(when)
			x.Agreements = []coord.Agreement{{Repo: repo, Version: 1, Content: coord.ContentHash(c.Content), At: at(when)}}
			return x
		}
		for _, pair := range [][2]coord.Contract{{agree("b", 5), agree("c", 7)}, {agree("c", 7), agree("b", 5)}} {
			if got := advance(mergeContract(pair[0], pair[1]), p); got.Status != coord.ContractAgreed || got.UpdatedAt != at(7) {
				t.Errorf("got %s at %v", got.Status, got.UpdatedAt)
			}
			if got := advance(pair[0], p); got.Status != coord.ContractProposed {
				t.Errorf("one alone: got %s", got.Status)
			}
		}
	})
	if !slices.IsSortedFunc(mergeAgreements([]coord.Agreement{{Repo: "b", Version: 1}}, []coord.Agreement{{Repo: "a", Version: 1}}), func(a, b coord.Agreement) int { return int(a.Repo[0]) - int(b.Repo[0]) }) {
		t.Error("agreements are not in order")
	}
}
