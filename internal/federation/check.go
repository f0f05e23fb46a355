package federation

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/shorten"
	"github.com/parley-agents/parley/internal/strictjson"
)

// The limits of a project, the same on every hub.
const (
	MaxRepos      = 64        // repositories of a project
	MaxContent    = 256 << 10 // bytes of a contract's or packet's content
	MaxVersions   = 256       // versions of one contract
	MaxConflicts  = 32        // contents of one contract that lost; the newest are kept
	MaxAgreements = 512       // that one contract remembers
	MaxRelated    = 64        // contracts that one packet is about
	MaxFiles      = 1000      // files that one implementation names
	MaxName       = 200       // bytes of a name
	MaxText       = 16 << 10  // bytes of a plan, note, comment or objective
)

var sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// maxVersion bounds the versions that are taken from outside, so that there is
// always a next one.
const maxVersion = 1_000_000

// DecodeContract reads a contract as hubs exchange it and checks all that Check
// checks. It reports CodeInvalid or CodeTooLarge.
func DecodeContract(project hub.ProjectID, raw []byte) (hub.Contract, error) {
	c, err := decodeExchanged[hub.Contract]("contract", raw)
	if err != nil {
		return hub.Contract{}, err
	}
	c.Project = project
	return c, checkContract(c)
}

// DecodePacket reads a context packet as hubs exchange it and checks all that
// Check checks. It reports CodeInvalid or CodeTooLarge.
func DecodePacket(project hub.ProjectID, raw []byte) (hub.Packet, error) {
	p, err := decodeExchanged[hub.Packet]("packet", raw)
	if err != nil {
		return hub.Packet{}, err
	}
	p.Project = project
	return p, checkPacket(p)
}

// DecodeRepo reads a repository as hubs exchange it and checks all that Check
// checks. It reports CodeInvalid.
func DecodeRepo(raw []byte) (hub.Repo, error) {
	r, err := decodeExchanged[hub.Repo]("repo", raw)
	if err != nil {
		return hub.Repo{}, err
	}
	return r, checkRepo(r)
}

// DecodeProject reads a project with everything in it as hubs exchange it and
// checks all that the Check of each part checks. It reports CodeInvalid or
// CodeTooLarge.
func DecodeProject(raw []byte) (ProjectCopy, error) {
	p, err := decodeExchanged[ProjectCopy]("project", raw)
	if err != nil {
		return ProjectCopy{}, err
	}
	if err := checkProject(p.Project); err != nil {
		return p, err
	}
	for _, c := range p.Contracts {
		if err := checkContract(c); err != nil {
			return p, err
		}
	}
	for _, x := range p.Packets {
		if err := checkPacket(x); err != nil {
			return p, err
		}
	}
	return p, nil
}

func decodeExchanged[T any](what string, raw []byte) (T, error) {
	var v T
	if _, err := strictjson.DecodeOpen(raw, &v); err != nil {
		return v, hub.Errorf(hub.CodeInvalid, "federation.Decode", "%v", strictjson.Within(what, err))
	}
	return v, nil
}

// Check reports CodeInvalid when v breaks a rule that every hub keeps, and
// CodeTooLarge when it holds more than the limits allow.
func Check[T hub.Project | hub.Repo | hub.Contract | hub.Packet](v T) error {
	switch v := any(v).(type) {
	case hub.Project:
		return checkProject(v)
	case hub.Repo:
		return checkRepo(v)
	case hub.Contract:
		return checkContract(v)
	case hub.Packet:
		return checkPacket(v)
	}
	return nil
}

// checkProject reports CodeInvalid when p cannot be a project, and CodeTooLarge when
// it has more than a project may.
func checkProject(p hub.Project) error {
	const op = "federation.Project"
	switch {
	case !p.ID.Valid():
		return badID(op, "project_id", string(p.ID))
	case !p.Status.Known():
		return invalid(op, "status", "%s", notOneOf(p.Status, hub.ProjectStatuses))
	case p.Policy != "" && !p.Policy.Known():
		return invalid(op, "agreement_policy", "%s", notOneOf(p.Policy, hub.AgreementPolicies))
	case len(p.Repos) > MaxRepos:
		return over(op, "repos", len(p.Repos), MaxRepos)
	}
	if err := checkTexts(op, MaxName, true, "name", p.Name); err != nil {
		return err
	}
	if err := checkTexts(op, MaxText, false, "objective", p.Objective); err != nil {
		return err
	}
	seen := map[hub.RepoID]bool{}
	for _, r := range p.Repos {
		if err := checkRepo(r); err != nil {
			return err
		}
		if seen[r.ID] {
			return invalid(op, "repos", "%s is there twice", shorten.Quote(string(r.ID)))
		}
		seen[r.ID] = true
	}
	return nil
}

// checkRepo reports CodeInvalid when r cannot be a repository.
func checkRepo(r hub.Repo) error {
	const op = "federation.Repo"
	if !r.ID.Valid() {
		return badID(op, "repo_id", string(r.ID))
	}
	if len(r.Paths) > MaxFiles {
		return over(op, "relevant_paths", len(r.Paths), MaxFiles)
	}
	if err := checkTexts(op, MaxName, true, "name", r.Name, "role", r.Role, "language", r.Language); err != nil {
		return err
	}
	if err := checkTexts(op, maxAddress, false, "url", r.URL, "agent_id", string(r.Agent), "agent_endpoint", r.Endpoint); err != nil {
		return err
	}
	return checkAll(op, "relevant_paths", r.Paths)
}

// maxAddress is how many bytes a path, an id of an agent or an address may have.
const maxAddress = 2048

// checkContract reports CodeInvalid when c cannot be a contract, and CodeTooLarge when
// it has more than a contract may.
func checkContract(c hub.Contract) error {
	const op = "federation.Contract"
	switch {
	case !c.Project.Valid():
		return badID(op, "project_id", string(c.Project))
	case !c.ID.Valid():
		return badID(op, "contract_id", string(c.ID))
	case !c.Type.Known():
		return invalid(op, "type", "%s", notOneOf(c.Type, hub.ContractTypes))
	case !c.Status.Known():
		return invalid(op, "status", "%s", notOneOf(c.Status, hub.ContractStatuses))
	case c.Version < 1 || c.Version > maxVersion:
		return invalid(op, "version", "%d is not from 1 to %d", c.Version, maxVersion)
	case !c.ProposedBy.Valid():
		return badID(op, "proposed_by", string(c.ProposedBy))
	case len(c.Implementations) > MaxRepos:
		return over(op, "implementations", len(c.Implementations), MaxRepos)
	case len(c.History) > MaxVersions:
		return over(op, "history", len(c.History), MaxVersions)
	case len(c.Conflicts) > MaxConflicts:
		return over(op, "conflicts", len(c.Conflicts), MaxConflicts)
	case len(c.Agreements) > MaxAgreements:
		return over(op, "agreements", len(c.Agreements), MaxAgreements)
	}
	if err := checkTexts(op, MaxName, true, "name", c.Name); err != nil {
		return err
	}
	if err := checkContent(op, c.Content); err != nil {
		return err
	}
	if err := checkVersions(op, c); err != nil {
		return err
	}
	seen := map[hub.RepoID]bool{}
	for _, i := range c.Implementations {
		if err := checkImplementation(op, i); err != nil {
			return err
		}
		if seen[i.Repo] {
			return invalid(op, "implementations", "%s is there twice", shorten.Quote(string(i.Repo)))
		}
		seen[i.Repo] = true
	}
	for _, a := range c.Agreements {
		switch {
		case !a.Repo.Valid():
			return badID(op, "agreements.repo_id", string(a.Repo))
		case a.Version < 1 || a.Version > maxVersion:
			return invalid(op, "agreements.version", "%d is not from 1 to %d", a.Version, maxVersion)
		case !sha256Pattern.MatchString(a.Content):
			return invalid(op, "agreements.content_sha256", "%s is not a SHA-256", shorten.Quote(a.Content))
		}
		if err := checkTexts(op, maxAddress, false, "agreements.agent_id", string(a.Agent)); err != nil {
			return err
		}
	}
	return nil
}

func checkVersions(op string, c hub.Contract) error {
	seen := map[int]bool{}
	for _, v := range c.History {
		if v.Version < 1 || v.Version >= c.Version || seen[v.Version] {
			return invalid(op, "history.version", "%d is there twice, or not from 1 to %d", v.Version, c.Version-1)
		}
		seen[v.Version] = true
		if err := checkVersion(op, "history", v); err != nil {
			return err
		}
	}
	for _, v := range c.Conflicts {
		if v.Version < 1 || v.Version > c.Version {
			return invalid(op, "conflicts.version", "%d is not from 1 to %d", v.Version, c.Version)
		}
		if err := checkVersion(op, "conflicts", v); err != nil {
			return err
		}
	}
	return nil
}

func checkVersion(op, list string, v hub.ContractVersion) error {
	if !v.ProposedBy.Valid() {
		return badID(op, list+".proposed_by", string(v.ProposedBy))
	}
	if err := checkTexts(op, MaxText, false, list+".change_notes", v.ChangeNotes); err != nil {
		return err
	}
	return checkContent(op, v.Content)
}

func checkImplementation(op string, i hub.Implementation) error {
	switch {
	case !i.Repo.Valid():
		return badID(op, "implementations.repo_id", string(i.Repo))
	case !i.Status.Known():
		return invalid(op, "implementations.status", "%s", notOneOf(i.Status, hub.ImplementationStatuses))
	case len(i.Files) > MaxFiles:
		return over(op, "implementations.files", len(i.Files), MaxFiles)
	case i.Version < 0 || i.Version > maxVersion:
		return invalid(op, "implementations.contract_version", "%d is not from 1 to %d", i.Version, maxVersion)
	}
	if err := checkTexts(op, MaxText, false, "implementations.plan", i.Plan, "implementations.notes", i.Notes); err != nil {
		return err
	}
	if err := checkTexts(op, maxAddress, false, "implementations.agent_id", string(i.Agent), "implementations.test_endpoint", i.TestEndpoint); err != nil {
		return err
	}
	return checkAll(op, "implementations.files", i.Files)
}

// checkPacket reports CodeInvalid when p cannot be a packet, and CodeTooLarge when it
// has more than a packet may.
func checkPacket(p hub.Packet) error {
	const op = "federation.Packet"
	switch {
	case !p.Project.Valid():
		return badID(op, "project_id", string(p.Project))
	case !p.ID.Valid():
		return badID(op, "packet_id", string(p.ID))
	case !p.Type.Known():
		return invalid(op, "type", "%s", notOneOf(p.Type, hub.PacketTypes))
	case !p.FromRepo.Valid():
		return badID(op, "from_repo", string(p.FromRepo))
	case p.ReplyTo != "" && !p.ReplyTo.Valid():
		return badID(op, "reply_to", string(p.ReplyTo))
	case len(p.Related) > MaxRelated:
		return over(op, "related_contracts", len(p.Related), MaxRelated)
	}
	for _, id := range p.Related {
		if !id.Valid() {
			return badID(op, "related_contracts", string(id))
		}
	}
	if err := checkTexts(op, maxAddress, false, "from_agent", string(p.FromAgent)); err != nil {
		return err
	}
	return checkContent(op, p.Content)
}

// checkContent reports CodeInvalid unless raw is strict JSON and an object, and
// CodeTooLarge when it has more than MaxContent bytes.
func checkContent(op string, raw json.RawMessage) error {
	_, err := parseContent(op, raw)
	return err
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
		return strictjson.Value{}, over(op, "content", len(raw), MaxContent)
	}
	v, err := strictjson.Parse(raw)
	if err != nil {
		return v, hub.Errorf(hub.CodeInvalid, op, "%v", strictjson.Within("content", err))
	}
	if !v.IsObject() {
		return v, invalid(op, "content", "must be an object")
	}
	return v, nil
}

// checkTexts takes names and texts in turn.
func checkTexts(op string, most int, required bool, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		name, s := pairs[i], pairs[i+1]
		switch {
		case required && strings.TrimSpace(s) == "":
			return invalid(op, name, "required")
		case !utf8.ValidString(s):
			return invalid(op, name, "is not valid UTF-8")
		case len(s) > most:
			return over(op, name, len(s), most)
		}
	}
	return nil
}

func checkAll(op, name string, all []string) error {
	for _, s := range all {
		if err := checkTexts(op, maxAddress, false, name, s); err != nil {
			return err
		}
	}
	return nil
}

func badID(op, member, id string) error {
	return invalid(op, member, "%s is not 1 to 128 letters, digits or . _ -", shorten.Quote(id))
}

func over(op, member string, n, most int) error {
	return hub.Errorf(hub.CodeTooLarge, op, "%s: %d is more than %d", member, n, most)
}

func invalid(op, path, format string, args ...any) error {
	return hub.Errorf(hub.CodeInvalid, op, "%s: "+format, append([]any{path}, args...)...)
}

func notOneOf[S ~string](v S, all []S) string {
	return fmt.Sprintf("%s is not one of %s", shorten.Quote(string(v)), strings.Trim(fmt.Sprint(all), "[]"))
}
