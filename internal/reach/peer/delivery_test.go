package peer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/reftest"
)

// TestDelivery has a peer record what it is told after each thing that a hub
// does.
func TestDelivery(t *testing.T) {
	t.Parallel()
	n, ref := withReference(t)
	ctx, us := t.Context(), n.caller()
	eventually(t, "they have met", []*node{n}, func() bool { return ref.Healthy(string(n.aid)) })
	var project coord.ProjectID
	var id coord.ContractID
	for _, step := range []struct {
		name, method, holds string
		do                  func() error
	}{
		{"R1-022 a project that is made", "cacp/project/sync", `"objective":"log in"`, func() error { project = n.refProject(ref); return nil }},
		{"R1-025 a repository that is claimed", "cacp/repo/sync", `"assigned_agent":"aid://alpha.example/mobile@1.0.0"`, func() error {
			if _, err := n.contracts.AddRepo(ctx, us, project, contract.As{}, coord.Repo{Name: "mobile", Role: "mobile", Language: "swift"}); err != nil {
				return err
			}
			mobile := hub.Caller{ID: "mobile", AID: "aid://alpha.example/mobile@1.0.0"}
			_, _, err := n.contracts.JoinProject(ctx, mobile, project, "mobile", "http://n.example")
			return err
		}},
		{"R1-029 a contract that is proposed", "cacp/contract/sync", `"status":"proposed"`, func() error { id = n.propose(project, "profile"); return nil }},
		{"R1-034 an answer to it", "cacp/contract/sync", `"status":"negotiating"`, func() error {
			_, err := n.contracts.Respond(ctx, us, contract.Response{InContract: contract.Of(project, id), Action: contract.ActionRequestChange, Comment: "more"})
			return err
		}},
		{"R1-037 its next version", "cacp/contract/sync", `"version":2`, func() error {
			_, err := n.contracts.Update(ctx, us, contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(`{"path":"/v2"}`)})
			return err
		}},
		{"R1-039 context", "cacp/context/sync", `"type":"code_snippet"`, func() error { n.share(project, "x"); return nil }},
		{"R1-040 a question", "cacp/context/sync", `"question":"JWT?"`, func() error {
			_, err := n.contracts.Ask(ctx, us, contract.Question{InProject: contract.In(project), Question: "JWT?"})
			return err
		}},
		{"R1-041 a decision", "cacp/context/sync", `"chosen":"JWT"`, func() error {
			_, err := n.contracts.Decide(ctx, us, contract.Decision{InProject: contract.In(project), Decision: "auth", Chosen: "JWT", Rationale: "stateless"})
			return err
		}},
		{"R1-045 work that begins", "cacp/contract/sync", `"status":"in_progress"`, func() error {
			if _, err := n.contracts.Respond(ctx, us, contract.Response{InContract: contract.Of(project, id), Action: contract.ActionAgree}); err != nil {
				return err
			}
			_, err := n.contracts.Start(ctx, us, contract.Work{InContract: contract.Of(project, id)})
			return err
		}},
		{"R1-045 work that is done", "cacp/contract/sync", `"status":"complete"`, func() error {
			_, err := n.contracts.Complete(ctx, us, contract.Work{InContract: contract.Of(project, id), Files: []string{"a.go"}})
			return err
		}},
	} {
		t.Run(step.name+" reaches the peer", func(t *testing.T) {
			ref.Calls()
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			eventually(t, step.method+" with "+step.holds, []*node{n}, func() bool {
				for _, c := range ref.Calls() {
					if c.Method == step.method && strings.Contains(string(c.Params), step.holds) {
						return true
					}
				}
				return false
			})
		})
	}
	t.Run("R1-053 a peer that was added gets what happens from then on", func(t *testing.T) {
		other := reftest.New("agent-mobile", "mobile-app", "mobile", "swift")
		defer other.Close()
		n.addLegacy(other)
		n.share(project, "for both")
		eventually(t, "all is there", []*node{n}, func() bool { return refContract(other, project, id).Version == 2 })
	})
	t.Run("R1-054 a call does not wait for a dead peer, and does not fail", func(t *testing.T) {
		ref.Gate(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		made := n.propose(project, "alone")
		if got := n.status(project, made); got != coord.ContractProposed {
			t.Errorf("here it is %q", got)
		}
		eventually(t, "the peer is down", []*node{n}, func() bool { return n.standing(&node{aid: coord.AID(ref.ID)}).Health == hub.HealthDown })
		ref.Gate(nil)
		eventually(t, "it is there", []*node{n}, func() bool { return refContract(ref, project, made).Version == 1 })
	})
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.GiveUp = time.Millisecond
	a, b := newNode(t, "alpha", opts), newNode(t, "beta", nil)
	befriend(a, b)
	project := a.project(b)
	a.start()
	both := []*node{a, b}
	eventually(t, "the project is there", both, same(a, b, project))
	t.Run("R1-083 what a peer does not take for too long is given up, and found when it returns", func(t *testing.T) {
		b.setGate(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
		a.propose(project, "too long")
		eventually(t, "it is given up", both, func() bool { s := a.standing(b); return s.DeadLetters > 0 && s.Lag == 0 })
		b.setGate(nil)
		eventually(t, "all is equal", both, same(a, b, project))
	})
	t.Run("R1-083 what is no longer in the log is found by comparing", func(t *testing.T) {
		a.stop()
		for range 5 {
			a.propose(project, "dropped")
		}
		err := a.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			_, newest, err := tx.ChangeSpan()
			if err != nil {
				return err
			}
			_, err = tx.DropChanges(newest-1, 1000)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		a.start()
		eventually(t, "all is equal", both, same(a, b, project))
	})
}
