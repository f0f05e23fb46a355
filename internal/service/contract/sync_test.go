package contract_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
)

const peer coord.AID = "aid://other.example/hub@1.0.0"

// sync sends one copy from a peer.
func (d *desk) sync(native bool, c federation.Copy) federation.SyncResult {
	d.Helper()
	c.Project = d.project.ID
	all, err := d.Sync(d.Context(), peer, native, []federation.Copy{c})
	d.ok(err)
	return all[0]
}

// received sends a contract that must be taken and returns what is here now.
func (d *desk) received(c coord.Contract, want federation.SyncStatus) coord.Contract {
	d.Helper()
	if got := d.sync(true, federation.Copy{Contract: &c}); got.Status != want {
		d.Errorf("got %+v, want %s", got, want)
	}
	return d.read(c)
}

func after(i coord.Instant, d time.Duration) coord.Instant {
	return coord.InstantMicro(i.Micro() + d.Microseconds())
}

func TestSync(t *testing.T) {
	t.Parallel()
	t.Run("R1-046 a project is created, updated or skipped", func(t *testing.T) {
		d, other := newDesk(t, nil), newDesk(t, nil).begin()
		other.propose()
		send := func(want federation.SyncStatus) {
			t.Helper()
			p, err := federation.DecodeProject(other.whole(nil))
			d.ok(err)
			got, err := d.SyncProject(t.Context(), peer, true, p)
			d.ok(err)
			equal(d, "status", got.Status, want)
		}
		send(federation.SyncCreated)
		send(federation.SyncSkipped)
		other.propose()
		send(federation.SyncUpdated)
		d.project = other.project
		equal(d, "project", string(d.whole(nil)), string(other.whole(nil)))
		_, err := other.SetPolicy(t.Context(), other.back, other.project.ID, coord.AgreeAll)
		d.ok(err)
		send(federation.SyncUpdated)
	})
	t.Run("R1-012 how far a project has come elsewhere does not hold it there", func(t *testing.T) {
		d, other := newDesk(t, nil), newDesk(t, nil).begin()
		other.bring(coord.ContractVerified)
		status := func() coord.ProjectStatus {
			t.Helper()
			p, err := federation.DecodeProject(other.whole(nil))
			d.ok(err)
			_, err = d.SyncProject(t.Context(), peer, true, p)
			d.ok(err)
			got, err := d.Project(t.Context(), d.back, p.ID)
			d.ok(err)
			equal(d, "both", got.Status, p.Status)
			return got.Status
		}
		equal(d, "verified", status(), coord.ProjectComplete)
		other.propose()
		equal(d, "something new", status(), coord.ProjectImplementing)
		_, err := other.SetStatus(t.Context(), other.back, other.project.ID, coord.ProjectComplete)
		d.ok(err)
		equal(d, "set by hand", status(), coord.ProjectComplete)
	})
	t.Run("R1-047 a contract of a project that is not here is an answer, not a failure", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		all, err := d.Sync(t.Context(), peer, true, []federation.Copy{{Project: "missing", Contract: &c}})
		d.ok(err)
		equal(d, "answer", all[0], federation.SyncResult{Status: federation.SyncError, Reason: "Project missing not found", Code: hub.CodeNotFound})
		c.ID, c.UpdatedAt = "fresh", after(c.UpdatedAt, time.Second)
		d.received(c, federation.SyncCreated)
		d.received(c, federation.SyncSkipped)
		c.Status, c.UpdatedAt = coord.ContractAgreed, after(c.UpdatedAt, time.Second)
		equal(d, "status", d.received(c, federation.SyncUpdated).Status, coord.ContractAgreed)
	})
	t.Run("of too many agreements those to the oldest versions are dropped", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		const newest = federation.MaxAgreements + 50
		c := d.propose()
		c.ID, c.Version = "many", newest
		agreed := func(first, last int) coord.Contract {
			c := c
			for v := first; v <= last; v++ {
				c.Agreements = append(c.Agreements, coord.Agreement{Repo: "r1", Agent: peer, Version: v, Content: coord.ContentHash(c.Content), At: c.UpdatedAt})
			}
			return c
		}
		d.received(agreed(newest-99, newest), federation.SyncCreated)
		got := d.received(agreed(1, federation.MaxAgreements), federation.SyncUpdated).Agreements
		equal(d, "agreements", len(got), federation.MaxAgreements)
		equal(d, "first and last version", [2]int{got[0].Version, got[len(got)-1].Version}, [2]int{newest - federation.MaxAgreements + 1, newest})
	})
	t.Run("R1-048 a packet is taken once", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		p := coord.Packet{ID: "k", FromRepo: "r", FromAgent: peer, At: d.project.CreatedAt, Type: coord.ContextCode, Content: json.RawMessage(`{"a":1}`), ReplyTo: "not-here-yet"}
		for _, want := range []federation.SyncStatus{federation.SyncCreated, federation.SyncSkipped} {
			equal(d, "status", d.sync(true, federation.Copy{Packet: &p}).Status, want)
		}
		page, err := d.Packets(t.Context(), d.back, coord.PacketQuery{Project: d.project.ID})
		d.ok(err)
		p.Project = d.project.ID
		equal(d, "packets", page.Packets, []coord.Packet{p})
	})
	t.Run("R1-049 a repository is added or changed, and the first claim stands", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		r := coord.Repo{ID: "r3", Name: "mobile", Role: "mobile", Language: "kotlin"}
		equal(d, "new", d.sync(false, federation.Copy{Repo: &r}).Status, federation.SyncCreated)
		equal(d, "again", d.sync(false, federation.Copy{Repo: &r}).Status, federation.SyncSkipped)
		r.Agent = peer
		equal(d, "claimed", d.sync(false, federation.Copy{Repo: &r}).Status, federation.SyncUpdated)
		r.Endpoint = "http://new"
		equal(d, "moved", d.sync(false, federation.Copy{Repo: &r}).Status, federation.SyncUpdated)
		r.Agent = "aid://late/x@1.0.0"
		equal(d, "claimed by another", d.sync(false, federation.Copy{Repo: &r}).Status, federation.SyncSkipped)
		p, err := d.Project(t.Context(), d.back, d.project.ID)
		d.ok(err)
		got, _ := p.Repo("r3")
		equal(d, "repository", []string{string(got.Agent), got.Endpoint}, []string{string(peer), "http://new"})
	})
	t.Run("R1-024 a claim that another hub took earlier does not stand, and that is noted", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		r, _ := d.project.RepoNamed("frontend-app")
		r.Agent, r.ClaimedAt = "aid://early/x@1.0.0", after(r.ClaimedAt, -time.Hour)
		equal(d, "status", d.sync(true, federation.Copy{Repo: &r}).Status, federation.SyncUpdated)
		p, err := d.Project(t.Context(), d.back, d.project.ID)
		d.ok(err)
		got, _ := p.Repo(r.ID)
		equal(d, "agent", got.Agent, r.Agent)
		equal(d, "noted", slices.Contains(d.journal(), actions.RepoLost), true)
	})
	t.Run("R1-055 the higher version wins, whatever the time", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		in := c
		in.Version, in.Content, in.UpdatedAt = 2, json.RawMessage(`{"v":2}`), after(c.UpdatedAt, -time.Hour)
		in.History = []coord.ContractVersion{{Version: 1, Content: c.Content, ProposedBy: c.ProposedBy, At: c.UpdatedAt}}
		got := d.received(in, federation.SyncUpdated)
		equal(d, "content", string(got.Content), `{"v":2}`)
		equal(d, "time", got.UpdatedAt, in.UpdatedAt) // not stamped anew
		equal(d, "conflicts", len(got.Conflicts), 0)
	})
	t.Run("R1-056 of one version the later wins, and the other is kept as a conflict", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		in := c
		in.Content, in.UpdatedAt = json.RawMessage(`{"other":true}`), after(c.UpdatedAt, time.Microsecond)
		got := d.received(in, federation.SyncUpdated)
		equal(d, "content", string(got.Content), `{"other":true}`)
		equal(d, "lost", string(got.Conflicts[0].Content), profile)
		equal(d, "journal", slices.Contains(d.journal(), actions.ContractConflict), true)
		all, err := d.Conflicts(t.Context(), d.back, c.Project, "", 0)
		d.ok(err)
		equal(d, "conflicts", len(all.Contracts) == 1 && all.Contracts[0].Contract.ID == c.ID && len(all.Contracts[0].Lost) == 1, true)
		older := c
		older.Content, older.UpdatedAt = json.RawMessage(`{"older":true}`), after(c.UpdatedAt, -time.Second)
		got = d.received(older, federation.SyncUpdated) // it lost, and that is news
		equal(d, "content", string(got.Content), `{"other":true}`)
		equal(d, "lost", len(got.Conflicts), 2)
	})
	t.Run("R1-056 a tie is decided by the content, the same on both sides", func(t *testing.T) {
		a, b := newDesk(t, nil).begin(), newDesk(t, nil)
		c := a.propose()
		p, err := federation.DecodeProject(a.whole(nil))
		a.ok(err)
		_, err = b.SyncProject(t.Context(), peer, true, p)
		a.ok(err)
		b.project = a.project
		x, y := c, c
		x.Content, y.Content = json.RawMessage(`{"x":1}`), json.RawMessage(`{"y":1}`)
		x.UpdatedAt, y.UpdatedAt = after(c.UpdatedAt, time.Hour), after(c.UpdatedAt, time.Hour)
		a.received(x, federation.SyncUpdated)
		b.received(y, federation.SyncUpdated)
		a.sync(true, federation.Copy{Contract: &y})
		b.sync(true, federation.Copy{Contract: &x})
		equal(a, "both", a.read(c), b.read(c))
		equal(a, "lost", len(a.read(c).Conflicts), 2) // the first content, and one of the two
	})
	t.Run("R1-057 a lower version with a later time does not win", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{"v":2}`)})
		d.ok(err)
		c.Status, c.UpdatedAt = coord.ContractAgreed, after(c.UpdatedAt, 24*time.Hour)
		got := d.received(c, federation.SyncSkipped)
		equal(d, "version", got.Version, 2)
		equal(d, "status", got.Status, coord.ContractProposed)
	})
	t.Run("R1-084 work that begins on two hubs at once is not lost", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		theirs := d.read(c)
		_, err := d.Start(t.Context(), d.back, d.work(c))
		d.ok(err)
		front, _ := d.project.RepoNamed("frontend-app")
		theirs.UpdatedAt = after(theirs.UpdatedAt, time.Hour)
		theirs.Implementations = []coord.Implementation{{Repo: front.ID, Agent: frontAID, Status: coord.ImplComplete, Files: []string{}, StartedAt: theirs.UpdatedAt, CompletedAt: theirs.UpdatedAt, Version: 1}}
		got := d.received(theirs, federation.SyncUpdated)
		equal(d, "implementations", len(got.Implementations), 2)
		r, err := d.Complete(t.Context(), d.back, d.work(c))
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractImplemented)
		equal(d, "later than what was seen", r.Contract.UpdatedAt.Compare(theirs.UpdatedAt) > 0, true)
	})
	t.Run("the last completion may come from another hub", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		d.implement(c, d.back)
		theirs := d.read(c)
		front, _ := d.project.RepoNamed("frontend-app")
		done := after(theirs.UpdatedAt, time.Minute)
		theirs.Implementations = []coord.Implementation{{Repo: front.ID, Status: coord.ImplComplete, Files: []string{}, CompletedAt: done, Version: 1}}
		got := d.received(theirs, federation.SyncUpdated)
		equal(d, "status", got.Status, coord.ContractImplemented)
		equal(d, "time", got.UpdatedAt, done)
	})
	t.Run("a peer that drops what it does not know loses us nothing, and its stamps are no news", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractAgreed)
		d.implement(c, d.back)
		was := d.read(c)
		echo := was
		echo.Agreements, echo.ReopenedAt, echo.UpdatedAt = nil, coord.Instant{}, after(was.UpdatedAt, time.Hour)
		echo.Implementations = slices.Clone(was.Implementations)
		echo.Implementations[0].Version = 0
		got := d.sync(false, federation.Copy{Contract: &echo})
		equal(d, "status", got.Status, federation.SyncSkipped)
		equal(d, "contract", d.read(c), was)
		echo.Status = coord.ContractNegotiating
		equal(d, "a real change", d.sync(false, federation.Copy{Contract: &echo}).Status, federation.SyncUpdated)
		equal(d, "agreements", len(d.read(c).Agreements), 1)

		p, err := d.Project(t.Context(), d.back, c.Project)
		d.ok(err)
		p.UpdatedAt, p.Policy = after(p.UpdatedAt, time.Hour), ""
		equal(d, "project", d.sync(false, federation.Copy{Head: &p}).Status, federation.SyncSkipped)
	})
	t.Run("what a peer has is not sent back to it, unless there is more", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		n := d.last().Seq
		in := c
		in.Status, in.UpdatedAt = coord.ContractAgreed, after(c.UpdatedAt, time.Hour)
		d.received(in, federation.SyncUpdated)
		back, err := d.Copies(t.Context(), peer, d.changes(n))
		d.ok(err)
		equal(d, "back", len(back), 0)
		others, err := d.Copies(t.Context(), "aid://third/x@1.0.0", d.changes(n))
		d.ok(err)
		equal(d, "to others", len(others), 1)
		_, err = d.Start(t.Context(), d.back, d.work(c))
		d.ok(err)
		n = d.last().Seq
		in.UpdatedAt = after(in.UpdatedAt, time.Hour)
		d.received(in, federation.SyncUpdated)
		back, err = d.Copies(t.Context(), peer, d.changes(n))
		d.ok(err)
		equal(d, "back with our work", len(back), 1)
	})
	t.Run("times that lie ahead are taken as they are, and noted", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		in := c
		in.Status, in.UpdatedAt = coord.ContractNegotiating, after(c.UpdatedAt, time.Hour)
		got := d.received(in, federation.SyncUpdated)
		equal(d, "time", got.UpdatedAt, in.UpdatedAt)
		equal(d, "noted", slices.Contains(d.journal(), actions.ClockAhead), true)
		r, err := d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "the next write", r.Contract.UpdatedAt, after(in.UpdatedAt, time.Microsecond))
	})
	t.Run("a copy that cannot be taken does not keep the others from being taken", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		bad, good := c, c
		bad.Status = "rejected"
		good.ID = "good"
		all, err := d.Sync(t.Context(), peer, true, []federation.Copy{
			{Project: c.Project, Contract: &bad}, {Project: c.Project}, {Project: "other", Head: &d.project}, {Project: c.Project, Contract: &good},
		})
		d.ok(err)
		var got []federation.SyncStatus
		for _, s := range all {
			got = append(got, s.Status)
		}
		equal(d, "statuses", got, []federation.SyncStatus{federation.SyncError, federation.SyncError, federation.SyncError, federation.SyncCreated})
	})
	t.Run("a summary tells whether and where two hubs differ", func(t *testing.T) {
		a, b := newDesk(t, nil).begin(), newDesk(t, nil)
		c := a.propose()
		for range 5 {
			_, err := a.Share(t.Context(), a.back, contract.NewPacket{InProject: contract.In(a.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
			a.ok(err)
		}
		p, err := federation.DecodeProject(a.whole(nil))
		a.ok(err)
		for i := range p.Contracts { // written otherwise, it is the same
			p.Contracts[i].Content = json.RawMessage(strings.Replace(string(p.Contracts[i].Content), `"method":"GET"`, `"method" : "\u0047ET"`, 1))
		}
		_, err = b.SyncProject(t.Context(), peer, true, p)
		a.ok(err)
		sums := func() (x, y federation.Summary) {
			t.Helper()
			x, err := a.Summary(t.Context(), a.project.ID, "")
			a.ok(err)
			y, err = b.Summary(t.Context(), a.project.ID, "")
			a.ok(err)
			return x, y
		}
		x, y := sums()
		equal(a, "summaries", x, y)
		_, err = a.respond(a.front, c, contract.ActionAgree, "with a comment")
		a.ok(err)
		x, y = sums()
		equal(a, "head", x.Head, y.Head)
		equal(a, "contract", x.Contracts[0].Sum == y.Contracts[0].Sum, false)
		differ := slices.DeleteFunc(slices.Clone(x.Buckets), func(k coord.PacketBucket) bool { return slices.Contains(y.Buckets, k) })
		equal(a, "buckets", len(differ), 1)
	})
	t.Run("R1-081 what is sent to a peer that knows no zones has no null list and naive times", func(t *testing.T) {
		t.Attr("stand-in", "agent of the reference implementation")
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractImplemented)
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(c.Project), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
		d.ok(err)
		d.propose()
		raw := ""
		for _, copied := range mustCopies(d) {
			b, err := json.Marshal(copied.Naive())
			d.ok(err)
			raw += string(b)
		}
		for _, bad := range []string{"null", `Z"`} {
			if strings.Contains(raw, bad) {
				t.Errorf("%s in %s", bad, raw)
			}
		}
		for _, good := range []string{`"notes":""`, `"history":[]`, `"implementations":[]`, `"related_contracts":[]`, `"relevant_paths":[]`} {
			if !strings.Contains(raw, good) {
				t.Errorf("no %s in %s", good, raw)
			}
		}
		times := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`).FindAllString(raw, -1)
		if len(times) < 5 {
			t.Errorf("got %d times in %s, want more", len(times), raw)
		}
		for _, at := range times {
			if _, err := time.Parse(`"2006-01-02T15:04:05.000000"`, at); err != nil || len(at) != 28 {
				t.Errorf("%s is not a time without a zone and with microseconds", at)
			}
		}
	})
}

func mustCopies(d *desk) []federation.Copy {
	d.Helper()
	all, err := d.Copies(d.Context(), "", d.changes(0))
	d.ok(err)
	return all
}

// BenchmarkSync measures how many changes of a peer are taken in a second.
func BenchmarkSync(b *testing.B) {
	d, copies := benchDesk(b, b.N)
	b.ResetTimer()
	if _, err := d.Sync(b.Context(), peer, true, copies); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

func benchDesk(b *testing.B, n int) (*contract.Service, []federation.Copy) {
	b.Helper()
	s := benchService(b)
	p, err := s.CreateProject(b.Context(), hub.Caller{}, contract.NewProject{Name: "x", Repos: []coord.Repo{{Name: "backend-api", Role: "backend", Language: "go"}}})
	if err != nil {
		b.Fatal(err)
	}
	copies := make([]federation.Copy, n)
	for i := range copies {
		copies[i] = federation.Copy{Project: p.ID, Contract: &coord.Contract{
			ID: coord.ContractID(fmt.Sprintf("c%09d", i)), Type: coord.ContractAPI, Name: "x", Version: 1, Status: coord.ContractProposed, Content: json.RawMessage(profile),
			ProposedBy: "r", CreatedAt: p.CreatedAt, UpdatedAt: p.CreatedAt,
		}}
	}
	return s, copies
}
