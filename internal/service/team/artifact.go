package team

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/diff3"
)

// Artifacts keeps content by its SHA-256.
type Artifacts interface {
	Put(r io.Reader) (path, sha256 string, size int64, err error)
	// Open returns stored content. It reports CodeNotFound when there is none.
	Open(sha256 string) (*os.File, error)
}

const (
	maxInline   = 256 << 10 // bytes of a content in a request or an answer
	maxArtifact = 8 << 20   // bytes of an artifact
	maxBeside   = 1000      // open conflicts of an artifact
	maxNote     = 500       // bytes
	putAttempts = 20        // of a put that another hub overtakes
	encoding64  = "base64"
)

// DefaultMergeSLA is the time in which a conflict is to be merged.
const DefaultMergeSLA = 4 * time.Hour

func (r ListArtifacts) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.artifact"
	limit, err := page(op, r.Limit)
	if err != nil {
		return out, err
	}
	return out, s.store.View(ctx, func(rd hub.Reader) error {
		if _, _, err := visible(rd, op, in.actor, in.team); err != nil {
			return err
		}
		all, err := rd.Teamspaces().TeamArtifacts(hub.ArtifactQuery{Team: in.team, Cursor: r.Cursor, Limit: limit})
		out = Answer{Artifacts: append([]hub.TeamArtifact{}, all...)}
		if len(all) == limit {
			out.Next = all[limit-1].ID
		}
		if err != nil {
			return err
		}
		for i, a := range out.Artifacts {
			isWithheld, err := withheld(rd, in.actor, a)
			if err != nil {
				return err
			}
			if isWithheld {
				out.Artifacts[i].SHA256 = ""
			}
		}
		return nil
	})
}

// withheld reports whether the content of an artifact, its hashes and the notes about it are
// withheld from the actor: it has high sensitivity, and the actor reads it as an auditor and is
// no member of its team.
func withheld(rd hub.Reader, actor hub.Caller, a hub.TeamArtifact) (bool, error) {
	if a.Sensitivity != hub.SensitivityHigh || !actor.ReadsAsAuditor() {
		return false, nil
	}
	role, err := roleOf(rd, a.Team, actor.ID)
	return role == "", err
}

// artifactOf returns an artifact of a team that the actor may see.
func artifactOf(rd hub.Reader, op string, actor hub.Caller, id hub.TeamID, name string) (a hub.TeamArtifact, err error) {
	if _, _, err = visible(rd, op, actor, id); err != nil {
		return a, err
	}
	if a, err = rd.Teamspaces().TeamArtifact(id, name); hub.CodeOf(err) == hub.CodeNotFound {
		err = hub.Errorf(hub.CodeNotFound, op, "team %s has no artifact %q", id, name).WithHint("to list its artifacts: {team.artifact} %s", id)
	}
	return a, err
}

func (r ListVersions) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.artifact"
	limit, err := page(op, r.Limit)
	if err != nil {
		return out, err
	}
	q := hub.VersionQuery{Team: in.team, Artifact: r.Artifact, Limit: limit}
	if r.Cursor != "" {
		if _, err := fmt.Sscan(r.Cursor, &q.Before); err != nil || q.Before < 1 {
			return out, hub.Errorf(hub.CodeInvalid, op, "cursor %q is not valid: use next from the page before", r.Cursor)
		}
	}
	return out, s.store.View(ctx, func(rd hub.Reader) error {
		a, err := artifactOf(rd, op, in.actor, in.team, r.Artifact)
		if err != nil {
			return err
		}
		all, err := rd.Teamspaces().ArtifactVersions(q)
		if err != nil {
			return err
		}
		open, err := rd.Teamspaces().Conflicts(hub.ConflictQuery{Team: in.team, Artifact: r.Artifact, Open: true, Limit: maxBeside})
		out = Answer{Artifact: &a, Versions: append([]hub.ArtifactVersion{}, all...), Conflicts: open}
		if len(all) == limit {
			out.Next = fmt.Sprint(all[limit-1].Version)
		}
		if err != nil {
			return err
		}
		isWithheld, err := withheld(rd, in.actor, a)
		if isWithheld {
			out.Artifact.SHA256 = ""
			for i := range out.Versions {
				out.Versions[i].SHA256, out.Versions[i].Note = "", ""
			}
		}
		return err
	})
}

// perform returns a version of an artifact, the newest if the request names none, or
// a part of it. Content that is too long for an answer is read in parts; it is also shared
// with the actor, who can fetch it by its hash.
func (r ReadArtifact) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.artifact"
	actor := in.actor
	isWithheld := false
	err = s.store.View(ctx, func(rd hub.Reader) error {
		a, err := artifactOf(rd, op, actor, in.team, r.Artifact)
		if err != nil {
			return err
		}
		if r.Version == 0 {
			r.Version = a.Version
		}
		v, err := versionOf(rd, op, a, r.Version)
		out = Answer{Artifact: &a, Version: &v}
		if err == nil {
			isWithheld, err = withheld(rd, actor, a)
		}
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	if isWithheld {
		out.Artifact.SHA256 = ""
		out.Version.SHA256, out.Version.Note = "", ""
		out.Warnings = []string{"the content is of high sensitivity: members of the team and the operator can read it"}
		return out, nil
	}

	content, err := s.content(out.Version.SHA256)
	if err != nil {
		return Answer{}, err
	}
	text, isText := string(content), utf8.Valid(content)

	if r.Part != 0 {
		if !isText {
			return Answer{}, hub.Errorf(hub.CodeInvalid, op, "version %d of %s is not text and has no parts", r.Version, r.Artifact)
		}
		parts := split(text)
		if r.Part < 0 || r.Part > len(parts) {
			return Answer{}, hub.Errorf(hub.CodeInvalid, op, "part must be between 1 and %d, got %d", len(parts), r.Part)
		}
		out.Content = &parts[r.Part-1]
		out.Part = &Part{r.Part, len(parts)}
		return out, nil
	}

	// Content that does not fit into an answer is fetched by its hash; auditors may read every
	// artifact.
	if out.Version.Size > maxInline {
		in := ""
		if isText {
			in = fmt.Sprintf("read it with version %d and part 1 to %d, or ", r.Version, len(split(text)))
		}
		out.Warnings = []string{fmt.Sprintf("the content has %d bytes: %sfetch it from the hub's artifacts by its content_hash, %s", out.Version.Size, in, out.Version.SHA256)}
		if actor.Audits() {
			return out, nil
		}
		return out, s.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error { return tx.AddArtifactReader(out.Version.SHA256, actor.ID) })
	}

	if !isText {
		text, out.Encoding = base64.StdEncoding.EncodeToString(content), encoding64
	}
	out.Content = &text
	return out, nil
}

// versionOf returns a version of an artifact.
func versionOf(rd hub.Reader, op string, a hub.TeamArtifact, n int64) (hub.ArtifactVersion, error) {
	v, err := rd.Teamspaces().ArtifactVersion(a.Team, a.ID, n)
	if hub.CodeOf(err) == hub.CodeNotFound {
		err = hub.Errorf(hub.CodeNotFound, op, "%s has no version %d", a.ID, n).WithHint("it has %d versions; the newest is %d", a.Versions, a.Version)
	}
	return v, err
}

// content returns stored content.
func (s *Service) content(sum string) ([]byte, error) {
	f, err := s.artifacts.Open(sum)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxArtifact))
}

// An upload is content that a version is to have.
type upload struct {
	sum  string
	size int64
}

// upload stores the content of a request. Content that a request names by its hash must
// be stored, and the actor must be able to read it.
func (s *Service) upload(ctx context.Context, op string, actor hub.Caller, given Content) (u upload, err error) {
	if s.artifacts == nil {
		return u, hub.Errorf(hub.CodeNotEnabled, op, "this hub does not store artifacts")
	}
	if given.Text != nil && given.SHA256 != "" {
		return u, hub.Errorf(hub.CodeInvalid, op, "content and sha256 cannot be combined").WithHint("leave one of them out")
	}

	// A hash of content that the actor cannot read is answered like an unknown one.
	if given.Text == nil {
		may, err := hub.Read(ctx, s.store, func(rd hub.Reader) (bool, error) { return rd.ReadsArtifact(given.SHA256, actor.ID) })
		if err != nil {
			return u, err
		}
		f, err := s.artifacts.Open(given.SHA256)
		if err == nil {
			defer f.Close()
		}
		isHidden := err == nil && !may && !actor.Audits()
		if isHidden || hub.CodeOf(err) == hub.CodeNotFound {
			return u, hub.Errorf(hub.CodeNotFound, op, "artifact %s does not exist or is not shared with you", given.SHA256).WithHint("store the file first: {artifact.put}")
		}
		if err != nil {
			return u, err
		}

		info, err := f.Stat()
		if err != nil {
			return u, err
		}
		if info.Size() > maxArtifact {
			return u, hub.Errorf(hub.CodeTooLarge, op, "the artifact is too large: %d bytes, limit %d", info.Size(), maxArtifact)
		}
		return upload{given.SHA256, info.Size()}, nil
	}

	content := []byte(*given.Text)
	switch given.Encoding {
	case "", "utf-8":
	case encoding64:
		if content, err = base64.StdEncoding.DecodeString(*given.Text); err != nil {
			return u, hub.Errorf(hub.CodeInvalid, op, "content is not valid base64: %v", err)
		}
	default:
		return u, hub.Errorf(hub.CodeInvalid, op, "unknown encoding %q", given.Encoding).WithHint("use utf-8 or base64")
	}

	if len(content) > maxInline {
		return u, hub.Errorf(hub.CodeTooLarge, op, "content is too large for one call: %d bytes, limit %d", len(content), maxInline).WithHint("store the file first and give its sha256: {artifact.put}")
	}
	_, u.sum, u.size, err = s.artifacts.Put(bytes.NewReader(content))
	return u, err
}

// errOvertaken ends the transaction of a put that another one has overtaken.
var errOvertaken = errors.New("the artifact changed in the meantime")

// lockArtifact makes the puts of one artifact wait for each other, so that in one
// process none is overtaken. It returns the function that ends it, and the error of ctx if
// that ends first.
func (s *Service) lockArtifact(ctx context.Context, id hub.TeamID, name string) (unlock func(), err error) {
	turn := s.putting[maphash.String(s.seed, string(id)+"/"+strings.ToLower(name))%uint64(len(s.putting))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// perform stores a new version. One that was made from the newest version becomes the
// newest. Another one diverges: the hub merges it if it can, else it is kept beside the
// newest until an integrator merges it.
func (r PutArtifact) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.artifact"
	if err := r.check(op); err != nil {
		return out, err
	}

	// Before anything is stored: may the actor put, and did it read what it changed?
	parent, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.ArtifactVersion, error) { return r.parentOf(rd, op, in) })
	if err == nil {
		err = s.checkOf(op, r.Content, r.Of, parent...)
	}
	if err != nil {
		return out, err
	}

	u, err := s.upload(ctx, op, in.actor, r.Content)
	if err != nil {
		return out, err
	}
	unlock, err := s.lockArtifact(ctx, in.team, r.Artifact)
	if err != nil {
		return out, err
	}
	defer unlock()

	for range putAttempts {
		p, err := s.plan(ctx, op, in.team, r, u)
		if err != nil {
			return out, err
		}
		err = s.update(ctx, in, func(c *change) (err error) {
			out, err = c.putVersion(r, u, p)
			return err
		})
		if !errors.Is(err, errOvertaken) {
			return out, err
		}
	}
	return out, hub.Errorf(hub.CodeConflict, op, "%s is being changed too often", r.Artifact).WithHint("try again")
}

// check refuses a put that is wrong by itself.
func (r PutArtifact) check(op string) error {
	switch {
	case !hub.ValidArtifactID(r.Artifact):
		return hub.Errorf(hub.CodeInvalid, op, "artifact name %q is not valid", cut(r.Artifact, 100)).
			WithHint("use letters, digits and . _ -, with / between folders; each part starts with a letter or digit; at most 200 bytes")
	case r.Parent < 0:
		return hub.Errorf(hub.CodeInvalid, op, "parent_version must be 0 or more, got %d", r.Parent).WithHint("give the version that you changed, or 0 for a new artifact")
	case r.Sensitivity != "" && !slices.Contains(hub.Sensitivities, r.Sensitivity):
		return hub.Errorf(hub.CodeInvalid, op, "unknown sensitivity %q", r.Sensitivity).WithHint("use %s", joined(hub.Sensitivities))
	case r.Note != "":
		return checkText(op, "note", r.Note, maxNote)
	}
	return nil
}

// parentOf returns the version that a put was made from, none if it is new or not there:
// then the plan says which versions there are. It refuses a put into a team that the actor
// cannot change.
func (r PutArtifact) parentOf(rd hub.Reader, op string, in call) ([]hub.ArtifactVersion, error) {
	t, role, err := visible(rd, op, in.actor, in.team)
	if err != nil {
		return nil, err
	}
	writes := role != "" || in.actor.IsOperator()
	if !writes || t.ReadOnly() {
		return nil, notWritable(op, t, in.actor)
	}
	if r.Parent == 0 {
		return nil, nil
	}

	v, err := rd.Teamspaces().ArtifactVersion(in.team, r.Artifact, r.Parent)
	if hub.CodeOf(err) == hub.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []hub.ArtifactVersion{v}, nil
}

// notWritable says why the actor cannot put an artifact into a team.
func notWritable(op string, t hub.Team, actor hub.Caller) error {
	if t.ReadOnly() {
		return hub.Errorf(hub.CodeConflict, op, "team %s is %s and cannot be changed", t.ID, t.Lifecycle)
	}
	return hub.Errorf(hub.CodeDenied, op, "%s is not a member of team %s and cannot put artifacts", actor.ID, t.ID).WithHint("ask a coordinator of the team to add you")
}

// A plan is the result of a put, as long as the artifact has a revision.
type plan struct {
	artifact hub.TeamArtifact // as it is before the put; its Revision is 0 if it is new
	base     int64            // of the merge
	merged   *upload          // nil if the newest version and the put cannot be merged
}

// plan reads the artifact and merges the put with its newest version, if it diverges.
func (s *Service) plan(ctx context.Context, op string, id hub.TeamID, r PutArtifact, u upload) (p plan, err error) {
	var d *divergence
	err = s.store.View(ctx, func(rd hub.Reader) (err error) {
		p, d, err = readPlan(rd, op, id, r, u)
		return err
	})
	if err != nil || d == nil || p.artifact.Sensitivity == hub.SensitivityHigh {
		return p, err
	}
	p.merged, err = s.mergeTexts(ctx, d.base, d.newest, u.sum)
	return p, err
}

// A divergence has the hashes of the versions that a put is merged with.
type divergence struct {
	base   string // "" if the put and the newest version have no common version
	newest string
}

// readPlan reads the artifact of a put. The divergence is nil if the put was made from the
// newest version or has its content.
func readPlan(rd hub.Reader, op string, id hub.TeamID, r PutArtifact, u upload) (p plan, d *divergence, err error) {
	p.artifact, err = rd.Teamspaces().TeamArtifact(id, r.Artifact)
	if hub.CodeOf(err) == hub.CodeNotFound {
		p.artifact = hub.TeamArtifact{Team: id, ID: r.Artifact, Sensitivity: hub.SensitivityLow, State: hub.MergeClean}
		if r.Parent != 0 {
			return p, nil, hub.Errorf(hub.CodeNotFound, op, "team %s has no artifact %q with version %d", id, r.Artifact, r.Parent).WithHint("parent_version is 0 for a new artifact")
		}
		return p, nil, freeName(rd, op, p.artifact)
	}
	if err != nil {
		return p, nil, err
	}
	if p.artifact.ID != r.Artifact {
		return p, nil, hub.Errorf(hub.CodeConflict, op, "artifact %q differs from %q only in case", r.Artifact, p.artifact.ID).WithHint("use the existing name, or a different one")
	}

	p.base = r.Parent
	if p.base == p.artifact.Version || u.sum == p.artifact.SHA256 {
		return p, nil, nil
	}
	d = &divergence{newest: p.artifact.SHA256}
	p.base, d.base, err = mergeBase(rd, op, p.artifact, p.base)
	return p, d, err
}

// mergeBase returns the number and the hash of the version that the newest version of an
// artifact and one made from parent have in common, 0 and "" if there is none.
func mergeBase(rd hub.Reader, op string, a hub.TeamArtifact, parent int64) (base int64, sum string, err error) {
	if parent == 0 {
		return 0, "", nil
	}
	if _, err := versionOf(rd, op, a, parent); err != nil {
		return 0, "", err
	}

	// A version beside the newest is no ancestor of it: the base of its conflict is.
	open, err := rd.Teamspaces().Conflicts(hub.ConflictQuery{Team: a.Team, Artifact: a.ID, Version: parent, Open: true, Limit: 1})
	if err != nil {
		return 0, "", err
	}
	base = parent
	if len(open) == 1 && open[0].Result == 0 {
		base = open[0].Base
	}
	if base == 0 {
		return 0, "", nil
	}
	v, err := rd.Teamspaces().ArtifactVersion(a.Team, a.ID, base)
	return base, v.SHA256, err
}

// mergeTexts merges two contents by their base, each named by its hash, and stores the
// result. It returns nil if they cannot be merged: one is not text, both changed the same
// place, or the result is too large.
func (s *Service) mergeTexts(ctx context.Context, base, newest, put string) (*upload, error) {
	var text [3][]byte
	for i, sum := range []string{base, newest, put} {
		if sum == "" {
			continue
		}
		var err error
		if text[i], err = s.content(sum); err != nil {
			return nil, err
		}
		if !diff3.IsText(text[i]) {
			return nil, nil
		}
	}

	merged, ok, err := diff3.Merge(ctx, text[0], text[1], text[2])
	if err != nil || !ok || len(merged) > maxArtifact {
		return nil, err
	}
	_, sum, size, err := s.artifacts.Put(bytes.NewReader(merged))
	return &upload{sum, size}, err
}

// freeName refuses the name of a new artifact that is the folder of another, or that has
// another as its folder.
func freeName(rd hub.Reader, op string, a hub.TeamArtifact) error {
	under, err := rd.Teamspaces().TeamArtifacts(hub.ArtifactQuery{Team: a.Team, Under: a.ID, Limit: 1})
	for i := 0; err == nil && len(under) == 0 && i < len(a.ID); i++ {
		if a.ID[i] == '/' {
			above, e := rd.Teamspaces().TeamArtifact(a.Team, a.ID[:i])
			if err = e; hub.CodeOf(err) == hub.CodeNotFound {
				err = nil
			} else if err == nil {
				under = append(under, above)
			}
		}
	}
	if err == nil && len(under) > 0 {
		return hub.Errorf(hub.CodeConflict, op, "artifacts %q and %q cannot be a file and its folder", a.ID, under[0].ID).WithHint("choose another name")
	}
	return err
}

// putVersion stores the result of a plan.
func (c *change) putVersion(r PutArtifact, u upload, p plan) (out Answer, err error) {
	a, err := c.current(r.Artifact, p)
	if err != nil {
		return out, err
	}
	marked := r.Sensitivity != "" && r.Sensitivity != a.Sensitivity
	if marked {
		if err := c.checkMark(a); err != nil {
			return out, err
		}
		a.Sensitivity = r.Sensitivity
	}

	// Equal content makes no new version, a version made from the newest one replaces it, and any
	// other diverges.
	v := hub.ArtifactVersion{Artifact: a.ID, SHA256: u.sum, Size: u.size, Parent: r.Parent, Author: c.actor.ID, Note: r.Note}
	switch {
	case a.Versions > 0 && u.sum == a.SHA256: // equal content
		if v, err = c.tx.Teamspaces().ArtifactVersion(a.Team, a.ID, a.Version); err == nil && marked {
			err = c.tx.WriteTeamspaces().PutTeamArtifact(a)
		}
		return Answer{Artifact: &a, Version: &v}, err
	case v.Parent == a.Version:
		if len(a.Beside) == 0 {
			a.State = hub.MergeClean
		}
		if v, err = c.addVersion(&a, v, true); err == nil {
			err = c.finishPut(a, v)
		}
		return Answer{Artifact: &a, Version: &v}, err
	}
	v, result, err := c.diverge(&a, v, p)
	return Answer{Artifact: &a, Version: &v, Warnings: []string{result}}, err
}

// current returns the artifact of a plan as the transaction has it. It reports errOvertaken
// if the artifact has changed since.
func (c *change) current(name string, p plan) (hub.TeamArtifact, error) {
	a, err := c.tx.Teamspaces().TeamArtifact(c.team.ID, name)
	if hub.CodeOf(err) == hub.CodeNotFound {
		a = p.artifact
		err = nil
		if a.Revision == 0 { // another name may be its folder by now
			err = freeName(c.tx, c.op, a)
		}
	}

	switch {
	case err != nil:
		return a, err
	case a.Revision != p.artifact.Revision:
		return a, errOvertaken
	case c.role == "" && !c.actor.IsOperator():
		return a, notWritable(c.op, c.team, c.actor)
	}
	return a, nil
}

// checkMark refuses another sensitivity of an artifact: only those who lead the team lower a
// high one, and not while versions wait for an integrator or a reviewer.
func (c *change) checkMark(a hub.TeamArtifact) error {
	if a.Sensitivity != hub.SensitivityHigh {
		return nil
	}
	if err := c.leads("lower the sensitivity of an artifact"); err != nil {
		return err
	}
	if len(a.Beside) > 0 && !c.actor.IsOperator() {
		return hub.Errorf(hub.CodeConflict, c.op, "the sensitivity of %s cannot be lowered while versions wait for a merge or a signature", a.ID).WithHint("lower it later, or ask the operator")
	}
	return nil
}

// addVersion stores a version with the next number, as the newest if it is.
func (c *change) addVersion(a *hub.TeamArtifact, v hub.ArtifactVersion, newest bool) (hub.ArtifactVersion, error) {
	a.Versions++
	v.Team = c.team.ID
	v.Version = a.Versions
	v.At = c.now
	if newest {
		a.Version = v.Version
		a.SHA256 = v.SHA256
		a.Size = v.Size
		a.Author = v.Author
		a.At = v.At
	}
	if a.Revision == 0 { // the row of a version refers to that of its artifact
		if err := c.tx.WriteTeamspaces().PutTeamArtifact(*a); err != nil {
			return v, err
		}
		a.Revision = 1
	}
	if err := c.tx.WriteTeamspaces().AddArtifactVersion(v); err != nil {
		return v, err
	}
	facts := map[string]any{"artifact_id": v.Artifact, "version": v.Version, "sha256": v.SHA256, "parent_version": v.Parent, "newest": a.Version}
	if len(v.Parents) > 0 {
		facts["parents"] = v.Parents
	}
	return v, c.record(actions.TeamArtifact, facts)
}

// finishPut stores the artifact and tells the members of a version.
func (c *change) finishPut(a hub.TeamArtifact, v hub.ArtifactVersion) error {
	if err := c.tx.WriteTeamspaces().PutTeamArtifact(a); err != nil {
		return err
	}
	return c.tellArtifact(a, v, a.State, nil)
}

// tellArtifact tells the members of a version, with more members of the payload.
func (c *change) tellArtifact(a hub.TeamArtifact, v hub.ArtifactVersion, state hub.MergeState, more map[string]any) error {
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return err
	}
	return c.tell(with(all), hub.TypeTeamArtifactUpdate, artifactUpdate(a, v, state, more))
}

// artifactUpdate returns the payload about a version, with more members.
func artifactUpdate(a hub.TeamArtifact, v hub.ArtifactVersion, state hub.MergeState, more map[string]any) map[string]any {
	payload := map[string]any{"artifact_id": a.ID, "version": v.Version, "content_hash": v.SHA256, "state": state, "newest": a.Version}
	if v.Author != hub.Self {
		payload["author"] = v.Author
	}
	for name, value := range more {
		payload[name] = value
	}
	return payload
}

// diverge stores a version that was made from an earlier one than the newest, with the
// conflict, and the merge of both if there is one. It returns the version, and the result
// in words for its author.
func (c *change) diverge(a *hub.TeamArtifact, v hub.ArtifactVersion, p plan) (_ hub.ArtifactVersion, result string, err error) {
	if len(a.Beside) >= maxBeside {
		return v, "", hub.Errorf(hub.CodeTooLarge, c.op, "too many versions of %s wait for a merge (%d)", a.ID, len(a.Beside)).WithHint("merge them first, or change the newest version, %d", a.Version)
	}

	newest := a.Version
	if v, err = c.addVersion(a, v, false); err != nil {
		return v, "", err
	}

	// The hub merges if it can and the sensitivity is not high; a merge by hand has a deadline.
	k := hub.Conflict{Team: a.Team, Artifact: a.ID, Version: v.Version, Base: p.base, Newest: newest, State: hub.MergeDiverged, Author: v.Author, At: c.now}
	next := hub.MergeManual
	switch {
	case a.Sensitivity == hub.SensitivityHigh:
		next = hub.MergeEscalated
	case p.merged != nil:
		next = hub.MergeAuto
	default:
		k.DueAt = c.now.Add(c.s.mergeSLA)
	}
	due := k.DueAt
	if k, err = k.Advance(next, c.now); err != nil {
		return v, "", err
	}
	k.DueAt = due

	// A version that the hub does not merge waits beside the newest one.
	if next != hub.MergeAuto {
		a.Beside, a.State = append(slices.Clone(a.Beside), v.Version), next
		if err := c.putConflict(k); err != nil {
			return v, "", err
		}
		if err := c.tx.WriteTeamspaces().PutTeamArtifact(*a); err != nil {
			return v, "", err
		}
		merging, err := c.tellConflict(*a, v, k)
		return v, fmt.Sprintf("your version %d was made from %[3]d, and the newest version is %[2]d; %[4]s merges both", v.Version, a.Version, v.Parent, merging), err
	}

	// The merge of the hub becomes the newest version, and the conflict ends.
	m := hub.ArtifactVersion{Artifact: a.ID, SHA256: p.merged.sum, Size: p.merged.size, Parent: newest, Parents: []int64{newest, v.Version}, Author: hub.Self}
	if m, err = c.addVersion(a, m, true); err != nil {
		return v, "", err
	}
	if k, err = k.Advance(hub.MergeResolved, c.now); err != nil {
		return v, "", err
	}
	k.Result, k.MergedBy = m.Version, hub.Self
	if err := c.putConflict(k); err != nil {
		return v, "", err
	}

	if len(a.Beside) == 0 {
		a.State = hub.MergeResolved
	}
	if err := c.tx.WriteTeamspaces().PutTeamArtifact(*a); err != nil {
		return v, "", err
	}
	return v, fmt.Sprintf("your version %d was made from %d; the hub merged it with version %d into version %d, the newest", v.Version, v.Parent, newest, m.Version),
		c.tellArtifact(*a, m, hub.MergeAuto, map[string]any{"parents": m.Parents})
}

// or joins names of which one is enough.
func or(ids []hub.AgentID) string {
	if len(ids) < 2 {
		return joined(ids)
	}
	return joined(ids[:len(ids)-1]) + " or " + string(ids[len(ids)-1])
}

// tellConflict tells the members, among them both authors, of a conflict that an
// integrator must merge, and returns who merges. For the agents that must merge it is an
// alarm.
func (c *change) tellConflict(a hub.TeamArtifact, v hub.ArtifactVersion, k hub.Conflict) (who string, err error) {
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return "", err
	}
	summary := fmt.Sprintf("version %d of %s and the newest, %d, must be merged", v.Version, a.ID, a.Version)
	merging := with(all, hub.RoleIntegrator)
	switch {
	case a.Sensitivity == hub.SensitivityHigh && len(merging) == 0:
		merging, summary = []hub.AgentID{}, summary+" by an integrator; the team has none"
	case a.Sensitivity == hub.SensitivityHigh:
	case len(merging) == 0 || k.State == hub.MergeEscalated:
		merging = with(all, mergers(a)...)
	}
	who = "an integrator (the team has none) or the operator"
	if len(merging) > 0 {
		who = or(merging)
		summary += " by " + who
	}
	payload := artifactUpdate(a, v, k.State, map[string]any{
		"parents": []int64{a.Version, v.Version}, "base_version": k.Base, "merge_by": merging[:min(len(merging), 10)], "summary": summary,
	})
	if err := c.tellAs(hub.PriorityHigh, "", merging, hub.TypeTeamArtifactUpdate, payload); err != nil {
		return "", err
	}
	others := slices.DeleteFunc(with(all), func(id hub.AgentID) bool { return slices.Contains(merging, id) })
	return who, c.tell(others, hub.TypeTeamArtifactUpdate, payload)
}

// putConflict stores a conflict with its journal entry.
func (c *change) putConflict(k hub.Conflict) error {
	if err := c.tx.WriteTeamspaces().PutConflict(k); err != nil {
		return err
	}
	facts := map[string]any{"artifact_id": k.Artifact, "version": k.Version, "newest": k.Newest, "state": k.State}
	if k.Result > 0 {
		facts["merged_version"], facts["merged_by"] = k.Result, k.MergedBy
	}
	if k.SignedBy != "" {
		facts["signed_by"] = k.SignedBy
	}
	return c.record(actions.TeamConflict, facts)
}

// mergers returns the roles that merge versions of an artifact.
func mergers(a hub.TeamArtifact) []hub.Role {
	if a.Sensitivity == hub.SensitivityHigh {
		return []hub.Role{hub.RoleIntegrator}
	}
	return []hub.Role{hub.RoleIntegrator, hub.RoleCoordinator}
}

func (r SignMerge) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	return out, s.update(ctx, in, func(c *change) (err error) {
		out, err = c.sign(r.Artifact)
		return err
	})
}

// perform stores the merge of the newest version and one beside it. The roles of mergers
// may.
func (r Merge) perform(ctx context.Context, s *Service, in call) (out Answer, err error) {
	const op = "team.merge"
	if !r.Given() {
		return out, hub.Errorf(hub.CodeInvalid, op, "content is required").WithHint("give the merged content, or its sha256")
	}
	if r.Note != "" {
		if err := checkText(op, "note", r.Note, maxNote); err != nil {
			return out, err
		}
	}

	// A version that is read in parts can be merged only with its digest, which proves that all
	// of it was read.
	made, err := hub.Read(ctx, s.store, func(rd hub.Reader) ([]hub.ArtifactVersion, error) { return r.merged(rd, op, in) })
	if err == nil {
		err = s.checkOf(op, r.Content, r.Of, made...)
	}
	if err != nil {
		return out, err
	}

	u, err := s.upload(ctx, op, in.actor, r.Content)
	if err != nil {
		return out, err
	}

	unlock, err := s.lockArtifact(ctx, in.team, r.Artifact)
	if err != nil {
		return out, err
	}
	defer unlock()
	return out, s.update(ctx, in, func(c *change) (err error) {
		out, err = c.merge(r, u)
		return err
	})
}

// merged returns the versions that a merge is made of: those that the request names, else
// the newest and the only one beside it. The transaction of the merge checks them again.
func (r Merge) merged(rd hub.Reader, op string, in call) (out []hub.ArtifactVersion, err error) {
	a, err := artifactOf(rd, op, in.actor, in.team, r.Artifact)
	if err != nil {
		return nil, err
	}
	numbers := r.Parents
	if len(numbers) == 0 && len(a.Beside) == 1 {
		numbers = []int64{a.Version, a.Beside[0]}
	}
	for _, n := range numbers {
		v, err := rd.Teamspaces().ArtifactVersion(a.Team, a.ID, n)
		if hub.CodeOf(err) == hub.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// merge stores the merge of the newest version and one beside it. That of an artifact with
// a high sensitivity counts when a reviewer has signed it.
func (c *change) merge(r Merge, u upload) (out Answer, err error) {
	a, open, err := c.conflictsOf(r.Artifact)
	if err != nil {
		return out, err
	}
	if !c.actor.IsOperator() && !slices.Contains(mergers(a), c.role) {
		return out, hub.Errorf(hub.CodeDenied, c.op, "%s is %s and cannot merge versions of %s (sensitivity %s)", c.actor.ID, roleIn(c.role, c.team.ID), a.ID, a.Sensitivity).
			WithHint("these roles can: %s", joined(mergers(a)))
	}
	unmerged := slices.DeleteFunc(slices.Clone(open), func(k hub.Conflict) bool { return k.Result > 0 })
	parents, err := mergeParents(c.op, a, unmerged, r.Parents)
	if err != nil {
		return out, err
	}

	v := hub.ArtifactVersion{Artifact: a.ID, SHA256: u.sum, Size: u.size, Parent: a.Version, Parents: parents, Author: c.actor.ID, Note: r.Note}
	if v, err = c.addVersion(&a, v, true); err != nil {
		return out, err
	}
	if err := c.endConflicts(&a, v, unmerged); err != nil {
		return out, err
	}
	if len(a.Beside) == 0 {
		a.State = hub.MergeResolved
	}

	// A merge of high sensitivity ends its conflicts only when a reviewer has signed it.
	if a.Sensitivity != hub.SensitivityHigh {
		return Answer{Artifact: &a, Version: &v}, c.finishPut(a, v)
	}
	if err := c.tx.WriteTeamspaces().PutTeamArtifact(a); err != nil {
		return out, err
	}
	signing, err := c.tellUnsigned(a, v)
	out = Answer{Artifact: &a, Version: &v, Warnings: []string{"the conflict ends when " + signing + " signs the merge"}}
	return out, err
}

// mergeParents returns the two versions that a merge is made of: the newest and one beside
// it. A request that names none means the only one beside.
func mergeParents(op string, a hub.TeamArtifact, unmerged []hub.Conflict, parents []int64) ([]int64, error) {
	if len(parents) == 0 && len(unmerged) == 1 {
		parents = []int64{a.Version, unmerged[0].Version}
	}
	switch {
	case len(unmerged) == 0:
		return nil, hub.Errorf(hub.CodeConflict, op, "%s has no versions to merge", a.ID)
	case len(parents) != 2:
		return nil, hub.Errorf(hub.CodeInvalid, op, "parents must be the newest version, %d, and one of %s", a.Version, numbers(unmerged))
	case parents[0] != a.Version:
		return nil, hub.Errorf(hub.CodeConflict, op, "version %d is not the newest version of %s; %d is", parents[0], a.ID, a.Version).WithHint("read the newest version and merge again")
	case !slices.ContainsFunc(unmerged, func(k hub.Conflict) bool { return k.Version == parents[1] }):
		return nil, hub.Errorf(hub.CodeConflict, op, "version %d of %s does not wait for a merge", parents[1], a.ID).WithHint("these versions do: %s", numbers(unmerged))
	}
	return parents, nil
}

// endConflicts notes in the conflicts that v merges that it does, and ends those that need
// no signature. The version beside may come from others beside, which v merges too.
func (c *change) endConflicts(a *hub.TeamArtifact, v hub.ArtifactVersion, unmerged []hub.Conflict) error {
	next := hub.MergeResolved
	if a.Sensitivity == hub.SensitivityHigh {
		next = hub.MergeEscalated // until a reviewer signs
	}

	// A version beside may be made from an earlier one beside, so the loop goes from the latest
	// back.
	merged := []int64{v.Parents[1]}
	for _, k := range slices.Backward(unmerged) {
		if !slices.Contains(merged, k.Version) {
			continue
		}
		from, err := c.tx.Teamspaces().ArtifactVersion(a.Team, a.ID, k.Version)
		if err != nil {
			return err
		}
		merged = append(merged, from.Parent)

		k.Result = v.Version
		k.MergedBy = c.actor.ID
		if k.State != next {
			if k, err = k.Advance(next, c.now); err != nil {
				return err
			}
		}
		if err := c.putConflict(k); err != nil {
			return err
		}
		if k.Over() {
			a.Beside = slices.DeleteFunc(slices.Clone(a.Beside), func(n int64) bool { return n == k.Version })
		}
	}
	return nil
}

// tellUnsigned tells the members of a merge that counts when a reviewer has signed it, and
// returns who signs. For the reviewers it is an alarm.
func (c *change) tellUnsigned(a hub.TeamArtifact, v hub.ArtifactVersion) (string, error) {
	all, err := roster(c.tx, c.team.ID)
	if err != nil {
		return "", err
	}
	signing := slices.DeleteFunc(with(all, hub.RoleReviewer), func(id hub.AgentID) bool { return id == v.Author })
	who := "a reviewer (the team has none) or the operator"
	if len(signing) > 0 {
		who = or(signing)
	}
	payload := artifactUpdate(a, v, a.State, map[string]any{
		"sign_by": signing[:min(len(signing), 10)], "summary": fmt.Sprintf("version %d of %s, a merge by %s, waits for the signature of %s", v.Version, a.ID, v.Author, who),
	})
	if err := c.tellAs(hub.PriorityHigh, "", signing, hub.TypeTeamArtifactUpdate, payload); err != nil {
		return "", err
	}
	others := slices.DeleteFunc(with(all), func(id hub.AgentID) bool { return slices.Contains(signing, id) })
	return who, c.tell(others, hub.TypeTeamArtifactUpdate, payload)
}

// sign ends the conflicts of an artifact of high sensitivity that are merged.
func (c *change) sign(name string) (out Answer, err error) {
	if !c.actor.IsOperator() && c.role != hub.RoleReviewer {
		return out, hub.Errorf(hub.CodeDenied, c.op, "%s is %s and cannot sign a merge", c.actor.ID, roleIn(c.role, c.team.ID)).WithHint("ask a reviewer of the team")
	}
	a, open, err := c.conflictsOf(name)
	if err != nil {
		return out, err
	}

	// A conflict can be signed once it has a merge, and not by the agent that made the merge.
	signed := 0
	for _, k := range open {
		switch {
		case k.Result == 0:
			continue
		case k.MergedBy == c.actor.ID:
			return out, hub.Errorf(hub.CodeDenied, c.op, "%s made the merge and cannot sign it", c.actor.ID).WithHint("ask another reviewer of the team")
		}

		if k, err = k.Advance(hub.MergeResolved, c.now); err != nil {
			return out, err
		}
		k.SignedBy = c.actor.ID
		if err := c.putConflict(k); err != nil {
			return out, err
		}
		a.Beside = slices.DeleteFunc(slices.Clone(a.Beside), func(n int64) bool { return n == k.Version })
		signed++
	}

	if signed == 0 {
		return out, hub.Errorf(hub.CodeConflict, c.op, "%s has no merge to sign", a.ID)
	}
	if len(a.Beside) == 0 {
		a.State = hub.MergeResolved
	}

	v, err := c.tx.Teamspaces().ArtifactVersion(a.Team, a.ID, a.Version)
	if err != nil {
		return out, err
	}
	return Answer{Artifact: &a, Version: &v}, c.finishPut(a, v)
}

// conflictsOf returns an artifact with its open conflicts.
func (c *change) conflictsOf(name string) (a hub.TeamArtifact, open []hub.Conflict, err error) {
	if a, err = artifactOf(c.tx, c.op, c.actor, c.team.ID, name); err == nil {
		open, err = c.tx.Teamspaces().Conflicts(hub.ConflictQuery{Team: a.Team, Artifact: a.ID, Open: true, Limit: maxBeside})
	}
	return a, open, err
}

// numbers lists the versions beside the newest.
func numbers(open []hub.Conflict) string {
	var words []string
	for _, k := range open {
		words = append(words, fmt.Sprint(k.Version))
	}
	return strings.Join(words, ", ")
}

const (
	sweepEvery = 10 * time.Second // the time between two searches for conflicts whose time has passed
	sweepBatch = 100
	leaseTime  = time.Minute
)

// Run escalates conflicts whose time has passed, and tells the queue outside the hub the
// owners of tasks, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var changed <-chan struct{}
	if s.queue != nil {
		hints, cancel := s.bus.Subscribe(hub.TopicJournal)
		defer cancel()
		changed = hints
	}
	for {
		if err := s.mirror(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot send the owner of a task to the queue", "op", "team.mirror", "code", hub.CodeOf(err), "err", err)
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot escalate conflicts", "op", "team.Sweep", "code", hub.CodeOf(err), "err", err)
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep escalates every conflict whose time has passed.
func (s *Service) Sweep(ctx context.Context) error {
	return hub.Alone(ctx, s.store, "team.Sweep", leaseTime, func(store hub.Store) error {
		due, err := hub.Read(ctx, store, func(r hub.Reader) ([]hub.Conflict, error) {
			return r.Teamspaces().Conflicts(hub.ConflictQuery{Due: s.clock.Now(), Limit: sweepBatch})
		})
		if err != nil {
			return fmt.Errorf("team: sweep: %w", err)
		}
		for _, k := range due {
			if err := s.escalate(ctx, store, k); err != nil {
				return fmt.Errorf("team: sweep %s: %w", k.Artifact, err)
			}
		}
		return nil
	})
}

// escalate escalates a conflict that is due. In a team that is closed it is due no more.
func (s *Service) escalate(ctx context.Context, store hub.Store, k hub.Conflict) error {
	var c *change
	err := store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		c = &change{s: s, tx: tx, op: "team.Sweep", actor: hub.Caller{ID: hub.Self}, now: s.clock.Now()}
		// The conflict is read again: it may be merged by now.
		now, err := tx.Teamspaces().Conflicts(hub.ConflictQuery{Team: k.Team, Artifact: k.Artifact, Version: k.Version, Due: c.now, Limit: 1})
		if err != nil || len(now) == 0 {
			return err
		}
		if c.team, err = tx.Teamspaces().Team(k.Team); err != nil {
			return err
		}
		if c.team.ReadOnly() {
			now[0].DueAt = hub.Time{}
			return tx.WriteTeamspaces().PutConflict(now[0])
		}

		k, err := now[0].Advance(hub.MergeEscalated, c.now)
		if err != nil {
			return err
		}
		if err := c.putConflict(k); err != nil {
			return err
		}

		a, err := tx.Teamspaces().TeamArtifact(k.Team, k.Artifact)
		if err != nil {
			return err
		}
		v, err := tx.Teamspaces().ArtifactVersion(k.Team, k.Artifact, k.Version)
		if err != nil {
			return err
		}
		a.State = hub.MergeEscalated
		if err := tx.WriteTeamspaces().PutTeamArtifact(a); err != nil {
			return err
		}
		_, err = c.tellConflict(a, v, k)
		return err
	})
	if err == nil {
		s.mail.Announce(c.posted...)
	}
	return err
}
