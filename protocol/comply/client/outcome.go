package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/protocol/comply/jsont"
	"github.com/parley-agents/parley/protocol/comply/render"
	"github.com/parley-agents/parley/protocol/comply/rules"
)

// An outcome is what one start of a client showed.
type outcome struct {
	err           error
	conversations int
	plays         []verdict       // of the turns that were played
	rest          verdict         // from the end of the processes
	frames        []rules.Finding // of the ledger
	wall          time.Duration
	prompted      time.Duration // from the start to the first prompt; 0 if none came
	forced        bool          // the client had to be ended by a signal
	pinged        bool          // the client answered an unknown request
	exit          string        // how the client ended
	stderr        string        // the end of its standard error

	offer      int // the version that the client offered
	caps, info json.RawMessage
}

// about returns what is known about a client that did not do what was needed.
func (o *outcome) about() string {
	text := o.exit
	if text == "" {
		text = "it was still running"
	}
	if o.stderr != "" {
		text += "; the end of its standard error: " + clipped(strings.TrimSpace(o.stderr))
	}
	return text
}

// unoffered notes that the client does not offer the version of the run, so that nothing was
// shown about it.
func (o *outcome) unoffered(c *conversation) {
	o.plays = nil
	o.frames = nil
	o.rest = verdict{reason: fmt.Sprintf("the client offers version %d of the protocol, not %d", c.most, c.wanted)}
}

// findings returns the findings of the scenario.
func (o *outcome) findings() []rules.Finding {
	out := []rules.Finding{}
	for _, v := range o.plays {
		out = append(out, v.findings...)
	}
	return append(out, o.rest.findings...)
}

// timed reports whether a finding rests on time alone.
func (o *outcome) timed() bool {
	return o != nil && slices.ContainsFunc(o.findings(), func(f rules.Finding) bool { return f.Timed })
}

// ledger returns the findings of all frames, with the id of the test.
func (o *outcome) ledger(test string) []rules.Finding {
	out := slices.Clone(o.frames)
	for i := range out {
		out[i].Test = test
	}
	return out
}

// result returns the outcome as the result of a test.
func (o *outcome) result(s *Scenario, interrupted bool) render.Result {
	r := render.Result{ID: s.ID, Title: s.Title, Area: s.Area, Severity: jsont.Required, Findings: []rules.Finding{}, Docs: docsOf(s), DurationMs: o.wall.Milliseconds()}
	if o.err != nil {
		r.Status = render.Errored
		r.Reason = o.err.Error()
		if interrupted {
			r.Reason = "the run was interrupted"
		}
		return r
	}
	r.Findings = o.findings()
	for i := range r.Findings {
		r.Findings[i].Test = s.ID
	}
	met := o.rest.met || slices.ContainsFunc(o.plays, func(v verdict) bool { return v.met })
	r.Judge(met)
	if len(r.Findings) == 0 && (!met || o.why() != "") {
		r.Status = render.NA
		r.Reason = o.notPlayed(s)
	}
	return r
}

// why returns the reason that the scenario gave.
func (o *outcome) why() string {
	for _, v := range append(slices.Clone(o.plays), o.rest) {
		if v.reason != "" {
			return v.reason
		}
	}
	return ""
}

// notPlayed returns why a scenario could not be judged.
func (o *outcome) notPlayed(s *Scenario) string {
	switch {
	case o.why() != "":
		return o.why()
	case o.conversations == 0:
		return "the client did not start the agent: " + o.about()
	case s.Need != "":
		return fmt.Sprintf("the client did not do what the test needs; a command for it can be given with --when %s=COMMAND", s.Need)
	case len(o.plays) == 0:
		return "the client did not send a prompt: " + o.about()
	}
	return "the client did not do what the test needs"
}

// docsOf returns the links of the rules of a scenario.
func docsOf(s *Scenario) []string {
	out := []string{}
	for _, id := range s.Rules {
		if link := rules.Find(id).Docs; link != "" && !slices.Contains(out, link) {
			out = append(out, link)
		}
	}
	return out
}
