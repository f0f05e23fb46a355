package federation

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/ground/text/pattern"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// The limits of a project, the same on every hub.
const (
	MaxRepos        = 256       // repositories of a project
	MaxContent      = 256 << 10 // bytes of a contract's or packet's content
	MaxVersions     = 256       // earlier versions that one contract keeps; older ones are folded
	MaxConflicts    = 32        // contents of one contract that lost; the newest are kept
	MaxAgreements   = 512       // that one contract remembers
	MaxParts        = 256       // parts of a contract that one consumer names, and parts that end
	MaxTests        = 512       // checks that test one contract
	MaxEnvironments = 64        // of a project, with those that were removed
	MaxStamps       = 256       // writes that no later write replaced, and hubs that wrote
	MaxRelated      = 64        // contracts that one packet is about
	MaxFiles        = 1000      // files that one implementation names
	MaxName         = 200       // bytes of a name
	MaxText         = 16 << 10  // bytes of a plan, note, comment or objective
)

var sha256Pattern = pattern.New(`^[0-9a-f]{64}$`)

// maxVersion bounds the versions that are taken from outside, so that there is
// always a next one.
const maxVersion = 1<<31 - 1

// DecodeContract reads a contract as hubs exchange it and checks all that Check
// checks. It reports CodeInvalid or CodeTooLarge.
func DecodeContract(project coord.ProjectID, raw []byte) (coord.Contract, error) {
	return decode("contract", raw, func(c *coord.Contract) { c.Project = project })
}

// DecodePacket reads a context packet as hubs exchange it and checks all that
// Check checks. It reports CodeInvalid or CodeTooLarge.
func DecodePacket(project coord.ProjectID, raw []byte) (coord.Packet, error) {
	return decode("packet", raw, func(p *coord.Packet) { p.Project = project })
}

// DecodeRepo reads a repository as hubs exchange it and checks all that Check
// checks. It reports CodeInvalid.
func DecodeRepo(raw []byte) (coord.Repo, error) { return decode("repo", raw, func(*coord.Repo) {}) }

// DecodeProject reads a project with everything in it as hubs exchange it and
// checks all that the Check of each part checks. It reports CodeInvalid or
// CodeTooLarge.
func DecodeProject(raw []byte) (ProjectCopy, error) {
	return decode("project", raw, func(*ProjectCopy) {})
}

func decode[T noun](what string, raw []byte, complete func(*T)) (T, error) {
	var v, none T
	if _, err := strictjson.DecodeOpen(raw, &v); err != nil {
		return none, hub.Errorf(hub.CodeInvalid, "federation.Decode", "%v", strictjson.Within(what, err))
	}
	complete(&v)
	return v, Check(v)
}

// A noun is a thing that hubs exchange.
type noun interface {
	coord.Project | coord.Repo | coord.Contract | coord.Packet | ProjectCopy
}

// Check reports CodeInvalid when v breaks a rule that every hub keeps, and
// CodeTooLarge when it holds more than the limits allow.
func Check[T noun](v T) error {
	var c checker
	switch v := any(v).(type) {
	case coord.Project:
		c.project(v)
	case coord.Repo:
		c.repo(v)
	case coord.Contract:
		c.contract(v)
	case coord.Packet:
		c.packet(v)
	case ProjectCopy:
		c.project(v.Project)
		for _, contract := range v.Contracts {
			c.contract(contract)
		}
		for _, packet := range v.Packets {
			c.packet(packet)
		}
	}
	return c.err
}

// A checker keeps the first rule that a value breaks.
type checker struct{ err error }

func (c *checker) project(p coord.Project) {
	c.id("project_id", p.ID.Valid(), string(p.ID))
	oneOf(c, "status", p.Status, coord.ProjectStatuses)
	if p.Policy != "" {
		oneOf(c, "agreement_policy", p.Policy, coord.AgreementPolicies)
	}
	if p.Breaking != "" && !p.Breaking.Known() {
		c.invalid("breaking_policy", "%s is not forbid, ask, or sunset with a day such as 2026-12-31", shorten.Quote(string(p.Breaking)))
	}
	c.most("repos", len(p.Repos), MaxRepos)
	c.most("environments", len(p.Environments), MaxEnvironments)
	for _, e := range p.Environments {
		c.texts(MaxName, true, "environments.name", e.Name)
	}
	c.texts(MaxName, true, "name", p.Name)
	c.texts(MaxText, false, "objective", p.Objective)
	c.stamps(p.Stamps)
	for _, w := range p.Stamps.Writes {
		newest, _ := p.Stamps.Newest(w.Member)
		if slices.Contains(coord.ProjectMembers, w.Member) && p.Member(w.Member) != newest.Value {
			c.invalid("stamps.writes", "%s is %s, but was written as %s", w.Member, shorten.Quote(p.Member(w.Member)), shorten.Quote(newest.Value))
		}
	}
	seen := map[coord.RepoID]bool{}
	for _, r := range p.Repos {
		c.repo(r)
		c.once("repos", seen, r.ID)
	}
}

// maxAddress is how many bytes a path, an id of an agent or an address may have.
const maxAddress = 2048

func (c *checker) repo(r coord.Repo) {
	c.id("repo_id", r.ID.Valid(), string(r.ID))
	c.texts(MaxName, true, "name", r.Name, "role", r.Role, "language", r.Language)
	c.texts(maxAddress, false, "url", r.URL, "agent_id", string(r.Agent), "agent_endpoint", r.Endpoint)
	c.paths("relevant_paths", r.Paths)
	c.between("claim_term", r.Term, 0, maxVersion)
}

func (c *checker) contract(k coord.Contract) {
	c.id("project_id", k.Project.Valid(), string(k.Project))
	c.id("contract_id", k.ID.Valid(), string(k.ID))
	oneOf(c, "type", k.Type, coord.ContractTypes)
	oneOf(c, "status", k.Status, coord.ContractStatuses)
	c.between("version", k.Version, 1, maxVersion)
	c.id("proposed_by", k.ProposedBy.Valid(), string(k.ProposedBy))

	// The peer decides how long its lists are, so each has a limit.
	c.most("implementations", len(k.Implementations), MaxRepos)
	c.most("history", len(k.History), MaxVersions)
	c.most("conflicts", len(k.Conflicts), MaxConflicts)
	c.most("agreements", len(k.Agreements), MaxAgreements)

	c.texts(MaxName, true, "name", k.Name)
	c.content(k.Content)
	c.notFold("content", k.Content)

	// Each earlier version has a number of its own below that of the contract.
	numbers := map[int]bool{}
	for _, v := range k.History {
		if v.Version < 1 || v.Version >= k.Version || numbers[v.Version] {
			c.invalid("history.version", "%d appears twice or is not between 1 and %d", v.Version, k.Version-1)
		}
		numbers[v.Version] = true
		c.version("history", v)
	}
	for _, v := range k.Conflicts {
		c.between("conflicts.version", v.Version, 1, k.Version)
		c.version("conflicts", v)
		c.notFold("conflicts.content", v.Content)
	}
	c.stamps(k.Stamps)

	seen := map[coord.RepoID]bool{}
	for _, i := range k.Implementations {
		c.implementation(i)
		c.once("implementations", seen, i.Repo)
	}
	for _, a := range k.Agreements {
		c.id("agreements.repo_id", a.Repo.Valid(), string(a.Repo))
		c.between("agreements.version", a.Version, 1, maxVersion)
		c.hash("agreements.content_sha256", a.Content)
		c.texts(maxAddress, false, "agreements.agent_id", string(a.Agent))
	}
	c.terms(k.Terms)
}

// terms checks the members of a contract that document 001 does not have.
func (c *checker) terms(t coord.Terms) {
	c.texts(MaxName, false, "terms.format", t.Format, "terms.direction", t.Direction)
	c.id("terms.provider", t.Provider == "" || t.Provider.Valid(), string(t.Provider))
	c.most("terms.uses", len(t.Uses), MaxRepos)
	c.most("terms.asks", len(t.Asks), MaxAgreements)
	c.most("terms.ends", len(t.Ends), MaxParts)

	seen := map[coord.RepoID]bool{}
	for _, u := range t.Uses {
		c.id("terms.uses.repo_id", u.Repo.Valid(), string(u.Repo))
		c.once("terms.uses", seen, u.Repo)
		c.most("terms.uses.parts", len(u.Parts), MaxParts)
		c.texts(MaxName, false, "terms.uses.source", u.Source)
		for _, part := range u.Parts {
			c.texts(maxAddress, true, "terms.uses.parts", part)
		}
	}
	for _, a := range t.Asks {
		c.id("terms.asks.repo_id", a.Repo.Valid(), string(a.Repo))
		c.between("terms.asks.version", a.Version, 1, maxVersion)
		c.hash("terms.asks.content_sha256", a.Content)
	}
	for _, e := range t.Ends {
		c.texts(maxAddress, false, "terms.ends.part", e.Part)
		if _, ok := coord.EndOfDay(e.Until); e.Until != "" && !ok {
			c.invalid("terms.ends.until", "%s is not a day such as 2026-12-31", shorten.Quote(e.Until))
		}
	}
	c.most("terms.tests", len(t.Tests), MaxTests)
	for _, k := range t.Tests {
		c.id("terms.tests.repo_id", k.Repo.Valid(), string(k.Repo))
		c.texts(MaxName, true, "terms.tests.check", k.Check)
	}
	if h := t.Handover; h != nil {
		c.id("terms.handover.provider", h.Provider.Valid(), string(h.Provider))
		c.id("terms.handover.by", h.By.Valid(), string(h.By))
		c.texts(MaxName, false, "terms.handover.direction", h.Direction)
	}
	c.most("terms.words", len(t.Words), MaxRepos)
	words := map[coord.RepoID]bool{}
	for _, w := range t.Words {
		c.id("terms.words.repo_id", w.Repo.Valid(), string(w.Repo))
		c.id("terms.words.provider", w.Provider.Valid(), string(w.Provider))
		c.once("terms.words", words, w.Repo)
		c.texts(MaxName, false, "terms.words.direction", w.Direction)
		c.texts(maxAddress, false, "terms.words.agent_id", string(w.Agent))
	}
	if f := t.InForce; f != nil {
		c.between("terms.in_force.version", f.Version, 1, maxVersion)
		c.between("terms.in_force.before", f.Before, 0, maxVersion)
		c.hash("terms.in_force.content_sha256", f.Content)
	}
}

// hash refuses a text that is no SHA-256.
func (c *checker) hash(member, text string) {
	if !sha256Pattern().MatchString(text) {
		c.invalid(member, "%s is not a SHA-256", shorten.Quote(text))
	}
}

// stamps checks the writes that a copy includes.
func (c *checker) stamps(s coord.Stamps) {
	c.most("stamps.writes", len(s.Writes), MaxStamps)
	c.most("stamps.seen", len(s.Seen), MaxStamps)
	if !slices.IsSortedFunc(s.Writes, coord.Stamp.Compare) {
		c.invalid("stamps.writes", "is not in order")
	}
	for _, w := range s.Writes {
		c.texts(MaxName, true, "stamps.writes.member", w.Member)
		c.texts(MaxText, false, "stamps.writes.value", w.Value)
		c.between("stamps.writes.version", w.Version, 0, maxVersion)
		if !s.Covers(w) {
			c.invalid("stamps.writes", "%s at %s is later than anything seen from %s", w.Member, w.At, shorten.Quote(string(w.By)))
		}
	}
	for by := range s.Seen {
		c.texts(maxAddress, false, "stamps.seen", string(by))
	}
}

func (c *checker) version(list string, v coord.ContractVersion) {
	c.id(list+".proposed_by", v.ProposedBy.Valid(), string(v.ProposedBy))
	c.texts(MaxText, false, list+".change_notes", v.ChangeNotes)
	c.content(v.Content)
}

func (c *checker) implementation(i coord.Implementation) {
	c.id("implementations.repo_id", i.Repo.Valid(), string(i.Repo))
	oneOf(c, "implementations.status", i.Status, coord.ImplementationStatuses)
	c.between("implementations.contract_version", i.Version, 0, maxVersion)
	c.texts(MaxText, false, "implementations.plan", i.Plan, "implementations.notes", i.Notes)
	c.texts(maxAddress, false, "implementations.agent_id", string(i.Agent), "implementations.test_endpoint", i.TestEndpoint)
	c.paths("implementations.files", i.Files)
}

func (c *checker) packet(p coord.Packet) {
	c.id("project_id", p.Project.Valid(), string(p.Project))
	c.id("packet_id", p.ID.Valid(), string(p.ID))
	oneOf(c, "type", p.Type, coord.PacketTypes)
	c.id("from_repo", p.FromRepo.Valid(), string(p.FromRepo))
	c.id("reply_to", p.ReplyTo == "" || p.ReplyTo.Valid(), string(p.ReplyTo))
	c.most("related_contracts", len(p.Related), MaxRelated)
	for _, id := range p.Related {
		c.id("related_contracts", id.Valid(), string(id))
	}
	c.texts(maxAddress, false, "from_agent", string(p.FromAgent))
	c.content(p.Content)
}

func (c *checker) content(raw json.RawMessage) {
	if c.err == nil {
		_, c.err = parseContent(checkOp, raw)
	}
}

// notFold refuses a content that stands for folded versions.
func (c *checker) notFold(member string, raw json.RawMessage) {
	if bytes.HasPrefix(raw, []byte(foldMark)) {
		c.invalid(member, "must not begin with the member for folded versions")
	}
}

// CompactContent returns content without the blanks between tokens. Strings and
// numbers keep their bytes. It reports CodeInvalid unless raw is strict JSON and
// an object, and CodeTooLarge when it has more than MaxContent bytes.
func CompactContent(op string, raw json.RawMessage) (json.RawMessage, error) {
	v, err := parseContent(op, raw)
	return v.Compact().Raw(), err
}

func parseContent(op string, raw json.RawMessage) (strictjson.Value, error) {
	if len(raw) > MaxContent {
		return strictjson.Value{}, hub.Errorf(hub.CodeTooLarge, op, "content is too large: %d bytes, limit %d", len(raw), MaxContent)
	}
	v, err := strictjson.Parse(raw)
	if err != nil {
		return v, hub.Errorf(hub.CodeInvalid, op, "%v", strictjson.Within("content", err))
	}
	if !v.IsObject() {
		return v, hub.Errorf(hub.CodeInvalid, op, "content: must be an object")
	}
	return v, nil
}

// checkOp is the operation in the errors of Check.
const checkOp = "federation.Check"

func (c *checker) fail(code hub.Code, member, format string, args ...any) {
	if c.err == nil {
		c.err = hub.Errorf(code, checkOp, "%s: "+format, append([]any{member}, args...)...)
	}
}

func (c *checker) invalid(member, format string, args ...any) {
	c.fail(hub.CodeInvalid, member, format, args...)
}

func (c *checker) id(member string, valid bool, id string) {
	if !valid {
		c.invalid(member, "%s is not 1 to 128 letters, digits or . _ -", shorten.Quote(id))
	}
}

func (c *checker) between(member string, n, least, most int) {
	if n < least || n > most {
		c.invalid(member, "%d is not between %d and %d", n, least, most)
	}
}

func (c *checker) most(member string, n, most int) {
	if n > most {
		c.fail(hub.CodeTooLarge, member, "%d is over the limit of %d", n, most)
	}
}

func (c *checker) once(member string, seen map[coord.RepoID]bool, id coord.RepoID) {
	if seen[id] {
		c.invalid(member, "%s appears twice", shorten.Quote(string(id)))
	}
	seen[id] = true
}

// texts takes names and texts in turn.
func (c *checker) texts(most int, required bool, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		name, s := pairs[i], pairs[i+1]
		if required && strings.TrimSpace(s) == "" {
			c.invalid(name, "required")
		}
		if !utf8.ValidString(s) {
			c.invalid(name, "is not valid UTF-8")
		}
		c.most(name, len(s), most)
	}
}

func (c *checker) paths(member string, all []string) {
	c.most(member, len(all), MaxFiles)
	for _, s := range all {
		c.texts(maxAddress, false, member, s)
	}
}

func oneOf[S ~string](c *checker, member string, v S, all []S) {
	if !slices.Contains(all, v) {
		c.invalid(member, "%s is not one of %s", shorten.Quote(string(v)), hub.JoinWords(all))
	}
}
