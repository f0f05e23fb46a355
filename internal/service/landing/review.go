package landing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/shorten"
)

// A question is the review that a change needs, read from its repository before the transaction.
type question struct {
	who     string // the reviewer: an agent, role:ROLE or operator
	commit  string
	base    string
	since   string // the commit that was approved before; "" for none
	authors []hub.AgentID
	patch   hub.ArtifactRef
	note    string
	title   string
	fewer   string // why a change needs a review that neither its package nor the policy asks for
}

// question returns the review that an entry needs; nil for none. The package of a handoff decides,
// else the policy. A change with fewer tests than before is reviewed in any case, by the operator if
// they name nobody.
func (s *Service) question(ctx context.Context, p hub.LandingPolicy, e hub.LandingEntry, piece *Piece) (*question, error) {
	q := &question{who: p.Review, commit: e.Commit, title: e.Ref, authors: []hub.AgentID{e.Owner}, fewer: e.Fewer}
	if piece != nil {
		if piece.Review != "" {
			q.who = piece.Review
		}
		q.authors = append(q.authors, piece.Authors...)
		q.note = piece.Note
		q.title = piece.Title
		q.fewer = cmp.Or(q.fewer, piece.Fewer)
	}
	if q.fewer != "" && (q.who == hub.ReviewerNone || q.who == "") {
		q.who = string(hub.Operator)
	}
	if q.fewer != "" && !strings.Contains(q.note, q.fewer) {
		q.note = strings.TrimPrefix(q.note+"; "+q.fewer, "; ")
	}
	isAsked := q.who != hub.ReviewerNone && q.who != ""
	if !isAsked || e.Undoes != "" {
		return nil, nil
	}
	target := ""
	if piece != nil {
		target = piece.Base
	}
	if p.Into != "" {
		head, err := s.git.Branch(ctx, p.Repository, p.Into)
		if err != nil {
			return nil, err
		}
		target = head.ID
	}
	return q, s.difference(ctx, p.Repository, target, e, q)
}

// difference completes a question with the difference to review: the one since the last approval,
// or the whole change from the target on.
func (s *Service) difference(ctx context.Context, repository, target string, e hub.LandingEntry, q *question) error {
	change, err := s.git.Change(ctx, repository, target, e.Commit)
	if err != nil {
		return err
	}
	for _, name := range change.Authors {
		if id := hub.AgentID(strings.ToLower(name)); id.Valid() {
			q.authors = append(q.authors, id)
		}
	}
	slices.Sort(q.authors)
	q.authors = slices.Compact(q.authors)

	q.base = change.Base
	patch := change.Patch
	before, err := s.lastApproval(ctx, e)
	if err != nil {
		return err
	}
	if before != "" && before != e.Commit {
		since, _, err := s.git.Patch(ctx, repository, before, e.Commit)
		if err == nil { // else the commit is gone, and the whole change is reviewed
			patch = since
			q.base = before
			q.since = before
		}
	}
	q.patch, err = s.mail.KeepText(patch)
	q.patch.Description = "difference to review"
	return err
}

// reviewQuery chooses the reviews of an entry's change.
func reviewQuery(e hub.LandingEntry) hub.ReviewQuery {
	if e.Handoff != "" {
		return hub.ReviewQuery{Handoff: e.Handoff, Limit: maxListed}
	}
	return hub.ReviewQuery{Entry: e.ID, Limit: maxListed}
}

// lastApproval returns the commit of a change that was approved last; "" for none.
func (s *Service) lastApproval(ctx context.Context, e hub.LandingEntry) (string, error) {
	if e.Handoff == "" && e.ID == "" {
		return "", nil
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Review, error) { return r.Landings().Reviews(reviewQuery(e)) })
	for _, v := range all {
		if v.Verdict == hub.VerdictApprove {
			return v.Commit, err
		}
	}
	return "", err
}

// reviewed returns the state of the review of an entry's commit; "" if it was not asked for.
func (c *change) reviewed(e hub.LandingEntry, ask *question) (hub.ReviewState, error) {
	isNew := e.Handoff == "" && e.ID == ""
	if ask == nil || isNew {
		return "", nil
	}
	all, err := c.tx.Landings().Reviews(reviewQuery(e))
	for _, v := range all {
		if v.Commit == e.Commit && v.State != hub.ReviewStateReplaced {
			return v.State, err
		}
	}
	return "", err
}

// ask asks for the review of a commit, unless it was asked already. Reviews of earlier commits of
// the change are over.
func (c *change) ask(handoff hub.HandoffID, e hub.LandingEntry, q *question) error {
	rq := reviewQuery(e)
	if handoff != "" {
		rq = hub.ReviewQuery{Handoff: handoff, Limit: maxListed}
	}
	before, err := c.tx.Landings().Reviews(rq)
	if err != nil {
		return err
	}
	for _, v := range before {
		if v.Commit == q.commit && v.State != hub.ReviewStateReplaced {
			return nil
		}
	}
	for _, v := range before {
		if v.State == hub.ReviewStateReplaced {
			continue
		}
		if v, err = v.Advance(hub.ReviewStateReplaced); err != nil {
			return err
		}
		if _, err := c.putReview(v, actions.ReviewGiven); err != nil {
			return err
		}
	}

	v := hub.Review{
		Handoff: handoff, Machine: e.Machine, Repository: e.Repository, Commit: q.commit, Base: q.base, Approved: q.since, Authors: q.authors,
		Reviewer: q.who, State: hub.ReviewStateWaiting, Findings: []hub.ReviewFinding{}, Difference: q.patch.SHA256, Note: shorten.Bytes(q.note, maxReason), AskedAt: c.now,
	}
	if handoff == "" {
		v.Entry = e.ID
	}
	if v.Asked, err = c.reviewers(v); err != nil {
		return err
	}
	if len(v.Asked) == 0 { // no agent may review it
		v.Reviewer = string(hub.Operator)
		v.Asked = []hub.AgentID{hub.Operator}
	}
	if v, err = c.putReview(v, actions.ReviewRequested); err != nil {
		return err
	}
	return c.tellReviewers(v, q)
}

// putReview stores a review with its journal entry.
func (c *change) putReview(v hub.Review, action actions.Action) (hub.Review, error) {
	id, err := c.tx.WriteLandings().PutReview(v)
	if err != nil {
		return v, err
	}
	v.ID = id
	v.Revision++
	_, err = c.tx.Append(c.actor.Entry(c.now, action, string(id), struct {
		Handoff  hub.HandoffID   `json:"handoff,omitempty"`
		Entry    hub.LandingID   `json:"entry,omitempty"`
		Commit   string          `json:"commit"`
		Reviewer string          `json:"reviewer"`
		State    hub.ReviewState `json:"state"`
		Verdict  string          `json:"verdict,omitempty"`
		Findings int             `json:"findings,omitempty"`
		Digest   string          `json:"sha256"`
	}{v.Handoff, v.Entry, v.Commit, v.Reviewer, v.State, v.Verdict, len(v.Findings), v.Digest()}))
	if err != nil {
		return v, err
	}
	subject, err := c.subjectOf(v)
	if err != nil {
		return v, err
	}
	return v, c.progress(subject, func(p *hub.Progress) {
		p.Review = reviewWords[v.State]
		if v.State == hub.ReviewStateChanges {
			p.Reason = fmt.Sprintf("%s wants changes", v.By)
		}
	})
}

// subjectOf returns the id of the handoff or the task whose work is reviewed; "" for none.
func (c *change) subjectOf(v hub.Review) (string, error) {
	if v.Handoff != "" || v.Entry == "" {
		return string(v.Handoff), nil
	}
	e, err := c.tx.Landings().Entry(v.Entry)
	return e.Subject(), ignoreMissing(err)
}

// reviewers returns the agents that are asked for a review.
func (c *change) reviewers(v hub.Review) ([]hub.AgentID, error) {
	if v.Reviewer == string(hub.Operator) {
		return []hub.AgentID{hub.Operator}, nil
	}
	role, isRole := strings.CutPrefix(v.Reviewer, hub.ReviewerRolePrefix)
	if !isRole {
		may, _, err := mayReview(c.tx, v, hub.AgentID(v.Reviewer))
		if err != nil || !may {
			return nil, err
		}
		return []hub.AgentID{hub.AgentID(v.Reviewer)}, nil
	}

	agents, err := c.tx.Agents()
	if err != nil {
		return nil, err
	}
	var out []hub.AgentID
	for _, a := range agents {
		hasRole, err := hasRole(c.tx, v, a, hub.Role(role))
		if err != nil {
			return nil, err
		}
		if !hasRole || a.State != hub.AgentActive {
			continue
		}
		may, _, err := mayReview(c.tx, v, a.ID)
		if err != nil {
			return nil, err
		}
		if may {
			out = append(out, a.ID)
		}
	}
	return out, nil
}

// hasRole reports whether an agent has a role, on the hub or in the team of the work.
func hasRole(r hub.Reader, v hub.Review, a hub.Agent, role hub.Role) (bool, error) {
	if a.Role == role {
		return true, nil
	}
	team, err := teamOf(r, v)
	if err != nil || team == "" {
		return false, ignoreMissing(err)
	}
	members, err := r.Teamspaces().Members(hub.MemberQuery{Team: team, Agent: a.ID, Limit: maxListed})
	return slices.ContainsFunc(members, func(m hub.Member) bool { return m.Role == role && m.Until.IsZero() }), err
}

// teamOf returns the team of the handoff or the task whose work is reviewed; "" for none.
func teamOf(r hub.Reader, v hub.Review) (hub.TeamID, error) {
	if v.Handoff != "" {
		h, err := r.Handoff(v.Handoff)
		return h.Team, err
	}
	if v.Entry == "" {
		return "", nil
	}
	e, err := r.Landings().Entry(v.Entry)
	if err != nil || e.Task == "" {
		return "", err
	}
	t, err := r.Teamspaces().Task(e.Task)
	return t.Team, err
}

func ignoreMissing(err error) error {
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil
	}
	return err
}

// mayReview reports whether an agent may review a change, else why not: it is none of the authors,
// and no launch owns it together with one of them.
func mayReview(r hub.Reader, v hub.Review, agent hub.AgentID) (may bool, why string, err error) {
	if agent == hub.Operator {
		return true, "", nil
	}
	if slices.Contains(v.Authors, agent) {
		return false, fmt.Sprintf("%s made a part of the change", agent), nil
	}
	own, err := launches(r, agent)
	if err != nil {
		return false, "", err
	}
	for _, author := range v.Authors {
		others, err := launches(r, author)
		if err != nil {
			return false, "", err
		}
		for label := range others {
			if own[label] {
				return false, fmt.Sprintf("%s and %s belong to one launch", agent, author), nil
			}
		}
	}
	return true, "", nil
}

// launchPrefix begins the label of a key that a launch made.
const launchPrefix = "launch-"

// launches returns the launches that own an agent, by the labels of their keys, and the agents
// that began its runs.
func launches(r hub.Reader, agent hub.AgentID) (map[string]bool, error) {
	out := map[string]bool{}
	keys, err := r.Keys(agent)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	for _, k := range keys {
		if strings.HasPrefix(k.Label, launchPrefix) {
			out[k.Label] = true
		}
	}
	return out, nil
}

// tellReviewers sends the question with the difference.
func (c *change) tellReviewers(v hub.Review, q *question) error {
	summary := fmt.Sprintf("review %s: %s", v.Subject(), q.title)
	if q.since != "" {
		summary = fmt.Sprintf("review %s again: %s changed since the approval of %.12s", v.Subject(), q.title, q.since)
	}
	members := map[string]any{"review": v.ID, "commit": v.Commit, "repository": v.Repository, "reviewer": v.Reviewer}
	if v.Handoff != "" {
		members["handoff_id"] = v.Handoff
	} else {
		members["landing"] = v.Entry
	}
	if v.Note != "" {
		members["checks"] = v.Note
	}
	n := notice{
		to: v.Asked, priority: hub.PriorityHigh, summary: summary, members: members, artifacts: []hub.ArtifactRef{q.patch},
		next: fmt.Sprintf("read the difference, then answer: acp_handoff with action review, handoff_id %s and verdict approve, or changes with findings; or parley review %s approve", v.Subject(), v.Subject()),
	}
	if slices.Contains(v.Asked, hub.Operator) {
		n.members[hub.NoticeMember] = hub.NoticeSubject{Kind: hub.NoticeReview, ID: string(v.ID)}
		n.next = fmt.Sprintf("parley review %s approve, or changes --finding PATH:LINE:TEXT", v.ID)
	}
	return c.post(n)
}

// An Answer is the answer of a reviewer.
type Answer struct {
	Verdict  string // VerdictApprove or VerdictChanges
	Findings []hub.ReviewFinding
}

// check refuses an answer that is not well formed.
func (a Answer) check(op string) error {
	switch {
	case a.Verdict != hub.VerdictApprove && a.Verdict != hub.VerdictChanges:
		return hub.Errorf(hub.CodeInvalid, op, "verdict must be approve or changes, got %.50q", a.Verdict)
	case a.Verdict == hub.VerdictChanges && len(a.Findings) == 0:
		return hub.Errorf(hub.CodeInvalid, op, "changes need at least one finding").WithHint("findings: path, line and text; --finding PATH:LINE:TEXT")
	case len(a.Findings) > maxFindings:
		return hub.Errorf(hub.CodeTooLarge, op, "at most %d findings are allowed", maxFindings)
	}
	for _, f := range a.Findings {
		isGood := f.Path != "" && f.Text != "" && f.Line >= 0 && len(f.Path) <= maxRef && len(f.Text) <= maxFindingText
		if !isGood {
			return hub.Errorf(hub.CodeInvalid, op, "a finding needs a path, a line from 0 and a text of at most %d bytes", maxFindingText)
		}
	}
	return nil
}

// ParseFinding reads PATH:LINE:TEXT. A path may have colons: the first number between two of them
// is the line.
func ParseFinding(text string) (hub.ReviewFinding, error) {
	parts := strings.Split(text, ":")
	for i := 1; i < len(parts)-1; i++ {
		if n, err := strconv.Atoi(parts[i]); err == nil && n >= 0 {
			return hub.ReviewFinding{Path: strings.Join(parts[:i], ":"), Line: n, Text: strings.TrimSpace(strings.Join(parts[i+1:], ":"))}, nil
		}
	}
	return hub.ReviewFinding{}, hub.Errorf(hub.CodeInvalid, "landing.ParseFinding", "a finding is PATH:LINE:TEXT, got %.100q", text)
}

// Give answers a review: that of a handoff, of an entry, or by its own id.
func (s *Service) Give(ctx context.Context, actor hub.Caller, id string, a Answer) (out hub.Review, err error) {
	const op = "landing.Give"
	if err := a.check(op); err != nil {
		return out, err
	}
	err = s.update(ctx, actor, nil, func(c *change) error {
		v, err := findReview(c.tx, id)
		if err != nil {
			return err
		}
		if err := c.mayAnswer(op, v); err != nil {
			return err
		}
		next := hub.ReviewStateApproved
		if a.Verdict == hub.VerdictChanges {
			next = hub.ReviewStateChanges
		}
		if v, err = v.Advance(next); err != nil {
			return err
		}
		v.Verdict = a.Verdict
		v.By = actor.ID
		v.Findings = append([]hub.ReviewFinding{}, a.Findings...)
		v.GivenAt = c.now
		if out, err = c.putReview(v, actions.ReviewGiven); err != nil {
			return err
		}
		return c.afterReview(out)
	})
	return out, err
}

// findReview returns the review that waits for an answer, by the id of its handoff, its entry or
// its own.
func findReview(r hub.Reader, id string) (hub.Review, error) {
	const op = "landing.Review"
	q := hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Limit: 1}
	switch {
	case hub.ReviewID(id).Number() > 0:
		v, err := r.Landings().Review(hub.ReviewID(id))
		if hub.CodeOf(err) == hub.CodeNotFound {
			err = hub.Errorf(hub.CodeNotFound, op, "no review %s", id).WithHint("{reviews} lists them")
		}
		return v, err
	case hub.LandingID(id).Number() > 0:
		q.Entry = hub.LandingID(id)
		e, err := r.Landings().Entry(q.Entry)
		if ignoreMissing(err) != nil {
			return hub.Review{}, err
		}
		if e.Handoff != "" {
			q.Entry = ""
			q.Handoff = e.Handoff
		}
	default:
		q.Handoff = hub.HandoffID(id)
	}
	found, err := r.Landings().Reviews(q)
	if err == nil && len(found) == 0 {
		err = hub.Errorf(hub.CodeNotFound, op, "no review of %.100s waits for an answer", id).WithHint("{reviews} lists them")
	}
	if err != nil {
		return hub.Review{}, err
	}
	return found[0], nil
}

// mayAnswer refuses callers that may not answer a review.
func (c *change) mayAnswer(op string, v hub.Review) error {
	if c.actor.IsOperator() {
		return nil
	}
	if c.actor.Paused {
		return hub.Errorf(hub.CodeDenied, op, "%s is paused", c.actor.ID)
	}
	may, why, err := mayReview(c.tx, v, c.actor.ID)
	if err != nil {
		return err
	}
	if !may {
		return hub.Errorf(hub.CodeDenied, op, "another agent must review it: %s", why)
	}
	if slices.Contains(v.Asked, c.actor.ID) {
		return nil
	}
	if role, ok := strings.CutPrefix(v.Reviewer, hub.ReviewerRolePrefix); ok { // the role came later than the question
		a, err := c.tx.Agent(c.actor.ID)
		if err != nil {
			return err
		}
		has, err := hasRole(c.tx, v, a, hub.Role(role))
		if err != nil || has {
			return err
		}
	}
	return hub.Errorf(hub.CodeDenied, op, "%s was asked to review it, not %s", v.Reviewer, c.actor.ID)
}

// afterReview moves the entry of a review that was answered, and tells the owner.
func (c *change) afterReview(v hub.Review) error {
	entries, err := c.waitingFor(v)
	if err != nil {
		return err
	}
	if v.State == hub.ReviewStateChanges {
		return c.wantChanges(v, entries)
	}
	for _, e := range entries {
		p, err := policyOf(c.tx, e.Queue())
		if err != nil {
			return ignoreMissing(err)
		}
		if _, err := c.admit(p, e, &question{who: v.Reviewer, commit: v.Commit}); err != nil {
			return err
		}
	}
	owners, err := c.ownersOf(v, entries)
	if err != nil {
		return err
	}
	return c.post(notice{
		to: owners, priority: hub.PriorityNormal, summary: fmt.Sprintf("%s approved %.12s of %s", v.By, v.Commit, v.Subject()),
		members: map[string]any{"review": v.ID, "commit": v.Commit, "verdict": v.Verdict},
	})
}

// waitingFor returns the entries that wait for a review.
func (c *change) waitingFor(v hub.Review) (out []hub.LandingEntry, err error) {
	if v.Entry != "" {
		e, err := c.tx.Landings().Entry(v.Entry)
		if err == nil && e.Waits == hub.WaitsForReview && e.Commit == v.Commit {
			out = append(out, e)
		}
		return out, ignoreMissing(err)
	}
	all, err := c.tx.Landings().Entries(hub.LandingQuery{Subject: string(v.Handoff), States: []hub.LandingState{hub.EntryWaiting}, Limit: maxListed})
	for _, e := range all {
		if e.Waits == hub.WaitsForReview && e.Commit == v.Commit {
			out = append(out, e)
		}
	}
	return out, err
}

// wantChanges returns the entries of a review, or tells the owner of the work that the reviewer
// wants changes.
func (c *change) wantChanges(v hub.Review, entries []hub.LandingEntry) error {
	reason := fmt.Sprintf("%s wants changes: %s", v.By, findingsText(v.Findings))
	for _, e := range entries {
		f := refusal{reason: reason, repair: "repair the findings", findings: v.Findings}
		if err := c.returned(e, f); err != nil {
			return err
		}
	}
	if len(entries) > 0 {
		return nil
	}
	owners, err := c.ownersOf(v, nil)
	if err != nil {
		return err
	}
	next, err := c.giveBack(hub.LandingEntry{Handoff: v.Handoff}, refusal{reason: reason, repair: "repair the findings"})
	if err != nil {
		return err
	}
	return c.post(notice{
		to: owners, priority: hub.PriorityHigh, summary: fmt.Sprintf("%s wants changes in %s: %s", v.By, v.Subject(), findingsText(v.Findings)), next: next,
		members: map[string]any{"review": v.ID, "commit": v.Commit, "verdict": v.Verdict, "findings": v.Findings[:min(len(v.Findings), maxTexts)]},
	})
}

// findingsText returns findings as one line.
func findingsText(all []hub.ReviewFinding) string {
	var parts []string
	for _, f := range all[:min(len(all), 3)] {
		parts = append(parts, fmt.Sprintf("%s:%d: %s", f.Path, f.Line, shorten.Line(f.Text, 80)))
	}
	if len(all) > 3 {
		parts = append(parts, fmt.Sprintf("%d more", len(all)-3))
	}
	return strings.Join(parts, "; ")
}

// ownersOf returns the agents that a review concerns: the owners of its entries, or of its handoff.
func (c *change) ownersOf(v hub.Review, entries []hub.LandingEntry) (out []hub.AgentID, err error) {
	for _, e := range entries {
		out = append(out, e.Owner)
	}
	if len(out) > 0 || v.Handoff == "" {
		return out, nil
	}
	h, err := c.tx.Handoff(v.Handoff)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return []hub.AgentID{h.To}, nil
}

// sweepReviews reminds reviewers that are silent, once, and then tells the operator.
func (s *Service) sweepReviews(ctx context.Context) error {
	at := s.clock.Now()
	s.mu.Lock()
	isEarly := at.Sub(s.swept.Time) < sweepEvery
	if !isEarly {
		s.swept = at
	}
	s.mu.Unlock()
	if isEarly {
		return nil
	}
	return hub.Alone(ctx, s.store, "landing.Reviews", 2*sweepEvery, func(store hub.Store) error {
		waiting, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.Review, error) {
			return r.Landings().Reviews(hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Limit: maxListed})
		})
		if err != nil {
			return err
		}
		now := s.clock.Now()
		for _, v := range waiting {
			isLate := now.Sub(v.AskedAt.Time) >= s.respond && v.RemindedAt.IsZero()
			isSilent := !v.RemindedAt.IsZero() && now.Sub(v.RemindedAt.Time) >= s.respond && v.ToldAt.IsZero()
			if !isLate && !isSilent {
				continue
			}
			if err := s.update(ctx, self, nil, func(c *change) error { return c.remind(v.ID, isSilent) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// remind reminds the reviewers of a review, or tells the operator that they are silent.
func (c *change) remind(id hub.ReviewID, silent bool) error {
	v, err := c.tx.Landings().Review(id)
	if err != nil || v.State != hub.ReviewStateWaiting {
		return err
	}
	spoken := int(c.now.Sub(v.AskedAt.Time).Minutes())
	about := hub.NoticeSubject{Kind: hub.NoticeReview, ID: string(v.ID)}
	if silent {
		v.ToldAt = c.now
	} else {
		v.RemindedAt = c.now
	}
	if v, err = c.putReview(v, actions.ReviewRequested); err != nil {
		return err
	}
	if silent {
		return c.tellOperator(fmt.Sprintf("%s has not reviewed %s for %d min", hub.JoinWords(v.Asked), v.Subject(), spoken), fmt.Sprintf("parley review %s approve, or changes", v.ID), about)
	}
	return c.post(notice{
		to: v.Asked, priority: hub.PriorityHigh, summary: fmt.Sprintf("the review of %s has waited for you for %d min", v.Subject(), spoken),
		next:    fmt.Sprintf("answer: acp_handoff with action review, handoff_id %s and verdict approve or changes; or parley review %s approve", v.Subject(), v.Subject()),
		members: map[string]any{"review": v.ID, hub.NoticeMember: about},
	})
}
