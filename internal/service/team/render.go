package team

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// Render returns an answer as short text.
func Render(a Answer) string {
	var b strings.Builder
	switch {
	case a.Status == "held":
		fmt.Fprintf(&b, "held: the operator must approve it (%s)\n", a.ID)
	case a.Task != nil:
		b.WriteString(renderTask(*a.Task))
	case a.Decision != nil:
		fmt.Fprintf(&b, "%s: %s\n", a.Decision.Status, plain(a.Decision.Decision))
	case a.Team != nil:
		b.WriteString(renderTeam(*a.Team))
		for _, m := range a.Team.Members {
			fmt.Fprintf(&b, "- %s, %s\n", m.Agent, m.Role)
		}
		for _, p := range a.Team.Proposals {
			fmt.Fprintf(&b, "proposed: %s as %s, waits for %s\n", p.Agent, p.Role, joined(p.Needs))
		}
		for _, t := range a.Team.Tasks {
			b.WriteString(renderTask(t))
		}
	case len(a.Teams) == 0:
		b.WriteString("No teams.\n")
	default:
		for _, t := range a.Teams {
			b.WriteString(renderTeam(t))
		}
	}
	if a.Next != "" {
		fmt.Fprintf(&b, "More: cursor %s\n", a.Next)
	}
	return b.String()
}

func renderTeam(v View) string {
	s := fmt.Sprintf("%s is %s, %d members", v.ID, v.Lifecycle, len(v.Members))
	for _, state := range hub.TaskStates {
		if n := v.TaskCounts[state]; n > 0 {
			s += fmt.Sprintf(", %d %s", n, state)
		}
	}
	if v.You != "" {
		s += fmt.Sprintf("; you are %s", v.You)
	}
	return s + "\n> goal: " + plain(v.Objective) + "\n"
}

func renderTask(t hub.Task) string {
	s := fmt.Sprintf("%s %s", t.ID, t.State)
	if t.Owner != "" {
		s += ", " + string(t.Owner)
	}
	if t.Class != hub.ClassNormal {
		s += ", " + string(t.Class)
	}
	if len(t.DependsOn) > 0 {
		s += ", after " + joined(t.DependsOn)
	}
	if t.Reason != "" {
		s += ", because: " + plain(t.Reason)
	}
	return s + ": " + plain(t.Title) + "\n"
}

// plain returns text in one line, without characters that move a cursor or hide text.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}
