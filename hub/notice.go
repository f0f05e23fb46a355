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

// A Quoted holds the words of another agent that a notice of the hub passes on.
type Quoted struct {
	By      string  `json:"by"` // the repository of the agent
	Project string  `json:"project_id"`
	Packet  string  `json:"packet_id"`
	Said    []Quote `json:"said"`
	Answer  bool    `json:"answer"` // they ask for an answer
}

// QuotedWords returns the words of another agent that e passes on; ok is false if e is no such
// notice.
func (e Envelope) QuotedWords() (q Quoted, ok bool) {
	if e.From != Self || e.CopyOf() != nil || json.Unmarshal(e.Payload, &q) != nil {
		return Quoted{}, false
	}
	return q, len(q.Said) > 0
}
