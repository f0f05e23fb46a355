// Package channel is the interface of a delivery channel: a way to tell an agent,
// or a person, that messages wait in an inbox.
//
// A program that embeds a hub gives its channels to server.Options.Channels. The
// hub's wake machine decides which messages go over which channel and when: it waits for
// bursts to end, keeps one attempt under way for each recipient, counts attempts
// against the budgets of the recipient and of its senders, and looks again just
// before it calls Deliver whether the messages still wait. A channel brings one
// Batch to one recipient and reports the result as far as it is known.
//
// A batch never has the text of a message. It has counts, ids and the members of the
// envelopes that say what kind of message waits; the recipient reads the text with
// its own key from its inbox. So nothing that another agent wrote gets the rank of
// the words of a user.
package channel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// A Channel brings notices to recipients. Its methods are called from several
// goroutines.
type Channel interface {
	// Name returns the kind of the channel, under which its attempts stand in the
	// delivery ledger: hub.ChannelSession for one that starts a turn in a live
	// session, hub.ChannelWake for one that starts a process or a turn that no
	// person watches, hub.ChannelNotify for one that tells people.
	Name() hub.Channel

	// Check reports why the channel cannot work, nil if it can. It shows nothing to
	// a recipient and starts no turn. The hub calls it when it starts, and again
	// every few minutes after a failure; a hub starts with any report of its channels.
	Check(ctx context.Context) error

	// Reach forecasts whether a batch for the recipient would arrive now. It must
	// return quickly: senders wait for it.
	Reach(ctx context.Context, to hub.AgentID) Reach

	// Deliver makes one attempt and returns its result within 30
	// seconds. After a crash of the hub it may be called again with a batch of the
	// same ID, which must not be shown a second time.
	Deliver(ctx context.Context, b Batch) (Outcome, error)
}

// A Reach is a forecast for one recipient over one channel.
type Reach struct {
	When      hub.Reach // ReachNow, ReachOnPoll or ReachUnreachable
	Reason    string    // for the sender: "idle, reachable by monitor"
	Mechanism string    // the name of the way, such as monitor or queue; may be empty

	// Later says that the recipient cannot be told now and can be told soon: a turn
	// of its own runs. Attempts wait for it; they are not given up.
	Later bool
}

// A Batch is the content of one attempt: the messages that wait for one recipient.
type Batch struct {
	ID        string // w_ and twelve digits; the recipient's runtime shows it as proof
	Recipient hub.AgentID

	// Messages are the unread messages of the recipient, at most 200, without their
	// payloads, and without the topic where the sensitivity is high.
	Messages []hub.Envelope

	// Order is the whole text of the only message, if it is a short one of the operator
	// and the recipient's user allowed that notices carry it; OrderID is its short id.
	// Text of other agents never travels in a notice.
	Order   string
	OrderID hub.ShortID

	Interrupt bool // the recipient's policy lets these messages interrupt a turn
	Repeat    bool // the messages were announced before and not fetched
	Probe     bool // a test by the operator: no message waits
}

// NewID returns the id of a batch from the things that make it the same batch: shown
// once under this id, it is never shown again. It has twelve digits of a hash: a model
// reads each id, three digits are one token, and one id in a prompt is compared with the
// one wake that is under way.
func NewID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return fmt.Sprintf("w_%012d", binary.BigEndian.Uint64(sum[:8])%1_000_000_000_000)
}

// Notice returns the text that is shown to the recipient. No part of it comes from a
// sender, except for a text of the operator (Order). tool is the name under which the recipient's runtime has the inbox tool.
func (b Batch) Notice(tool string) string {
	if b.Probe {
		return fmt.Sprintf("[parley wake %s] A test by your operator, no mail. Answer with one word, do nothing else.", b.ID)
	}
	if b.Order != "" {
		return fmt.Sprintf("[parley wake %s] From your operator to %s, %s: %s\n→ acp_respond %[3]s, or %[5]s ack [%[3]s]", b.ID, b.Recipient, b.OrderID, b.Order, tool)
	}
	all := func(is func(hub.Envelope) bool) bool {
		return !slices.ContainsFunc(b.Messages, func(e hub.Envelope) bool { return !is(e) })
	}
	noun, state := "message", "new"
	if all(func(e hub.Envelope) bool { return e.Type == hub.TypeHandoffInitiate }) {
		noun = "handoff"
	}
	if b.Repeat {
		state = "unread"
	}
	news := count(len(b.Messages), state+" "+noun)
	if all(func(e hub.Envelope) bool { return e.Priority != hub.PriorityCritical }) {
		return fmt.Sprintf("[parley wake %s] %s for %s. Call %s.", b.ID, news, b.Recipient, tool)
	}
	return fmt.Sprintf("[parley wake %s] Critical mail for %s: %s. Call %s.", b.ID, b.Recipient, news, tool)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// A State says how far an attempt has come.
type State string

// The states. The wake machine maps each to a word of the delivery ledger.
const (
	Waiting     State = "waiting"      // kept by the channel until the recipient can take it
	Handed      State = "handed"       // written to a pipe, socket or queue: no proof that it was noticed
	Offered     State = "offered"      // shown where the recipient may not notice it
	Accepted    State = "accepted"     // taken by the recipient's runtime
	TurnStarted State = "turn_started" // the runtime showed the id of the batch in a turn
	TurnEnded   State = "turn_ended"   // and that turn is over
	Read        State = "read"         // the recipient has processed the messages
	Held        State = "held"         // a person must approve it at the recipient's runtime
	Refused     State = "refused"      // the recipient does not take it; nothing was shown
	Failed      State = "failed"       // shown or written, and no proof came
)

// An Outcome is the result of an attempt as far as it is known.
type Outcome struct {
	State     State
	Mechanism string
	Detail    string // for the operator and the sender: an advice, or the reason

	// Proof is the time that a recipient has to prove an attempt that is Waiting or
	// Handed; after it the attempt is Refused or Failed. Zero means 30 seconds.
	Proof time.Duration
}
