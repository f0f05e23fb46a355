package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
)

const mobileAID coord.AID = "aid://example.com/mobile@1.0.0"

// userSchema is the schema of a user that a provider sends, with the given properties, all of
// them required.
func userSchema(names ...string) json.RawMessage {
	var properties []string
	for _, name := range names {
		properties = append(properties, fmt.Sprintf(`%q:{"type":"string"}`, name))
	}
	required, _ := json.Marshal(names)
	return json.RawMessage(fmt.Sprintf(`{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"User","type":"object","properties":{%s},"required":%s}`, strings.Join(properties, ","), required))
}

// A crew is a desk with three repositories and a contract that the backend provides.
type crew struct {
	*desk
	mobile hub.Caller
	c      coord.Contract
}

// newCrew returns a desk with a contract about users that is agreed. Its provider is the backend.
func newCrew(t *testing.T) *crew {
	t.Helper()
	return newCrewWith(t, nil)
}

// newCrewWith is newCrew for a hub with other options.
func newCrewWith(t *testing.T, change func(*contract.Options)) *crew {
	t.Helper()
	k := newCrewWithoutGates(t, change)
	k.gates(k.c)
	return k
}

// newCrewWithoutGates is newCrewWith without environments and named tests.
func newCrewWithoutGates(t *testing.T, change func(*contract.Options)) *crew {
	t.Helper()
	d := newDesk(t, change)
	p, err := d.CreateProject(d.Context(), d.back, contract.NewProject{
		Name: "Users", Objective: "One user", Repos: []coord.Repo{
			{Name: "backend-api", Role: "backend", Language: "go"}, {Name: "frontend-app", Role: "frontend", Language: "go"}, {Name: "mobile-app", Role: "mobile", Language: "go"},
		},
	})
	d.ok(err)
	k := &crew{desk: d, mobile: hub.Caller{ID: "eve", AID: mobileAID}}
	_, _, err = d.JoinProject(d.Context(), d.front, p.ID, "frontend-app", "")
	d.ok(err)
	d.project, _, err = d.JoinProject(d.Context(), k.mobile, p.ID, "mobile-app", "")
	d.ok(err)
	k.c = k.provide("User", userSchema("name", "avatar"))
	return k
}

// provide makes a contract of the backend that the frontend agrees to.
func (k *crew) provide(name string, content json.RawMessage) coord.Contract {
	k.Helper()
	r, err := k.Propose(k.Context(), k.back, contract.Proposal{
		InProject: contract.In(k.project.ID), Type: coord.ContractModel, Name: name, Content: content,
		Direction: contract.Direction{Provider: "backend-api", Flow: "response"},
	})
	k.ok(err)
	got, err := k.respond(k.front, r.Contract, contract.ActionAgree, "")
	k.ok(err)
	return got.Contract
}

func (k *crew) use(who hub.Caller, parts ...string) contract.Used {
	k.Helper()
	u, err := k.Use(k.Context(), who, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID), Parts: parts})
	k.ok(err)
	return u
}

func (k *crew) update(content json.RawMessage) (contract.Result, error) {
	return k.Update(k.Context(), k.back, contract.Revision{InContract: contract.Of(k.project.ID, k.c.ID), Content: content})
}

// policy sets the policy of the project as a coordinator.
func (k *crew) policy(p contract.Policy) error {
	who := k.back
	who.Role = hub.RoleCoordinator
	_, err := k.BreakingPolicy(k.Context(), who, contract.PolicyChange{InProject: contract.In(k.project.ID), Policy: p})
	return err
}

func repoNames(repos []coord.Repo) (out []string) {
	for _, r := range repos {
		out = append(out, r.Name)
	}
	return out
}

func TestVerdictsOfUpdates(t *testing.T) {
	t.Run("a compatible update of a provider is agreed at once", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		r, err := k.update(userSchema("name", "avatar", "mail"))
		k.ok(err)
		equal(k.desk, "verdict", r.Verdict, compat.Compatible)
		equal(k.desk, "status", r.Contract.Status, coord.ContractAgreed)
		equal(k.desk, "in force", r.Contract.Terms.InForce.Version, 2)
	})
	t.Run("a breaking update waits for the consumers that it affects, and for no other", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.name")
		k.use(k.mobile, "User.avatar")
		r, err := k.update(userSchema("name"))
		k.ok(err)
		equal(k.desk, "verdict", r.Verdict, compat.Breaking)
		equal(k.desk, "affected", repoNames(r.Affected), []string{"mobile-app"})
		equal(k.desk, "pending", repoNames(r.Pending), []string{"mobile-app"})
		equal(k.desk, "compared with", r.Base.Version, 1)
		equal(k.desk, "in force", r.Contract.Terms.InForce.Version, 1)
		if len(r.Reasons) == 0 || !strings.Contains(r.Reasons[0], "RES-property-removed") {
			t.Errorf("reasons: %q", r.Reasons)
		}

		got, err := k.respond(k.front, r.Contract, contract.ActionAgree, "")
		k.ok(err)
		equal(k.desk, "after one that is not affected", got.Contract.Status, coord.ContractProposed)
		got, err = k.respond(k.mobile, r.Contract, contract.ActionAgree, "")
		k.ok(err)
		equal(k.desk, "after the affected one", got.Contract.Status, coord.ContractAgreed)
		equal(k.desk, "in force", got.Contract.Terms.InForce.Version, 2)
		equal(k.desk, "in force before", got.Contract.Terms.InForce.Before, 1)
	})
	t.Run("an update that affects no declared consumer is agreed at once", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.name")
		r, err := k.update(userSchema("name"))
		k.ok(err)
		equal(k.desk, "verdict", r.Verdict, compat.Compatible)
		equal(k.desk, "status", r.Contract.Status, coord.ContractAgreed)
	})
	t.Run("a version is judged again when a consumer changes its parts", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		equal(k.desk, "status", r.Contract.Status, coord.ContractProposed)
		k.use(k.mobile, "User.avatar")
		equal(k.desk, "asked", repoNames(k.read(k.c).Dissenting(k.project)), []string{"frontend-app", "mobile-app"})
		k.use(k.mobile, "User.name")
		equal(k.desk, "asked", repoNames(k.read(k.c).Dissenting(k.project)), []string{"frontend-app"})
		_, err = k.Use(k.Context(), k.front, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID), Remove: true})
		k.ok(err)
		equal(k.desk, "nobody is left to ask", k.read(k.c).Status, coord.ContractAgreed)
	})
	t.Run("a live contract with a provider gets the next version, and the one in force stays", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		for _, who := range []hub.Caller{k.back, k.front, k.mobile} {
			k.implement(k.c, who)
		}
		k.verify(k.c, contract.VerifySuccess)
		r, err := k.update(userSchema("name"))
		k.ok(err)
		equal(k.desk, "status", r.Contract.Status, coord.ContractProposed)
		equal(k.desk, "in force", r.Contract.Terms.InForce.Version, 1)
		r, err = k.update(userSchema("name", "avatar", "mail"))
		k.ok(err)
		equal(k.desk, "compared with", r.Base.Version, 1)
		equal(k.desk, "verdict", r.Verdict, compat.Compatible)
	})
	t.Run("an update by a consumer needs the provider", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		r, err := k.Update(k.Context(), k.front, contract.Revision{InContract: contract.Of(k.project.ID, k.c.ID), Content: userSchema("name", "avatar", "mail")})
		k.ok(err)
		equal(k.desk, "status", r.Contract.Status, coord.ContractProposed)
		equal(k.desk, "pending", repoNames(r.Pending), []string{"backend-api"})
	})
	t.Run("contracts without a provider keep their table", func(t *testing.T) {
		d := newDesk(t, nil).begin()
		c := d.bring(coord.ContractVerified)
		_, err := d.Update(d.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(profile)})
		d.refused(err, hub.CodeConflict, "Cannot update")
		c = d.bring(coord.ContractAgreed)
		r, err := d.Update(d.Context(), d.back, contract.Revision{InContract: contract.Of(c.Project, c.ID), Content: json.RawMessage(profile)})
		d.ok(err)
		equal(d, "status", r.Contract.Status, coord.ContractProposed)
		equal(d, "verdict", r.Verdict, compat.Compatible)
	})
	t.Run("a document that claims a format and breaks it is refused with its pointer", func(t *testing.T) {
		k := newCrew(t)
		for content, want := range map[string]string{
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"objekt"}`:                                                             "/type",
			`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{},"components":{"schemas":{"A":{"type":"objekt"}}}}`:                     "/components/schemas/A/type",
			`{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{},"components":{"schemas":{"A":{"$ref":"https://example.com/a.json"}}}}`: "example.com",
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"$ref":"other.json"}}}`:                                    "other.json",
		} {
			_, err := k.Propose(k.Context(), k.back, contract.Proposal{InProject: contract.In(k.project.ID), Type: coord.ContractModel, Name: "x", Content: json.RawMessage(content)})
			k.refused(err, hub.CodeInvalid, want)
		}
		_, err := k.update(json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"objekt"}`))
		k.refused(err, hub.CodeInvalid, "/type")
	})
}

func TestBreakingPolicies(t *testing.T) {
	t.Run("forbid refuses a breaking update and takes a compatible one", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.ok(k.policy(contract.Policy{Breaking: coord.BreakingForbid}))
		_, err := k.update(userSchema("name"))
		k.refused(err, hub.CodePolicy, "RES-property-removed")
		equal(k.desk, "version", k.read(k.c).Version, 1)
		_, err = k.update(userSchema("name", "avatar", "mail"))
		k.ok(err)
	})
	t.Run("forbid asks about content without rules, and says so", func(t *testing.T) {
		k := newCrew(t)
		k.ok(k.policy(contract.Policy{Breaking: coord.BreakingForbid}))
		r, err := k.Propose(k.Context(), k.back, contract.Proposal{InProject: contract.In(k.project.ID), Type: coord.ContractCustom, Name: "Any", Content: json.RawMessage(`{"a":1}`), Direction: contract.Direction{Provider: "backend-api"}})
		k.ok(err)
		k.c = r.Contract
		k.use(k.front)
		got, err := k.update(json.RawMessage(`{"a":2}`))
		k.ok(err)
		equal(k.desk, "verdict", got.Verdict, compat.Unknown)
		equal(k.desk, "pending", repoNames(got.Pending), []string{"frontend-app"})
		if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "no rules") }) {
			t.Errorf("warnings: %q", got.Warnings)
		}
	})
	t.Run("sunset asks until the end of its day and allows afterwards", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		day := start.Format(time.DateOnly)
		k.refused(k.policy(contract.Policy{Breaking: coord.BreakingSunset, Date: start.AddDate(0, 0, -1).Format(time.DateOnly)}), hub.CodeInvalid, "past")
		k.refused(k.policy(contract.Policy{Breaking: coord.BreakingSunset}), hub.CodeInvalid, "day")
		k.refused(k.policy(contract.Policy{Breaking: coord.BreakingAsk, Date: day}), hub.CodeInvalid, "sunset")
		k.refused(k.policy(contract.Policy{Breaking: "never"}), hub.CodeInvalid, "never")
		k.ok(k.policy(contract.Policy{Breaking: coord.BreakingSunset, Date: day}))
		r, err := k.update(userSchema("name"))
		k.ok(err)
		equal(k.desk, "on the day", r.Contract.Status, coord.ContractProposed)
		k.clock.add(24 * time.Hour)
		r, err = k.update(userSchema("avatar"))
		k.ok(err)
		equal(k.desk, "after the day", r.Contract.Status, coord.ContractAgreed)
		equal(k.desk, "verdict", r.Verdict, compat.Breaking)
	})
	t.Run("only those who govern the project set it", func(t *testing.T) {
		k := newCrew(t)
		_, err := k.BreakingPolicy(k.Context(), k.front, contract.PolicyChange{InProject: contract.In(k.project.ID), Policy: contract.Policy{Breaking: coord.BreakingForbid}})
		k.refused(err, hub.CodeDenied, "")
		got, err := k.BreakingPolicy(k.Context(), k.front, contract.PolicyChange{InProject: contract.In(k.project.ID)})
		k.ok(err)
		equal(k.desk, "policy", got.Breaking, coord.BreakingAsk)
	})
}

func TestUses(t *testing.T) {
	t.Run("a consumer declares parts, changes them and removes them", func(t *testing.T) {
		k := newCrew(t)
		first := k.use(k.front, "User.name")
		k.clock.add(time.Hour)
		second := k.use(k.front, "User.avatar", "User.none")
		equal(k.desk, "declared", second.DeclaredAt, first.DeclaredAt)
		equal(k.desk, "parts", second.Parts, []string{"User.avatar", "User.none"})
		equal(k.desk, "warnings", second.Warnings, []string{"version 1 has no part User.none"})
		_, err := k.Use(k.Context(), k.back, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID)})
		k.refused(err, hub.CodeInvalid, "provides")
		_, err = k.Use(k.Context(), k.mobile, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID), Remove: true})
		k.refused(err, hub.CodeNotFound, "mobile-app")
		if !slices.Contains(k.journal(), actions.ContractUsed) {
			t.Error("the journal has no entry")
		}
	})
	t.Run("a contract is named by its unique name", func(t *testing.T) {
		k := newCrew(t)
		_, err := k.Use(k.Context(), k.front, contract.Declaration{InContract: contract.Of(k.project.ID, "User")})
		k.ok(err)
		k.provide("User", userSchema("name"))
		_, err = k.Use(k.Context(), k.front, contract.Declaration{InContract: contract.Of(k.project.ID, "User")})
		k.refused(err, hub.CodeConflict, string(k.c.ID))
		k.use(k.front)
	})
	t.Run("the impact names each consumer with the findings of its parts", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.name")
		k.use(k.mobile, "User.avatar")
		got, err := k.Impact(k.Context(), k.front, contract.ImpactQuery{InContract: contract.Of(k.project.ID, "User"), Content: userSchema("name")})
		k.ok(err)
		equal(k.desk, "consumers", len(got.Consumers), 2)
		equal(k.desk, "frontend", got.Consumers[0].Verdict, compat.Compatible)
		equal(k.desk, "mobile", got.Consumers[1].Verdict, compat.Breaking)
		if f := got.Consumers[1].Findings; len(f) == 0 || f[0].Example == nil || f[0].Example.TakenBy != "new" {
			t.Errorf("findings: %+v", f)
		}
	})
	t.Run("a part is deprecated, and withdrawn when nobody uses it", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.avatar")
		k.use(k.mobile, "User.name")
		part := contract.Announcement{InContract: contract.Of(k.project.ID, k.c.ID), Part: "User.avatar", Until: "2026-06-01"}
		got, err := k.Deprecate(k.Context(), k.back, part)
		k.ok(err)
		equal(k.desk, "users", got.Users, []string{"frontend-app"})
		past := part
		past.Until = "2026-04-30"
		_, err = k.Deprecate(k.Context(), k.back, past)
		k.refused(err, hub.CodeInvalid, "past")
		_, err = k.Deprecate(k.Context(), k.front, part)
		k.refused(err, hub.CodeDenied, "backend-api")
		_, err = k.Withdraw(k.Context(), k.back, part)
		k.refused(err, hub.CodeConflict, "frontend-app")
		part.Anyway = true
		got, err = k.Withdraw(k.Context(), k.back, part)
		k.ok(err)
		equal(k.desk, "withdrawn", got.Contract.Terms.Ends[0].Withdrawn, true)
		equal(k.desk, "the whole", got.Contract.Terms.Withdrawn(), false)
	})
	t.Run("a diff has the verdict for each consumer, and keeps it", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.avatar")
		_, err := k.update(userSchema("name"))
		k.ok(err)
		for range 2 { // computed, then stored
			got, err := k.Diff(k.Context(), k.back, contract.DiffQuery{InContract: contract.Of(k.project.ID, k.c.ID)})
			k.ok(err)
			equal(k.desk, "verdict", got.Verdict.Verdict, compat.Breaking)
			equal(k.desk, "rules", got.RulesVersion, compat.RulesVersion)
			equal(k.desk, "consumers", len(got.Consumers), 1)
			equal(k.desk, "findings of the consumer", len(got.Consumers[0].Findings) > 0, true)
			equal(k.desk, "changes", len(got.Changes) > 0, true)
		}
	})
}
