package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
)

// verdicts has an agent write the verdict on its own work, with its own key, with the
// key of a run, and in a package. None may end as confirmed or verified.
func (s *scene) verdicts() {
	ids := hub.NewIDs(time.Now)
	begin := func(key, agent, more string) (hub.RunID, string) {
		id := hub.RunID(ids.Next())
		a := s.call(s.t, key, "parley/run/begin", fmt.Sprintf(`{"run_id":%q,"agent":%q,"task":"the work","timeout_s":60%s}`, id, agent, more))
		var made api.RunKey
		json.Unmarshal(a.Result, &made)
		return id, made.Key
	}
	const invented = `"report":{"status":"ok"},"evidence":{"diff":{"files":3,"created":["main.go"]},"verify":{"command":"make test","exit_code":0}}`
	end := func(key string, id hub.RunID, more string) answer {
		return s.call(s.t, key, "parley/run/end", fmt.Sprintf(`{"run_id":%q,"state":"done",%s%s}`, id, invented, more))
	}
	confirmed := func() []string {
		return s.rows(s.t, `SELECT id FROM runs WHERE verdict = 'confirmed' OR (state = 'done' AND verdict_by IN ('operator','hub'))`)
	}
	before := len(confirmed()) // runs of the operator in other attempts

	// The task of the handoff is mallory's, and so are the runs.
	made := s.call(s.t, s.alice, "acp/handoff", `{"action":"initiate","to":"mallory","task_id":"V-1","title":"t","objective":"o","summary":"a summary of it","next_step":"n","reason":"r","success_criteria":["c"]}`)
	var task struct {
		ID hub.HandoffID `json:"handoff_id"`
	}
	json.Unmarshal(made.Result, &task)
	s.call(s.t, s.mallory, "acp/handoff", fmt.Sprintf(`{"action":"accept","handoff_id":%q}`, task.ID))

	for _, more := range []string{
		`,"verdict":"confirmed"`, `,"verdict":"confirmed","verdict_by":"operator"`, `,"verdict":"confirmed","checked_by":"hub"`, `,"verdict":"confirmed","by":"operator"`,
		`,"verdict":"confirmed","Verdict_By":"hub"`, `,"verdict":"confirmed","verdict_note":""`, `,"verdict":"claimed","claimed_verdict":""`, `,"verdict":"CONFIRMED"`, `,"verdict":"verified"`,
	} {
		id, _ := begin(s.mallory, "mallory", fmt.Sprintf(`,"handoff_id":%q`, task.ID))
		end(s.mallory, id, more)
		shown := s.call(s.t, s.alice, "acp/handoff", fmt.Sprintf(`{"action":"show","handoff_id":%q}`, task.ID))
		run := s.call(s.t, s.operator, "parley/run/show", fmt.Sprintf(`{"run_id":%q}`, id))
		s.try(len(confirmed()) > before, "%s: the run is confirmed", more)
		s.try(bytes.Contains(shown.Result, []byte(`"verdict":"confirmed"`)), "%s: the handoff shows it as confirmed: %s", more, shown.body)
		s.try(bytes.Contains(run.Result, []byte(`"verdict":"confirmed"`)), "%s: the run is shown as confirmed: %s", more, run.body)
		end(s.mallory, id, `,"verdict":"unverified"`) // one that was refused is ended
	}
	journal := s.call(s.t, s.operator, "parley/audit", `{"limit":1000}`)
	s.try(bytes.Contains(journal.Result, []byte(`"verdict":"confirmed"`)), "the journal, which the figures follow, has a confirmed run: %s", journal.body)

	// A run that the operator began is the operator's to end.
	for range 3 {
		id, lent := begin(s.operator, "mallory", "")
		for name, key := range map[string]string{"its own key": s.mallory, "the key of the run": lent} {
			a := end(key, id, `,"verdict":"confirmed"`)
			s.try(a.Error == nil, "mallory ends the operator's run with %s", name)
		}
		a := s.call(s.t, lent, "parley/run/begin", fmt.Sprintf(`{"run_id":%q,"agent":"mallory","task":"t","timeout_s":60}`, ids.Next()))
		s.try(a.Error == nil, "the key of a run begins another run")
		end(s.operator, id, `,"verdict":"unverified"`)
	}
	for _, other := range []string{"alice", "operator", "hub"} {
		id, key := begin(s.mallory, other, "")
		s.try(key != "", "mallory begins a run of %s", other)
		s.try(end(s.mallory, id, `,"verdict":"confirmed"`).Error == nil, "mallory ends a run of %s", other)
	}

	// Sixty runs that are never ended lend no sixty keys.
	greedy, lent := s.fresh(), 0
	for range 60 {
		if _, key := begin(greedy, fmt.Sprint("mallory-", s.agents), ""); key != "" {
			lent++
		}
		s.try(lent > 8, "%d runs are open", lent)
	}

	// Evidence of a run that never was, or that only its agent confirmed.
	if err := os.WriteFile(filepath.Join(s.root, "main.go"), []byte("package main\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	own, _ := begin(s.mallory, "mallory", "")
	end(s.mallory, own, `,"verdict":"confirmed"`)
	for i, id := range []string{"", string(ids.Next()), string(own), "operator", strings.ToUpper(string(own))} {
		raw, _ := json.Marshal(map[string]any{
			"action": "initiate", "to": "bob", "task_id": fmt.Sprint("V-2-", i), "title": "t", "objective": "o", "summary": "a summary of it", "next_step": "n", "reason": "r", "success_criteria": []string{"c"},
			"package": map[string]any{"evidence": []any{map[string]any{"run_id": id, "worktree_path": s.root, "diff": map[string]any{"created": []string{"main.go"}}}}},
		})
		a := s.call(s.t, s.mallory, "acp/handoff", string(raw))
		var proposed struct {
			ID string `json:"handoff_id"`
		}
		json.Unmarshal(a.Result, &proposed)
		b := s.call(s.t, s.bob, "acp/handoff", `{"action":"accept","handoff_id":"`+proposed.ID+`"}`)
		var got struct{ Claims []hub.Check }
		json.Unmarshal(b.Result, &got)
		looked := false
		for _, c := range got.Claims {
			if strings.HasPrefix(c.What, "evidence") {
				looked = true
				s.try(c.Result == hub.CheckVerified, "evidence of run %q: %s is verified: %s", id, c.What, c.Detail)
			}
		}
		if !looked {
			s.t.Errorf("evidence of run %q was not looked up: %s %s", id, a.body, b.body)
		}
	}
}
