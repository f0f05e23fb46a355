package folder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

const (
	pageTasks     = 200 // tasks in STATUS.md
	pageDecisions = 500 // decisions in DECISIONS.md
	pageSize      = 200 // rows that are read at a time
)

// A view is a team as its pages show it.
type view struct {
	team      hub.Team
	members   []hub.Member
	counts    map[hub.TaskState]int
	open      []hub.Task // the oldest ones
	conflicts []hub.Conflict
}

// openStates are the states of tasks that are not over.
var openStates = slices.DeleteFunc(slices.Clone(hub.TaskStates), hub.TaskState.Over)

func read(rd hub.Reader, id hub.TeamID) (v view, err error) {
	if v.team, err = rd.Teamspaces().Team(id); err != nil {
		return v, err
	}
	if v.members, err = rd.Teamspaces().Members(hub.MemberQuery{Team: id, Limit: 1000}); err != nil {
		return v, err
	}
	if v.counts, err = rd.Teamspaces().CountTasks(id); err != nil {
		return v, err
	}
	if v.open, err = rd.Teamspaces().Tasks(hub.TaskQuery{Team: id, States: openStates, Limit: pageTasks}); err != nil {
		return v, err
	}
	v.conflicts, err = rd.Teamspaces().Conflicts(hub.ConflictQuery{Team: id, Open: true, Limit: pageTasks})
	return v, err
}

// A seat is a member in the manifest.
type seat struct {
	Agent hub.AgentID `json:"agent"`
	Role  hub.Role    `json:"role"`
	Since hub.Time    `json:"since,omitzero"`
}

// A manifest is teamspace.manifest.json, as the schema teamspace says.
type manifest struct {
	Protocol         string         `json:"protocol"`
	Version          string         `json:"version"`
	ID               hub.TeamID     `json:"teamspace_id"`
	Name             string         `json:"name"`
	Objective        string         `json:"objective"`
	CreatedAt        hub.Time       `json:"created_at,omitzero"`
	CreatedBy        hub.AgentID    `json:"created_by"`
	Lifecycle        hub.Lifecycle  `json:"lifecycle"`
	Policy           hub.TeamPolicy `json:"policy"`
	Members          []seat         `json:"members"`
	ArtifactStrategy string         `json:"artifact_strategy"`
	ConflictStrategy string         `json:"conflict_strategy"`
}

func (v view) manifest() manifest {
	t := v.team
	m := manifest{
		Protocol: hub.Protocol, Version: hub.Version, ID: t.ID, Name: t.Name, Objective: t.Objective, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		Lifecycle: t.Lifecycle, Policy: t.Policy, Members: []seat{}, ArtifactStrategy: "versioned-append", ConflictStrategy: "optimistic-lock+3way-merge+escalation",
	}
	for _, x := range v.members {
		m.Members = append(m.Members, seat{x.Agent, x.Role, x.Since})
	}
	return m
}

// files returns the files that are written again when they differ.
func (v view) files() map[string][]byte {
	return map[string][]byte{"teamspace.manifest.json": indented(v.manifest()), "TEAM.md": v.teamPage(), "STATUS.md": v.statusPage()}
}

func indented(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // strings, numbers and times: cannot fail
	}
	return append(b, '\n')
}

func (v view) teamPage() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nThe hub writes this file; changes made here are lost.\n\nGoal: %s\n\n", escape(v.team.Name), escape(v.team.Objective))
	fmt.Fprintf(&b, "| | |\n|---|---|\n| team | %s |\n| lifecycle | %s |\n| created | %s by %s |\n| tasks in progress at a time | %d |\n| messages are visible to | %s |\n",
		escape(string(v.team.ID)), v.team.Lifecycle, v.team.CreatedAt, escape(string(v.team.CreatedBy)), v.team.Policy.MaxParallelTasks, v.team.Policy.DefaultVisibility)
	if gates := v.team.Policy.HumanGateActions; len(gates) > 0 {
		fmt.Fprintf(&b, "| wait for the operator | %s |\n", escape(strings.Join(gates, ", ")))
	}
	b.WriteString("\n## Members\n\n| agent | role | since |\n|---|---|---|\n")
	for _, m := range v.members {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", escape(string(m.Agent)), m.Role, m.Since)
	}
	return []byte(plaintext.Text(b.String()))
}

func (v view) statusPage() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Status of %s\n\nThe hub writes this file; changes made here are lost.\n\nThe team is %s.\n\n", escape(v.team.Name), v.team.Lifecycle)
	b.WriteString("| tasks | |\n|---|---|\n")
	for _, s := range hub.TaskStates {
		fmt.Fprintf(&b, "| %s | %d |\n", escape(string(s)), v.counts[s])
	}
	if len(v.open) > 0 {
		b.WriteString("\n## Open tasks\n\n| task | state | owner | class | title |\n|---|---|---|---|---|\n")
	}
	for _, t := range v.open {
		state := escape(string(t.State))
		if t.Reason != "" {
			state += ": " + escape(t.Reason)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", t.ID, state, escape(string(t.Owner)), escape(string(t.Class)), escape(t.Title))
	}
	if len(v.open) == pageTasks {
		b.WriteString("\nMore tasks are in tasks/tasks.jsonl.\n")
	}
	if len(v.conflicts) > 0 {
		b.WriteString("\n## Versions to merge\n\n| artifact | version | made from | by | state |\n|---|---|---|---|---|\n")
	}
	for _, k := range v.conflicts {
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s |\n", escape(k.Artifact), k.Version, k.Base, escape(string(k.Author)), escape(string(k.State)))
	}
	return []byte(plaintext.Text(b.String()))
}

// decisions returns the decisions of a team, oldest first.
func decisions(rd hub.Reader, id hub.TeamID) (all []hub.Decision, err error) {
	q := hub.DecisionQuery{Team: string(id), Limit: pageSize}
	for {
		page, err := rd.Decisions(q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			slices.Reverse(all)
			return all, nil
		}
		q.Cursor = page[pageSize-1].ID
	}
}

func decisionPage(id hub.TeamID, all []hub.Decision) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Decisions of %s\n\nThe hub writes this file; changes made here are lost.\n", escape(string(id)))
	if len(all) > pageDecisions {
		fmt.Fprintf(&b, "\nThese are the newest %d of %d; all are in decisions/decisions.jsonl.\n", pageDecisions, len(all))
		all = all[len(all)-pageDecisions:]
	}
	for _, d := range slices.Backward(all) {
		var by []string
		for _, a := range d.Deciders {
			by = append(by, escape(string(a)))
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s by %s at %s\n\n%s\n", escape(d.Title), d.Status, strings.Join(by, ", "), d.At, escape(d.Decision))
		if d.Rationale != "" {
			fmt.Fprintf(&b, "\nBecause: %s\n", escape(d.Rationale))
		}
	}
	return []byte(plaintext.Text(b.String()))
}

// A content is an artifact in a snapshot.
type content struct {
	ID      string `json:"artifact_id"`
	Version int64  `json:"version"`
	SHA256  string `json:"sha256"`
}

// snapshot returns everything that a closed team has come to.
func snapshot(rd hub.Reader, v view) ([]byte, error) {
	s := struct {
		Manifest  manifest       `json:"manifest"`
		Tasks     []hub.Task     `json:"tasks"`
		Roles     []hub.Member   `json:"roles"`
		Decisions []hub.Decision `json:"decisions"`
		Artifacts []content      `json:"artifacts"`
	}{v.manifest(), []hub.Task{}, []hub.Member{}, []hub.Decision{}, []content{}}
	s.Manifest.Lifecycle = hub.TeamClosed

	// Each list is read in pages to its end.
	for n := pageSize; n == pageSize; {
		q := hub.TaskQuery{Team: v.team.ID, Limit: pageSize}
		if last := len(s.Tasks); last > 0 {
			q.Cursor = s.Tasks[last-1].ID
		}
		page, err := rd.Teamspaces().Tasks(q)
		if err != nil {
			return nil, err
		}
		s.Tasks, n = append(s.Tasks, page...), len(page)
	}

	for n := pageSize; n == pageSize; {
		q := hub.MemberQuery{Team: v.team.ID, Ended: true, Limit: pageSize}
		if last := len(s.Roles); last > 0 {
			q.After = s.Roles[last-1].N
		}
		page, err := rd.Teamspaces().Members(q)
		if err != nil {
			return nil, err
		}
		s.Roles, n = append(s.Roles, page...), len(page)
	}

	for n := pageSize; n == pageSize; {
		q := hub.ArtifactQuery{Team: v.team.ID, Limit: pageSize}
		if last := len(s.Artifacts); last > 0 {
			q.Cursor = s.Artifacts[last-1].ID
		}
		page, err := rd.Teamspaces().TeamArtifacts(q)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			s.Artifacts = append(s.Artifacts, content{a.ID, a.Version, a.SHA256})
		}
		n = len(page)
	}

	all, err := decisions(rd, v.team.ID)
	s.Decisions = append(s.Decisions, all...)
	return indented(s), err
}

// escape returns text of agents as one line that Markdown shows as it is.
func escape(text string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(plaintext.Line(text), "\t", " ") {
		if strings.ContainsRune("\\`*_{}[]()<>#+-!|~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
