package proof

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/attest"
)

// Format names the form of a file and its version.
const Format = "parley-proof/1"

// A File is what strangers get.
type File struct {
	Format     string            `json:"schema"`
	Of         string            `json:"of"`         // the id that was asked for
	Key        string            `json:"key"`        // that signed; a file alone does not make it a known one
	Checkpoint string            `json:"checkpoint"` // a signed note
	Rows       []Row             `json:"rows"`       // of the journal, in their order
	Statements []attest.Envelope `json:"statements"`
	Manifest   attest.Envelope   `json:"manifest"` // the statement that lists all parts
}

// A Row is a row of the journal as it was hashed, with the proof that the checkpoint has it.
type Row struct {
	Seq     int64    `json:"seq"`
	At      string   `json:"at"`
	Actor   string   `json:"actor"`
	Action  string   `json:"action"`
	Subject string   `json:"subject"`
	Outcome string   `json:"outcome"`
	Facts   string   `json:"facts"` // JSON in a text: its bytes are part of the hash
	Prev    string   `json:"prev"`  // the hash of the row before
	Hash    string   `json:"hash"`
	Proof   []string `json:"proof"` // hashes in base64, from the leaf to the root
}

func rowOf(e hub.Entry, prev string, proof attest.Proof) Row {
	out := Row{e.Seq, e.At.String(), string(e.Actor), string(e.Action), e.Subject, string(e.Outcome), string(e.Facts), prev, e.Hash, []string{}}
	for _, h := range proof {
		out.Proof = append(out.Proof, h.String())
	}
	return out
}

// entry returns the row as an entry of the journal.
func (r Row) entry() (hub.Entry, error) {
	at, err := hub.ParseTime(r.At)
	if err != nil || at.String() != r.At {
		return hub.Entry{}, fmt.Errorf("its time %.40q is not one of a journal", r.At)
	}
	return hub.Entry{
		Seq: r.Seq, At: at, Actor: hub.AgentID(r.Actor), Action: actions.Action(r.Action), Subject: r.Subject, Outcome: hub.Outcome(r.Outcome),
		Facts: json.RawMessage(r.Facts), Hash: r.Hash,
	}, nil
}

// hashes returns the proof.
func (r Row) hashes() (out attest.Proof, err error) {
	for _, text := range r.Proof {
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(raw) != attest.HashSize || base64.StdEncoding.EncodeToString(raw) != text {
			return nil, fmt.Errorf("%.60q in its proof is not a hash", text)
		}
		out = append(out, attest.Hash(raw))
	}
	return out, nil
}

// A manifest lists all parts of a file, so that none can be cut out.
type manifest struct {
	Of         string        `json:"of"`
	Noun       string        `json:"noun"`
	State      string        `json:"state"`
	AsOf       hub.Time      `json:"as_of,omitzero"`
	Origin     string        `json:"origin"`
	Size       int64         `json:"size"`
	Root       string        `json:"root"`
	Rows       []manifestRow `json:"rows"`
	Statements []string      `json:"statements"` // SHA-256 of each payload
	LeftOut    []string      `json:"left_out"`   // parts that the hub knows and did not put in, with the reason
}

type manifestRow struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}
