package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

const (
	backAID  coord.AID = "aid://example.com/backend@1.0.0"
	frontAID coord.AID = "aid://example.com/frontend@1.0.0"
)

// A desk is a hub with a project, and what agents do at it.
type desk struct {
	*testing.T
	store hub.Store
	*contract.Service
	clock *clock

	back, front hub.Caller
	project     coord.Project
}

// A clock moves on by a millisecond each time it is read.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// add lets time pass.
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

// newDesk returns a hub of the repository backend-api.
func newDesk(t *testing.T, change func(*contract.Options)) *desk {
	t.Helper()
	store := storetest.Open(t, t.TempDir())
	d := &desk{T: t, store: store, clock: &clock{now: start}}
	opts := &contract.Options{Clock: d.clock.read, Self: backAID, Repo: "backend-api", Endpoint: "https://back"}
	if change != nil {
		change(opts)
	}
	d.Service = contract.New(store, opts)
	d.back = hub.Caller{ID: "ada"}
	d.front = hub.Caller{ID: "bob", AID: frontAID}
	return d
}

// begin makes the project of the protocol's example, with both repositories
// claimed.
func (d *desk) begin() *desk {
	d.Helper()
	p, err := d.CreateProject(d.Context(), d.back, contract.NewProject{
		Name: "User Auth Feature", Objective: "Implement OAuth 2.0 login across frontend and backend",
		Repos: []coord.Repo{{Name: "backend-api", Role: "backend", Language: "python"}, {Name: "frontend-app", Role: "frontend", Language: "typescript"}},
	})
	d.ok(err)
	d.project, _, err = d.JoinProject(d.Context(), d.front, p.ID, "frontend-app", "http://frontend-agent:8081")
	d.ok(err)
	return d
}

func (d *desk) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// refused checks the code of an error and, if text is given, what it says.
func (d *desk) refused(err error, want hub.Code, text string) {
	d.Helper()
	if got := hub.CodeOf(err); got != want || err != nil && !strings.Contains(err.Error(), text) {
		d.Errorf("got %q (%v), want %q with %q", got, err, want, text)
	}
}

const profile = `{"method":"GET","path":"/api/v1/users/profile","headers":{"Authorization":"Bearer {token}"},"responseBody":{"type":"object"}}`

// propose makes a contract of the backend.
func (d *desk) propose() coord.Contract {
	d.Helper()
	r, err := d.Propose(d.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractAPI, Name: "Get User Profile", Content: json.RawMessage(profile)})
	d.ok(err)
	return r.Contract
}

func (d *desk) respond(who hub.Caller, c coord.Contract, action, comment string) (contract.Result, error) {
	if action == contract.ActionRequestChange && comment == "" {
		comment = "more"
	}
	return d.Respond(d.Context(), who, contract.Response{InContract: contract.Of(c.Project, c.ID), Action: action, Comment: comment})
}

// agreeAndReopen has the frontend agree to a contract, and then request a change of it.
func (d *desk) agreeAndReopen(c coord.Contract) {
	d.Helper()
	for _, action := range []string{contract.ActionAgree, contract.ActionRequestChange} {
		_, err := d.respond(d.front, c, action, "")
		d.ok(err)
	}
}

// bring brings a new contract to a status.
func (d *desk) bring(to coord.ContractStatus) coord.Contract {
	d.Helper()
	c := d.propose()
	steps := []struct {
		until coord.ContractStatus
		do    func()
	}{
		{coord.ContractAgreed, func() { _, err := d.respond(d.front, c, contract.ActionAgree, ""); d.ok(err) }},
		{coord.ContractImplemented, func() { d.implement(c, d.back); d.implement(c, d.front) }},
		{coord.ContractVerified, func() { d.verify(c, contract.VerifySuccess) }},
	}
	if to == coord.ContractNegotiating {
		_, err := d.respond(d.front, c, contract.ActionRequestChange, "")
		d.ok(err)
	} else {
		for _, step := range steps {
			if to.Reaches(step.until) {
				step.do()
			}
		}
	}
	c = d.read(c)
	if c.Status != to {
		d.Fatalf("got %s, want %s", c.Status, to)
	}
	return c
}

func (d *desk) work(c coord.Contract) contract.Work {
	return contract.Work{InContract: contract.Of(c.Project, c.ID), Plan: "with SQLAlchemy", Files: []string{"src/routes/user.py"}}
}

func (d *desk) implement(c coord.Contract, who hub.Caller) {
	d.Helper()
	_, err := d.Start(d.Context(), who, d.work(c))
	d.ok(err)
	_, err = d.Complete(d.Context(), who, d.work(c))
	d.ok(err)
}

func (d *desk) verify(c coord.Contract, result string) contract.Result {
	d.Helper()
	r, err := d.Verify(d.Context(), d.front, contract.Verification{InContract: contract.Of(c.Project, c.ID), Result: result, Notes: "integration tests"})
	d.ok(err)
	return r
}

// read returns a contract with everything.
func (d *desk) read(c coord.Contract) coord.Contract {
	d.Helper()
	c, err := d.Contract(d.Context(), d.back, c.Project, c.ID, true)
	d.ok(err)
	return c
}

// changes returns the log of changes after a number.
func (d *desk) changes(after int64) []hub.Change {
	d.Helper()
	all, err := d.Changes(d.Context(), after, 1000)
	d.ok(err)
	return all
}

// last returns the newest change.
func (d *desk) last() hub.Change {
	d.Helper()
	all := d.changes(0)
	return all[len(all)-1]
}

// journal returns the actions of the journal in order.
func (d *desk) journal() (actions []actions.Action) {
	d.Helper()
	d.ok(d.store.View(d.Context(), func(r hub.Reader) error {
		all, err := r.Journal(hub.JournalQuery{After: 0, Limit: 1000})
		for _, e := range all {
			actions = append(actions, e.Action)
		}
		return err
	}))
	return actions
}

func equal[T any](d *desk, what string, got, want T) {
	d.Helper()
	if !reflect.DeepEqual(got, want) {
		d.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// whole returns the project as the protocol has it.
func (d *desk) whole(extra json.RawMessage) []byte {
	d.Helper()
	var b bytes.Buffer
	d.ok(d.WriteProject(d.Context(), d.back, d.project.ID, &b, extra))
	return b.Bytes()
}

func TestProject(t *testing.T) {
	t.Parallel()
	t.Run("R1-021 a project is created with its repositories, and the hub's own is claimed", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		p, err := d.Project(t.Context(), d.back, d.project.ID)
		d.ok(err)
		equal(d, "name", p.Name, "User Auth Feature")
		equal(d, "status", p.Status, coord.ProjectPlanning)
		equal(d, "repos", len(p.Repos), 2)
		own, _ := p.RepoNamed("backend-api")
		equal(d, "agent", own.Agent, backAID)
		equal(d, "endpoint", own.Endpoint, "https://back")
	})
	t.Run("R1-021 what is wrong with a project is refused and stores nothing", func(t *testing.T) {
		d := newDesk(t, nil)
		good := coord.Repo{Name: "a", Role: "backend", Language: "go"}
		for name, p := range map[string]contract.NewProject{
			"name":     {Objective: "x"},
			"role":     {Name: "x", Repos: []coord.Repo{{Name: "a", Language: "go"}}},
			"language": {Name: "x", Repos: []coord.Repo{{Name: "a", Role: "shared"}}},
			"named":    {Name: "x", Repos: []coord.Repo{good, good}}, // A repository twice.
			"policy":   {Name: "x", Policy: "most"},
		} {
			_, err := d.CreateProject(t.Context(), d.back, p)
			d.refused(err, hub.CodeInvalid, name)
		}
		all, err := d.Projects(t.Context(), d.back, "", 0)
		d.ok(err)
		equal(d, "projects", len(all), 0)
		equal(d, "journal", len(d.journal()), 0)
	})
	t.Run("R1-022 a new project is in the log that peers are told from", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		first := d.changes(0)[0]
		equal(d, "kind", first.Kind, hub.ChangeProject)
		copies, err := d.Copies(t.Context(), frontAID, []hub.Change{first})
		d.ok(err)
		equal(d, "copy", copies[0].Head.Name, "User Auth Feature")
	})
	t.Run("R1-023 joining claims a repository, and again is a success", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		n := len(d.changes(0))
		_, again, err := d.JoinProject(t.Context(), d.front, d.project.ID, "frontend-app", "")
		d.ok(err)
		equal(d, "agent", again.Agent, frontAID)
		equal(d, "endpoint", again.Endpoint, "http://frontend-agent:8081")
		equal(d, "changes", len(d.changes(0)), n)
		_, moved, err := d.JoinProject(t.Context(), d.front, d.project.ID, "frontend-app", "http://elsewhere")
		d.ok(err)
		equal(d, "endpoint", moved.Endpoint, "http://elsewhere")
		equal(d, "claim", moved.ClaimedAt, again.ClaimedAt)
		_, _, err = d.JoinProject(t.Context(), d.front, d.project.ID, "nowhere", "")
		d.refused(err, hub.CodeNotFound, "Repository nowhere not found")
		_, _, err = d.JoinProject(t.Context(), d.front, "nothing", "frontend-app", "")
		d.refused(err, hub.CodeNotFound, "Project nothing not found")
	})
	t.Run("R1-024 a repository that another agent holds cannot be claimed", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		_, _, err := d.JoinProject(t.Context(), hub.Caller{AID: "aid://evil/x@1.0.0"}, d.project.ID, "frontend-app", "")
		d.refused(err, hub.CodeConflict, "claimed by "+string(frontAID))
	})
	t.Run("R1-025 a claim is in the log that peers are told from", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		last := d.last()
		equal(d, "kind", last.Kind, hub.ChangeRepo)
		copies, err := d.Copies(t.Context(), "", []hub.Change{last})
		d.ok(err)
		equal(d, "copy", copies[0].Repo.Agent, frontAID)
	})
	t.Run("R1-026 a project is written whole, an unknown one is refused", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for range 130 { // several pages
			d.propose()
		}
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{"a":"<b>&"}`)})
		d.ok(err)
		p, err := federation.DecodeProject(d.whole(json.RawMessage(`{"repoCount":2}`)))
		d.ok(err)
		equal(d, "contracts", len(p.Contracts), 130)
		equal(d, "packets", len(p.Packets), 1)
		var out bytes.Buffer
		d.refused(d.WriteProject(t.Context(), d.back, "nothing", &out, nil), hub.CodeNotFound, "not found")
		equal(d, "written", out.Len(), 0)
	})
	t.Run("R1-027 projects are listed page by page", func(t *testing.T) {
		d := newDesk(t, nil)
		for i := range 3 {
			_, err := d.CreateProject(t.Context(), d.back, contract.NewProject{Name: fmt.Sprint(i)})
			d.ok(err)
		}
		first, err := d.Projects(t.Context(), d.back, "", 2)
		d.ok(err)
		rest, err := d.Projects(t.Context(), d.back, first[1].ID, 2)
		d.ok(err)
		if len(first) != 2 || len(rest) != 1 {
			t.Errorf("got %d and %d", len(first), len(rest))
		}
	})
	t.Run("R1-012 the status follows from the contracts, and goes back no further than implementing", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		want := func(s coord.ProjectStatus) {
			t.Helper()
			p, err := d.Project(t.Context(), d.back, d.project.ID)
			d.ok(err)
			equal(d, "status", p.Status, s)
		}
		c := d.bring(coord.ContractAgreed)
		want(coord.ProjectPlanning)
		_, err := d.Start(t.Context(), d.back, d.work(c))
		d.ok(err)
		want(coord.ProjectImplementing)
		d.implement(c, d.back)
		d.implement(c, d.front)
		want(coord.ProjectIntegrating)
		d.verify(c, contract.VerifyFailure)
		want(coord.ProjectImplementing)
		d.implement(c, d.back)
		d.implement(c, d.front)
		d.verify(c, contract.VerifySuccess)
		want(coord.ProjectComplete)
		d.propose()
		want(coord.ProjectImplementing)
		_, err = d.SetStatus(t.Context(), d.back, d.project.ID, coord.ProjectIntegrating)
		d.ok(err)
		want(coord.ProjectIntegrating)
		_, err = d.SetStatus(t.Context(), d.back, d.project.ID, "done")
		d.refused(err, hub.CodeInvalid, "status")
	})
	t.Run("a paused agent changes nothing", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		paused := d.back
		paused.Paused = true
		_, err := d.Propose(t.Context(), paused, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{}`)})
		d.refused(err, hub.CodeDenied, "paused")
	})
}

func TestContract(t *testing.T) {
	t.Parallel()
	t.Run("R1-028 a proposal is version 1 and proposed", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.read(d.propose())
		equal(d, "version", c.Version, 1)
		equal(d, "status", c.Status, coord.ContractProposed)
		equal(d, "content", string(c.Content), profile)
		own, _ := d.project.RepoNamed("backend-api")
		equal(d, "proposed by", c.ProposedBy, own.ID)
	})
	t.Run("R1-014 only the six types are taken", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		equal(d, "types", len(coord.ContractTypes), 6)
		for _, typ := range append(slices.Clone(coord.ContractTypes), "", "API_ENDPOINT", "graph") {
			_, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: typ, Name: "x", Content: json.RawMessage(`{}`)})
			if typ.Known() {
				d.ok(err)
			} else {
				d.refused(err, hub.CodeInvalid, "type")
			}
		}
	})
	t.Run("content must be an object, and who proposes a member", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for _, content := range []string{``, `[]`, `"x"`, `null`, `{"a":1,"a":2}`, `{`, "{\"a\":\"\xff\"}"} {
			_, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(content)})
			d.refused(err, hub.CodeInvalid, "")
		}
		_, err := d.Propose(t.Context(), hub.Caller{AID: "aid://other/x@1.0.0"}, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{}`)})
		d.refused(err, hub.CodeConflict, "Not a member of project")
		_, err = d.Propose(t.Context(), d.back, contract.Proposal{Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{}`)})
		d.refused(err, hub.CodeInvalid, "projectId required")
	})
	t.Run("content of an unusual shape is taken with a warning", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		for _, test := range []struct {
			typ     coord.ContractType
			content string
			want    []string
		}{
			{coord.ContractAPI, profile, nil},
			{coord.ContractAPI, `{}`, []string{"no method", "no path"}},
			{coord.ContractAPI, `{"method":"FETCH","path":"users","requestBody":7}`, []string{"FETCH", "does not begin with /", "requestBody is neither"}},
			{coord.ContractEvent, `{"event":"user.created","payload":{}}`, nil},
			{coord.ContractEvent, `{"payload":"text"}`, []string{"none of event", "payload is neither"}},
			{coord.ContractModel, `{"fields":{}}`, nil},
			{coord.ContractModel, `{"x":1}`, []string{"none of fields"}},
			{coord.ContractCustom, `{"x":1}`, nil},
		} {
			r, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: test.typ, Name: "x", Content: json.RawMessage(test.content)})
			d.ok(err)
			if len(r.Warnings) != len(test.want) {
				t.Errorf("%s %s: got %q, want %q", test.typ, test.content, r.Warnings, test.want)
				continue
			}
			for i, want := range test.want {
				if !strings.Contains(r.Warnings[i], want) {
					t.Errorf("%s %s: got %q, want %q", test.typ, test.content, r.Warnings[i], want)
				}
			}
		}
	})
	t.Run("every change of a contract is in the log that peers are told from", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		var c coord.Contract
		for _, step := range []struct {
			rule string
			do   func() error
		}{
			{"R1-029 a proposal", func() error { c = d.propose(); return nil }},
			{"R1-034 an answer", func() error { _, err := d.respond(d.front, c, contract.ActionRequestChange, ""); return err }},
			{"R1-037 an update", func() error {
				_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`)})
				return err
			}},
			{"R1-034 an agreement", func() error { _, err := d.respond(d.front, c, contract.ActionAgree, ""); return err }},
			{"R1-045 the beginning of work", func() error { _, err := d.Start(t.Context(), d.back, d.work(c)); return err }},
			{"R1-045 the end of work", func() error { _, err := d.Complete(t.Context(), d.back, d.work(c)); return err }},
		} {
			before := d.last().Seq
			d.ok(step.do())
			now := d.changes(before)
			t.Run(step.rule+" is in the log that peers are told from", func(t *testing.T) {
				if !slices.ContainsFunc(now, func(x hub.Change) bool { return x.Kind == hub.ChangeContract && x.Object == string(c.ID) }) {
					t.Errorf("got %+v", now)
				}
			})
		}
		copies, err := d.Copies(t.Context(), "", d.changes(0))
		d.ok(err)
		n := 0
		for _, x := range copies {
			if x.Contract != nil {
				n++
				equal(d, "history", len(x.Contract.History), 1)
			}
		}
		equal(d, "copies of the contract", n, 1) // however often it changed
		equal(d, "the project comes first", copies[0].Head != nil, true)
	})
	t.Run("R1-033 each answer is possible from the right statuses only", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		want := map[string]map[coord.ContractStatus]coord.ContractStatus{
			contract.ActionAgree:         {coord.ContractProposed: coord.ContractAgreed, coord.ContractNegotiating: coord.ContractAgreed},
			contract.ActionRequestChange: {coord.ContractProposed: coord.ContractNegotiating, coord.ContractNegotiating: coord.ContractNegotiating, coord.ContractAgreed: coord.ContractNegotiating},
			contract.ActionReject:        {coord.ContractProposed: coord.ContractProposed, coord.ContractNegotiating: coord.ContractProposed, coord.ContractAgreed: coord.ContractProposed},
		}
		equal(d, "statuses", len(coord.ContractStatuses), 5)
		for action, moves := range want {
			for _, from := range coord.ContractStatuses {
				c := d.bring(from)
				r, err := d.respond(d.front, c, action, "")
				to, possible := moves[from]
				if !possible {
					d.refused(err, hub.CodeConflict, fmt.Sprintf("Cannot %s contract in status %s", action, from))
					equal(d, "status", d.read(c).Status, from)
					continue
				}
				d.ok(err)
				equal(d, fmt.Sprint(action, " from ", from), r.Contract.Status, to)
			}
		}
		_, err := d.respond(d.front, d.propose(), "maybe", "")
		d.refused(err, hub.CodeInvalid, "action")
		_, err = d.respond(d.front, coord.Contract{Project: d.project.ID, ID: "none"}, contract.ActionAgree, "")
		d.refused(err, hub.CodeNotFound, "Contract none not found")
	})
	t.Run("R1-030 agreeing makes a contract agreed, and says who did", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		r, err := d.respond(d.front, d.propose(), contract.ActionAgree, "Looks good!")
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractAgreed)
		equal(d, "outcome", r.Outcome, "agreed")
		equal(d, "version", r.Contract.Version, 1)
		c := d.read(r.Contract)
		equal(d, "agreed by", c.Agreements[0].Agent, frontAID)
	})
	t.Run("R1-031 a change is asked for, made and agreed to, and the comment is kept", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		r, err := d.Respond(t.Context(), d.front, contract.Response{
			InContract: contract.Of(c.Project, c.ID), Action: contract.ActionRequestChange, Comment: "avatar may be missing", Change: json.RawMessage(`{"avatar":null}`),
		})
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractNegotiating)
		equal(d, "outcome", r.Outcome, "change_requested")
		page, err := d.Packets(t.Context(), d.back, coord.PacketQuery{Project: c.Project, Contract: c.ID})
		d.ok(err)
		equal(d, "packet", page.Packets[0].ID, r.Packet)
		equal(d, "type", page.Packets[0].Type, coord.ContextQuestion)
		equal(d, "comment", strings.Contains(string(page.Packets[0].Content), "avatar may be missing"), true)
		u, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{"method":"GET","path":"/p"}`), Note: "nullable"})
		d.ok(err)
		equal(d, "version", u.Contract.Version, 2)
		r, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractAgreed)
		equal(d, "version", r.Contract.Version, 2)
	})
	t.Run("R1-032 a rejected contract is proposed again", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		r, err := d.respond(d.front, d.bring(coord.ContractAgreed), contract.ActionReject, "no")
		d.ok(err)
		equal(d, "outcome", r.Outcome, "rejected")
		equal(d, "status", r.Contract.Status, coord.ContractProposed)
	})
	t.Run("R1-035 an update replaces the content and keeps the old one with the note", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractNegotiating)
		_, err := d.Update(t.Context(), d.front, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(` { "b" : 1.50 } `), Note: "Made avatar field nullable"})
		d.ok(err)
		c = d.read(c)
		equal(d, "version", c.Version, 2)
		equal(d, "status", c.Status, coord.ContractProposed)
		equal(d, "content", string(c.Content), `{"b":1.50}`)
		other, _ := d.project.RepoNamed("frontend-app")
		equal(d, "proposed by", c.ProposedBy, other.ID)
		equal(d, "history", len(c.History), 1)
		equal(d, "old content", string(c.History[0].Content), profile)
		equal(d, "note", c.History[0].ChangeNotes, "Made avatar field nullable")
	})
	t.Run("R1-013 the version begins with 1 and rises by one with every update", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		for want := 1; want < 5; want++ {
			c = d.read(c)
			equal(d, "version", c.Version, want)
			equal(d, "history", len(c.History), want-1)
			_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`)})
			d.ok(err)
		}
	})
	t.Run("R1-036 an update is refused once a contract is implemented, or earlier if the hub is strict", func(t *testing.T) {
		update := func(d *desk, c coord.Contract) error {
			_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`)})
			return err
		}
		d := newDesk(t, nil).begin()
		strict := newDesk(t, func(o *contract.Options) { o.Strict = true }).begin()
		for _, from := range coord.ContractStatuses {
			err := update(d, d.bring(from))
			if from.Reaches(coord.ContractImplemented) {
				d.refused(err, hub.CodeConflict, "Cannot update contract in status")
			} else {
				d.ok(err)
			}
			err = update(strict, strict.bring(from))
			if from != coord.ContractNegotiating {
				strict.refused(err, hub.CodeConflict, "Cannot update contract in status")
			} else {
				strict.ok(err)
			}
		}
	})
	t.Run("an answer or an update that is meant for another version is refused", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`), Version: 1})
		d.ok(err)
		_, err = d.Respond(t.Context(), d.front, contract.Response{InContract: contract.Of(c.Project, c.ID), Action: contract.ActionAgree, Version: 1})
		d.refused(err, hub.CodeConflict, "is now at version 2, not 1")
	})
	t.Run("the policy says whose word makes a contract agreed", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		_, err := d.AddRepo(t.Context(), d.back, d.project.ID, contract.As{}, coord.Repo{Name: "mobile", Role: "mobile", Language: "kotlin"})
		d.ok(err)
		mobile := hub.Caller{AID: "aid://example.com/mobile@1.0.0"}
		_, _, err = d.JoinProject(t.Context(), mobile, d.project.ID, "mobile", "")
		d.ok(err)
		set := func(p coord.AgreementPolicy) {
			_, err := d.SetPolicy(t.Context(), d.back, d.project.ID, p)
			d.ok(err)
		}
		equal(d, "the default", d.project.Policy, coord.AgreeCounterparty)
		c := d.propose()
		_, err = d.respond(d.back, c, contract.ActionAgree, "")
		d.refused(err, hub.CodePolicy, "itself")
		set(coord.AgreeAny)
		r, err := d.respond(d.back, d.propose(), contract.ActionAgree, "")
		d.ok(err) // any: also who proposed it
		equal(d, "any", r.Contract.Status, coord.ContractAgreed)

		set(coord.AgreeCounterparty)
		r, err = d.respond(mobile, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "counterparty", r.Contract.Status, coord.ContractAgreed)

		set(coord.AgreeAll)
		c = d.propose()
		_, err = d.respond(d.back, c, contract.ActionAgree, "")
		d.refused(err, hub.CodePolicy, "itself")
		r, err = d.respond(mobile, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "one of two", r.Contract.Status, coord.ContractProposed)
		equal(d, "missing", r.Pending[0].Name, "frontend-app")
		_, err = d.respond(d.front, c, contract.ActionRequestChange, "")
		d.ok(err)
		r, err = d.respond(d.front, c, contract.ActionAgree, "")
		d.ok(err) // what mobile said before the change was asked for does not count
		equal(d, "missing", r.Pending[0].Name, "mobile")
		r, err = d.respond(mobile, c, contract.ActionAgree, "")
		d.ok(err)
		equal(d, "all", r.Contract.Status, coord.ContractAgreed)
	})
	t.Run("with the policy all a contract is agreed by another repository, after it was last reopened", func(t *testing.T) {
		for _, test := range []struct {
			rule string
			do   func(d *desk, c coord.Contract)
			want coord.ContractStatus
		}{
			{"the proposer alone does not make it agreed", func(*desk, coord.Contract) {}, coord.ContractProposed},
			{"an agreement from before it was reopened does not count", func(d *desk, c coord.Contract) {
				d.agreeAndReopen(c)
			}, coord.ContractNegotiating},
			{"an agreement from after it was reopened counts", func(d *desk, c coord.Contract) {
				d.agreeAndReopen(c)
				_, err := d.respond(d.front, c, contract.ActionAgree, "")
				d.ok(err)
			}, coord.ContractAgreed},
		} {
			t.Run(test.rule, func(t *testing.T) {
				d := newDesk(t, nil).begin()
				// The content names its proposer alone, so that the policy waits for no other.
				r, err := d.Propose(t.Context(), d.back, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "x", Content: json.RawMessage(`{"parties":["backend-api"]}`)})
				d.ok(err)
				test.do(d, r.Contract)
				_, err = d.SetPolicy(t.Context(), d.back, d.project.ID, coord.AgreeAll)
				d.ok(err)
				equal(d, "status", d.read(r.Contract).Status, test.want)
			})
		}
	})
	t.Run("R1-070 a contract is read with its history only if asked for", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(`{}`)})
		d.ok(err)
		short, err := d.Contract(t.Context(), d.back, c.Project, c.ID, false)
		d.ok(err)
		equal(d, "short", len(short.History), 0)
		equal(d, "long", len(d.read(c).History), 1)
	})
	t.Run("R1-071 contracts are listed by status and type, page by page", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		d.propose()
		agreed := d.bring(coord.ContractAgreed)
		got, err := d.Contracts(t.Context(), d.back, coord.ContractQuery{Project: d.project.ID, Status: coord.ContractAgreed, Type: coord.ContractAPI})
		d.ok(err)
		equal(d, "agreed", len(got) == 1 && got[0].ID == agreed.ID, true)
		got, err = d.Contracts(t.Context(), d.back, coord.ContractQuery{Project: "unknown"})
		d.ok(err)
		equal(d, "of an unknown project", len(got), 0)
		_, err = d.Contracts(t.Context(), d.back, coord.ContractQuery{Project: d.project.ID, Status: "rejected"})
		d.refused(err, hub.CodeInvalid, "status")
		got, err = d.Contracts(t.Context(), d.back, coord.ContractQuery{Project: d.project.ID, Limit: 1})
		d.ok(err)
		rest, err := d.Contracts(t.Context(), d.back, coord.ContractQuery{Project: d.project.ID, Limit: 1, After: got[0].ID})
		d.ok(err)
		equal(d, "second page", rest[0].ID, agreed.ID)
	})
	t.Run("a diff names each value that changed", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.propose()
		for _, content := range []string{
			`{"method":"GET","path":"/a","list":[1,2,{"x":1}],"a/b":1.0,"gone":true}`,
			`{"method":"PUT","path":"/a","list":[1,3,{"x":2},4],"a/b":1,"new":{"deep":[]}}`,
		} {
			_, err := d.Update(t.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(content)})
			d.ok(err)
		}
		diff, err := d.Diff(t.Context(), d.back, contract.DiffQuery{InContract: contract.Of(c.Project, c.ID)})
		d.ok(err)
		var got []string
		for _, x := range diff.Changes {
			got = append(got, fmt.Sprintf("%s %s %s>%s", x.Kind, x.Path, x.Old, x.New))
		}
		equal(d, "diff", got, []string{
			`removed /gone true>`, `changed /list/1 2>3`, `changed /list/2/x 1>2`, `added /list/3 >4`, `changed /method "GET">"PUT"`, `added /new >{"deep":[]}`,
		})
		equal(d, "versions", [2]int{diff.From, diff.To}, [2]int{2, 3})
		_, err = d.Diff(t.Context(), d.back, contract.DiffQuery{InContract: contract.Of(c.Project, c.ID), From: 1, To: 7})
		d.refused(err, hub.CodeNotFound, "no version 7")
	})
}

// start is when the tests take place.
var start = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)

func TestPages(t *testing.T) {
	d := newDesk(t, func(o *contract.Options) { o.Page = 2 }).begin()
	for range 4 {
		d.bring(coord.ContractAgreed)
		_, err := d.Share(t.Context(), d.back, contract.NewPacket{InProject: contract.In(d.project.ID), Type: coord.ContextCode, Content: json.RawMessage(`{}`)})
		d.ok(err)
	}
	last := d.propose()
	t.Run("the gate looks at contracts of every page", func(t *testing.T) {
		v, err := d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID)})
		if err != nil || v.OK || v.Checked != 5 || len(v.Failures) != 1 || v.Failures[0].Contract != last.ID {
			t.Errorf("got %+v, %v", v, err)
		}
	})
	t.Run("a whole project has the contracts and packets of every page", func(t *testing.T) {
		var b strings.Builder
		d.ok(d.WriteProject(t.Context(), d.back, d.project.ID, &b, nil))
		var p federation.ProjectCopy
		if err := json.Unmarshal([]byte(b.String()), &p); err != nil || len(p.Contracts) != 5 || len(p.Packets) != 4 {
			t.Errorf("got %d contracts and %d packets, %v", len(p.Contracts), len(p.Packets), err)
		}
	})
	t.Run("R1-083 the summary has the contracts of every page", func(t *testing.T) {
		sums := map[coord.ContractID]bool{}
		for next, pages := coord.ContractID(""), 0; pages == 0 || next != ""; pages++ {
			s, err := d.Summary(t.Context(), d.project.ID, next)
			d.ok(err)
			for _, c := range s.Contracts {
				sums[c.ID] = true
			}
			next = s.Next
		}
		if len(sums) != 5 {
			t.Errorf("got %d sums, want 5", len(sums))
		}
	})
	t.Run("another policy advances the contracts of every page", func(t *testing.T) {
		_, err := d.respond(d.front, last, contract.ActionAgree, "")
		d.ok(err)
		_, err = d.SetPolicy(t.Context(), d.back, d.project.ID, coord.AgreeAll)
		d.ok(err)
		v, err := d.Check(t.Context(), d.back, contract.Gate{InProject: contract.In(d.project.ID)})
		if err != nil || !v.OK {
			t.Errorf("got %+v, %v", v, err)
		}
	})
}
