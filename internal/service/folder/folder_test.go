package folder_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/bus"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/folder"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A desk is a hub with the team auth and its folder.
type desk struct {
	*testing.T
	store   *hubtest.Store
	mail    *mailroom.Mailroom
	teams   *team.Service
	content *blobs.Store
	root    string
	folders *folder.Folders
	now     time.Time
}

var (
	operator = hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator, Role: hub.RoleCoordinator, Auditor: true}
	ana      = hub.Caller{Kind: hub.CallerAgent, ID: "ana", Role: hub.RoleCoordinator}
	bo       = hub.Caller{Kind: hub.CallerAgent, ID: "bo", Role: hub.RoleExecutor}
	cy       = hub.Caller{Kind: hub.CallerAgent, ID: "cy", Role: hub.RoleExecutor} // a member of no team
)

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC), root: filepath.Join(t.TempDir(), "_shared", "teamspaces")}
	clock := func() time.Time { d.now = d.now.Add(time.Millisecond); return d.now }
	d.store = &hubtest.Store{Store: storetest.Open(t, t.TempDir())}
	k := keys.New(d.store, &keys.Options{Clock: clock, Bus: new(bus.Local)})
	if _, err := k.EnsureOperator(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, a := range []hub.Caller{ana, bo, cy} {
		if _, _, _, err := k.AddAgent(t.Context(), operator, hub.Agent{ID: a.ID, Role: a.Role}, keys.NewKey{}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if d.content, err = blobs.Open(t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	if d.mail, err = mailroom.New(d.store, k, &mailroom.Options{Clock: clock, Limits: mailroom.Limits{Unsafe: true}, Features: hub.Features}); err != nil {
		t.Fatal(err)
	}
	if d.teams, err = team.New(d.store, d.mail, &team.Options{Clock: clock, Artifacts: d.content}); err != nil {
		t.Fatal(err)
	}
	d.restart()
	d.do(ana, team.Create{Objective: "log in | <b>safely</b>\n# now", Members: []team.Seat{{Agent: "bo", Role: hub.RoleExecutor}}})
	return d
}

// restart begins as a new process does, which knows nothing of the files.
func (d *desk) restart() {
	d.folders = folder.New(d.store, d.content, d.root, &folder.Options{Clock: func() time.Time { return d.now }})
}

func (d *desk) do(as hub.Caller, q team.Request) team.Answer {
	d.Helper()
	a, err := d.teams.Perform(d.Context(), as, "auth", q)
	if err != nil {
		d.Fatalf("%T %+v: %v", q, q, err)
	}
	return a
}

func (d *desk) put(parent int64, text string) {
	d.Helper()
	d.do(bo, team.PutArtifact{Artifact: "docs/plan.md", Parent: parent, Content: team.Text(text)})
}

func (d *desk) send(dr mailroom.Draft) hub.EnvelopeID {
	d.Helper()
	dr.Type, dr.Payload, dr.Text = hub.TypeStatusUpdate, strictjson.Trust(fmt.Appendf(nil, `{"summary":%q}`, dr.Text)), ""
	got, err := d.mail.Send(d.Context(), ana, dr)
	if err != nil {
		d.Fatal(err)
	}
	return got.ID
}

// render renders until there is nothing new.
func (d *desk) render() {
	d.Helper()
	for more := true; more; {
		var err error
		if more, err = d.folders.Render(d.Context()); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *desk) path(name string) string { return filepath.Join(d.root, "auth", name) }

func (d *desk) read(name string) string {
	d.Helper()
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		d.Fatal(err)
	}
	return string(b)
}

func (d *desk) write(name, text string) {
	d.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
}

// files returns the names of all files in the folder, those that were moved aside with
// the name of the file alone.
func (d *desk) files() (names []string) {
	d.Helper()
	err := filepath.WalkDir(d.path(""), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ = filepath.Rel(d.path(""), name)
			if at := strings.Index(name, ".edited-"); at >= 0 {
				name = name[:at] + ".edited"
			}
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return names
}

func (d *desk) edited() []string {
	d.Helper()
	return slices.DeleteFunc(d.files(), func(name string) bool { return !strings.HasSuffix(name, ".edited") })
}

// lines reads a JSONL file, each of whose lines is an object.
func (d *desk) lines(name string) (all []map[string]any) {
	d.Helper()
	for _, l := range strings.SplitAfter(d.read(name), "\n") {
		if l == "" {
			continue
		}
		var one map[string]any
		if err := json.Unmarshal([]byte(l), &one); err != nil || !strings.HasSuffix(l, "\n") {
			d.Fatalf("%s: %q: %v", name, l, err)
		}
		all = append(all, one)
	}
	return all
}

func TestFolder(t *testing.T) {
	t.Run("R3-006 R3-155 the folder has manifest, pages, artifacts and snapshots at once, and text of agents is escaped", func(t *testing.T) {
		d := open(t)
		d.render()
		for _, name := range []string{"teamspace.manifest.json", "TEAM.md", "STATUS.md", "DECISIONS.md", "artifacts", "snapshots"} {
			if _, err := os.Stat(d.path(name)); err != nil {
				t.Error(err)
			}
		}
		var m struct {
			ID       string `json:"teamspace_id"`
			Members  []any
			Strategy string `json:"conflict_strategy"`
		}
		if err := json.Unmarshal([]byte(d.read("teamspace.manifest.json")), &m); err != nil || m.ID != "auth" || len(m.Members) != 2 || m.Strategy != "optimistic-lock+3way-merge+escalation" {
			t.Errorf("manifest: got %+v (%v)", m, err)
		}
		if got := d.read("TEAM.md"); !strings.Contains(got, `Goal: log in \| \<b\>safely\</b\> \# now`+"\n") || !strings.Contains(got, "| bo | executor |") {
			t.Errorf("TEAM.md: got %s", got)
		}
	})
	t.Run("R3-155 rendering is idempotent, and pages that were edited are written again", func(t *testing.T) {
		d := open(t)
		d.do(ana, team.Decide{Decision: "use ed25519", Rationale: "it is short"})
		d.put(0, "one\n")
		d.render()
		before := map[string]string{}
		for _, name := range d.files() {
			before[name] = d.read(name)
		}
		d.restart()
		d.render()
		for _, name := range d.files() {
			if d.read(name) != before[name] {
				t.Errorf("%s has changed", name)
			}
		}
		for _, name := range []string{"TEAM.md", "STATUS.md", "DECISIONS.md", "teamspace.manifest.json"} {
			d.write(name, "mine\n")
		}
		d.write("notes.txt", "a file of a person\n")
		d.do(ana, team.CreateTask{Title: "rotate"}) // the next rendering
		d.render()
		for _, name := range []string{"TEAM.md", "DECISIONS.md", "teamspace.manifest.json", "notes.txt"} {
			if want := before[name]; name != "notes.txt" && d.read(name) != want {
				t.Errorf("%s: got %q", name, d.read(name))
			}
		}
		if !strings.Contains(d.read("STATUS.md"), "| T-1 | backlog |") || d.read("notes.txt") != "a file of a person\n" || len(d.edited()) != 0 {
			t.Errorf("got %q, %q", d.read("STATUS.md"), d.files())
		}
	})
	t.Run("R3-066 what happens is appended as lines of JSON, and private messages stay out", func(t *testing.T) {
		d := open(t)
		d.render()
		roles := d.read("roles/ledger.jsonl")
		d.do(ana, team.ChangeRole{Agent: "bo", Role: hub.RoleReviewer, Reason: "coverage"})
		d.do(ana, team.CreateTask{Title: "rotate\nthe keys"})
		d.do(ana, team.Decide{Decision: "d", Rationale: "r"})
		d.put(0, "1\n")
		d.put(1, "2\n")
		d.put(1, "3\n")
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "for the team"})
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Text: "for bo alone"})
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "of the team, for bo alone", Policy: &hub.Policy{Visibility: hub.VisibilityPrivate}})
		d.render()
		for name, want := range map[string]int{
			"roles/ledger.jsonl": 3, "tasks/tasks.jsonl": 1, "decisions/decisions.jsonl": 1, "artifacts/registry.jsonl": 3, "conflicts/conflicts.jsonl": 1,
		} {
			if got := d.lines(name); len(got) != want {
				t.Errorf("%s: got %d lines, want %d: %v", name, len(got), want, got)
			}
		}
		if !strings.HasPrefix(d.read("roles/ledger.jsonl"), roles) {
			t.Error("the ledger was not appended to")
		}
		if got := d.read("messages/messages.jsonl"); !strings.Contains(got, "for the team") || strings.Contains(got, "alone") {
			t.Errorf("messages: got %s", got)
		}
		if got := d.lines("artifacts/registry.jsonl")[2]; got["artifact_id"] != "docs/plan.md" || got["version"] != 3.0 || got["parent_version"] != 1.0 {
			t.Errorf("registry: got %v", got)
		}
		if got := d.read("STATUS.md"); !strings.Contains(got, `| docs/plan.md | 3 | 1 | bo | manual\_merge |`) {
			t.Errorf("STATUS.md: got %s", got)
		}
	})
	t.Run("R3-066 a JSONL file that was edited or lost is moved aside and written anew", func(t *testing.T) {
		for i, test := range []struct {
			name  string
			edit  func(d *desk, file string)
			moved int // a part of the decisions is completed, because the store has all of them
		}{
			{"a line changed", func(d *desk, file string) { d.write(file, strings.Replace(d.read(file), "bo", "xx", 1)) }, 3},
			{"a line added", func(d *desk, file string) { d.write(file, d.read(file)+"{}\n") }, 3},
			{"a part removed", func(d *desk, file string) { d.write(file, d.read(file)[:10]) }, 2},
			{"the file removed", func(d *desk, file string) { os.Remove(d.path(file)) }, 0},
		} {
			d := open(t)
			d.do(ana, team.Decide{Decision: "bo decides", Rationale: "r"})
			d.render()
			want := map[string]string{}
			for _, file := range []string{"roles/ledger.jsonl", "messages/messages.jsonl", "decisions/decisions.jsonl"} {
				want[file] = d.read(file)
				test.edit(d, file)
			}
			if i%2 == 1 { // noticed at the start, else at the next rendering
				d.restart()
			} else {
				d.do(ana, team.Move{Lifecycle: hub.TeamActive})
			}
			d.render()
			for file, text := range want {
				if got := d.read(file); !strings.HasPrefix(got, text) {
					t.Errorf("%s, %s: got %q", test.name, file, got)
				}
			}
			if moved := d.edited(); len(moved) != test.moved {
				t.Errorf("%s: %q were moved aside", test.name, moved)
			}
		}
	})
	t.Run("R3-066 a kill between the files and the cursor repeats no line", func(t *testing.T) {
		d := open(t)
		d.render()
		d.do(ana, team.CreateTask{Title: "rotate"})
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "hello"})
		d.store.Before = func(call string) error {
			if strings.HasSuffix(call, "PutCursor") {
				return errors.New("killed")
			}
			return nil
		}
		if _, err := d.folders.Render(t.Context()); err == nil {
			t.Fatal("no error")
		}
		d.store.Before = nil
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "again"})
		d.restart()
		d.render()
		if got := d.lines("tasks/tasks.jsonl"); len(got) != 1 || len(d.edited()) != 0 {
			t.Errorf("got %v and %q", got, d.edited())
		}
		if got := d.read("messages/messages.jsonl"); strings.Count(got, "hello") != 1 || strings.Count(got, "again") != 1 {
			t.Errorf("got %s", got)
		}
	})
	t.Run("R3-154 the newest version lies under its name, the others beside, and an edited one is moved aside", func(t *testing.T) {
		d := open(t)
		d.put(0, "1\n")
		d.render()
		d.put(1, "2\n")
		d.put(1, "3\n") // beside the newest
		d.restart()
		d.render()
		for name, want := range map[string]string{"artifacts/docs/plan.md": "2\n", "artifacts/.versions/docs/plan.md/1": "1\n", "artifacts/.versions/docs/plan.md/3": "3\n"} {
			if got := d.read(name); got != want {
				t.Errorf("%s: got %q", name, got)
			}
		}
		if got := d.edited(); len(got) != 0 {
			t.Errorf("moved aside: %q", got)
		}
		d.write("artifacts/docs/plan.md", "edited by a person\n")
		d.do(ana, team.CreateTask{Title: "rotate"})
		d.render()
		if got := d.read("artifacts/docs/plan.md"); got != "2\n" || !slices.Equal(d.edited(), []string{"artifacts/docs/plan.md.edited"}) {
			t.Errorf("got %q and %q", got, d.edited())
		}
	})
	t.Run("R3-066 the decision of a disagreement is in the folder", func(t *testing.T) {
		d := open(t)
		d.render()
		now := hub.At(d.now)
		err := d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			talk := hub.Deliberation{ID: "d1", Kind: hub.KindDisagreement, State: hub.TalkDecided, From: "ana", Asked: []hub.AgentID{"bo"}, Team: "auth", CreatedAt: now, UpdatedAt: now}
			if err := tx.PutDeliberation(talk); err != nil {
				return err
			}
			if err := tx.AddDecision(hub.Decision{ID: "x1", Team: "auth", Title: "which key", Decision: "ed25519", Deciders: []hub.AgentID{"ana"}, Status: "decided", At: now}); err != nil {
				return err
			}
			_, err := tx.Append(operator.Entry(now, actions.DeliberationMoved, "deliberation/d1", map[string]any{"state": talk.State}))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		d.render()
		if got := d.lines("decisions/decisions.jsonl"); len(got) != 1 || got[0]["title"] != "which key" || !strings.Contains(d.read("DECISIONS.md"), "ed25519") {
			t.Errorf("got %v", got)
		}
	})
	t.Run("R3-155 no link is followed", func(t *testing.T) {
		d := open(t)
		outside := t.TempDir()
		d.render()
		for _, name := range []string{"artifacts", "tasks"} {
			os.RemoveAll(d.path(name))
			if err := os.Symlink(outside, d.path(name)); err != nil {
				t.Fatal(err)
			}
		}
		target := filepath.Join(outside, "target")
		os.WriteFile(target, []byte("keep\n"), 0o600)
		for _, name := range []string{"TEAM.md", "roles/ledger.jsonl"} {
			os.Remove(d.path(name))
			if err := os.Symlink(target, d.path(name)); err != nil {
				t.Fatal(err)
			}
		}
		d.put(0, "1\n")
		d.do(ana, team.CreateTask{Title: "rotate"})
		d.render()
		if all, err := os.ReadDir(outside); err != nil || len(all) != 1 {
			t.Errorf("outside: got %v (%v)", all, err)
		}
		if got, err := os.ReadFile(target); err != nil || string(got) != "keep\n" {
			t.Errorf("got %q (%v)", got, err)
		}
		if d.read("artifacts/docs/plan.md") != "1\n" || len(d.lines("tasks/tasks.jsonl")) != 1 || len(d.lines("roles/ledger.jsonl")) != 2 || !strings.HasPrefix(d.read("TEAM.md"), "# auth") {
			t.Errorf("got %q", d.files())
		}
	})
	t.Run("the text of a forgotten message leaves the folder", func(t *testing.T) {
		d := open(t)
		id := d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "a secret"})
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "no secret"})
		d.render()
		err := d.store.Update(t.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			if _, err := tx.Append(operator.Entry(hub.At(d.now), actions.MessageForgotten, string(id), map[string]any{"sha256": "x"})); err != nil {
				return err
			}
			return tx.ForgetText(id)
		})
		if err != nil {
			t.Fatal(err)
		}
		d.send(mailroom.Draft{To: []hub.AgentID{"bo"}, Team: "auth", Text: "later"})
		d.render()
		for _, name := range d.files() {
			if b, err := os.ReadFile(d.path(name)); err == nil && bytes.Contains(b, []byte("a secret")) {
				t.Errorf("%s holds the text", name)
			}
		}
		if got := d.read("messages/messages.jsonl"); !strings.Contains(got, "no secret") || !strings.Contains(got, "later") || len(d.edited()) != 0 {
			t.Errorf("got %s and %q", got, d.edited())
		}
	})
	t.Run("R3-152 closing writes a snapshot with manifest, tasks, roles, decisions and hashes", func(t *testing.T) {
		d := open(t)
		d.do(ana, team.CreateTask{Title: "rotate"})
		d.do(ana, team.MoveTask{Task: "T-1", State: hub.TaskDropped, Reason: "no time"})
		d.do(ana, team.Decide{Decision: "d", Rationale: "r"})
		d.put(0, "1\n")
		d.do(ana, team.Move{Lifecycle: hub.TeamActive})
		d.do(ana, team.Close{})
		d.render()
		snapshots := func() []string {
			return slices.DeleteFunc(d.files(), func(name string) bool { return !strings.HasPrefix(name, "snapshots/") })
		}
		all := snapshots()
		if len(all) != 1 {
			t.Fatalf("got %q", all)
		}
		var s struct {
			Manifest                struct{ Lifecycle string }
			Tasks, Roles, Decisions []any
			Artifacts               []struct {
				ID      string `json:"artifact_id"`
				Version int
				SHA256  string
			}
		}
		if err := json.Unmarshal([]byte(d.read(all[0])), &s); err != nil || s.Manifest.Lifecycle != "closed" || len(s.Tasks) != 1 || len(s.Roles) != 2 || len(s.Decisions) != 1 || len(s.Artifacts) != 1 || s.Artifacts[0].SHA256 == "" {
			t.Errorf("got %+v (%v)", s, err)
		}
		want := d.read(all[0])
		d.do(ana, team.Archive{})
		d.render()
		if !slices.Equal(snapshots(), all) || d.read(all[0]) != want {
			t.Errorf("after the archive: got %q", snapshots())
		}
	})
}

func TestSchemaOfManifestHasEveryMember(t *testing.T) {
	text, err := schema.Text("teamspace")
	if err != nil {
		t.Fatal(err)
	}
	var published described
	if err := json.Unmarshal(text, &published); err != nil {
		t.Fatal(err)
	}
	published.compare(t, "manifest", reflect.TypeFor[folder.Manifest]())
}

// A described is the part of a JSON schema that names members.
type described struct {
	Properties map[string]described
	Items      *described
}

// compare reports the members of typ that d does not have, and the members of d that typ
// does not have.
func (d described) compare(t *testing.T, path string, typ reflect.Type) {
	t.Helper()
	if typ.Kind() == reflect.Slice && d.Items != nil {
		typ, d = typ.Elem(), *d.Items
	}
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[hub.Time]() {
		return
	}
	members := map[string]bool{}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members[name] = true
		of, ok := d.Properties[name]
		if !ok {
			t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		of.compare(t, path+"."+name, f.Type)
	}
	for name := range d.Properties {
		if !members[name] {
			t.Errorf("%s.%s is in the schema alone", path, name)
		}
	}
}
