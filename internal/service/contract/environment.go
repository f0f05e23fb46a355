package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// An EnvironmentChange declares or removes an environment of a project.
type EnvironmentChange struct {
	InProject
	Name   string `json:"name"`
	Anyway bool   `json:"anyway,omitempty"` // remove it although deployments are recorded there
}

// Environments are the environments of a project.
type Environments struct {
	Environments []EnvironmentState `json:"environments"`
}

// An EnvironmentState is an environment with the repositories that run there.
type EnvironmentState struct {
	Name         string     `json:"name"`
	Declared     bool       `json:"declared"` // false: deployments from before are recorded there, and no answer counts them
	Repositories []Deployed `json:"repositories"`
}

// Environments returns the declared environments of a project, and after them those that only
// deployments from before environments were declared name.
func (s *Service) Environments(ctx context.Context, _ hub.Caller, in InProject) (Environments, error) {
	const op = "contract.Environments"
	return readIn(ctx, s, op, in.Project, func(r hub.Reader, p coord.Project) (Environments, error) {
		out := Environments{[]EnvironmentState{}}
		declared := p.EnvironmentNames()
		others, err := undeclared(r, p)
		for _, name := range slices.Concat(declared, others) {
			if err != nil {
				return out, err
			}
			var found []coord.Deployment
			found, err = r.Coordination().NewestDeployments(p.ID, name)
			state := EnvironmentState{Name: name, Declared: slices.Contains(declared, name), Repositories: []Deployed{}}
			for _, d := range found {
				state.Repositories = append(state.Repositories, deployedOf(p, d))
			}
			out.Environments = append(out.Environments, state)
		}
		return out, err
	})
}

// undeclared returns the environments of deployments that a project does not declare, by name.
func undeclared(r hub.Reader, p coord.Project) (out []string, err error) {
	const most = 500
	for before := int64(0); ; {
		found, err := r.Coordination().Deployments(coord.DeploymentQuery{Project: p.ID, Before: before, Limit: most})
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			before = d.N
			if !p.Environment(d.Env) && !slices.Contains(out, d.Env) {
				out = append(out, d.Env)
			}
		}
		if len(found) < most {
			slices.Sort(out)
			return out, nil
		}
	}
}

// AddEnvironment declares an environment. Only the project's owner, a coordinator or the operator
// may.
func (s *Service) AddEnvironment(ctx context.Context, caller hub.Caller, c EnvironmentChange) (Environments, error) {
	return s.changeEnvironment(ctx, "contract.AddEnvironment", caller, c, false)
}

// RemoveEnvironment removes an environment. It reports CodeConflict while a deployment is recorded
// there, unless it is to be removed anyway.
func (s *Service) RemoveEnvironment(ctx context.Context, caller hub.Caller, c EnvironmentChange) (Environments, error) {
	return s.changeEnvironment(ctx, "contract.RemoveEnvironment", caller, c, true)
}

// changeEnvironment writes the declaration of an environment.
func (s *Service) changeEnvironment(ctx context.Context, op string, caller hub.Caller, c EnvironmentChange, remove bool) (Environments, error) {
	if err := required(op, "name", c.Name); err != nil {
		return Environments{}, err
	}
	if err := checkNames(op, "name", c.Name); err != nil {
		return Environments{}, err
	}
	if err := mayAct(op, caller); err != nil {
		return Environments{}, err
	}
	err := s.update(ctx, caller, "", func(se *session) error {
		p, err := project(se.tx, op, c.Project)
		if err == nil {
			err = se.mayGovern(op, p)
		}
		if err != nil || p.Environment(c.Name) != remove {
			if err == nil && remove {
				err = unknownEnv(op, p, c.Name)
			}
			return err
		}
		if remove && !c.Anyway {
			if err := emptyEnvironment(se.tx, op, p, c.Name); err != nil {
				return err
			}
		}
		return se.putEnvironment(p, c.Name, remove)
	})
	if err != nil {
		return Environments{}, err
	}
	return s.Environments(ctx, caller, c.InProject)
}

// putEnvironment stores the declaration of an environment.
func (se *session) putEnvironment(p coord.Project, name string, removed bool) error {
	was := p
	at := coord.Instant{}
	for _, e := range p.Environments {
		if e.Name == name {
			at = e.At
		}
	}
	p.Environments = mergeEnvironments(p.Environments, []coord.Environment{{Name: name, At: at.After(se.s.o.Clock), Removed: removed}})
	if err := federation.Check(p); err != nil {
		return err
	}
	if err := se.tx.WriteCoordination().PutProject(p, was); err != nil {
		return err
	}
	status := "declared"
	if removed {
		status = "removed"
	}
	return se.record(actions.EnvironmentChanged, projectChange(p), facts{Project: p.ID, Agent: se.agent(), Action: name, Status: status})
}

// emptyEnvironment reports CodeConflict while a deployment is recorded in an environment.
func emptyEnvironment(r hub.Reader, op string, p coord.Project, name string) error {
	found, err := r.Coordination().NewestDeployments(p.ID, name)
	if err != nil || len(found) == 0 {
		return err
	}
	var ids []coord.RepoID
	for _, d := range found {
		ids = append(ids, d.Repo)
	}
	return hub.Errorf(hub.CodeConflict, op, "%s is deployed to %s", names(reposOf(p, ids), " and "), name).WithHint("remove it anyway with --anyway: can-deploy does not know it any more")
}

// unknownEnv is the error of an environment that a project did not declare.
func unknownEnv(op string, p coord.Project, name string) error {
	err := hub.Errorf(hub.CodeInvalid, op, "no environment named %.100q in project %s", name, p.ID)
	if known := p.EnvironmentNames(); len(known) > 0 {
		return err.WithHint("its environments are %s; {contract.env.add} declares another one", strings.Join(known, ", "))
	}
	return err.WithHint("it has none; declare one: {contract.env.add} %s", name)
}

// DeclareDeployed declares the environments of every project in which the operator or a token
// recorded a deployment before environments were declared. It does so once, tells the operator, and
// returns the names of those that it declared and of those that only agents named, by project.
func (s *Service) DeclareDeployed(ctx context.Context) (declared, others map[coord.ProjectID][]string, err error) {
	const key = "contract.environments"
	done, err := hub.Read(ctx, s.store, func(r hub.Reader) (bool, error) { return hub.ReadMeta[bool](r, key) })
	if err != nil || done {
		return nil, nil, err
	}
	declared = map[coord.ProjectID][]string{}
	others = map[coord.ProjectID][]string{}
	err = s.update(ctx, hub.Caller{ID: hub.Self}, "", func(se *session) error {
		for after := coord.ProjectID(""); ; {
			page, err := se.tx.Coordination().Projects(after, maxProjects)
			if err != nil {
				return err
			}
			for _, p := range page {
				after = p.ID
				if err := se.declareDeployed(p, declared, others); err != nil {
					return err
				}
				if err := se.tellDeclared(p, declared[p.ID], others[p.ID]); err != nil {
					return err
				}
			}
			if len(page) < maxProjects {
				return hub.WriteMeta(se.tx, key, true)
			}
		}
	})
	return declared, others, err
}

// declareDeployed is DeclareDeployed for one project.
func (se *session) declareDeployed(p coord.Project, declared, others map[coord.ProjectID][]string) error {
	found, err := undeclared(se.tx, p)
	for _, name := range found {
		if err != nil {
			return err
		}
		newest, err := se.tx.Coordination().Deployments(coord.DeploymentQuery{Project: p.ID, Env: name, Limit: maxResults})
		if err != nil {
			return err
		}
		isOurs := slices.ContainsFunc(newest, func(d coord.Deployment) bool {
			return d.By == string(hub.Operator) || hub.Caller{ID: hub.AgentID(d.By)}.Outside()
		})
		if !isOurs {
			others[p.ID] = append(others[p.ID], name)
			continue
		}
		declared[p.ID] = append(declared[p.ID], name)
		if err := se.putEnvironment(p, name, false); err != nil {
			return err
		}
		if p, err = project(se.tx, "contract.DeclareDeployed", p.ID); err != nil {
			return err
		}
	}
	return err
}

// tellDeclared tells the operator which environments of a project were declared, and the line that
// takes each back.
func (se *session) tellDeclared(p coord.Project, declared, others []string) error {
	if se.s.o.Sender == nil || len(declared)+len(others) == 0 {
		return nil
	}
	n := notice{Event: "environments declared", Project: p.ID, Name: p.Name}
	for _, name := range declared {
		n.Events = append(n.Events, fmt.Sprintf("%s is declared now; if it is misspelt: parley contract env remove %s --project %s --anyway", name, name, p.ID))
	}
	for _, name := range others {
		n.Events = append(n.Events, fmt.Sprintf("%s was recorded by agents only and stays unknown; if it is one: parley contract env add %s --project %s", name, name, p.ID))
	}
	n.Count = len(n.Events)
	n.Events = n.Events[:min(n.Count, maxHeld)]
	n.Summary = cutSummary(fmt.Sprintf("environments are declared since this version; those of %s follow from its deployments: %s", p.Name, n.Events[0]))
	return se.post([]hub.AgentID{hub.Operator}, n)
}
