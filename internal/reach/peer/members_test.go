package peer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// apart makes nodes unreachable while fn runs.
func apart(nodes []*node, fn func()) {
	for _, n := range nodes {
		n.setGate(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	}
	fn()
	for _, n := range nodes {
		n.setGate(nil)
	}
}

func TestMembersInAPartition(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	both := []*node{a, b}
	project := a.project(b)
	a.start()
	b.start()
	eventually(t, "the project is on both", both, same(a, b, project))
	ok := func(_ coord.Project, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(n *node, policy coord.AgreementPolicy, status coord.ProjectStatus) bool {
		p, err := n.contracts.Project(t.Context(), n.caller(), project)
		return err == nil && p.Policy == policy && p.Status == status
	}
	t.Run("R1-056 a policy that was set stands when another hub sets the status", func(t *testing.T) {
		apart(both, func() {
			ok(a.contracts.SetPolicy(t.Context(), a.caller(), project, coord.AgreeAll))
			ok(b.contracts.SetStatus(t.Context(), b.caller(), project, coord.ProjectIntegrating))
		})
		eventually(t, "both writes are on both", both, func() bool {
			return is(a, coord.AgreeAll, coord.ProjectIntegrating) && is(b, coord.AgreeAll, coord.ProjectIntegrating)
		})
	})
	t.Run("R1-056 of two policies the later stands, and the other is a recorded conflict on both", func(t *testing.T) {
		apart(both, func() {
			ok(a.contracts.SetPolicy(t.Context(), a.caller(), project, coord.AgreeAny))
			ok(b.contracts.SetPolicy(t.Context(), b.caller(), project, coord.AgreeCounterparty))
		})
		for _, n := range both {
			eventually(t, "the later policy, and a conflict", both, func() bool {
				found, err := n.contracts.Conflicts(t.Context(), n.caller(), project, "", 0)
				return err == nil && is(n, coord.AgreeCounterparty, coord.ProjectIntegrating) && len(found.Members) == 1 &&
					found.Members[0].Value == string(coord.AgreeAny) && found.Members[0].By == a.aid && n.journaled(actions.ProjectConflict)
			})
		}
		ok(b.contracts.SetPolicy(t.Context(), b.caller(), project, coord.AgreeAll))
		eventually(t, "a write that knew both ends the conflict", both, func() bool {
			found, err := a.contracts.Conflicts(t.Context(), a.caller(), project, "", 0)
			return err == nil && is(a, coord.AgreeAll, coord.ProjectIntegrating) && len(found.Members) == 0
		})
	})
}

// journaled reports whether the journal of a node has a row of an action.
func (n *node) journaled(action actions.Action) bool {
	entries, err := hub.Read(n.t.Context(), n.store, func(r hub.Reader) ([]hub.Entry, error) {
		return r.Journal(hub.JournalQuery{Newest: true, Limit: 1000})
	})
	return err == nil && slices.ContainsFunc(entries, func(e hub.Entry) bool { return e.Action == action })
}

func TestLargeHistory(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	slow := peer.ClientOptions{Guard: loopback, Timeout: patience.For(time.Minute)} // a part of the history may take long
	a, b := newNodeWith(t, "alpha", nil, slow), newNodeWith(t, "beta", nil, slow)
	befriend(a, b)
	project := a.project(b)
	id := a.propose(project, "large")
	versions := 70 // more than a peer takes in one request
	if patience.Sampled() {
		versions = 12 // more than one part of a history holds, which has a request of its own
	}
	for i := range versions {
		a.must(a.contracts.Update(t.Context(), a.caller(), contract.Revision{
			InContract: contract.Of(project, id), Content: json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 250<<10))),
		}))
	}
	a.start()
	b.start()
	equal := same(a, b, project)
	eventually(t, "R1-083 a contract whose versions are larger than a request is on both", []*node{a, b}, func() bool {
		// To compare everything is slow, so the newest version is looked for first.
		there, err := hub.Read(t.Context(), b.store, func(r hub.Reader) (coord.Contract, error) { return r.Coordination().Contract(project, id) })
		return err == nil && there.Version == versions+1 && equal()
	})
	if n := a.standing(b).DeadLetters; n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// undelivered reports whether the gate fails because a contract was not delivered.
func (n *node) undelivered(project coord.ProjectID) bool {
	n.t.Helper()
	v, err := n.contracts.Check(n.t.Context(), n.caller(), contract.Gate{InProject: contract.In(project)})
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.ContainsFunc(v.Failures, func(f contract.Failure) bool {
		return strings.HasPrefix(f.Reason, "not delivered to ") || strings.HasPrefix(f.Reason, "not accepted from ")
	})
}
