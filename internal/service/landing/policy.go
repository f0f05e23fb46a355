package landing

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// A Setting names what changes in a policy. Members that are not set leave it as it is.
type Setting struct {
	Folder string // in the repository
	Into   string // "" for the only branch with a policy

	Checks           []string // nil leaves them
	NoChecks         *bool
	Review           string // a reviewer; ReviewerNone opens the gate by name
	By               hub.LandingBy
	Batch            int
	Repeat           *int
	UnconcernedLands *bool
	NoContracts      *bool

	Reset   bool     // begin with the defaults
	Default []string // members, by their names in JSON, that get their default
}

// Bounds of a policy.
const maxRepeat = 3 // times that a failed check is run again

// check refuses a setting that is not well formed.
func (p Setting) check(op string) error {
	isBranch := p.Into != "" && len(p.Into) <= maxRef && !strings.ContainsAny(p.Into, " ~^:?*[\\\x00\n") && !strings.HasPrefix(p.Into, "-")
	switch {
	case !isBranch:
		return hub.Errorf(hub.CodeInvalid, op, "into must be the name of a branch, got %.100q", p.Into).WithHint("--into main")
	case len(p.Checks) > maxChecks:
		return hub.Errorf(hub.CodeTooLarge, op, "at most %d checks are allowed, got %d", maxChecks, len(p.Checks))
	case len(p.Checks) > 0 && p.NoChecks != nil && *p.NoChecks:
		return hub.Errorf(hub.CodeInvalid, op, "checks and no_checks exclude each other")
	case p.Review != "" && !hub.ValidReviewer(p.Review):
		return hub.Errorf(hub.CodeInvalid, op, "review must be an agent, role:ROLE, @ABILITY, other-vendor, operator or none, got %.100q", p.Review).WithHint("roles: %s", hub.JoinWords(hub.Roles))
	case p.By != "" && p.By != hub.LandingAuto && p.By != hub.LandingOperator:
		return hub.Errorf(hub.CodeInvalid, op, "by must be auto or operator, got %.50q", p.By)
	case p.Batch < 0 || p.Batch > maxBatch:
		return hub.Errorf(hub.CodeInvalid, op, "batch must be between 1 and %d, got %d", maxBatch, p.Batch)
	case p.Repeat != nil && (*p.Repeat < 0 || *p.Repeat > maxRepeat):
		return hub.Errorf(hub.CodeInvalid, op, "repeat must be between 0 and %d, got %d", maxRepeat, *p.Repeat)
	}
	return nil
}

// A View is a policy with everything that decides about its gates now.
type View struct {
	hub.LandingPolicy
	Required []string       `json:"required"` // checks that the repository requires, beside those of the policy
	Open     []hub.OpenGate `json:"open"`     // the gates that are open now
	Target   *Target        `json:"target,omitempty"`

	// Unchecked is why nothing lands: no check is asked for, and the operator did not allow that.
	Unchecked string `json:"unchecked,omitempty"`
	// Absent is why the reviewer cannot be asked.
	Absent string `json:"absent,omitempty"`
}

// Set makes changes land in a branch, or changes how they do: the members that the setting names,
// which it returns by their names in JSON. Only the operator may.
func (s *Service) Set(ctx context.Context, actor hub.Caller, p Setting) (view View, changed []string, err error) {
	const op = "landing.Set"
	if err := actor.OperatorOnly(op); err != nil {
		return View{}, nil, err
	}
	if p.Into == "" { // the branch of the only policy
		if known, err := s.Policy(ctx, p.Folder, ""); err == nil {
			p.Into = known.Into
		}
	}
	if err := p.check(op); err != nil {
		return View{}, nil, err
	}
	repository, err := s.git.Repository(ctx, p.Folder)
	if err != nil {
		return View{}, nil, err
	}
	if _, err := s.git.Branch(ctx, repository, p.Into); err != nil {
		return View{}, nil, err
	}
	known, err := s.checks.Known(ctx, repository)
	if err != nil {
		return View{}, nil, err
	}
	if p.Review == hub.ReviewerOtherVendor {
		if err := s.hasTwoVendors(ctx, op); err != nil {
			return View{}, nil, err
		}
	}
	for _, name := range p.Checks {
		if err := refuseCheck(op, repository, name, known); err != nil {
			return View{}, nil, err
		}
	}

	var out hub.LandingPolicy
	err = s.update(ctx, actor, nil, func(c *change) error {
		before, err := policyOf(c.tx, hub.LandingPolicy{Machine: s.machine, Repository: repository, Into: p.Into}.ID())
		isNew := hub.CodeOf(err) == hub.CodeNotFound
		if err != nil && !isNew {
			return err
		}
		if isNew || p.Reset {
			before = hub.LandingPolicy{Machine: s.machine, Repository: repository, Into: p.Into, Checks: []string{}, Review: hub.ReviewerNone, By: hub.LandingOperator, Batch: DefaultBatch, Open: before.Open, SetAt: before.SetAt}
		}
		out = p.apply(before, actor.ID, c.now)
		changed = changedMembers(before, out)
		if isNew || p.Reset {
			changed = p.named()
		}
		if err := c.allowed(op, p, out, isNew, known); err != nil {
			return err
		}
		out.SetAt = c.now
		out.NamedAt = hub.Time{}
		if err := c.tx.WriteLandings().PutPolicy(out); err != nil {
			return err
		}
		return c.recordPolicy(out, out.Digest())
	})
	return s.view(out, known), changed, err
}

// refuseCheck refuses a check that cannot count for landing.
func refuseCheck(op, repository, name string, known []Check) error {
	i := slices.IndexFunc(known, func(k Check) bool { return k.Name == name })
	switch {
	case i < 0:
		return hub.UnknownCheck(hub.CodeInvalid, op, repository, name, namesOf(known))
	case known[i].InPlace:
		return hub.Errorf(hub.CodeInvalid, op, "the check %s runs in place, which does not count for landing", name).WithHint("add a check that runs on the commit: {check.add}")
	}
	return nil
}

func namesOf(all []Check) (out []string) {
	for _, k := range all {
		out = append(out, k.Name)
	}
	return out
}

// apply returns a policy with the changes of the setting.
func (p Setting) apply(out hub.LandingPolicy, by hub.AgentID, now hub.Time) hub.LandingPolicy {
	out.Checks = slices.Clone(out.Checks)
	out.Open = slices.Clone(out.Open)
	flag := func(to *bool, v *bool) {
		if v != nil {
			*to = *v
		}
	}
	if p.Checks != nil {
		out.Checks = append([]string{}, p.Checks...)
		out.NoChecks = out.NoChecks && len(p.Checks) == 0
	}
	flag(&out.NoChecks, p.NoChecks)
	if p.NoChecks != nil && *p.NoChecks {
		out.Checks = []string{}
	}
	flag(&out.NoContracts, p.NoContracts)
	flag(&out.UnconcernedLands, p.UnconcernedLands)
	out.Review = cmp.Or(p.Review, out.Review)
	out.By = cmp.Or(p.By, out.By)
	out.Batch = cmp.Or(p.Batch, out.Batch)
	if p.Repeat != nil {
		out.Repeat = *p.Repeat
	}
	for _, member := range p.Default {
		setDefault(&out, member)
	}

	// A gate that was opened by name keeps its record until it is closed.
	isReviewOpen := out.Review == hub.ReviewerNone && (p.Review == hub.ReviewerNone || hasOpened(out, hub.GateReview))
	for _, g := range []struct {
		gate string
		open bool
	}{{hub.GateChecks, out.NoChecks}, {hub.GateReview, isReviewOpen}, {hub.GateContracts, out.NoContracts}} {
		record, known := out.Opened(g.gate)
		out.Open = slices.DeleteFunc(out.Open, func(o hub.OpenGate) bool { return o.Gate == g.gate })
		if !g.open {
			continue
		}
		if !known {
			record = hub.OpenGate{Gate: g.gate, By: by, At: now}
		}
		out.Open = append(out.Open, record)
	}
	return out
}

func hasOpened(p hub.LandingPolicy, gate string) bool {
	_, ok := p.Opened(gate)
	return ok
}

// setDefault gives a member of a policy its default.
func setDefault(p *hub.LandingPolicy, member string) {
	switch member {
	case "checks":
		p.Checks = []string{}
	case "no_checks":
		p.NoChecks = false
	case "review":
		p.Review = hub.ReviewerNone
		p.Open = slices.DeleteFunc(p.Open, func(o hub.OpenGate) bool { return o.Gate == hub.GateReview })
	case "by":
		p.By = hub.LandingOperator
	case "batch":
		p.Batch = DefaultBatch
	case "repeat":
		p.Repeat = 0
	case "unconcerned_lands":
		p.UnconcernedLands = false
	case "no_contracts":
		p.NoContracts = false
	}
}

// named returns the members that the setting names.
func (p Setting) named() []string {
	out := slices.Clone(p.Default)
	for member, isSet := range map[string]bool{
		"checks": p.Checks != nil, "no_checks": p.NoChecks != nil, "review": p.Review != "", "by": p.By != "", "batch": p.Batch != 0,
		"repeat": p.Repeat != nil, "unconcerned_lands": p.UnconcernedLands != nil, "no_contracts": p.NoContracts != nil,
	} {
		if isSet {
			out = append(out, member)
		}
	}
	slices.Sort(out)
	return append([]string{}, slices.Compact(out)...)
}

// changedMembers returns the names of the members in which two policies differ.
func changedMembers(a, b hub.LandingPolicy) []string {
	out := []string{}
	for _, m := range []struct {
		name string
		same bool
	}{
		{"batch", a.Batch == b.Batch}, {"by", a.By == b.By}, {"checks", slices.Equal(a.Checks, b.Checks)}, {"no_checks", a.NoChecks == b.NoChecks},
		{"no_contracts", a.NoContracts == b.NoContracts}, {"repeat", a.Repeat == b.Repeat}, {"review", a.Review == b.Review}, {"unconcerned_lands", a.UnconcernedLands == b.UnconcernedLands},
	} {
		if !m.same {
			out = append(out, m.name)
		}
	}
	return out
}

// allowed refuses a policy that would leave a gate open without saying so.
func (c *change) allowed(op string, p Setting, out hub.LandingPolicy, isNew bool, known []Check) error {
	if len(union(out, known, nil)) == 0 && !out.NoChecks {
		return hub.Errorf(hub.CodeInvalid, op, "%s", noCheck(out, known))
	}
	asksWho := isNew || p.Reset || slices.ContainsFunc(p.named(), func(m string) bool { return m == "by" || m == "review" })
	isUnreviewed := out.Review == hub.ReviewerNone && !hasOpened(out, hub.GateReview)
	if asksWho && out.By == hub.LandingAuto && isUnreviewed {
		return hub.Errorf(hub.CodeInvalid, op, "by auto needs a reviewer: --review WHO, or --no-review to land without one").
			WithHint("by operator asks you instead")
	}
	if p.Review == "" {
		return nil
	}
	return c.reviewerExists(op, out.Review)
}

// noCheck returns the sentence about a repository in which nothing would be checked, with the lines
// that end it.
func noCheck(p hub.LandingPolicy, known []Check) string {
	name := filepath.Base(p.Repository)
	usable := slices.DeleteFunc(slices.Clone(known), func(k Check) bool { return k.InPlace })
	if len(usable) == 0 {
		return fmt.Sprintf("no check is allowed in %s: parley check add test -- make test, or --no-checks to land unchecked", name)
	}
	return fmt.Sprintf("no check is asked for in %s: --check %s, or --no-checks to land unchecked", name, strings.Join(namesOf(usable), " or --check "))
}

// union returns the names of the checks that decide about a landing: those of the policy, those that
// the repository requires, and those that the work asks for. A required check that runs in place does
// not count for landing.
func union(p hub.LandingPolicy, known []Check, more []string) []string {
	out := slices.Clone(p.Checks)
	for _, k := range known {
		if k.Required && !k.InPlace {
			out = append(out, k.Name)
		}
	}
	out = append(out, more...)
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}

// view returns a policy with the checks that its repository requires and the gates that are open now.
func (s *Service) view(p hub.LandingPolicy, known []Check) View {
	v := View{LandingPolicy: p, Required: []string{}, Open: []hub.OpenGate{}}
	for _, k := range known {
		if k.Required && !k.InPlace {
			v.Required = append(v.Required, k.Name)
		}
	}
	if len(union(p, known, nil)) == 0 {
		g, _ := p.Opened(hub.GateChecks)
		if p.NoChecks {
			v.Open = append(v.Open, g)
		}
	}
	if g, _ := p.Opened(hub.GateReview); p.By == hub.LandingAuto && p.Review == hub.ReviewerNone {
		if g.At.IsZero() { // a policy of an earlier version
			g.At = p.SetAt
		}
		v.Open = append(v.Open, g)
	}
	if g, _ := p.Opened(hub.GateContracts); p.NoContracts {
		v.Open = append(v.Open, g)
	}
	v.Target = s.targetOf(p)
	return v
}

// View returns the policy of a branch with the gates that are open now.
func (s *Service) View(ctx context.Context, folder, into string) (View, error) {
	p, err := s.Policy(ctx, folder, into)
	if err != nil {
		return View{}, err
	}
	known, err := s.checks.Known(ctx, p.Repository)
	return s.view(p, known), err
}

// Views returns all policies of this machine with the gates that are open now.
func (s *Service) Views(ctx context.Context) ([]View, error) {
	all, err := s.policies(ctx)
	out := []View{}
	for _, p := range all {
		if p.Machine != s.machine {
			continue
		}
		known, err := s.checks.Known(ctx, p.Repository)
		if err != nil { // the repository is gone: its policy is shown
			s.log.Warn("cannot read the checks of a repository", "op", "landing.Views", "repository", p.Repository, "err", err)
		}
		v := s.view(p, known)
		if err == nil && len(union(p, known, nil)) == 0 && !p.NoChecks {
			v.Unchecked = noCheck(p, known)
		}
		if v.Absent, err = hub.Read(ctx, s.store, func(r hub.Reader) (string, error) { return absence(r, p.Review) }); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, err
}

// recordPolicy writes the journal entry about a policy; digest is "" for one that is removed.
func (c *change) recordPolicy(p hub.LandingPolicy, digest string) error {
	var open []string
	for _, o := range p.Open {
		open = append(open, o.Gate)
	}
	_, err := c.tx.Append(c.actor.Entry(c.now, actions.LandingSet, p.ID(), struct {
		Repository string        `json:"repository"`
		Into       string        `json:"into"`
		Checks     []string      `json:"checks,omitempty"`
		Review     string        `json:"review,omitempty"`
		By         hub.LandingBy `json:"by,omitempty"`
		Open       []string      `json:"open,omitempty"` // gates
		Off        bool          `json:"off,omitempty"`
		Digest     string        `json:"sha256,omitempty"`
	}{p.Repository, p.Into, p.Checks, p.Review, p.By, open, digest == "", digest}))
	return err
}

// Off ends the queue of a branch. Its open entries are cancelled.
func (s *Service) Off(ctx context.Context, actor hub.Caller, folder, into string) (hub.LandingPolicy, error) {
	const op = "landing.Off"
	if err := actor.OperatorOnly(op); err != nil {
		return hub.LandingPolicy{}, err
	}
	p, err := s.Policy(ctx, folder, into)
	if err != nil {
		return p, err
	}
	return p, s.update(ctx, actor, nil, func(c *change) error {
		open, err := c.tx.Landings().Entries(hub.LandingQuery{Queue: p.ID(), States: hub.OpenLandings, Limit: maxOpen})
		if err != nil {
			return err
		}
		for _, e := range open {
			if s.isMoving(e) {
				return hub.Errorf(hub.CodeConflict, op, "%s is landing now", e.ID).WithHint("try again in a moment")
			}
			_, err := c.advance(e, hub.EntryCancelled, actions.LandingCancelled, func(e *hub.LandingEntry) { e.Reason = "landing was turned off" })
			if err != nil {
				return err
			}
		}
		if err := c.tx.WriteLandings().RemovePolicy(p.ID()); err != nil {
			return err
		}
		return c.recordPolicy(p, "")
	})
}

// Policy returns the policy of a branch of the repository around a folder; of its only one if into
// is "".
func (s *Service) Policy(ctx context.Context, folder, into string) (hub.LandingPolicy, error) {
	const op = "landing.Policy"
	repository, err := s.git.Repository(ctx, folder)
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	all, err := s.policies(ctx)
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	all = slices.DeleteFunc(all, func(p hub.LandingPolicy) bool {
		return p.Machine != s.machine || p.Repository != repository || (into != "" && p.Into != into)
	})
	switch len(all) {
	case 0:
		return hub.LandingPolicy{}, hub.Errorf(hub.CodeNotFound, op, "landing is off for %s", repository).
			WithHint("the operator turns it on: parley land policy set --repo DIR --into BRANCH")
	case 1:
		return all[0], nil
	}
	var branches []string
	for _, p := range all {
		branches = append(branches, p.Into)
	}
	return hub.LandingPolicy{}, hub.Errorf(hub.CodeInvalid, op, "several branches of %s have a queue: %s", repository, strings.Join(branches, ", ")).WithHint("name one with into")
}

// policyOf returns a policy by its id.
func policyOf(r hub.Reader, id string) (hub.LandingPolicy, error) {
	all, err := r.Landings().Policies()
	if err != nil {
		return hub.LandingPolicy{}, err
	}
	i := slices.IndexFunc(all, func(p hub.LandingPolicy) bool { return p.ID() == id })
	if i < 0 {
		return hub.LandingPolicy{}, hub.Errorf(hub.CodeNotFound, "landing.Policy", "no queue %s", id)
	}
	return all[i], nil
}

// Targets returns a function that returns the branches of a repository with a landing policy: those that work
// lands in.
func Targets(store hub.Store) func(context.Context, hub.Repository) ([]string, error) {
	return func(ctx context.Context, repo hub.Repository) (branches []string, err error) {
		policies, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.LandingPolicy, error) { return r.Landings().Policies() })
		for _, p := range policies {
			if p.Machine == repo.Machine && p.Repository == repo.Path {
				branches = append(branches, p.Into)
			}
		}
		return branches, err
	}
}
