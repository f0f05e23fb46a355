package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/gateway"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/gatewaytest"
	"github.com/parley-agents/parley/server"
)

// gatewayHub starts a hub of planner, builder and tester that uses a gateway.
func gatewayHub(t *testing.T, url string) *wakeHub {
	w := startWakes(t, server.Options{Gateway: &server.GatewayOptions{
		URL: url, Token: gatewaytest.Token, Session: gateway.ModeRun, Wake: true, Workq: true,
		Agents: map[hub.AgentID]gateway.Agent{"builder": {ID: "main"}, "planner": {ID: "planner"}},
	}}, "planner", "builder", "tester")
	w.connected()
	return w
}

// connected waits until the hub is connected to its gateway.
func (w *wakeHub) connected() {
	w.t.Helper()
	w.until("the gateway is connected", func() bool { return w.capabilities()["workq"].State == hub.Verified }, func() any { return w.capabilities() })
}

func (w *wakeHub) capabilities() hub.Capabilities {
	w.t.Helper()
	return mustCall(w.t, w.as(w.operator), api.Whoami, api.None{}).Capabilities
}

// handOver hands a task that names an item from one agent to another.
func (w *wakeHub) handOver(from, to hub.AgentID, task, item string) handoff.Report {
	w.t.Helper()
	pkg := fmt.Sprintf(`{"task":{"external_refs":[{"type":"workq_item","value":%q}]}}`, item)
	p := api.HandoffParams{Action: "initiate", To: to, TaskID: task, Title: "Title", Objective: "o", Summary: "s", NextStep: "n", Criteria: api.Criteria{"c"}, Package: json.RawMessage(pkg)}
	made := mustCall(w.t, w.as(w.keys[from]), api.Handoff, p)
	return *mustCall(w.t, w.as(w.keys[to]), api.Handoff, api.HandoffParams{Action: "accept", ID: made.Report.ID}).Report
}

// hubSuite tests what users of a hub see of its gateway.
func hubSuite(t *testing.T, w *wakeHub) {
	t.Run("mail starts a turn at the gateway", func(t *testing.T) {
		id := w.send("planner", api.SendParams{To: api.Recipients{"builder"}})
		if row := w.untilRow(id, hub.DeliveryAccepted); row.Channel != hub.ChannelSession || !strings.Contains(row.Error, "chat.send: the turn is started") {
			t.Errorf("got %+v, want a turn by chat.send", row)
		}
	})
	t.Run("R3-146 accepting a task claims an item that no agent owns", func(t *testing.T) {
		got := w.handOver("planner", "builder", "Q-0", "app#1")
		if got.Status != hub.HandoffActivated || got.Ownership != hub.OwnershipTransferred || got.Capabilities["workq"].State != hub.Verified {
			t.Errorf("got %+v, want it claimed", got)
		}
	})
	t.Run("R3-156 the owner of a task of a team is mirrored in the queue, and what could not be is told", func(t *testing.T) {
		operator := w.as(w.operator)
		w.add(t, "lead")
		mustCall(t, operator, api.Team, api.TeamParams{Action: "create", Team: "auth", Objective: "o", Members: []team.Seat{{Agent: "lead", Role: hub.RoleCoordinator}, {Agent: "planner", Role: hub.RoleExecutor}, {Agent: "builder", Role: hub.RoleExecutor}}})
		task := func() hub.TaskID {
			t.Helper()
			return mustCall(t, operator, api.Team, api.TeamParams{Action: "task", Team: "auth", Title: "rotate", ExternalRefs: []hub.ExternalRef{{Type: "workq_item", Value: "app#7"}}}).Task.ID
		}
		queued := func(id hub.TaskID, owner hub.AgentID, want hub.Ownership, in hub.AgentID) {
			t.Helper()
			mustCall(t, operator, api.Team, api.TeamParams{Action: "task", Task: id, Owner: owner})
			var now hub.Task
			w.until(fmt.Sprintf("the queue knows of %s", owner), func() bool {
				now = *mustCall(t, operator, api.Team, api.TeamParams{Action: "task", Task: id}).Task
				return now.Queue != hub.OwnershipPending
			}, func() any { return now })
			if now.Queue != want || now.QueueOwner != in {
				t.Errorf("%s: got %s, %q in the queue, want %s, %q", owner, now.Queue, now.QueueOwner, want, in)
			}
		}
		first := task()
		queued(first, "planner", hub.OwnershipTransferred, "planner")
		queued(first, "builder", hub.OwnershipTransferred, "builder")
		queued(task(), "planner", hub.OwnershipManual, "") // the item is that of the builder
		in := mustCall(t, w.as(w.keys["planner"]), api.Inbox, api.InboxParams{})
		if last := string(in.Messages[len(in.Messages)-1].Payload); !strings.Contains(last, "App#7 was not moved to planner in its queue") {
			t.Errorf("the owner was told %s", last)
		}
	})
	t.Run("R3-096 accepting a task moves its item in the queue of the gateway", func(t *testing.T) {
		got := w.handOver("builder", "planner", "Q-1", "app#1")
		if got.Status != hub.HandoffActivated || got.Ownership != hub.OwnershipTransferred {
			t.Errorf("got %+v, want it transferred", got)
		}
		shown := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "show", ID: got.ID})
		text := handoff.Render(*shown.Report)
		for _, step := range []string{"workq.query, main, claimed", "workq.release, released by main", "workq.claim, claimed for planner; session_key omitted"} {
			if !strings.Contains(text, "- verified: "+step) {
				t.Errorf("got %s, want the step %s", text, step)
			}
		}
	})
	t.Run("the operator probes the gateway", func(t *testing.T) {
		got := mustCall(t, w.as(w.operator), api.ProbeGateway, api.None{})
		states := ""
		for _, f := range got.Findings {
			states += f.Name + " " + f.State + ";"
		}
		if states != "session-injection feasible;wake feasible;workq feasible;" {
			t.Errorf("got %s", states)
		}
		if _, err := rpc.Call(t.Context(), w.as(w.keys["builder"]), api.ProbeGateway, api.None{}); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("by an agent: got %v, want %s", err, hub.CodeDenied)
		}
	})
}

func TestGateway(t *testing.T) {
	t.Parallel()
	s := gatewaytest.NewStandIn(t)
	w := gatewayHub(t, s.URL)
	hubSuite(t, w)
	t.Run("R3-128 the calls name their agents, and no other method touches the queue", func(t *testing.T) {
		var got []string
		for _, c := range s.Calls("") {
			if c.Params["issue_ref"] == "app#1" && c.Method != "workq.query" {
				got = append(got, fmt.Sprint(c.Method, " ", c.Params["agent_id"], " ", c.Params["session_key"]))
			}
		}
		if fmt.Sprint(got) != "[workq.claim main <nil> workq.release main <nil> workq.claim planner <nil>]" {
			t.Errorf("got %v, want a claim of the free item, and its transfer", got)
		}
	})
	t.Run("a wake over the gateway has the notice and no words of the sender", func(t *testing.T) {
		w.pass(time.Minute)
		w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Priority: hub.PriorityCritical, Text: "do as I say", Topic: "now"})
		w.until("the agent is woken", func() bool {
			w.pass(time.Minute)
			return len(s.Calls("wake")) > 1 // the first is of the probe
		}, func() any { return s.Calls("") })
		text := fmt.Sprint(s.Calls("wake"), s.Calls("chat.send"))
		if !strings.Contains(text, "Critical mail for builder: 5 new messages.") || strings.Contains(text, "as I say") {
			t.Errorf("got %s", text)
		}
	})
	t.Run("R3-097 without the gateway a task is moved by hand, and settled", func(t *testing.T) {
		s.Set(func(s *gatewaytest.StandIn) { s.Protocol = 5 })
		s.Cut()
		w.until("the gateway is gone", func() bool { return w.capabilities()["gateway"].State == hub.Failed }, func() any { return w.capabilities() })
		first, second := w.handOver("planner", "builder", "Q-2", "app#2"), w.handOver("planner", "builder", "T-3", "app#3")
		if first.Ownership != hub.OwnershipManual || first.Capabilities["workq"].State != hub.Failed || len(first.Warnings) == 0 {
			t.Errorf("got %+v, want manual_required, and the queue failed", first)
		}
		done := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "workq", ID: first.ID, Done: true})
		if done.Report.Ownership != hub.OwnershipConfirmed {
			t.Errorf("settled: got %+v, want confirmed", done.Report)
		}
		s.Set(func(s *gatewaytest.StandIn) { s.Protocol = 4 })
		w.connected()
		again := mustCall(t, w.as(w.operator), api.Handoff, api.HandoffParams{Action: "workq", ID: second.ID})
		if again.Report.Ownership != hub.OwnershipTransferred {
			t.Errorf("tried again: got %+v, want transferred", again.Report)
		}
	})
	t.Run("the records fit the journal", func(t *testing.T) {
		got := mustCall(t, w.as(w.operator), api.Verify, api.VerifyParams{})
		if len(got.Findings) != 0 {
			t.Errorf("got %+v, want none", got.Findings)
		}
	})
}

func TestRealGateway(t *testing.T) { hubSuite(t, gatewayHub(t, gatewaytest.Real(t).URL)) }
