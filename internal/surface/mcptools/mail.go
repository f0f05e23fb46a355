package mcptools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

// writeMail writes messages for a model: a frame, then each message with the call that
// is its next step. viewer is the reader of its inbox, "" for a search, where no step
// follows.
//
// Plain text stands behind its author without a type, because the type of a text that
// nobody chose says nothing. A task stands with everything that its receiver needs to
// decide: why, what, when it is done, and where.
//
// acceptable are the handoffs that waited for an approval and that the viewer can accept
// now.
func writeMail(b *strings.Builder, messages []hub.Envelope, short mailroom.ShortIDs, viewer hub.AgentID, acceptable []hub.HandoffID) {
	if len(messages) == 0 {
		b.WriteString("No messages.\n")
	}
	frame := ""
	for _, e := range messages {
		if next := mailroom.Frame(e.Author()); next != frame {
			frame = next
			b.WriteString(frame + "\n")
		}
		words, plain := e.PlainText()
		approved := slices.Contains(acceptable, mailroom.HandoffOf(e))
		switch {
		case plain && viewer != "":
			writePlain(b, e, words, short, viewer)
		case e.Type == hub.TypeHandoffInitiate && viewer != "":
			writeTask(b, e, short, approved)
		case isNotice(e) && viewer != "":
			writeNotice(b, e, short)
		default:
			mailroom.WriteMessage(b, e, short, viewer)
		}
		if viewer != "" {
			b.WriteString("→ " + nextStep(e, short, viewer, approved) + "\n")
		}
	}
}

// writePlain writes a message that is plain text: m38 from p3: ...
func writePlain(b *strings.Builder, e hub.Envelope, words string, short mailroom.ShortIDs, viewer hub.AgentID) {
	fmt.Fprintf(b, "%s from %s", short.Of(string(e.ID)), e.Author())
	if len(e.To) != 1 || e.To[0] != viewer {
		fmt.Fprintf(b, " to %s", mailroom.JoinTo(e.To))
	}
	if e.Priority != hub.PriorityNormal {
		fmt.Fprintf(b, ", %s", e.Priority)
	}
	switch {
	case e.ReplyTo != "":
		fmt.Fprintf(b, ", answers %s", short.Of(string(e.ReplyTo)))
	case e.ThreadID != "" && e.ThreadID != string(e.ID):
		fmt.Fprintf(b, ", thread %s", plaintext.Line(short.Of(e.ThreadID)))
	}
	if old := e.RetryOf(); old != "" {
		fmt.Fprintf(b, ", retry of %s", short.Of(string(old)))
	}
	if !e.ExpiresAt.IsZero() {
		fmt.Fprintf(b, ", expires %s", e.ExpiresAt)
	}
	if by := e.AckBy(); !by.IsZero() {
		fmt.Fprintf(b, ", acknowledge by %s", by)
	}

	// Text of several lines is quoted, so that none of its lines can pass as one of the hub's.
	if strings.Contains(words, "\n") {
		b.WriteString(":\n")
		for line := range strings.SplitSeq(words, "\n") {
			fmt.Fprintf(b, "> %s\n", plaintext.Line(line))
		}
	} else {
		fmt.Fprintf(b, ": %s\n", plaintext.Line(words))
	}

	mailroom.WriteContext(b, e, short)
}

// writeTask writes the offer of a task. approved says that it waited for an approval, and
// waits no longer.
func writeTask(b *strings.Builder, e hub.Envelope, short mailroom.ShortIDs, approved bool) {
	var p struct {
		ID       string   `json:"handoff_id"`
		Title    string   `json:"title"`
		Why      string   `json:"summary"`
		Do       string   `json:"next_step"`
		DoneWhen []string `json:"success_criteria"`
		Worktree string   `json:"worktree_path"`
		Branch   string   `json:"branch"`
		Unproven string   `json:"unproven"`
		Waits    string   `json:"waits_for"`
	}
	json.Unmarshal(e.Payload, &p) // the hub wrote it

	if approved {
		p.Waits = ""
	}
	fmt.Fprintf(b, "%s handoff from %s", plaintext.Line(short.Of(p.ID)), e.Author())
	if e.Priority != hub.PriorityNormal {
		fmt.Fprintf(b, ", %s", e.Priority)
	}
	fmt.Fprintf(b, ": %s\n", plaintext.Line(p.Title))

	// A part without content is left out, and the others are quoted one below the other.
	where := p.Worktree
	if p.Branch != "" {
		where = strings.TrimPrefix(where+", branch "+p.Branch, ", ")
	}
	for _, part := range [][2]string{
		{"why", p.Why}, {"do", p.Do}, {"done when", strings.Join(p.DoneWhen, "; ")}, {"where", where}, {"not checked", p.Unproven}, {"waits for", p.Waits},
	} {
		quotePart(b, part[0], part[1])
	}
}

// quotePart writes text of another agent under a name, and nothing if there is none.
func quotePart(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	lines := strings.Split(text, "\n")
	fmt.Fprintf(b, "> %s: %s\n", name, plaintext.Line(lines[0]))
	for _, line := range lines[1:] {
		fmt.Fprintf(b, ">   %s\n", plaintext.Line(line))
	}
}

// nextStep returns the call that deals with a message. approved says that the message
// names a handoff that waited for an approval, and that the reader can accept it now.
func nextStep(e hub.Envelope, short mailroom.ShortIDs, viewer hub.AgentID, approved bool) string {
	id := short.Of(string(e.ID))
	ack := fmt.Sprintf("acp_inbox ack [%s]", id)
	if e.CopyOf() != nil {
		return ack
	}

	// An offer that waits for an approval cannot be accepted yet.
	if e.Type == hub.TypeHandoffInitiate && !approved {
		var p struct {
			Waits string `json:"waits_for"`
		}
		json.Unmarshal(e.Payload, &p) // the hub wrote it
		if p.Waits != "" {
			return ack
		}
	}

	if e.Type == hub.TypeHandoffInitiate || approved {
		task := plaintext.Line(short.Of(string(mailroom.HandoffOf(e))))
		return fmt.Sprintf("acp_handoff accept %s, or reject %s with reason and detail", task, task)
	}

	// A notice of the hub asks for a call, or for nothing but its acknowledgement.
	if e.From == hub.Self {
		if step := noticeStep(e, short, viewer); step != "" {
			return step
		}
		return ack
	}

	switch e.Type {
	case hub.TypeEventReceived:
		return ack
	case hub.TypeKnowledgeQuery:
		return fmt.Sprintf("acp_respond %s", id)
	case hub.TypeTaskOffer, hub.TypeTaskCounter:
		return fmt.Sprintf("acp_respond %s, type task.accept, task.decline or task.counter", id)
	case hub.TypePositionState:
		return fmt.Sprintf("acp_respond %s, type position.challenge, payload: counter_position, reasoning, severity (minor, significant or blocking); or %s", id, ack)
	case hub.TypePositionChallenge:
		return fmt.Sprintf("acp_respond %s, type position.state, position.concede or position.escalate; an error names the members of payload", id)
	case hub.TypeKnowledgeResponse, hub.TypeTaskAccept, hub.TypeTaskDecline, hub.TypePositionConcede, hub.TypePositionEscalate:
		return ack
	}

	if e.Type.Family() == hub.TypeHandoffInitiate.Family() {
		return ack
	}
	return fmt.Sprintf("acp_respond %s, or %s", id, ack)
}

// isNotice reports whether a message is a notice of the hub, which is written as a
// sentence.
func isNotice(e hub.Envelope) bool { return e.From == hub.Self && e.CopyOf() == nil }

// writeNotice writes a notice of the hub: its sentence, and the reason and the detail
// that the sentence does not have.
func writeNotice(b *strings.Builder, e hub.Envelope, short mailroom.ShortIDs) {
	fmt.Fprintf(b, "%s from %s", short.Of(string(e.ID)), e.From)
	if e.Team != "" {
		fmt.Fprintf(b, ", team %s", plaintext.Line(e.Team))
	}
	if e.ReplyTo != "" {
		fmt.Fprintf(b, ", about %s", short.Of(string(e.ReplyTo)))
	}
	if e.Priority != hub.PriorityNormal {
		fmt.Fprintf(b, ", %s", e.Priority)
	}
	var p notice
	json.Unmarshal(e.Payload, &p) // the hub wrote it
	if p.Handoff != "" {
		fmt.Fprintf(b, ", handoff %s", plaintext.Line(short.Of(p.Handoff)))
	}
	fmt.Fprintf(b, ": %s\n", short.Headline(e))
	if mailroom.Sentence(e) == "" {
		if !p.asksToApprove() { // the next step says how
			quotePart(b, "reason", p.Reason)
		}
		quotePart(b, "detail", p.Detail)
		if !p.Due.IsZero() {
			fmt.Fprintf(b, "until %s\n", p.Due)
		}
	}
	quotes := e.Quotes()
	for _, q := range quotes {
		if len(quotes) > 1 {
			fmt.Fprintf(b, "> %s\n", plaintext.Line(q.Summary))
		}
		mailroom.WriteQuotes(b, q)
	}
	mailroom.WriteContext(b, e, short)
}

// A notice holds the members of a notice of the hub that ask its reader for something.
type notice struct {
	Code    string   `json:"code"`
	Reason  string   `json:"reason"`
	Detail  string   `json:"detail"`
	Due     hub.Time `json:"due_at,omitzero"`
	Team    string   `json:"team"`
	Status  string   `json:"status"`
	Handoff string   `json:"handoff_id"`

	Blockers []string `json:"blockers"`

	Decide hub.DeliberationKind `json:"decide"` // the kind of a deliberation

	Agent hub.AgentID `json:"agent"` // whose role is proposed

	Artifact string        `json:"artifact_id"`
	Parents  []int64       `json:"parents"`
	MergeBy  []hub.AgentID `json:"merge_by"`
	SignBy   []hub.AgentID `json:"sign_by"`
}

// asksToApprove reports whether a notice asks its reader to approve a handoff.
func (p notice) asksToApprove() bool {
	return p.Handoff != "" && slices.Contains(p.Blockers, "approval")
}

// noticeStep returns the call that a notice of the hub asks its reader for, "" if it asks
// for none.
func noticeStep(e hub.Envelope, short mailroom.ShortIDs, viewer hub.AgentID) string {
	var p notice
	if json.Unmarshal(e.Payload, &p) != nil || e.CopyOf() != nil {
		return ""
	}
	id := short.Of(string(e.ID))
	if quotes := e.Quotes(); len(quotes) > 0 {
		return answerStep(quotes, id)
	}
	switch {
	case p.Decide != "":
		return decideStep(id, p.Decide)
	case p.Code == mailroom.CodeExpired && e.ReplyTo != "":
		return fmt.Sprintf("acp_send retry %s, or acp_inbox ack [%s]", short.Of(string(e.ReplyTo)), id)
	case p.asksToApprove():
		return fmt.Sprintf("acp_handoff approve %s, or acp_inbox ack [%s]", plaintext.Line(short.Of(p.Handoff)), id)
	case slices.Contains(p.MergeBy, viewer) && len(p.Parents) == 2:
		return fmt.Sprintf("acp_team artifact, team %s, artifact %s, version %d and version %d; then acp_team merge with the merged content", p.Team, p.Artifact, p.Parents[0], p.Parents[1])
	case slices.Contains(p.SignBy, viewer):
		return fmt.Sprintf("acp_team artifact, team %s, artifact %s; then acp_team merge with sign_off true", p.Team, p.Artifact)
	case e.Type == hub.TypeTeamRoleChange && p.Status == "proposed":
		return fmt.Sprintf("acp_team role, team %s, agent %s, accept true or false", p.Team, p.Agent)
	}
	return ""
}

// answerStep returns the calls that answer the words of other agents, and the acknowledgement of
// the message with id, which is enough if none asks for an answer.
func answerStep(quotes []hub.Quoted, id string) string {
	var calls []string
	then := "or"
	for _, q := range quotes {
		project := plaintext.Line(q.Project)
		call := fmt.Sprintf(`coordinate context/share, projectId %s, replyTo %s, type implementation_status, content {"answer": ...}`, project, plaintext.Line(coord.PacketID(q.Packet).Short()))
		if q.Reply == hub.ReplyUpdate {
			call = fmt.Sprintf(`coordinate contract/update, projectId %s, contractId %s, content {...}, changeNote`, project, plaintext.Line(q.Contract))
		}
		calls = append(calls, call)
		if q.Answer {
			then = "then"
		}
	}
	return fmt.Sprintf("%s; %s acp_inbox ack [%s]", strings.Join(calls, "\n→ "), then, id)
}

// decideStep returns the call that decides the thread of a message.
func decideStep(id string, kind hub.DeliberationKind) string {
	choice := "your decision"
	if kind == hub.KindNegotiation {
		choice = "accept or decline"
	}
	return fmt.Sprintf("acp_respond %s, decision: %s, text: why", id, choice)
}
