package server_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

// onLoopback is a hub that coordinates with others on this machine.
func onLoopback(name, repo, role string) server.Options {
	o := quiet()
	o.Coordination = server.Coordination{
		AID: coord.AID("aid://" + name + ".example/" + name + "@1.0.0"), Repo: repo, Role: role, Language: "go",
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	return o
}

// ask makes a call as the operator and reads the result.
func ask[T any](t *testing.T, r *running, method string, params any) T {
	t.Helper()
	var out T
	r.call(t, r.operator, method, object(t, params)).wantOK(t, &out)
	return out
}

// m is what parameters are made of.
type m = map[string]any

// twoHubs starts two hubs with a project in which both have a repository.
func twoHubs(t *testing.T) (a, b *running, project string) {
	t.Helper()
	a = start(t, onLoopback("back", "backend-api", "backend"))
	b = start(t, onLoopback("front", "frontend-app", "frontend"))
	project = ask[struct{ ProjectID string }](t, a, "cacp/project/create", m{
		"name": "login", "objective": "log in", "repos": []m{
			{"name": "backend-api", "role": "backend", "language": "go"}, {"name": "frontend-app", "role": "frontend", "language": "typescript"},
		},
	}).ProjectID
	befriend(t, a, b, project, "frontend-app")
	return a, b, project
}

// befriend lets b in at a with an invite, and b claim its repository.
func befriend(t *testing.T, a, b *running, project, repo string) {
	t.Helper()
	invite := ask[struct{ Invite string }](t, a, "cacp/invite/create", m{"projectId": project, "repoName": repo}).Invite
	ask[m](t, b, "parley/peer/join", m{"invite": invite, "hub": a.url})
	eventually(t, "the project is there", func() bool {
		return b.call(t, b.operator, "cacp/project/join", object(t, m{"projectId": project, "repoName": repo, "agentEndpoint": b.url})).Error == nil
	})
}

// eventually waits for something that happens by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience.For(time.Minute))
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// contractStatus returns how far a contract has come on a hub, "" if it is not
// there.
func contractStatus(t *testing.T, r *running, project, contract string) (status coord.ContractStatus, version int) {
	t.Helper()
	var c struct {
		Status  coord.ContractStatus
		Version int
	}
	a := r.call(t, r.operator, "cacp/contract/get", object(t, m{"projectId": project, "contractId": contract}))
	json.Unmarshal(a.Result, &c) // nothing if it is not there
	return c.Status, c.Version
}

func TestTwoHubs(t *testing.T) {
	t.Parallel()
	a, b, project := twoHubs(t)
	id := ask[struct{ ContractID string }](t, a, "cacp/contract/propose", m{
		"projectId": project, "type": "api_endpoint", "name": "Get User", "content": m{"method": "GET", "path": "/user"},
	}).ContractID
	reaches := func(r *running, want coord.ContractStatus, version int) {
		t.Helper()
		eventually(t, fmt.Sprintf("version %d is %s at %s", version, want, r.url), func() bool {
			s, v := contractStatus(t, r, project, id)
			return s == want && v == version
		})
	}
	reaches(b, coord.ContractProposed, 1)
	ask[m](t, b, "cacp/contract/respond", m{"projectId": project, "contractId": id, "action": "request_change", "comment": "avatar?"})
	reaches(a, coord.ContractNegotiating, 1)
	ask[m](t, a, "cacp/contract/update", m{"projectId": project, "contractId": id, "content": m{"method": "GET", "path": "/user", "avatar": nil}})
	reaches(b, coord.ContractProposed, 2)
	ask[m](t, b, "cacp/contract/respond", m{"projectId": project, "contractId": id, "action": "agree"})
	reaches(a, coord.ContractAgreed, 2)
	for _, r := range []*running{a, b} {
		ask[m](t, r, "cacp/implementation/start", m{"projectId": project, "contractId": id, "plan": "p"})
	}
	for _, r := range []*running{a, b} {
		ask[m](t, r, "cacp/implementation/complete", m{"projectId": project, "contractId": id, "files": []string{"x.go"}})
	}
	reaches(a, coord.ContractImplemented, 2)
	reaches(b, coord.ContractImplemented, 2)
	ask[m](t, b, "cacp/implementation/verify", m{"projectId": project, "contractId": id, "result": "success", "notes": "works"})
	reaches(a, coord.ContractVerified, 2)
}
