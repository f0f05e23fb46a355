package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/service/contract"
)

type contractsData struct {
	Projects []projectView
	Peers    []federation.PeerStatus
}

// Unproven reports whether an agent belongs to a peer whose id this hub could not verify. A
// viewer does not see the peers.
func (d contractsData) Unproven(agent coord.AID) bool {
	return slices.ContainsFunc(d.Peers, func(p federation.PeerStatus) bool { return p.Trust != federation.TrustVerified && p.MayActFor(agent) })
}

type projectView struct {
	ID        coord.ProjectID
	Name      string
	Objective string
	Status    coord.ProjectStatus
	Repos     []coord.Repo
	ByRepo    []repoContracts
	Conflicts int
}

// A repoContracts holds the contracts that one repository proposed last, by state.
type repoContracts struct {
	Repo      string
	Contracts []coord.Contract
}

// byRepo puts contracts under their repositories, in the order of the project.
func byRepo(repos []coord.Repo, all []coord.Contract) (out []repoContracts) {
	at := map[coord.RepoID]int{}
	for _, r := range repos {
		at[r.ID] = len(at)
	}
	slices.SortStableFunc(all, func(a, b coord.Contract) int {
		return cmp.Or(cmp.Compare(at[a.ProposedBy], at[b.ProposedBy]), cmp.Compare(a.ProposedBy, b.ProposedBy), cmp.Compare(slices.Index(coord.ContractStatuses, a.Status), slices.Index(coord.ContractStatuses, b.Status)))
	})
	for i, c := range all {
		if i == 0 || all[i-1].ProposedBy != c.ProposedBy {
			out = append(out, repoContracts{Repo: repoName(repos, c.ProposedBy)})
		}
		last := &out[len(out)-1]
		last.Contracts = append(last.Contracts, c)
	}
	return out
}

// repoName returns the name of a repository of a project.
func repoName(repos []coord.Repo, id coord.RepoID) string {
	for _, r := range repos {
		if r.ID == id {
			return r.Name
		}
	}
	return string(id)
}

// RepoName returns the name of one of the project's repositories.
func (p projectView) RepoName(id coord.RepoID) string { return repoName(p.Repos, id) }

const projectPage = 50 // projects on the page

func contracts(ctx context.Context, v *visit) (string, any, error) {
	var d contractsData
	list, err := perform(ctx, v, coordination.ListProjects, coordination.ListParams{Summary: true, Limit: projectPage})
	if err != nil {
		return "", nil, err
	}
	for _, p := range list.Projects {
		view := projectView{ID: p.ID, Name: p.Name, Objective: p.Objective, Status: p.Status}
		in := coordination.InProject{Project: p.ID}
		whole, err := perform(ctx, v, coordination.GetProject, coordination.ProjectParams{InProject: in})
		if err != nil {
			return "", nil, err
		}
		view.Repos, view.ByRepo = whole.Repos, byRepo(whole.Repos, whole.Contracts)
		for _, c := range whole.Contracts {
			view.Conflicts += len(c.Conflicts)
		}
		d.Projects = append(d.Projects, view)
	}
	if v.operator() {
		peers, err := perform(ctx, v, coordination.ListPeers, coordination.None{})
		if err != nil {
			return "", nil, err
		}
		d.Peers = peers.Peers
	}
	return "Contracts", d, nil
}

// shownContracts is the number of contracts on a page of the matrix; each has a row for every
// repository that it concerns.
const shownContracts = 30

// matrixData is a page of the matrix of a project.
type matrixData struct {
	contract.Matrix
	Project coord.ProjectID
	Name    string // of the project
	Older   string // the address of the next page; "" on the last one
}

// When returns the time of a result.
func (matrixData) When(i coord.Instant) hub.Time { return hub.At(i.Time()) }

// matrix shows which version of each contract each repository was tested against.
func matrix(ctx context.Context, v *visit) (string, any, error) {
	q := v.r.URL.Query()
	p := contract.MatrixQuery{
		InProject: coordination.InProject{Project: coord.ProjectID(v.r.PathValue("project"))}, Env: q.Get("env"), After: coord.ContractID(q.Get("after")), Limit: shownContracts,
	}
	got, err := perform(ctx, v, coordination.Matrix, p)
	if err != nil {
		return "", nil, err
	}

	d := matrixData{Matrix: got, Project: p.Project, Name: got.Project}
	if got.Next != "" {
		d.Older = "/contracts/" + url.PathEscape(string(p.Project)) + "?" + url.Values{"env": {p.Env}, "after": {string(got.Next)}}.Encode()
	}
	return "Tested versions", d, nil
}

type contractData struct {
	coord.Contract
	Project  projectView
	Versions []versionView
	Open     bool // it can be answered
	Here     string
	Terms    coordination.ShownTerms
	Diff     *contract.Diff // from the version in force, or the one before, to the newest; nil for a first version
}

// A versionView is one version of a contract, with its lines compared with the one before.
type versionView struct {
	Version int
	By      string
	Lines   []diffLine
	Current bool
}

func oneContract(ctx context.Context, v *visit) (string, any, error) {
	in := coordination.InContract{InProject: coordination.InProject{Project: coord.ProjectID(v.r.PathValue("project"))}, Contract: coord.ContractID(v.r.PathValue("id"))}
	got, err := perform(ctx, v, coordination.GetContract, coordination.GetParams{InContract: in, History: true})
	if err != nil {
		return "", nil, err
	}
	whole, err := perform(ctx, v, coordination.GetProject, coordination.ProjectParams{InProject: in.InProject})
	if err != nil {
		return "", nil, err
	}
	d := contractData{Contract: got.Contract, Here: v.r.URL.RequestURI(), Project: projectView{ID: whole.ID, Name: whole.Name, Repos: whole.Repos}}
	d.Open = got.State() != coord.StateWithdrawn && (got.Status == coord.ContractProposed || got.Status == coord.ContractNegotiating)
	d.Terms = got.ShownTerms()
	if got.Version > 1 {
		if d.Diff, err = newestDiff(ctx, v, in, got); err != nil {
			return "", nil, err
		}
	}
	was := ""
	add := func(n int, by coord.RepoID, content json.RawMessage, current bool) {
		text := pretty(content)
		d.Versions = append(d.Versions, versionView{n, repoName(whole.Repos, by), diffLines(was, text), current})
		was = text
	}
	for _, h := range got.History {
		add(h.Version, h.ProposedBy, h.Content, false)
	}
	add(got.Version, got.ProposedBy, got.Content, true)
	return got.Name, d, nil
}

// newestDiff compares the newest version of a contract with the version in force, or else with
// the one before. It is nil if that version is not kept any more.
func newestDiff(ctx context.Context, v *visit, in coordination.InContract, c coordination.Contract) (*contract.Diff, error) {
	q := coordination.DiffParams{InContract: in}
	if f := c.ShownTerms().InForce; f != nil && f.Version < c.Version {
		q.From = f.Version
	}
	got, err := perform(ctx, v, coordination.DiffContract, q)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, nil
	}
	return &got, err
}
