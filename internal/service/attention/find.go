package attention

import (
	"context"
	"fmt"

	"github.com/parley-agents/parley/hub"
)

// Find returns the item of an operation of a team, a held message or a handoff, by its id or
// short id: a person who approves or denies one need not know which it is. The item is
// returned, too, if it does not wait any more; the service that decides about the thing says
// so. An id of nothing that the actor can see is CodeNotFound.
func (s *Service) Find(ctx context.Context, op string, actor hub.Caller, id string) (Item, error) {
	if !actor.Audits() {
		return Item{}, hub.Errorf(hub.CodeDenied, op, "only the operator and auditors can list the items that wait for a person")
	}
	var out Item
	err := s.store.View(ctx, func(r hub.Reader) error {
		long, err := longID(r, id)
		if err != nil {
			return err
		}
		short, err := r.ShortID(long)
		if err != nil && hub.CodeOf(err) != hub.CodeNotFound { // it may have none
			return err
		}
		l := lister{title: s.headline, short: map[string]hub.ShortID{long: short}}
		if out, err = l.find(r, long); err == nil {
			out.complete(l.short)
		}
		return err
	})
	switch hub.CodeOf(err) {
	case "":
		return out, nil
	case hub.CodeNotFound:
		return Item{}, unknown(op, id)
	}
	return Item{}, fmt.Errorf("attention: find: %w", err)
}

// longID returns the id that a short id stands for. Any other id is returned as it is.
func longID(r hub.Reader, id string) (string, error) {
	short := hub.ShortID(id)
	if !short.Is(hub.ShortMessage) && !short.Is(hub.ShortHandoff) {
		return id, nil
	}
	return r.LongID(short)
}

// find returns the item of an id. An operation of a team has the id of the message that asks
// for it, so it is looked up before the message.
func (l lister) find(r hub.Reader, id string) (Item, error) {
	if hub.LandingID(id).Number() > 0 {
		e, err := r.Landings().Entry(hub.LandingID(id))
		return landingItem(e), err
	}
	operation, err := r.Teamspaces().HeldAction(id)
	if hub.CodeOf(err) != hub.CodeNotFound {
		return l.operation(operation), err
	}
	message, err := r.Message(hub.EnvelopeID(id))
	if hub.CodeOf(err) != hub.CodeNotFound {
		return l.held(message.Envelope), err
	}
	h, err := r.Handoff(hub.HandoffID(id))
	return l.handoff(h), err
}

// unknown is the error for an id that names nothing that can be approved or denied.
func unknown(op, id string) error {
	noun := "message"
	if hub.ShortID(id).Is(hub.ShortHandoff) {
		noun = "handoff"
	}
	return hub.Errorf(hub.CodeNotFound, op, "no %s %q that you can see", noun, id).WithHint("{held} lists what waits for approval")
}
