package hub

import "encoding/json"

// NoticeMember is the member of the payload of a notice that names its subject.
const NoticeMember = "about"

// A NoticeSubject is the thing that waits for a person and that a notice of the hub is
// about. The payload of the notice has it under NoticeMember; a notice without it, such as
// one of an earlier version, names no subject.
type NoticeSubject struct {
	Kind string `json:"kind"` // such as NoticeQuestion
	ID   string `json:"id"`   // of the thing, as commands name it
}

// The kinds of subjects.
const (
	NoticeQuestion = "question" // of an agent that the hub runs
	NoticeOverdue  = "overdue"  // a message that was not acknowledged in time
	NoticeBlocked  = "blocked"  // an agent that has waited for a file for long

	NoticeLanding = "landing" // an entry of a landing queue that waits for a person
	NoticeReview  = "review"  // a review that waits

	NoticeViolation = "violation" // a file that another agent changed than the one that holds it
)

// NoticeSubject returns the subject of a notice. It reports false for a notice without one,
// for messages of agents and for copies of them.
func (e Envelope) NoticeSubject() (NoticeSubject, bool) {
	var p struct {
		About NoticeSubject `json:"about"`
	}
	if e.From != Self || e.CopyOf() != nil || json.Unmarshal(e.Payload, &p) != nil {
		return NoticeSubject{}, false
	}
	return p.About, p.About.Kind != "" && p.About.ID != ""
}

// A Quote is a part of the text of another agent in a notice of the hub, under a name.
type Quote struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// A Reply is the kind of call that answers the words of another agent.
type Reply string

const (
	ReplyPacket Reply = "packet" // a packet that names the quoted one; the kind of notices without a kind
	ReplyUpdate Reply = "update" // the next version of the contract
)

// A Quoted holds the words of another agent that a notice of the hub passes on.
type Quoted struct {
	Summary  string  `json:"summary"` // the sentence of the hub about them
	By       string  `json:"by"`      // the repository of the agent
	Project  string  `json:"project_id"`
	Contract string  `json:"contract_id,omitempty"`
	Packet   string  `json:"packet_id"`
	Said     []Quote `json:"said"`
	Answer   bool    `json:"answer,omitempty"` // they ask for an answer
	Reply    Reply   `json:"reply,omitempty"`
}

// Quotes returns the words of other agents that e passes on, those of one packet or of several
// that were held, oldest first.
func (e Envelope) Quotes() []Quoted {
	var p struct {
		Quoted
		Held []Quoted `json:"asked"`
	}
	switch {
	case e.From != Self || e.CopyOf() != nil || json.Unmarshal(e.Payload, &p) != nil:
		return nil
	case len(p.Said) > 0:
		return []Quoted{p.Quoted}
	}
	return p.Held
}
