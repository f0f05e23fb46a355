package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/proof"
)

// ProveParams are the parameters of parley/proof/make.
type ProveParams struct {
	ID       string `json:"id"`                  // of a landing, review, check result, handoff, run, decision, contract or message
	WithText bool   `json:"with_text,omitempty"` // with the text of a message, and the package of a handoff
}

// prove makes the file with which strangers check what the hub says about a thing.
func prove(ctx context.Context, s *Services, a hub.Caller, p ProveParams) (proof.Made, error) {
	const op = "parley/proof/make"
	q := proof.Request{ID: p.ID, WithText: p.WithText}
	switch id := hub.ShortID(p.ID); {
	case id.Is(hub.ShortHandoff):
		long, err := s.Handoffs.Resolve(ctx, op, a, hub.HandoffID(p.ID))
		if err != nil {
			return proof.Made{}, err
		}
		q.ID, q.Short = string(long), p.ID
	case id.Is(hub.ShortMessage):
		long, err := s.Mail.Resolve(ctx, op, a, hub.EnvelopeID(p.ID))
		if err != nil {
			return proof.Made{}, err
		}
		q.ID, q.Short = string(long), p.ID
	}
	return s.Proofs.Prove(ctx, a, q)
}

// ProofKeys are the public keys of the hub's log, the newest first.
type ProofKeys struct {
	Keys []string `json:"keys"`

	Witnesses []WitnessKeys `json:"witnesses,omitempty"`
}

// WitnessKeys are the public keys of a witness's log, as they were when the operator added it.
type WitnessKeys struct {
	AID  coord.AID `json:"agentId"`
	Keys []string  `json:"keys"`
}

func proofKeys(ctx context.Context, s *Services, _ hub.Caller, _ None) (ProofKeys, error) {
	keys, err := s.Proofs.Keys(ctx)
	out := ProofKeys{Keys: []string{}}
	for _, k := range keys {
		out.Keys = append(out.Keys, k.Text)
	}
	if err != nil {
		return out, err
	}
	all, err := s.Proofs.Witnesses(ctx)
	for _, w := range all {
		out.Witnesses = append(out.Witnesses, WitnessKeys{w.AID, w.Keys})
	}
	return out, err
}

// WitnessParams are the parameters of parley/proof/witness.
type WitnessParams struct {
	AID coord.AID `json:"agentId"`
}

func addWitness(ctx context.Context, s *Services, a hub.Caller, p WitnessParams) (proof.Witness, error) {
	return s.Proofs.AddWitness(ctx, a, p.AID)
}

// A RebuiltTree is a tree over the journal that was made again.
type RebuiltTree struct {
	Leaves int64 `json:"leaves"`
}

func rebuildTree(ctx context.Context, s *Services, _ hub.Caller, _ None) (RebuiltTree, error) {
	n, err := s.Records.RebuildTree(ctx)
	return RebuiltTree{n}, err
}

// A RenewedLog is a log that began over the journal, with its public key.
type RenewedLog struct {
	Key string `json:"key"`
}

func renewLog(ctx context.Context, s *Services, a hub.Caller, _ None) (RenewedLog, error) {
	key, err := s.Proofs.Renew(ctx, a)
	return RenewedLog{key.Text}, err
}
