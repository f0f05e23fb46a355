package hub

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"github.com/parley-agents/parley/hub/actions"
)

// An Outcome says how an action ended.
type Outcome string

// The outcomes.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeRefused Outcome = "refused"
	OutcomeFailed  Outcome = "failed"
)

// An Entry is one row of the journal. It holds facts and hashes, never a
// payload and never a secret.
type Entry struct {
	Seq     int64           `json:"seq"` // given by the store; no gaps
	At      Time            `json:"at,omitzero"`
	Actor   AgentID         `json:"actor"`
	Action  actions.Action  `json:"action"`
	Subject string          `json:"subject,omitempty"` // id of the thing concerned
	Outcome Outcome         `json:"outcome"`
	Facts   json.RawMessage `json:"facts,omitempty"` // an object; its bytes are part of the hash
	Hash    string          `json:"hash"`            // hex; see Chain
}

// A Head names the newest entry of a journal. A copy of it outside the store
// shows later whether the entries up to it are still the same.
type Head struct {
	Seq  int64  `json:"seq"` // 0 if the journal is empty
	Hash string `json:"hash"`
	At   Time   `json:"at,omitzero"`
}

// HeadOf returns the head of the journal in a snapshot.
func HeadOf(r JournalReader) (Head, error) {
	newest, err := r.Journal(JournalQuery{Newest: true, Limit: 1})
	if err != nil || len(newest) == 0 {
		return Head{}, err
	}
	return Head{newest[0].Seq, newest[0].Hash, newest[0].At}, nil
}

// Chain returns the hash of e as the successor of the entry whose hash is
// prev ("" for the first): the SHA-256 of prev and of e's other members, each
// preceded by its length.
func (e Entry) Chain(prev string) string {
	b := make([]byte, 0, 512+len(e.Facts))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	for _, s := range [...]string{prev, e.At.String(), string(e.Actor), string(e.Action), e.Subject, string(e.Outcome)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(e.Facts)))
	b = append(b, e.Facts...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
