package contract

import (
	"bytes"
	"slices"

	"github.com/parley-agents/parley/hub/coord"
)

// sameContract reports whether two copies of one contract are equal.
func sameContract(a, b coord.Contract) bool {
	return a.Version == b.Version && a.Status == b.Status && a.UpdatedAt == b.UpdatedAt && a.CreatedAt == b.CreatedAt &&
		a.ReopenedAt == b.ReopenedAt && a.ProposedBy == b.ProposedBy && a.Type == b.Type && a.Name == b.Name &&
		bytes.Equal(a.Content, b.Content) && slices.EqualFunc(a.Implementations, b.Implementations, sameImplementation) &&
		slices.Equal(a.Agreements, b.Agreements) && a.Stamps.Equal(b.Stamps) && sameVersions(a.History, b.History) && sameVersions(a.Conflicts, b.Conflicts) &&
		sameTerms(a.Terms, b.Terms)
}

func sameImplementation(a, b coord.Implementation) bool {
	return a.Repo == b.Repo && a.Agent == b.Agent && a.Status == b.Status && a.Plan == b.Plan && a.Notes == b.Notes &&
		a.TestEndpoint == b.TestEndpoint && a.StartedAt == b.StartedAt && a.CompletedAt == b.CompletedAt && a.Version == b.Version &&
		slices.Equal(a.Files, b.Files)
}

func sameVersions(a, b []coord.ContractVersion) bool {
	return slices.EqualFunc(a, b, func(x, y coord.ContractVersion) bool {
		return x.Version == y.Version && x.ProposedBy == y.ProposedBy && x.At == y.At && x.ChangeNotes == y.ChangeNotes &&
			x.Superseded == y.Superseded && bytes.Equal(x.Content, y.Content)
	})
}

// sameContent reports whether two versions have the same number and content.
func sameContent(a, b coord.ContractVersion) bool {
	return a.Version == b.Version && (bytes.Equal(a.Content, b.Content) || coord.ContentHash(a.Content) == coord.ContentHash(b.Content))
}

// sameProject reports whether two copies of one project and its repositories are
// equal.
func sameProject(a, b coord.Project) bool {
	return sameMembers(a, b) && slices.EqualFunc(a.Repos, b.Repos, sameRepo)
}

// sameMembers reports whether two copies of one project are equal but for their
// repositories.
func sameMembers(a, b coord.Project) bool {
	return a.Name == b.Name && a.Objective == b.Objective && a.Status == b.Status && a.Policy == b.Policy && a.Breaking == b.Breaking &&
		a.CreatedAt == b.CreatedAt && a.UpdatedAt == b.UpdatedAt && a.Stamps.Equal(b.Stamps) && slices.Equal(a.Environments, b.Environments)
}

func sameRepo(a, b coord.Repo) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Role == b.Role && a.Language == b.Language && a.URL == b.URL && a.Agent == b.Agent &&
		a.Endpoint == b.Endpoint && a.ClaimedAt == b.ClaimedAt && a.UpdatedAt == b.UpdatedAt && a.Term == b.Term && slices.Equal(a.Paths, b.Paths)
}
