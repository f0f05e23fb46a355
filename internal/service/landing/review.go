package landing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// A question is the review that a change needs, read from its repository before the transaction.
type question struct {
	all       []string // the reviewers, each of whom has to approve: agents, role:ROLE, @ABILITY or operator
	word      string   // the one of them who gives the word that the change needs; "" if it needs none
	who       string   // the first of them who has not
	commit    string
	base      string
	since     string // the commit that was approved before; "" for none
	authors   []hub.AgentID
	patches   []hub.ArtifactRef // the difference, in parts
	size      int64             // of the difference in bytes
	cut       bool              // it is the beginning alone, so that the operator reviews it
	note      string
	title     string
	fewer     string             // why a change needs a review that neither its package nor the policy asks for
	takesBack string             // likewise
	judged    []hub.JudgeFinding // likewise, those with Word; the others are named
	criteria  []string           // by which the work succeeds, of its package
	others    []hub.AgentID      // the agents of another vendor, for such a reviewer
	absent    string             // why there is none
	holds     string             // the commit of the handoff whose work was queued as a branch or a commit
}

// whyOperator returns why the operator is asked instead of the reviewer.
func (q *question) whyOperator() string {
	if q.cut {
		return "the difference is too large for an agent"
	}
	return "each agent that is " + q.who + " made a part of the change"
}

// why returns the reasons for a review that nobody asked for by a policy or a package.
func (q *question) why() string {
	return joined(q.fewer, wordText(q.judged), q.takesBack)
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// isAsked reports whether a review is needed.
func (q *question) isAsked() bool { return q != nil && len(q.all) > 0 }

// handoffOf returns the handoff under which the review of an entry is kept: that of its work, or that of
// the package that asks for the review of the same commit; "" for one of the entry itself.
func (q *question) handoffOf(e hub.LandingEntry) hub.HandoffID {
	if e.Handoff == "" && q.holds == e.Commit && q.takesBack == "" {
		return e.Holder
	}
	return e.Handoff
}

// question returns the review that an entry needs, if any, with the difference to review.
func (s *Service) question(ctx context.Context, p hub.LandingPolicy, e hub.LandingEntry, piece *Piece) (*question, error) {
	target := ""
	var checks []string // that its work asks for
	if piece != nil {
		target = piece.Base
		checks = piece.Checks
	}
	if p.Into != "" {
		head, err := s.git.Branch(ctx, p.Repository, p.Into)
		if err != nil {
			return nil, err
		}
		target = head.ID
	}
	if e.Undoes == "" && len(e.Judged) == 0 {
		var err error
		if e.Judged, err = s.judged(ctx, p, target, e.Commit, slices.Concat(e.Checks, checks)); err != nil {
			return nil, err
		}
	}
	q, err := s.needs(ctx, p, e, piece)
	switch {
	case err != nil:
		return nil, err
	case !q.isAsked():
		return q, nil
	case e.Undoes != "":
		err = s.undoDifference(ctx, e, q)
	default:
		err = s.difference(ctx, p.Repository, target, e, q)
	}
	if err == nil && q.needsOther() {
		about := hub.Review{Handoff: q.handoffOf(e), Entry: e.ID, Repository: e.Repository, Authors: q.authors}
		q.others, q.absent, err = s.otherVendors(ctx, about)
	}
	return q, err
}

// needs returns the reviewers that an entry needs. The reviewer of its package and the one of the policy
// both have to approve. A change with fewer tests than before, that changes what judges it, or that takes
// back the work of others, needs a word in any case: of the reviewer of the policy, else of the operator.
// A reviewer that agents chose among themselves never gives it. What is known of that is in the entry, and
// belongs to its commit.
func (s *Service) needs(ctx context.Context, p hub.LandingPolicy, e hub.LandingEntry, piece *Piece) (*question, error) {
	q := &question{commit: e.Commit, title: e.Ref, authors: []hub.AgentID{e.Owner}, fewer: e.Fewer, takesBack: e.TakesBack, judged: e.Judged}
	wants := func(who string) {
		if who != "" && who != hub.ReviewerNone && !slices.Contains(q.all, who) {
			q.all = append(q.all, who)
		}
	}
	if piece == nil && e.Holder != "" && s.work != nil {
		got, err := s.work.Piece(ctx, hub.Caller{ID: hub.Self, Auditor: true}, Subject{Handoff: e.Holder})
		if ignoreMissing(err) != nil {
			return nil, err
		}
		piece = &got
		q.holds = got.Commit
	}
	if piece != nil && e.Undoes == "" {
		wants(piece.Review)
		q.authors = append(q.authors, piece.Owner)
		q.authors = append(q.authors, piece.Authors...)
		q.note = piece.Note
		q.title = cmp.Or(piece.Title, e.Ref)
		q.criteria = piece.Criteria
		q.fewer = cmp.Or(q.fewer, piece.Fewer)
	}
	for _, who := range e.Asks {
		wants(who)
	}
	if e.Undoes == "" || q.takesBack != "" {
		wants(p.Review)
	}
	if q.why() != "" {
		q.word = wordOf(p, q.all)
		wants(q.word)
	}
	for _, text := range []string{q.fewer, wordText(q.judged), q.takesBack} {
		if !strings.Contains(q.note, text) {
			q.note = joined(q.note, text)
		}
	}
	if len(q.all) == 0 || e.Waives(hub.GateReview) {
		q.all = nil
		q.word = ""
		return q, nil
	}
	q.who = q.all[0]
	return q, nil
}

// wordOf returns who gives the word for what judges a change, for fewer tests and for the work of others:
// the reviewer of the policy, else the operator. Where no policy lets changes land, the reviewer of the
// package has it, if there is one.
func wordOf(p hub.LandingPolicy, all []string) string {
	switch {
	case p.Review != "" && p.Review != hub.ReviewerNone:
		return p.Review
	case p.Into == "" && len(all) > 0:
		return all[0]
	}
	return string(hub.Operator)
}

// difference completes a question with the difference to review: the one since the last approval,
// or the whole change from the target on.
func (s *Service) difference(ctx context.Context, repository, target string, e hub.LandingEntry, q *question) error {
	change, err := s.git.Change(ctx, repository, target, e.Commit, maxReviewed)
	if err != nil {
		return err
	}
	for _, name := range change.Authors {
		if id := hub.AgentID(name); id.Valid() { // exactly the name of an agent
			q.authors = append(q.authors, id)
		}
	}
	held, err := s.heldIn(ctx, repository, target, e.Commit)
	if err != nil {
		return err
	}
	for _, piece := range held {
		q.authors = append(q.authors, piece.Owner)
		q.authors = append(q.authors, piece.Authors...)
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
		since, err := s.git.Patch(ctx, repository, before, e.Commit, maxReviewed)
		if err == nil { // else the commit is gone, and the whole change is reviewed
			patch = since
			q.base = before
			q.since = before
		}
	}
	return s.keepPatch(q, patch)
}

// undoDifference completes a question with the difference of an undo.
func (s *Service) undoDifference(ctx context.Context, e hub.LandingEntry, q *question) error {
	patch, err := s.git.Patch(ctx, e.Repository, e.Commit, e.Commit+"^1", maxReviewed)
	if err != nil {
		return err
	}
	return s.keepPatch(q, patch)
}

// keepPatch stores a difference in parts, so that the hub can count those that a reviewer fetched.
func (s *Service) keepPatch(q *question, patch Patch) error {
	q.cut = q.cut || patch.Cut
	q.note = joined(append([]string{q.note}, patch.Named...)...)
	q.size = int64(len(patch.Text))
	for rest, first := patch.Text, true; first || rest != ""; first = false {
		part := rest[:min(len(rest), maxPart)]
		rest = rest[len(part):]
		ref, err := s.mail.KeepText(part)
		if err != nil {
			return err
		}
		ref.Description = "difference to review"
		if len(q.patches) > 0 || rest != "" {
			ref.Description = fmt.Sprintf("difference to review, part %d", len(q.patches)+1)
		}
		q.patches = append(q.patches, ref)
	}
	return nil
}

// reviewsOf returns the reviews of an entry's change, the newest first: its own, and those of the
// handoff whose work it has.
func reviewsOf(r hub.Reader, e hub.LandingEntry) (out []hub.Review, err error) {
	if e.Handoff == "" && e.ID != "" {
		if out, err = r.Landings().Reviews(hub.ReviewQuery{Entry: e.ID, Limit: maxListed}); err != nil {
			return nil, err
		}
	}
	handoff := cmp.Or(e.Handoff, e.Holder)
	if handoff == "" {
		return out, nil
	}
	of, err := r.Landings().Reviews(hub.ReviewQuery{Handoff: handoff, Limit: maxListed})
	return append(out, of...), err
}

// lastApproval returns the commit of a change that was approved last; "" for none.
func (s *Service) lastApproval(ctx context.Context, e hub.LandingEntry) (string, error) {
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Review, error) { return reviewsOf(r, e) })
	for _, v := range all {
		if v.Verdict == hub.VerdictApprove {
			return v.Commit, err
		}
	}
	return "", err
}

// reviewed returns the state of the reviews of an entry's commit; "" if one was not asked for. The
// reviewer of the question is then the first who has not approved.
func reviewed(r hub.Reader, e hub.LandingEntry, ask *question) (hub.ReviewState, error) {
	if !ask.isAsked() {
		return "", nil
	}
	all, err := reviewsOf(r, e)
	if err != nil {
		return "", err
	}
	for _, who := range ask.all {
		ask.who = who
		i := slices.IndexFunc(all, func(v hub.Review) bool { return ask.isAnsweredBy(v, who) })
		if i < 0 {
			return "", nil
		}
		if all[i].State != hub.ReviewStateApproved {
			return all[i].State, nil
		}
	}
	return hub.ReviewStateApproved, nil
}

// isAnsweredBy reports whether a review is the one of a reviewer about the commit, and about the files
// of others that it takes back. The one who gives the word has to know each finding that needs it: a check
// may have been added since.
func (q *question) isAnsweredBy(v hub.Review, who string) bool {
	isSame := v.Commit == q.commit && v.State != hub.ReviewStateReplaced && v.Answers(who)
	isNew := func(f hub.JudgeFinding) bool { return f.Word && !slices.Contains(v.Judged, f) }
	if who == q.word && slices.ContainsFunc(q.judged, isNew) {
		return false
	}
	return isSame && (q.takesBack == "" || v.TakesBack == q.takesBack)
}

// ask asks for the review of a commit, unless it was asked already. Reviews of earlier commits of
// the change are over.
func (c *change) ask(handoff hub.HandoffID, e hub.LandingEntry, q *question) error {
	e.Handoff = handoff
	before, err := reviewsOf(c.tx, e)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(before, func(v hub.Review) bool { return q.isAnsweredBy(v, q.who) }) {
		return nil
	}
	for _, v := range before {
		isOwn := v.Handoff == handoff && (handoff != "" || v.Entry == e.ID)
		isOther := v.Commit == q.commit && !v.Answers(q.who)
		if v.State == hub.ReviewStateReplaced || !isOwn || isOther {
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
		Reviewer: q.who, State: hub.ReviewStateWaiting, Findings: []hub.ReviewFinding{}, Note: shorten.Bytes(q.note, maxReason), TakesBack: q.takesBack, Judged: q.judged, Size: q.size, AskedAt: c.now,
	}
	for i, ref := range q.patches {
		if i == 0 {
			v.Difference = ref.SHA256
		} else {
			v.Parts = append(v.Parts, ref.SHA256)
		}
	}
	if handoff == "" {
		v.Entry = e.ID
	}
	if v.Reviewer == hub.ReviewerOtherVendor {
		v.Criteria = q.criteria
		v.Asked = q.others[:min(len(q.others), 1)]
	} else if v.Asked, err = c.reviewers(v); err != nil {
		return err
	}
	if why := q.noOther(); why != "" { // it is asked for when one wakes
		return c.waitForOther(v, why)
	}
	if len(v.Asked) == 0 || q.cut { // no agent may review it
		v.For = v.Reviewer
		v.Reviewer = string(hub.Operator)
		v.Asked = []hub.AgentID{hub.Operator}
		why, err := absence(c.tx, q.who)
		if err != nil {
			return err
		}
		if why == "" && !q.cut && hub.AgentID(q.who).Valid() {
			if _, why, err = mayReview(c.tx, v, hub.AgentID(q.who)); err != nil {
				return err
			}
		}
		v.Note = shorten.Bytes(joined(v.Note, cmp.Or(why, q.whyOperator())), maxReason)
	}
	if v, err = c.putReview(v, actions.ReviewRequested); err != nil {
		return err
	}
	return c.tellReviewers(v, q)
}

// absence returns why a reviewer cannot be asked: no agent of that name, role or ability is on the hub;
// "" if there is one.
func absence(r hub.Reader, who string) (string, error) {
	if who == string(hub.Operator) || who == hub.ReviewerNone || who == hub.ReviewerOtherVendor {
		return "", nil
	}
	role, isRole := strings.CutPrefix(who, hub.ReviewerRolePrefix)
	ability, isAbility := strings.CutPrefix(who, hub.ReviewerAbilityPrefix)
	agents, err := r.Agents()
	if err != nil {
		return "", err
	}
	for _, a := range agents {
		isOne := a.ID == hub.AgentID(who)
		switch {
		case isRole:
			has, err := hasRole(r, hub.Review{}, a, hub.Role(role))
			if err != nil {
				return "", err
			}
			isOne = has
		case isAbility:
			isOne = slices.Contains(a.Can, ability)
		}
		if isOne && a.ID != hub.Operator && a.ID != hub.Self {
			return "", nil
		}
	}
	switch {
	case isRole:
		return "no agent on this hub has the role " + role, nil
	case isAbility:
		return "no agent on this hub has the ability " + ability, nil
	}
	return "no agent named " + who + " on this hub", nil
}

// reviewerExists refuses a reviewer that cannot be asked.
func (c *change) reviewerExists(op, who string) error {
	why, err := absence(c.tx, who)
	if err != nil || why == "" {
		return err
	}
	agents, err := c.tx.Agents()
	if err != nil {
		return err
	}
	var names []string
	for _, a := range agents[:min(len(agents), 20)] {
		if a.ID != hub.Operator && a.ID != hub.Self {
			names = append(names, string(a.ID))
		}
	}
	return hub.Errorf(hub.CodeInvalid, op, "review: %s", why).WithHint("agents: %s; or operator", hub.JoinWords(names))
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
	agents, err := c.tx.Agents()
	if err != nil {
		return nil, err
	}
	var out []hub.AgentID
	for _, a := range agents {
		isMeant, err := isMeant(c.tx, v, a)
		if err != nil {
			return nil, err
		}
		isNamed := a.ID == hub.AgentID(v.Reviewer) // a paused agent may answer later
		if !isMeant || (a.State != hub.AgentActive && !isNamed) {
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

// isMeant reports whether an agent is the reviewer of a review, or one of them.
func isMeant(r hub.Reader, v hub.Review, a hub.Agent) (bool, error) {
	if role, ok := strings.CutPrefix(v.Reviewer, hub.ReviewerRolePrefix); ok {
		return hasRole(r, v, a, hub.Role(role))
	}
	if ability, ok := strings.CutPrefix(v.Reviewer, hub.ReviewerAbilityPrefix); ok {
		return slices.Contains(a.Can, ability), nil
	}
	return a.ID == hub.AgentID(v.Reviewer), nil
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

// mayReview reports whether an agent may review a change, else why not: it is none of the authors, no
// launch owns it together with one of them, neither made the other, and it began no run of the work.
func mayReview(r hub.Reader, v hub.Review, agent hub.AgentID) (may bool, why string, err error) {
	if agent == hub.Operator {
		return true, "", nil
	}
	if slices.Contains(v.Authors, agent) {
		return false, fmt.Sprintf("%s made a part of the change", agent), nil
	}
	if began, err := hasBegunRun(r, v, agent); err != nil || began {
		return false, fmt.Sprintf("%s began a run of the work", agent), err
	}
	own, err := launches(r, agent)
	if err != nil {
		return false, "", err
	}
	made, err := maker(r, agent)
	if err != nil {
		return false, "", err
	}
	for _, author := range v.Authors {
		by, err := maker(r, author)
		switch {
		case err != nil:
			return false, "", err
		case made == author:
			return false, fmt.Sprintf("%s was made by %s, who made a part of the change", agent, author), nil
		case by == agent:
			return false, fmt.Sprintf("%s made the agent %s, who made a part of the change", agent, author), nil
		}
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

// hasBegunRun reports whether an agent began a run of the work that is reviewed: one for its handoff, or
// one of an author in the folder of the repository.
func hasBegunRun(r hub.Reader, v hub.Review, agent hub.AgentID) (bool, error) {
	runs, err := r.Runs(hub.RunQuery{By: agent, Limit: maxListed})
	isOfWork := func(run hub.Run) bool {
		isOfHandoff := v.Handoff != "" && run.Handoff == v.Handoff
		isIn := run.Dir == v.Repository || strings.HasPrefix(run.Dir, v.Repository+string(filepath.Separator))
		return isOfHandoff || (isIn && slices.Contains(v.Authors, run.Agent))
	}
	return slices.ContainsFunc(runs, isOfWork), err
}

// maker returns the agent whose key made another one; "" for an agent that the operator made, or whose
// beginning the journal does not have any more.
func maker(r hub.Reader, agent hub.AgentID) (hub.AgentID, error) {
	about, err := r.Journal(hub.JournalQuery{Subject: string(agent), Limit: maxListed})
	i := slices.IndexFunc(about, func(e hub.Entry) bool { return e.Action == actions.AgentAdded })
	if err != nil || i < 0 {
		return "", err
	}
	if by := about[i].Actor; by != hub.Operator && by != hub.Self {
		return by, nil
	}
	return "", nil
}

// launches returns the launches that own an agent, by the labels of their keys.
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
	if v.Reviewer == hub.ReviewerOtherVendor {
		return c.tellBlind(v, q.patches)
	}
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
		to: v.Asked, priority: hub.PriorityHigh, summary: summary, members: members, artifacts: q.patches[:min(len(q.patches), maxTexts)],
		next: fmt.Sprintf("read the whole difference (parley artifact get), then answer: acp_handoff with action review, handoff_id %s and verdict approve, or changes with findings; or parley land review %s approve", v.Subject(), v.Subject()),
	}
	if slices.Contains(v.Asked, hub.Operator) {
		n.members[hub.NoticeMember] = hub.NoticeSubject{Kind: hub.NoticeReview, ID: string(v.ID)}
		n.next = fmt.Sprintf("parley land review %s approve, or changes --finding PATH:LINE:TEXT", v.ID)
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
		return hub.Errorf(hub.CodeTooLarge, op, "at most %d findings are allowed, got %d", maxFindings, len(a.Findings))
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
	asked, err := hub.Read(ctx, s.store, func(r hub.Reader) (hub.Review, error) { return findReview(r, id) })
	if err != nil {
		return out, err
	}
	patches, err := s.partsOf(asked)
	if err != nil {
		return out, err
	}
	policies, err := s.policies(ctx)
	if err != nil {
		return out, err
	}
	further := &question{patches: patches}
	if slices.ContainsFunc(policies, func(p hub.LandingPolicy) bool { return p.Review == hub.ReviewerOtherVendor }) {
		if further.others, further.absent, err = s.otherVendors(ctx, asked); err != nil {
			return out, err
		}
	}
	err = s.update(ctx, actor, nil, func(c *change) error {
		v, err := findReview(c.tx, id)
		if err != nil {
			return err
		}
		if err := c.mayAnswer(op, v); err != nil {
			return err
		}
		if a.Verdict == hub.VerdictApprove {
			if err := c.hasRead(op, v); err != nil {
				return err
			}
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
		return c.afterReview(out, further)
	})
	return out, err
}

// partsOf returns the parts of the difference of a review.
func (s *Service) partsOf(v hub.Review) (out []hub.ArtifactRef, err error) {
	for _, part := range append([]string{v.Difference}, v.Parts...) {
		if part == "" {
			continue
		}
		ref, err := s.mail.Kept(part)
		if err != nil {
			return nil, err
		}
		ref.Description = "difference to review"
		out = append(out, ref)
	}
	return out, nil
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
		if e.Holder != "" { // the review of the handoff whose work it has, unless it has one of its own
			own, err := r.Landings().Reviews(q)
			if err != nil {
				return hub.Review{}, err
			}
			if len(own) == 0 {
				q.Entry = ""
				q.Handoff = e.Holder
			}
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
	a, err := c.tx.Agent(c.actor.ID) // its role may have come later than the question
	if err != nil {
		return err
	}
	if is, err := isMeant(c.tx, v, a); err != nil || is {
		return err
	}
	return hub.Errorf(hub.CodeDenied, op, "%s was asked to review it, not %s", v.Reviewer, c.actor.ID)
}

// hasRead refuses the approval of an agent that did not fetch all parts of the difference. The operator
// sees it elsewhere, too.
func (c *change) hasRead(op string, v hub.Review) error {
	if c.actor.IsOperator() {
		return nil
	}
	rest := v.Unfetched(c.actor.ID)
	if len(rest) == 0 {
		return nil
	}
	return hub.Errorf(hub.CodeConflict, op, "%s has not fetched the whole difference: %d of %d parts are missing", c.actor.ID, len(rest), 1+len(v.Parts)).
		WithHint("parley artifact get %s, then answer again", rest[0])
}

// Fetched records that an agent fetched an artifact whole: one that reviews it may then approve it.
func (s *Service) Fetched(ctx context.Context, actor hub.Caller, sha256 string) error {
	isAgent := actor.Kind == hub.CallerAgent || actor.Kind == hub.CallerRun
	if !isAgent {
		return nil
	}
	waiting, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]hub.Review, error) {
		return r.Landings().Reviews(hub.ReviewQuery{States: []hub.ReviewState{hub.ReviewStateWaiting}, Limit: maxListed})
	})
	isPart := func(v hub.Review) bool { return slices.Contains(v.Unfetched(actor.ID), sha256) }
	if err != nil || !slices.ContainsFunc(waiting, isPart) {
		return err
	}
	return s.update(ctx, actor, nil, func(c *change) error {
		for _, v := range slices.DeleteFunc(waiting, func(v hub.Review) bool { return !isPart(v) }) {
			v, err := c.tx.Landings().Review(v.ID)
			if err != nil || v.State != hub.ReviewStateWaiting || !isPart(v) {
				return err
			}
			fetched := maps.Clone(v.Fetched)
			if fetched == nil {
				fetched = map[hub.AgentID][]string{}
			}
			fetched[actor.ID] = append(slices.Clone(fetched[actor.ID]), sha256)
			v.Fetched = fetched
			if _, err := c.putReview(v, actions.ReviewRequested); err != nil {
				return err
			}
		}
		return nil
	})
}

// afterReview moves the entry of a review that was answered, and tells the owner. The parts of the
// difference in next, and the agents of another vendor, are for the next reviewer.
func (c *change) afterReview(v hub.Review, next *question) error {
	entries, err := c.waitingFor(v)
	if err != nil {
		return err
	}
	if v.State == hub.ReviewStateChanges {
		return c.wantChanges(v, entries)
	}
	if v.Handoff != "" && c.s.work != nil {
		posted, err := c.s.work.Reviewed(c.tx, v.Handoff, &v)
		if err != nil {
			return err
		}
		c.posted = append(c.posted, posted...)
	}
	for _, e := range entries {
		p, err := policyOf(c.tx, e.Queue())
		if err != nil {
			return ignoreMissing(err)
		}
		ask := &question{
			all: e.Reviewers, patches: next.patches, others: next.others, absent: next.absent, criteria: v.Criteria, commit: v.Commit, base: v.Base, since: v.Approved, authors: v.Authors, size: v.Size, note: v.Note, title: e.Ref, fewer: e.Fewer, takesBack: e.TakesBack, judged: e.Judged,
		}
		if len(ask.all) == 0 { // an entry of an earlier version
			ask.all = []string{cmp.Or(v.For, v.Reviewer)}
		}
		if ask.why() != "" {
			ask.word = wordOf(p, ask.all)
		}
		if _, err := c.admit(p, e, ask); err != nil {
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
	all, err := c.tx.Landings().Entries(hub.LandingQuery{States: []hub.LandingState{hub.EntryWaiting}, Limit: maxOpen})
	for _, e := range all {
		isOf := e.Handoff == v.Handoff || e.Holder == v.Handoff
		if isOf && e.Waits == hub.WaitsForReview && e.Commit == v.Commit {
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
	if h.From == h.To || h.From == v.By {
		return []hub.AgentID{h.To}, nil
	}
	return []hub.AgentID{h.To, h.From}, nil
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
			gone, err := hub.Read(ctx, store, func(r hub.Reader) (string, error) { return absence(r, v.Reviewer) })
			if err != nil {
				return err
			}
			if gone != "" && v.ToldAt.IsZero() {
				if err := s.update(ctx, self, nil, func(c *change) error { return c.tellGone(v.ID, gone) }); err != nil {
					return err
				}
				continue
			}
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

// tellGone tells the operator that the reviewer of a waiting review is not on the hub any more, and
// lets its entries say so.
func (c *change) tellGone(id hub.ReviewID, why string) error {
	v, err := c.tx.Landings().Review(id)
	if err != nil || v.State != hub.ReviewStateWaiting {
		return err
	}
	v.ToldAt = c.now
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
			e.Reason = "waits for the review of " + v.Reviewer + ": " + why
			e.Missing = missingReview(*e, v.Reviewer, why)
		})
		if err != nil {
			return err
		}
	}
	about := hub.NoticeSubject{Kind: hub.NoticeReview, ID: string(v.ID)}
	return c.tellOperator(fmt.Sprintf("the review of %s waits for %s: %s", v.Subject(), v.Reviewer, why), fmt.Sprintf("parley land review %s approve, or changes", v.ID), about)
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
		return c.tellOperator(fmt.Sprintf("%s has not reviewed %s for %d min", hub.JoinWords(v.Asked), v.Subject(), spoken), fmt.Sprintf("parley land review %s approve, or changes", v.ID), about)
	}
	return c.post(notice{
		to: v.Asked, priority: hub.PriorityHigh, summary: fmt.Sprintf("the review of %s has waited for you for %d min", v.Subject(), spoken),
		next:    fmt.Sprintf("answer: acp_handoff with action review, handoff_id %s and verdict approve or changes; or parley land review %s approve", v.Subject(), v.Subject()),
		members: map[string]any{"review": v.ID, hub.NoticeMember: about},
	})
}
