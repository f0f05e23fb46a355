package api

import (
	"context"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

func undelivered(ctx context.Context, s *Services, a hub.Caller, _ None) (mailroom.UndeliveredList, error) {
	return s.Mail.Undelivered(ctx, a)
}

// RetryParams name a message that failed or expired.
type RetryParams struct {
	ID        hub.EnvelopeID `json:"id"`
	ExpiresAt hub.Time       `json:"expires_at,omitzero"` // default: after the same span as before
}

func retry(ctx context.Context, s *Services, a hub.Caller, p RetryParams) (mailroom.Receipt, error) {
	id, err := s.Mail.Resolve(ctx, "parley/retry", a, p.ID)
	if err != nil {
		return mailroom.Receipt{}, err
	}
	return s.Mail.Retry(ctx, a, id, p.ExpiresAt)
}
