package landing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Vendor says whose programs an agent uses, and whether it can answer now.
type Vendor = hub.AgentVendors

// Vendors knows which programs agents use.
type Vendors interface {
	// Vendor returns the vendors of an agent.
	Vendor(ctx context.Context, agent hub.AgentID) (Vendor, error)
}

// otherVendors returns the agents that may review a change as hub.ReviewerOtherVendor: they are awake, and
// their vendor is known and is that of no author. Those with the role of reviewers come first. Without
// such an agent, why says so. A change with an author of unknown vendor has none.
func (s *Service) otherVendors(ctx context.Context, v hub.Review) (out []hub.AgentID, why string, err error) {
	if s.vendors == nil {
		return nil, "this hub does not know the vendors of its agents", nil
	}
	agents, err := hub.Read(ctx, s.store, hub.Reader.Agents)
	if err != nil {
		return nil, "", err
	}
	var taken, unknown []string
	vendors := map[hub.AgentID]Vendor{}
	for _, a := range agents {
		if a.ID == hub.Operator || a.ID == hub.Self {
			continue
		}
		if vendors[a.ID], err = s.vendors.Vendor(ctx, a.ID); err != nil {
			return nil, "", err
		}
		names := vendors[a.ID].Names
		switch {
		case !slices.Contains(v.Authors, a.ID):
		case len(names) == 0:
			unknown = append(unknown, string(a.ID))
		default:
			taken = append(taken, names...)
		}
	}
	if len(unknown) > 0 {
		return nil, "the vendor of " + hub.JoinWords(unknown) + " is not known", nil
	}

	isAnother := func(a hub.Agent) bool {
		has := vendors[a.ID]
		isTaken := slices.ContainsFunc(has.Names, func(name string) bool { return slices.Contains(taken, name) })
		return a.State == hub.AgentActive && has.Awake && len(has.Names) > 0 && !isTaken
	}
	slices.SortFunc(agents, func(a, b hub.Agent) int {
		return cmp.Or(cmp.Compare(roleOrder(a), roleOrder(b)), cmp.Compare(a.ID, b.ID))
	})
	err = s.store.View(ctx, func(r hub.Reader) error {
		for _, a := range agents {
			if !isAnother(a) {
				continue
			}
			may, _, err := mayReview(r, v, a.ID)
			if err != nil {
				return err
			}
			if may {
				out = append(out, a.ID)
			}
		}
		return nil
	})
	if len(out) > 0 || err != nil {
		return out, "", err
	}
	slices.Sort(taken)
	taken = slices.Compact(taken)
	if len(taken) == 0 {
		return nil, "no agent whose vendor is known is awake", nil
	}
	return nil, "no agent of another vendor than " + strings.Join(taken, " and ") + " is awake", nil
}

// roleOrder puts agents with the role of reviewers first.
func roleOrder(a hub.Agent) int {
	if a.Role == hub.RoleReviewer {
		return 0
	}
	return 1
}

// hasTwoVendors refuses the reviewer hub.ReviewerOtherVendor on a hub that knows agents of fewer than two
// vendors.
func (s *Service) hasTwoVendors(ctx context.Context, op string) error {
	agents, err := hub.Read(ctx, s.store, hub.Reader.Agents)
	if err != nil {
		return err
	}
	var known []string
	for _, a := range agents {
		if s.vendors == nil {
			break
		}
		v, err := s.vendors.Vendor(ctx, a.ID)
		if err != nil {
			return err
		}
		known = append(known, v.Names...)
	}
	slices.Sort(known)
	if known = slices.Compact(known); len(known) >= 2 {
		return nil
	}
	knows := "none"
	if len(known) == 1 {
		knows = known[0] + " alone"
	}
	return hub.Errorf(hub.CodeInvalid, op, "review: other-vendor needs agents of two vendors, and this hub knows %s", knows).
		WithHint("start one of another vendor: parley agent keep NAME --cli CLI --dir FOLDER; or --review WHO")
}

// needsOther reports whether one of the reviewers of a question is of another vendor.
func (q *question) needsOther() bool { return slices.Contains(q.all, hub.ReviewerOtherVendor) }

// noOther returns why nobody can be asked now, if the reviewer who has not approved is one of another vendor.
func (q *question) noOther() string {
	if q.who != hub.ReviewerOtherVendor || q.cut || len(q.others) > 0 {
		return ""
	}
	return q.absent
}

// waitForOther stores a review for which no agent of another vendor is awake, and tells the operator.
func (c *change) waitForOther(v hub.Review, why string) error {
	v.ToldAt = c.now
	v, err := c.putReview(v, actions.ReviewRequested)
	if err != nil {
		return err
	}
	about := hub.NoticeSubject{Kind: hub.NoticeReview, ID: string(v.ID)}
	return c.tellOperator(fmt.Sprintf("the review of %s waits: %s", v.Subject(), why), fmt.Sprintf("start an agent of another vendor, or parley land review %s approve", v.ID), about)
}

// tellBlind sends the question to a reviewer of another vendor: the change, the criteria and the results,
// and no word of its authors.
func (c *change) tellBlind(v hub.Review, patches []hub.ArtifactRef) error {
	summary := fmt.Sprintf("review %s: the change %.12s", v.ID, v.Commit)
	if v.Approved != "" {
		summary = fmt.Sprintf("review %s again: what changed since the approval of %.12s", v.ID, v.Approved)
	}
	members := map[string]any{"review": v.ID, "commit": v.Commit, "repository": v.Repository, "reviewer": v.Reviewer}
	if len(v.Criteria) > 0 {
		members["criteria"] = v.Criteria
	}
	if v.Note != "" {
		members["checks"] = v.Note
	}
	return c.post(notice{
		to: v.Asked, priority: hub.PriorityHigh, summary: summary, members: members, artifacts: patches[:min(len(patches), maxTexts)],
		next: fmt.Sprintf("read the whole difference (parley artifact get), then answer: acp_handoff with action review, handoff_id %s and verdict approve, or changes with findings; or parley land review %s approve", v.ID, v.ID),
	})
}

// lookForOthers calls askOthers from time to time.
func (s *Service) lookForOthers(ctx context.Context) error {
	now := s.clock.Now()
	s.mu.Lock()
	isEarly := now.Sub(s.others.Time) < lookEvery
	if !isEarly {
		s.others = now
	}
	s.mu.Unlock()
	if isEarly {
		return nil
	}
	return s.askOthers(ctx)
}

// askOthers asks for reviews of another vendor that wait because no such agent was awake.
func (s *Service) askOthers(ctx context.Context) error {
	waiting, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Review, error) {
		return r.Landings().Reviews(hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Limit: maxListed})
	})
	for _, v := range waiting {
		if v.Reviewer != hub.ReviewerOtherVendor || len(v.Asked) > 0 {
			continue
		}
		others, _, err := s.otherVendors(ctx, v)
		if err != nil {
			return err
		}
		if len(others) == 0 {
			continue
		}
		patches, err := s.partsOf(v)
		if err != nil {
			return err
		}
		err = s.update(ctx, self, nil, func(c *change) error { return c.askOther(v.ID, others[0], patches) })
		if err != nil {
			return err
		}
	}
	return err
}

// askOther asks an agent for a review that waits for one of another vendor.
func (c *change) askOther(id hub.ReviewID, agent hub.AgentID, patches []hub.ArtifactRef) error {
	v, err := c.tx.Landings().Review(id)
	if err != nil || v.State != hub.ReviewStateWaiting || len(v.Asked) > 0 {
		return err
	}
	v.Asked = []hub.AgentID{agent}
	v.AskedAt = c.now
	v.ToldAt = hub.Time{}
	if v, err = c.putReview(v, actions.ReviewRequested); err != nil {
		return err
	}
	entries, err := c.waitingFor(v)
	if err != nil {
		return err
	}
	for _, e := range entries {
		_, err := c.advance(e, hub.EntryWaiting, actions.LandingQueued, func(e *hub.LandingEntry) {
			e.Waits = hub.WaitsForReview
			e.Reason = "waits for the review of " + v.Reviewer
			e.Missing = missingReview(*e, string(agent), wordText(v.Judged))
		})
		if err != nil {
			return err
		}
	}
	return c.tellBlind(v, patches)
}
