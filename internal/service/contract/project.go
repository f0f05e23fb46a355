package contract

import (
	"context"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// A NewProject describes a new project.
type NewProject struct {
	Name      string
	Objective string
	Repos     []coord.Repo          // Name, Role and Language must be given; ids are made here
	Policy    coord.AgreementPolicy // default counterparty
}

// CreateProject makes a project. A repository with the name of the hub's own is
// claimed for this hub at once.
func (s *Service) CreateProject(ctx context.Context, caller hub.Caller, n NewProject) (coord.Project, error) {
	const op = "contract.CreateProject"
	if err := mayAct(op, caller); err != nil {
		return coord.Project{}, err
	}

	now := coord.Instant{}.After(s.o.Clock)
	p := coord.Project{
		ID: coord.ProjectID(s.newID()), Name: n.Name, Objective: n.Objective, Status: coord.ProjectPlanning, Policy: n.Policy,
		CreatedAt: now, UpdatedAt: now, Owner: s.aid(caller),
	}
	if p.Policy == "" {
		p.Policy = coord.AgreeCounterparty
	}

	for _, r := range n.Repos {
		if err := s.addRepo(op, &p, &r, now); err != nil {
			return coord.Project{}, err
		}
	}
	if err := federation.Check(p); err != nil {
		return coord.Project{}, err
	}

	err := s.update(ctx, caller, "", func(se *session) error {
		if err := se.roomForProject(op, p.Owner); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutProject(p, coord.Project{}); err != nil {
			return err
		}
		return se.record(actions.ProjectCreated, projectChange(p), facts{Project: p.ID, Agent: s.aid(caller)})
	})
	return p, err
}

// addRepo adds a repository to a project in memory.
func (s *Service) addRepo(op string, p *coord.Project, r *coord.Repo, now coord.Instant) error {
	r.ID = coord.RepoID(s.newID())
	r.Agent = ""
	r.ClaimedAt = coord.Instant{}
	r.UpdatedAt = now
	if r.Name == s.o.Repo && s.o.Repo != "" {
		r.Agent = s.o.Self
		r.Endpoint = s.o.Endpoint
		r.ClaimedAt = now
	}
	if err := federation.Check(*r); err != nil {
		return err
	}
	if err := hub.CheckRepoRole(op, r.Role); err != nil {
		return err
	}
	if _, taken := p.RepoNamed(r.Name); taken {
		return hub.Errorf(hub.CodeInvalid, op, "repos: two repositories are named %q", r.Name)
	}
	if len(p.Repos) >= federation.MaxRepos {
		return hub.Errorf(hub.CodeTooLarge, op, "too many repos: a project can have at most %d", federation.MaxRepos)
	}
	p.Repos = append(slices.Clip(p.Repos), *r)
	slices.SortFunc(p.Repos, func(a, b coord.Repo) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return nil
}

func projectChange(p coord.Project) hub.Change {
	return hub.Change{Project: p.ID, Kind: hub.ChangeProject, Object: string(p.ID)}
}

func repoChange(p coord.ProjectID, id coord.RepoID) hub.Change {
	return hub.Change{Project: p, Kind: hub.ChangeRepo, Object: string(id)}
}

// JoinProject claims a repository for the caller and returns the project with
// it. Claiming again is a success, and may change the endpoint.
func (s *Service) JoinProject(ctx context.Context, caller hub.Caller, id coord.ProjectID, repoName, endpoint string) (coord.Project, coord.Repo, error) {
	x := claiming{op: "contract.JoinProject", s: s, id: id, name: repoName, endpoint: endpoint}
	if err := x.check(caller); err != nil {
		return x.p, x.r, err
	}
	err := s.update(ctx, caller, "", x.store)
	return x.p, x.r, err
}

// A claiming is one call of JoinProject: the claim, and the project and the repository that
// the transaction read and stored.
type claiming struct {
	op       string
	s        *Service
	id       coord.ProjectID
	name     string // of the repository
	endpoint string // "" keeps that of the repository
	agent    coord.AID

	p coord.Project
	r coord.Repo
}

// check refuses a caller that cannot claim the repository whatever the store holds.
func (x *claiming) check(caller hub.Caller) error {
	if err := mayAct(x.op, caller); err != nil {
		return err
	}
	g, _ := coord.GrantIn(caller.Scope, x.id)
	granted := caller.Scope == nil || slices.Contains(g.Repos, x.name) || g.Permits(coord.PermitWrite)
	if !granted {
		return hub.Errorf(hub.CodeDenied, x.op, "%s may not claim repository %.200s", caller.AID, x.name)
	}
	if err := required(x.op, "repoName", x.name); err != nil {
		return err
	}
	if x.agent = x.s.aid(caller); x.agent == "" {
		return hub.Errorf(hub.CodeInvalid, x.op, "%q has no agent id across hubs", caller.ID).WithHint("start the hub with --aid")
	}
	return nil
}

// store writes the claim. A claim that changes nothing is not stored.
func (x *claiming) store(se *session) error {
	if err := x.read(se); err != nil {
		return err
	}
	if err := x.release(se.caller); err != nil {
		return err
	}

	// A claim without an endpoint keeps the endpoint of the repository.
	endpoint := x.endpoint
	if endpoint == "" {
		endpoint = x.r.Endpoint
	}
	if x.r.Agent == x.agent && x.r.Endpoint == endpoint {
		return nil
	}

	// The time of the claim stays when the agent only changes its endpoint.
	x.r.UpdatedAt = x.r.UpdatedAt.After(x.s.o.Clock)
	if x.r.Agent == "" {
		x.r.Agent = x.agent
		x.r.ClaimedAt = x.r.UpdatedAt
	}
	x.r.Endpoint = endpoint
	if err := federation.Check(x.r); err != nil {
		return err
	}
	var err error
	if x.p, err = se.putRepo(x.p, x.r); err != nil {
		return err
	}
	return se.record(actions.RepoClaimed, repoChange(x.p.ID, x.r.ID), facts{Project: x.p.ID, Repo: x.r.ID, Agent: x.agent})
}

// read reads the project and its repository.
func (x *claiming) read(se *session) (err error) {
	if x.p, err = project(se.tx, x.op, x.id); err != nil {
		return err
	}
	var ok bool
	if x.r, ok = x.p.RepoNamed(x.name); !ok {
		return hub.Errorf(hub.CodeNotFound, x.op, "Repository %s not found in project %s", x.name, x.id)
	}
	return nil
}

// release ends the claim of this hub on its own repository, which a coordinator takes over.
// It refuses a repository that another agent claimed.
func (x *claiming) release(caller hub.Caller) error {
	if x.r.Agent == "" || x.r.Agent == x.agent {
		return nil
	}
	own, ok := x.s.ownRepo(x.p)
	hubs := ok && own.ID == x.r.ID && x.r.Agent == x.s.o.Self
	if !hubs || !x.s.isOurs(caller) {
		return hub.Errorf(hub.CodeConflict, x.op, "Repository %s is claimed by %s", x.name, x.r.Agent)
	}
	if !caller.Coordinates() {
		return hub.Errorf(hub.CodeConflict, x.op, "Repository %s is claimed by %s, which is this hub", x.name, x.r.Agent).
			WithHint("ask a coordinator of this hub to claim it, or the operator to release it with {project.leave}")
	}
	x.r.Agent = ""
	x.r.Term++
	return nil
}

// LeaveProject gives the caller's repository back, so that another agent can claim it.
// The operator may give back a repository that an agent of this hub claimed.
func (s *Service) LeaveProject(ctx context.Context, caller hub.Caller, id coord.ProjectID, as As) (coord.Project, coord.Repo, error) {
	const op = "contract.LeaveProject"
	var p coord.Project
	var r coord.Repo
	if err := mayAct(op, caller); err != nil {
		return p, r, err
	}

	err := s.update(ctx, caller, "", func(se *session) (err error) {
		if p, err = project(se.tx, op, id); err != nil {
			return err
		}

		// The operator releases the claim of a local agent without speaking for the repository.
		r, _ = p.RepoNamed(as.Repo)
		if _, ours := s.local(r.Agent); !ours || !caller.IsOperator() {
			if r, err = s.speaksFor(op, p, caller, as); err != nil {
				return err
			}
			if r.Agent != s.aid(caller) {
				return hub.Errorf(hub.CodeConflict, op, "Repository %s is not claimed by %s", r.Name, s.aid(caller))
			}
		}

		// The higher term lets the release win over copies of the claim that peers still send.
		agent := r.Agent
		r.Agent = ""
		r.Endpoint = ""
		r.ClaimedAt = coord.Instant{}
		r.UpdatedAt, r.Term = r.UpdatedAt.After(s.o.Clock), r.Term+1
		if p, err = se.putRepo(p, r); err != nil {
			return err
		}
		return se.record(actions.RepoReleased, repoChange(p.ID, r.ID), facts{Project: p.ID, Repo: r.ID, Agent: agent})
	})
	return p, r, err
}

// local returns the agent of this hub with an AID; the operator has that of the hub.
func (s *Service) local(aid coord.AID) (hub.AgentID, bool) {
	switch {
	case aid == "":
		return "", false
	case aid == s.o.Self:
		return hub.Operator, true
	case s.o.Local == nil:
		return "", false
	}
	return s.o.Local(aid)
}

// putRepo stores a changed repository of a project, and returns the project with it.
func (se *session) putRepo(p coord.Project, r coord.Repo) (coord.Project, error) {
	was := p
	p.Repos = slices.Clone(p.Repos)
	p.Repos[slices.IndexFunc(p.Repos, func(x coord.Repo) bool { return x.ID == r.ID })] = r
	return p, se.tx.WriteCoordination().PutProject(p, was)
}

// AddRepo adds a repository to a project.
func (s *Service) AddRepo(ctx context.Context, caller hub.Caller, id coord.ProjectID, as As, r coord.Repo) (coord.Repo, error) {
	const op = "contract.AddRepo"
	err := s.act(ctx, op, caller, id, as, coord.PermitWrite, func(se *session, p coord.Project, _ coord.Repo) error {
		was := p
		if err := s.addRepo(op, &p, &r, coord.Instant{}.After(s.o.Clock)); err != nil {
			return err
		}
		if err := se.tx.WriteCoordination().PutProject(p, was); err != nil {
			return err
		}
		if err := se.record(actions.RepoAdded, repoChange(p.ID, r.ID), facts{Project: p.ID, Repo: r.ID, Agent: s.aid(caller)}); err != nil {
			return err
		}
		return se.advanceAll(p)
	})
	return r, err
}

// SetStatus sets the status of a project. A later status that follows from its
// contracts replaces it. Only the project's owner, a coordinator or the operator may.
func (s *Service) SetStatus(ctx context.Context, caller hub.Caller, id coord.ProjectID, status coord.ProjectStatus) (coord.Project, error) {
	return s.setProject(ctx, "contract.SetStatus", caller, id, coord.MemberStatus, string(status))
}

// SetPolicy sets the repositories that have to agree to a contract. Only the project's
// owner, a coordinator or the operator may.
func (s *Service) SetPolicy(ctx context.Context, caller hub.Caller, id coord.ProjectID, policy coord.AgreementPolicy) (coord.Project, error) {
	return s.setProject(ctx, "contract.SetPolicy", caller, id, coord.MemberPolicy, string(policy))
}

// setProject writes one member of a project.
func (s *Service) setProject(ctx context.Context, op string, caller hub.Caller, id coord.ProjectID, member, value string) (coord.Project, error) {
	var out coord.Project
	if err := mayAct(op, caller); err != nil {
		return out, err
	}

	err := s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, id)
		if err == nil {
			err = se.mayGovern(op, p)
		}
		if err != nil {
			return err
		}

		// The stamp lets all hubs choose the same value when two of them write the member.
		was := p
		p.SetMember(member, value)
		p.UpdatedAt = later(p.UpdatedAt, p.Stamps.Seen[s.o.Self]).After(s.o.Clock)
		p.Stamps = p.Stamps.With(coord.Stamp{Member: member, Value: value, At: p.UpdatedAt, By: s.o.Self}, false)
		if err := federation.Check(p); err != nil {
			return err
		}

		if err := se.tx.WriteCoordination().PutProject(p, was); err != nil {
			return err
		}

		out = withStanding(p)
		if err := se.record(actions.ProjectChanged, projectChange(p), facts{Project: p.ID, Agent: s.aid(caller), Action: op, Status: value}); err != nil {
			return err
		}

		// The status of a contract can depend on the policy of its project.
		return se.advanceAll(p)
	})
	return out, err
}

// mayGovern reports CodeDenied unless the caller may set the status and the policy of a
// project: its owner, and on the hub of its owner a coordinator or the operator.
func (se *session) mayGovern(op string, p coord.Project) error {
	_, invited, err := se.hostOf(p)
	switch {
	case err != nil:
		return err
	case invited:
		return hub.Errorf(hub.CodeDenied, op, "project %s belongs to %s, which sets its status and policy", p.ID, p.Owner)
	case se.caller.Coordinates(), p.Owner != "" && p.Owner == se.s.aid(se.caller):
		return nil
	}
	return hub.Errorf(hub.CodeDenied, op, "only the owner of project %s, a coordinator or the operator can set its status and policy", p.ID)
}

// advanceAll advances every contract of a project whose repositories or policy
// changed.
func (se *session) advanceAll(p coord.Project) error {
	var moved []coord.Contract // before the change: a store must not change while it is read
	err := se.s.eachContract(se.tx, p.ID, func(c coord.Contract) error {
		if advance(c, p).Status != c.Status {
			moved = append(moved, c)
		}
		return nil
	})
	for _, was := range moved {
		c := advance(was, p)
		if err = se.tx.WriteCoordination().PutContract(c, was); err != nil {
			break
		}
		if err = se.recordContract(actions.ContractAdvanced, p, coord.Repo{}, was, c, "settled"); err != nil {
			break
		}
	}
	return err
}

// withStanding returns p as it is shown: with the later of its own status and the
// derived one, and without stamps, which are about its own.
func withStanding(p coord.Project) coord.Project {
	p.Stamps = coord.Stamps{}
	p.Status = p.Standing()
	return p
}

// Project returns a project without its contracts and packets.
func (s *Service) Project(ctx context.Context, _ hub.Caller, id coord.ProjectID) (coord.Project, error) {
	p, err := hub.Read(ctx, s.store, func(r hub.Reader) (coord.Project, error) { return project(r, "contract.Project", id) })
	return withStanding(p), err
}

// Concerns reports whether a project concerns the caller: one that the caller made, one
// with a repository that the caller speaks for, or one with a repository that no agent
// has claimed yet.
func (s *Service) Concerns(ctx context.Context, caller hub.Caller) (bool, error) {
	aid, ours := s.aid(caller), s.isOurs(caller)
	concerns := func(p coord.Project) bool {
		return p.Owner == aid || slices.ContainsFunc(p.Repos, func(r coord.Repo) bool {
			return r.Agent == aid || r.Agent == "" || (ours && r.Agent == s.o.Self)
		})
	}
	return hub.Read(ctx, s.store, func(r hub.Reader) (bool, error) {
		for after := coord.ProjectID(""); ; {
			page, err := r.Coordination().Projects(after, maxProjects)
			if err != nil || slices.ContainsFunc(page, concerns) {
				return err == nil, err
			}
			if len(page) < maxProjects {
				return false, nil
			}
			after = page[len(page)-1].ID
		}
	})
}

// maxProjects is the largest page of projects.
const maxProjects = 200

// Projects returns projects by id, beginning after one.
func (s *Service) Projects(ctx context.Context, _ hub.Caller, after coord.ProjectID, limit int) ([]coord.Project, error) {
	limit, err := page("contract.Projects", limit, maxProjects)
	if err != nil {
		return nil, err
	}
	all, err := hub.Read(ctx, s.store, func(r hub.Reader) ([]coord.Project, error) { return r.Coordination().Projects(after, limit) })
	for i, p := range all {
		all[i] = withStanding(p)
	}
	return all, err
}
