package wake

import (
	"strings"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// An unreadMail is the unread mail of an agent as one session sees it.
type unreadMail struct {
	all   []hub.Envelope
	fresh []hub.Envelope // not announced in the session
	upTo  int64          // the entry of the journal with which the newest arrived
}

// readMail returns the unread mail of an agent for a session in which messages up to
// an entry of the journal were announced. A message arrives with the entry that sent
// or approved it; ids would not do, because messages may be committed in another
// order than their ids were made. It costs one read of the inbox and one index read
// for each unread message.
func readMail(r hub.Reader, agent hub.AgentID, shown int64, now hub.Time) (unreadMail, error) {
	out := unreadMail{upTo: shown}
	page, err := r.Inbox(agent, hub.InboxFilter{NewOnly: true, Limit: maxUnread, Now: now})
	if err != nil {
		return out, err
	}
	for _, m := range page.Messages {
		seq, err := arrival(r, m.ID)
		if err != nil {
			return out, err
		}
		out.all = append(out.all, m.Envelope)
		if seq > shown {
			out.fresh = append(out.fresh, m.Envelope)
		}
		out.upTo = max(out.upTo, seq)
	}
	return out, nil
}

// arrival returns the number of the journal entry with which a message came into its
// inboxes; 0 if the entry was archived.
func arrival(r hub.Reader, id hub.EnvelopeID) (int64, error) {
	entries, err := r.Journal(hub.JournalQuery{Subject: string(id), Limit: 8})
	seq := int64(0)
	for _, e := range entries {
		if e.Action == actions.MessageSent || e.Action == actions.MessageApproved {
			seq = e.Seq
		}
	}
	return seq, err
}

// maxOrder is the most bytes of a text of the operator in a notice.
const maxOrder = 280

// writeNotice returns the notice of a batch for a session. It has the text of the only
// message if that is a short line of the operator, not sensitive, and the agent's user
// allowed it.
func (a *agentRecord) writeNotice(b channel.Batch) (string, error) {
	if len(b.Messages) != 1 || b.Repeat || b.Probe {
		return b.Notice(inboxTool), nil
	}
	e := b.Messages[0]
	text, plain := e.PlainText()
	refers := e.Context != nil && len(e.Context.Artifacts)+len(e.Context.ExternalRefs) > 0
	isShort := plain && !refers && len(text) <= maxOrder && !strings.Contains(text, "\n")
	if e.From != hub.Operator || e.Policy.Sensitivity == hub.SensitivityHigh || !isShort {
		return b.Notice(inboxTool), nil
	}
	if !a.account.WithText {
		return b.Notice(inboxTool), nil
	}
	id, err := a.rd.ShortID(string(e.ID))
	b.OrderID = id
	b.Order = plaintext.Line(text)
	return b.Notice(inboxTool), err
}

// inboxTool is the name of the inbox tool in a notice. CLIs put a prefix before it in the
// list of their tools; the name alone is six tokens shorter and names one tool.
const inboxTool = "acp_inbox"
