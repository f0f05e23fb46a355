package contract_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
)

// exchange brings the changes of two hubs to each other until both have all.
func exchange(t *testing.T, a, b *desk, aAID, bAID coord.AID) {
	t.Helper()
	for range 3 {
		for _, way := range []struct {
			from, to       *desk
			source, target coord.AID
		}{{a, b, aAID, bAID}, {b, a, bAID, aAID}} {
			changes, err := way.from.Changes(t.Context(), 0, 1000)
			way.from.ok(err)
			copies, err := way.from.Copies(t.Context(), "", changes)
			way.from.ok(err)
			done, err := way.to.Sync(t.Context(), way.source, true, copies)
			way.to.ok(err)
			for _, d := range done {
				if d.Status == federation.SyncError {
					t.Fatalf("%s did not take a copy: %s", way.target, d.Reason)
				}
			}
		}
	}
}

func TestHubsApart(t *testing.T) {
	k := newCrew(t)
	other := newDesk(t, func(o *contract.Options) {
		o.Self = frontAID
		o.Repo = "frontend-app"
		o.Endpoint = "https://front"
	})
	k.use(k.front)
	second := k.provide("Account", userSchema("name", "avatar"))
	exchange(t, k.desk, other, backAID, frontAID)
	other.project = k.project

	// Each hub makes a breaking and a compatible change while they are apart.
	offered, err := other.Propose(t.Context(), other.back, contract.Proposal{
		InProject: contract.In(k.project.ID), Type: coord.ContractModel, Name: "Theme", Content: userSchema("colour", "font"), Direction: contract.Direction{Provider: "frontend-app", Flow: "response"},
	})
	other.ok(err)
	k.clock.add(24 * time.Hour)
	other.clock.add(24 * time.Hour)
	_, err = k.update(userSchema("name"))
	k.ok(err)
	_, err = k.Update(t.Context(), k.back, contract.Revision{InContract: contract.Of(k.project.ID, second.ID), Content: userSchema("name", "avatar", "mail")})
	k.ok(err)
	_, err = other.Use(t.Context(), other.back, contract.Declaration{InContract: contract.Of(k.project.ID, second.ID), Parts: []string{"User.mail"}})
	other.ok(err)
	_, err = other.Update(t.Context(), other.back, contract.Revision{InContract: contract.Of(k.project.ID, offered.Contract.ID), Content: userSchema("colour")})
	other.ok(err)

	// Together again, both hubs have the same contracts, verdicts and examples.
	exchange(t, k.desk, other, backAID, frontAID)
	for _, id := range []coord.ContractID{k.c.ID, second.ID, offered.Contract.ID} {
		var answers [2]string
		for i, d := range []*desk{k.desk, other} {
			c, err := d.Contract(t.Context(), d.back, k.project.ID, id, true)
			d.ok(err)
			diff, err := d.Diff(t.Context(), d.back, contract.DiffQuery{InContract: contract.Of(k.project.ID, id)})
			d.ok(err)
			text, err := json.Marshal([]any{c, diff})
			d.ok(err)
			answers[i] = string(text)
		}
		if answers[0] != answers[1] {
			t.Errorf("the hubs differ:\n%s\n%s", answers[0], answers[1])
		}
	}
	c := other.read(k.c)
	equal(other, "asked on the other hub", repoNames(c.Dissenting(k.project)), []string{"frontend-app"})
	got, err := other.respond(other.back, c, contract.ActionAgree, "")
	other.ok(err)
	equal(other, "agreed there", got.Contract.Status, coord.ContractAgreed)
	exchange(t, k.desk, other, backAID, frontAID)
	equal(k.desk, "and here", k.read(k.c).Status, coord.ContractAgreed)
	equal(k.desk, "in force", k.read(k.c).Terms.InForce.Version, 2)
}

func TestPeersWithoutTerms(t *testing.T) {
	t.Run("a peer that drops the terms answers, and they stay", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		c := r.Contract
		c.Terms = coord.Terms{}
		c.Stamps = coord.Stamps{}
		c.Agreements = nil
		c.History, c.Conflicts = nil, nil
		c.Status = coord.ContractNegotiating
		c.UpdatedAt = after(c.UpdatedAt, time.Minute)
		if got := k.sync(false, federation.Copy{Contract: &c}); got.Status != federation.SyncUpdated {
			t.Fatalf("got %+v", got)
		}
		now := k.read(k.c)
		equal(k.desk, "status", now.Status, coord.ContractNegotiating)
		equal(k.desk, "provider", now.Terms.Provider, r.Contract.Terms.Provider)
		equal(k.desk, "in force", now.Terms.InForce.Version, 1)
		equal(k.desk, "consumers", len(now.Terms.Consumers()), 1)
	})
	t.Run("a guest cannot take back what another repository is asked", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.use(k.mobile)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		mobile, _ := k.project.RepoNamed("mobile-app")
		k.ok(k.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return tx.PutPeer(hub.Peer{AID: peer, Endpoint: "https://p", State: hub.PeerApproved, Access: coord.AccessFull, AddedAt: coord.InstantAt(start), ActsFor: []coord.AID{mobileAID}, Grants: []coord.Grant{{
				Project: k.project.ID, Repos: []string{"mobile-app"}, Permissions: coord.Contributor,
			}}})
		}))
		c := k.read(k.c)
		for i, a := range c.Terms.Asks {
			if a.Repo != mobile.ID {
				c.Terms.Asks = append([]coord.Ask{}, c.Terms.Asks...)
				c.Terms.Asks[i].Needed = false
				c.Terms.Asks[i].At = after(a.At, time.Hour)
			}
		}
		if got := k.sync(true, federation.Copy{Contract: &c}); got.Code != hub.CodeDenied {
			t.Errorf("got %+v", got)
		}
		equal(k.desk, "asked", len(k.read(r.Contract).Dissenting(k.project)), 2)
		equal(k.desk, "verdict", r.Verdict, compat.Breaking)
	})
}
