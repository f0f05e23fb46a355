package peer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/reftest"
)

// A refView is what a reference agent has of a contract.
type refView struct {
	Version         int
	Status          string
	Content         json.RawMessage
	UpdatedAt       string `json:"updated_at"`
	Implementations []struct {
		Repo   string `json:"repo_id"`
		Status string
		Notes  string
	}
}

// withReference returns a hub and a reference agent that are peers.
func withReference(t *testing.T) (*node, *reftest.Agent) {
	t.Helper()
	t.Attr("stand-in", "agent of the reference implementation")
	n := newNode(t, "alpha", nil)
	ref := reftest.New("agent-frontend", "frontend-app", "frontend", "typescript")
	t.Cleanup(ref.Close)
	n.addLegacy(ref)
	return n.start(), ref
}

func (n *node) addLegacy(ref *reftest.Agent) {
	n.t.Helper()
	if _, _, err := n.peers.AddPeer(n.t.Context(), operator, peers.NewPeer{AID: coord.AID(ref.ID), Endpoint: ref.URL(), Repo: ref.Repo, From: "127.0.0.1"}); err != nil {
		n.t.Fatal(err)
	}
}

func refContract(ref *reftest.Agent, project coord.ProjectID, id coord.ContractID) refView {
	var v refView
	ref.Do("cacp/contract/get", map[string]any{"projectId": project, "contractId": id}, &v) // nothing yet is nothing
	return v
}

func (n *node) refProject(ref *reftest.Agent) coord.ProjectID {
	n.t.Helper()
	p, err := n.contracts.CreateProject(n.t.Context(), n.caller(), contract.NewProject{Name: "login", Objective: "log in", Policy: coord.AgreeAny, Repos: []coord.Repo{
		{Name: n.repo, Role: "backend", Language: "go"}, {Name: ref.Repo, Role: "frontend", Language: "typescript"},
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	return p.ID
}

func (n *node) must(_ contract.Result, err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func TestReferenceFlow(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{0, 30 * time.Second, -30 * time.Second} {
		t.Run(fmt.Sprintf("R1-080 the whole flow both ways with a clock that is off by %s", skew), func(t *testing.T) {
			t.Parallel()
			n, ref := withReference(t)
			ref.Skew(skew)
			us := []*node{n}
			project := n.refProject(ref)
			id := n.propose(project, "profile")
			at := func(what string, want coord.ContractStatus, works int) {
				t.Helper()
				eventually(t, what, us, func() bool {
					r := refContract(ref, project, id)
					return n.status(project, id) == want && r.Status == string(want) && n.works(project, id) == works && len(r.Implementations) == works
				})
			}
			stands := func(want coord.ProjectStatus, since coord.Instant) coord.Instant {
				t.Helper()
				eventually(t, "the project is "+string(want)+" on both", us, func() bool {
					var theirs struct{ Status string }
					ref.Do("cacp/project/get", map[string]any{"projectId": project}, &theirs)
					return theirs.Status == string(want)
				})
				p, err := n.contracts.Project(t.Context(), n.caller(), project)
				if err != nil || p.Status != want || p.UpdatedAt.Compare(since) <= 0 {
					t.Errorf("here the project is %s since %s (%v), want %s and later than %s", p.Status, p.UpdatedAt, err, want, since)
				}
				return p.UpdatedAt
			}
			do := func(method string, params map[string]any) {
				t.Helper()
				params["projectId"], params["contractId"] = project, id
				if err := ref.Do(method, params, nil); err != nil {
					t.Fatal(err)
				}
			}
			at("proposed on both", coord.ContractProposed, 0)
			eventually(t, "the agent tells the hub", us, func() bool { return ref.Healthy(string(n.aid)) })
			if err := ref.Do("cacp/project/join", map[string]any{"projectId": project, "repoName": ref.Repo}, nil); err != nil {
				t.Fatal(err)
			}
			do("cacp/contract/respond", map[string]any{"action": "request_change"})
			at("negotiating on both", coord.ContractNegotiating, 0)
			n.must(n.contracts.Update(t.Context(), n.caller(), contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(`{"path":"/v2"}`)}))
			eventually(t, "the second version on both", us, func() bool { return refContract(ref, project, id).Version == 2 })
			at("proposed again on both", coord.ContractProposed, 0)
			do("cacp/contract/respond", map[string]any{"action": "agree"})
			at("agreed on both", coord.ContractAgreed, 0)
			do("cacp/implementation/start", map[string]any{"plan": "components"})
			at("started there, on both", coord.ContractAgreed, 1)
			n.must(n.contracts.Start(t.Context(), n.caller(), contract.Work{InContract: contract.Of(project, id), Plan: "endpoint"}))
			at("started on both", coord.ContractAgreed, 2)
			since := stands(coord.ProjectImplementing, coord.Instant{})
			n.must(n.contracts.Complete(t.Context(), n.caller(), contract.Work{InContract: contract.Of(project, id), Files: []string{"a.go"}}))
			eventually(t, "completed here, on both", us, func() bool {
				return slices.ContainsFunc(refContract(ref, project, id).Implementations, func(i struct {
					Repo   string `json:"repo_id"`
					Status string
					Notes  string
				}) bool {
					return i.Status == "complete"
				})
			})
			do("cacp/implementation/complete", map[string]any{"files": []string{"a.ts"}})
			at("implemented on both", coord.ContractImplemented, 2)
			since = stands(coord.ProjectIntegrating, since)
			n.must(n.contracts.Verify(t.Context(), n.caller(), contract.Verification{InContract: contract.Of(project, id), Result: contract.VerifySuccess}))
			at("verified on both", coord.ContractVerified, 2)
			stands(coord.ProjectComplete, since)
		})
	}
	t.Run("R1-080 a project that the agent made", func(t *testing.T) {
		t.Parallel()
		n, ref := withReference(t)
		us := []*node{n}
		eventually(t, "the agent tells the hub", us, func() bool { return ref.Healthy(string(n.aid)) })
		var made struct{ ProjectID coord.ProjectID }
		err := ref.Do("cacp/project/create", map[string]any{"name": "n", "objective": "o", "repos": []any{
			map[string]string{"name": ref.Repo, "role": "frontend", "language": "typescript"}, map[string]string{"name": n.repo, "role": "backend", "language": "go"},
		}}, &made)
		if err != nil {
			t.Fatal(err)
		}
		var proposed struct{ ContractID coord.ContractID }
		if err := ref.Do("cacp/contract/propose", map[string]any{"projectId": made.ProjectID, "type": "custom", "name": "c", "content": map[string]any{}}, &proposed); err != nil {
			t.Fatal(err)
		}
		eventually(t, "proposed here", us, func() bool { return n.status(made.ProjectID, proposed.ContractID) == coord.ContractProposed })
		n.must(n.contracts.Respond(t.Context(), n.caller(), contract.Response{InContract: contract.Of(made.ProjectID, proposed.ContractID), Action: contract.ActionAgree}))
		eventually(t, "agreed there", us, func() bool { return refContract(ref, made.ProjectID, proposed.ContractID).Status == "agreed" })
	})
}

func TestReferenceRepair(t *testing.T) {
	t.Parallel()
	n, ref := withReference(t)
	us := []*node{n}
	project := n.refProject(ref)
	id := n.propose(project, "profile")
	n.share(project, "one")
	packets := func() int {
		var out struct{ Packets []json.RawMessage }
		ref.Do("cacp/context/list", map[string]any{"projectId": project, "limit": 10000}, &out) // nothing yet is nothing
		return len(out.Packets)
	}
	eventually(t, "all is there", us, func() bool { return refContract(ref, project, id).Version == 1 && packets() == 1 })

	t.Run("R1-082 an agent that restarted and forgot everything", func(t *testing.T) {
		ref.Restart()
		n.share(project, "two")
		eventually(t, "all is there again", us, func() bool { return refContract(ref, project, id).Version == 1 && packets() == 2 })
	})
	t.Run("R1-082 an agent that forgets while nothing changes", func(t *testing.T) {
		ref.Restart()
		eventually(t, "all is there again", us, func() bool { return refContract(ref, project, id).Version == 1 && packets() == 2 })
	})
	t.Run("R1-012 the status of a project reaches the agent, and nothing there is lost", func(t *testing.T) {
		if _, err := n.contracts.SetStatus(t.Context(), operator, project, coord.ProjectIntegrating); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the status is there", us, func() bool {
			var got struct{ Status string }
			ref.Do("cacp/project/get", map[string]any{"projectId": project}, &got)
			return got.Status == string(coord.ProjectIntegrating) && refContract(ref, project, id).Version == 1 && packets() == 2
		})
	})
	t.Run("R1-083 an agent that was down during 100 changes gets them in order", func(t *testing.T) {
		ref.Gate(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		var ids []coord.ContractID
		for i := range 50 {
			ids = append(ids, n.propose(project, fmt.Sprint("c", i)))
			n.share(project, fmt.Sprint("s", i))
		}
		ref.Calls()
		ref.Gate(nil)
		eventually(t, "all is there", us, func() bool { return refContract(ref, project, ids[49]).Version == 1 && packets() == 52 })
		var got []coord.ContractID
		for _, c := range ref.Calls() {
			var in struct {
				Contract struct{ Contract_ID coord.ContractID }
			}
			if c.Method == "cacp/contract/sync" && json.Unmarshal(c.Params, &in) == nil {
				got = append(got, in.Contract.Contract_ID)
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("got %d contracts, not the %d in order", len(got), len(ids))
		}
	})
	t.Run("R1-057 an agent that was taken back to a lower version is brought forward", func(t *testing.T) {
		n.must(n.contracts.Update(t.Context(), n.caller(), contract.Revision{InContract: contract.Of(project, id), Content: json.RawMessage(`{"path":"/v2"}`)}))
		eventually(t, "the second version is there", us, func() bool { return refContract(ref, project, id).Version == 2 })
		err := ref.Do("cacp/contract/sync", map[string]any{"projectId": project, "contract": map[string]any{
			"contract_id": id, "type": "api_endpoint", "name": "profile", "version": 1, "content": map[string]any{}, "proposed_by": "r", "updated_at": "2999-01-01T00:00:00",
		}}, nil)
		if err != nil || refContract(ref, project, id).Version != 1 {
			t.Fatalf("the agent was not taken back: %v", err)
		}
		if err := n.syncer.Compare(coord.AID(ref.ID)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the second version is back", us, func() bool { return refContract(ref, project, id).Version == 2 })
		if c, err := n.contracts.Contract(t.Context(), n.caller(), project, id, false); err != nil || c.Version != 2 {
			t.Errorf("here it is version %d, %v", c.Version, err)
		}
	})
	t.Run("R1-087 a project that is too large to be fetched is still kept in step", func(t *testing.T) {
		ref.Gate(func(w http.ResponseWriter, r *http.Request) bool {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err != nil || !bytes.Contains(body, []byte(`"cacp/project/get"`)) {
				return false
			}
			return endless(w, r)
		})
		defer ref.Gate(nil)
		other := n.propose(project, "in a large project")
		if _, err := n.contracts.AddRepo(t.Context(), n.caller(), project, contract.As{}, coord.Repo{Name: "late", Role: "shared", Language: "go"}); err != nil {
			t.Fatal(err)
		}
		if err := n.syncer.Compare(coord.AID(ref.ID)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is there", us, func() bool {
			s := n.standing(&node{aid: coord.AID(ref.ID)})
			return refContract(ref, project, other).Version == 1 && s.Lag == 0 && s.Fault == ""
		})
	})
	t.Run("R1-084 concurrent starts are not lost", func(t *testing.T) {
		n.must(n.contracts.Respond(t.Context(), n.caller(), contract.Response{InContract: contract.Of(project, id), Action: contract.ActionAgree}))
		eventually(t, "agreed there", us, func() bool { return refContract(ref, project, id).Status == "agreed" })
		// Neither side hears of the other's start before its own.
		n.stop()
		n.setGate(func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, `{}`); return true })
		if err := ref.Do("cacp/implementation/start", map[string]any{"projectId": project, "contractId": id, "plan": "theirs"}, nil); err != nil {
			t.Fatal(err)
		}
		n.must(n.contracts.Start(t.Context(), n.caller(), contract.Work{InContract: contract.Of(project, id), Plan: "ours"}))
		n.setGate(nil)
		n.start()
		eventually(t, "both records on both sides", us, func() bool {
			return n.works(project, id) == 2 && len(refContract(ref, project, id).Implementations) == 2
		})
		if err := ref.Do("cacp/implementation/complete", map[string]any{"projectId": project, "contractId": id, "files": []string{}}, nil); err != nil {
			t.Errorf("the agent lost its own record: %v", err)
		}
	})
	t.Run("R1-083 a same-version change lands though the agent's clock is ahead, also after a restart of the hub", func(t *testing.T) {
		ref.Skew(time.Hour)
		other := n.propose(project, "skewed")
		eventually(t, "there", us, func() bool { return refContract(ref, project, other).Version == 1 })
		if err := ref.Do("cacp/contract/respond", map[string]any{"projectId": project, "contractId": other, "action": "request_change"}, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "heard here", us, func() bool { return n.status(project, other) == coord.ContractNegotiating })
		n.stop()
		n.must(n.contracts.Respond(t.Context(), n.caller(), contract.Response{InContract: contract.Of(project, other), Action: contract.ActionAgree}))
		n.start()
		eventually(t, "agreed there", us, func() bool { return refContract(ref, project, other).Status == "agreed" })
		if got := n.status(project, other); got != coord.ContractAgreed {
			t.Errorf("here it is %s", got)
		}
	})
}

func TestReferencePayloads(t *testing.T) {
	t.Parallel()
	n, ref := withReference(t)
	us := []*node{n}
	project := n.refProject(ref)
	id := n.propose(project, "profile")
	n.must(n.contracts.Respond(t.Context(), n.caller(), contract.Response{InContract: contract.Of(project, id), Action: contract.ActionAgree}))
	n.must(n.contracts.Start(t.Context(), n.caller(), contract.Work{InContract: contract.Of(project, id)}))
	n.share(project, "<b> & co")
	eventually(t, "all is there", us, func() bool { return len(refContract(ref, project, id).Implementations) == 1 })
	if _, _, err := n.contracts.JoinProject(t.Context(), n.caller(), project, n.repo, "http://example.com"); err != nil {
		t.Fatal(err)
	}
	t.Run("R1-081 the reference can read projects, contracts and context", func(t *testing.T) {
		var seen []string
		eventually(t, "every kind was sent", us, func() bool {
			seen = append(seen, checkPayloads(t, ref)...)
			return slices.Contains(seen, "cacp/project/sync") && slices.Contains(seen, "cacp/contract/sync") && slices.Contains(seen, "cacp/context/sync")
		})
	})
	t.Run("R1-061 the hub says who it is", func(t *testing.T) {
		n.share(project, "again")
		eventually(t, "a call came", us, func() bool {
			calls := ref.Calls()
			for _, c := range calls {
				if got := c.Header.Get("X-Agent-ID"); got != string(n.aid) {
					t.Errorf("X-Agent-ID: got %q, want %q", got, n.aid)
				}
				if got := c.Header.Get("X-Source-Endpoint"); got != n.server.URL {
					t.Errorf("X-Source-Endpoint: got %q, want %q", got, n.server.URL)
				}
			}
			return len(calls) > 0
		})
	})
}

// A reference agent takes part in a project whose contracts have a provider, consumers and a
// policy. It does not know these members: it answers as always, and they stay on the hub.
func TestReferenceWithTerms(t *testing.T) {
	t.Parallel()
	n, ref := withReference(t)
	us := []*node{n}
	project := n.refProject(ref)
	schema := func(properties string) json.RawMessage {
		return json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","properties":{` + properties + `}}`)
	}
	proposed, err := n.contracts.Propose(t.Context(), n.caller(), contract.Proposal{
		InProject: contract.In(project), Type: coord.ContractModel, Name: "User", Content: schema(`"name":{"type":"string"},"avatar":{"type":"string"}`),
		Direction: contract.Direction{Provider: n.repo, Flow: "response"},
	})
	n.must(proposed, err)
	id := proposed.Contract.ID
	answer := func(action string) {
		t.Helper()
		if err := ref.Do("cacp/contract/respond", map[string]any{"projectId": project, "contractId": id, "action": action}, nil); err != nil {
			t.Fatal(err)
		}
	}
	inForce := func(version int) {
		t.Helper()
		eventually(t, fmt.Sprintf("version %d is agreed on both and in force here", version), us, func() bool {
			c, err := n.contracts.Contract(t.Context(), n.caller(), project, id, false)
			r := refContract(ref, project, id)
			isAgreed := err == nil && c.Status == coord.ContractAgreed && r.Status == string(coord.ContractAgreed)
			return isAgreed && r.Version == version && c.Terms.InForce != nil && c.Terms.InForce.Version == version && c.Terms.Provider != ""
		})
	}

	// It agrees to the first version, and to a breaking one.
	eventually(t, "it has the contract", us, func() bool { return refContract(ref, project, id).Version == 1 })
	if err := ref.Do("cacp/project/join", map[string]any{"projectId": project, "repoName": ref.Repo}, nil); err != nil {
		t.Fatal(err)
	}
	answer("agree")
	inForce(1)
	updated, err := n.contracts.Update(t.Context(), n.caller(), contract.Revision{InContract: contract.Of(project, id), Content: schema(`"name":{"type":"string"}`)})
	n.must(updated, err)
	if updated.Contract.Status != coord.ContractProposed {
		t.Errorf("the update is %s, want it to wait for an answer", updated.Contract.Status)
	}
	eventually(t, "it has the second version", us, func() bool { return refContract(ref, project, id).Version == 2 })
	answer("agree")
	inForce(2)

	t.Run("R1-081 the reference can read contracts with terms", func(t *testing.T) {
		if seen := checkPayloads(t, ref); !slices.Contains(seen, "cacp/contract/sync") {
			t.Errorf("no contract was sent: %q", seen)
		}
	})
}

// checkPayloads holds what was sent against what the reference can read, and returns the methods.
func checkPayloads(t *testing.T, ref *reftest.Agent) (methods []string) {
	t.Helper()
	for _, c := range ref.Calls() {
		if strings.HasSuffix(c.Method, "/sync") {
			checkPayload(t, c)
			methods = append(methods, c.Method)
		}
	}
	return methods
}

// checkPayload holds one call against what the reference can read.
func checkPayload(t *testing.T, c reftest.Call) {
	t.Helper()
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if k == "content" {
					continue
				}
				walk(path+"."+k, e)
				if s, ok := e.(string); ok && (strings.HasSuffix(k, "_at") || k == "timestamp") {
					if _, err := time.Parse("2006-01-02T15:04:05.000000", s); err != nil || len(s) != 26 {
						t.Errorf("%s.%s: %q is not a time without a zone and with microseconds", path, k, s)
					}
				}
			}
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
		case nil:
			t.Errorf("%s is null", path)
		}
	}
	var params map[string]any
	if err := json.Unmarshal(c.Params, &params); err != nil {
		t.Fatal(err)
	}
	walk("", params)
	want := map[string][]string{
		"cacp/project/sync":  {"repos", "contracts", "context_history"},
		"cacp/contract/sync": {"implementations", "history"},
		"cacp/context/sync":  {"related_contracts"},
		"cacp/repo/sync":     {"relevant_paths"},
	}
	member := map[string]string{"cacp/project/sync": "project", "cacp/contract/sync": "contract", "cacp/context/sync": "packet", "cacp/repo/sync": "repo"}[c.Method]
	object, _ := params[member].(map[string]any)
	for _, name := range want[c.Method] {
		if _, ok := object[name].([]any); !ok {
			t.Errorf("%s is %v, not a list", name, object[name])
		}
	}
	impls, _ := object["implementations"].([]any)
	for _, i := range impls {
		if _, ok := i.(map[string]any)["notes"].(string); !ok {
			t.Errorf("notes are %v, not a text", i)
		}
	}
	if params["source_agent"] != "aid://alpha.example/alpha@1.0.0" {
		t.Errorf("source_agent is %v", params["source_agent"])
	}
}
