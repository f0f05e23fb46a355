package reftest

import (
	"slices"
	"strings"
)

// A handler answers one method. It runs with a.mu held; the announcement goes to
// peers afterwards.
type handler func(a *Agent, p dict) (result any, n *announcement, err *rpcError)

var methods map[string]handler

func init() {
	methods = map[string]handler{
		"cacp/project/get":              getProject,
		"cacp/project/list":             listProjects,
		"cacp/project/create":           createProject,
		"cacp/project/join":             joinProject,
		"cacp/project/sync":             syncProject,
		"cacp/repo/sync":                syncRepo,
		"cacp/contract/get":             getContract,
		"cacp/contract/list":            listContracts,
		"cacp/contract/propose":         propose,
		"cacp/contract/respond":         respond,
		"cacp/contract/update":          update,
		"cacp/contract/sync":            syncContract,
		"cacp/context/list":             listPackets,
		"cacp/context/getThread":        thread,
		"cacp/context/share":            share,
		"cacp/context/sync":             syncPacket,
		"cacp/implementation/start":     start,
		"cacp/implementation/complete":  complete,
		"cacp/implementation/verify":    verify,
		"cacp/implementation/getStatus": status,
		"cacp/peer/announce": func(a *Agent, _ dict) (any, *announcement, *rpcError) {
			return map[string]any{"status": "acknowledged", "myAgentId": a.ID, "myRepoName": a.Repo}, nil, nil
		},
	}
}

// touch stamps a project with the agent's clock: whatever is stored, is.
func (a *Agent) touch(p *project) { p.UpdatedAt = a.now() }

// find returns the project that a call is about.
func (a *Agent) find(p dict) (*project, *rpcError) {
	id, err := p.text("projectId")
	if err != nil {
		return nil, err
	}
	if found, ok := a.projects[id]; ok {
		return found, nil
	}
	return nil, invalid("Project %s not found", id)
}

// own returns the project and the repository in it that is the agent's.
func (a *Agent) own(p dict) (*project, *repo, *rpcError) {
	found, err := a.find(p)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range found.Repos {
		if r.Name == a.Repo {
			return found, r, nil
		}
	}
	return nil, nil, invalid("Not a member of project %s", found.ID)
}

func (a *Agent) findContract(p dict) (*project, *contract, *rpcError) {
	found, err := a.find(p)
	if err != nil && err.Code != -32602 {
		return nil, nil, err
	}
	id, missing := p.text("contractId")
	if missing != nil {
		return nil, nil, missing
	}
	if found != nil {
		for _, c := range found.Contracts {
			if c.ID == id {
				return found, c, nil
			}
		}
	}
	return nil, nil, invalid("Contract %s not found", id)
}

// stored stamps a contract and its project, and returns the announcement.
func (a *Agent) stored(p *project, c *contract) *announcement {
	c.UpdatedAt = a.now()
	a.touch(p)
	return &announcement{"cacp/contract/sync", map[string]any{"projectId": p.ID, "contract": c}}
}

func (c *contract) move(to string) bool {
	if !slices.Contains(next[c.Status], to) {
		return false
	}
	c.Status = to
	return true
}

func getProject(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, err := a.find(p)
	if err != nil {
		return nil, nil, err
	}
	return clone(found), nil, nil
}

func listProjects(a *Agent, _ dict) (any, *announcement, *rpcError) {
	list := []any{}
	for _, id := range a.order {
		p := a.projects[id]
		list = append(list, map[string]any{
			"projectId": p.ID, "name": p.Name, "status": p.Status, "repoCount": len(p.Repos), "contractCount": len(p.Contracts), "createdAt": p.CreatedAt,
		})
	}
	return map[string]any{"projects": list}, nil, nil
}

func (a *Agent) add(p *project) {
	if _, known := a.projects[p.ID]; !known {
		a.order = append(a.order, p.ID)
	}
	a.projects[p.ID] = p
}

func createProject(a *Agent, p dict) (any, *announcement, *rpcError) {
	repos, err := each(p, "repos", func(d dict) (*repo, *rpcError) {
		for _, key := range []string{"name", "role", "language"} {
			if _, err := d.take(key); err != nil {
				return nil, err
			}
		}
		r, err := newRepo(dict{"name": d["name"], "role": d["role"], "language": d["language"]})
		if err == nil && r.Name == a.Repo {
			r.Agent = &a.ID
		}
		return r, err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"name", "objective"} {
		if _, err := p.take(key); err != nil {
			return nil, nil, err
		}
	}
	made, err := a.project(dict{"name": p["name"], "objective": p["objective"]})
	if err != nil {
		return nil, nil, err
	}
	made.Repos = repos
	a.add(made)
	return map[string]any{"projectId": made.ID, "status": "created", "repoCount": len(repos)}, &announcement{"cacp/project/sync", map[string]any{"project": made}}, nil
}

func joinProject(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, err := a.find(p)
	if err != nil {
		return nil, nil, err
	}
	name, err := p.text("repoName")
	if err != nil {
		return nil, nil, err
	}
	for _, r := range found.Repos {
		if r.Name != name {
			continue
		}
		if r.Agent != nil && *r.Agent != "" && *r.Agent != a.ID {
			return nil, nil, invalid("Repo %s already claimed by another agent", name)
		}
		r.Agent, r.Endpoint = &a.ID, nil
		if s, ok := p["agentEndpoint"].(string); ok {
			r.Endpoint = &s
		}
		a.touch(found)
		return map[string]any{"status": "joined", "repoId": r.ID, "projectName": found.Name},
			&announcement{"cacp/repo/sync", map[string]any{"projectId": found.ID, "repo": r}}, nil
	}
	return nil, nil, invalid("Repo %s not found in project", name)
}

func syncProject(a *Agent, p dict) (any, *announcement, *rpcError) {
	v, err := p.take("project")
	if err != nil {
		return nil, nil, err
	}
	d, ok := v.(map[string]any)
	if !ok {
		return nil, nil, failed("'project' has no attribute 'get'")
	}
	in, err := a.project(d)
	if err != nil {
		return nil, nil, err
	}
	have, known := a.projects[in.ID]
	if !known {
		a.add(in)
		return map[string]any{"status": "created", "projectId": in.ID}, nil, nil
	}
	newer, err := in.UpdatedAt.after(have.UpdatedAt)
	if err != nil {
		return nil, nil, err
	}
	if !newer {
		return map[string]any{"status": "skipped", "reason": "local version is newer"}, nil, nil
	}
	a.add(in)
	a.touch(in)
	return map[string]any{"status": "updated", "projectId": in.ID}, nil, nil
}

// incoming returns the project and the object that a sync call is about; the
// project is nil, without an error, if there is none.
func (a *Agent) incoming(p dict, member string) (*project, dict, any, *rpcError) {
	id, err := p.text("projectId")
	if err != nil {
		return nil, nil, nil, err
	}
	v, err := p.take(member)
	if err != nil {
		return nil, nil, nil, err
	}
	d, ok := v.(map[string]any)
	if !ok {
		return nil, nil, nil, failed("'%s' has no attribute 'get'", member)
	}
	found, ok := a.projects[id]
	if !ok {
		return nil, nil, map[string]any{"status": "error", "reason": "Project " + id + " not found"}, nil
	}
	return found, d, nil, nil
}

func syncRepo(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, d, answer, err := a.incoming(p, "repo")
	if found == nil {
		return answer, nil, err
	}
	in, err := newRepo(d)
	if err != nil {
		return nil, nil, err
	}
	defer a.touch(found)
	for i, r := range found.Repos {
		if r.ID == in.ID {
			found.Repos[i] = in
			return map[string]any{"status": "updated", "repoId": in.ID}, nil, nil
		}
	}
	found.Repos = append(found.Repos, in)
	return map[string]any{"status": "created", "repoId": in.ID}, nil, nil
}

func syncContract(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, d, answer, err := a.incoming(p, "contract")
	if found == nil {
		return answer, nil, err
	}
	in, err := a.contract(d)
	if err != nil {
		return nil, nil, err
	}

	// A contract with a higher version or a later time replaces the stored one.
	for i, c := range found.Contracts {
		if c.ID != in.ID {
			continue
		}
		newer := in.Version > c.Version
		if !newer {
			if newer, err = in.UpdatedAt.after(c.UpdatedAt); err != nil {
				return nil, nil, err
			}
		}
		if !newer {
			return map[string]any{"status": "skipped", "reason": "local version is newer or same"}, nil, nil
		}
		found.Contracts[i] = in
		a.stored(found, in)
		return map[string]any{"status": "updated", "contractId": in.ID, "version": in.Version}, nil, nil
	}

	found.Contracts = append(found.Contracts, in)
	a.touch(found)
	return map[string]any{"status": "created", "contractId": in.ID}, nil, nil
}

func syncPacket(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, d, answer, err := a.incoming(p, "packet")
	if found == nil {
		return answer, nil, err
	}
	in, err := a.packet(d)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(found.Context, func(o *packet) bool { return o.ID == in.ID }) {
		return map[string]any{"status": "skipped", "reason": "already exists"}, nil, nil
	}
	found.Context = append(found.Context, in)
	a.touch(found)
	return map[string]any{"status": "created", "packetId": in.ID}, nil, nil
}

func getContract(a *Agent, p dict) (any, *announcement, *rpcError) {
	_, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	m := clone(c).(map[string]any)
	if all, _ := p["includeHistory"].(bool); !all {
		delete(m, "history")
	}
	return m, nil, nil
}

func listContracts(a *Agent, p dict) (any, *announcement, *rpcError) {
	id, err := p.text("projectId")
	if err != nil {
		return nil, nil, err
	}
	list := []any{}
	if found, ok := a.projects[id]; ok {
		for _, c := range found.Contracts {
			if s, ok := p["status"].(string); ok && s != "" && s != c.Status {
				continue
			}
			if s, ok := p["type"].(string); ok && s != "" && s != c.Type {
				continue
			}
			list = append(list, map[string]any{
				"contractId": c.ID, "type": c.Type, "name": c.Name, "version": c.Version, "status": c.Status, "proposedBy": c.ProposedBy,
			})
		}
	}
	return map[string]any{"contracts": list}, nil, nil
}

func propose(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, mine, err := a.own(p)
	if err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"type", "name", "content"} {
		if _, err := p.take(key); err != nil {
			return nil, nil, err
		}
	}
	c, err := a.contract(dict{"type": p["type"], "name": p["name"], "content": p["content"], "proposed_by": mine.ID})
	if err != nil {
		return nil, nil, err
	}
	found.Contracts = append(found.Contracts, c)
	a.touch(found)
	return map[string]any{"contractId": c.ID, "version": c.Version, "status": c.Status},
		&announcement{"cacp/contract/sync", map[string]any{"projectId": found.ID, "contract": c}}, nil
}

func respond(a *Agent, p dict) (any, *announcement, *rpcError) {
	action, err := p.text("action")
	if err != nil {
		return nil, nil, err
	}
	found, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	var said string
	switch action {
	case "agree":
		if !c.move("agreed") {
			return nil, nil, invalid("Cannot agree to contract in status %s", c.Status)
		}
		said = "agreed"
	case "request_change":
		c.move("negotiating") // whether or not it could
		said = "change_requested"
	case "reject":
		c.Status = "proposed"
		said = "rejected"
	default:
		return nil, nil, invalid("Invalid action: %s", action)
	}
	n := a.stored(found, c)
	return map[string]any{"status": said, "contractVersion": c.Version, "contractStatus": c.Status}, n, nil
}

func update(a *Agent, p dict) (any, *announcement, *rpcError) {
	_, mine, err := a.own(p)
	if err != nil {
		return nil, nil, err
	}
	found, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	v, err := p.take("content")
	if err != nil {
		return nil, nil, err
	}
	content, _ := v.(map[string]any)
	old := &version{Version: c.Version, Content: c.Content, ProposedBy: c.ProposedBy, At: c.UpdatedAt}
	if s, ok := p["changeNotes"].(string); ok {
		old.Notes = &s
	}
	c.History = append(c.History, old)
	c.Version++
	c.Content = content
	c.ProposedBy = mine.ID
	c.Status = "proposed"
	n := a.stored(found, c)
	return map[string]any{"contractId": c.ID, "version": c.Version, "status": c.Status}, n, nil
}

func share(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, mine, err := a.own(p)
	if err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"type", "content"} {
		if _, err := p.take(key); err != nil {
			return nil, nil, err
		}
	}
	d := dict{"from_repo": mine.ID, "from_agent": a.ID, "type": p["type"], "content": p["content"]}
	if v, ok := p["relatedContracts"]; ok {
		d["related_contracts"] = v
	}
	if id, ok := p["replyTo"].(string); ok && id != "" {
		if !slices.ContainsFunc(found.Context, func(o *packet) bool { return o.ID == id }) {
			return nil, nil, invalid("Reply target %s not found", id)
		}
		d["reply_to"] = id
	}
	in, err := a.packet(d)
	if err != nil {
		return nil, nil, err
	}
	found.Context = append(found.Context, in)
	a.touch(found)
	return map[string]any{"packetId": in.ID, "status": "shared"}, &announcement{"cacp/context/sync", map[string]any{"projectId": found.ID, "packet": in}}, nil
}

func listPackets(a *Agent, p dict) (any, *announcement, *rpcError) {
	id, err := p.text("projectId")
	if err != nil {
		return nil, nil, err
	}

	var since *moment
	if s, ok := p["since"].(string); ok && s != "" {
		m := &model{d: dict(p), name: "since"}
		if since = m.moment("since", nil); m.err != nil {
			return nil, nil, invalid("Invalid isoformat string: '%s'", strings.TrimSpace(s))
		}
	}

	list := []*packet{}
	if found, ok := a.projects[id]; ok {
		for _, o := range found.Context {
			if since != nil {
				newer, err := o.At.after(*since)
				if err != nil {
					return nil, nil, err
				}
				if !newer {
					continue
				}
			}
			list = append(list, o)
		}
	}

	// The answer has the last packets, at most as many as the limit.
	limit := 50
	if f, ok := p["limit"].(float64); ok {
		limit = int(f)
	}
	return map[string]any{"packets": clone(list[max(0, len(list)-limit):])}, nil, nil
}

func thread(a *Agent, p dict) (any, *announcement, *rpcError) {
	id, err := p.text("projectId")
	if err != nil {
		return nil, nil, err
	}
	root, err := p.text("packetId")
	if err != nil {
		return nil, nil, err
	}
	list := []*packet{}
	if found, ok := a.projects[id]; ok {
		for _, o := range found.Context {
			if o.ID == root || (o.ReplyTo != nil && *o.ReplyTo == root) {
				list = append(list, o)
			}
		}
	}
	var mixed *rpcError
	slices.SortStableFunc(list, func(x, y *packet) int {
		if _, err := x.At.after(y.At); err != nil {
			mixed = err
		}
		return x.At.t.Compare(y.At.t)
	})
	if mixed != nil {
		return nil, nil, mixed
	}
	return map[string]any{"thread": clone(list)}, nil, nil
}

func (c *contract) work(repo string) *work {
	for _, w := range c.Work {
		if w.Repo == repo {
			return w
		}
	}
	return nil
}

func start(a *Agent, p dict) (any, *announcement, *rpcError) {
	_, mine, err := a.own(p)
	if err != nil {
		return nil, nil, err
	}
	found, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	if c.Status != "agreed" && c.Status != "implemented" {
		return nil, nil, invalid("Contract must be agreed before implementation. Current status: %s", c.Status)
	}
	w := c.work(mine.ID)
	if w == nil {
		w = &work{Repo: mine.ID, Agent: a.ID}
		c.Work = append(c.Work, w)
	}
	now := a.now()
	w.Status = "in_progress"
	w.Files = []string{}
	w.StartedAt = &now
	if s, ok := p["plan"].(string); ok {
		w.Plan = &s
	}
	n := a.stored(found, c)
	return map[string]any{"status": "started", "implementationId": c.ID + ":" + mine.ID}, n, nil
}

func complete(a *Agent, p dict) (any, *announcement, *rpcError) {
	_, mine, err := a.own(p)
	if err != nil {
		return nil, nil, err
	}
	found, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	w := c.work(mine.ID)
	if w == nil {
		return nil, nil, invalid("No implementation started for this contract")
	}
	if _, err := p.take("files"); err != nil {
		return nil, nil, err
	}
	m := &model{d: p, name: "Implementation"}
	now := a.now()
	w.Status = "complete"
	w.Files = m.strings("files")
	w.Notes = m.strOr("notes", "")
	w.CompletedAt = &now
	all := len(c.Work) >= len(found.Repos)
	for _, o := range c.Work {
		all = all && o.Status == "complete"
	}
	if all {
		c.move("implemented")
	}
	n := a.stored(found, c)
	return map[string]any{"status": "complete", "contractStatus": c.Status}, n, nil
}

func verify(a *Agent, p dict) (any, *announcement, *rpcError) {
	found, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	if c.Status != "implemented" {
		return nil, nil, invalid("Contract must be implemented before verification. Current status: %s", c.Status)
	}
	result, err := p.text("result")
	if err != nil {
		return nil, nil, err
	}
	said, ok := map[string]string{"success": "verified", "failure": "failed", "partial": "partial"}[result]
	switch {
	case !ok:
		return nil, nil, invalid("Invalid result: %s", result)
	case result == "success":
		c.move("verified")
	case result == "failure":
		for _, w := range c.Work {
			w.Status = "needs_revision"
		}
		c.move("agreed")
	}
	n := a.stored(found, c)
	return map[string]any{"status": said, "contractStatus": c.Status}, n, nil
}

func status(a *Agent, p dict) (any, *announcement, *rpcError) {
	_, c, err := a.findContract(p)
	if err != nil {
		return nil, nil, err
	}
	list := []any{}
	for _, w := range c.Work {
		list = append(list, map[string]any{
			"repoId": w.Repo, "agentId": w.Agent, "status": w.Status, "files": w.Files, "startedAt": w.StartedAt, "completedAt": w.CompletedAt,
		})
	}
	return map[string]any{"contractId": c.ID, "contractStatus": c.Status, "implementations": list}, nil, nil
}
