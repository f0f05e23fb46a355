package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/service/contract"
)

func TestRepositories(t *testing.T) {
	t.Run("an agent with several repositories says which one it acts for", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		in := contract.In(d.project.ID)
		_, err := d.AddRepo(t.Context(), d.back, d.project.ID, contract.As{}, coord.Repo{Name: "docs", Role: "shared", Language: "text"})
		d.ok(err)
		_, _, err = d.JoinProject(t.Context(), d.back, d.project.ID, "docs", "")
		d.ok(err)
		propose := func(repo string) (contract.Result, error) {
			return d.Propose(t.Context(), d.back, contract.Proposal{InProject: in, As: contract.As{Repo: repo}, Type: coord.ContractCustom, Name: "c", Content: json.RawMessage(`{}`)})
		}
		_, err = propose("")
		d.refused(err, hub.CodeInvalid, "repoName required: you speak for backend-api and docs")
		_, err = propose("frontend-app")
		d.refused(err, hub.CodeDenied, "not for frontend-app")
		r, err := propose("docs")
		d.ok(err)
		p, err := d.Project(t.Context(), d.back, d.project.ID)
		d.ok(err)
		docs, _ := p.RepoNamed("docs")
		equal(d, "proposer", r.Contract.ProposedBy, docs.ID)
		of := contract.Of(d.project.ID, r.Contract.ID)
		_, err = d.Respond(t.Context(), d.back, contract.Response{InContract: of, As: contract.As{Repo: "backend-api"}, Action: contract.ActionAgree})
		d.refused(err, hub.CodePolicy, "docs proposed version 1 itself") // one party with two repositories
		_, err = d.respond(d.front, r.Contract, contract.ActionAgree, "")
		d.ok(err)
		for _, as := range []contract.As{{Repo: "docs"}, {Repo: "backend-api"}} {
			_, err = d.Start(t.Context(), d.back, contract.Work{InContract: of, As: as})
			d.ok(err)
			_, err = d.Complete(t.Context(), d.back, contract.Work{InContract: of, As: as, Files: []string{}})
			d.ok(err)
			_, err = d.Share(t.Context(), d.back, contract.NewPacket{InProject: in, Relations: contract.Relations{As: as}, Type: coord.ContextTest, Content: json.RawMessage(`{}`)})
			d.ok(err)
			_, err = d.RequestFile(t.Context(), d.back, as, coord.FileRequest{Project: d.project.ID, Description: "x"})
			d.ok(err)
		}
		equal(d, "work", len(d.read(r.Contract).Implementations), 2)
	})
	t.Run("an agent gives its repository back, and another claims it", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		_, _, err := d.LeaveProject(t.Context(), d.front, d.project.ID, contract.As{Repo: "backend-api"})
		d.refused(err, hub.CodeDenied, "not for backend-api")
		_, r, err := d.LeaveProject(t.Context(), d.front, d.project.ID, contract.As{})
		d.ok(err)
		equal(d, "term", r.Term, 1)
		equal(d, "change", d.last().Object, string(r.ID))
		_, err = d.respond(d.front, d.propose(), contract.ActionAgree, "")
		d.refused(err, hub.CodeConflict, "Not a member")
		_, _, err = d.LeaveProject(t.Context(), d.front, d.project.ID, contract.As{})
		d.refused(err, hub.CodeConflict, "Not a member")
		other := hub.Caller{ID: "eve", AID: "aid://example.com/eve@1.0.0"}
		_, r, err = d.JoinProject(t.Context(), other, d.project.ID, "frontend-app", "")
		d.ok(err)
		equal(d, "claimed by", r.Agent, other.AID)
		_, _, err = d.JoinProject(t.Context(), d.front, d.project.ID, "frontend-app", "")
		d.refused(err, hub.CodeConflict, "claimed by")
	})
	t.Run("a claim of an earlier term does not come back with an old copy", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		old, _ := d.project.RepoNamed("frontend-app")
		_, _, err := d.LeaveProject(t.Context(), d.front, d.project.ID, contract.As{})
		d.ok(err)
		for _, native := range []bool{true, false} {
			if !native {
				old.ClaimedAt, old.UpdatedAt = coord.Instant{}, coord.Instant{}
			}
			_, err := d.Sync(t.Context(), "aid://old.example/hub@1.0.0", native, []federation.Copy{{Project: d.project.ID, Repo: &old}})
			d.ok(err)
			p, err := d.Project(t.Context(), d.back, d.project.ID)
			d.ok(err)
			now, _ := p.RepoNamed("frontend-app")
			equal(d, "claimed by", now.Agent, "")
		}
	})
	t.Run("an agent of the hub does not speak for the hub's repository when another agent has claimed it", func(t *testing.T) {
		d := newDesk(t, func(o *contract.Options) {
			o.Local = func(aid coord.AID) (hub.AgentID, bool) {
				name := map[coord.AID]hub.AgentID{"aid://example.com/ann@1.0.0": "ann", "aid://example.com/ben@1.0.0": "ben"}[aid]
				return name, name != ""
			}
		}).begin()
		ann, ben := hub.Caller{ID: "ann", AID: "aid://example.com/ann@1.0.0"}, hub.Caller{ID: "ben", AID: "aid://example.com/ben@1.0.0"}
		propose := func(who hub.Caller) error {
			_, err := d.Propose(t.Context(), who, contract.Proposal{InProject: contract.In(d.project.ID), Type: coord.ContractCustom, Name: "c", Content: json.RawMessage(`{}`)})
			return err
		}
		d.ok(propose(ann))
		operator := hub.Caller{ID: hub.Operator}
		_, _, err := d.LeaveProject(t.Context(), operator, d.project.ID, contract.As{})
		d.ok(err)
		_, _, err = d.JoinProject(t.Context(), ben, d.project.ID, "backend-api", "")
		d.ok(err)
		d.ok(propose(ben))
		d.refused(propose(ann), hub.CodeConflict, "Not a member")
		_, _, err = d.LeaveProject(t.Context(), ann, d.project.ID, contract.As{Repo: "backend-api"})
		d.refused(err, hub.CodeConflict, "Not a member")
		_, _, err = d.LeaveProject(t.Context(), operator, d.project.ID, contract.As{Repo: "backend-api"})
		d.ok(err)
		d.ok(propose(ann))
	})
	t.Run("status and policy are the owner's, a coordinator's and the operator's", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		coordinator := hub.Caller{ID: "cora", AID: "aid://example.com/cora@1.0.0", Role: hub.RoleCoordinator}
		owner := hub.Caller{ID: "owen", AID: "aid://example.com/owen@1.0.0"}
		p, err := d.CreateProject(t.Context(), owner, contract.NewProject{Name: "n", Objective: "o"})
		d.ok(err)
		for who, may := range map[*hub.Caller]bool{
			&d.front: false, &d.back: false, &coordinator: true, &owner: true, {ID: hub.Operator}: true,
			{Kind: hub.CallerToken, ID: "owen", AID: owner.AID, Scope: []coord.Grant{{Project: p.ID, Permissions: coord.Permissions}}}:                       true,
			{Kind: hub.CallerToken, ID: hub.Operator, AID: "aid://x.example/x@1.0.0", Scope: []coord.Grant{{Project: p.ID, Permissions: coord.Permissions}}}: false,
		} {
			_, policy := d.SetPolicy(t.Context(), *who, p.ID, coord.AgreeAll)
			_, status := d.SetStatus(t.Context(), *who, p.ID, coord.ProjectImplementing)
			for _, err := range []error{policy, status} {
				if may {
					d.ok(err)
				} else {
					d.refused(err, hub.CodeDenied, "only the owner")
				}
			}
		}
	})
}

func TestShareOfPeer(t *testing.T) {
	const peer = coord.AID("aid://peer.example/hub@1.0.0")
	outside := hub.OutsideCaller(hub.CallerPeer, peer, coord.AccessFull)
	packet := func(d *desk, i int) []federation.Copy {
		repo, _ := d.project.RepoNamed("frontend-app")
		return []federation.Copy{{Project: d.project.ID, Packet: &coord.Packet{
			Project: d.project.ID, ID: coord.PacketID(fmt.Sprint("k", i)), FromRepo: repo.ID, FromAgent: peer, Type: coord.ContextTest, Content: json.RawMessage(`{"x":1}`), At: coord.InstantAt(start),
		}}}
	}
	t.Run("one peer makes a part of the projects of a hub, and leaves room for others", func(t *testing.T) {
		d := newDesk(t, func(o *contract.Options) { o.Limits.PeerProjects = 2 })
		for i := range 3 {
			_, err := d.CreateProject(t.Context(), outside, contract.NewProject{Name: "n", Objective: "o"})
			if i < 2 {
				d.ok(err)
			} else {
				d.refused(err, hub.CodeTooLarge, "for one peer")
			}
		}
		_, err := d.Receive(t.Context(), "aid://other.example/hub@1.0.0", true, []federation.Copy{{Project: "p", Head: &coord.Project{ID: "p", Name: "n", Objective: "o", Status: coord.ProjectPlanning}}})
		d.ok(err)
		done, err := d.Receive(t.Context(), peer, true, []federation.Copy{{Project: "q", Head: &coord.Project{ID: "q", Name: "n", Objective: "o", Status: coord.ProjectPlanning}}})
		d.ok(err)
		equal(d, "code", done[0].Code, hub.CodeTooLarge)
		_, err = d.CreateProject(t.Context(), d.back, contract.NewProject{Name: "n", Objective: "o"})
		d.ok(err)
	})
	t.Run("a guest fills at most half of its project, whatever the rate", func(t *testing.T) {
		d := newDesk(t, func(o *contract.Options) { o.Limits.Contracts, o.Limits.Packets = 10, 10 }).begin()
		d.ok(d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			return tx.PutPeer(hub.Peer{AID: peer, Endpoint: "https://p", State: hub.PeerApproved, Access: coord.AccessFull, AddedAt: coord.InstantAt(start), ActsFor: []coord.AID{frontAID},
				Grants: []coord.Grant{{Project: d.project.ID, Permissions: coord.Contributor}}})
		}))
		for i := range 12 {
			done, err := d.Sync(t.Context(), peer, true, packet(d, i))
			d.ok(err)
			want := hub.Code("")
			if i >= 10 {
				want = hub.CodeTooLarge
			}
			equal(d, fmt.Sprint(i), done[0].Code, want)
		}
	})
	t.Run("copies that the hub fetches itself have no rate, and the rate survives a restart", func(t *testing.T) {
		options := &contract.Options{Clock: func() time.Time { return start }, Self: backAID, Repo: "backend-api", Limits: contract.Limits{Rate: contract.Rate{Projects: 1, Things: 2, Bytes: 1000}}}
		d := newDesk(t, nil).begin()
		for i, want := range []hub.Code{"", "", hub.CodeRateLimited, hub.CodeRateLimited} {
			done, err := contract.New(d.store, options).Receive(t.Context(), peer, true, packet(d, i))
			d.ok(err)
			equal(d, fmt.Sprint(i), done[0].Code, want)
			if want != "" && (done[0].Retry <= 0 || done[0].Retry > time.Minute) {
				t.Errorf("retry after %s", done[0].Retry)
			}
		}
		done, err := contract.New(d.store, options).Sync(t.Context(), peer, true, packet(d, 7))
		d.ok(err)
		equal(d, "fetched", done[0].Code, "")
		options.Clock = func() time.Time { return start.Add(time.Minute) }
		done, err = contract.New(d.store, options).Receive(t.Context(), peer, true, packet(d, 8))
		d.ok(err)
		equal(d, "a minute later", done[0].Code, "")
	})
}
