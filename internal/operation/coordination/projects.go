package coordination

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/contract"
)

// A NewRepo is a repository as it is asked for.
type NewRepo struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Language string   `json:"language"`
	Paths    []string `json:"relevantPaths,omitempty"`
	URL      string   `json:"url,omitempty"`
}

func (r NewRepo) repo() coord.Repo {
	return coord.Repo{Name: r.Name, Role: r.Role, Language: r.Language, Paths: r.Paths, URL: r.URL}
}

// NewProject are the parameters of cacp/project/create.
type NewProject struct {
	Name      string                `json:"name"`
	Objective string                `json:"objective"`
	Repos     []NewRepo             `json:"repos,omitempty"`
	Policy    coord.AgreementPolicy `json:"agreementPolicy,omitempty"`
}

// ProjectCreated is the answer to cacp/project/create.
type ProjectCreated struct {
	Project   coord.ProjectID `json:"projectId"`
	Status    string          `json:"status"`
	RepoCount int             `json:"repoCount"`
}

func createProject(ctx context.Context, s *Services, c hub.Caller, p NewProject) (ProjectCreated, error) {
	if err := required("cacp/project/create", "name", p.Name, "objective", p.Objective); err != nil {
		return ProjectCreated{}, err
	}
	n := contract.NewProject{Name: p.Name, Objective: p.Objective, Policy: p.Policy}
	for _, r := range p.Repos {
		n.Repos = append(n.Repos, r.repo())
	}
	made, err := s.Contracts.CreateProject(ctx, c, n)
	return ProjectCreated{made.ID, "created", len(made.Repos)}, err
}

// JoinParams are the parameters of cacp/project/join.
type JoinParams struct {
	InProject
	Repo     string `json:"repoName"`
	Endpoint string `json:"agentEndpoint,omitempty"`
}

// Joined is the answer to cacp/project/join and cacp/project/leave.
type Joined struct {
	Repo    coord.RepoID `json:"repoId"`
	Status  string       `json:"status"`
	Project string       `json:"projectName"`
}

func joinProject(ctx context.Context, s *Services, c hub.Caller, p JoinParams) (Joined, error) {
	project, repo, err := s.Contracts.JoinProject(ctx, c, p.Project, p.Repo, p.Endpoint)
	return Joined{repo.ID, "joined", project.Name}, err
}

// LeaveParams are the parameters of cacp/project/leave.
type LeaveParams struct {
	InProject
	contract.As
}

func leaveProject(ctx context.Context, s *Services, c hub.Caller, p LeaveParams) (Joined, error) {
	project, repo, err := s.Contracts.LeaveProject(ctx, c, p.Project, p.As)
	return Joined{repo.ID, "left", project.Name}, err
}

// ProjectParams are the parameters of methods that need a project and no more.
type ProjectParams struct{ InProject }

func getProject(ctx context.Context, s *Services, c hub.Caller, p ProjectParams, w io.Writer) error {
	return s.Contracts.WriteProject(ctx, c, p.Project, w, nil)
}

// ListParams are the parameters of cacp/project/list.
type ListParams struct {
	After   coord.ProjectID  `json:"after,omitempty"`
	Limit   strictjson.Count `json:"limit,omitzero"`    // default all
	Summary bool             `json:"summary,omitempty"` // without the contents of the projects
}

// Projects is the answer to cacp/project/list, without the contents of projects.
type Projects struct {
	Projects []ListedProject `json:"projects"`
}

// A ListedProject is a project in a list, with its summary.
type ListedProject struct {
	ProjectSummary
	Name      string              `json:"name"`
	Objective string              `json:"objective"`
	Status    coord.ProjectStatus `json:"status"`
}

// A ProjectSummary holds the members that a list adds to a project.
type ProjectSummary struct {
	ID        coord.ProjectID `json:"projectId"`
	Repos     int             `json:"repoCount"`
	Contracts int             `json:"contractCount"`
	Packets   int             `json:"packetCount"`
	CreatedAt coord.Instant   `json:"createdAt"`
}

func summary(p coord.Project) ProjectSummary {
	return ProjectSummary{p.ID, len(p.Repos), p.Tally.Contracts, p.Tally.Packets, p.CreatedAt}
}

// projectPage is how many projects are read at a time.
const projectPage = 100

func listProjects(ctx context.Context, s *Services, c hub.Caller, p ListParams, w io.Writer) error {
	if p.Limit < 0 {
		return hub.Errorf(hub.CodeInvalid, "cacp/project/list", "limit must not be negative, got %d", p.Limit)
	}

	// The list is written while it is read, because all projects together may not fit in memory.
	mark, after := `{"projects":[`, p.After
	for left := p.Limit; ; {
		page, err := s.Contracts.Projects(ctx, c, after, projectPage)
		if err != nil {
			return err
		}
		for _, project := range page {
			if !c.Permits(project.ID, coord.PermitRead) {
				continue
			}
			if _, err := io.WriteString(w, mark); err != nil {
				return err
			}
			mark = ","
			if err := s.writeListed(ctx, c, project, p.Summary, w); err != nil {
				return err
			}
			if left--; left == 0 {
				_, err := io.WriteString(w, "]}")
				return err
			}
		}

		if len(page) < projectPage {
			break
		}
		after = page[len(page)-1].ID
	}

	// An empty list has no first project that wrote the beginning.
	if mark != "," {
		if _, err := io.WriteString(w, mark); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]}")
	return err
}

// writeListed writes a project of a list: with everything in it and the members
// of a summary, or with the latter alone.
func (s *Services) writeListed(ctx context.Context, c hub.Caller, p coord.Project, short bool, w io.Writer) error {
	extra, err := json.Marshal(summary(p))
	if err != nil {
		return err
	}
	if !short {
		return s.Contracts.WriteProject(ctx, c, p.ID, w, extra)
	}
	head, err := json.Marshal(p)
	if err != nil {
		return err
	}
	head[len(head)-1] = ','
	_, err = w.Write(slices.Concat(head, extra[1:]))
	return err
}

// ProjectChanged is the answer to methods that change a project itself.
type ProjectChanged struct {
	Project coord.ProjectID       `json:"projectId"`
	Status  coord.ProjectStatus   `json:"status"`
	Policy  coord.AgreementPolicy `json:"agreementPolicy"`
}

func changed(p coord.Project, err error) (ProjectChanged, error) {
	return ProjectChanged{p.ID, p.Status, p.Policy}, err
}

// StatusParams are the parameters of cacp/project/updateStatus.
type StatusParams struct {
	InProject
	Status coord.ProjectStatus `json:"status"`
}

func updateStatus(ctx context.Context, s *Services, c hub.Caller, p StatusParams) (ProjectChanged, error) {
	return changed(s.Contracts.SetStatus(ctx, c, p.Project, p.Status))
}

// PolicyParams are the parameters of cacp/project/setPolicy.
type PolicyParams struct {
	InProject
	Policy coord.AgreementPolicy `json:"policy"`
}

func setPolicy(ctx context.Context, s *Services, c hub.Caller, p PolicyParams) (ProjectChanged, error) {
	if err := required("cacp/project/setPolicy", "policy", string(p.Policy)); err != nil {
		return ProjectChanged{}, err
	}
	return changed(s.Contracts.SetPolicy(ctx, c, p.Project, p.Policy))
}

// RepoParams are the parameters of cacp/project/addRepo: the repository, or its
// members beside the project.
type RepoParams struct {
	InProject
	contract.As
	New *NewRepo `json:"repo,omitempty"`
	NewRepo
}

// RepoAdded is the answer to cacp/project/addRepo.
type RepoAdded struct {
	Repo   coord.RepoID `json:"repoId"`
	Status string       `json:"status"`
}

func addRepo(ctx context.Context, s *Services, c hub.Caller, p RepoParams) (RepoAdded, error) {
	n := p.NewRepo
	if p.New != nil {
		n = *p.New
	}
	added, err := s.Contracts.AddRepo(ctx, c, p.Project, p.As, n.repo())
	return RepoAdded{added.ID, "added"}, err
}

// ChangesParams are the parameters of cacp/project/changes.
type ChangesParams struct {
	After *int64           `json:"after,omitempty"` // nil for those from now on
	Limit strictjson.Count `json:"limit,omitzero"`
	WaitS int              `json:"waitS,omitempty"` // seconds, if there is none yet
}

// Changes is the answer to cacp/project/changes.
type Changes struct {
	Changes []hub.Change `json:"changes"`
	Next    int64        `json:"next"` // to ask for as after
}

// maxWait is how long a call waits for changes at most.
const maxWait = 60 * time.Second

func changes(ctx context.Context, s *Services, _ hub.Caller, p ChangesParams) (Changes, error) {
	const op = "cacp/project/changes"
	wait := time.Duration(p.WaitS) * time.Second
	if wait < 0 || wait > maxWait {
		return Changes{}, hub.Errorf(hub.CodeInvalid, op, "waitS must be between 0 and %d, got %d", maxWait/time.Second, p.WaitS)
	}

	// The subscription begins before the first read, so that no change is missed in between.
	hints, cancel := s.Bus.Subscribe(hub.TopicChanges)
	defer cancel()

	out := Changes{Changes: []hub.Change{}}
	if p.After != nil {
		out.Next = *p.After
	} else {
		newest, err := s.Contracts.Newest(ctx)
		if err != nil {
			return out, err
		}
		out.Next = newest
	}

	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		found, err := s.Contracts.Changes(ctx, out.Next, int(p.Limit))
		if err != nil {
			return out, err
		}
		if len(found) > 0 {
			return Changes{found, found[len(found)-1].Seq}, nil
		}

		select {
		case <-hints:
		case <-timer.C:
			return out, nil
		case <-s.Done:
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}
