package web

import (
	"context"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/service/handoff"
	"github.com/parley-agents/parley/internal/service/usage"
)

const logLines = 200 // of a kept agent on its page

// A presence is an agent as pages show it.
type presence struct {
	api.AgentNow
	Link string // to what it does
	Last *message
	Full bool // as many unread messages as are counted
}

// presences returns the agents of the hub, and the handoffs that are worked on.
func (v *visit) presences(ctx context.Context) ([]presence, []handoff.Report, error) {
	now, err := v.now(ctx)
	var out []presence
	for _, a := range now.Agents {
		p := presence{AgentNow: a, Full: a.Unread >= 25}
		switch {
		case a.Run != "":
			p.Link = "/runs/" + string(a.Run)
		case a.Task != "":
			p.Link = "/handoffs/" + string(a.Task)
		}
		out = append(out, p)
	}
	return out, now.Tasks, err
}

// agentData is the page of one agent.
type agentData struct {
	presence
	Here     string
	Tasks    []handoff.Report
	Messages []message // the newest that it sent or received
	Lines    []logLine // of a kept agent, for an operator
	Spent    string
}

// A logLine is a line of the log of a kept agent. Text that came in parts is one line.
type logLine struct {
	At   hub.Time
	Kind string
	Text string
}

func oneAgent(ctx context.Context, v *visit) (string, any, error) {
	id := hub.AgentID(v.r.PathValue("id"))
	all, tasks, err := v.presences(ctx)
	if err != nil {
		return "", nil, err
	}

	i := slices.IndexFunc(all, func(p presence) bool { return p.ID == id })
	if i < 0 {
		return "", nil, hub.Errorf(hub.CodeNotFound, "web", "no agent named %.80q on this hub", id)
	}

	d := agentData{presence: all[i], Here: v.r.URL.RequestURI()}
	for _, t := range tasks {
		if t.To == id {
			d.Tasks = append(d.Tasks, t)
		}
	}

	if d.Spent, err = v.spendOf(ctx, usage.Query{Agent: id}); err != nil {
		return "", nil, err
	}
	talk, err := perform(ctx, v, api.Query, api.QueryParams{Agent: id, Limit: 20})
	if err != nil {
		return "", nil, err
	}
	for _, e := range talk.Messages {
		d.Messages = append(d.Messages, v.message(e, talk.ShortIDs))
	}

	// The log of a kept agent is for operators. Parts of one text are joined into one line.
	if d.Kept != nil && v.operator() {
		log, err := perform(ctx, v, api.LogAgent, api.KeptLogParams{Agent: id})
		if err != nil {
			return "", nil, err
		}
		for _, l := range log.Lines {
			n := len(d.Lines)
			continuesLine := n > 0 && d.Lines[n-1].Kind == l.Kind && (l.Kind == "text" || l.Kind == "thought")
			if continuesLine {
				d.Lines[n-1].Text += l.Text
				continue
			}
			d.Lines = append(d.Lines, logLine{hub.At(l.At), l.Kind, l.Text})
		}
		d.Lines = d.Lines[max(0, len(d.Lines)-logLines):]
	}
	return string(id), d, nil
}
