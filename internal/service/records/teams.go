package records

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
)

// teamKinds are the kinds of things of teams, deliberations and queues that entries record:
// each with the fact by which the store is compared. For a team it is the lifecycle, for a
// member its role, for a permit the value of a changed cell of the matrix, for a conflict
// and a deliberation the state, for a claim the owner, for the others a hash of the whole.
var teamKinds = []string{"team", "policy", "permit", "member", "task", "version", "conflict", "deliberation", "decision", "claim"}

// recordTeam remembers the record that an entry has of a thing of a team.
func (v *verifier) recordTeam(e hub.Entry) {
	family, _, _ := strings.Cut(string(e.Action), ".")
	_, id, _ := strings.Cut(e.Subject, "/")
	var f struct {
		Agent    string `json:"agent"`
		Owner    string `json:"owner"`
		Role     string `json:"role"`
		Action   string `json:"action"`
		To       string `json:"to"`
		Task     string `json:"task_id"`
		State    string `json:"state"`
		Status   string `json:"status"`
		Decision string `json:"decision_id"`
		Artifact string `json:"artifact_id"`
		Version  int64  `json:"version"`
		Digest   string `json:"sha256"`
	}

	isAboutTeams := family == "team" || family == "deliberation" || family == "claim"
	if !isAboutTeams || !v.decodeFacts(e, &f) {
		return
	}

	// The newest entry about a thing has its record. An entry about its end removes the record.
	switch e.Action {
	case actions.TeamCreated:
		v.Items["team"].put(id, string(hub.TeamForming), e)
		v.Items["policy"].put(ofTeam("", id), f.Digest, e)
	case actions.TeamMoved:
		v.Items["team"].put(id, f.To, e)
	case actions.TeamJoined:
		v.Items["member"].put(ofTeam(f.Agent, id), f.Role, e)
	case actions.TeamLeft:
		delete(v.Items["member"], ofTeam(f.Agent, id))
	case actions.TeamRole:
		if f.Status == "changed" {
			v.Items["member"].put(ofTeam(f.Agent, id), f.To, e)
		}
	case actions.TeamPolicy:
		if f.Digest != "" { // of another policy, with the same matrix
			v.Items["policy"].put(ofTeam("", id), f.Digest, e)
			return
		}
		v.Items["permit"].put(ofTeam(f.Role+":"+f.Action, id), f.To, e)
	case actions.TeamTask:
		v.Items["task"].put(f.Task, f.Digest, e)
	case actions.TeamDecided, actions.DeliberationDecided:
		v.Items["decision"].put(f.Decision, f.Digest, e)
	case actions.TeamArtifact:
		v.Items["version"].put(versionName(id, f.Artifact, f.Version), f.Digest, e)
	case actions.TeamConflict:
		v.Items["conflict"].put(versionName(id, f.Artifact, f.Version), f.State, e)
	case actions.DeliberationMoved:
		v.Items["deliberation"].put(id, f.State, e)
	case actions.Claimed, actions.ClaimMoved:
		v.Items["claim"].put(e.Subject, f.Owner, e)
	case actions.ClaimReleased:
		delete(v.Items["claim"], e.Subject)
	}
}

// ofTeam names a thing of a team.
func ofTeam(thing, team string) string {
	return strings.TrimPrefix(thing+" of team "+team, " ")
}

func versionName(team, artifact string, version int64) string {
	return fmt.Sprintf("%d of %s in team %s", version, artifact, team)
}

// checkTeams compares teams with all that belongs to them, deliberations, decisions and
// claims with the journal. If a table cannot be read, it does not know what is missing and
// ends.
func (v *verifier) checkTeams(r hub.Reader) error {
	tables := []struct {
		name  string
		check func(hub.Reader) error
	}{
		{"teams", v.checkTeamRows},
		{"tasks", v.checkTasks},
		{"deliberations", v.checkDeliberations},
		{"decisions", v.checkDecisions},
		{"claims", v.checkClaims},
	}
	for _, table := range tables {
		if err := table.check(r); err != nil {
			return v.unreadable(table.name, err)
		}
	}

	for _, kind := range teamKinds {
		v.Items[kind].missing(v, kind)
	}
	return nil
}

// checkTeamRows compares the teams, their policies and permits, their members and their
// artifacts.
func (v *verifier) checkTeamRows(r hub.Reader) error {
	q := hub.TeamQuery{All: true, Limit: archivePage}
	for more := true; more; {
		page, err := r.Teamspaces().Teams(q)
		if err != nil {
			return err
		}
		for _, t := range page {
			q.Cursor = t.ID
			v.checkTeam(t)
			if err := v.checkMembers(r, t.ID); err != nil {
				return err
			}
			if err := v.checkVersions(r, t.ID); err != nil {
				return err
			}
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkTeam compares the row of a team with its policy and its permits.
func (v *verifier) checkTeam(t hub.Team) {
	id := string(t.ID)
	v.checkItem("team", id, string(t.Lifecycle))
	v.checkItem("policy", ofTeam("", id), t.Policy.Digest())
	for action, row := range t.Overrides {
		for role, permit := range row {
			v.checkItem("permit", ofTeam(string(role)+":"+string(action), id), string(permit))
		}
	}
}

// checkTasks compares the tasks of all teams.
func (v *verifier) checkTasks(r hub.Reader) error {
	q := hub.TaskQuery{Limit: archivePage}
	for more := true; more; {
		page, err := r.Teamspaces().Tasks(q)
		if err != nil {
			return err
		}
		for _, t := range page {
			q.Cursor = t.ID
			v.checkItem("task", string(t.ID), t.Digest())
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkDeliberations compares the states of deliberations.
func (v *verifier) checkDeliberations(r hub.Reader) error {
	q := hub.DeliberationQuery{Limit: archivePage}
	for more := true; more; {
		page, err := r.Deliberations(q)
		if err != nil {
			return err
		}
		for _, d := range page {
			q.Cursor = d.ID
			v.checkItem("deliberation", d.ID, string(d.State))
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkDecisions compares decisions.
func (v *verifier) checkDecisions(r hub.Reader) error {
	q := hub.DecisionQuery{Limit: archivePage}
	for more := true; more; {
		page, err := r.Decisions(q)
		if err != nil {
			return err
		}
		for _, d := range page {
			q.Cursor = d.ID
			v.checkItem("decision", d.ID, d.Digest())
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkClaims compares the owners of items of the hub's queue.
func (v *verifier) checkClaims(r hub.Reader) error {
	q := hub.TaskQuery{Queue: true, States: []hub.TaskState{hub.TaskInProgress}, Limit: archivePage}
	for more := true; more; {
		page, err := r.Teamspaces().Tasks(q)
		if err != nil {
			return err
		}
		for _, t := range page {
			q.Cursor = t.ID
			v.checkItem("claim", t.Title, string(t.Owner))
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkMembers compares the members of a team that have not left.
func (v *verifier) checkMembers(r hub.Reader, team hub.TeamID) error {
	q := hub.MemberQuery{Team: team, Limit: archivePage}
	for more := true; more; {
		page, err := r.Teamspaces().Members(q)
		if err != nil {
			return v.unreadable("members", err)
		}
		for _, m := range page {
			q.After = m.N
			v.checkItem("member", ofTeam(string(m.Agent), string(team)), string(m.Role))
		}
		more = len(page) == archivePage
	}
	return nil
}

// checkVersions compares the versions and conflicts of a team's artifacts.
func (v *verifier) checkVersions(r hub.Reader, team hub.TeamID) error {
	artifacts := hub.ArtifactQuery{Team: team, Limit: archivePage}
	for more := true; more; {
		page, err := r.Teamspaces().TeamArtifacts(artifacts)
		if err != nil {
			return v.unreadable("artifacts", err)
		}
		for _, a := range page {
			artifacts.Cursor = a.ID

			// Versions come in pages, the newest first.
			versions := hub.VersionQuery{Team: team, Artifact: a.ID, Limit: archivePage}
			for next := true; next; {
				some, err := r.Teamspaces().ArtifactVersions(versions)
				if err != nil {
					return v.unreadable("versions", err)
				}
				for _, x := range some {
					versions.Before = x.Version
					v.checkItem("version", versionName(string(team), a.ID, x.Version), x.SHA256)
				}
				next = len(some) == archivePage && versions.Before > 1
			}

			conflicts, err := r.Teamspaces().Conflicts(hub.ConflictQuery{Team: team, Artifact: a.ID, Limit: int(a.Versions) + 1})
			if err != nil {
				return v.unreadable("conflicts", err)
			}
			for _, k := range conflicts {
				v.checkItem("conflict", versionName(string(team), a.ID, k.Version), string(k.State))
			}
		}
		more = len(page) == archivePage
	}
	return nil
}
