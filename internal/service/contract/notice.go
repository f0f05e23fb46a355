package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A notice is the payload of the message about an event in a project.
type notice struct {
	Summary  string             `json:"summary"`
	Event    string             `json:"event"`
	Project  hub.ProjectID      `json:"project_id"`
	Contract hub.ContractID     `json:"contract_id,omitempty"`
	Packet   hub.PacketID       `json:"packet_id,omitempty"`
	Name     string             `json:"name,omitempty"`
	Version  int                `json:"version,omitempty"`
	Status   hub.ContractStatus `json:"status,omitempty"`
	By       string             `json:"by,omitempty"` // name of the repository
	Urgent   bool               `json:"urgent,omitempty"`
}

// Notices stop when they are not read or come too fast: the project has their content
// anyway.
const (
	maxUnread        = 100
	noticesPerMinute = 30
	maxSummary       = 280 // characters; see the schema of status.update
)

// tell writes a message to the agents of this hub whose repositories are in the
// project, except that of the one that made the event.
func (se *session) tell(p hub.Project, by hub.RepoID, n notice) error {
	if se.s.o.Sender == nil || se.s.o.Local == nil {
		return nil
	}
	var to []hub.AgentID
	for _, r := range p.Repos {
		id, ok := se.s.o.Local(r.Agent)
		if !ok || r.ID == by || id == se.caller.ID || slices.Contains(to, id) {
			continue
		}
		if unread, err := se.tx.CountMessages(hub.CountFilter{Inbox: id, Limit: maxUnread}); err != nil {
			return err
		} else if unread < maxUnread {
			to = append(to, id)
		}
	}
	if len(to) == 0 {
		return nil
	}
	recent, err := se.tx.Sent(hub.SentFilter{From: hub.Self, Since: se.now.Add(-time.Minute), Limit: noticesPerMinute})
	if err != nil || len(recent) >= noticesPerMinute {
		return err
	}
	n.Summary = n.sentence()
	payload, err := json.Marshal(n)
	if err != nil {
		return err
	}
	priority := hub.PriorityNormal
	if n.Urgent {
		priority = hub.PriorityHigh
	}
	thread := "project/" + string(p.ID)
	if n.Contract != "" {
		thread = "contract/" + string(n.Contract)
	}
	msg, err := se.s.o.Sender.Post(se.tx, hub.Caller{ID: hub.Self}, hub.Envelope{
		To: to, Type: hub.TypeStatusUpdate, ThreadID: thread, Topic: "coordination", Priority: priority, Payload: payload, Policy: hub.DefaultPolicy,
	}, false)
	if err == nil {
		se.messages = append(se.messages, msg)
	}
	return err
}

// sentence describes the event.
func (n notice) sentence() string {
	by := n.By
	if by == "" {
		by = "a peer"
	}
	var s string
	switch {
	case n.Packet != "":
		s = fmt.Sprintf("%s shared a %s", by, n.Name)
	case n.Contract != "":
		s = fmt.Sprintf("%s: contract %q version %d is %s (%s)", by, n.Name, n.Version, n.Status, strings.ReplaceAll(n.Event, "_", " "))
	default:
		s = fmt.Sprintf("%s: %s", by, n.Event)
	}
	if r := []rune(s); len(r) > maxSummary {
		s = string(r[:maxSummary-1]) + "…"
	}
	return s
}
