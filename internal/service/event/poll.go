package event

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-agents/parley/hub"
)

// defaultPoll is the time between two questions about a repository.
const defaultPoll = time.Minute

// maxPollAge is how old events are at most that a poll returns. It is less than the time for which
// deliveries are known, so that none comes twice.
const maxPollAge = keepDeliveries - 24*time.Hour

// A Poll is a repository that is to be asked about, with its token and the position up to which
// it was read.
type Poll struct {
	Source     string
	Vendor     hub.EventVendor
	Repository string
	API        string
	Token      string
	Every      time.Duration
	Position   json.RawMessage // of the client that asks; nil before the first question
	Since      hub.Time        // events before it are not wanted
}

// A pollState is what the hub remembers of a poll.
type pollState struct {
	Began    hub.Time        `json:"began,omitzero"` // when the operator asked for it
	Position json.RawMessage `json:"position,omitempty"`
}

// pollKey is where the state of a poll is stored.
func pollKey(source, repository string) string { return "event/poll/" + source + "/" + repository }

// Polls returns the repositories that are to be asked about.
func (s *Service) Polls(ctx context.Context) ([]Poll, error) {
	now := s.o.Clock.Now()
	var out []Poll
	err := s.store.View(ctx, func(rd hub.Reader) error {
		out = nil
		all, err := rd.Events().Sources()
		if err != nil {
			return err
		}
		for _, src := range all {
			for _, p := range src.Polls {
				state, err := hub.ReadMeta[pollState](rd, pollKey(src.Name, p.Repository))
				if err != nil {
					return err
				}
				one := Poll{Source: src.Name, Vendor: src.Vendor, Repository: p.Repository, API: p.API, Every: time.Duration(p.Seconds) * time.Second, Position: state.Position, Since: state.Began}
				if one.Every <= 0 {
					one.Every = defaultPoll
				}
				if oldest := now.Add(-maxPollAge); one.Since.Before(oldest.Time) {
					one.Since = oldest
				}
				if p.Sealed != "" {
					if one.Token, err = s.vault.Open(p.Sealed, pollPlace(src.Name, p.Repository)); err != nil {
						s.o.Log.Warn("the token of a poll cannot be read", "source", src.Name, "repository", p.Repository, "err", err)
						continue
					}
				}
				out = append(out, one)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("event: polls: %w", err)
	}
	return out, nil
}

// Unknown returns the events of a source that were not received before.
func (s *Service) Unknown(ctx context.Context, source string, events []hub.Event) ([]hub.Event, error) {
	var out []hub.Event
	err := s.store.View(ctx, func(rd hub.Reader) error {
		out = nil
		for _, e := range events {
			known, err := delivered(rd, source, e.Deliveries)
			if err != nil {
				return err
			}
			if !known {
				out = append(out, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("event: unknown events: %w", err)
	}
	return out, nil
}

// Polled stores the position after the events of a poll were received.
func (s *Service) Polled(ctx context.Context, p Poll, position json.RawMessage) error {
	err := s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		key := pollKey(p.Source, p.Repository)
		state, err := hub.ReadMeta[pollState](tx, key)
		if err != nil {
			return err
		}
		state.Position = position
		return hub.WriteMeta(tx, key, state)
	})
	if err != nil {
		return fmt.Errorf("event: polled: %w", err)
	}
	return nil
}

// beginPoll makes a poll read its lists anew: with the events from now on, or from when it was added
// if it is replaced. Those that were received are known.
func (s *Service) beginPoll(tx hub.Tx, source, repository string, isReplaced bool) error {
	key := pollKey(source, repository)
	next := pollState{Began: s.o.Clock.Now()}
	if isReplaced {
		old, err := hub.ReadMeta[pollState](tx, key)
		if err != nil {
			return err
		}
		next.Began = old.Began
	}
	return hub.WriteMeta(tx, key, next)
}
