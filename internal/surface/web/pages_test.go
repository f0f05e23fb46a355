package web_test

import (
	"html"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/usage"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

var hrefs = regexp.MustCompile(`href="(/[^"]*)"`)

// crawl follows every link of the page and returns the addresses.
func (v *visitor) crawl() map[string]string {
	v.s.t.Helper()
	found := map[string]string{}
	for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
		address, _, _ := strings.Cut(queue[0], "#")
		if _, known := found[address]; known {
			continue
		}
		got := v.get(address)
		found[address] = got.body
		if got.StatusCode != http.StatusOK {
			v.s.t.Errorf("GET %s: got %d, want 200:\n%.2000s", address, got.StatusCode, got.body)
		}
		for _, m := range hrefs.FindAllStringSubmatch(got.body, -1) {
			queue = append(queue, html.UnescapeString(m[1]))
		}
	}
	return found
}

// Every link of every page leads somewhere, for an operator and for a viewer.
func TestLinks(t *testing.T) {
	for name, s := range map[string]*site{"one hub": demoSite(t), "two hubs": pairSite(t)} {
		for _, who := range []string{"operator", "viewer"} {
			t.Run(name+", "+who, func(t *testing.T) {
				v := s.visitor()
				link := s.link()
				if who == "viewer" {
					link = s.invite("ben")
				}
				v.signIn(link)
				pages := v.crawl()
				if len(pages) < 12 {
					t.Errorf("%d addresses were found, want at least 12", len(pages))
				}
				for address, body := range pages {
					if who == "viewer" && strings.Contains(body, `action="/do/`) {
						t.Errorf("%s offers a viewer a change", address)
					}
				}
			})
		}
	}
}

// The Health page shows operators which targets fail, and since when.
func TestTargets(t *testing.T) {
	s := newSite(t, server.Options{Notify: []server.NotifyTarget{
		{Name: "desk", Command: []string{"/bin/sh", "-c", "echo no display >&2; exit 3"}, Batch: time.Millisecond, GiveUp: time.Nanosecond},
		{Name: "idle", Command: []string{"true"}, Events: []string{"disk"}},
	}}, "planner", "builder")
	s.hold("planner", "builder", "may I?")
	operator, viewer := s.visitor(), s.visitor()
	operator.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	target := regexp.MustCompile(`<tr><td>desk<td><span class="tag warm">failing</span><td>0<td>0<td>\d+<td>failed \d+ times since 20[^<]* no display[^<]* in dead letters since 20[^<]*<code>parley notify replay desk</code>`)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience.For(30 * time.Second))
	for body := operator.get("/health").body; !target.MatchString(body); body = operator.get("/health").body {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the page does not show the target:\n%s", body)
		}
	}
	if body := operator.get("/health").body; !strings.Contains(body, `<tr><td>idle<td><span class="tag good">works</span>`) {
		t.Errorf("the page does not show a target that works:\n%s", body)
	}
	if body := viewer.get("/health").body; strings.Contains(body, "desk") || !strings.Contains(body, "Deliveries by channel") {
		t.Errorf("a viewer sees the targets:\n%s", body)
	}
}

// Each change of the pages, made by forms without JavaScript.
func TestChanges(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := newSite(t, server.Options{Coordination: server.Coordination{Allow: loopback}}, "planner", "builder", "tester")
	v := s.visitor()
	v.signIn(s.link())
	agent := func(name hub.AgentID) api.AgentProfile {
		for _, a := range do(s, s.operator, api.ListAgents, api.None{}).Agents {
			if a.ID == name {
				return a
			}
		}
		return api.AgentProfile{}
	}
	t.Run("approve and deny count once", func(t *testing.T) {
		held := s.hold("planner", "builder", "may I?")
		v.do("approve", url.Values{"id": {string(held)}})
		v.do("approve", url.Values{"id": {string(held)}})
		if body := v.get("/").body; !strings.Contains(body, "is not held") {
			t.Error("the second approval was not refused")
		}
		v.do("deny", url.Values{"id": {string(held)}})
		n := 0
		for _, e := range do(s, s.operator, api.Audit, api.AuditParams{Limit: 1000}).Entries {
			if e.Action == actions.MessageApproved || e.Action == actions.MessageDenied {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d decisions are in the journal, want 1", n)
		}
	})
	t.Run("an answer reaches the sender, once", func(t *testing.T) {
		id := s.send("planner", "operator", "Which port?")
		form := url.Values{"id": {string(id)}, "text": {"7420"}, "once": {"k1"}}
		v.do("answer", form)
		v.do("answer", form)
		got := do(s, s.as("planner"), api.Inbox, api.InboxParams{NewOnly: true})
		var answers int
		for _, m := range got.Messages {
			if m.ReplyTo == id {
				answers++
			}
		}
		if answers != 1 {
			t.Errorf("planner has %d answers, want 1", answers)
		}
	})
	t.Run("a message to everyone", func(t *testing.T) {
		v.do("send", url.Values{"agent": {"*"}, "text": {"hello all"}})
		if got := do(s, s.as("tester"), api.Inbox, api.InboxParams{Peek: true}); len(got.Messages) != 1 {
			t.Errorf("tester has %d messages, want 1", len(got.Messages))
		}
	})
	t.Run("pause and resume, one and all", func(t *testing.T) {
		v.do("pause", url.Values{"agent": {"tester"}})
		if a := agent("tester"); a.State != hub.AgentPaused {
			t.Errorf("tester is %s", a.State)
		}
		v.do("pause-all", url.Values{})
		if a := agent("planner"); a.State != hub.AgentPaused {
			t.Errorf("planner is %s", a.State)
		}
		v.do("resume-all", url.Values{})
		if a := agent("tester"); a.State != hub.AgentActive {
			t.Errorf("tester is %s after all were resumed", a.State)
		}
	})
	t.Run("forget removes the text", func(t *testing.T) {
		id := s.send("planner", "builder", "my password is hunter2")
		if body := v.get("/messages/" + string(id)).body; !strings.Contains(body, "hunter2") {
			t.Error("the page of the message does not show its text")
		}
		v.do("forget", url.Values{"id": {string(id)}})
		if body := v.get("/messages/" + string(id)).body; strings.Contains(body, "hunter2") {
			t.Error("the text is still there")
		}
	})
	t.Run("release and hand on", func(t *testing.T) {
		initiate := func(task string) hub.HandoffID {
			got := do(s, s.as("planner"), api.Handoff, api.HandoffParams{
				Action: "initiate", To: "builder", TaskID: task, Title: "Task " + task, Summary: "all is said", NextStep: "do it", Criteria: []string{"it is done"},
			})
			do(s, s.as("builder"), api.Handoff, api.HandoffParams{Action: "accept", ID: got.Report.ID})
			return got.Report.ID
		}
		one, two := initiate("T-1"), initiate("T-2")
		v.do("release", url.Values{"id": {string(one)}, "reason": {"not now"}})
		if got := do(s, s.operator, api.Handoff, api.HandoffParams{Action: "show", ID: one}).Report; got.Ending != hub.EndedReleased {
			t.Errorf("the first task ended as %q, want released", got.Ending)
		}
		v.do("hand-on", url.Values{"id": {string(two)}, "agent": {"tester"}})
		got := do(s, s.operator, api.Handoff, api.HandoffParams{Action: "list", To: "tester"}).Listing.Handoffs
		if len(got) != 1 || got[0].TaskID != "T-2" || got[0].Status != hub.HandoffProposed {
			t.Errorf("the handoffs of tester: got %+v, want T-2 proposed", got)
		}
	})
	t.Run("a disagreement that was escalated to the operator is decided", func(t *testing.T) {
		one := do(s, s.as("planner"), api.Send, api.SendParams{To: api.Recipients{"builder"}, Type: hub.TypePositionState, Payload: []byte(`{"topic":"store","position":"SQLite","reasoning":"one file","confidence":"high","open_to_revision":true}`)}).ID
		do(s, s.as("builder"), api.Inbox, api.InboxParams{})
		do(s, s.as("builder"), api.Send, api.SendParams{To: api.Recipients{"planner"}, ThreadID: string(one), Type: hub.TypePositionChallenge, Payload: []byte(`{"position_id":"` + string(one) + `","counter_position":"Postgres","reasoning":"two writers","severity":"blocking"}`)})
		body := v.get("/").body
		if !strings.Contains(body, `id="talk-`+string(one)) || !strings.Contains(body, "<title>(1) Now") {
			t.Fatalf("the disagreement is not the one thing that waits: %+v", do(s, s.operator, api.ListTalks, api.TalkListParams{Open: true, Limit: 200}))
		}
		v.do("decide", url.Values{"thread": {string(one)}, "decision": {"SQLite stays"}, "because": {"one file"}})
		if body := v.get("/").body; strings.Contains(body, `id="talk-`) {
			t.Error("it still waits")
		} else if strings.Contains(body, "<title>(") {
			t.Error("the notice of it waits, though it is decided")
		}
		if got := do(s, s.operator, api.ListDecisions, api.DecisionListParams{}).Decisions; len(got) != 1 || got[0].Decision != "SQLite stays" {
			t.Errorf("decisions: %+v", got)
		}
	})
	t.Run("a peer that waits is approved", func(t *testing.T) {
		const peer = `{"agentId":"aid://new.example/agent@1.0.0","endpoint":"https://127.0.0.1:9","repoName":"x"}`
		res, err := s.operator.Do(t.Context(), "POST", "/peers/register", "application/json", strings.NewReader(peer))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body := v.get("/").body
		if !strings.Contains(body, "wants to become a peer") {
			text, _ := io.ReadAll(res.Body)
			t.Fatalf("the peer does not wait: %s", text)
		}
		if !strings.Contains(body, "manifest unchecked") || !strings.Contains(v.get("/contracts").body, ">open</span>") {
			t.Error("the page does not say that its id is unproven")
		}
		v.do("approve-peer", url.Values{"aid": {"aid://new.example/agent@1.0.0"}})
		if got := do(s, s.operator, coordination.ListPeers, coordination.None{}).Peers; len(got) != 1 || got[0].State != hub.PeerApproved {
			t.Errorf("peers: %+v", got)
		}
	})
	t.Run("a budget that is open for models without a price is shown as long as it is", func(t *testing.T) {
		limit := usage.Limit{Of: "hub", Money: 5, Per: hub.PerDay, Unpriced: "allow"}
		do(s, s.operator, api.SetBudget, limit)
		if body := v.get("/").body; !strings.Contains(body, "models without a price are free for budget") {
			t.Error("the open budget is not shown")
		}
		limit.Unpriced = ""
		do(s, s.operator, api.SetBudget, limit)
		if body := v.get("/").body; strings.Contains(body, "models without a price") {
			t.Error("the closed budget is shown as open")
		}
	})
	t.Run("a form leads back to its own page alone", func(t *testing.T) {
		for back, want := range map[string]string{"/journal": "/journal", "https://evil.example/": "/", "//evil.example": "/", "": "/", "/nothing": "/"} {
			if got := v.do("resume", url.Values{"agent": {"tester"}, "back": {back}}).Header.Get("Location"); got != want {
				t.Errorf("back %q: leads to %q, want %q", back, got, want)
			}
		}
	})
	t.Run("the journal is filtered, paged and exported", func(t *testing.T) {
		body := v.get("/journal?action=agent.added").body
		if n := strings.Count(body, "<tr id="); n != 4 {
			t.Errorf("%d entries about new agents, want 4", n)
		}
		export := v.get("/journal/export?action=agent.added")
		if n := strings.Count(export.body, "\n"); n != 4 || !strings.Contains(export.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("the export has %d lines, want 4", n)
		}
	})
	t.Run("verify comes to its end", func(t *testing.T) {
		page := v.get("/journal/verify").body
		for { // a busy machine needs more than one step
			next := regexp.MustCompile(`resume=[^"&]+`).FindString(page)
			if next == "" {
				break
			}
			page = v.get("/journal/verify?" + next).body
		}
		if !strings.Contains(page, "no differences") {
			t.Errorf("got %.1500s", page)
		}
	})
}

// Search tells a viewer nothing about texts of high sensitivity.
func TestSearchOfViewer(t *testing.T) {
	s := newSite(t, server.Options{}, "planner", "builder")
	do(s, s.as("planner"), api.Send, api.SendParams{To: api.Recipients{"builder"}, Text: "the secret is xyzzy", Policy: []byte(`{"visibility":"private","sensitivity":"high","human_gate":"none"}`)})
	v := s.visitor()
	v.signIn(s.invite("ben"))
	for _, q := range []string{"xyzzy", "absent"} {
		if body := v.get("/conversations?q=" + q).body; !strings.Contains(body, "No messages match") {
			t.Errorf("a search for %s tells a viewer of a hit", q)
		}
	}
}

func TestContractsByRepository(t *testing.T) {
	s := newSite(t, server.Options{}, "ana", "bo")
	in := coordination.InProject{Project: do(s, s.operator, coordination.CreateProject, coordination.NewProject{Name: "shop", Objective: "sell", Repos: []coordination.NewRepo{
		{Name: "backend", Role: "backend", Language: "go"}, {Name: "storefront", Role: "frontend", Language: "go"},
	}}).Project}
	propose := func(by hub.AgentID, name string) coord.ContractID {
		return do(s, s.as(by), coordination.Propose, contract.Proposal{InProject: in, Type: coord.ContractAPI, Name: name, Content: []byte(`{"method":"GET","path":"/` + name + `"}`)}).Contract
	}
	do(s, s.as("ana"), coordination.JoinProject, coordination.JoinParams{InProject: in, Repo: "backend"})
	do(s, s.as("bo"), coordination.JoinProject, coordination.JoinParams{InProject: in, Repo: "storefront"})
	propose("bo", "basket")
	agreed := propose("ana", "orders")
	do(s, s.as("bo"), coordination.Respond, contract.Response{InContract: coordination.InContract{InProject: in, Contract: agreed}, Action: contract.ActionAgree})
	propose("ana", "prices")
	v := s.visitor()
	v.signIn(s.link())
	body, at := v.get("/contracts").body, 0
	for _, want := range []string{`rowgroup">backend<`, ">prices<", ">orders<", `rowgroup">storefront<`, ">basket<"} { // proposed before agreed
		i := strings.Index(body[at:], want)
		if i < 0 {
			t.Fatalf("%s is not where it should be:\n%s", want, body)
		}
		at += i
	}

	// The matrix has the version that each repository was tested against.
	of := coordination.InContract{InProject: in, Contract: agreed}
	do(s, s.as("ana"), coordination.StartWork, contract.Work{InContract: of})
	do(s, s.as("ana"), coordination.CompleteWork, contract.Work{InContract: of, Files: []string{}, Evidence: contract.Evidence{Commit: "c0ffee"}})
	body = v.get("/contracts/" + string(in.Project)).body
	for _, want := range []string{">orders<", "1 of 1", "c0ffee", ">said<", ">basket<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the matrix has no %s:\n%s", want, body)
		}
	}
	if got := v.get("/contracts/" + string(in.Project) + "?env=prod").body; strings.Contains(got, "c0ffee") {
		t.Errorf("the commit does not run in prod:\n%s", got)
	}
}
