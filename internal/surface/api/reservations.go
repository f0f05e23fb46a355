package api

import (
	"context"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/reservation"
)

func filesAsk(ctx context.Context, s *Services, a hub.Caller, q reservation.Question) (reservation.Answer, error) {
	return s.Files.Ask(ctx, a, q)
}

// ReserveParams are the parameters of parley/reservations/reserve.
type ReserveParams struct {
	reservation.Request
	For string `json:"for,omitempty"` // a duration such as 2h; default and most 24h
}

func filesReserve(ctx context.Context, s *Services, a hub.Caller, p ReserveParams) (reservation.Grant, error) {
	const op = "parley/reservations/reserve"
	r := p.Request
	if p.For != "" {
		var err error
		if r.For, err = time.ParseDuration(p.For); err != nil || r.For <= 0 {
			return reservation.Grant{}, hub.Errorf(hub.CodeInvalid, op, "for must be a duration such as 2h or 90m, got %.50q", p.For)
		}
	}
	return s.Files.Reserve(ctx, a, r)
}

func filesRelease(ctx context.Context, s *Services, a hub.Caller, p reservation.Release) (reservation.Released, error) {
	return s.Files.Release(ctx, a, p)
}

func filesList(ctx context.Context, s *Services, _ hub.Caller, f reservation.Filter) (reservation.Listing, error) {
	return s.Files.List(ctx, f)
}
