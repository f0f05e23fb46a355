package web_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// TestRestrictedIsWithheld fills a hub with restricted handoffs in every state, and with
// runs on them, and loads everything that a viewer can load.
func TestRestrictedIsWithheld(t *testing.T) {
	const secret = "SESAME"
	clock := new(hubtest.Clock)
	s := newSite(t, server.Options{Clock: clock.Now}, "planner", "builder")
	move := func(who hub.AgentID, p api.HandoffParams) {
		t.Helper()
		do(s, s.as(who), api.Handoff, p)
	}
	propose := func(name string) hub.HandoffID {
		t.Helper()
		return do(s, s.as("planner"), api.Handoff, api.HandoffParams{
			Action: "initiate", To: "builder", TaskID: "T-" + name, Title: secret + " title", Objective: secret + " objective", Summary: secret + " summary", NextStep: secret + " next",
			Criteria: api.Criteria{secret + " criterion"}, Reason: secret + " reason", Classification: "restricted", NeedsHuman: name == "held",
		}).Report.ID
	}
	begin := func(id hub.HandoffID) hub.RunID {
		t.Helper()
		run := hub.RunID(hub.NewIDs(time.Now).Next())
		do(s, s.operator, api.BeginRun, api.RunParams{ID: run, Agent: "builder", Task: secret + " task", Handoff: id, TimeoutS: 3600 * 48})
		return run
	}

	propose("held")
	propose("proposed")
	rejected, withdrawn, done, late := propose("rejected"), propose("withdrawn"), propose("done"), propose("late")
	move("builder", api.HandoffParams{Action: "reject", ID: rejected, Reason: string(hub.RejectOther), Detail: secret + " rejected"})
	move("planner", api.HandoffParams{Action: "withdraw", ID: withdrawn, Detail: secret + " withdrawn"})
	for _, id := range []hub.HandoffID{done, late} {
		move("builder", api.HandoffParams{Action: "accept", ID: id, Detail: secret + " accepted"})
	}
	ended := begin(done)
	do(s, s.operator, api.EndRun, api.RunEndParams{ID: ended, RunEnding: api.RunEnding{
		State: hub.RunDone, StopReason: "end_turn", Verdict: hub.RunContradicted, Report: []byte(`{"status":"fail","error":"` + secret + ` error"}`),
		Contradictions: []hub.Contradiction{{Kind: "file", Claim: secret + " claim", Found: secret + " found"}},
		Evidence:       []byte(`{"diff":{"created":["` + secret + `.txt"]},"verify":{"command":"echo ` + secret + `"}}`),
	}})
	move("builder", api.HandoffParams{Action: "complete", ID: done, Summary: secret + " done", NoChanges: true})
	open := begin(late)
	clock.Pass(25 * time.Hour)

	viewer, operator := s.visitor(), s.visitor()
	viewer.signIn(s.invite("ben"))
	operator.signIn(s.link())
	pages := viewer.crawl()
	for _, path := range []string{
		"/handoffs/" + string(done), "/handoffs/" + string(late), "/runs/" + string(ended), "/runs/" + string(open), "/journal/export", "/conversations?q=" + secret, "/conversations?type=handoff.initiate",
		"/conversations?type=status.blocked", "/agents/builder", "/journal?action=run.done", "/journal?actor=builder",
	} {
		pages[path] = viewer.get(path).body
	}
	if len(pages) < 30 {
		t.Errorf("%d pages were loaded, want at least 30", len(pages))
	}
	for address, body := range pages {
		if strings.Contains(address, secret) {
			body = strings.ReplaceAll(body, `value="`+secret+`"`, "") // the field of the search
			body = strings.ReplaceAll(body, address, "")
		}
		if i := strings.Index(body, secret); i >= 0 {
			t.Errorf("%s has it: %.200q", address, body[max(0, i-100):])
		}
	}
	for address := range pages {
		if strings.HasPrefix(address, "/assets") || strings.HasPrefix(address, "/journal/") {
			continue
		}
		res := viewer.stream(address)
		if first := firstEvent(t, res.Body); strings.Contains(first, secret) && !strings.Contains(address, secret) {
			t.Errorf("the stream of %s has it", address)
		}
		res.Body.Close()
	}
	for _, path := range []string{"/", "/handoffs", "/handoffs/" + string(done), "/runs", "/runs/" + string(ended)} {
		if !strings.Contains(operator.get(path).body, secret) {
			t.Errorf("the operator does not read it at %s", path)
		}
		if body := pages[path]; !strings.Contains(body, "restricted") {
			t.Errorf("the viewer is not told at %s", path)
		}
	}
	for _, key := range []*rpc.Client{s.as("planner"), s.as("builder")} {
		if got := do(s, key, api.Handoff, api.HandoffParams{Action: "show", ID: done}); got.Report.Title != secret+" title" {
			t.Errorf("a party reads the title %q", got.Report.Title)
		}
	}
}

// firstEvent returns the first event of a stream, "" if the stream ends before.
func firstEvent(t *testing.T, body interface{ Read([]byte) (int, error) }) string {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return data
		}
	}
	return fmt.Sprint(lines.Err())
}
