package records

import (
	"fmt"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// teamKinds are the kinds of things of teams, and of deliberations, that entries record:
// each with the fact by which the store is compared. For a team it is the lifecycle, for a
// task its state and owner, for a version its hash, for a conflict and a deliberation the
// state.
var teamKinds = []string{"team", "task", "version", "conflict", "deliberation"}

// recordTeam remembers the record that an entry has of a thing of a team.
func (v *verifier) recordTeam(e hub.Entry) {
	family, id, _ := strings.Cut(e.Subject, "/")
	var f struct {
		To       hub.Lifecycle `json:"to"`
		Task     string        `json:"task_id"`
		State    string        `json:"state"`
		Owner    hub.AgentID   `json:"owner"`
		Artifact string        `json:"artifact_id"`
		Version  int64         `json:"version"`
		Digest   string        `json:"sha256"`
	}
	if family != "team" && family != "deliberation" || !v.decodeFacts(e, &f) {
		return
	}
	switch e.Action {
	case hub.ActionTeamCreated:
		v.Items["team"].put(id, string(hub.TeamForming), e)
	case hub.ActionTeamMoved:
		v.Items["team"].put(id, string(f.To), e)
	case hub.ActionTeamTask:
		v.Items["task"].put(f.Task, f.State+" "+string(f.Owner), e)
	case hub.ActionTeamArtifact:
		v.Items["version"].put(versionName(id, f.Artifact, f.Version), f.Digest, e)
	case hub.ActionTeamConflict:
		v.Items["conflict"].put(versionName(id, f.Artifact, f.Version), f.State, e)
	case hub.ActionDeliberationMoved:
		v.Items["deliberation"].put(id, f.State, e)
	}
}

func versionName(team, artifact string, version int64) string {
	return fmt.Sprintf("%d of %s in team %s", version, artifact, team)
}

// checkTeams compares teams, their tasks, versions and conflicts, and deliberations with
// the journal.
func (v *verifier) checkTeams(r hub.Reader) error {
	teams := hub.TeamQuery{All: true, Limit: archivePage}
	for more := true; more; {
		page, err := r.Teams(teams)
		if err != nil {
			return v.unreadable("teams", err)
		}
		for _, t := range page {
			teams.Cursor = t.ID
			v.checkItem("team", string(t.ID), string(t.Lifecycle))
			if err := v.checkVersions(r, t.ID); err != nil {
				return err
			}
		}
		more = len(page) == archivePage
	}
	tasks := hub.TaskQuery{Limit: archivePage}
	for more := true; more; {
		page, err := r.Tasks(tasks)
		if err != nil {
			return v.unreadable("tasks", err)
		}
		for _, t := range page {
			tasks.Cursor = t.ID
			v.checkItem("task", string(t.ID), string(t.State)+" "+string(t.Owner))
		}
		more = len(page) == archivePage
	}
	talks := hub.DeliberationQuery{Limit: archivePage}
	for more := true; more; {
		page, err := r.Deliberations(talks)
		if err != nil {
			return v.unreadable("deliberations", err)
		}
		for _, d := range page {
			talks.Cursor = d.ID
			v.checkItem("deliberation", d.ID, string(d.State))
		}
		more = len(page) == archivePage
	}
	for _, kind := range teamKinds {
		v.Items[kind].missing(v, kind)
	}
	return nil
}

// checkVersions compares the versions and conflicts of a team's artifacts.
func (v *verifier) checkVersions(r hub.Reader, team hub.TeamID) error {
	artifacts := hub.ArtifactQuery{Team: team, Limit: archivePage}
	for more := true; more; {
		page, err := r.TeamArtifacts(artifacts)
		if err != nil {
			return v.unreadable("artifacts", err)
		}
		for _, a := range page {
			artifacts.Cursor = a.ID
			versions := hub.VersionQuery{Team: team, Artifact: a.ID, Limit: archivePage}
			for next := true; next; {
				some, err := r.ArtifactVersions(versions)
				if err != nil {
					return v.unreadable("versions", err)
				}
				for _, x := range some {
					versions.Before = x.Version
					v.checkItem("version", versionName(string(team), a.ID, x.Version), x.SHA256)
				}
				next = len(some) == archivePage && versions.Before > 1
			}
			conflicts, err := r.Conflicts(hub.ConflictQuery{Team: team, Artifact: a.ID, Limit: int(a.Versions) + 1})
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
