package contract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A Declaration says which parts of a contract a repository uses.
type Declaration struct {
	InContract
	As
	Parts  []string `json:"parts,omitempty"` // none: everything
	Source string   `json:"source,omitempty"`
	Remove bool     `json:"remove,omitempty"` // the repository does not use the contract any more
}

// A Used is a declared use of a contract.
type Used struct {
	Contract   string        `json:"contract"` // its name
	ID         string        `json:"contract_id"`
	Repository string        `json:"repository"`
	Parts      []string      `json:"parts"` // none: everything
	Source     string        `json:"source,omitempty"`
	DeclaredAt coord.Instant `json:"declared_at"`
	Removed    bool          `json:"removed,omitempty"`
	Warnings   []string      `json:"warnings,omitempty"`
}

// Use declares that the caller's repository is a consumer of a contract, or no longer is. A
// version that waits for consumers is judged again for it.
func (s *Service) Use(ctx context.Context, caller hub.Caller, d Declaration) (Used, error) {
	const op = "contract.Use"
	if err := required(op, "contractId", string(d.Contract)); err != nil {
		return Used{}, err
	}
	if len(d.Parts) > federation.MaxParts {
		return Used{}, hub.Errorf(hub.CodeTooLarge, op, "too many parts: %d, a consumer can name at most %d", len(d.Parts), federation.MaxParts)
	}
	parts := slices.Compact(slices.Sorted(slices.Values(d.Parts)))

	// The comparison is made before the transaction, and again if the contract has moved.
	for range judgeTries {
		judged, err := s.judgeHead(ctx, caller, d.InContract, parts)
		if err != nil {
			return Used{}, err
		}
		out, err := s.use(ctx, op, caller, d, parts, judged)
		if !errors.Is(err, errMoved) {
			return out, err
		}
	}
	return Used{}, hub.Errorf(hub.CodeConflict, op, "%v", errMoved)
}

// use stores a declaration whose contract was judged.
func (s *Service) use(ctx context.Context, op string, caller hub.Caller, d Declaration, parts []string, judged headJudgement) (Used, error) {
	var out Used
	err := s.act(ctx, op, caller, d.Project, d.As, coord.PermitRespond, func(se *session, p coord.Project, by coord.Repo) error {
		read := liveContract
		if d.Remove {
			read = contract
		}
		was, err := read(se.tx, op, p.ID, d.Contract)
		if err == nil {
			err = s.mayAnswer(op, caller, by)
		}
		if err == nil && was.Terms.Provider == by.ID {
			err = hub.Errorf(hub.CodeInvalid, op, "%s provides %s and cannot be its consumer", by.Name, was.Name)
		}
		if err != nil {
			return err
		}

		// The first declaration keeps its time, so that a consumer stays as old as it is.
		known, declared := was.Terms.Use(by.ID)
		at := lastUse(was.Terms, by.ID).After(s.o.Clock)
		u := coord.Use{Repo: by.ID, Parts: parts, Source: d.Source, Declared: at, At: at, Removed: d.Remove}
		if declared {
			u.Declared = known.Declared
		}
		if d.Remove && !declared {
			return hub.Errorf(hub.CodeNotFound, op, "%s did not declare that it uses %s", by.Name, was.Name)
		}
		if was.Version != judged.version || !bytes.Equal(was.Content, judged.content) {
			return errMoved
		}

		c := was
		c.Terms = withUse(c.Terms, u)
		c = s.askAgain(c, p, by, u, judged.judgement)
		if err := federation.Check(c); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutContract(c, was); err != nil {
			return err
		}
		out = usedOf(c, by, u)
		if !d.Remove {
			out.Warnings = judged.warnings
		}
		return se.recordContract(actions.ContractUsed, p, by, was, c, "used")
	})
	return out, err
}

// lastUse returns the time of the last change of a repository's use, removed or not.
func lastUse(t coord.Terms, repo coord.RepoID) (at coord.Instant) {
	for _, u := range t.Uses {
		if u.Repo == repo {
			at = u.At
		}
	}
	return at
}

// usedOf describes a use.
func usedOf(c coord.Contract, r coord.Repo, u coord.Use) Used {
	return Used{
		Contract: c.Name, ID: string(c.ID), Repository: r.Name, Parts: append([]string{}, u.Parts...), Source: u.Source, DeclaredAt: u.Declared, Removed: u.Removed,
	}
}

// missingParts warns about parts that a content of a contract does not have.
func missingParts(d compat.Document, version int, parts []string) (out []string) {
	if len(parts) == 0 {
		return nil
	}
	if d.Format() == compat.FormatCustom {
		return []string{"the content is custom and has no rules: every change of it is unknown for every part"}
	}
	for _, part := range parts {
		if !d.Has(part) {
			out = append(out, versionText(version)+" has no part "+part)
		}
	}
	return out
}

// A headJudgement is what is known about the newest content of a contract for a consumer that
// uses some parts.
type headJudgement struct {
	version  int
	content  json.RawMessage
	warnings []string // about the parts

	*judgement // compared with its base, for a consumer of the parts; nil if there is nothing to compare
}

// judgeHead compares the present content of a contract with its base for a consumer of some
// parts, before the transaction that stores its use.
func (s *Service) judgeHead(ctx context.Context, caller hub.Caller, in InContract, parts []string) (headJudgement, error) {
	var c coord.Contract
	q, err := hub.Read(ctx, s.store, func(r hub.Reader) (*question, error) {
		var err error
		c, err = contract(r, "contract.Use", in.Project, in.Contract)
		if err == nil {
			c, err = withVersions(r, c)
		}
		if err != nil {
			return nil, err
		}
		base, ok := baseOfHead(c)
		if !ok {
			return nil, nil
		}
		q, err := ask(r, c, base, c.Content, []compat.Consumer{{Parts: parts}})
		return &q, err
	})
	out := headJudgement{version: c.Version, content: c.Content}
	if err != nil {
		return out, err
	}
	if q == nil {
		out.warnings = missingParts(document(c, c.Content), c.Version, parts)
		return out, nil
	}
	j, err := s.comparer.answer(ctx, caller.ID, *q)
	if err != nil {
		return out, err
	}
	s.keepLater(ctx, j, c)
	out.warnings = missingParts(j.later, c.Version, parts)
	out.judgement = &j
	return out, nil
}

// askAgain returns a contract whose open version waits for the agreement of a consumer exactly
// if it is not compatible for the parts that the consumer declared. If the version waits for
// nobody any more, it is agreed.
func (s *Service) askAgain(c coord.Contract, p coord.Project, by coord.Repo, u coord.Use, j *judgement) coord.Contract {
	isOpen := c.Status == coord.ContractProposed || c.Status == coord.ContractNegotiating
	sameContent := j != nil && j.pair == pairOf(c, j.base.content, c.Content)
	isAsked := c.Terms.Provider != "" && by.ID != c.ProposedBy
	if !isOpen || !sameContent || !isAsked {
		return c
	}
	_, wasAsked := c.NeededConsumers()
	needed := !u.Removed && j.forThem.Consumers[0].Verdict != compat.Compatible
	if needed || wasAsked {
		c = withAsks(c, u.At, needed, by.ID)
	}
	if left, asked := c.NeededConsumers(); asked && len(left) == 0 && c.ProposedBy == c.Terms.Provider {
		next, ok := c.Status.After(coord.MoveAgree)
		if ok {
			c.Status = next
			c.UpdatedAt = later(c.UpdatedAt, c.Stamps.Seen[s.o.Self]).After(s.o.Clock)
			c.Stamps = c.Stamps.With(coord.Stamp{Member: coord.MemberStatus, Value: string(next), Version: c.Version, At: c.UpdatedAt, By: s.o.Self}, false)
		}
	}
	return advance(c, p)
}

// An Impact says which consumers of a contract a change affects.
type Impact struct {
	Contract string      `json:"contract"`
	From     int         `json:"from"`
	To       int         `json:"to"`
	Verdict  compat.Word `json:"verdict"`

	Consumers []Affected   `json:"consumers"`
	Ending    []EndingPart `json:"ending"` // parts that end or have ended
}

// An EndingPart is a part of a contract that ends or has ended, with the consumers that use it still.
type EndingPart struct {
	Part      string   `json:"part,omitempty"`  // "" for the whole contract
	Until     string   `json:"until,omitempty"` // the last day
	Withdrawn bool     `json:"withdrawn,omitempty"`
	Users     []string `json:"still_used_by"`
}

// String names the part and its end.
func (e EndingPart) String() string {
	what := cmp.Or(e.Part, "the whole contract")
	if e.Withdrawn {
		return what + " was withdrawn"
	}
	return what + " ends after " + e.Until
}

// endingParts returns the parts of a contract that end or have ended.
func endingParts(c coord.Contract, p coord.Project) []EndingPart {
	out := []EndingPart{}
	for _, e := range c.Terms.Ends {
		out = append(out, EndingPart{e.Part, e.Until, e.Withdrawn, usersOf(c, p, e.Part)})
	}
	return out
}

// An Affected is a consumer with the findings that touch its parts.
type Affected struct {
	Repository string           `json:"repository"`
	Verdict    compat.Word      `json:"verdict"`
	Parts      []string         `json:"parts"`            // none: everything
	Source     string           `json:"source,omitempty"` // the file in which they are declared
	DeclaredAt coord.Instant    `json:"declared_at"`
	Findings   []compat.Finding `json:"findings"`
	Missing    []string         `json:"missing,omitempty"`
}

// An ImpactQuery names a contract and perhaps a content that it might have next.
type ImpactQuery struct {
	InContract
	Content json.RawMessage `json:"content,omitempty"` // default the present content
}

// Impact returns the consumers of a contract with the findings that concern each: of a content
// that it might have next, or of the present one compared with the version in force.
func (s *Service) Impact(ctx context.Context, caller hub.Caller, q ImpactQuery) (Impact, error) {
	const op = "contract.Impact"
	got, err := s.comparison(ctx, op, caller, q.InContract, comparing{content: q.Content, head: true})
	if err != nil {
		return Impact{}, err
	}
	out := Impact{Contract: got.contract.Name, From: got.from, To: got.to, Verdict: got.verdict.Verdict, Consumers: []Affected{}, Ending: endingParts(got.contract, got.project)}
	for _, one := range got.verdict.Consumers {
		r, _ := got.project.RepoNamed(one.Repository)
		u, _ := got.contract.Terms.Use(r.ID)
		a := Affected{
			Repository: r.Name, Verdict: one.Verdict, Parts: append([]string{}, u.Parts...), Source: u.Source, DeclaredAt: u.Declared,
			Findings: []compat.Finding{}, Missing: one.Missing,
		}
		for _, i := range one.Findings {
			a.Findings = append(a.Findings, got.verdict.Findings[i])
		}
		out.Consumers = append(out.Consumers, a)
	}
	return out, nil
}

// comparing says which contents of a contract to compare.
type comparing struct {
	from    int             // 0: the version before to, or the base of content
	to      int             // 0: the newest
	content json.RawMessage // in place of to
	head    bool            // compare the newest with its base
}

// A compared is the verdict on two contents of a contract, for its consumers.
type compared struct {
	project  coord.Project
	contract coord.Contract // with its versions
	from, to int
	old, new json.RawMessage
	verdict  compat.Verdict
}

// comparison compares two contents of a contract.
func (s *Service) comparison(ctx context.Context, op string, caller hub.Caller, in InContract, q comparing) (compared, error) {
	var content json.RawMessage
	if given(q.content) != nil {
		var err error
		if content, err = federation.CompactContent(op, q.content); err != nil {
			return compared{}, err
		}
	}

	var asked question
	out, err := readIn(ctx, s, op, in.Project, func(r hub.Reader, p coord.Project) (compared, error) {
		c, err := contract(r, op, p.ID, in.Contract)
		if err == nil {
			c, err = withVersions(r, c)
		}
		out := compared{project: p, contract: c, to: cmp.Or(q.to, c.Version)}
		if err == nil {
			err = out.choose(q, content)
		}
		if err == nil {
			asked, err = ask(r, c, Base{Version: out.from, content: out.old}, out.new, consumersOf(c, p))
		}
		return out, err
	})
	if err != nil {
		return out, err
	}

	// A content that it might have next must be one that an update takes.
	c := out.contract
	if content != nil {
		later, err := checkContent(op, c.Type, c.Terms.Format, content)
		if err != nil {
			return out, err
		}
		asked.later = &later
	}
	j, err := s.comparer.answer(ctx, caller.ID, asked)
	if err != nil {
		return out, err
	}
	out.verdict = j.forThem
	if content == nil {
		s.keepLater(ctx, j, c)
	}
	return out, nil
}

// choose sets the two contents that are compared.
func (x *compared) choose(q comparing, content json.RawMessage) (err error) {
	c := x.contract
	x.from = q.from
	switch {
	case content != nil:
		x.new = content
		x.to = c.Version + 1
		if x.from == 0 {
			base := baseOf(c)
			x.from, x.old = base.Version, base.content
			return nil
		}
	case q.head && q.from == 0:
		x.new = c.Content
		base, ok := baseOfHead(c)
		if !ok {
			base = Base{Version: c.Version, content: c.Content}
		}
		x.from, x.old = base.Version, base.content
		return nil
	default:
		if x.from == 0 {
			x.from = max(x.to-1, 1)
		}
		if x.new, err = contentOf(c, x.to); err != nil {
			return err
		}
	}
	x.old, err = contentOf(c, x.from)
	return err
}

// An Announcement says that a part of a contract, or the whole, ends.
type Announcement struct {
	InContract
	As
	Part   string `json:"part,omitempty"`   // "" for the whole contract
	Until  string `json:"until,omitempty"`  // the last day, such as 2026-12-31, in UTC
	Anyway bool   `json:"anyway,omitempty"` // withdraw although consumers use it
}

// An Ended is a contract with the end of a part, and the consumers that still use the part.
type Ended struct {
	Contract coord.Contract
	Users    []string
}

// Deprecate announces the day on which a part of a contract, or the whole, ends, and tells its
// consumers.
func (s *Service) Deprecate(ctx context.Context, caller hub.Caller, a Announcement) (Ended, error) {
	const op = "contract.Deprecate"
	if err := required(op, "contractId", string(a.Contract), "until", a.Until); err != nil {
		return Ended{}, err
	}
	if err := s.futureDay(op, "until", a.Until); err != nil {
		return Ended{}, err
	}
	return s.end(ctx, op, caller, a, false)
}

// Withdraw ends a part of a contract, or the whole. It reports CodeConflict while consumers use
// it, unless it is to end anyway.
func (s *Service) Withdraw(ctx context.Context, caller hub.Caller, a Announcement) (Ended, error) {
	const op = "contract.Withdraw"
	if err := required(op, "contractId", string(a.Contract)); err != nil {
		return Ended{}, err
	}
	a.Until = ""
	return s.end(ctx, op, caller, a, true)
}

// futureDay reports CodeInvalid for a text that is no day, or a day that is over in UTC.
func (s *Service) futureDay(op, member, day string) error {
	end, ok := coord.EndOfDay(day)
	switch {
	case !ok:
		return hub.Errorf(hub.CodeInvalid, op, "%s must be a day such as 2026-12-31, got %.50q", member, day)
	case !end.After(s.o.Clock.Now().Time):
		return hub.Errorf(hub.CodeInvalid, op, "%s must not be in the past, got %s", member, day)
	}
	return nil
}

// end records the end of a part.
func (s *Service) end(ctx context.Context, op string, caller hub.Caller, a Announcement, withdrawn bool) (Ended, error) {
	var out Ended
	if err := s.checkPart(ctx, op, a); err != nil {
		return out, err
	}
	err := s.act(ctx, op, caller, a.Project, a.As, coord.PermitPropose, func(se *session, p coord.Project, by coord.Repo) error {
		was, err := contract(se.tx, op, p.ID, a.Contract)
		if err == nil {
			err = s.mayAnswer(op, caller, by)
		}
		if err == nil && was.Terms.Provider != "" && was.Terms.Provider != by.ID {
			provider, _ := p.Repo(was.Terms.Provider)
			err = hub.Errorf(hub.CodeDenied, op, "only %s, which provides %s, can end it", provider.Name, was.Name)
		}
		if err != nil {
			return err
		}

		users := usersOf(was, p, a.Part)
		if withdrawn && len(users) > 0 && !a.Anyway {
			return hub.Errorf(hub.CodeConflict, op, "%s still use %s", strings.Join(users, ", "), cmp.Or(a.Part, was.Name)).
				WithHint("ask them to declare that they do not use it any more, or withdraw it anyway: they are told")
		}

		c := was
		at := coord.Instant{}
		for _, e := range was.Terms.Ends {
			if e.Part == a.Part {
				at = e.At
			}
		}
		c.Terms.Ends = mergeEnds(c.Terms.Ends, []coord.Ending{{Part: a.Part, Until: a.Until, Withdrawn: withdrawn, At: at.After(s.o.Clock)}})
		if err := federation.Check(c); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutContract(c, was); err != nil {
			return err
		}
		out = Ended{c, users}
		se.concern = endConcern(p, c, a, withdrawn, users)
		if withdrawn {
			return se.recordContract(actions.ContractWithdrawn, p, by, was, c, "withdrawn")
		}
		return se.recordContract(actions.ContractDeprecated, p, by, was, c, "deprecated until "+a.Until)
	})
	return out, err
}

// checkPart reports CodeNotFound for a part that a contract does not have. Custom content has no
// parts that are known.
func (s *Service) checkPart(ctx context.Context, op string, a Announcement) error {
	if a.Part == "" {
		return nil
	}
	c, err := readIn(ctx, s, op, a.Project, func(r hub.Reader, p coord.Project) (coord.Contract, error) {
		c, err := contract(r, op, p.ID, a.Contract)
		if err != nil {
			return c, err
		}
		return withVersions(r, c)
	})
	if err != nil {
		return err
	}
	for _, content := range []json.RawMessage{c.Content, baseOf(c).content} { // the part may be gone from a version that waits
		if d := document(c, content); d.Format() == compat.FormatCustom || d.Has(a.Part) {
			return nil
		}
	}
	return hub.Errorf(hub.CodeNotFound, op, "version %d of %s has no part %.200q", c.Version, c.Name, a.Part)
}

// usersOf returns the names of the consumers that use a part of a contract; "" is the whole.
func usersOf(c coord.Contract, p coord.Project, part string) []string {
	users := []string{}
	finding := compat.Finding{Parts: []string{part}}
	for _, one := range consumersOf(c, p) {
		uses := part == "" || len(one.Parts) == 0 || slices.ContainsFunc(one.Parts, finding.Touches)
		if uses {
			users = append(users, one.Repository)
		}
	}
	return users
}

// A Policy is the policy of a project about updates that are not compatible.
type Policy struct {
	Breaking coord.BreakingPolicy `json:"breaking"`       // forbid, ask or sunset
	Date     string               `json:"date,omitempty"` // of a sunset: the last day on which consumers are asked
}

// policyOf returns the policy of a project.
func policyOf(p coord.Project) Policy {
	word, day := p.Breaking.Split()
	return Policy{word, day}
}

// A PolicyChange sets the policy of a project, or asks for it.
type PolicyChange struct {
	InProject
	Policy
}

// BreakingPolicy returns the policy of a project about updates that are not compatible, and
// sets it first if one is given. Only the project's owner, a coordinator or the operator may
// set it.
func (s *Service) BreakingPolicy(ctx context.Context, caller hub.Caller, c PolicyChange) (Policy, error) {
	const op = "contract.BreakingPolicy"
	if c.Breaking == "" && c.Date == "" {
		p, err := s.Project(ctx, caller, c.Project)
		return policyOf(p), err
	}
	if !caller.Permits(c.Project, coord.PermitWrite) {
		return Policy{}, hub.Errorf(hub.CodeDenied, op, "%s may not change project %s", caller.ID, c.Project)
	}
	value := c.Breaking
	switch {
	case !slices.Contains(coord.BreakingPolicies, c.Breaking):
		return Policy{}, hub.Errorf(hub.CodeInvalid, op, "unknown policy %q: use %s", c.Breaking, hub.JoinWords(coord.BreakingPolicies))
	case c.Breaking != coord.BreakingSunset && c.Date != "":
		return Policy{}, hub.Errorf(hub.CodeInvalid, op, "date is for the policy sunset alone")
	case c.Breaking == coord.BreakingSunset:
		if err := s.futureDay(op, "date", c.Date); err != nil {
			return Policy{}, err
		}
		value += coord.BreakingPolicy(" " + c.Date)
	}
	p, err := s.setProject(ctx, op, caller, c.Project, coord.MemberBreaking, string(value))
	return policyOf(p), err
}
