package event

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// Bounds of the settings of a source.
const (
	minSecret  = 16  // bytes
	maxSecret  = 512 // bytes
	maxRules   = 100
	maxPolls   = 20
	maxSources = 100
)

// A Setting is a source as the operator adds it.
type Setting struct {
	Name    string            `json:"name"`
	Vendor  hub.EventVendor   `json:"vendor"`
	Secret  string            `json:"secret"`
	To      string            `json:"to,omitempty"`     // default hub.ToOwner
	Actors  hub.EventActors   `json:"actors,omitempty"` // default hub.ActorsMembers
	Rules   []hub.EventRule   `json:"rules,omitempty"`
	Members []string          `json:"members,omitempty"`
	Fields  map[string]string `json:"fields,omitempty"`
}

// A Source is a source without its secret, with its counts.
type Source struct {
	hub.EventSource
	Counts map[hub.EventOutcome]int64 `json:"counts"`
}

// Add stores a source. Only the operator may. A source of the same name is replaced, with its
// secret; the events that it delivered are still known, and its polls go on.
func (s *Service) Add(ctx context.Context, actor hub.Caller, set Setting) (Source, error) {
	const op = "event.Add"
	if err := actor.OperatorOnly(op); err != nil {
		return Source{}, err
	}
	src, err := s.complete(op, set)
	if err != nil {
		return Source{}, err
	}
	src.SetAt = s.o.Clock.Now()
	src.SetBy = actor.ID

	var out Source
	err = s.update(ctx, "add a source", func(tx hub.Tx) error {
		if err := s.checkTargets(tx, op, src); err != nil {
			return err
		}
		all, err := tx.Events().Sources()
		if err != nil {
			return err
		}
		action := actions.SourceAdded
		known := slices.IndexFunc(all, func(other hub.EventSource) bool { return other.Name == src.Name })
		if known >= 0 {
			action = actions.SourceChanged
			src.Revision = all[known].Revision
			if src.Vendor == all[known].Vendor { // another vendor has another API
				src.Polls = all[known].Polls
			}
		} else if len(all) >= maxSources {
			return hub.Errorf(hub.CodeTooLarge, op, "the hub has %d event sources, which is the limit", maxSources).WithHint("{in.remove} NAME removes one")
		}
		out, err = s.put(tx, actor, action, src)
		return err
	})
	return out, err
}

// complete checks a setting and returns the source with its sealed secret.
func (s *Service) complete(op string, set Setting) (hub.EventSource, error) {
	src := hub.EventSource{Name: set.Name, Vendor: set.Vendor, To: set.To, Actors: set.Actors, Rules: set.Rules, Members: set.Members, Fields: set.Fields}
	if src.To == "" {
		src.To = hub.ToOwner
	}
	if src.Actors == "" {
		src.Actors = hub.ActorsMembers
	}
	switch {
	case !hub.AgentID(src.Name).Valid():
		return src, hub.Errorf(hub.CodeInvalid, op, "%s is not a valid name", shorten.Quote(src.Name)).WithHint("use lower-case letters, digits, dots, dashes and underscores")
	case !src.Vendor.Known():
		return src, hub.Errorf(hub.CodeInvalid, op, "unknown vendor %s", shorten.Quote(string(src.Vendor))).WithHint("use github, gitlab, gitea or generic")
	case !src.Actors.Known():
		return src, hub.Errorf(hub.CodeInvalid, op, "actors must be members or all, got %s", shorten.Quote(string(src.Actors)))
	case len(set.Secret) < minSecret || len(set.Secret) > maxSecret:
		return src, hub.Errorf(hub.CodeInvalid, op, "the secret must have %d to %d bytes, got %d", minSecret, maxSecret, len(set.Secret)).
			WithHint("make one: openssl rand -hex 32")
	case len(src.Rules)+len(src.Members) > maxRules:
		return src, hub.Errorf(hub.CodeTooLarge, op, "at most %d rules and members are allowed", maxRules)
	case len(src.Fields) > 0 && src.Vendor != hub.VendorGeneric:
		return src, hub.Errorf(hub.CodeInvalid, op, "fields are for generic sources alone")
	}
	for i, r := range src.Rules {
		if r.Kind != "" && !r.Kind.Known() {
			return src, hub.Errorf(hub.CodeInvalid, op, "rule %d: unknown kind %s", i+1, shorten.Quote(string(r.Kind))).WithHint("the kinds are %s", hub.JoinWords(hub.EventKinds))
		}
	}
	src.Sealed = s.vault.Seal(set.Secret, place(src.Name))
	return src, nil
}

// checkTargets refuses targets that are neither an agent nor a team nor the owner.
func (s *Service) checkTargets(rd hub.Reader, op string, src hub.EventSource) error {
	targets := []string{src.To}
	for _, r := range src.Rules {
		if r.To != "" {
			targets = append(targets, r.To)
		}
	}
	for _, to := range targets {
		if to == hub.ToOwner {
			continue
		}
		team, isTeam := hub.AgentID(to).Team()
		var err error
		switch {
		case isTeam && !s.o.Teams:
			return hub.Errorf(hub.CodeNotEnabled, op, "teams are off on this hub")
		case isTeam:
			_, err = rd.Teamspaces().Team(team)
		default:
			_, err = rd.Agent(hub.AgentID(to))
		}
		if hub.CodeOf(err) == hub.CodeNotFound {
			return hub.Errorf(hub.CodeUnknownRecipient, op, "no agent or team named %s on this hub", shorten.Quote(to)).WithHint("name an agent, team:NAME or owner")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put stores a source and its journal entry, and returns it with its counts. The entry has a hash of
// the settings, not the rules.
func (s *Service) put(tx hub.Tx, actor hub.Caller, action actions.Action, src hub.EventSource) (Source, error) {
	if err := tx.WriteEvents().PutSource(src); err != nil {
		return Source{}, err
	}
	facts := map[string]any{"vendor": src.Vendor, "to": src.To, "actors": src.Actors, "rules": len(src.Rules), "polls": len(src.Polls), "sha256": src.Digest()}
	if _, err := tx.Append(actor.Entry(s.o.Clock.Now(), action, src.Name, facts)); err != nil {
		return Source{}, err
	}
	return s.withCounts(tx, src)
}

// update runs a transaction that changes sources.
func (s *Service) update(ctx context.Context, what string, change func(hub.Tx) error) error {
	if err := s.store.Update(ctx, hub.SurvivesPowerLoss, change); err != nil {
		return fmt.Errorf("event: %s: %w", what, err)
	}
	s.mu.Lock()
	s.doors = nil
	s.read = time.Time{}
	s.changes++
	s.mu.Unlock()
	if s.o.Bus != nil {
		s.o.Bus.Publish(hub.TopicJournal)
	}
	if s.o.Changed != nil {
		s.o.Changed()
	}
	return nil
}

// Remove removes a source; its messages stay. Only the operator may.
func (s *Service) Remove(ctx context.Context, actor hub.Caller, name string) error {
	const op = "event.Remove"
	if err := actor.OperatorOnly(op); err != nil {
		return err
	}
	return s.update(ctx, "remove a source", func(tx hub.Tx) error {
		if err := tx.WriteEvents().RemoveSource(name); err != nil {
			return unknownSource(op, name, err)
		}
		_, err := tx.Append(actor.Entry(s.o.Clock.Now(), actions.SourceRemoved, name, nil))
		return err
	})
}

// unknownSource gives the error about a source that does not exist its hint.
func unknownSource(op, name string, err error) error {
	if hub.CodeOf(err) != hub.CodeNotFound {
		return err
	}
	return hub.Errorf(hub.CodeNotFound, op, "no event source %s", shorten.Quote(name)).WithHint("{in.list} lists the sources")
}

// List returns all sources by name.
func (s *Service) List(ctx context.Context) ([]Source, error) {
	out := []Source{}
	err := s.store.View(ctx, func(rd hub.Reader) error {
		all, err := rd.Events().Sources()
		if err != nil {
			return err
		}
		for _, src := range all {
			one, err := s.withCounts(rd, src)
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("event: list: %w", err)
	}
	return out, nil
}

// Show returns one source. Its rules and members are for the operator and auditors.
func (s *Service) Show(ctx context.Context, actor hub.Caller, name string) (Source, error) {
	const op = "event.Show"
	if !actor.Audits() {
		return Source{}, hub.Errorf(hub.CodeDenied, op, "only the operator and auditors can read the settings of an event source")
	}
	got, err := hub.Read(ctx, s.store, func(rd hub.Reader) (Source, error) {
		src, err := rd.Events().Source(name)
		if err != nil {
			return Source{}, unknownSource(op, name, err)
		}
		return s.withCounts(rd, src)
	})
	if err != nil {
		return Source{}, fmt.Errorf("event: show: %w", err)
	}
	return got, nil
}

// withCounts returns a source without its secrets, with the counts in the store and in memory.
func (s *Service) withCounts(rd hub.Reader, src hub.EventSource) (Source, error) {
	counts, err := rd.Events().EventCounts(src.Name)
	if err != nil {
		return Source{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, outcome := range slices.Sorted(maps.Keys(s.counts[src.Name])) {
		counts[outcome] += s.counts[src.Name][outcome]
	}
	return Source{src.Public(), counts}, nil
}

// A PollSetting makes the hub ask a vendor for the events of a repository.
type PollSetting struct {
	Name       string `json:"name"` // of the source
	Repository string `json:"repository"`
	API        string `json:"api"`
	Token      string `json:"token,omitempty"`
	Seconds    int64  `json:"seconds,omitempty"`
	Stop       bool   `json:"stop,omitempty"`
}

// SetPoll adds, replaces or removes a poll of a source. Only the operator may. The address of the
// API was checked.
func (s *Service) SetPoll(ctx context.Context, actor hub.Caller, set PollSetting) (Source, error) {
	const op = "event.SetPoll"
	if err := actor.OperatorOnly(op); err != nil {
		return Source{}, err
	}
	if !validRepository(set.Repository) {
		return Source{}, hub.Errorf(hub.CodeInvalid, op, "%s is not a repository", shorten.Quote(set.Repository)).WithHint("use owner/name")
	}
	if len(set.Token) > maxSecret {
		return Source{}, hub.Errorf(hub.CodeInvalid, op, "the token must have at most %d bytes", maxSecret)
	}
	var out Source
	err := s.update(ctx, "set a poll", func(tx hub.Tx) error {
		src, err := tx.Events().Source(set.Name)
		if err != nil {
			return unknownSource(op, set.Name, err)
		}
		if src.Vendor == hub.VendorGeneric {
			return hub.Errorf(hub.CodeInvalid, op, "a generic source has no API that could be asked")
		}
		i := slices.IndexFunc(src.Polls, func(p hub.EventPoll) bool { return p.Repository == set.Repository })
		src.Polls = slices.Clone(src.Polls)
		if i >= 0 {
			src.Polls = slices.Delete(src.Polls, i, i+1)
		}
		switch {
		case set.Stop && i < 0:
			return hub.Errorf(hub.CodeNotFound, op, "the hub does not poll %s", set.Repository)
		case !set.Stop && len(src.Polls) >= maxPolls:
			return hub.Errorf(hub.CodeTooLarge, op, "a source can poll at most %d repositories", maxPolls)
		case !set.Stop:
			p := hub.EventPoll{Repository: set.Repository, API: set.API, Seconds: set.Seconds}
			if set.Token != "" {
				p.Sealed = s.vault.Seal(set.Token, pollPlace(src.Name, p.Repository))
			}
			src.Polls = append(src.Polls, p)
		}
		if err := s.beginPoll(tx, src.Name, set.Repository, i >= 0); err != nil {
			return err
		}
		out, err = s.put(tx, actor, actions.SourceChanged, src)
		return err
	})
	return out, err
}

// validRepository reports whether a text has the form owner/name, also with groups in between.
func validRepository(text string) bool {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(text) > 200 {
		return false
	}
	return !slices.ContainsFunc(parts, func(part string) bool {
		wrong := strings.ContainsFunc(part, func(r rune) bool {
			isLetter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
			return !isLetter && !strings.ContainsRune("._-", r)
		})
		return part == "" || part == "." || part == ".." || wrong
	})
}
