package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/reservation"
	"github.com/parley-agents/parley/internal/service/schedule"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

func TestAdmission(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	r := start(t, quiet())
	keys := r.add(t, "alice", "bob")
	alice, bob := keys[0], keys[1]
	spare := must(rpc.Call(t.Context(), r.as(r.operator), api.AddKey, api.AgentParams{ID: "bob", Label: "spare"}))(t).Key

	wantOut := func(t *testing.T, a answer, id string) {
		t.Helper()
		if a.status != http.StatusUnauthorized {
			t.Errorf("status: got %d, want 401", a.status)
		}
		if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
			t.Errorf("WWW-Authenticate: got %q, want Bearer", got)
		}
		a.wantReason(t, -32000, hub.CodeUnauthenticated)
		if a.Error.Data.Hint == "" {
			t.Error("there is no hint")
		}
		if string(a.ID) != id {
			t.Errorf("id: got %s, want %s", a.ID, id)
		}
	}
	strangers := []struct{ name, key string }{
		{"without a key", ""},
		{"with a key nobody has", "cacp_sk_live_" + strings.Repeat("A", 43)},
		{"with a key of another kind", "sk-ant-" + strings.Repeat("A", 43)},
		{"with half a key", alice[:len(alice)-1]},
		{"with a key in other case", strings.ToUpper(alice)},
	}
	doors := []struct{ method, path string }{
		{"POST", "/"}, {"POST", "/mcp"}, {"GET", "/mcp"}, {"GET", "/events"}, {"POST", "/artifacts"},
		{"GET", "/artifacts/" + strings.Repeat("a", 64)},
	}
	for _, s := range strangers {
		for _, d := range doors {
			t.Run(fmt.Sprintf("nobody gets in %s at %s %s", s.name, d.method, d.path), func(t *testing.T) {
				before := r.tables(t)
				id := "null"
				if d.path == "/" {
					id = "17" // that of the request
				}
				wantOut(t, r.do(t, d.method, d.path, s.key, strings.NewReader(`{"jsonrpc":"2.0","id":17,"method":"parley/whoami"}`)), id)
				r.wantSame(t, before)
			})
		}
	}
	t.Run("another scheme than bearer is no key", func(t *testing.T) {
		wantOut(t, r.do(t, "POST", "/", "", strings.NewReader("{}"), func(req *http.Request) { req.Header.Set("Authorization", "Basic "+alice) }), "null")
	})
	t.Run("the name of the scheme may be written in any case", func(t *testing.T) {
		body := `{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`
		r.do(t, "POST", "/", "", strings.NewReader(body), func(req *http.Request) { req.Header.Set("Authorization", "bearer "+alice) }).wantOK(t, nil)
	})
	t.Run("R3-007 a key stands for its agent", func(t *testing.T) {
		for key, want := range map[string]hub.AgentID{alice: "alice", bob: "bob", spare: "bob", r.operator: hub.Operator} {
			if got := must(rpc.Call(t.Context(), r.as(key), api.Whoami, api.None{}))(t).ID; got != want {
				t.Errorf("whoami: got %s, want %s", got, want)
			}
		}
	})
	t.Run("a revoked key is refused at once and the others of the agent are not", func(t *testing.T) {
		must(rpc.Call(t.Context(), r.as(bob), api.Whoami, api.None{}))(t) // so that it is known to be good
		must(rpc.Call(t.Context(), r.as(r.operator), api.RevokeKeys, api.AgentParams{ID: "bob", Label: "default"}))(t)
		wantOut(t, r.call(t, bob, "parley/whoami", "{}"), "1")
		must(rpc.Call(t.Context(), r.as(spare), api.Whoami, api.None{}))(t)
	})
	t.Run("R3-020 refused strangers are recorded", func(t *testing.T) {
		found := false
		for _, e := range r.journal(t, 0) {
			found = found || strings.HasPrefix(e, "|call.refused|refused|") && strings.Contains(e, "unauthenticated")
		}
		if !found {
			t.Errorf("journal: got %q, want an entry call.refused with unauthenticated", r.journal(t, 0))
		}
	})
	t.Run("no secret is in the journal", func(t *testing.T) {
		all := strings.Join(r.journal(t, 0), "\n")
		for _, k := range []string{alice, bob, spare, r.operator} {
			if strings.Contains(all, k) {
				t.Error("a key is in the journal")
			}
		}
	})
}

func TestClaimedSender(t *testing.T) {
	patience.NotUnderRace(t)
	claims := []struct{ name, member string }{
		{"another agent", `"from":"bob"`},
		{"itself", `"from":"alice"`},
		{"the operator", `"from":"operator"`},
		{"the name in other case", `"From":"bob"`},
		{"the name in capitals", `"FROM":"bob"`},
		{"null", `"from":null`},
		{"an object", `"from":{"id":"bob"}`},
	}
	methods := []struct{ name, method, params string }{
		{"send", "acp/send", `{"to":["carol"],"text":"hello",%s}`},
		{"respond", "acp/respond", `{"reply_to":"%s","text":"hello",%%s}`},
		{"status", "acp/status", `{"to":["carol"],"state":"update","summary":"hello",%s}`},
	}
	t.Run("strict", func(t *testing.T) {
		r := start(t, quiet())
		keys := r.add(t, "alice", "bob", "carol")
		id := r.send(t, keys[1], "alice", "a question")
		before := r.tables(t)
		for _, m := range methods {
			if m.name == "respond" {
				m.params = fmt.Sprintf(m.params, id)
			}
			for _, c := range claims {
				t.Run("R3-008 "+m.name+" that claims "+c.name+" is refused and stores nothing", func(t *testing.T) {
					r.call(t, keys[0], m.method, fmt.Sprintf(m.params, c.member)).wantError(t, -32000, hub.CodeTampering)
					before = r.wantSame(t, before)
				})
			}
		}
		t.Run("R3-020 the attempt is recorded under who made it", func(t *testing.T) {
			found := false
			for _, e := range r.journal(t, 0) {
				found = found || strings.HasPrefix(e, "alice|call.refused|refused|") && strings.Contains(e, "identity_tampering")
			}
			if !found {
				t.Errorf("journal: got %q, want alice's identity_tampering", r.journal(t, 0))
			}
		})
	})
	t.Run("lenient", func(t *testing.T) {
		o := unlimited()
		o.Lenient = true
		r := start(t, o)
		keys := r.add(t, "alice", "bob", "carol")
		id := r.send(t, keys[1], "alice", "a question")
		for _, m := range methods {
			if m.name == "respond" {
				m.params = fmt.Sprintf(m.params, id)
			}
			for _, c := range claims {
				t.Run("R3-008 "+m.name+" that claims "+c.name+" is sent by who authenticated, with a warning and a record", func(t *testing.T) {
					head := r.journalHead(t)
					var got struct {
						ID       string   `json:"id"`
						Warnings []string `json:"warnings"`
					}
					r.call(t, keys[0], m.method, fmt.Sprintf(m.params, c.member)).wantOK(t, &got)
					if !strings.Contains(strings.Join(got.Warnings, "\n"), `"from"`) {
						t.Errorf("warnings: got %q, want one about from", got.Warnings)
					}
					if from := r.rows(t, `SELECT from_agent FROM messages WHERE id = '`+got.ID+`'`); len(from) != 1 || from[0] != "alice" {
						t.Errorf("stored sender: got %q, want alice", from)
					}
					if extra := r.rows(t, `SELECT extra_json FROM message_meta WHERE message_id = '`+got.ID+`'`); strings.Contains(strings.ToLower(strings.Join(extra, "")), "from") {
						t.Errorf("stored beside the message: got %q, want no claimed sender", extra)
					}
					found := false
					for _, e := range r.journal(t, head) {
						found = found || strings.HasPrefix(e, "alice|identity.claim_ignored|")
					}
					if !found {
						t.Errorf("journal: got %q, want identity.claim_ignored", r.journal(t, head))
					}
				})
			}
		}
		t.Run("R3-003 other unknown members are kept", func(t *testing.T) {
			var got struct {
				ID string `json:"id"`
			}
			r.call(t, keys[0], "acp/send", `{"to":["carol"],"text":"more","From":"bob","x_new":{"a":1}}`).wantOK(t, &got)
			if extra := r.rows(t, `SELECT extra_json FROM message_meta WHERE message_id = '`+got.ID+`'`); len(extra) != 1 || extra[0] != `{"x_new":{"a":1}}` {
				t.Errorf("extra members: got %q, want x_new alone", extra)
			}
		})
	})
}

// TestEveryWrite goes through every operation that changes something.
func TestEveryWrite(t *testing.T) {
	patience.NotUnderRace(t)
	r := start(t, unlimited())
	keys := r.add(t, "alice", "bob", "worker", "carol")
	alice, bob := keys[0], keys[1]
	held := func() hub.EnvelopeID {
		return must(rpc.Call(t.Context(), r.as(alice), api.Send, api.SendParams{
			To: api.Recipients{"bob"}, Text: "may I?", Policy: []byte(`{"human_gate":"required"}`),
		}))(t).ID
	}
	ids := hub.NewIDs(time.Now)
	begun := func() string {
		return string(must(rpc.Call(t.Context(), r.as(r.operator), api.BeginRun, api.RunParams{ID: hub.RunID(ids.Next()), Agent: "worker", Task: "t", TimeoutS: 60}))(t).Run.ID)
	}
	tree := must(rpc.Call(t.Context(), r.as(r.operator), api.AddRoot, api.RootParams{Path: t.TempDir()}))(t).Path
	reserved := func() string {
		name := string(ids.Next())
		must(rpc.Call(t.Context(), r.as(alice), api.ReserveFiles, api.ReserveParams{Request: reservation.Request{Tree: tree, Patterns: []string{name}}}))(t)
		return name
	}

	// A repository proposes a check, and has one of the operator.
	repo := newLandingRepo(t)
	repo.write("parley.yaml", "checks:\n  - name: proposed\n    command: [make]\n")
	repo.commit("checks")
	must(rpc.Call(t.Context(), r.as(r.operator), api.AddRoot, api.RootParams{Path: repo.dir}))(t)
	inRepo := api.RepositoryParams{Repository: repo.dir}
	checked := func() string {
		name := strings.ToLower(string(ids.Next()))
		must(rpc.Call(t.Context(), r.as(r.operator), api.AddCheck, api.AddCheckParams{RepositoryParams: inRepo, Name: name, Command: []string{"true"}, Unconfined: true}))(t)
		return name
	}

	// Sources of events and schedules.
	source := func(name string) string {
		return fmt.Sprintf(`"name":%q,"vendor":"github","secret":"0123456789abcdef","to":"worker"`, name)
	}
	sourced := func() string {
		name := strings.ToLower(string(ids.Next()))
		r.call(t, r.operator, "parley/in/add", `{`+source(name)+`}`).wantOK(t, nil)
		return name
	}
	scheduled := func() hub.ScheduleID {
		return must(rpc.Call(t.Context(), r.as(r.operator), api.AddSchedule, schedule.Setting{Every: "1h", To: "worker", Text: "t"}))(t).Schedule.ID
	}

	// Bob works on a task in the repository, and has a file there that is not committed.
	accepted := func() hub.HandoffID {
		id := must(rpc.Call(t.Context(), r.as(alice), api.Handoff, api.HandoffParams{
			Action: "initiate", To: "bob", TaskID: string(ids.Next()), Title: "t", Summary: "s", NextStep: "n", Criteria: []string{"c"}, Worktree: repo.dir,
		}))(t).Report.ID
		must(rpc.Call(t.Context(), r.as(bob), api.Handoff, api.HandoffParams{Action: "accept", ID: id}))(t)
		repo.write("draft.txt", string(ids.Next()))
		return id
	}
	rescued := func() hub.RescueID {
		must(rpc.Call(t.Context(), r.as(r.operator), api.ContinueTask, api.ContinueParams{Handoff: accepted(), With: "carol"}))(t)
		return must(rpc.Call(t.Context(), r.as(r.operator), api.ListRescues, api.None{}))(t).Rescues[0].ID
	}

	// How to call each with success, as whom, without the braces.
	writes := map[string]struct {
		key    string
		params func() string
	}{
		"acp/send": {alice, func() string { return `"to":["bob"],"text":"hello"` }},
		"acp/respond": {bob, func() string {
			return `"text":"hello back","reply_to":"` + string(r.send(t, alice, "bob", "hello")) + `"`
		}},
		"acp/status": {alice, func() string { return `"to":["bob"],"state":"complete","summary":"done"` }},
		"acp/handoff": {alice, func() string {
			return `"action":"initiate","to":"bob","task_id":"T-1","title":"t","summary":"s","next_step":"n","success_criteria":["c"]`
		}},
		"acp/team": {r.operator, func() string {
			return `"action":"create","team":"t` + strings.ToLower(string(ids.Next())) + `","objective":"o","members":[{"agent":"worker","role":"coordinator"}]`
		}},
		"parley/team/policy": {r.operator, func() string {
			id := hub.TeamID("t" + strings.ToLower(string(ids.Next())))
			must(rpc.Call(t.Context(), r.as(r.operator), api.Team, api.TeamParams{Action: "create", Team: id, Objective: "o", Members: []team.Seat{{Agent: "worker", Role: hub.RoleCoordinator}}}))(t)
			return fmt.Sprintf(`"team":%q,"set":[{"role":"reviewer","action":"block","permit":"deny"}]`, id)
		}},
		"parley/decide": {r.operator, func() string {
			say := func(key string, to hub.AgentID, kind hub.MessageType, n int64, payload string) hub.EnvelopeID {
				return must(rpc.Call(t.Context(), r.as(key), api.Send, api.SendParams{To: api.Recipients{to}, Type: kind, Sequence: &n, Payload: []byte(payload)}))(t).ID
			}
			id := say(alice, "bob", hub.TypePositionState, 1, `{"topic":"t","position":"p","reasoning":"r","confidence":"low","open_to_revision":true}`)
			say(bob, "alice", hub.TypePositionChallenge, 2, fmt.Sprintf(`{"position_id":%q,"counter_position":"c","reasoning":"r","severity":"minor"}`, id))
			say(bob, "alice", hub.TypePositionEscalate, 3, fmt.Sprintf(`{"position_ids":[%q],"summary":"s","escalate_to":"worker","reason":"r"}`, id))
			return fmt.Sprintf(`"thread_id":%q,"decision":"d","because":"b"`, id)
		}},
		"parley/coordinate": {alice, func() string { return `"action":"project/create","name":"login","objective":"log in"` }},
		"acp/inbox":         {bob, func() string { r.send(t, alice, "bob", "fetch me"); return `"ack":true` }},

		"parley/run/begin": {r.operator, func() string {
			return `"run_id":"` + string(ids.Next()) + `","agent":"worker","task":"t","timeout_s":60`
		}},
		"parley/run/move": {r.operator, func() string { return `"run_id":"` + begun() + `","state":"running"` }},
		"parley/run/end": {r.operator, func() string {
			return `"run_id":"` + begun() + `","state":"done","verdict":"confirmed","report":{"status":"ok"}`
		}},

		"parley/agent/add":    {r.operator, func() string { return `"id":"dave"` }},
		"parley/agent/key":    {r.operator, func() string { return `"id":"worker","label":"second"` }},
		"parley/agent/revoke": {r.operator, func() string { return `"id":"worker","label":"default"` }},
		"parley/agent/role":   {r.operator, func() string { return `"id":"worker","role":"reviewer"` }},
		"parley/agent/pause":  {r.operator, func() string { return `"id":"worker"` }},
		"parley/agent/resume": {r.operator, func() string { return `"id":"worker"` }},
		"parley/agent/reset":  {r.operator, func() string { return `"id":"worker"` }},
		"parley/root/add":     {r.operator, func() string { return fmt.Sprintf(`"path":%q`, t.TempDir()) }},
		"parley/root/remove": {r.operator, func() string {
			return fmt.Sprintf(`"path":%q`, must(rpc.Call(t.Context(), r.as(r.operator), api.AddRoot, api.RootParams{Path: t.TempDir()}))(t).Path)
		}},
		"parley/operator/add": {r.operator, func() string { return `"name":"ana"` }},
		"parley/operator/remove": {r.operator, func() string {
			name := strings.ToLower(string(ids.Next()))
			return `"name":"` + must(rpc.Call(t.Context(), r.as(r.operator), api.AddOperator, api.OperatorParams{Name: name}))(t).Name + `"`
		}},
		"parley/web/invite": {r.operator, func() string { return `"name":"ben"` }},
		"parley/web/revoke": {r.operator, func() string {
			r.signIn(t)
			return `"all":true`
		}},
		"wake/allow":  {r.operator, func() string { return `"agent":"worker","allow":true` }},
		"wake/pause":  {r.operator, func() string { return `"agent":"worker"` }},
		"wake/resume": {r.operator, func() string { return `"all":true` }},
		"wake/test":   {r.operator, func() string { return `"agent":"worker","seconds":1` }},

		"acp/subscribe": {alice, func() string { return `"action":"add","filter":{"topics":["` + string(ids.Next()) + `"]}` }},
		"acp/broadcast": {r.operator, func() string { return `"text":"hello to all"` }},

		"workq/claim": {alice, func() string { return `"item":"` + string(ids.Next()) + `"` }},
		"workq/release": {alice, func() string {
			return `"item":"` + must(rpc.Call(t.Context(), r.as(alice), api.ClaimItem, api.ClaimParams{Item: string(ids.Next())}))(t).Item + `"`
		}},

		"workq/add": {alice, func() string { return `"item":"` + string(ids.Next()) + `"` }},
		"workq/next": {alice, func() string {
			must(rpc.Call(t.Context(), r.as(alice), api.AddItem, api.ClaimParams{Item: string(ids.Next())}))(t)
			return ""
		}},
		"workq/done": {alice, func() string {
			return `"item":"` + must(rpc.Call(t.Context(), r.as(alice), api.ClaimItem, api.ClaimParams{Item: string(ids.Next())}))(t).Item + `"`
		}},
		"parley/contact/set": {r.operator, func() string { return `"agent":"worker","wake_from":["alice"]` }},
		"parley/retry": {alice, func() string {
			id := held()
			must(rpc.Call(t.Context(), r.as(r.operator), api.Deny, api.IDParams{ID: id}))(t)
			return `"id":"` + string(id) + `"`
		}},

		"parley/reservations/ask": {alice, func() string {
			return fmt.Sprintf(`"tree":%q,"kind":"edit","paths":[%q]`, tree, ids.Next())
		}},
		"parley/reservations/reserve": {alice, func() string {
			return fmt.Sprintf(`"tree":%q,"patterns":[%q]`, tree, ids.Next())
		}},
		"parley/reservations/release": {alice, func() string {
			return fmt.Sprintf(`"tree":%q,"paths":[%q]`, tree, reserved())
		}},
		"parley/files": {alice, func() string {
			return fmt.Sprintf(`"action":"release","tree":%q,"paths":[%q]`, tree, reserved())
		}},

		"parley/check/add": {r.operator, func() string {
			return fmt.Sprintf(`"repo":%q,"name":%q,"command":["true"],"unconfined":true`, repo.dir, strings.ToLower(string(ids.Next())))
		}},
		"parley/check/remove":  {r.operator, func() string { return fmt.Sprintf(`"repo":%q,"name":%q`, repo.dir, checked()) }},
		"parley/check/require": {r.operator, func() string { return fmt.Sprintf(`"repo":%q,"require":true`, repo.dir) }},
		"parley/check/trust": {r.operator, func() string {
			return fmt.Sprintf(`"repo":%q,"digest":%q`, repo.dir, must(rpc.Call(t.Context(), r.as(r.operator), api.ListChecks, inRepo))(t).Digest)
		}},
		"parley/landing/set": {r.operator, func() string { return fmt.Sprintf(`"repo":%q,"into":"main","checks":[%q]`, repo.dir, checked()) }},
		"parley/landing/off": {r.operator, func() string {
			must(rpc.Call(t.Context(), r.as(r.operator), api.SetLanding, api.LandingParams{Repo: repo.dir, Into: "main", Checks: []string{checked()}}))(t)
			return fmt.Sprintf(`"repo":%q,"into":"main"`, repo.dir)
		}},

		"parley/in/add": {r.operator, func() string { return source(strings.ToLower(string(ids.Next()))) }},
		"parley/in/remove": {r.operator, func() string {
			return fmt.Sprintf(`"name":%q`, sourced())
		}},
		"parley/every/add": {r.operator, func() string { return `"every":"1h","to":"worker","text":"t"` }},
		"parley/every/run": {r.operator, func() string { return fmt.Sprintf(`"id":%q`, scheduled()) }},
		"parley/every/remove": {r.operator, func() string {
			return fmt.Sprintf(`"id":%q`, scheduled())
		}},

		"parley/spend/record": {alice, func() string {
			return fmt.Sprintf(`"source":"plugin","cli":"pi","ended":true,"calls":[{"id":%q,"model":"m","input":7,"output":5}]`, ids.Next())
		}},
		"parley/budget/set": {r.operator, func() string { return `"of":"worker","turns":1000,"per":"total"` }},
		"parley/spend/prices/set": {r.operator, func() string {
			return `"models":{"m":{"input":0,"output":0,"cached_read":0,"cached_write":0}}`
		}},
		"parley/budget/remove": {r.operator, func() string {
			return fmt.Sprintf(`"id":%q`, must(rpc.Call(t.Context(), r.as(r.operator), api.SetBudget, usage.Limit{Of: "worker", Turns: 1000, Per: hub.PerTotal}))(t).ID)
		}},
		"parley/pause":                 {r.operator, func() string { return `"of":"worker"` }},
		"parley/continuation/continue": {r.operator, func() string { return fmt.Sprintf(`"handoff":%q,"with":"carol"`, accepted()) }},
		"parley/rescue/drop":           {r.operator, func() string { return fmt.Sprintf(`"id":%q`, rescued()) }},

		"parley/proof/renew": {r.operator, func() string { return "" }},

		"parley/forget":  {r.operator, func() string { return `"id":"` + string(r.send(t, alice, "bob", "my secret")) + `"` }},
		"parley/approve": {r.operator, func() string { return `"id":"` + string(held()) + `"` }},
		"parley/deny":    {r.operator, func() string { return `"id":"` + string(held()) + `"` }},
	}
	// The agents for whom an operation acts besides its caller.
	actsFor := map[string]hub.AgentID{
		"parley/continuation/continue": "bob", // who hands the task over
	}
	for _, o := range api.Operations.Bind(nil) {
		switch o.Method {
		case "parley/archive", "parley/export", "parley/backup", "parley/stop", "parley/web/open": // they write no table, archive while nothing is old
			continue
		case "parley/agent/keep", "parley/agent/stop", "parley/agent/restart", "parley/agent/prompt", "parley/agent/answer",
			"parley/agent/window/add", "parley/agent/window/remove", "parley/agent/session/open", "parley/agent/session/close", "parley/agent/session/prompt", "parley/agent/session/cancel": // a kept agent writes beside its calls; see TestKeptAgents and TestWindows
			continue
		case "parley/run/again", "parley/gateway/probe", "parley/notify/test", "parley/notify/replay": // they work outside the store, and begin a run or store a report when they are done
			continue
		case "parley/check/run", "parley/landings/land", "parley/landings/cancel", "parley/landings/retry", "parley/landings/approve", "parley/landings/undo", "parley/landings/review": // a queue writes beside its calls; see TestLandingOfAHandoff
			continue
		case "parley/proof/witness": // it needs another hub; see TestWitness
			continue
		case "parley/proof/rebuild": // it makes rows that follow from the journal, and no entry
			continue
		case "parley/in/poll": // the first question to the API is written when it is answered; see TestPolls
			continue
		case "parley/kept/back", "parley/kept/drop": // they write into a folder of a user and into the store of contents; see TestKeptWork
			continue
		case "parley/rescue/apply", "parley/continuation/compact": // they write into a folder, and a text that the caller reads next
			continue
		case "wake/wait", "wake/handed", "wake/report": // they write the caller's own sessions, and no journal
			continue
		}
		if !o.Changes {
			continue
		}
		w, ok := writes[o.Method]
		if !ok {
			t.Errorf("%s changes something and is not covered here", o.Method)
			continue
		}
		who := must(rpc.Call(t.Context(), r.as(w.key), api.Whoami, api.None{}))(t).ID
		t.Run("R3-009 "+o.Method+" refuses a claimed sender and changes nothing", func(t *testing.T) {
			params := w.params()
			before := r.tables(t)
			a := r.call(t, w.key, o.Method, `{`+strings.TrimPrefix(params+`,"from":"mallory"`, ",")+`}`)
			if a.Error == nil {
				t.Fatalf("answer: got %s, want a refusal", a.body)
			}
			if c := a.Error.Data.Reason; c != hub.CodeTampering && c != hub.CodeInvalid {
				t.Errorf("reason: got %s, want identity_tampering or schema_invalid", c)
			}
			r.wantSame(t, before)
		})
		t.Run("R3-009 what "+o.Method+" writes carries who authenticated", func(t *testing.T) {
			params := w.params()
			head := r.journalHead(t)
			old := r.rows(t, `SELECT count(*) FROM messages`)[0]
			r.call(t, w.key, o.Method, `{`+params+`}`).wantOK(t, nil)
			entries := r.journal(t, head)
			if len(entries) == 0 {
				t.Error("nothing was recorded")
			}
			for _, e := range entries {
				actor, _, _ := strings.Cut(e, "|")
				if !slices.Contains([]hub.AgentID{who, hub.Self, actsFor[o.Method]}, hub.AgentID(actor)) {
					t.Errorf("journal: got %q, want the actor %s", e, who)
				}
			}
			for _, from := range r.rows(t, `SELECT from_agent FROM messages ORDER BY rowid LIMIT -1 OFFSET `+old) {
				if !slices.Contains([]hub.AgentID{who, hub.Self, actsFor[o.Method]}, hub.AgentID(from)) {
					t.Errorf("stored sender: got %s, want %s", from, who)
				}
			}
		})
	}
	t.Run("R3-009 an agent cannot do what only the operator may", func(t *testing.T) {
		// The router records attempts by itself. A new hub on the same home, on which no
		// agent may be woken, writes nothing beside its calls.
		must(rpc.Call(t.Context(), r.as(r.operator), api.AllowWake, api.WakeAllowParams{Agent: "worker"}))(t)
		r.stop()
		r := start(t, server.Options{Home: r.home, NoInboxFiles: true})
		before := r.tables(t)
		for _, o := range api.Operations.Bind(nil) {
			if !slices.Equal(o.Callers, rpc.OperatorOnly) {
				continue
			}
			r.call(t, alice, o.Method, `{"id":"worker"}`).wantError(t, -32000, hub.CodeDenied)
			before = r.wantSame(t, before)
		}
	})
}

// signIn signs a browser in to the hub's page. The function that it returns makes a
// request one of that browser.
func (r *running) signIn(t *testing.T) func(*http.Request) {
	t.Helper()
	link := must(rpc.Call(t.Context(), r.as(r.operator), api.OpenWeb, api.None{}))(t)
	page, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+page.Path, strings.NewReader(url.Values{"code": {link.Code}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = page.Host
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "http://"+page.Host)
	res, err := r.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("sign in: got %s", res.Status)
	}
	return func(req *http.Request) {
		req.Host = page.Host
		for _, c := range res.Cookies() {
			req.AddCookie(c)
		}
	}
}
