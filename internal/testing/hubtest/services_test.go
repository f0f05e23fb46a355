package hubtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/service/attention"
	"github.com/parley-agents/parley/internal/service/callers"
	"github.com/parley-agents/parley/internal/service/check"
	"github.com/parley-agents/parley/internal/service/continuation"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/deliberation"
	"github.com/parley-agents/parley/internal/service/event"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/journal"
	"github.com/parley-agents/parley/internal/service/keptwork"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/landing"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/service/records"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/roots"
	"github.com/parley-agents/parley/internal/service/run"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	planner  = hub.Caller{Kind: hub.CallerAgent, ID: "planner", Role: hub.RoleCoordinator}
	builder  = hub.Caller{Kind: hub.CallerAgent, ID: "builder", Role: hub.RoleExecutor}
	front    = hub.Caller{Kind: hub.CallerPeer, ID: "front", AID: "aid://front.example/app@1.0.0"}
)

// A house has every service of a hub, over one store whose calls can fail.
type house struct {
	t     *testing.T
	ctx   context.Context
	inner *sqlite.Store
	store *hubtest.Store
	home  string
	now   time.Time
	ids   *hub.IDs

	keys      *keys.Service
	mail      *mailroom.Mailroom
	handoffs  *handoff.Service
	talks     *deliberation.Service
	teams     *team.Service
	wakes     *wake.Machine
	runs      *run.Service
	roots     *roots.Service
	files     *reservation.Service
	checks    *check.Service
	landings  *landing.Service
	usage     *usage.Service
	kept      *keptwork.Service
	onward    *continuation.Service
	events    *event.Service
	schedules *schedule.Service
	written   map[string]string // contents of the files of the working tree
	contracts *contract.Service
	peers     *peers.Service
	callers   *callers.Service
	journal   *journal.Journal
	records   *records.Records
	proofs    *proof.Log
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, ctx: t.Context(), home: t.TempDir(), now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	clock := func() time.Time { h.now = h.now.Add(time.Millisecond); return h.now }
	h.ids = hub.NewIDs(clock)
	storetest.Prepare(t, h.home)
	var err error
	h.inner, err = sqlite.Open(h.home, nil)
	h.must(err)
	t.Cleanup(func() { h.inner.Close() })
	h.store = &hubtest.Store{Store: h.inner}
	hints := new(bus.Local)
	const self = coord.AID("aid://back.example/hub@1.0.0")
	secrets, err := vault.Open(filepath.Join(h.home, "secrets.key"))
	h.must(err)
	content, err := blobs.Open(filepath.Join(h.home, "artifacts"), nil)
	h.must(err)
	h.keys = keys.New(h.store, &keys.Options{Clock: clock, Bus: hints, Self: self})
	_, err = h.keys.EnsureOperator(h.ctx, "")
	h.must(err)
	for _, a := range []hub.Caller{planner, builder} {
		_, _, _, err = h.keys.AddAgent(h.ctx, operator, hub.Agent{ID: a.ID, Role: a.Role}, keys.NewKey{})
		h.must(err)
	}
	h.mail, err = mailroom.New(h.store, h.keys, &mailroom.Options{Clock: clock, Bus: hints, Artifacts: content, Limits: mailroom.Limits{Unsafe: true},
		Features: hub.Features})
	h.must(err)
	h.teams, err = team.New(h.store, h.mail, &team.Options{Clock: clock, Artifacts: content})
	h.must(err)
	h.talks, err = deliberation.New(h.store, h.mail, &deliberation.Options{Clock: clock, Board: h.teams})
	h.must(err)
	h.mail.Moderate(h.talks)
	h.checks = check.New(h.store, checkout{}, checkout{}, hints, &check.Options{Clock: clock})
	h.handoffs = handoff.New(h.store, h.mail, &handoff.Options{Clock: clock, Board: h.teams, Checks: h.checks, Bus: hints})
	h.wakes, err = wake.New(h.store, nil, wake.Options{Clock: clock, Bus: hints})
	h.must(err)
	h.runs = run.New(h.store, h.keys, h.mail, &run.Options{Clock: clock})
	h.roots, err = roots.New(h.store, h.home, &roots.Options{Clock: clock, Bus: hints})
	h.must(err)
	h.written = map[string]string{}
	h.files, err = reservation.New(h.store, h, h.wakes, h.mail, &reservation.Options{Clock: clock, Bus: hints})
	h.must(err)
	h.landings = landing.New(h.store, quarry{}, quarry{}, h.mail, &landing.Options{Clock: clock, Bus: hints})
	h.usage = usage.New(h.store, h.mail, &usage.Options{Clock: clock, Bus: hints})
	h.onward = continuation.New(h.store, continuation.Parts{Trees: workshop{}, Handoffs: h.handoffs, Agents: workshop{}, Mail: h.mail}, &continuation.Options{Clock: clock, Bus: hints})
	h.kept = keptwork.New(h.store, contents{}, h.mail, &keptwork.ServiceOptions{Clock: clock})
	h.events = event.New(h.store, h.mail, secrets, &event.Options{Clock: clock, Bus: hints})
	h.schedules = schedule.New(h.store, h.mail, &schedule.Options{Clock: clock, Bus: hints})
	h.contracts = contract.New(h.store, &contract.Options{Clock: clock, Self: self, Repo: "backend", Endpoint: "https://back.example"})
	h.peers = peers.New(h.store, &peers.Options{Clock: clock, Vault: secrets, Self: self, Home: "https://back.example", Repo: "backend"})
	h.callers = callers.New(h.store, h.keys, &callers.Options{Clock: clock, Vault: secrets, Self: self})
	h.proofs = proof.New(h.store, secrets.LogKey(), &proof.Options{Clock: clock})
	h.journal = journal.New(h.store, &journal.Options{Clock: clock, Bus: hints})
	h.records = records.New(h.store, records.Folders{Trail: filepath.Join(h.home, "journal"), Archives: filepath.Join(h.home, "archive")}, &records.Options{Clock: clock, Artifacts: content})
	return h
}

// leave takes an agent out of its teams when its last key is revoked.
func (h *house) leave(tx hub.Tx, actor hub.Caller, agent hub.AgentID) (func(), error) {
	posted, err := h.teams.Revoked(tx, actor, agent)
	return func() { h.mail.Announce(posted...) }, err
}

// addSource adds a source of events.
func (h *house) addSource() error {
	return last(h.events.Add(h.ctx, operator, event.Setting{Name: "hooks", Vendor: hub.VendorGitHub, Secret: "0123456789abcdef", To: "builder"}))
}

// addSchedule adds a schedule.
func (h *house) addSchedule() error {
	return last(h.schedules.Add(h.ctx, operator, schedule.Setting{Every: "1h", Zone: "UTC", To: "builder", Text: "work"}))
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// picture returns every row of the store.
func (h *house) picture() string {
	h.t.Helper()
	var rows strings.Builder
	h.must(h.inner.Dump(h.ctx, func(int) error { return nil }, func(table string, row []byte) error {
		fmt.Fprintf(&rows, "%s %s\n", table, row)
		return nil
	}, true))
	return rows.String()
}

// verify compares the store, the trail and the archives with the journal.
func (h *house) verify() {
	h.t.Helper()
	audit, err := h.records.Verify(h.ctx)
	if err != nil || !audit.Clean() {
		h.t.Errorf("verify: %v (%v)", audit.Findings, err)
	}
}

func (h *house) send(to hub.AgentID, change func(*mailroom.Draft)) (hub.EnvelopeID, error) {
	d := mailroom.Draft{To: []hub.AgentID{to}, Type: hub.TypeStatusUpdate, Text: "the schema is frozen"}
	if change != nil {
		change(&d)
	}
	r, err := h.mail.Send(h.ctx, planner, d)
	return r.ID, err
}

func (h *house) sent(change func(*mailroom.Draft)) hub.EnvelopeID {
	h.t.Helper()
	id, err := h.send("builder", change)
	h.must(err)
	return id
}

// core creates the team core, which is active, with builder as executor and a task.
func (h *house) core(gates ...string) {
	h.t.Helper()
	for _, r := range []team.Request{
		team.Create{Objective: "o", Members: []team.Seat{{Agent: "builder", Role: hub.RoleExecutor}}, Policy: &team.Policy{HumanGateActions: gates}},
		team.Move{Lifecycle: hub.TeamActive},
		team.CreateTask{Title: "t"},
	} {
		h.must(h.team(planner, r))
	}
}

// put puts a version of an artifact, made from another.
func put(parent int64, text string) team.PutArtifact {
	return team.PutArtifact{Artifact: "a", Parent: parent, Content: team.Text(text)}
}

func (h *house) team(as hub.Caller, r team.Request) error {
	return last(h.teams.Perform(h.ctx, as, "core", r))
}

func offered(d *mailroom.Draft) { d.Type = hub.TypeTaskOffer }

func gated(d *mailroom.Draft) {
	d.Policy = &hub.Policy{Visibility: hub.DefaultPolicy.Visibility, Sensitivity: hub.DefaultPolicy.Sensitivity, HumanGate: hub.GateRequired}
}

var task = json.RawMessage(`{"task":{"task_id":"t-1","title":"Nullable avatar","objective":"users without a picture load","success_criteria":["old rows load"]},
	"context":{"summary":"the schema is frozen"},"work_state":{"next_step":"run the migration"}}`)

func (h *house) initiate() (handoff.Report, error) {
	return h.handoffs.Initiate(h.ctx, planner, handoff.Proposal{To: "builder", Package: task})
}

func (h *house) proposed() hub.HandoffID {
	h.t.Helper()
	r, err := h.initiate()
	h.must(err)
	return r.ID
}

// held returns a handoff that waits for the operator.
func (h *house) held() hub.HandoffID {
	h.t.Helper()
	pkg := strings.Replace(string(task), `{"task":`, `{"policy":{"requires_human_approval":true},"task":`, 1)
	r, err := h.handoffs.Initiate(h.ctx, planner, handoff.Proposal{To: "builder", Package: json.RawMessage(pkg)})
	h.must(err)
	return r.ID
}

func (h *house) accepted() hub.HandoffID {
	h.t.Helper()
	id := h.proposed()
	_, err := h.handoffs.Accept(h.ctx, builder, id, "")
	h.must(err)
	return id
}

func (h *house) begin(id hub.RunID) error {
	_, _, err := h.runs.Begin(h.ctx, operator, run.Beginning{ID: id, Agent: "builder", Task: "say hello", Dir: "/src", TimeoutS: 60})
	return err
}

func (h *house) began() hub.RunID {
	h.t.Helper()
	id := hub.RunID(h.ids.Next())
	h.must(h.begin(id))
	return id
}

func (h *house) create() (coord.Project, error) {
	return h.contracts.CreateProject(h.ctx, operator, contract.NewProject{Name: "n", Objective: "o", Repos: []coord.Repo{
		{Name: "backend", Role: "backend", Language: "go"}, {Name: "frontend", Role: "frontend", Language: "typescript"},
	}})
}

func (h *house) created() coord.ProjectID {
	h.t.Helper()
	p, err := h.create()
	h.must(err)
	_, _, err = h.contracts.JoinProject(h.ctx, front, p.ID, "frontend", "https://front.example")
	h.must(err)
	return p.ID
}

func (h *house) propose(p coord.ProjectID) (contract.Result, error) {
	return h.contracts.Propose(h.ctx, front, contract.Proposal{InProject: contract.In(p), Type: coord.ContractAPI, Name: "Get User", Content: json.RawMessage(`{"method":"GET","path":"/u"}`)})
}

func (h *house) contract() contract.InContract {
	h.t.Helper()
	p := h.created()
	r, err := h.propose(p)
	h.must(err)
	return contract.Of(p, r.Contract.ID)
}

func (h *house) agreed() contract.InContract {
	h.t.Helper()
	c := h.contract()
	_, err := h.contracts.Respond(h.ctx, operator, contract.Response{InContract: c, Action: contract.ActionAgree})
	h.must(err)
	return c
}

func (h *house) complete(c contract.InContract) (contract.Result, error) {
	return h.contracts.Complete(h.ctx, operator, contract.Work{InContract: c, Files: []string{"users.go"}})
}

func (h *house) started() contract.InContract {
	h.t.Helper()
	c := h.agreed()
	h.must(last(h.contracts.Start(h.ctx, operator, contract.Work{InContract: c})))
	return c
}

// whole returns a project as hubs exchange it.
func (h *house) whole(p coord.ProjectID) federation.ProjectCopy {
	h.t.Helper()
	var raw bytes.Buffer
	h.must(h.contracts.WriteProject(h.ctx, operator, p, &raw, nil))
	whole, err := federation.DecodeProject(raw.Bytes())
	h.must(err)
	return whole
}

// addCheck adds a check to the repository.
func (h *house) addCheck(name string) error {
	return last(h.checks.Add(h.ctx, operator, "/src", hub.RepositoryCheck{Name: name, Command: []string{"make", name}}))
}

// A checkout is the repository of a house: one commit, with a file that proposes a check. Nothing runs.
type checkout struct{}

func (checkout) Find(context.Context, string) (hub.Repository, error) {
	return hub.Repository{Path: "/src"}, nil
}

func (checkout) Fetch(context.Context, string, string) (check.Commit, error) {
	return check.Commit{ID: "c1", Tree: "t1"}, nil
}

func (checkout) Keep(context.Context, string, string, string) error { return nil }

func (checkout) Changes(context.Context, string, string, string) ([]hub.CommitChange, error) {
	return nil, nil
}

func (checkout) Within(context.Context, string, string, string) (bool, error) { return true, nil }

func (checkout) File(context.Context, string, string, string) ([]byte, error) {
	return []byte("checks: [{name: lint, command: golint}]"), nil
}

func (checkout) OnTarget(context.Context, string, string) (bool, error) { return false, nil }

func (checkout) Before(context.Context, string, string, int) ([]check.Commit, error) { return nil, nil }

func (checkout) Run(context.Context, check.Job) (check.Outcome, error) {
	return check.Outcome{State: hub.ResultPassed}, nil
}

// keep keeps the work in the working tree of a house.
func (h *house) keep() error {
	t := hub.WorkingTree{Path: "/src/app", Repository: "/src/app/.git"}
	return last(h.kept.Keep(h.ctx, t, "builder", hub.KeptTurn))
}

// contents are the contents of kept work of a house: always one changed file.
type contents struct{}

func (contents) Keep(context.Context, hub.WorkingTree, keptwork.Options) (hub.KeptState, error) {
	return hub.KeptState{ID: "x1", Files: 1}, nil
}

func (contents) After(context.Context, hub.WorkingTree, string, keptwork.Options) (hub.KeptState, hub.KeptLoss, error) {
	return hub.KeptState{ID: "x1", Files: 1}, hub.KeptLoss{}, nil
}

func (contents) Files(context.Context, hub.WorkingTree, string, string, bool) ([]hub.KeptFile, error) {
	return []hub.KeptFile{{Path: "a", State: "changed", Now: "changed"}}, nil
}

func (contents) Back(context.Context, hub.WorkingTree, keptwork.Return) ([]string, []hub.KeptLeft, error) {
	return []string{"a"}, nil, nil
}

func (contents) Sweep(context.Context, hub.WorkingTree, []string) (int64, error) { return 0, nil }

func (contents) Stash(hub.WorkingTree) []string { return nil }

func (contents) Siblings(hub.WorkingTree) []string { return []string{"/src/app"} }

// setLanding turns landing on, with reviews of the operator.
func (h *house) setLanding() error {
	_, _, err := h.landings.Set(h.ctx, operator, landing.Setting{Folder: "/src", Into: "main", Review: "operator", By: hub.LandingAuto})
	return err
}

// land queues a branch of builder.
func (h *house) land(ref string) error {
	return last(h.landings.Land(h.ctx, builder, landing.Request{Ref: ref, Folder: "/src"}))
}

// spend records the usage of a model call of the builder.
func (h *house) spend(id string) error {
	call := hub.ModelCall{ID: id, Model: "m", Tokens: hub.Tokens{Input: 20, Output: 5}}
	return last(h.usage.Record(h.ctx, builder, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Ended: true, Calls: []hub.ModelCall{call}}))
}

// ask asks about a file of the working tree.
func (h *house) ask(as hub.Caller, k reservation.Kind) error {
	return last(h.files.Ask(h.ctx, as, reservation.Question{Tree: "/src", Paths: []string{"a"}, Kind: k}))
}

// The house is the working trees of its own: one, without git.

func (h *house) Tree(context.Context, string) (hub.WorkingTree, error) {
	return hub.WorkingTree{Path: "/src", Repository: "/src/.git"}, nil
}

func (h *house) Names(_ context.Context, _ hub.WorkingTree, paths []string) (out []string, _ error) {
	for _, p := range paths {
		out = append(out, filepath.Base(p))
	}
	return out, nil
}

func (h *house) Files(_ context.Context, _ hub.WorkingTree, names []string) (map[string]hub.TreeFile, error) {
	out := map[string]hub.TreeFile{}
	for _, n := range names {
		out[n] = hub.TreeFile{Digest: h.written[n], Clean: h.written[n] == ""}
	}
	return out, nil
}

func (h *house) Count(context.Context, hub.WorkingTree, string, int) (int, error) { return 1, nil }

func (h *house) Differs(context.Context, hub.WorkingTree, string, []string) ([]string, error) {
	return nil, nil
}

func (h *house) Staged(context.Context, hub.WorkingTree) ([]string, error) { return nil, nil }

func (h *house) Difference(context.Context, hub.WorkingTree, string) (hub.TreeDifference, error) {
	return hub.TreeDifference{Text: "+changed\n", Lines: 1}, nil
}

func last[T any](_ T, err error) error { return err }

func last2[T, U any](_ T, _ U, err error) error { return err }

// operations are the operations of every service that change something. Each prepares
// a house and returns the operation, which can be repeated until it succeeds.
var operations = []struct {
	name    string
	prepare func(h *house) (do func() error)
}{
	{"proof grow", func(h *house) func() error {
		h.must(h.proofs.Grow(h.ctx))
		h.must(h.setLanding())
		return func() error { return h.proofs.Grow(h.ctx) }
	}},
	{"landing set", func(h *house) func() error { return func() error { return h.setLanding() } }},
	{"landing off", func(h *house) func() error {
		h.must(h.setLanding())
		h.must(h.land("one"))
		return func() error { return last(h.landings.Off(h.ctx, operator, "/src", "main")) }
	}},
	{"landing land", func(h *house) func() error {
		h.must(h.setLanding())
		return func() error { return h.land("one") }
	}},
	{"landing review", func(h *house) func() error {
		h.must(h.setLanding())
		h.must(h.land("one"))
		return func() error {
			return last(h.landings.Give(h.ctx, operator, "l1", landing.Answer{Verdict: hub.VerdictApprove}))
		}
	}},
	{"landing cancel", func(h *house) func() error {
		h.must(h.setLanding())
		h.must(h.land("one"))
		return func() error { return last(h.landings.Cancel(h.ctx, builder, "l1", "")) }
	}},
	{"usage record beyond a budget", func(h *house) func() error {
		h.must(last(h.usage.SetBudget(h.ctx, operator, usage.Limit{Of: "builder", Tokens: 10, Per: hub.PerDay})))
		return func() error { return h.spend("m1") }
	}},
	{"usage record of a late call", func(h *house) func() error {
		h.must(h.spend("m1"))
		return func() error {
			late := hub.ModelCall{ID: "m2", Tokens: hub.Tokens{Input: 1}}
			return last(h.usage.Record(h.ctx, builder, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Record: "u1", Calls: []hub.ModelCall{late}}))
		}
	}},
	{"usage record of known calls", func(h *house) func() error {
		h.must(h.spend("m1"))
		return func() error { return h.spend("m1") }
	}},
	{"usage record of a call with larger counts", func(h *house) func() error {
		h.must(h.spend("m1"))
		return func() error {
			larger := hub.ModelCall{ID: "m1", Tokens: hub.Tokens{Input: 1_000_000}}
			return last(h.usage.Record(h.ctx, builder, usage.Report{Source: hub.UsagePlugin, CLI: "pi", Calls: []hub.ModelCall{larger}}))
		}
	}},
	{"usage show", func(h *house) func() error {
		h.must(h.spend("m1"))
		return func() error { return last(h.usage.Spend(h.ctx, operator, usage.Query{})) }
	}},
	{"continuation stop", func(h *house) func() error {
		h.accepted()
		return func() error {
			return last(h.onward.Stop(h.ctx, continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota}))
		}
	}},
	{"rescue drop", func(h *house) func() error {
		h.accepted()
		h.must(last(h.onward.Stop(h.ctx, continuation.Cause{Agent: "builder", Reason: hub.ContinueQuota})))
		return func() error { return h.onward.Drop(h.ctx, operator, "s1") }
	}},
	{"kept work keep", func(h *house) func() error { return h.keep }},
	{"kept work back", func(h *house) func() error {
		h.must(h.keep())
		return func() error {
			return last(h.kept.Back(h.ctx, operator, keptwork.Request{ID: "s1", Paths: []string{"a"}}))
		}
	}},
	{"kept work drop", func(h *house) func() error {
		h.must(h.keep())
		return func() error { return h.kept.Drop(h.ctx, operator, "s1") }
	}},
	{"event source add", func(h *house) func() error { return h.addSource }},
	{"event source change", func(h *house) func() error {
		h.must(h.addSource())
		return h.addSource
	}},
	{"event source poll", func(h *house) func() error {
		h.must(h.addSource())
		return func() error {
			return last(h.events.SetPoll(h.ctx, operator, event.PollSetting{Name: "hooks", Repository: "acme/shop", API: "https://api.example.com", Token: "t"}))
		}
	}},
	{"event source remove", func(h *house) func() error {
		h.must(h.addSource())
		return func() error { return h.events.Remove(h.ctx, operator, "hooks") }
	}},
	{"event receive", func(h *house) func() error {
		h.must(h.addSource())
		return func() error {
			return last(h.events.Receive(h.ctx, "hooks", hub.Event{Kind: hub.EventCI, State: "failure", Branch: "main", Commit: "c1", Deliveries: []string{"d1"}}))
		}
	}},
	{"event counts", func(h *house) func() error {
		h.must(h.addSource())
		return func() error {
			h.events.Count("hooks", hub.EventForged)
			return h.events.StoreCounts(h.ctx)
		}
	}},
	{"event sweep", func(h *house) func() error {
		h.must(h.addSource())
		h.must(last(h.events.Receive(h.ctx, "hooks", hub.Event{Kind: hub.EventCI, State: "failure", Deliveries: []string{"d1"}})))
		h.now = h.now.Add(8 * 24 * time.Hour)
		return func() error { return h.events.Sweep(h.ctx) }
	}},
	{"schedule add", func(h *house) func() error { return h.addSchedule }},
	{"schedule run", func(h *house) func() error {
		h.must(h.addSchedule())
		return func() error { return last(h.schedules.RunNow(h.ctx, operator, "e1")) }
	}},
	{"schedule step", func(h *house) func() error {
		h.must(h.addSchedule())
		h.now = h.now.Add(2 * time.Hour)
		return func() error { return last(h.schedules.Step(h.ctx)) }
	}},
	{"schedule remove", func(h *house) func() error {
		h.must(h.addSchedule())
		return func() error { return h.schedules.Remove(h.ctx, operator, "e1") }
	}},
	{"budget set", func(h *house) func() error {
		h.must(h.spend("m1"))
		return func() error {
			return last(h.usage.SetBudget(h.ctx, operator, usage.Limit{Of: "builder", Tokens: 10, Per: hub.PerDay}))
		}
	}},
	{"budget list", func(h *house) func() error {
		h.must(last(h.usage.SetBudget(h.ctx, operator, usage.Limit{Of: "builder", Turns: 10, Per: hub.PerHour})))
		return func() error { return last(h.usage.Budgets(h.ctx, operator)) }
	}},
	{"budget remove", func(h *house) func() error {
		h.must(last(h.usage.SetBudget(h.ctx, operator, usage.Limit{Of: "builder", Turns: 10, Per: hub.PerHour})))
		return func() error { return h.usage.RemoveBudget(h.ctx, operator, "b1") }
	}},
	{"reservation ask", func(h *house) func() error { return func() error { return h.ask(builder, reservation.Edit) } }},
	{"reservation ask for a file that is held", func(h *house) func() error {
		h.must(h.ask(builder, reservation.Edit))
		return func() error { return h.ask(planner, reservation.Edit) }
	}},
	{"reservation ask after a time of idleness", func(h *house) func() error {
		h.must(h.ask(planner, reservation.Edit))
		h.must(h.ask(builder, reservation.Edit))
		h.written["a"] = "changed"
		h.must(h.ask(planner, reservation.After))
		h.now = h.now.Add(time.Hour)
		return func() error { return h.ask(builder, reservation.Edit) }
	}},
	{"reservation read", func(h *house) func() error {
		h.must(h.ask(builder, reservation.Edit))
		h.written["a"] = "changed"
		h.must(h.ask(builder, reservation.After))
		h.now = h.now.Add(time.Hour)
		h.must(h.files.Sweep(h.ctx))
		return func() error { return h.ask(builder, reservation.Read) }
	}},
	{"reservation sweep", func(h *house) func() error {
		h.must(h.ask(builder, reservation.Edit))
		h.must(h.ask(planner, reservation.Edit))
		h.now = h.now.Add(40 * 24 * time.Hour)
		return func() error { return h.files.Sweep(h.ctx) }
	}},
	{"reservation reserve", func(h *house) func() error {
		return func() error {
			return last(h.files.Reserve(h.ctx, builder, reservation.Request{Tree: "/src", Patterns: []string{"docs"}}))
		}
	}},
	{"reservation release", func(h *house) func() error {
		h.must(h.ask(builder, reservation.Edit))
		return func() error { return last(h.files.Release(h.ctx, operator, reservation.Release{Tree: "/src"})) }
	}},
	{"check add", func(h *house) func() error { return func() error { return h.addCheck("test") } }},
	{"check remove", func(h *house) func() error {
		h.must(h.addCheck("test"))
		return func() error { return last(h.checks.Remove(h.ctx, operator, "/src", "test")) }
	}},
	{"check trust", func(h *house) func() error {
		list, err := h.checks.List(h.ctx, "/src")
		h.must(err)
		return func() error { return last(h.checks.Trust(h.ctx, operator, "/src", list.Digest)) }
	}},
	{"check require", func(h *house) func() error {
		return func() error { return last(h.checks.Require(h.ctx, operator, "/src", true)) }
	}},
	{"check run", func(h *house) func() error {
		h.must(h.addCheck("test"))
		return func() error {
			return last(h.checks.Run(h.ctx, builder, check.Request{Folder: "/src", Name: "test"}))
		}
	}},
	{"mailroom send", func(h *house) func() error { return func() error { return last(h.send("builder", nil)) } }},
	{"mailroom send with a key", func(h *house) func() error {
		return func() error {
			return last(h.send("builder", func(d *mailroom.Draft) { d.IdempotencyKey = "k" }))
		}
	}},
	{"mailroom send a long text", func(h *house) func() error {
		return func() error {
			return last(h.send("builder", func(d *mailroom.Draft) { d.Text = strings.Repeat("long ", 2000) }))
		}
	}},
	{"mailroom broadcast", func(h *house) func() error { return func() error { return last(h.send(hub.Everyone, nil)) } }},
	{"mailroom respond", func(h *house) func() error {
		id := h.sent(nil)
		return func() error {
			return last(h.mail.Respond(h.ctx, builder, mailroom.Draft{ReplyTo: id, Text: "good"}))
		}
	}},
	{"mailroom inbox", func(h *house) func() error {
		h.sent(nil)
		return func() error { return last(h.mail.Inbox(h.ctx, builder, mailroom.InboxRequest{AckAll: true})) }
	}},
	{"mailroom approve", func(h *house) func() error {
		id := h.sent(gated)
		return func() error { return last(h.mail.Approve(h.ctx, operator, id)) }
	}},
	{"mailroom deny", func(h *house) func() error {
		id := h.sent(gated)
		return func() error { return last(h.mail.Deny(h.ctx, operator, id, "no")) }
	}},
	{"mailroom sweep", func(h *house) func() error {
		h.sent(func(d *mailroom.Draft) { d.ExpiresAt = hub.At(h.now.Add(time.Minute)) })
		h.now = h.now.Add(time.Hour)
		return func() error { return h.mail.Sweep(h.ctx) }
	}},
	{"mailroom subscribe", func(h *house) func() error {
		return func() error {
			return last(h.mail.Subscribe(h.ctx, operator, hub.Filter{PriorityMin: hub.PriorityLow}))
		}
	}},
	{"mailroom unsubscribe", func(h *house) func() error {
		h.subscribed()
		return func() error { return last(h.mail.Unsubscribe(h.ctx, operator, "s1")) }
	}},
	{"mailroom catch up", func(h *house) func() error {
		h.subscribed()
		return func() error { return h.mail.CatchUp(h.ctx) }
	}},
	{"mailroom sweep of copies", func(h *house) func() error {
		h.subscribed()
		h.must(h.mail.CatchUp(h.ctx))
		h.now = h.now.Add(time.Hour)
		return func() error { return h.mail.Sweep(h.ctx) }
	}},
	{"mailroom offer", func(h *house) func() error { return func() error { return last(h.send("builder", offered)) } }},
	{"deliberation sweep", func(h *house) func() error {
		h.sent(offered)
		h.now = h.now.Add(25 * time.Hour)
		return func() error { return h.talks.Sweep(h.ctx) }
	}},
	{"deliberation decide", func(h *house) func() error {
		id := h.sent(func(d *mailroom.Draft) {
			d.Type, d.Text = hub.TypePositionState, ""
			d.Payload = strictjson.Trust([]byte(`{"topic":"t","position":"p","reasoning":"r","confidence":"low","open_to_revision":true}`))
		})
		two := int64(2)
		h.must(last(h.mail.Send(h.ctx, builder, mailroom.Draft{To: []hub.AgentID{"planner"}, Type: hub.TypePositionChallenge, Sequence: &two,
			Payload: strictjson.Trust(fmt.Appendf(nil, `{"position_id":%q,"counter_position":"c","reasoning":"r","severity":"blocking"}`, id))})))
		return func() error { return last(h.talks.Decide(h.ctx, operator, string(id), "d", "b")) }
	}},
	{"wake report", func(h *house) func() error { // its notice is a wake, and the one of hours before is forgotten
		report := func() error {
			return last(h.wakes.Report(h.ctx, builder, wake.Report{Key: wake.Key{CLI: "claude", ID: "s"}, Event: wake.EventPrompt}))
		}
		h.sent(nil)
		h.must(report())
		h.now = h.now.Add(2 * time.Hour)
		h.sent(nil)
		return report
	}},
	{"team create", func(h *house) func() error {
		return func() error {
			return h.team(planner, team.Create{Objective: "o", Members: []team.Seat{{Agent: "builder", Role: hub.RoleExecutor}}})
		}
	}},
	{"team role", func(h *house) func() error {
		h.core()
		return func() error {
			return h.team(planner, team.ChangeRole{Agent: "builder", Role: hub.RoleReviewer, Reason: "coverage"})
		}
	}},
	{"team propose a role", func(h *house) func() error {
		h.core()
		return func() error {
			return h.team(planner, team.ChangeRole{Agent: "builder", Role: hub.RoleReviewer})
		}
	}},
	{"team assign", func(h *house) func() error {
		h.core()
		return func() error { return h.team(planner, team.ChangeTask{Task: "T-1", Owner: "builder"}) }
	}},
	{"team remove", func(h *house) func() error {
		h.core()
		h.must(h.team(planner, team.ChangeTask{Task: "T-1", Owner: "builder"}))
		return func() error { return h.team(builder, team.RemoveMember{Agent: "builder"}) }
	}},
	{"team decide", func(h *house) func() error {
		h.core()
		return func() error { return h.team(planner, team.Decide{Decision: "d", Rationale: "r"}) }
	}},
	{"team put a version", func(h *house) func() error {
		h.core()
		return func() error { return h.team(builder, put(0, "x\n")) }
	}},
	{"team put a version that is merged", func(h *house) func() error {
		h.core()
		h.must(h.team(builder, put(0, "a\nb\nc\n")))
		h.must(h.team(builder, put(1, "A\nb\nc\n")))
		return func() error { return h.team(builder, put(1, "a\nb\nC\n")) }
	}},
	{"team merge", func(h *house) func() error {
		h.core()
		for _, text := range []string{"a\n", "b\n", "c\n"} {
			h.must(h.team(builder, put(min(1, int64(text[0]-'a')), text)))
		}
		return func() error { return h.team(planner, team.Merge{Artifact: "a", Content: team.Text("both\n")}) }
	}},
	{"team policy", func(h *house) func() error {
		h.core()
		return func() error {
			return last(h.teams.Authority(h.ctx, operator, "core", []team.Cell{{Role: hub.RoleReviewer, Action: hub.MayBlock, Permit: hub.PermitDeny}}))
		}
	}},
	{"team successors", func(h *house) func() error {
		h.core()
		return func() error { return h.teams.SetSuccessors(h.ctx, operator, "core", []hub.AgentID{"builder"}) }
	}},
	{"team hold", func(h *house) func() error {
		h.core("decide")
		return func() error { return h.team(planner, team.Decide{Decision: "d", Rationale: "r"}) }
	}},
	{"team approve", func(h *house) func() error {
		h.core("decide")
		h.must(h.team(planner, team.Decide{Decision: "d", Rationale: "r"}))
		held, err := attention.New(h.store, mailroom.Headline).Waiting(h.ctx, operator, attention.Sources{})
		h.must(err)
		return func() error { return last(h.teams.Approve(h.ctx, operator, held.Operations[0].ID)) }
	}},
	{"mailroom accept an offer into a team", func(h *house) func() error {
		h.core()
		offer := h.sent(func(d *mailroom.Draft) { offered(d); d.Team = "core" })
		two := int64(2)
		return func() error {
			return last(h.mail.Send(h.ctx, builder, mailroom.Draft{To: []hub.AgentID{"planner"}, Type: hub.TypeTaskAccept, Sequence: &two, Team: "core",
				Payload: strictjson.Trust(fmt.Appendf(nil, `{"offer_id":%q}`, offer))}))
		}
	}},
	{"handoff accept into a team", func(h *house) func() error {
		h.core()
		pkg := json.RawMessage(strings.Replace(string(task), `"t-1"`, `"T-1"`, 1))
		r, err := h.handoffs.Initiate(h.ctx, planner, handoff.Proposal{To: "builder", Package: pkg, Team: "core"})
		h.must(err)
		h.must(last(h.handoffs.ApproveTeam(h.ctx, operator, r.ID)))
		return func() error { return last(h.handoffs.Accept(h.ctx, builder, r.ID, "")) }
	}},
	{"keys revoke a member", func(h *house) func() error {
		h.core()
		h.must(h.team(planner, team.ChangeTask{Task: "T-1", Owner: "builder"}))
		return func() error { return last(h.keys.RevokeKeys(h.ctx, operator, "builder", "", h.leave)) }
	}},
	{"handoff initiate", func(h *house) func() error { return func() error { return last(h.initiate()) } }},
	{"handoff accept", func(h *house) func() error {
		id := h.proposed()
		return func() error { return last(h.handoffs.Accept(h.ctx, builder, id, "")) }
	}},
	{"handoff reject", func(h *house) func() error {
		id := h.proposed()
		return func() error { return last(h.handoffs.Reject(h.ctx, builder, id, hub.RejectOther, "busy")) }
	}},
	{"handoff withdraw", func(h *house) func() error {
		id := h.proposed()
		return func() error { return last(h.handoffs.Withdraw(h.ctx, planner, id, "never mind")) }
	}},
	{"handoff release", func(h *house) func() error {
		id := h.accepted()
		return func() error { return last(h.handoffs.Release(h.ctx, operator, id, "stuck")) }
	}},
	{"handoff complete", func(h *house) func() error {
		id := h.accepted()
		return func() error {
			return last(h.handoffs.Complete(h.ctx, builder, id, handoff.Completion{Summary: "done", NoChanges: true}))
		}
	}},
	{"handoff escalate", func(h *house) func() error {
		h.accepted()
		h.now = h.now.Add(48 * time.Hour)
		return func() error { return last(h.handoffs.Escalate(h.ctx)) }
	}},
	{"handoff approve", func(h *house) func() error {
		id := h.held()
		return func() error { return last(h.handoffs.Approve(h.ctx, operator, id)) }
	}},
	{"handoff deny", func(h *house) func() error {
		id := h.held()
		return func() error { return last(h.handoffs.Deny(h.ctx, operator, id, "no")) }
	}},
	{"handoff activate", func(h *house) func() error {
		id := h.accepted()
		return func() error { return last(h.handoffs.Activate(h.ctx, builder, id)) }
	}},
	{"handoff close", func(h *house) func() error {
		id := h.accepted()
		h.must(last(h.handoffs.Complete(h.ctx, builder, id, handoff.Completion{Summary: "done", NoChanges: true})))
		return func() error { return last(h.handoffs.Close(h.ctx, planner, id)) }
	}},
	{"run begin", func(h *house) func() error {
		id := hub.RunID(h.ids.Next())
		return func() error { return h.begin(id) }
	}},
	{"run move", func(h *house) func() error {
		id := h.began()
		return func() error { return last(h.runs.Move(h.ctx, operator, id, hub.RunRunning, "s")) }
	}},
	{"run finish", func(h *house) func() error {
		id := h.began()
		return func() error {
			return last(h.runs.Finish(h.ctx, operator, id, run.Ending{State: hub.RunInterrupted, Reason: hub.RunLost, Verdict: hub.RunUnverified}))
		}
	}},
	{"contract create a project", func(h *house) func() error { return func() error { return last(h.create()) } }},
	{"contract join", func(h *house) func() error {
		p, err := h.create()
		h.must(err)
		return func() error {
			return last2(h.contracts.JoinProject(h.ctx, front, p.ID, "frontend", "https://front.example"))
		}
	}},
	{"contract propose", func(h *house) func() error {
		p := h.created()
		return func() error { return last(h.propose(p)) }
	}},
	{"contract respond", func(h *house) func() error {
		c := h.contract()
		return func() error {
			return last(h.contracts.Respond(h.ctx, operator, contract.Response{InContract: c, Action: contract.ActionAgree}))
		}
	}},
	{"contract record a result", func(h *house) func() error {
		c := h.agreed()
		return func() error {
			return last(h.contracts.Verify(h.ctx, operator, contract.Verification{InContract: c, Result: contract.VerifySuccess, Evidence: contract.Evidence{Commit: "c1"}}))
		}
	}},
	{"contract record a deployment", func(h *house) func() error {
		c := h.agreed()
		_, err := h.contracts.AddEnvironment(h.ctx, operator, contract.EnvironmentChange{InProject: c.InProject, Name: "prod"})
		h.must(err)
		return func() error {
			return last(h.contracts.Deployed(h.ctx, operator, contract.Release{InProject: c.InProject, As: contract.As{Repo: "backend"}, Env: "prod", Commit: strings.Repeat("c", 40)}))
		}
	}},
	{"contract share context", func(h *house) func() error {
		p := h.created()
		return func() error {
			return last(h.contracts.Share(h.ctx, front, contract.NewPacket{InProject: contract.In(p), Type: coord.ContextQuestion, Content: json.RawMessage(`{"question":"why"}`)}))
		}
	}},
	{"contract leave", func(h *house) func() error {
		p := h.created()
		return func() error { return last2(h.contracts.LeaveProject(h.ctx, front, p, contract.As{})) }
	}},
	{"contract add a repository", func(h *house) func() error {
		p := h.created()
		return func() error {
			return last(h.contracts.AddRepo(h.ctx, front, p, contract.As{}, coord.Repo{Name: "docs", Role: "shared", Language: "text"}))
		}
	}},
	{"contract status", func(h *house) func() error {
		p := h.created()
		return func() error { return last(h.contracts.SetStatus(h.ctx, operator, p, coord.ProjectComplete)) }
	}},
	{"contract policy", func(h *house) func() error {
		p := h.created()
		return func() error { return last(h.contracts.SetPolicy(h.ctx, operator, p, coord.AgreeAll)) }
	}},
	{"contract update", func(h *house) func() error {
		c := h.contract()
		return func() error {
			return last(h.contracts.Update(h.ctx, front, contract.Revision{InContract: c, Content: json.RawMessage(`{"method":"GET","path":"/users"}`)}))
		}
	}},
	{"contract start", func(h *house) func() error {
		c := h.agreed()
		return func() error { return last(h.contracts.Start(h.ctx, front, contract.Work{InContract: c})) }
	}},
	{"contract complete", func(h *house) func() error {
		c := h.started()
		return func() error { return last(h.complete(c)) }
	}},
	{"contract verify", func(h *house) func() error {
		c := h.started()
		h.must(last(h.complete(c)))
		h.must(last(h.contracts.Start(h.ctx, front, contract.Work{InContract: c})))
		h.must(last(h.contracts.Complete(h.ctx, front, contract.Work{InContract: c, Files: []string{"user.ts"}})))
		return func() error {
			return last(h.contracts.Verify(h.ctx, front, contract.Verification{InContract: c, Result: contract.VerifySuccess}))
		}
	}},
	{"contract ask for a file", func(h *house) func() error {
		p := h.created()
		return func() error {
			return last(h.contracts.RequestFile(h.ctx, front, contract.As{}, coord.FileRequest{Project: p, Description: "the schema of users"}))
		}
	}},
	{"contract sync", func(h *house) func() error {
		other := newHouse(h.t)
		whole := other.whole(other.agreed().Project)
		return func() error { return last(h.contracts.SyncProject(h.ctx, front.AID, true, whole)) }
	}},
	{"contract sync a version", func(h *house) func() error {
		other := newHouse(h.t)
		c := other.contract()
		h.must(last(h.contracts.SyncProject(h.ctx, front.AID, true, other.whole(c.Project))))
		_, err := other.contracts.Update(h.ctx, front, contract.Revision{InContract: c, Content: json.RawMessage(`{"method":"GET","path":"/users"}`)})
		h.must(err)
		whole := other.whole(c.Project)
		return func() error { return last(h.contracts.SyncProject(h.ctx, front.AID, true, whole)) }
	}},
	{"contract trim", func(h *house) func() error {
		h.contract()
		return func() error { return h.contracts.Trim(h.ctx) }
	}},
	{"keys add an agent", func(h *house) func() error {
		return func() error {
			_, _, _, err := h.keys.AddAgent(h.ctx, operator, hub.Agent{ID: "new", Role: hub.RoleExecutor}, keys.NewKey{})
			return err
		}
	}},
	{"keys mint", func(h *house) func() error {
		return func() error {
			return last2(h.keys.MintKey(h.ctx, operator, keys.NewKey{Agent: "builder", Label: "more"}))
		}
	}},
	{"keys revoke", func(h *house) func() error {
		return func() error { return last(h.keys.RevokeKeys(h.ctx, operator, "builder", "", h.leave)) }
	}},
	{"keys pause", func(h *house) func() error {
		return func() error { return last(h.keys.SetState(h.ctx, operator, "builder", hub.AgentPaused)) }
	}},
	{"keys role", func(h *house) func() error {
		return func() error { return last(h.keys.SetRole(h.ctx, operator, "builder", hub.RoleReviewer)) }
	}},
	{"keys ensure the operator", func(h *house) func() error {
		return func() error { return last(h.keys.EnsureOperator(h.ctx, "")) }
	}},
	{"keys add an operator", func(h *house) func() error {
		return func() error { return last2(h.keys.AddOperator(h.ctx, operator, "ana")) }
	}},
	{"keys remove an operator", func(h *house) func() error {
		h.must(last2(h.keys.AddOperator(h.ctx, operator, "ana")))
		return func() error { return h.keys.RemoveOperator(h.ctx, operator, "ana") }
	}},
	{"peers add", func(h *house) func() error {
		return func() error {
			return last2(h.peers.AddPeer(h.ctx, operator, peers.NewPeer{AID: front.AID, Endpoint: "https://front.example", Repo: "frontend"}))
		}
	}},
	{"peers remove", func(h *house) func() error {
		_, _, err := h.peers.AddPeer(h.ctx, operator, peers.NewPeer{AID: front.AID, Endpoint: "https://front.example", Repo: "frontend"})
		h.must(err)
		return func() error { return last(h.peers.RemovePeer(h.ctx, operator, front.AID)) }
	}},
	{"peers invite", func(h *house) func() error {
		p := h.created()
		return func() error {
			return last2(h.peers.Invite(h.ctx, operator, peers.NewInvite{Project: p, Repo: "frontend"}))
		}
	}},
	{"peers revoke an invite", func(h *house) func() error {
		in, _, err := h.peers.Invite(h.ctx, operator, peers.NewInvite{Project: h.created(), Repo: "frontend"})
		h.must(err)
		return func() error { return last(h.peers.RevokeInvite(h.ctx, operator, in.ID)) }
	}},
	{"peers redeem", func(h *house) func() error {
		_, text, err := h.peers.Invite(h.ctx, operator, peers.NewInvite{Project: h.created(), Repo: "frontend"})
		h.must(err)
		return func() error {
			return last(h.peers.Redeem(h.ctx, hub.Caller{}, federation.Redemption{Invite: text, AID: front.AID, Endpoint: "https://front.example", Repo: "frontend", Key: "k"}))
		}
	}},
	{"peers join", func(h *house) func() error {
		_, text, err := h.peers.Invite(h.ctx, operator, peers.NewInvite{Project: h.created(), Repo: "frontend"})
		h.must(err)
		return func() error {
			return last(h.peers.Join(h.ctx, operator, text, func(_ context.Context, r federation.Redemption) (federation.Welcome, error) {
				return federation.Welcome{AID: front.AID, Endpoint: "https://front.example", Repo: "frontend", Project: "p", ForRepo: "backend", Permissions: coord.Contributor, Key: r.Key + "k"}, nil
			}))
		}
	}},
	{"peers register", func(h *house) func() error {
		return func() error {
			return last(h.peers.RegisterPeer(h.ctx, operator, peers.NewPeer{AID: front.AID, Endpoint: "https://front.example", Repo: "frontend"}))
		}
	}},
	{"peers approve", func(h *house) func() error {
		h.must(last(h.peers.RegisterPeer(h.ctx, operator, peers.NewPeer{AID: front.AID, Endpoint: "https://front.example", Repo: "frontend"})))
		return func() error { return last(h.peers.ApprovePeer(h.ctx, operator, front.AID)) }
	}},
	{"callers mint a token", func(h *house) func() error {
		p := h.created()
		return func() error {
			return last2(h.callers.MintToken(h.ctx, operator, callers.NewToken{Agent: front.AID, Project: p}))
		}
	}},
	{"callers revoke a token", func(h *house) func() error {
		_, token, err := h.callers.MintToken(h.ctx, operator, callers.NewToken{Agent: front.AID, Project: h.created()})
		h.must(err)
		return func() error { return last(h.callers.RevokeToken(h.ctx, operator, token.ID)) }
	}},
	{"items claim", func(h *house) func() error {
		return func() error { return last(h.handoffs.ClaimItem(h.ctx, builder, "app#1")) }
	}},
	{"items release", func(h *house) func() error {
		h.must(last(h.handoffs.ClaimItem(h.ctx, builder, "app#1")))
		return func() error { return last(h.handoffs.ReleaseItem(h.ctx, builder, "app#1")) }
	}},
	{"roots add", func(h *house) func() error {
		dir := h.t.TempDir()
		return func() error { return last(h.roots.Add(h.ctx, operator, dir)) }
	}},
	{"roots remove", func(h *house) func() error {
		dir := h.t.TempDir()
		h.must(last(h.roots.Add(h.ctx, operator, dir)))
		return func() error { return last(h.roots.Remove(h.ctx, operator, dir)) }
	}},
	{"journal started", func(h *house) func() error { return func() error { return h.journal.Started(h.ctx, "1") } }},
	{"records trail", func(h *house) func() error {
		h.sent(nil)
		return func() error { return h.records.Copy(h.ctx) }
	}},
	{"records archive", func(h *house) func() error {
		h.sent(nil)
		h.must(h.records.Copy(h.ctx))
		h.now = h.now.Add(100 * 24 * time.Hour)
		return func() error { return last(h.records.Archive(h.ctx, operator, records.ArchiveOptions{})) }
	}},
	{"records forget", func(h *house) func() error {
		id := h.sent(func(d *mailroom.Draft) { d.Text = strings.Repeat("long ", 2000) }) // an artifact holds it
		h.must(h.records.Copy(h.ctx))
		return func() error { return last(h.records.Forget(h.ctx, operator, id)) }
	}},
}

// inSteps are operations of several updates, each complete in itself: they go on after
// a failure, so that what was stored before stays.
var inSteps = []string{"records trail", "records forget", "records archive", "mailroom sweep", "mailroom catch up", "mailroom sweep of copies", "reservation sweep", "check run", "continuation stop", "proof grow"}

// peerOnly are the methods that the delivery to peers calls, and no service.
var peerOnly = []string{"AddDeadLetter", "PutOutbox"}

func TestEveryCallFailsOnce(t *testing.T) {
	patience.NotUnderRace(t)
	failed := map[string]bool{} // names of methods
	for _, op := range operations {
		t.Run(op.name+": whatever call of the store fails, nothing is half done, and a repetition succeeds", func(t *testing.T) {
			steps := slices.Contains(inSteps, op.name)
			h := newHouse(t)
			do := op.prepare(h)
			before := h.picture()
			failures := 0
			for n := 1; ; n++ {
				count, at := 0, ""
				h.store.Before = func(call string) error {
					if count++; count != n {
						return nil
					}
					at = call
					failed[call[strings.LastIndex(call, " ")+1:]] = true
					return hub.Errorf(hub.CodeDegraded, "test", "call %d, %s, fails", n, call)
				}
				err := do()
				h.store.Before = nil
				switch {
				case at == "" && err != nil:
					t.Fatalf("without a failure, after %d with one: %v", failures, err)
				case at == "":
					if failures == 0 {
						t.Fatal("no call could fail")
					}
					h.verify()
					return
				case err == nil && strings.HasPrefix(at, "update "):
					t.Fatalf("%s failed, and the operation succeeded", at)
				case steps && err != nil:
					failures++
					if err := do(); err != nil {
						t.Fatalf("after %s failed: %v", at, err)
					}
					h.verify()
				case err != nil:
					failures++
					if h.picture() != before {
						t.Fatalf("%s failed (%v), and something was stored:\n%s\nbefore:\n%s", at, err, h.picture(), before)
					}
				}
				if steps || err == nil { // it has succeeded: go on in another house
					h = newHouse(t)
					do = op.prepare(h)
					before = h.picture()
				}
			}
		})
	}
	t.Run("every method that writes has failed", func(t *testing.T) {
		for _, name := range writers() {
			if !failed[name] && !slices.Contains(peerOnly, name) {
				t.Errorf("%s was called by no operation", name)
			}
		}
	})
}

// calledAs returns the name under which a call of a part fails. Wakes, reservations, usage and checks
// have short names of their own.
func calledAs(part reflect.Type, method string) string {
	switch part {
	case reflect.TypeFor[hub.WakeWriter]():
		return "Wakes." + method
	case reflect.TypeFor[hub.ReservationWriter]():
		return "Reservations." + method
	case reflect.TypeFor[hub.CheckWriter]():
		return "Checks." + method
	case reflect.TypeFor[hub.UsageWriter]():
		return "Usage." + method
	}
	return method
}

// writers returns the methods of a transaction that write, and those of its parts.
func writers() (names []string) {
	all, reader := reflect.TypeFor[hub.Tx](), reflect.TypeFor[hub.Reader]()
	for i := range all.NumMethod() {
		m := all.Method(i)
		if _, reads := reader.MethodByName(m.Name); reads {
			continue
		}

		part := m.Type.NumIn() == 0 && m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Interface
		if !part {
			names = append(names, m.Name)
			continue
		}
		for j := range m.Type.Out(0).NumMethod() {
			names = append(names, calledAs(m.Type.Out(0), m.Type.Out(0).Method(j).Name))
		}
	}
	return names
}

// subscribed sends a message that the operator subscribed to.
func (h *house) subscribed() {
	h.must(last(h.mail.Subscribe(h.ctx, operator, hub.Filter{PriorityMin: hub.PriorityLow})))
	h.sent(func(d *mailroom.Draft) { d.Policy = &hub.Policy{Visibility: hub.VisibilityAudit} })
}

func TestOneTransaction(t *testing.T) {
	t.Run("R3-034 the handoff and the message about it are stored in one transaction", func(t *testing.T) {
		h := newHouse(t)
		h.store.Updates()
		h.proposed()
		for _, u := range h.store.Updates() {
			if slices.Contains(u.Actions, actions.HandoffProposed) != slices.Contains(u.Actions, actions.MessageSent) {
				t.Errorf("a transaction recorded %v, want both or neither", u.Actions)
			}
		}
	})
}

func TestDurability(t *testing.T) {
	for _, tt := range []struct {
		op     string // its name in operations, or "" for do
		do     func(h *house) error
		action actions.Action
		want   hub.Durability
	}{
		{"mailroom send", nil, actions.MessageSent, hub.SurvivesKill},
		{"", func(h *house) error {
			return last(h.send("builder", func(d *mailroom.Draft) { d.Priority = hub.PriorityHigh }))
		}, actions.MessageSent, hub.SurvivesPowerLoss},
		{"", func(h *house) error {
			return last(h.send("builder", func(d *mailroom.Draft) { d.Priority = hub.PriorityCritical }))
		}, actions.MessageSent, hub.SurvivesPowerLoss},
		{"", func(h *house) error { return last(h.send("builder", gated)) }, actions.MessageHeld, hub.SurvivesPowerLoss},
		{"mailroom approve", nil, actions.MessageApproved, hub.SurvivesPowerLoss},
		{"mailroom deny", nil, actions.MessageDenied, hub.SurvivesPowerLoss},
		{"handoff initiate", nil, actions.HandoffProposed, hub.SurvivesPowerLoss},
		{"handoff accept", nil, actions.HandoffAccepted, hub.SurvivesPowerLoss},
		{"handoff reject", nil, actions.HandoffRejected, hub.SurvivesPowerLoss},
		{"handoff complete", nil, actions.HandoffCompleted, hub.SurvivesPowerLoss},
		{"handoff release", nil, "", hub.SurvivesPowerLoss},
		{"keys revoke", nil, actions.KeyRevoked, hub.SurvivesPowerLoss},
		{"roots add", nil, actions.RootAdded, hub.SurvivesPowerLoss},
	} {
		t.Run(fmt.Sprintf("%s %s is asked to survive: %d", tt.op, tt.action, tt.want), func(t *testing.T) {
			h := newHouse(t)
			do := func() error { return tt.do(h) }
			if tt.op != "" {
				i := slices.IndexFunc(operations, func(o struct {
					name    string
					prepare func(h *house) (do func() error)
				}) bool {
					return o.name == tt.op
				})
				do = operations[i].prepare(h)
			}
			h.store.Updates()
			h.must(do())
			found := false
			for _, u := range h.store.Updates() {
				if tt.action == "" || slices.Contains(u.Actions, tt.action) {
					found = true
					if u.Durability != tt.want {
						t.Errorf("the update of %v asks for durability %d, want %d", u.Actions, u.Durability, tt.want)
					}
				}
			}
			if !found {
				t.Errorf("no update recorded %s", tt.action)
			}
		})
	}
}
