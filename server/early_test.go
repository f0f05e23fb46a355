package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
)

// An act on a contract that comes too early is refused with the repositories that are missing.
func TestTooEarly(t *testing.T) {
	t.Parallel()
	r, keys, in := shop(t)
	t.Run("R1-044 what comes too early names the repository that is missing", func(t *testing.T) {
		id := mustCall(t, r.as(keys["ana"]), coordination.Propose, contract.Proposal{InProject: in, Type: coord.ContractAPI, Name: "prices", Content: []byte(`{"method":"GET","path":"/prices"}`)}).Contract
		verify := func() string {
			_, raw, _ := strings.Cut(string(r.call(t, keys["bo"], "cacp/implementation/verify", object(t, m{"projectId": in.Project, "contractId": id, "result": "success"})).body), `"message":`)
			var text string
			json.NewDecoder(strings.NewReader(raw)).Decode(&text)
			return text
		}
		has(t, verify(), "in status proposed: it is not agreed yet: waiting for frontend")
		mustCall(t, r.as(keys["bo"]), coordination.Respond, contract.Response{InContract: coordination.InContract{InProject: in, Contract: id}, Action: contract.ActionAgree})
		has(t, verify(), "in status agreed: it is not implemented yet: waiting for backend and frontend")
	})
}
