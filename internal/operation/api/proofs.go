package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/proof"
)

// ProveParams are the parameters of parley/proof/make.
type ProveParams struct {
	ID       string `json:"id"`                  // of a landing, review, check result, handoff, run, decision or message
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
}

func proofKeys(ctx context.Context, s *Services, _ hub.Caller, _ None) (ProofKeys, error) {
	keys, err := s.Proofs.Keys(ctx)
	out := ProofKeys{[]string{}}
	for _, k := range keys {
		out.Keys = append(out.Keys, k.Text)
	}
	return out, err
}

// A RebuiltTree is a tree over the journal that was made again.
type RebuiltTree struct {
	Leaves int64 `json:"leaves"`
}

func rebuildTree(ctx context.Context, s *Services, _ hub.Caller, _ None) (RebuiltTree, error) {
	n, err := s.Records.RebuildTree(ctx)
	return RebuiltTree{n}, err
}
