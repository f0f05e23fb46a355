package rows

import (
	"strconv"
	"strings"

	"github.com/parley-agents/parley/hub"
)

// fold is the column of an artifact's name: lower case, so that no two names differ in
// case alone. It is not read back: the body has the name.
func (c *codec) fold(id string) {
	id = strings.ToLower(id)
	c.text(&id)
}

var teamArtifacts = newTable("team_artifacts", "artifact", "team, name, revision, body_json", func(c *codec, a *hub.TeamArtifact) {
	c.text((*string)(&a.Team))
	c.fold(a.ID)
	c.int64(&a.Revision)
	c.encoded(a, false)
})

var artifactVersions = newTable("team_versions", "version", "team, name, n, sha256, body_json", func(c *codec, v *hub.ArtifactVersion) {
	c.text((*string)(&v.Team))
	c.fold(v.Artifact)
	c.int64(&v.Version)
	c.text(&v.SHA256)
	c.encoded(v, false)
})

var conflicts = newTable("team_conflicts", "conflict", "team, name, n, state, due, revision, body_json", func(c *codec, v *hub.Conflict) {
	c.text((*string)(&v.Team))
	c.fold(v.Artifact)
	c.int64(&v.Version)
	state := v.State // of the column, which tells open conflicts from those that are over; the body has the state
	if state == hub.MergeAbandoned {
		state = hub.MergeResolved
	}
	c.text((*string)(&state))
	c.time(&v.DueAt)
	c.int64(&v.Revision)
	c.encoded(v, false)
})

var (
	artifactByName = teamArtifacts.query(`WHERE team = ?1 AND name = ?2`)
	putArtifact    = teamArtifacts.update(2, "revision", ` AND revision = ?5`)
	versionByName  = artifactVersions.query(`WHERE team = ?1 AND name = ?2 AND n = ?3`)
	putConflict    = conflicts.update(3, "state", ` AND revision = ?8`)
)

func (r *reader) TeamArtifact(team hub.TeamID, id string) (hub.TeamArtifact, error) {
	return teamArtifacts.one(r, id, artifactByName, string(team), strings.ToLower(id))
}

func (r *reader) TeamArtifacts(q hub.ArtifactQuery) ([]hub.TeamArtifact, error) {
	var w filter
	w.equal("team", string(q.Team))
	if q.Under != "" { // '0' follows '/'
		under := strings.ToLower(q.Under)
		w.add(`name > ? AND name < ?`, under+"/", under+"0")
	}
	w.add(`name > ?`, strings.ToLower(q.Cursor))
	return teamArtifacts.filtered(r, w, `ORDER BY name`, q.Limit)
}

func (r *reader) ArtifactVersion(team hub.TeamID, id string, version int64) (hub.ArtifactVersion, error) {
	return artifactVersions.one(r, id+" "+strconv.FormatInt(version, 10), versionByName, string(team), strings.ToLower(id), version)
}

func (r *reader) ArtifactVersions(q hub.VersionQuery) ([]hub.ArtifactVersion, error) {
	var w filter
	w.add(`team = ? AND name = ?`, string(q.Team), strings.ToLower(q.Artifact))
	if q.Before > 0 {
		w.add(`n < ?`, q.Before)
	}
	return artifactVersions.filtered(r, w, `ORDER BY n DESC`, q.Limit)
}

func (r *reader) Conflicts(q hub.ConflictQuery) ([]hub.Conflict, error) {
	var w filter
	w.equal("team", string(q.Team))
	w.equal("name", strings.ToLower(q.Artifact))
	w.equal("state", string(q.State))
	if q.Version > 0 {
		w.add(`n = ?`, q.Version)
	}
	if q.Open {
		w.add(`state <> 'resolved'`)
	}
	if !q.Due.IsZero() {
		w.add(`due <= ?`, q.Due.String())
	}
	return conflicts.filtered(r, w, `ORDER BY team, name, n`, q.Limit)
}

func (t *tx) PutTeamArtifact(a hub.TeamArtifact) error {
	was := a.Revision
	a.Revision++
	if was == 0 {
		return teamArtifacts.add(t, a.ID, &a)
	}
	return teamArtifacts.put(t, a.ID, putArtifact, &a, was)
}

func (t *tx) AddArtifactVersion(v hub.ArtifactVersion) error {
	return artifactVersions.add(t, v.Artifact+" "+strconv.FormatInt(v.Version, 10), &v)
}

func (t *tx) PutConflict(c hub.Conflict) error {
	name := c.Artifact + " " + strconv.FormatInt(c.Version, 10)
	was := c.Revision
	c.Revision++
	if was == 0 {
		return conflicts.add(t, name, &c)
	}
	return conflicts.put(t, name, putConflict, &c, was)
}
