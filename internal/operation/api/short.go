package api

import (
	"context"
	"errors"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
)

// longID is an id of a message or handoff in a text.
var longID = pattern.New(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// shortenError returns an error whose text and hint have short ids in place of the ids of
// messages and handoffs. An error that something is not there stays as it is: a short id
// would tell the caller that there is something which it cannot see.
func (s *Services) shortenError(ctx context.Context, err error) error {
	if err == nil || s == nil || s.Store == nil {
		return err
	}

	var e *hub.Error
	mayShorten := errors.As(err, &e) && e.Code != hub.CodeNotFound && e.Code != hub.CodeInternal && e.Err != nil
	if !mayShorten {
		return err
	}
	text := e.Error()
	if !longID().MatchString(text) && !longID().MatchString(e.Hint) {
		return err
	}
	out := *e
	failed := s.Store.View(context.WithoutCancel(ctx), func(r hub.Reader) error {
		short := func(id string) string {
			if short, err := r.ShortID(id); err == nil {
				return string(short)
			}
			return id // of another kind
		}
		out.Err = &shortened{longID().ReplaceAllStringFunc(text, short), err}
		out.Hint = longID().ReplaceAllStringFunc(e.Hint, short)
		return nil
	})
	if failed != nil {
		return err
	}
	return &out
}

// A shortened is an error with another text.
type shortened struct {
	text string
	error
}

func (e *shortened) Error() string { return e.text }

// Unwrap returns the error with the first text.
func (e *shortened) Unwrap() error { return e.error }
