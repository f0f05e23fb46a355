package hub

// An OpenGate is a question that the operator decided not to ask, by name.
type OpenGate struct {
	Gate string  `json:"gate"` // checks, review or contracts
	By   AgentID `json:"by,omitempty"`
	At   Time    `json:"at,omitzero"`
}

// The gates of a landing policy that can be opened.
const (
	GateChecks    = "checks"
	GateReview    = "review"
	GateContracts = "contracts"
)

// The answers of a gate.
const (
	AnswerYes  = "yes"
	AnswerNo   = "no"
	AnswerWait = "wait"
)

// A GateAnswer is the answer of a gate, with everything that it rests on. A yes names its evidence; a
// no or a wait names each missing part, the one who can supply it and the line to type.
type GateAnswer struct {
	Answer   string         `json:"answer,omitempty"`
	Asked    []GateEvidence `json:"asked,omitempty"`
	Missing  []GateMissing  `json:"missing,omitempty"`
	NotAsked []string       `json:"not_asked,omitempty"`
}

// A GateEvidence is one question with its evidence.
type GateEvidence struct {
	What     string  `json:"what"`         // such as "check test"
	Evidence string  `json:"evidence"`     // such as "c12 passed"
	Of       string  `json:"of,omitempty"` // a commit
	By       AgentID `json:"by,omitempty"` // the author of the evidence, or its runs
	At       Time    `json:"at,omitzero"`  // of the evidence
}

// A GateMissing is a part that is missing for a yes.
type GateMissing struct {
	What string `json:"what"`
	Who  string `json:"who,omitempty"`  // can supply it
	Next string `json:"next,omitempty"` // the line to type, or the next step
}

// A Waiver is the word of the operator that one thing lands without a part.
type Waiver struct {
	What    string  `json:"what"` // the name of a check, checks, review or contracts
	Because string  `json:"because"`
	Commit  string  `json:"commit"` // it counts for this one
	By      AgentID `json:"by"`
	At      Time    `json:"at,omitzero"`
}
