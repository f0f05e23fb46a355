package peer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/contract"
)

// TestPages compares more than two pages of everything.
func TestPages(t *testing.T) {
	t.Parallel()
	two := func() *peer.Options { o := quick(); o.Page = 2; return o }
	a, b := newNode(t, "alpha", two()), newNode(t, "beta", two())
	befriend(a, b)
	var projects []coord.ProjectID
	for range 5 {
		projects = append(projects, a.project(b))
	}
	for i := range 7 {
		a.propose(projects[0], fmt.Sprint("c", i))
		a.share(projects[0], fmt.Sprint("s", i))
	}
	a.start()
	for _, id := range projects {
		eventually(t, "R1-083 all pages are compared", []*node{a, b}, same(a, b, id))
	}
	for i := range 7 { // where nothing is sent: the other hub fetches
		b.propose(projects[0], fmt.Sprint("d", i))
		b.share(projects[0], fmt.Sprint("e", i))
	}
	if err := a.syncer.Compare(b.aid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "R1-083 all pages are fetched", []*node{a, b}, same(a, b, projects[0]))
}

// bodies records the requests to a node that hold a text.
func (n *node) bodies(with string) func() []string {
	var mu sync.Mutex
	var all []string
	n.setGate(func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && strings.Contains(string(body), with) {
			mu.Lock()
			all = append(all, string(body))
			mu.Unlock()
		}
		return false
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func (n *node) revise(project coord.ProjectID, id coord.ContractID, content string) {
	n.t.Helper()
	if _, err := n.contracts.Update(n.t.Context(), n.caller(), contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(content)}); err != nil {
		n.t.Fatal(err)
	}
}

// TestVersions reads which versions of a contract go over the wire.
func TestVersions(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	both := []*node{a, b}
	project := a.project(b)
	id := a.propose(project, "profile")
	for i := range 3 {
		a.revise(project, id, fmt.Sprintf(`{"path":"/old%d"}`, i))
	}
	a.start()
	eventually(t, "the contract is there", both, same(a, b, project))
	t.Run("R1-083 a version that the peer has is not sent again", func(t *testing.T) {
		sent := b.bodies("cacp/contract/sync")
		a.revise(project, id, `{"path":"/new"}`)
		eventually(t, "the next version is there", both, same(a, b, project))
		for _, body := range sent() {
			if strings.Contains(body, "/old0") || strings.Contains(body, "/old1") || !strings.Contains(body, "/new") {
				t.Errorf("sent: %s", body)
			}
		}
		if len(sent()) == 0 {
			t.Error("nothing was sent")
		}
		eventually(t, "it is confirmed", both, func() bool { return a.standing(b).Lag == 0 })
		if n := a.standing(b).DeadLetters; n != 0 {
			t.Errorf("got %d dead letters", n)
		}
	})
	t.Run("R1-083 a version that this hub has is not fetched again", func(t *testing.T) {
		asked := b.bodies("cacp/sync/copies")
		b.revise(project, id, `{"path":"/theirs"}`)
		if err := a.syncer.Compare(b.aid); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it was fetched", both, same(a, b, project))
		if all := asked(); len(all) == 0 || !strings.Contains(all[0], `"have"`) {
			t.Errorf("asked without the versions that are here: %q", all)
		}
	})
	b.setGate(nil)
}

// TestRefusedHere sends a contract that the other hub does not take.
func TestRefusedHere(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, "alpha", nil), newNode(t, "beta", nil)
	befriend(a, b)
	project := a.project(b)
	a.start()
	b.start()
	both := []*node{a, b}
	eventually(t, "the project is there", both, same(a, b, project))
	id := a.propose(project, "profile")
	eventually(t, "the contract is there", both, same(a, b, project))
	if b.undelivered(project) {
		t.Fatal("the gate waits for a delivery before one failed")
	}
	err := a.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
		was, err := tx.Coordination().Contract(project, id)
		if err != nil {
			return err
		}
		next := was
		next.Version, next.UpdatedAt = 200_000, was.UpdatedAt.After(time.Now)
		if err := tx.WriteCoordination().PutContract(next, was); err != nil {
			return err
		}
		return tx.AddChange(hub.Change{Project: project, Kind: hub.ChangeContract, Object: string(id), Version: next.Version, At: hub.At(was.UpdatedAt.Time())})
	})
	if err != nil {
		t.Fatal(err)
	}
	a.hints.Publish(hub.TopicChanges)
	eventually(t, "R1-083 what is not delivered fails the gate at both ends", both, func() bool { return a.undelivered(project) && b.undelivered(project) })
	if !a.journaled(actions.DeadLetter) || !b.journaled(actions.CopyRefused) {
		t.Error("R1-083 what is not delivered is in the journal of both ends")
	}
}
