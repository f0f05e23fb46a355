package contract_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/service/contract"
)

// revise is an update of a contract that names a provider, a direction or a format.
func (k *crew) revise(who hub.Caller, content json.RawMessage, d contract.Direction) (contract.Result, error) {
	return k.Update(k.Context(), who, contract.Revision{InContract: contract.Of(k.project.ID, k.c.ID), Content: content, Direction: d})
}

// hand asks that a repository provides the contract, or consents to it.
func (k *crew) hand(who hub.Caller, to, flow string) (contract.Provided, error) {
	return k.Provide(k.Context(), who, contract.ProviderChange{InContract: contract.Of(k.project.ID, k.c.ID), Provider: to, Flow: flow})
}

var operator = hub.Caller{ID: hub.Operator}

func TestProviderBelongsToTheContract(t *testing.T) {
	t.Run("a consumer cannot make itself the provider with an update", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front, "User.avatar")
		k.use(k.mobile, "User.name")
		for _, named := range []string{"frontend-app", ".", "mobile-app"} {
			_, err := k.revise(k.front, userSchema("anything"), contract.Direction{Provider: named})
			k.refused(err, hub.CodeConflict, "the provider of User is backend-api")
		}
		_, err := k.revise(k.front, userSchema("anything"), contract.Direction{Provider: "nowhere"})
		k.refused(err, hub.CodeNotFound, "nowhere")
		now := k.read(k.c)
		equal(k.desk, "version", now.Version, 1)
		equal(k.desk, "status", now.Status, coord.ContractAgreed)

		// The provider still changes its own contract, also when it names itself.
		r, err := k.revise(k.back, userSchema("name", "avatar", "mail"), contract.Direction{Provider: "."})
		k.ok(err)
		equal(k.desk, "status of the provider's update", r.Contract.Status, coord.ContractAgreed)
	})
	t.Run("a contract without a provider gets none with an update", func(t *testing.T) {
		k := newCrew(t)
		r, err := k.Propose(k.Context(), k.back, contract.Proposal{InProject: contract.In(k.project.ID), Type: coord.ContractModel, Name: "Open", Content: userSchema("a")})
		k.ok(err)
		k.c = r.Contract
		_, err = k.revise(k.front, userSchema("b"), contract.Direction{Provider: "frontend-app"})
		k.refused(err, hub.CodeConflict, "the provider of Open is not set")
	})
	t.Run("another direction or format is refused", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		for _, d := range []contract.Direction{{Flow: "request"}, {Flow: "both"}} {
			_, err := k.revise(k.back, userSchema("name"), d)
			k.refused(err, hub.CodeConflict, "the direction of User is response")
		}
		_, err := k.revise(k.back, userSchema("name"), contract.Direction{Format: "custom"})
		k.refused(err, hub.CodeConflict, "the format of User is json-schema")
		r, err := k.revise(k.back, userSchema("name", "avatar", "mail"), contract.Direction{Flow: "response", Format: "json-schema"})
		k.ok(err)
		equal(k.desk, "verdict", r.Verdict, compat.Compatible)
	})
	t.Run("a new provider needs the word of the old one, of itself and of each consumer", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.mobile)
		got, err := k.hand(k.front, "frontend-app", "")
		k.ok(err)
		equal(k.desk, "provider", got.Provider, "backend-api")
		equal(k.desk, "wanted", got.Wanted, "frontend-app")
		equal(k.desk, "missing", got.Missing, []string{"backend-api", "mobile-app"})

		got, err = k.hand(k.mobile, "frontend-app", "")
		k.ok(err)
		equal(k.desk, "missing", got.Missing, []string{"backend-api"})
		_, err = k.update(userSchema("name", "avatar", "mail")) // the present provider keeps the contract
		k.ok(err)
		got, err = k.hand(k.back, "frontend-app", "")
		k.ok(err)
		equal(k.desk, "provider", got.Provider, "frontend-app")
		equal(k.desk, "missing", len(got.Missing), 0)

		_, err = k.revise(k.front, userSchema("name", "avatar", "mail", "phone"), contract.Direction{})
		k.ok(err)
		equal(k.desk, "status", k.read(k.c).Status, coord.ContractAgreed)
	})
	t.Run("the operator consents for those that have not answered", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.mobile)
		_, err := k.hand(k.front, "frontend-app", "")
		k.ok(err)
		got, err := k.hand(operator, "frontend-app", "")
		k.ok(err)
		equal(k.desk, "provider", got.Provider, "frontend-app")
	})
	t.Run("a consumer that becomes the provider is no consumer any more", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		k.use(k.mobile)
		_, err := k.hand(operator, "frontend-app", "")
		k.ok(err)
		var users []coord.RepoID
		for _, u := range k.read(k.c).Terms.Consumers() {
			users = append(users, u.Repo)
		}
		mobile, _ := k.project.RepoNamed("mobile-app")
		equal(k.desk, "consumers", users, []coord.RepoID{mobile.ID})

		// It waits for nobody but the others, and answers as their provider.
		r, err := k.revise(k.front, userSchema("name"), contract.Direction{})
		k.ok(err)
		equal(k.desk, "still to agree", repoNames(r.Pending), []string{"mobile-app"})
	})
	t.Run("words to one wish do not count for another one", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.mobile)
		_, err := k.hand(k.back, "frontend-app", "")
		k.ok(err)
		got, err := k.hand(k.mobile, "mobile-app", "")
		k.ok(err)
		equal(k.desk, "missing", got.Missing, []string{"backend-api"})
		_, err = k.hand(k.front, "mobile-app", "")
		k.refused(err, hub.CodeDenied, "neither provides nor uses")
	})
	t.Run("another direction is judged both ways and never agreed at once while it is asked", func(t *testing.T) {
		k := newCrew(t)
		k.use(k.front)
		got, err := k.hand(k.back, "backend-api", "request")
		k.ok(err)
		equal(k.desk, "direction", got.Direction, "response")
		r, err := k.update(userSchema("name", "avatar", "mail")) // compatible as a response, breaking as a request
		k.ok(err)
		equal(k.desk, "verdict", r.Verdict, compat.Breaking)
		equal(k.desk, "status", r.Contract.Status, coord.ContractProposed)
		same, err := k.update(userSchema("avatar", "name"))
		k.ok(err)
		equal(k.desk, "status of an update without a change", same.Contract.Status, coord.ContractProposed)
		equal(k.desk, "pending", repoNames(same.Pending), []string{"frontend-app"})

		got, err = k.hand(k.front, "backend-api", "request")
		k.ok(err)
		equal(k.desk, "direction", got.Direction, "request")
	})
}

func TestWithdrawnContracts(t *testing.T) {
	k := newCrew(t)
	k.use(k.front)
	_, err := k.Withdraw(k.Context(), k.back, contract.Announcement{InContract: contract.Of(k.project.ID, k.c.ID), Anyway: true})
	k.ok(err)

	_, err = k.Use(k.Context(), k.mobile, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID)})
	k.refused(err, hub.CodeConflict, "was withdrawn")
	_, err = k.update(userSchema("name", "avatar", "mail"))
	k.refused(err, hub.CodeConflict, "was withdrawn")
	_, err = k.Start(k.Context(), k.front, k.work(k.c))
	k.refused(err, hub.CodeConflict, "was withdrawn")
	_, err = k.hand(operator, "frontend-app", "")
	k.refused(err, hub.CodeConflict, "was withdrawn")

	got, err := k.Matrix(k.Context(), k.back, contract.MatrixQuery{InProject: contract.In(k.project.ID)})
	k.ok(err)
	for _, row := range got.Rows {
		equal(k.desk, "state of "+row.Repository, row.State, "withdrawn")
	}
	k.merge("frontend-app", "c1", hub.AnswerNo, "it was withdrawn")

	// It is no evidence for its provider.
	provider := k.merge("backend-api", "b1", hub.AnswerNo, "no contract of backend-api is known here")
	equal(k.desk, "not asked", provider.NotAsked, []string{"User was withdrawn"})
	k.deployable("backend-api", "b1", hub.AnswerNo, "no contract of backend-api is known here")
	opened, err := k.CanMerge(k.Context(), operator, contract.Candidate{InProject: contract.In(k.project.ID), Repo: "backend-api", Commit: id("b1"), AllowNone: true})
	k.ok(err)
	if !opened.OK() || len(opened.Opened) != 1 {
		t.Errorf("opened: %+v", opened)
	}

	_, err = k.Use(k.Context(), k.front, contract.Declaration{InContract: contract.Of(k.project.ID, k.c.ID), Remove: true})
	k.ok(err)
}
