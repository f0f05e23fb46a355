package contract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A Base is the version of a contract with which a later content is compared.
type Base struct {
	Version int    `json:"version"`
	Why     string `json:"why"` // in_force, agreed or before

	content json.RawMessage
}

// The reasons for which a version is the base of a comparison.
const (
	baseInForce = "in_force" // the provider and its consumers rely on it
	baseAgreed  = "agreed"   // it was the last that was agreed
	baseBefore  = "before"   // it is the version before
)

// baseOf returns the version with which the next content of a contract is compared: the
// version in force, else the last agreed one, else the present one. c has its History.
func baseOf(c coord.Contract) Base {
	if f := c.Terms.InForce; f != nil {
		if content := contentWith(c, f.Version, f.Content); content != nil {
			return Base{f.Version, baseInForce, content}
		}
	}
	if c.Status.Reaches(coord.ContractAgreed) {
		return Base{c.Version, baseAgreed, c.Content}
	}
	if b, ok := lastAgreed(c); ok {
		return b
	}
	return Base{c.Version, baseBefore, c.Content}
}

// baseOfHead returns the version with which the present content of a contract is compared, and
// false if there is none: it is the first version, or the version in force itself.
func baseOfHead(c coord.Contract) (Base, bool) {
	if f := c.Terms.InForce; f != nil && f.Version < c.Version {
		if content := contentWith(c, f.Version, f.Content); content != nil {
			return Base{f.Version, baseInForce, content}, true
		}
	}
	if b, ok := lastAgreed(c); ok {
		return b, true
	}
	for _, v := range slices.Backward(c.History) {
		if !federation.IsFold(v) {
			return Base{v.Version, baseBefore, v.Content}, true
		}
	}
	return Base{}, false
}

// lastAgreed returns the newest version before the present one to which a repository agreed.
func lastAgreed(c coord.Contract) (Base, bool) {
	for _, a := range slices.Backward(c.Agreements) { // by version
		if a.Version >= c.Version {
			continue
		}
		if content := contentWith(c, a.Version, a.Content); content != nil {
			return Base{a.Version, baseAgreed, content}, true
		}
	}
	return Base{}, false
}

// contentWith returns the content of a version with a hash, or nil.
func contentWith(c coord.Contract, version int, hash string) json.RawMessage {
	if c.Version == version && coord.ContentHash(c.Content) == hash {
		return c.Content
	}
	for _, list := range [...][]coord.ContractVersion{c.History, c.Conflicts} {
		for _, v := range list {
			if v.Version == version && !federation.IsFold(v) && coord.ContentHash(v.Content) == hash {
				return v.Content
			}
		}
	}
	return nil
}

// checkContent reads the content of a contract. It reports CodeInvalid for a content that claims
// a format and breaks it: one whose format was chosen, an OpenAPI document or a JSON Schema.
// Other content is custom: two repositories may agree on anything.
func checkContent(op string, t coord.ContractType, format string, content json.RawMessage) (compat.Document, error) {
	if format != "" && !slices.Contains(compat.Formats, compat.Format(format)) {
		return compat.Document{}, hub.Errorf(hub.CodeInvalid, op, "unknown format %q: use json-schema, openapi, shape or custom", format)
	}
	d, err := compat.Read(content, &compat.ReadOptions{Format: compat.Format(format), Type: string(t)})
	var refused *compat.Refusal
	if !errors.As(err, &refused) {
		return d, err
	}
	claims := format != "" || refused.Format == compat.FormatOpenAPI || refused.Format == compat.FormatJSONSchema
	if !claims {
		return custom(content), nil
	}
	return compat.Document{}, hub.Errorf(hub.CodeInvalid, op, "content is no valid %s document: %v", cmp.Or(refused.Format, compat.Format(format)), refused).
		WithHint("correct it, or choose the format custom, which has no rules")
}

// consumersOf returns the consumers of a contract by name.
func consumersOf(c coord.Contract, p coord.Project) (all []compat.Consumer) {
	for _, u := range c.Terms.Consumers() {
		if r, ok := p.Repo(u.Repo); ok {
			all = append(all, compat.Consumer{Repository: r.Name, Parts: u.Parts})
		}
	}
	slices.SortFunc(all, func(a, b compat.Consumer) int { return strings.Compare(a.Repository, b.Repository) })
	return all
}

// effective returns the verdict that policies look at: the worst for a declared consumer, or
// that for a consumer of everything if none is declared. affected are the consumers for which
// it is not compatible, but for one repository.
func effective(v compat.Verdict, p coord.Project, but coord.RepoID) (word compat.Word, affected []coord.Repo) {
	if len(v.Consumers) == 0 {
		return v.Verdict, nil
	}
	word = compat.Compatible
	for _, one := range v.Consumers {
		r, _ := p.RepoNamed(one.Repository)
		if one.Verdict == compat.Compatible || r.ID == but {
			continue
		}
		affected = append(affected, r)
		if word != compat.Breaking {
			word = one.Verdict
		}
	}
	return word, affected
}

// A decision says what becomes of an update.
type decision struct {
	word   compat.Word
	agreed bool           // at once
	asks   []coord.RepoID // whose agreement is needed; none: as document 001 has it
	notes  []string
}

// An update is the next content of a contract, with everything that a policy looks at.
type update struct {
	project coord.Project
	was     coord.Contract // before it
	by      coord.Repo
	judged  judgement
	today   string // the day in UTC
}

// decide applies the policy of the project to an update.
func (u update) decide(op string) (decision, error) {
	provider := u.was.Terms.Provider
	word, affected := effective(u.judged.forThem, u.project, u.by.ID)
	d := decision{word: word}
	policy, day := u.project.Breaking.Split()
	byProvider := provider != "" && u.by.ID == provider
	isOver := policy == coord.BreakingSunset && u.today > day

	switch {
	case word == compat.Compatible || isOver:
		isTurning := judgedTerms(u.was.Terms).Direction != u.was.Terms.Direction
		d.agreed = byProvider && !isTurning
		if word != compat.Compatible {
			d.notes = append(d.notes, fmt.Sprintf("the update is %s; the project allows that since %s", word, day))
		}
	case policy == coord.BreakingForbid:
		fallback := ""
		if u.judged.format == compat.FormatCustom {
			fallback = "custom content has no rules, so the policy forbid asks the consumers instead"
		} else if u.judged.base.Why == baseBefore && u.was.Status == coord.ContractNegotiating {
			fallback = "no version was agreed yet, so the policy forbid asks the other repositories instead"
		}
		if fallback == "" {
			return d, u.forbidden(op, word, affected)
		}
		d.notes = append(d.notes, fallback)
	}

	// A repository that does not provide the contract needs the provider's agreement, too.
	if d.agreed || provider == "" {
		return d, nil
	}
	for _, r := range affected {
		d.asks = append(d.asks, r.ID)
	}
	if word == compat.Compatible && byProvider { // another direction is wanted: each consumer is asked
		for _, c := range u.was.Terms.Consumers() {
			d.asks = append(d.asks, c.Repo)
		}
	}
	if !byProvider {
		d.asks = append(d.asks, provider)
	}
	return d, nil
}

// forbidden is the error of an update that the policy of the project refuses.
func (u update) forbidden(op string, word compat.Word, affected []coord.Repo) error {
	text := fmt.Sprintf("the update is %s compared with version %d", word, u.judged.base.Version)
	if len(affected) > 0 {
		text += " for " + names(affected, " and ")
	}
	if reasons := reasonsOf(u.judged.forThem); len(reasons) > 0 {
		text += ": " + reasons[0]
	}
	return hub.Errorf(hub.CodePolicy, op, "%s; the project forbids such updates", text).
		WithHint("see the whole comparison with {contract.diff} %s, make the change without breaking, or propose a new contract", u.was.ID)
}

// maxReasons is the number of findings that an answer lists.
const maxReasons = 3

// reasonsOf describes the findings that are not compatible, for people.
func reasonsOf(v compat.Verdict) (out []string) {
	for _, f := range v.Findings {
		concerned := len(v.Consumers) == 0 || len(f.Consumers) > 0
		if f.Verdict == compat.Compatible || !concerned || len(out) == maxReasons {
			continue
		}
		text := f.Rule + " at " + cmp.Or(f.Pointer, "the whole document") + ": " + f.Text
		if f.Example != nil && len(f.Example.Document) <= maxExample {
			text += fmt.Sprintf("; the %s version takes %s, the %s version refuses it", f.Example.TakenBy, f.Example.Document, f.Example.RefusedBy)
		}
		out = append(out, text)
	}
	return out
}

// maxExample is the number of bytes of an example that is shown in a sentence.
const maxExample = 160

// errMoved says that the base of an update changed between the comparison and the transaction.
var errMoved = errors.New("the contract changed in the meantime")

// judgeTries is the number of times that an update is compared with a base that moves.
const judgeTries = 3

// judgeUpdate compares the next content of a contract with its base, before the transaction
// of the update. A contract that does not exist has no judgement: the update says so.
func (s *Service) judgeUpdate(ctx context.Context, caller hub.Caller, in InContract, content json.RawMessage) (judgement, error) {
	const op = "contract.Update"
	isThere := true
	q, err := readIn(ctx, s, op, in.Project, func(r hub.Reader, p coord.Project) (question, error) {
		c, err := contract(r, op, in.Project, in.Contract)
		if err == nil {
			c, err = withVersions(r, c)
		}
		if err != nil {
			return question{}, err
		}
		c.Terms = judgedTerms(c.Terms)
		return ask(r, c, baseOf(c), content, consumersOf(c, p))
	})
	switch hub.CodeOf(err) {
	case "":
	case hub.CodeNotFound, hub.CodeInvalid, hub.CodeConflict:
		isThere = false
	default:
		return judgement{}, err
	}
	if !isThere {
		return judgement{}, nil
	}

	// A content that breaks its format is compared with nothing.
	later, refused := checkContent(op, q.contract.Type, q.contract.Terms.Format, content)
	if refused != nil {
		return judgement{base: q.base, pair: q.pair, consumers: q.consumers, refused: refused}, nil
	}
	q.later = &later
	j, err := s.comparer.answer(ctx, caller.ID, q)
	j.format = later.Format()
	return j, err
}

// isOf reports whether a judgement is still one of a contract: its base, its content and its
// consumers are those that were read before the comparison.
func (j judgement) isOf(c coord.Contract, p coord.Project, content json.RawMessage) bool {
	b := baseOf(c)
	isBase := b.Version == j.base.Version && bytes.Equal(b.content, j.base.content)
	return isBase && j.pair == pairOf(c, j.base.content, content) && sameConsumers(j.consumers, consumersOf(c, p))
}

// sameConsumers reports whether two lists have the same consumers with the same parts.
func sameConsumers(a, b []compat.Consumer) bool {
	return slices.EqualFunc(a, b, func(x, y compat.Consumer) bool { return x.Repository == y.Repository && slices.Equal(x.Parts, y.Parts) })
}

// Direction is the part of a proposal or an update that document 001 does not have.
type Direction struct {
	Provider string `json:"provider,omitempty"`  // name of a repository; OwnRepository for the one that proposes
	Format   string `json:"format,omitempty"`    // json-schema, openapi, shape or custom; "" finds it out
	Flow     string `json:"direction,omitempty"` // request, response or both; "" takes that of the type
}

// OwnRepository is the Provider of a proposal that its own repository provides.
const OwnRepository = "."

// by returns d with the id of the repository that proposes, if that is the provider.
func (d Direction) by(r coord.Repo) Direction {
	if d.Provider == OwnRepository {
		d.Provider = string(r.ID)
	}
	return d
}

// isZero reports whether d says nothing.
func (d Direction) isZero() bool { return d == Direction{} }

// in returns terms as d changes them at a time.
func (d Direction) in(op string, p coord.Project, t coord.Terms, at coord.Instant) (coord.Terms, error) {
	if d.isZero() {
		return t, nil
	}
	if d.Flow != "" && !slices.Contains(compat.Directions, compat.Direction(d.Flow)) {
		return t, unknownFlow(op, d.Flow)
	}
	t.Format = cmp.Or(d.Format, t.Format)
	t.Direction = cmp.Or(d.Flow, t.Direction)
	if d.Provider != "" {
		r, ok := p.RepoNamed(d.Provider)
		if !ok {
			if r, ok = p.Repo(coord.RepoID(d.Provider)); !ok {
				return t, unknownRepo(op, p, d.Provider)
			}
		}
		t.Provider = r.ID
	}
	t.WrittenAt = at
	return t, nil
}

// today returns the day in UTC.
func (s *Service) today() string { return s.o.Clock.Now().UTC().Format("2006-01-02") }

// versionText names a version.
func versionText(n int) string { return "version " + strconv.Itoa(n) }
