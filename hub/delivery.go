package hub

import "slices"

// A Channel is a way to bring a message to a recipient.
type Channel string

// The channels. The inbox is always on; the others only after a recorded
// probe has verified them and the operator has switched them on.
const (
	ChannelInbox   Channel = "inbox"
	ChannelSession Channel = "session" // starts a turn in a live session
	ChannelNotify  Channel = "channel" // a notice to people, say in a chat room
	ChannelWake    Channel = "wake"    // makes an idle agent take a turn
)

// Channels lists every channel.
var Channels = []Channel{ChannelInbox, ChannelSession, ChannelNotify, ChannelWake}

// A DeliveryStatus is the known outcome of one attempt.
type DeliveryStatus string

// The words of the delivery ledger.
const (
	DeliveryPending  DeliveryStatus = "pending"  // to be tried
	DeliveryStored   DeliveryStatus = "stored"   // lies in the inbox
	DeliveryOffered  DeliveryStatus = "offered"  // shown to the recipient, which has not said it processed it
	DeliveryAccepted DeliveryStatus = "accepted" // taken by the recipient's runtime
	DeliveryRead     DeliveryStatus = "read"     // processed by the recipient
	DeliveryFailed   DeliveryStatus = "failed"
	DeliverySkipped  DeliveryStatus = "skipped" // not tried; the error says why
	DeliveryHeld     DeliveryStatus = "held"    // waits for the operator's approval
)

// DeliveryStatuses lists every word of the ledger.
var DeliveryStatuses = []DeliveryStatus{
	DeliveryPending, DeliveryStored, DeliveryOffered, DeliveryAccepted,
	DeliveryRead, DeliveryFailed, DeliverySkipped, DeliveryHeld,
}

// A Delivery is one attempt to bring one message to one recipient over one
// channel.
type Delivery struct {
	ID          int64          `json:"-"`
	MessageID   EnvelopeID     `json:"message_id"`
	Recipient   AgentID        `json:"recipient"`
	Channel     Channel        `json:"channel"`
	Status      DeliveryStatus `json:"status"`
	DeliveredAt Time           `json:"delivered_at,omitzero"`
	ReadAt      Time           `json:"read_at,omitzero"`
	Error       string         `json:"error,omitempty"`
}

// A PartyState says how far one message has come for one of those it concerns.
type PartyState string

// The states of a party. The sender's is always PartySender.
const (
	PartySender    PartyState = "sender"
	PartyHeld      PartyState = "held"      // a human gate is closed
	PartyUnread    PartyState = "unread"    // in the inbox, not fetched
	PartyDelivered PartyState = "delivered" // fetched, still in the inbox
	PartyRead      PartyState = "read"      // processed; out of the inbox
	PartyExpired   PartyState = "expired"
	PartyFailed    PartyState = "failed" // denied by a human
)

// partyNext is the whole state machine of a recipient.
var partyNext = map[PartyState][]PartyState{
	PartyHeld:      {PartyUnread, PartyFailed, PartyExpired},
	PartyUnread:    {PartyDelivered, PartyExpired, PartyFailed},
	PartyDelivered: {PartyRead, PartyExpired},
}

// CanBecome reports whether a recipient in state s may move to next.
func (s PartyState) CanBecome(next PartyState) bool { return slices.Contains(partyNext[s], next) }

// A Party is the sender or a recipient of a message.
type Party struct {
	Agent AgentID
	State PartyState

	// Hidden says that a human gate is, or stayed, closed between the message
	// and this recipient, which must not learn of it. The store sets it.
	Hidden bool
}

// statusOf is the message status that a recipient's state stands for.
var statusOf = map[PartyState]MessageStatus{
	PartyHeld: StatusPending, PartyUnread: StatusPending, PartyDelivered: StatusDelivered,
	PartyRead: StatusRead, PartyExpired: StatusExpired, PartyFailed: StatusFailed,
}

// StatusFor returns the status of a message as a whole: delivered when every
// recipient has fetched it, read when all have processed it, failed when it
// failed for all, expired when time ran out for any and none is left waiting.
func StatusFor(parties []Party) MessageStatus {
	count, total := map[MessageStatus]int{}, 0
	for _, p := range parties {
		if p.State != PartySender {
			count[statusOf[p.State]]++
			total++
		}
	}
	switch {
	case total == 0 || count[StatusPending] > 0:
		return StatusPending
	case count[StatusFailed] == total:
		return StatusFailed
	case count[StatusExpired] > 0:
		return StatusExpired
	case count[StatusRead] == total:
		return StatusRead
	}
	return StatusDelivered
}

// A CapabilityState is the state of an optional feature or channel.
type CapabilityState string

// The states. Only a verified capability can be switched on.
const (
	Unverified CapabilityState = "unverified"
	Verified   CapabilityState = "verified"
	Failed     CapabilityState = "failed"
)

// A Capability is an optional way of working, as it stands now.
type Capability struct {
	State   CapabilityState `json:"state"`
	Enabled bool            `json:"enabled"`
	Detail  string          `json:"detail,omitempty"`
}

// Capabilities names each capability; every answer carries them, so that a
// caller can do without the missing part.
type Capabilities map[string]Capability

// A Reach is a forecast: whether a recipient will see a message, and when.
type Reach string

// The forecasts.
const (
	ReachNow         Reach = "now"         // a live session, or a long poll on the inbox
	ReachOnPoll      Reach = "on_poll"     // when the recipient next looks
	ReachHeld        Reach = "held"        // when a human approves
	ReachUnreachable Reach = "unreachable" // not before something is changed
)
