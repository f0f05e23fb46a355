package web

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/handoff"
	runner "github.com/parley-agents/parley/internal/work/run"
	"github.com/parley-agents/parley/protocol/sandbox"
)

type runsData struct {
	Runs []hub.Run
	Next hub.RunID
}

func runs(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.ListRuns, api.RunListParams{Limit: 50, Cursor: hub.RunID(v.r.URL.Query().Get("cursor"))})
	return "Runs", runsData{got.Runs, got.Next}, err
}

// A claim is one field of a report, beside what was found.
type claim struct {
	Field, Text string
	Against     []hub.Contradiction
}

// evidenceView is the evidence of a run as the page shows it.
type evidenceView struct {
	Diff struct {
		Files      int      `json:"files"`
		Insertions int      `json:"insertions"`
		Deletions  int      `json:"deletions"`
		Created    []string `json:"created"`
		Modified   []string `json:"modified"`
		Deleted    []string `json:"deleted"`
	} `json:"diff"`
	Verify     *commandView `json:"verify"`
	Build      *commandView `json:"build"`
	Unverified []finding    `json:"unverified"`
	Notes      []finding    `json:"notes"`
}

type commandView struct {
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	TimedOut   bool   `json:"timed_out"`
	Failure    string `json:"failure"`
	OutputHead string `json:"output_head"`
	OutputTail string `json:"output_tail"`
	Against    bool   `json:"-"` // it contradicts the report
	Claimed    bool   `json:"-"` // an agent says so about its own work
}

type finding struct {
	Kind  string `json:"kind"`
	Claim string `json:"claim"`
	Found string `json:"found"`
}

type runData struct {
	api.RunTrace
	Claims    []claim
	Evidence  *evidenceView
	Recording api.RunRecording
	Steps     []stepView
	Patch     patchView
	Claimed   bool   // the evidence is the agent's own word
	Again     string // the command that runs the task again; "" unless task and checks are the operator's own
	Policies  []policyChoice
	Here      string
	Spent     string
}

// A stepView is a step of a recording, with its time since the first.
type stepView struct {
	runner.RecordedStep
	MS    int64
	Clock string
}

// A policyChoice is a permission that the agent of a new run can have.
type policyChoice struct {
	Policy   sandbox.Policy
	Selected bool
}

func oneRun(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.ShowRun, api.RunIDParams{ID: hub.RunID(v.r.PathValue("id"))})
	if err != nil {
		return "", nil, err
	}
	d := runData{RunTrace: got, Claimed: got.Verdict == hub.RunClaimed, Here: v.r.URL.RequestURI(), Spent: spendText(got.Spend)}

	// A claim of the report is shown beside the evidence that contradicts it.
	for name, value := range strictjson.Members(got.Report) {
		c := claim{Field: strings.ReplaceAll(name, "_", " "), Text: claimText(name, value.Raw())}
		for _, x := range got.Contradictions {
			if field, _, _ := strings.Cut(x.Claim, ":"); strings.EqualFold(field, name) {
				c.Against = append(c.Against, x)
			}
		}
		if c.Text != "" || len(c.Against) > 0 {
			d.Claims = append(d.Claims, c)
		}
	}

	if len(got.Run.Evidence) > 0 && string(got.Run.Evidence) != "null" {
		d.Evidence = new(evidenceView)
		if err := json.Unmarshal(got.Run.Evidence, d.Evidence); err != nil {
			return "", nil, err
		}
		d.Evidence.mark(got.Contradictions, d.Claimed)
	}

	d.Again = d.command()
	if v.operator() {
		if d.Recording, err = perform(ctx, v, api.Recording, api.RunIDParams{ID: got.ID}); err != nil {
			return "", nil, err
		}
		d.addRecording()
	}
	return "Run of " + string(got.Agent), d, nil
}

// command returns the command that runs the task again. It is "" for a run that the
// operator did not begin: its task and its commands are words of agents, which the page
// offers nobody to run.
func (d *runData) command() string {
	if d.By != hub.Operator || d.Claimed {
		return ""
	}
	line := "parley run"
	if d.Evidence != nil && d.Evidence.Verify != nil {
		line += " --verify " + shell.Word(d.Evidence.Verify.Command)
	}
	return line + " --repo " + shell.Word(d.Dir) + " " + shell.Word(string(d.Agent)) + " " + shell.Word(d.Task)
}

// claimText returns a member of a report as people read it, empty for one that says
// nothing or repeats another.
func claimText(name string, raw json.RawMessage) string {
	var text string
	var list []string
	var notes []struct {
		Message string `json:"message"`
	}
	switch {
	case name == "status_known" || name == "tests_count":
		return ""
	case name == "diagnostics" && json.Unmarshal(raw, &notes) == nil:
		for _, n := range notes {
			list = append(list, n.Message)
		}
		return strings.Join(list, "\n")
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, "\n")
	}
	if text = pretty(raw); text == "[]" || text == "{}" {
		return ""
	}
	return text
}

// mark marks the commands that contradict the report, and those of an agent that speaks
// about its own work.
func (e *evidenceView) mark(all []hub.Contradiction, claimed bool) {
	for _, c := range []*commandView{e.Verify, e.Build} {
		if c != nil {
			c.Claimed = claimed
		}
	}
	for _, x := range all {
		for name, c := range map[string]*commandView{"VERIFY": e.Verify, "BUILD": e.Build} {
			if c != nil && strings.HasPrefix(x.Found, name) {
				c.Against = true
			}
		}
	}
}

// addRecording makes views of the files of the run.
func (d *runData) addRecording() {
	for _, s := range d.Recording.Steps {
		since := s.At.Sub(d.Recording.Steps[0].At)
		d.Steps = append(d.Steps, stepView{s, since.Milliseconds(), fmt.Sprintf("%d:%04.1f", int(since.Minutes()), math.Mod(since.Seconds(), 60))})
	}
	d.Patch = newPatchView(handoff.Diff{Text: d.Recording.Patch})
	chosen := d.Recording.Policy
	if !slices.Contains(runner.Policies, chosen) {
		chosen = sandbox.PolicyWrite
	}
	for _, p := range runner.Policies {
		d.Policies = append(d.Policies, policyChoice{p, p == chosen})
	}
}
