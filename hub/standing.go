package hub

// A Standing says how far a peer is behind.
type Standing struct {
	Peer
	Lag         int64   `json:"lag"` // changes that it has not been sent
	CatchUp     bool    `json:"catchUp,omitempty"`
	Tries       int     `json:"tries,omitempty"`
	NextTry     Instant `json:"nextTry,omitzero"`
	DeadLetters int     `json:"deadLetters,omitempty"` // up to 1,000
}

// A Found is an agent as an exchange describes it. The exchange's word is all
// that stands behind it.
type Found struct {
	AID         string  `json:"aid"`
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Score       float64 `json:"score,omitempty"`
	Verified    bool    `json:"verified"` // by the exchange
	Endpoint    string  `json:"endpoint,omitempty"`
	Version     string  `json:"version,omitempty"` // of coordination; empty if it does not coordinate
	Key         string  `json:"key,omitempty"`     // that it signs with
}

// A Registration is what an exchange made of a manifest.
type Registration struct {
	AID      string `json:"aid"`
	Verified bool   `json:"verified"`
	Existed  bool   `json:"existed"` // the exchange knew the agent already
}
