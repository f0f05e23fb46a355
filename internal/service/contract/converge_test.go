package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A node is one hub of a simulated network.
type node struct {
	n       int
	aid     coord.AID
	repo    string
	store   hub.Store
	reopen  func() hub.Store // nil if nothing survives but the store itself
	service *Service
	skew    time.Duration
	sent    []int64 // by peer: the last change that it has acknowledged

	// known holds, by thing, the writes whose effect the hub's copy includes: a model
	// of causes beside the stamps that are tested.
	known map[string]map[int]bool
}

// A network is three hubs whose clocks differ and whose messages may be lost,
// doubled, late and out of order.
type network struct {
	t     *testing.T
	rand  *rand.Rand
	now   time.Time
	nodes []*node
	cut   [][2]int // pairs that cannot reach each other
	late  []parcel // that come once more
	ids   int
	line  bool // the first and the last never reach each other
	wire  bool // copies are written and read on their way, which takes most of the time

	project coord.ProjectID
	acked   acknowledged
}

// A parcel is a batch on its way.
type parcel struct {
	from, to int
	copies   []federation.Copy
	known    map[string]map[int]bool // of the sender, of the things that are copied
	again    bool                    // it has come before, or comes too late
}

// A write is a value that a caller was told is stored, of a member of the project or
// of the status of a contract.
type write struct {
	thing   string // projectThing, or the id of a contract
	member  string
	value   string
	version int
	by      coord.AID
	known   map[int]bool // the writes that its hub knew
	partial bool         // an agreement that waits for others
}

const projectThing = "project"

func (w write) String() string {
	return fmt.Sprintf("%s of %s = %q version %d by %s", w.member, w.thing, w.value, w.version, w.by)
}

// acknowledged is what callers were told.
type acknowledged struct {
	contents   map[coord.ContractID][]coord.ContractVersion
	packets    []coord.PacketID
	agreements map[coord.ContractID][]coord.Agreement
	work       map[coord.ContractID][]coord.Implementation
	repos      []coord.RepoID
	claims     map[coord.RepoID][]coord.AID
	writes     []write

	environments []string
	tests        map[coord.ContractID][]coord.ContractTest
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newNetwork(t *testing.T, seed uint64, store func(n int) (hub.Store, func() hub.Store)) *network {
	w := &network{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: start,
		acked: acknowledged{
			contents: map[coord.ContractID][]coord.ContractVersion{}, agreements: map[coord.ContractID][]coord.Agreement{},
			work: map[coord.ContractID][]coord.Implementation{}, claims: map[coord.RepoID][]coord.AID{},
			tests: map[coord.ContractID][]coord.ContractTest{},
		},
	}
	w.line, w.wire = w.rand.IntN(3) == 0, seed%10 == 0
	for i := range 3 {
		n := &node{n: i, aid: coord.AID(fmt.Sprintf("aid://h%d.example/a@1.0.0", i)), repo: fmt.Sprintf("repo%d", i), sent: make([]int64, 3), known: map[string]map[int]bool{}}
		n.store, n.reopen = store(i)
		w.nodes = append(w.nodes, n)
		w.skew(n)
		w.boot(n)
	}
	return w
}

// skew sets a clock wrong, by up to an hour.
func (w *network) skew(n *node) {
	n.skew = time.Duration(w.rand.Int64N(int64(2*time.Hour))) - time.Hour
}

// boot starts a hub on its store.
func (w *network) boot(n *node) {
	n.service = New(n.store, &Options{
		Clock: func() time.Time { return w.now.Add(n.skew) }, Self: n.aid, Repo: n.repo,
	})
	n.service.newID = func() string {
		w.ids++
		return fmt.Sprintf("%06d-%d", w.ids, n.n)
	}
}

func (n *node) caller() hub.Caller { return hub.Caller{ID: "agent", AID: n.aid} }

// apart reports whether two hubs cannot reach each other now.
func (w *network) apart(a, b int) bool {
	return w.line && a+b == 2 && a != b || slices.Contains(w.cut, [2]int{min(a, b), max(a, b)})
}

// send makes one attempt to bring the changes of one hub to another.
func (w *network) send(a, b int, reliable bool) bool {
	from := w.nodes[a]
	changes, err := from.service.Changes(context.Background(), from.sent[b], 1+w.rand.IntN(20))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(changes) == 0 {
		return false
	}
	copies, err := from.service.Copies(context.Background(), w.nodes[b].aid, changes)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.wire {
		copies = overWire(w.t, copies)
	}
	p := parcel{from: a, to: b, copies: copies, known: map[string]map[int]bool{}}
	for _, c := range copies {
		if thing := thingOf(c); thing != "" {
			p.known[thing] = maps.Clone(from.known[thing])
		}
	}
	luck := w.rand.IntN(10)
	switch {
	case reliable:
	case w.apart(a, b) || luck < 2:
		return true // lost on the way
	case luck < 4:
		w.late = append(w.late, p)
	}
	w.deliver(p)
	if reliable || luck != 5 { // else the answer is lost
		from.sent[b] = changes[len(changes)-1].Seq
	}
	return true
}

// thingOf returns the thing whose writes a copy brings, or "".
func thingOf(c federation.Copy) string {
	switch {
	case c.Head != nil:
		return projectThing
	case c.Contract != nil:
		return string(c.Contract.ID)
	}
	return ""
}

// acknowledge notes a write that a caller was told of.
func (w *network) acknowledge(n *node, x write) {
	if n.known[x.thing] == nil {
		n.known[x.thing] = map[int]bool{}
	}
	x.by, x.known = n.aid, maps.Clone(n.known[x.thing])
	n.known[x.thing][len(w.acked.writes)] = true
	w.acked.writes = append(w.acked.writes, x)
}

// moved notes the move of a contract.
func (w *network) moved(n *node, c coord.Contract, partial bool) {
	w.acknowledge(n, write{thing: string(c.ID), member: coord.MemberStatus, value: string(c.Status), version: c.Version, partial: partial})
}

// overWire returns copies as they are when they have been sent.
func overWire(t *testing.T, copies []federation.Copy) (out []federation.Copy) {
	t.Helper()
	raw, err := json.Marshal(copies)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *network) deliver(p parcel) {
	done, err := w.nodes[p.to].service.Sync(context.Background(), w.nodes[p.from].aid, true, p.copies)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, d := range done {
		if d.Status == federation.SyncError && !(p.again && d.Code == hub.CodeNotFound) {
			w.t.Fatalf("hub %d refused %+v of hub %d: %s", p.to, p.copies[i], p.from, d.Reason)
		}
		if thing := thingOf(p.copies[i]); thing != "" && d.Status != federation.SyncError {
			known := w.nodes[p.to].known
			if known[thing] == nil {
				known[thing] = map[int]bool{}
			}
			maps.Copy(known[thing], p.known[thing])
		}
	}
}

// step lets something happen.
func (w *network) step() {
	w.now = w.now.Add(time.Duration(w.rand.IntN(3)) * 400 * time.Microsecond) // often nothing, so that times tie
	a, b := w.rand.IntN(3), w.rand.IntN(3)
	switch luck := w.rand.IntN(100); {
	case luck < 45:
		w.operate(w.nodes[a])
	case luck < 80:
		if a != b {
			w.send(a, b, false)
		}
	case luck < 86 && len(w.late) > 0:
		i := w.rand.IntN(len(w.late))
		p := w.late[i]
		p.again = true
		if w.rand.IntN(2) == 0 {
			w.late = slices.Delete(w.late, i, i+1)
		}
		if !w.apart(p.from, p.to) {
			w.deliver(p)
		}
	case luck < 88:
		if a != b {
			w.cut = append(w.cut, [2]int{min(a, b), max(a, b)})
		}
	case luck < 90: // a partition: one hub is alone
		for other := range w.nodes {
			if other != a {
				w.cut = append(w.cut, [2]int{min(a, other), max(a, other)})
			}
		}
	case luck < 95:
		w.cut = nil
	case luck < 97:
		w.skew(w.nodes[a])
	case luck < 99:
		n := w.nodes[a]
		if n.reopen != nil {
			n.store = n.reopen()
		}
		w.boot(n)
		w.late = slices.DeleteFunc(w.late, func(p parcel) bool { return p.to == a })
	}
}

// operate lets an agent do something at random. What is refused because of the
// state that things are in does not count.
func (w *network) operate(n *node) {
	ctx, who := context.Background(), n.caller()
	if w.project == "" {
		if n.n != 0 {
			return
		}
		p, err := n.service.CreateProject(ctx, who, NewProject{Name: "x", Repos: []coord.Repo{
			{Name: "repo0", Role: "backend", Language: "go"}, {Name: "repo1", Role: "frontend", Language: "go"}, {Name: "repo2", Role: "infra", Language: "go"},
		}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.project = p.ID
		for _, r := range p.Repos {
			w.acked.repos = append(w.acked.repos, r.ID)
			if r.Agent != "" { // the hub's own
				w.claimed(r.ID, r.Agent)
			}
		}
		return
	}
	_, repo, err := n.service.JoinProject(ctx, who, w.project, n.repo, "")
	if hub.CodeOf(err) == hub.CodeNotFound {
		return // the project has not come here yet
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.claimed(repo.ID, n.aid)
	contracts, err := n.service.Contracts(ctx, who, coord.ContractQuery{Project: w.project})
	if err != nil {
		w.t.Fatal(err)
	}
	content := json.RawMessage(fmt.Sprintf(`{"n":%d}`, w.rand.IntN(1000)))
	luck := w.rand.IntN(100)
	if w.rand.IntN(8) == 0 {
		w.setMember(n)
		return
	}
	if len(contracts) == 0 || luck < 10 && len(contracts) < 4 {
		proposal := Proposal{InProject: In(w.project), Type: coord.ContractCustom, Name: "c", Content: content}
		if w.rand.IntN(2) == 0 {
			proposal.Provider = n.repo
		}
		r, err := n.service.Propose(ctx, who, proposal)
		if w.done(err) {
			w.acked.contents[r.Contract.ID] = append(w.acked.contents[r.Contract.ID], coord.ContractVersion{Version: 1, Content: content})
		}
		return
	}
	c := contracts[w.rand.IntN(len(contracts))]
	if w.rand.IntN(6) == 0 {
		w.term(n, c)
		return
	}
	switch {
	case luck < 30:
		r, err := n.service.Update(ctx, who, Revision{InContract: Of(w.project, c.ID), Content: content, Note: fmt.Sprint(luck)})
		if w.done(err) {
			w.acked.contents[c.ID] = append(w.acked.contents[c.ID], coord.ContractVersion{Version: r.Contract.Version, Content: content})
			w.moved(n, r.Contract, false)
		}
	case luck < 55:
		action := []string{ActionAgree, ActionAgree, ActionAgree, ActionRequestChange, ActionReject}[w.rand.IntN(5)]
		comment := strings.Repeat("x", w.rand.IntN(2))
		if action == ActionRequestChange {
			comment = "more"
		}
		r, err := n.service.Respond(ctx, who, Response{InContract: Of(w.project, c.ID), Action: action, Comment: comment})
		if w.done(err) && action == ActionAgree {
			w.acked.agreements[c.ID] = append(w.acked.agreements[c.ID], coord.Agreement{Repo: r.Repo, Version: r.Contract.Version, Content: coord.ContentHash(r.Contract.Content)})
		}
		if err == nil {
			w.moved(n, r.Contract, action == ActionAgree && r.Contract.Status != coord.ContractAgreed)
		}
		if err == nil && r.Packet != "" {
			w.acked.packets = append(w.acked.packets, r.Packet)
		}
	case luck < 82:
		do := n.service.Start
		if w.rand.IntN(2) == 0 {
			do = n.service.Complete
		}
		r, err := do(ctx, who, Work{InContract: Of(w.project, c.ID), Files: []string{"f"}})
		if w.done(err) {
			impl, _ := r.Contract.Implementation(r.Repo)
			w.acked.work[c.ID] = append(w.acked.work[c.ID], impl)
			w.moved(n, r.Contract, false)
		}
	case luck < 88:
		result := []string{VerifySuccess, VerifyFailure, VerifyPartial}[w.rand.IntN(3)]
		r, err := n.service.Verify(ctx, who, Verification{InContract: Of(w.project, c.ID), Result: result})
		if w.done(err) {
			w.moved(n, r.Contract, false)
		}
	case luck < 90:
		if _, _, err := n.service.LeaveProject(ctx, who, w.project, As{}); w.done(err) {
			delete(w.acked.claims, repo.ID)
		}
	case luck < 96:
		p, err := n.service.Share(ctx, who, NewPacket{InProject: In(w.project), Type: coord.ContextProgress, Content: content, Relations: Relations{Related: []coord.ContractID{c.ID}}})
		if w.done(err) {
			w.acked.packets = append(w.acked.packets, p.ID)
		}
	case luck < 98:
		// Every hub may claim a repository that is free as far as it knows.
		p, err := n.service.Project(ctx, who, w.project)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range p.Repos {
			if r.Agent != "" || !strings.HasPrefix(r.Name, "more") {
				continue
			}
			agent := hub.Caller{ID: "other", AID: n.aid + "-" + coord.AID(r.ID)}
			if _, _, err := n.service.JoinProject(ctx, agent, w.project, r.Name, ""); w.done(err) {
				w.claimed(r.ID, agent.AID)
			}
		}
	default:
		if len(w.acked.repos) < 5 {
			w.ids++
			r, err := n.service.AddRepo(ctx, who, w.project, As{}, coord.Repo{Name: fmt.Sprint("more", w.ids), Role: "shared", Language: "go"})
			if w.done(err) {
				w.acked.repos = append(w.acked.repos, r.ID)
			}
		}
	}
}

// term declares or removes a use of a contract, or announces the end of a part of it.
func (w *network) term(n *node, c coord.Contract) {
	ctx := context.Background()
	if w.rand.IntN(4) == 0 {
		_, err := n.service.Deprecate(ctx, n.caller(), Announcement{InContract: Of(w.project, c.ID), Part: []string{"", "/n"}[w.rand.IntN(2)], Until: "2030-01-01"})
		if hub.CodeOf(err) != hub.CodeDenied {
			w.done(err)
		}
		return
	}
	if w.rand.IntN(4) == 0 {
		w.hand(n, c)
		return
	}
	d := Declaration{InContract: Of(w.project, c.ID), Remove: w.rand.IntN(4) == 0}
	if w.rand.IntN(2) == 0 {
		d.Parts = []string{[]string{"/n", "/m"}[w.rand.IntN(2)]}
	}
	if _, err := n.service.Use(ctx, n.caller(), d); err != nil {
		if hub.CodeOf(err) != hub.CodeInvalid { // a provider is no consumer
			w.done(err)
		}
		return
	}
	now, err := n.service.Contract(ctx, n.caller(), w.project, c.ID, false)
	if err != nil {
		w.t.Fatal(err)
	}
	if now.UpdatedAt != c.UpdatedAt {
		w.moved(n, now, false)
	}
}

// hand asks for another provider of a contract or consents to one, or withdraws the contract.
func (w *network) hand(n *node, c coord.Contract) {
	ctx := context.Background()
	if w.rand.IntN(8) == 0 {
		_, err := n.service.Withdraw(ctx, n.caller(), Announcement{InContract: Of(w.project, c.ID), Anyway: true})
		if hub.CodeOf(err) != hub.CodeDenied {
			w.done(err)
		}
		return
	}
	if w.rand.IntN(4) == 0 {
		w.test(n, c)
		return
	}
	who := n.caller()
	if w.rand.IntN(3) == 0 {
		who = hub.Caller{ID: hub.Operator}
	}
	flow := []string{"", "", "request", "response"}[w.rand.IntN(4)]
	_, err := n.service.Provide(ctx, who, ProviderChange{InContract: Of(w.project, c.ID), Provider: w.nodes[w.rand.IntN(2)].repo, Flow: flow})
	if hub.CodeOf(err) != hub.CodeDenied { // its word does not count
		w.done(err)
	}
}

// test names a check as the test of a contract, or takes that back.
func (w *network) test(n *node, c coord.Contract) {
	p, err := n.service.Project(context.Background(), n.caller(), w.project)
	if err != nil {
		w.t.Fatal(err)
	}
	repo := p.Repos[w.rand.IntN(2)]
	x := TestChange{InContract: Of(p.ID, c.ID), Check: []string{"unit", "lint"}[w.rand.IntN(2)], Remove: w.rand.IntN(3) == 0}
	err = n.service.update(context.Background(), n.caller(), "", func(se *session) error {
		was, err := contract(se.tx, "test", p.ID, c.ID)
		if err == nil {
			_, err = se.putTest(p, repo, was, x)
		}
		return err
	})
	if w.done(err) {
		w.acked.tests[c.ID] = append(w.acked.tests[c.ID], coord.ContractTest{Repo: repo.ID, Check: x.Check})
	}
}

// environment declares an environment or removes it.
func (w *network) environment(n *node) {
	name := []string{"prod", "staging"}[w.rand.IntN(2)]
	removed := w.rand.IntN(3) == 0
	err := n.service.update(context.Background(), n.caller(), "", func(se *session) error {
		p, err := project(se.tx, "test", w.project)
		if err == nil {
			err = se.putEnvironment(p, name, removed)
		}
		return err
	})
	if w.done(err) {
		w.acked.environments = append(w.acked.environments, name)
	}
}

// setMember writes the policy, the status or an environment of the project.
func (w *network) setMember(n *node) {
	if w.rand.IntN(4) == 0 {
		w.environment(n)
		return
	}
	x := write{thing: projectThing, member: coord.MemberPolicy, value: string(coord.AgreementPolicies[w.rand.IntN(3)])}
	var err error
	who := n.caller()
	who.Role = hub.RoleCoordinator
	if w.rand.IntN(2) == 0 {
		_, err = n.service.SetPolicy(context.Background(), who, w.project, coord.AgreementPolicy(x.value))
	} else {
		x.member, x.value = coord.MemberStatus, string(coord.ProjectStatuses[w.rand.IntN(4)])
		_, err = n.service.SetStatus(context.Background(), who, w.project, coord.ProjectStatus(x.value))
	}
	if w.done(err) {
		w.acknowledge(n, x)
	}
}

// claimed notes a claim that a caller was told of.
func (w *network) claimed(repo coord.RepoID, by coord.AID) {
	if !slices.Contains(w.acked.claims[repo], by) {
		w.acked.claims[repo] = append(w.acked.claims[repo], by)
	}
}

// recorded returns the facts of the conflicts in the journals of all hubs.
func (w *network) recorded() (members, claims []facts) {
	for _, n := range w.nodes {
		err := n.store.View(context.Background(), func(r hub.Reader) error {
			for after := int64(0); ; {
				page, err := r.Journal(hub.JournalQuery{After: after, Limit: 1000})
				if err != nil || len(page) == 0 {
					return err
				}
				for _, e := range page {
					after = e.Seq
					if e.Action != actions.ProjectConflict && e.Action != actions.ContractConflict && e.Action != actions.RepoLost {
						continue
					}
					var f facts
					if err := json.Unmarshal(e.Facts, &f); err != nil {
						return err
					}
					switch {
					case e.Action == actions.RepoLost:
						claims = append(claims, f)
					case f.Action != "": // a write, not a content
						f.Digest = e.Subject
						members = append(members, f)
					}
				}
			}
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return members, claims
}

// undone returns the acknowledged writes that have no effect, though no write that
// replaced them knew them and no conflict was recorded.
func (w *network) undone(p federation.ProjectCopy) (out []string) {
	members, claims := w.recorded()
	for i, x := range w.acked.writes {
		thing, value, version := string(w.project), p.Member(x.member), 0
		if x.thing != projectThing {
			c := p.Contracts[slices.IndexFunc(p.Contracts, func(c coord.Contract) bool { return string(c.ID) == x.thing })]
			thing, value, version = x.thing, string(c.Status), c.Version
			// A status that follows from agreements and work undoes nothing.
			if next := coord.ContractStatus(value); next == coord.ContractImplemented && x.value == string(coord.ContractAgreed) ||
				x.value == string(coord.ContractProposed) && (next == coord.ContractAgreed || next == coord.ContractImplemented) {
				value = x.value
			}
		}
		if x.partial || value == x.value && version == x.version || version > x.version {
			continue
		}
		if slices.ContainsFunc(w.acked.writes, func(y write) bool { return y.thing == x.thing && y.member == x.member && y.known[i] }) {
			continue
		}
		if !slices.ContainsFunc(members, func(f facts) bool {
			return f.Digest == thing && f.Action == x.member && f.Status == x.value && f.Version == x.version && f.Agent == x.by
		}) {
			out = append(out, fmt.Sprintf("%v, it is %q", x, value))
		}
	}
	for id, agents := range w.acked.claims {
		r, _ := p.Repo(id)
		for _, agent := range agents {
			if r.Agent != agent && !slices.ContainsFunc(claims, func(f facts) bool { return f.Repo == id && f.Agent == agent }) {
				out = append(out, fmt.Sprintf("claim of %s by %s, it is claimed by %q", id, agent, r.Agent))
			}
		}
	}
	return out
}

// done reports whether something was acknowledged. What is wrong for another
// reason than the state of things fails the test.
func (w *network) done(err error) bool {
	switch hub.CodeOf(err) {
	case "":
		return true
	case hub.CodeConflict, hub.CodeNotFound, hub.CodePolicy:
		return false
	}
	w.t.Fatal(err)
	return false
}

// heal brings everything to everyone.
func (w *network) heal() {
	w.cut = nil
	for range 1000 {
		moved := false
		for a := range w.nodes {
			for b := range w.nodes {
				if a != b && !w.apart(a, b) && w.send(a, b, true) {
					moved = true
				}
			}
		}
		if !moved {
			return
		}
	}
	w.t.Fatal("the hubs do not come to rest")
}

// state returns everything that a hub knows of the project.
func (w *network) state(n *node) string {
	var b bytes.Buffer
	p, err := n.service.Project(context.Background(), hub.Caller{}, w.project)
	if err != nil {
		w.t.Fatal(err)
	}
	var head coord.Project
	err = n.store.View(context.Background(), func(r hub.Reader) (err error) {
		head, err = r.Coordination().Project(w.project)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(&b, "policy %s environments %v stamps %v\n", p.Policy, head.Environments, head.Stamps)
	contracts, err := n.service.Contracts(context.Background(), hub.Caller{}, coord.ContractQuery{Project: w.project})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range contracts {
		if _, uses := c.Terms.Use(c.Terms.Provider); uses {
			w.t.Errorf("contract %s: its provider is a consumer", c.ID)
		}
		fmt.Fprintf(&b, "%s provider %s uses %v tests %v ends %v stamps %v\n", c.ID, c.Terms.Provider, c.Terms.Uses, c.Terms.Tests, c.Terms.Ends, c.Stamps)
	}
	if err := n.service.WriteProject(context.Background(), hub.Caller{}, w.project, &b, nil); err != nil {
		w.t.Fatal(err)
	}
	sum, err := n.service.Summary(context.Background(), w.project, "")
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n%+v", sum)
	return b.String()
}

// missing returns what was acknowledged and is not there.
func (w *network) missing(n *node) (out []string) {
	var b bytes.Buffer
	if err := n.service.WriteProject(context.Background(), hub.Caller{}, w.project, &b, nil); err != nil {
		w.t.Fatal(err)
	}
	p, err := federation.DecodeProject(b.Bytes())
	if err != nil {
		w.t.Fatalf("what was written cannot be read: %v", err)
	}
	find := func(id coord.ContractID) coord.Contract {
		i := slices.IndexFunc(p.Contracts, func(c coord.Contract) bool { return c.ID == id })
		if i < 0 {
			out = append(out, fmt.Sprintf("contract %s", id))
			return coord.Contract{}
		}
		return p.Contracts[i]
	}
	for id, contents := range w.acked.contents {
		c := find(id)
		all := slices.Concat(c.History, c.Conflicts, []coord.ContractVersion{{Version: c.Version, Content: c.Content}})
		for _, v := range contents {
			if !slices.ContainsFunc(all, func(x coord.ContractVersion) bool { return sameContent(x, v) }) {
				out = append(out, fmt.Sprintf("contract %s version %d content %s", id, v.Version, v.Content))
			}
		}
	}
	for id, agreements := range w.acked.agreements {
		c := find(id)
		for _, a := range agreements {
			if !slices.ContainsFunc(c.Agreements, func(x coord.Agreement) bool {
				return x.Repo == a.Repo && x.Version == a.Version && x.Content == a.Content
			}) {
				out = append(out, fmt.Sprintf("contract %s agreement %+v", id, a))
			}
		}
	}
	for id, work := range w.acked.work {
		c := find(id)
		for _, i := range work {
			if is, ok := c.Implementation(i.Repo); !ok || is.At().Compare(i.At()) < 0 {
				out = append(out, fmt.Sprintf("contract %s implementation %+v, it is %+v", id, i, is))
			}
		}
	}
	for id, tests := range w.acked.tests {
		c := find(id)
		for _, x := range tests {
			if !slices.ContainsFunc(c.Terms.Tests, func(t coord.ContractTest) bool { return t.Repo == x.Repo && t.Check == x.Check }) {
				out = append(out, fmt.Sprintf("contract %s test %+v", id, x))
			}
		}
	}
	for _, name := range w.acked.environments {
		if !slices.ContainsFunc(p.Environments, func(e coord.Environment) bool { return e.Name == name }) {
			out = append(out, "environment "+name)
		}
	}
	for _, id := range w.acked.packets {
		if !slices.ContainsFunc(p.Packets, func(x coord.Packet) bool { return x.ID == id }) {
			out = append(out, fmt.Sprintf("packet %s", id))
		}
	}
	for _, id := range w.acked.repos {
		if r, ok := p.Repo(id); !ok || (r.Agent == "") != (len(w.acked.claims[id]) == 0) {
			out = append(out, fmt.Sprintf("repository %s claimed by %q", id, w.acked.claims[id]))
		}
	}
	var head coord.Project // with the status that was written, not the one that follows
	err = n.store.View(context.Background(), func(r hub.Reader) (err error) {
		head, err = r.Coordination().Project(w.project)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Project = head
	for _, s := range w.undone(p) {
		out = append(out, "undone without a conflict: "+s)
	}
	return out
}

// converge runs one schedule. It returns the number of contracts whose contents were
// in conflict, and the number of journal rows about writes that lost.
func converge(t *testing.T, seed uint64, steps int, store func(n int) (hub.Store, func() hub.Store)) (conflicts, lost int) {
	t.Helper()
	w := newNetwork(t, seed, store)
	for w.project == "" {
		w.operate(w.nodes[0])
	}
	for range steps {
		w.step()
	}
	w.heal()
	want := w.state(w.nodes[0])
	for _, n := range w.nodes[1:] {
		if got := w.state(n); got != want {
			t.Fatalf("seed %d: hubs 0 and %d differ:\n%s\n%s", seed, n.n, want, got)
		}
	}
	if missing := w.missing(w.nodes[0]); len(missing) > 0 {
		t.Fatalf("seed %d: acknowledged and missing: %s", seed, strings.Join(missing, "; "))
	}
	members, _ := w.recorded()
	return strings.Count(want, `"conflicts":`), len(members)
}

func TestConvergence(t *testing.T) {
	t.Parallel()
	t.Run("R1-056 three hubs come to the same state, whatever the network and the clocks do; nothing acknowledged is missing, or undone without a recorded conflict", func(t *testing.T) {
		t.Parallel()
		if storetest.Postgres() {
			t.Skip("these hubs have their store in memory")
		}
		conflicts, lost := 0, 0
		n := number(t, "PARLEY_SCHEDULES", schedules)
		for seed := range n {
			c, l := converge(t, seed, 60, func(int) (hub.Store, func() hub.Store) { return newMemory(), nil })
			conflicts, lost = conflicts+c, lost+l
		}
		if conflicts < int(n)/100 || lost < int(n)/100 {
			t.Errorf("%d conflicts of contents and %d of members in %d schedules: they try nothing", conflicts, lost, n)
		}
	})
	t.Run("R1-056 three hubs on disk that are restarted come to the same state", func(t *testing.T) {
		t.Parallel()
		n := number(t, "PARLEY_DISK_SCHEDULES", diskSchedules)
		if storetest.Postgres() {
			n = min(n, 2) // an empty database takes longer to make than a file
		}
		for seed := range n {
			converge(t, 1_000_000+seed, 100, func(int) (hub.Store, func() hub.Store) { return onDisk(t) })
		}
	})
}

// number returns the number in an environment variable, or else n. make fuzz sets
// those of the schedules.
func number(t *testing.T, name string, n uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return n
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// onDisk returns a store on disk, and how to close it and open it again.
func onDisk(t *testing.T) (hub.Store, func() hub.Store) {
	t.Helper()
	home := storetest.NewHome(t, t.TempDir())
	s := home.Open()
	t.Cleanup(func() { s.Close() })
	return s, func() hub.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = home.Open()
		return s
	}
}
