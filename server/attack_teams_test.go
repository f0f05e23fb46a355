package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
)

// teams lets members of a team try more than their roles may, and slow the hub.
func (s *scene) teams() {
	s.slowMerges()
	s.gates()
	s.sensitiveMerges()
}

// members makes a team of new agents with the given roles, and returns their keys.
func (s *scene) members(id hub.TeamID, policy *team.Policy, roles ...hub.Role) []string {
	r := api.TeamParams{Action: "create", Team: id, Objective: "work", Policy: policy}
	var keys []string
	for i, role := range roles {
		name := hub.AgentID(fmt.Sprintf("%s-%s-%d", id, role, i))
		keys = append(keys, s.add(s.t, name)[0])
		r.Members = append(r.Members, team.Seat{Agent: name, Role: role})
	}
	must(rpc.Call(s.t.Context(), s.as(s.operator), api.Team, r))(s.t)
	return keys
}

// putText puts a text of any length as a version of an artifact of a team.
func (s *scene) putText(key string, id hub.TeamID, parent int64, text []byte) team.Answer {
	var stored struct {
		Artifact hub.ArtifactRef
	}
	a := s.do(s.t, http.MethodPost, "/artifacts", key, bytes.NewReader(text))
	if err := json.Unmarshal(a.body, &stored); err != nil {
		s.t.Fatalf("store: %v in %.200s", err, a.body)
	}
	r := api.TeamParams{Action: "artifact", Team: id, Artifact: "text", ParentVersion: &parent, SHA256: stored.Artifact.SHA256}
	return must(rpc.Call(s.t.Context(), s.as(key), api.Team, r))(s.t)
}

// slowMerges puts texts whose merge takes work that grows with the square of their length.
func (s *scene) slowMerges() {
	levels := func(filler string) string {
		b := &strings.Builder{}
		for i := 2000; i > 0; i-- {
			fmt.Fprintf(b, "%s\n%d\n%d\n", filler, i, i+1)
		}
		return b.String() + filler + "\nlast\n"
	}
	two, swapped := strings.Repeat("a\nb\n", 60_000), strings.Repeat("b\na\n", 60_000)
	for name, text := range map[string][3]string{
		"lines of two kinds": {two + "last\n", swapped + "last\n", two + "last\nc\n"},
		"parts within parts": {levels("x"), levels("y"), levels("x") + "c\n"},
	} {
		id := hub.TeamID("slow-" + strings.Fields(name)[0])
		keys := s.members(id, nil, hub.RoleCoordinator, hub.RoleExecutor)
		s.putText(keys[1], id, 0, []byte(text[0]))
		s.putText(keys[1], id, 1, []byte(text[1]))
		got := s.putText(keys[1], id, 1, []byte(text[2]))
		s.try(got.Artifact.State != hub.MergeManual, "%s: merged by the hub: %+v", name, got.Artifact)
	}
}

// gates makes and moves tasks of a team whose tasks wait for the operator.
func (s *scene) gates() {
	const id = "gated"
	keys := s.members(id, &team.Policy{HumanGateActions: []string{"task"}}, hub.RoleCoordinator, hub.RoleExecutor, hub.RoleExecutor)
	lead, worker := hub.AgentID("gated-coordinator-0"), hub.AgentID("gated-executor-1")
	other := hub.AgentID("gated-executor-2")
	do := func(key string, r api.TeamParams) team.Answer {
		r.Team = id
		return must(rpc.Call(s.t.Context(), s.as(key), api.Team, r))(s.t)
	}
	do(s.operator, api.TeamParams{Action: "status", Lifecycle: hub.TeamActive})
	mine := do(s.operator, api.TeamParams{Action: "task", Title: "rotate", Owner: worker}).Task.ID
	tasks := func() int { return len(do(s.operator, api.TeamParams{Action: "show"}).Team.Tasks) }
	owner := func() hub.AgentID { return do(s.operator, api.TeamParams{Action: "task", Task: mine}).Task.Owner }

	for _, r := range []api.TeamParams{{Action: "task", Title: "mine"}, {Action: "task", Title: "mine", Owner: worker}, {Action: "task", Task: mine, Owner: other}} {
		do(keys[0], r)
		s.try(tasks() != 1 || owner() != worker, "a task was made or moved by %+v", r)
	}
	for _, accepts := range []string{`{}`, `{"conditions":["soon"]}`} {
		var offer struct{ ID string }
		json.Unmarshal(s.call(s.t, keys[0], "acp/send", fmt.Sprintf(`{"to":[%q],"type":"task.offer","team":%q,"payload":{"title":"t","description":"d"}}`, worker, id)).Result, &offer)
		terms := strings.Replace(accepts, "{", fmt.Sprintf(`{"offer_id":%q,`, offer.ID), 1)
		s.call(s.t, keys[1], "acp/send", fmt.Sprintf(`{"to":[%q],"type":"task.accept","team":%q,"sequence":2,"payload":%s}`, lead, id, strings.Replace(terms, ",}", "}", 1)))
		s.try(tasks() != 1, "an accepted offer made a task")
	}
	var proposed struct {
		ID string `json:"handoff_id"`
	}
	handoff := fmt.Sprintf(`{"action":"initiate","to":%q,"task_id":%q,"team":%q,"title":"t","summary":"s","next_step":"n","reason":"r","success_criteria":["c"]}`, other, mine, id)
	s.call(s.t, keys[1], "acp/handoff", handoff).wantOK(s.t, &proposed)
	s.call(s.t, keys[0], "acp/handoff", fmt.Sprintf(`{"action":"approve","handoff_id":%q}`, proposed.ID)).wantOK(s.t, nil)
	s.call(s.t, keys[2], "acp/handoff", fmt.Sprintf(`{"action":"accept","handoff_id":%q}`, proposed.ID))
	s.try(owner() != worker, "a handoff gave the task to %s", owner())
}

// sensitiveMerges merges versions of an artifact of high sensitivity without an integrator.
func (s *scene) sensitiveMerges() {
	const id = "sensitive"
	keys := s.members(id, nil, hub.RoleCoordinator, hub.RoleExecutor, hub.RoleReviewer)
	put := func(key string, parent int64, text string, sensitivity hub.Sensitivity) error {
		_, err := rpc.Call(s.t.Context(), s.as(key), api.Team, api.TeamParams{Action: "artifact", Team: id, Artifact: "text", ParentVersion: &parent, Content: &text, Sensitivity: sensitivity})
		return err
	}
	for parent, text := range []string{"a", "b"} {
		if err := put(keys[1], int64(parent), text, hub.SensitivityHigh); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := put(keys[1], 1, "c", ""); err != nil { // beside the newest
		s.t.Fatal(err)
	}
	s.try(put(keys[0], 2, "d", hub.SensitivityLow) == nil, "the sensitivity was lowered before the merge")
	text := "mine"
	for _, key := range keys {
		_, err := rpc.Call(s.t.Context(), s.as(key), api.Team, api.TeamParams{Action: "merge", Team: id, Artifact: "text", Content: &text})
		s.try(err == nil, "a member that is no integrator merged")
		_, err = rpc.Call(s.t.Context(), s.as(key), api.Team, api.TeamParams{Action: "merge", Team: id, Artifact: "text", SignOff: true})
		s.try(err == nil, "a merge that was not made was signed")
	}
}
