package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
)

// The kinds of events that people are told of.
const (
	EventBreaking   = "contract.breaking"   // a new version breaks a consumer
	EventUnknown    = "contract.unknown"    // a new version may break a consumer
	EventDeprecated = "contract.deprecated" // a part of a contract, or the whole, will end or has ended
	EventCanMerge   = "can_merge.changed"   // the answer about a commit is another one
)

// EventKinds are the kinds of events that people are told of.
var EventKinds = []string{EventBreaking, EventUnknown, EventDeprecated, EventCanMerge}

// People tells people outside of the hub of events.
type People interface {
	// Wants reports whether a target takes events of a kind.
	Wants(kind string) bool
	// Tell tells them of an event. id names the contract or the commit, fact is a sentence
	// without text of agents, and command shows more.
	Tell(tx hub.Tx, kind, id, fact, command string) error
}

// EventCursor is the name of the cursor with which events are found in the journal.
const EventCursor = "contract.events"

const (
	eventLease = time.Minute
	eventGap   = time.Second // the answers about commits are computed at most this often
	eventPage  = 2000        // journal entries in one step
	askedTime  = 24 * time.Hour
	maxAsked   = 20 // commits whose answer is computed again in one step
)

// wantsEvents reports whether a target takes an event of contracts.
func (s *Service) wantsEvents() bool {
	return s.o.People != nil && slices.ContainsFunc(EventKinds, s.o.People.Wants)
}

// tellPeople follows the journal and tells people of events, until ctx ends.
func (s *Service) tellPeople(ctx context.Context) {
	if !s.wantsEvents() {
		return
	}
	hub.Follow(ctx, s.store, s.o.Bus, hub.Consumer{
		Name: EventCursor, Lease: eventLease, Gap: eventGap,
		Step: func(ctx context.Context, store hub.Store) (time.Duration, error) {
			more, err := s.stepEvents(ctx, store)
			return hub.Rest(more), err
		},
		Failed: func(err error) {
			s.o.Log.Warn("people could not be told about contracts, trying again", "op", EventCursor, "code", hub.CodeOf(err), "err", err)
		},
	})
}

// An event is one thing that people are told of.
type event struct{ kind, id, fact, command string }

// stepEvents tells people of the events in the entries after the cursor, and reports whether
// there may be more entries. Verdicts and answers are computed outside of the transaction that
// records them.
func (s *Service) stepEvents(ctx context.Context, store hub.Store) (more bool, err error) {
	cursor, entries, err := unreadEntries(ctx, store)
	if err != nil || len(entries) == 0 {
		return false, err
	}

	var events []event
	projects := map[coord.ProjectID]bool{}
	for _, e := range entries {
		if !isCoordination(e.Action) || cursor == 0 {
			continue
		}
		var f facts
		if err := json.Unmarshal(e.Facts, &f); err != nil {
			return false, fmt.Errorf("contract: entry %d: %w", e.Seq, err)
		}
		projects[f.Project] = true
		found, err := s.eventsOf(ctx, e, f)
		if err != nil {
			return false, err
		}
		for _, f := range found { // two ends in one step are one event
			if !slices.Contains(events, f) {
				events = append(events, f)
			}
		}
	}
	answers, err := s.askAgainAbout(ctx, projects)
	if err != nil {
		return false, err
	}

	err = store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		changed, err := keepAnswers(tx, answers)
		if err != nil {
			return err
		}
		for _, e := range slices.Concat(events, changed) {
			if err := s.o.People.Tell(tx, e.kind, e.id, e.fact, e.command); err != nil {
				return err
			}
		}
		return tx.PutCursor(EventCursor, entries[len(entries)-1].Seq)
	})
	if err == nil && s.o.Bus != nil && len(events)+len(answers) > 0 {
		s.o.Bus.Publish(hub.TopicJournal)
	}
	return len(entries) == eventPage, err
}

// unreadEntries returns the cursor and the journal entries after it. A cursor that is new
// begins with the newest entry, whose events are of the time before.
func unreadEntries(ctx context.Context, store hub.Store) (cursor int64, entries []hub.Entry, err error) {
	err = store.View(ctx, func(r hub.Reader) (err error) {
		if cursor, err = r.Cursor(EventCursor); err != nil {
			return err
		}
		q := hub.JournalQuery{After: cursor, Limit: eventPage}
		if cursor == 0 {
			q = hub.JournalQuery{Newest: true, Limit: 1}
		}
		entries, err = r.Journal(q)
		return err
	})
	return cursor, entries, err
}

// isCoordination reports whether an action can change a verdict or an answer.
func isCoordination(a actions.Action) bool {
	word, _, _ := strings.Cut(string(a), ".")
	return word == "contract" || word == "implementation" || a == actions.Deployed
}

// eventsOf returns the events of one journal entry.
func (s *Service) eventsOf(ctx context.Context, e hub.Entry, f facts) ([]event, error) {
	if f.Replaces == 0 && !f.Ends {
		return nil, nil
	}
	var found []event
	got, err := s.comparison(ctx, EventCursor, hub.Caller{ID: hub.Self}, Of(f.Project, coord.ContractID(e.Subject)), comparing{head: true})
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, nil // it was removed since
	}
	if err != nil {
		return nil, err
	}

	if f.Ends {
		found = append(found, endEvent(got))
	}
	// A later version has an entry of its own.
	isNewest := f.Replaces > 0 && f.Version == got.contract.Version
	if change, ok := changeEvent(got); ok && isNewest {
		found = append(found, change)
	}
	return found, nil
}

// changeEvent returns the event of a version that breaks a consumer, or may. There is none
// while no version was agreed.
func changeEvent(got compared) (event, bool) {
	c := got.contract
	base, ok := baseOfHead(c)
	word, affected := effective(got.verdict, got.project, c.ProposedBy)
	if !ok || base.Why == baseBefore || word == compat.Compatible {
		return event{}, false
	}

	kind := EventBreaking
	if word == compat.Unknown {
		kind = EventUnknown
	}
	fact := fmt.Sprintf("version %d of a contract is %s", c.Version, word)
	if len(affected) > 0 {
		fact += " for " + namesShort(affected)
	}
	return event{kind, string(c.ID), fact, fmt.Sprintf("parley contract diff %s --project %s --from %d", c.ID, c.Project, base.Version)}, true
}

// endEvent returns the event of the newest end of a part of a contract.
func endEvent(got compared) event {
	c := got.contract
	end := slices.MaxFunc(c.Terms.Ends, func(a, b coord.Ending) int { return a.At.Compare(b.At) })
	thing := "a contract"
	if end.Part != "" {
		thing = "a part of a contract"
	}
	fact := fmt.Sprintf("%s ends on %s", thing, end.Until)
	if end.Withdrawn {
		fact = thing + " was withdrawn"
	}
	if users := usersOf(c, got.project, end.Part); len(users) > 0 {
		fact += "; still used by " + strings.Join(users[:min(maxNamed, len(users))], ", ")
	}
	return event{EventDeprecated, string(c.ID), fact, fmt.Sprintf("parley contract show %s --project %s", c.ID, c.Project)}
}

// namesShort joins the names of repositories, or counts them if they are many.
func namesShort(repos []coord.Repo) string {
	if len(repos) > maxNamed {
		return fmt.Sprintf("%d repositories", len(repos))
	}
	return names(repos, " and ")
}

// ContractName returns the name of a contract of any project, "" if there is none with that id.
func (s *Service) ContractName(ctx context.Context, id coord.ContractID) (string, error) {
	return hub.Read(ctx, s.store, func(r hub.Reader) (string, error) {
		for after := coord.ProjectID(""); ; {
			found, err := r.Coordination().Projects(after, s.pageOf(pageSize))
			if err != nil {
				return "", err
			}
			for _, p := range found {
				c, err := r.Coordination().Contract(p.ID, id)
				if err == nil || hub.CodeOf(err) != hub.CodeNotFound {
					return c.Name, err
				}
			}
			if len(found) < s.pageOf(pageSize) {
				return "", nil
			}
			after = found[len(found)-1].ID
		}
	})
}

// askedKey is the key of the fact with the commits that CanMerge was asked about.
const askedKey = "contract.asked"

// A knownAnswer is the newest commit of a repository that CanMerge was asked about, with the
// answer.
type knownAnswer struct {
	Candidate Candidate `json:"candidate"`
	Directed  bool      `json:"directed,omitempty"`
	Answer    string    `json:"answer"`
	Reasons   int       `json:"reasons,omitempty"`
	At        hub.Time  `json:"at,omitzero"` // of the question
}

// key names the repository of a question.
func (a knownAnswer) key() string { return fmt.Sprintf("%s %s", a.Candidate.Project, a.Candidate.Repo) }

// about reports whether two questions are about the same commit.
func (a knownAnswer) about(b knownAnswer) bool {
	return a.Candidate.Commit == b.Candidate.Commit && a.Directed == b.Directed
}

// rememberAnswer stores the answer of CanMerge, so that people can be told when it changes.
func (s *Service) rememberAnswer(ctx context.Context, c Candidate, got Readiness) {
	if s.o.People == nil || !s.o.People.Wants(EventCanMerge) {
		return
	}
	now := knownAnswer{c, c.Directed, got.Answer, len(got.Reasons), s.o.Clock.Now()}
	was, err := hub.Read(ctx, s.store, askedBefore)
	old := was[now.key()]
	isKnown := old.about(now) && old.Answer == now.Answer
	if isKnown {
		return
	}
	if err == nil {
		err = s.update(ctx, hub.Caller{ID: hub.Self}, "", func(se *session) error {
			changed, err := keepAnswers(se.tx, []knownAnswer{now})
			for _, e := range changed {
				if err == nil {
					err = s.o.People.Tell(se.tx, e.kind, e.id, e.fact, e.command)
				}
			}
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("cannot store an answer about a commit", "err", err)
	}
}

// askedBefore returns the stored questions by repository.
func askedBefore(r hub.Reader) (map[string]knownAnswer, error) {
	all, err := hub.ReadMeta[map[string]knownAnswer](r, askedKey)
	if all == nil {
		all = map[string]knownAnswer{}
	}
	return all, err
}

// askAgainAbout answers the newest questions of the last day about repositories of projects
// again.
func (s *Service) askAgainAbout(ctx context.Context, projects map[coord.ProjectID]bool) ([]knownAnswer, error) {
	if len(projects) == 0 || !s.o.People.Wants(EventCanMerge) {
		return nil, nil
	}
	all, err := hub.Read(ctx, s.store, askedBefore)
	if err != nil {
		return nil, err
	}
	since := s.o.Clock.Now().Add(-askedTime)
	again := slices.DeleteFunc(slices.Collect(maps.Values(all)), func(a knownAnswer) bool {
		return !projects[a.Candidate.Project] || a.At.Before(since.Time)
	})
	slices.SortFunc(again, func(a, b knownAnswer) int { return cmp.Or(b.At.Compare(a.At.Time), strings.Compare(a.key(), b.key())) })

	var out []knownAnswer
	for _, a := range again[:min(maxAsked, len(again))] {
		a.Candidate.Directed = a.Directed
		got, err := s.ready(ctx, EventCursor, hub.Caller{ID: hub.Self}, a.Candidate)
		if hub.CodeOf(err) == hub.CodeNotFound {
			continue // the repository has left the project
		}
		if err != nil {
			return nil, err
		}
		a.Answer = got.Answer
		a.Reasons = len(got.Reasons)
		out = append(out, a)
	}
	return out, nil
}

// keepAnswers stores answers, forgets those of questions older than a day, and returns the
// events of those that changed.
func keepAnswers(tx hub.Tx, answers []knownAnswer) (changed []event, err error) {
	if len(answers) == 0 {
		return nil, nil
	}
	all, err := askedBefore(tx)
	if err != nil {
		return nil, err
	}

	newest := hub.Time{}
	for _, a := range answers {
		was, ok := all[a.key()]
		if ok && was.about(a) && was.Answer != a.Answer {
			changed = append(changed, a.event())
		}
		all[a.key()] = a
		if a.At.After(newest.Time) {
			newest = a.At
		}
	}
	maps.DeleteFunc(all, func(_ string, a knownAnswer) bool { return newest.Sub(a.At.Time) > askedTime })
	return changed, hub.WriteMeta(tx, askedKey, all)
}

// event returns the event of an answer that changed.
func (a knownAnswer) event() event {
	c := a.Candidate
	commit := c.Commit[:min(12, len(c.Commit))]
	fact := fmt.Sprintf("commit %s of %s can merge now", commit, c.Repo)
	if a.Answer == hub.AnswerNo {
		fact = fmt.Sprintf("commit %s of %s can no longer merge", commit, c.Repo)
	}
	return event{EventCanMerge, c.Commit, fact, fmt.Sprintf("parley contract can-merge --project %s --repo %s --commit %s", c.Project, c.Repo, c.Commit)}
}
