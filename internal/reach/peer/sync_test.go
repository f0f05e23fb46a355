package peer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/contract"
)

// same reports whether two nodes have the same of a project.
func same(a, b *node, project coord.ProjectID) func() bool {
	return func() bool {
		one, err := a.contracts.Project(a.t.Context(), a.caller(), project)
		other, missing := b.contracts.Project(b.t.Context(), b.caller(), project)
		return err == nil && missing == nil && one.Tally == other.Tally && a.dump(project) == b.dump(project)
	}
}

func TestNativePeers(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	both := []*node{a, b}
	before := a.project(b)
	for i := range 5 {
		a.propose(before, fmt.Sprint("old", i))
		a.share(before, fmt.Sprint("old", i))
	}
	b.start()
	a.start()

	t.Run("R1-083 what was there before the peer is caught up", func(t *testing.T) {
		eventually(t, "the project is on both", both, same(a, b, before))
	})
	t.Run("R1-083 a project made here is made there", func(t *testing.T) {
		id := a.project(b)
		eventually(t, "the new project is on both", both, same(a, b, id))
	})
	t.Run("R1-083 changes reach the peer both ways", func(t *testing.T) {
		id := a.propose(before, "profile")
		eventually(t, "proposed there", both, func() bool { return b.status(before, id) == coord.ContractProposed })
		if _, _, err := b.contracts.JoinProject(t.Context(), b.caller(), before, b.repo, b.server.URL); err != nil {
			t.Fatal(err)
		}
		if _, err := b.contracts.Respond(t.Context(), b.caller(), contract.Response{InContract: contract.Of(before, id), Action: contract.ActionAgree}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "agreed here", both, func() bool { return a.status(before, id) == coord.ContractAgreed })
		for _, n := range both {
			if _, err := n.contracts.Start(t.Context(), n.caller(), contract.Work{InContract: contract.Of(before, id), Plan: "soon"}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "both have started, on both", both, func() bool { return a.works(before, id) == 2 && b.works(before, id) == 2 })
		b.share(before, "from b")
		eventually(t, "all is equal", both, same(a, b, before))
	})
	t.Run("R1-083 a peer that was down for 1,000 changes gets them all", func(t *testing.T) {
		b.stop()
		b.setGate(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
		for i := range 500 {
			a.propose(before, fmt.Sprint("c", i))
			a.share(before, fmt.Sprint("s", i))
		}
		eventually(t, "the peer is seen to be down", both, func() bool { return a.standing(b).Health == hub.HealthDown && a.standing(b).Lag > 0 })
		b.setGate(nil)
		b.start()
		eventually(t, "all is equal", both, same(a, b, before))
		eventually(t, "nothing is left to send", both, func() bool { s := a.standing(b); return s.Lag == 0 && s.Health == hub.HealthUp && s.Fault == "" })
	})
	t.Run("R1-083 what got lost on the way is found by comparing", func(t *testing.T) {
		// The outbox says that all was sent, but it was not.
		a.stop()
		a.propose(before, "lost")
		err := a.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			box, err := tx.Outbox(b.aid)
			if err != nil {
				return err
			}
			_, box.Sent, err = tx.ChangeSpan()
			if err != nil {
				return err
			}
			return tx.PutOutbox(box)
		})
		if err != nil {
			t.Fatal(err)
		}
		a.start()
		eventually(t, "the worker is there", both, func() bool { return a.syncer.Compare(b.aid) == nil })
		eventually(t, "all is equal", both, same(a, b, before))
	})
	if err := a.syncer.Compare("nobody"); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("comparing with nobody: got %v", err)
	}
}

func (n *node) status(project coord.ProjectID, id coord.ContractID) coord.ContractStatus {
	c, err := n.contracts.Contract(n.t.Context(), n.caller(), project, id, false)
	if err != nil {
		return ""
	}
	return c.Status
}

func (n *node) works(project coord.ProjectID, id coord.ContractID) int {
	c, err := n.contracts.Contract(n.t.Context(), n.caller(), project, id, false)
	if err != nil {
		return 0
	}
	return len(c.Implementations)
}

func (n *node) standing(of *node) (found struct {
	hub.Peer
	Lag         int64
	CatchUp     bool
	DeadLetters int
	Fault       string
}) {
	all, err := n.syncer.Standings(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range all {
		if s.AID == of.aid {
			found.Peer, found.Fault = s.Peer, s.Fault
			found.Lag, found.CatchUp = s.Lag, s.CatchUp
			found.DeadLetters = s.DeadLetters
		}
	}
	return found
}

func TestThreeHubs(t *testing.T) {
	t.Parallel()
	a, b, c := newNode(t, "alpha", nil), newNode(t, "beta", nil), newNode(t, "gamma", nil)
	all := []*node{a, b, c}
	befriend(a, b)
	befriend(b, c)
	befriend(a, c)
	project := a.project(b, c)
	for _, n := range all {
		n.start()
	}
	equal := func() bool { return same(a, b, project)() && same(b, c, project)() }
	eventually(t, "the project is on all", all, equal)
	t.Run("R1-083 three hubs that were apart agree", func(t *testing.T) {
		id := a.propose(project, "profile")
		eventually(t, "the contract is on all", all, equal)
		apart := func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }
		for _, n := range all {
			n.setGate(apart)
		}
		for i, n := range all {
			if _, err := n.contracts.Update(t.Context(), n.caller(), contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(fmt.Sprintf(`{"path":"/%d"}`, i))}); err != nil {
				t.Fatal(err)
			}
			n.propose(project, "own")
			n.share(project, "own")
		}
		for _, n := range all {
			n.setGate(nil)
		}
		eventually(t, "all is equal", all, equal)
		lost, err := a.contracts.Conflicts(t.Context(), a.caller(), project, "", 10)
		if err != nil || len(lost.Contracts) != 1 || len(lost.Contracts[0].Lost) != 2 {
			t.Errorf("got %+v, %v; want the two contents that lost", lost, err)
		}
	})
}

func TestOrder(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	project := a.project(b)
	a.start()
	eventually(t, "the project is there", []*node{a, b}, same(a, b, project))
	a.stop()
	var want []string
	for i := range 100 {
		want = append(want, string(a.propose(project, fmt.Sprint("c", i))))
	}
	b.setGate(func(w http.ResponseWriter, r *http.Request) bool { return false })
	a.start()
	eventually(t, "all contracts are there", []*node{a, b}, same(a, b, project))
	t.Run("R1-083 changes arrive in the order in which they were made", func(t *testing.T) {
		var got []string
		err := b.store.View(t.Context(), func(r hub.Reader) error {
			changes, err := r.Changes(0, 1000)
			for _, c := range changes {
				if c.Kind == hub.ChangeContract && !slices.Contains(got, c.Object) {
					got = append(got, c.Object)
				}
			}
			return err
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %d contracts in another order: %v", len(got), err)
		}
	})
}

// TestBadPeers has one good hub and one that misbehaves in each way in turn:
// the hub notes a typed fault, goes on working, and is in step again when the
// peer is.
func TestBadPeers(t *testing.T) {
	t.Parallel()
	a := newNodeWith(t, "alpha", nil, peer.ClientOptions{Guard: loopback, Timeout: 500 * time.Millisecond, MaxAnswer: 1 << 20})
	b := newNode(t, "beta", nil)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	befriend(a, b)
	a.start()
	project := a.project(b)
	eventually(t, "the project is there", []*node{a, b}, same(a, b, project))
	rpcOnly := func(answer string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/" {
				fmt.Fprint(w, answer)
			}
			return r.URL.Path == "/"
		}
	}
	for name, test := range map[string]struct {
		gate  func(http.ResponseWriter, *http.Request) bool
		fault string
	}{
		"answers 500":            {func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true }, "500"},
		"hangs up":               {func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }, "cannot reach"},
		"hangs":                  {func(w http.ResponseWriter, r *http.Request) bool { <-release; return true }, "in time"},
		"answers garbage":        {rpcOnly("\x00\x01"), "is malformed"},
		"answers an empty list":  {rpcOnly("[]"), "is malformed"},
		"answers something else": {rpcOnly(`[{"id":7,"result":{"status":"created"}}]`), "is malformed"},
		"invents a status":       {rpcOnly(`[{"id":0,"result":{"status":"maybe"}}]`), "is malformed"},
		"answers one for many":   {rpcOnly(`{"id":0,"result":{"status":"created"}}`), "is malformed"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.9/", http.StatusTemporaryRedirect)
			return true
		}, "redirect"},
		"shuts the hub out":      {func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(401); return true }, "401"},
		"answers without an end": {endless, "more than"},
		"says it is someone else": {func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, `{"agentId":"aid://evil.example/x@1.0.0"}`)
			return true
		}, "has the id"},
		"shows the card of someone else": {func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case peer.HealthPath:
				return false
			case peer.CardPath:
				json.NewEncoder(w).Encode(peer.Self{AID: "aid://evil.example/x@1.0.0"}.Card())
			default:
				w.WriteHeader(500)
			}
			return true
		}, "has the id"},
		"speaks another version": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/" {
				w.WriteHeader(500)
			} else {
				fmt.Fprint(w, `{"protocols":{"cacp":"3.0"}}`)
			}
			return true
		}, "speaks coordination"},
	} {
		t.Run("R1-083 a peer that "+name, func(t *testing.T) {
			b.setGate(test.gate)
			a.propose(project, "while it misbehaves")
			eventually(t, "the fault is seen", []*node{a, b}, func() bool {
				s := a.standing(b)
				return strings.Contains(s.Fault, test.fault) && s.Health == hub.HealthDown
			})
			b.setGate(nil)
			eventually(t, "all is equal again", []*node{a, b}, same(a, b, project))
		})
	}
}

func endless(w http.ResponseWriter, r *http.Request) bool {
	for {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return true
		}
	}
}

func TestFailedComparison(t *testing.T) {
	t.Parallel()
	t.Run("R1-083 a project whose comparison failed is compared again", func(t *testing.T) {
		a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
		befriend(a, b)
		project := a.project(b)
		id := a.propose(project, "profile")
		a.start()
		both := []*node{a, b}
		eventually(t, "the project is there", both, func() bool {
			return same(a, b, project)() && a.standing(b).Health == hub.HealthUp && a.standing(b).Lag == 0
		})

		// The next version is there alone: the other hub sends nothing by itself.
		if _, _, err := b.contracts.JoinProject(t.Context(), b.caller(), project, b.repo, b.server.URL); err != nil {
			t.Fatal(err)
		}
		if _, err := b.contracts.Update(t.Context(), b.caller(), contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(`{"path":"/v2"}`)}); err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int32
		b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err != nil || !bytes.Contains(body, []byte("cacp/sync/summary")) || failed.Add(1) > 1 {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		if _, err := a.contracts.Respond(t.Context(), a.caller(), contract.Response{InContract: contract.Of(project, id), Action: contract.ActionRequestChange, Comment: "more"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the next version is here", both, func() bool {
			c, err := a.contracts.Contract(t.Context(), a.caller(), project, id, false)
			return err == nil && c.Version == 2
		})
		if failed.Load() < 2 {
			t.Errorf("got %d comparisons of the project, want one that failed and one more", failed.Load())
		}
	})
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	a.start()
	project := a.project(b)
	eventually(t, "the project is there", []*node{a, b}, same(a, b, project))
	var refusals atomic.Int32
	b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/" || refusals.Add(1) > 1 {
			return false
		}
		fmt.Fprint(w, `[{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Invalid params: no"}}]`)
		return true
	})
	t.Run("R1-083 a change that the peer refuses does not hold up the others", func(t *testing.T) {
		a.propose(project, "refused")
		eventually(t, "it is given up", []*node{a, b}, func() bool { return a.standing(b).DeadLetters == 1 })
		id := a.propose(project, "next")
		eventually(t, "the next one is there", []*node{a, b}, func() bool { return b.status(project, id) == coord.ContractProposed })
	})
	t.Run("R1-087 what is too large together goes one by one, and what is too large alone is given up", func(t *testing.T) {
		b.setGate(func(w http.ResponseWriter, r *http.Request) bool {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err != nil || r.URL.Path != "/" || bytes.Count(body, []byte("cacp/contract/sync")) < 2 && !bytes.Contains(body, []byte("huge")) {
				return false
			}
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"the request is larger than 1048576 bytes","data":{"reason":"too_large"}}}`)
			return true
		})
		a.stop()
		a.propose(project, "huge")
		small := a.propose(project, "small")
		a.start()
		eventually(t, "the small one is there", []*node{a, b}, func() bool {
			st := a.standing(b) // a comparison may have made older letters void
			return b.status(project, small) == coord.ContractProposed && st.DeadLetters > 0 && st.Lag == 0
		})
		if !a.journaled(actions.DeadLetter) || !a.undelivered(project) {
			t.Error("the journal or the gate knows nothing of the contract that was not delivered")
		}
		b.setGate(nil)
	})
	t.Run("R1-083 what was given up is found by comparing", func(t *testing.T) {
		eventually(t, "the worker is there", []*node{a, b}, func() bool { return a.syncer.Compare(b.aid) == nil })
		eventually(t, "all is equal", []*node{a, b}, same(a, b, project))
		eventually(t, "the gate waits for no delivery", []*node{a, b}, func() bool { return !a.undelivered(project) })
	})
}
