package server_test

import (
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/contract"
)

func TestAnswersReachTheAgentsOfTheHubsRepository(t *testing.T) {
	t.Parallel()
	r, keys, in := shop(t)
	// heard returns the summaries of the notices of an agent, and acknowledges them.
	heard := func(key string) string {
		t.Helper()
		page := mustCall(t, r.as(key), api.Inbox, api.InboxParams{Limit: 50, Ack: api.AckSet{All: true}})
		var out []string
		for _, e := range page.Messages {
			out = append(out, string(e.Payload))
		}
		return strings.Join(out, "\n")
	}
	propose := func(key, name string) coord.ContractID {
		return mustCall(t, r.as(key), coordination.Propose, contract.Proposal{InProject: in, Type: coord.ContractAPI, Name: name, Content: []byte(`{"method":"GET","path":"/` + name + `"}`)}).Contract
	}
	respond := func(id coord.ContractID, action, comment string) {
		mustCall(t, r.as(keys["bo"]), coordination.Respond, contract.Response{InContract: coordination.InContract{InProject: in, Contract: id}, Action: action, Comment: comment})
	}
	t.Run("the agent that proposed hears that a change is requested, with the comment, and the operator has a copy", func(t *testing.T) {
		id := propose(keys["ana"], "orders")
		respond(id, contract.ActionRequestChange, "add a cursor")
		has(t, heard(keys["ana"]), "change requested", "add a cursor")
		has(t, heard(r.operator), "change requested", "add a cursor")
		if got := heard(keys["lena"]); got != "" {
			t.Errorf("a coordinator that had no part in it was told: %s", got)
		}
	})
	t.Run("the agent that asked hears the answer", func(t *testing.T) {
		asked := mustCall(t, r.as(keys["ana"]), coordination.AskQuestion, contract.Question{InProject: in, Question: "which port?"}).Packet
		mustCall(t, r.as(keys["bo"]), coordination.Share, contract.NewPacket{InProject: in, Relations: contract.Relations{ReplyTo: coord.PacketID(asked.Short())}, Type: coord.ContextProgress, Content: []byte(`{"answer":"8080"}`)})
		has(t, heard(keys["ana"]), "8080")
		has(t, heard(r.operator), "8080")
		if got := heard(keys["lena"]); got != "" {
			t.Errorf("a coordinator that had no part in it was told: %s", got)
		}
	})
	t.Run("if no agent is known the coordinators hear it", func(t *testing.T) {
		mustCall(t, r.as(keys["bo"]), coordination.AskQuestion, contract.Question{InProject: in, Question: "which port?"})
		has(t, heard(keys["lena"]), "which port?")
		has(t, heard(r.operator), "which port?")
		if got := heard(keys["ana"]); got != "" {
			t.Errorf("an agent that had no part in it was told: %s", got)
		}
	})
}

func TestProposalOfTheHubsRepositoryIsRevised(t *testing.T) {
	t.Parallel()
	r, keys, in := shop(t)
	propose := func(as hub.AgentID, name string) coord.ContractID {
		return mustCall(t, r.as(keys[as]), coordination.Propose, contract.Proposal{InProject: in, Type: coord.ContractAPI, Name: name, Content: []byte(`{"method":"GET","path":"/` + name + `"}`)}).Contract
	}
	respond := func(id coord.ContractID, action string) {
		mustCall(t, r.as(keys["bo"]), coordination.Respond, contract.Response{InContract: coordination.InContract{InProject: in, Contract: id}, Action: action, Comment: "add a cursor"})
	}
	update := func(id coord.ContractID, path string) error {
		_, err := rpc.Call(t.Context(), r.as(keys["ana"]), coordination.Update, contract.Revision{InContract: coordination.InContract{InProject: in, Contract: id}, Content: []byte(`{"method":"GET","path":"` + path + `"}`)})
		return err
	}
	t.Run("the agent that proposed publishes the next version, as the notice says, until one is agreed", func(t *testing.T) {
		id := propose("ana", "carts")
		respond(id, contract.ActionRequestChange)
		page := mustCall(t, r.as(keys["ana"]), api.Inbox, api.InboxParams{Limit: 50})
		has(t, string(page.Messages[len(page.Messages)-1].Payload), "change requested")
		if err := update(id, "/carts?cursor"); err != nil {
			t.Errorf("the proposal: %v", err)
		}
		respond(id, contract.ActionAgree)
		if err := update(id, "/carts?page"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agreed version: got %v, want %s", err, hub.CodeDenied)
		}
	})
	t.Run("an agent does not replace what another one proposed for the same repository", func(t *testing.T) {
		id := propose("lena", "prices")
		if err := update(id, "/none"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v, want %s", err, hub.CodeDenied)
		}
	})
	t.Run("an agent of the hub's repository does not replace the proposal of another one", func(t *testing.T) {
		id := propose("bo", "stock")
		if err := update(id, "/none"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("got %v, want %s", err, hub.CodeDenied)
		}
	})
}
