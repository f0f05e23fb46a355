package continuation

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A reading is a text that an agent reads next, once.
type reading struct {
	Continuation hub.ContinuationID `json:"continuation,omitempty"` // of the task that the agent takes over; "" for one that it owns, before a compaction
	Text         string             `json:"text"`
	Short        string             `json:"short"` // instead of Text, after the text about another task
}

// maxReadings bounds the texts that wait for one agent. The inbox has their handoffs, too.
const maxReadings = 2 * maxTasks

// readingsKey is where the texts are stored that an agent reads next.
func readingsKey(agent hub.AgentID) string { return "continuation/reads/" + string(agent) }

// addReading stores a text that an agent reads next.
func addReading(tx hub.Tx, agent hub.AgentID, r reading) error {
	all, err := hub.ReadMeta[[]reading](tx, readingsKey(agent))
	if err != nil {
		return err
	}
	all = append(all, r)
	return hub.WriteMeta(tx, readingsKey(agent), all[max(0, len(all)-maxReadings):])
}

// Compacting stores the text about the open tasks of an agent whose CLI is about to shorten its
// context. The agent is asked for nothing. It reports whether there is a task.
func (s *Service) Compacting(ctx context.Context, agent hub.AgentID) (bool, error) {
	owned, err := s.ownedTasks(ctx, agent)
	if err != nil || len(owned) == 0 {
		return false, err
	}
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[[]reading](tx, readingsKey(agent))
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(r reading) bool { return r.Continuation == "" }) // of the compaction before
		for _, t := range owned {
			h := t.handoff
			names, err := namesOf(tx, h.ID)
			if err != nil {
				return err
			}
			c := hub.Continuation{Handoff: h.ID, Task: h.TaskID, Title: h.Title, Of: h.To, Reason: hub.ContinueContext, Folder: t.pkg.Work.Worktree, Branch: t.pkg.Work.Branch, Said: t.said}
			all = append(all, reading{Text: brief(c, t, names), Short: shortBrief(c, t, names)})
		}
		return hub.WriteMeta(tx, readingsKey(agent), all)
	})
	s.note(agent, true)
	return err == nil, err
}

// Pending returns the text that an agent reads next, once; "" if there is none. It is about one
// task, with a sentence about each further one.
func (s *Service) Pending(ctx context.Context, agent hub.AgentID) (string, error) {
	waiting, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]reading, error) {
		return hub.ReadMeta[[]reading](rd, readingsKey(agent))
	})
	if err != nil || len(waiting) == 0 {
		return "", err
	}
	text := ""
	err = s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		all, err := hub.ReadMeta[[]reading](tx, readingsKey(agent))
		if err != nil || len(all) == 0 {
			text = ""
			return err
		}
		var valid []reading
		for _, one := range all {
			isValid, err := isNews(tx, agent, one)
			if err != nil {
				return err
			}
			if isValid {
				valid = append(valid, one)
			}
		}
		text = joinReadings(valid)
		return hub.WriteMeta(tx, readingsKey(agent), []reading(nil))
	})
	return text, err
}

// isNews reports whether a text still holds: the task was not taken away from the agent or ended.
func isNews(rd hub.Reader, agent hub.AgentID, r reading) (bool, error) {
	if r.Continuation == "" {
		return true, nil
	}
	c, err := rd.Continuations().Continuation(r.Continuation)
	if err != nil || c.To != agent || c.State == hub.ContinuationRefused {
		return false, err
	}
	h, err := rd.Handoff(c.Next)
	return err == nil && !h.Status.Ended(), err
}

// joinReadings joins texts to one that is short enough for the first turn of an agent.
func joinReadings(all []reading) string {
	text := ""
	for i, one := range all {
		if i == 0 {
			text = one.Text
			continue
		}
		next := joinedLines(text, one.Text)
		if tokens(next) > maxTokens {
			next = joinedLines(text, one.Short)
		}
		if tokens(next) > maxTokens {
			return joinedLines(text, fmt.Sprintf("[parley] You have %d more tasks: list your handoffs.", len(all)-i))
		}
		text = next
	}
	return text
}
