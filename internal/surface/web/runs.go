package web

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shell"
	"github.com/parley-agents/parley/internal/strictjson"
	"github.com/parley-agents/parley/internal/surface/api"
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
}

type finding struct {
	Kind  string `json:"kind"`
	Claim string `json:"claim"`
	Found string `json:"found"`
}

type runData struct {
	api.RunTrace
	Claims   []claim
	Evidence *evidenceView
	Again    string // the command that runs the task again
}

func oneRun(ctx context.Context, v *visit) (string, any, error) {
	got, err := perform(ctx, v, api.ShowRun, api.RunIDParams{ID: hub.RunID(v.r.PathValue("id"))})
	if err != nil {
		return "", nil, err
	}
	d := runData{RunTrace: got}
	left := slices.Clone(got.Contradictions)
	for name, value := range strictjson.Members(got.Report) {
		text := pretty(value.Raw())
		var s string
		if json.Unmarshal(value.Raw(), &s) == nil {
			text = visible(s)
		}
		if text == "" || text == "null" || text == "[]" || text == "{}" {
			continue
		}
		c := claim{Field: strings.ReplaceAll(name, "_", " "), Text: text}
		left = slices.DeleteFunc(left, func(x hub.Contradiction) bool {
			hit := x.Claim != "" && strings.Contains(text, x.Claim) || strings.EqualFold(x.Kind, name)
			if hit {
				c.Against = append(c.Against, x)
			}
			return hit
		})
		d.Claims = append(d.Claims, c)
	}
	if len(got.Run.Evidence) > 0 && string(got.Run.Evidence) != "null" {
		d.Evidence = new(evidenceView)
		if err := json.Unmarshal(got.Run.Evidence, d.Evidence); err != nil {
			return "", nil, err
		}
	}
	d.Again = "parley run --agent " + shell.Word(string(got.Agent)) + " --dir " + shell.Word(got.Dir) + " " + shell.Word(got.Task)
	return "Run of " + string(got.Agent), d, nil
}
