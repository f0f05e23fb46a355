package web_test

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/team"
	"github.com/parley-agents/parley/server"
)

// team performs an operation of teams as an agent, or as the operator without one.
func (s *site) team(as hub.AgentID, r api.TeamParams) team.Answer {
	s.t.Helper()
	c := s.operator
	if as != "" {
		c = s.as(as)
	}
	return do(s, c, api.Team, r)
}

// put stores a version of an artifact and returns its number.
func (s *site) put(as hub.AgentID, id hub.TeamID, artifact string, parent int64, content string) int64 {
	s.t.Helper()
	return s.team(as, api.TeamParams{Action: "artifact", Team: id, Artifact: artifact, ParentVersion: &parent, Content: &content}).Version.Version
}

// newTeam makes a team that is active.
func (s *site) newTeam(id hub.TeamID, goal string, members ...team.Seat) {
	s.t.Helper()
	s.team("", api.TeamParams{Action: "create", Team: id, Objective: goal, Members: members})
	s.team("", api.TeamParams{Action: "status", Team: id, Lifecycle: hub.TeamActive})
}

// teamDemo makes a team with tasks, an artifact in conflict and a decision, of agents of
// the demo.
func teamDemo(s *site) {
	s.newTeam("avatars", "Old users without an avatar can log in.", team.Seat{Agent: "planner", Role: hub.RoleCoordinator}, team.Seat{Agent: "builder", Role: hub.RoleExecutor},
		team.Seat{Agent: "tester", Role: hub.RoleExecutor}, team.Seat{Agent: "reviewer", Role: hub.RoleReviewer}, team.Seat{Agent: "docs-writer", Role: hub.RoleIntegrator})
	task := func(title string, class hub.TaskClass, owner hub.AgentID, depends ...hub.TaskID) hub.TaskID {
		return s.team("", api.TeamParams{Action: "task", Team: "avatars", Title: title, Class: class, Owner: owner, DependsOn: &depends}).Task.ID
	}
	move := func(id hub.TaskID, state hub.TaskState, reason string) {
		s.team("", api.TeamParams{Action: "task", Team: "avatars", Task: id, State: state, Reason: reason})
	}
	schema, loader := task("Make the column avatar nullable", hub.ClassGuarded, "builder"), task("Read null in the loader", "", "builder")
	task("Describe the change for customers", "", "", schema, loader)
	for _, id := range []hub.TaskID{schema, loader} {
		move(id, hub.TaskInProgress, "")
	}
	move(schema, hub.TaskInReview, "")
	tests := task("Test with the oldest users", "", "tester")
	move(tests, hub.TaskInProgress, "")
	move(tests, hub.TaskBlocked, "access")
	s.put("builder", "avatars", "config/rollout.toml", 0, "[avatar]\nnullable = false\nbatch = 500\n\n[rollout]\npercent = 10\nstart = \"09:00\"\n")
	s.put("builder", "avatars", "config/rollout.toml", 1, "[avatar]\nnullable = true\nbatch = 500\n\n[rollout]\npercent = 25\nstart = \"09:00\"\n")
	s.put("tester", "avatars", "config/rollout.toml", 1, "[avatar]\nnullable = false\nbatch = 100\n\n[rollout]\npercent = 5\nstart = \"09:00\"\n")
	s.put("docs-writer", "avatars", "notes.md", 0, "# Notes\n\nUsers of 2019 have no avatar.\n")
	s.team("planner", api.TeamParams{Action: "decide", Team: "avatars", Title: "Value for no avatar", Decision: "The API gives null, not an empty string.", Rationale: "old clients know null"})
}

var mergeText = regexp.MustCompile(`(?s)<textarea id="merged"[^>]*>\n(.*?)</textarea>`)

// textOf returns the text in the form of a merge, as a browser reads it.
func textOf(t *testing.T, body string) string {
	t.Helper()
	m := mergeText.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("there is no form:\n%s", body)
	}
	return html.UnescapeString(m[1])
}

func has(t *testing.T, body string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestTeams(t *testing.T) {
	s := newSite(t, server.Options{Limits: server.Limits{Unsafe: true}}, "ana", "bo", "cy", "rea", "ivo")
	s.newTeam("auth", "log in <b>without</b> a password", team.Seat{Agent: "ana", Role: hub.RoleCoordinator}, team.Seat{Agent: "bo", Role: hub.RoleExecutor},
		team.Seat{Agent: "cy", Role: hub.RoleExecutor}, team.Seat{Agent: "rea", Role: hub.RoleReviewer}, team.Seat{Agent: "ivo", Role: hub.RoleIntegrator})
	v, viewer := s.visitor(), s.visitor()
	v.signIn(s.link())
	viewer.signIn(s.invite("ben"))
	open := func(path string) string {
		t.Helper()
		got := v.get(path)
		if got.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %d\n%s", path, got.StatusCode, got.body)
		}
		return got.body
	}
	artifact := func(name string) *hub.TeamArtifact {
		t.Helper()
		return s.team("", api.TeamParams{Action: "artifact", Team: "auth", Artifact: name}).Artifact
	}
	// form is the form of a merge.
	form := func(name string, newest, beside int64, more url.Values) url.Values {
		out := url.Values{"team": {"auth"}, "artifact": {name}, "newest": {fmt.Sprint(newest)}, "beside": {fmt.Sprint(beside)},
			"back": {fmt.Sprintf("/teams/auth/merge/%s?beside=%d", name, beside)}, "next": {"/teams/auth/artifacts/" + name}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}

	t.Run("R3-158 tasks stand on a board, and are filtered and paged", func(t *testing.T) {
		for i := range 55 {
			s.team("", api.TeamParams{Action: "task", Team: "auth", Title: fmt.Sprintf("step %d", i)})
		}
		first := s.team("", api.TeamParams{Action: "task", Team: "auth", Title: "rotate <i>the</i> keys", Class: hub.ClassHighRisk, Owner: "bo"}).Task.ID
		s.team("", api.TeamParams{Action: "task", Team: "auth", Title: "tell users", Owner: "cy", DependsOn: &[]hub.TaskID{first}})
		s.team("", api.TeamParams{Action: "task", Team: "auth", Task: first, State: hub.TaskBlocked, Reason: "failing_checks"})
		has(t, open("/teams"), "log in <b>without</b> a password", "5 members", "backlog 55", "blocked 1")
		body := open("/teams/auth")
		has(t, body, "rotate <i>the</i> keys", "high risk", "failing checks", "after "+string(first), "All tasks: backlog", `href="/agents/rea"`)
		if strings.Contains(body, "<i>the</i>") || strings.Contains(body, "step 20<") {
			t.Error("a title is HTML, or the board shows more than its part")
		}
		list := open("/teams/auth?state=backlog")
		next := regexp.MustCompile(`href="(/teams/auth\?state=backlog[^"]*cursor=[^"]*)"`).FindStringSubmatch(list)
		if next == nil || strings.Contains(list, "rotate") {
			t.Fatalf("the list of the backlog: %s", list)
		}
		has(t, open(html.UnescapeString(next[1])), "step 54")
		if body := open("/teams/auth?owner=cy"); strings.Contains(body, "step 1<") || !strings.Contains(body, "tell users") {
			t.Error("the filter by owner shows others")
		}
	})
	t.Run("decisions of the team and results of its disagreements are one list", func(t *testing.T) {
		s.team("ana", api.TeamParams{Action: "decide", Team: "auth", Title: "store", Decision: "SQLite it is", Rationale: "one file"})
		one := do(s, s.as("bo"), api.Send, api.SendParams{To: api.Recipients{"cy"}, Team: "auth", Type: hub.TypePositionState, Policy: []byte(`{"visibility":"team","sensitivity":"high","human_gate":"none"}`),
			Payload: []byte(`{"topic":"cache","position":"none","reasoning":"simple","confidence":"high","open_to_revision":true}`)}).ID
		do(s, s.as("cy"), api.Inbox, api.InboxParams{})
		challenge := do(s, s.as("cy"), api.Send, api.SendParams{To: api.Recipients{"bo"}, Team: "auth", ThreadID: string(one), Type: hub.TypePositionChallenge, Policy: []byte(`{"visibility":"team","sensitivity":"high","human_gate":"none"}`),
			Payload: []byte(`{"position_id":"` + string(one) + `","counter_position":"redis","reasoning":"speed","severity":"minor"}`)}).ID
		do(s, s.as("bo"), api.Inbox, api.InboxParams{})
		do(s, s.as("bo"), api.Send, api.SendParams{To: api.Recipients{"cy"}, Team: "auth", ThreadID: string(one), Type: hub.TypePositionConcede, Policy: []byte(`{"visibility":"team","sensitivity":"high","human_gate":"none"}`),
			Payload: []byte(`{"position_id":"` + string(one) + `","challenge_id":"` + string(challenge) + `","what_changed_mind":"xyzzy figures"}`)})
		has(t, open("/teams/auth"), "SQLite it is", "one file", "xyzzy figures", `href="/conversations/`+string(one)+`"`)
		if body := viewer.get("/teams/auth").body; strings.Contains(body, "xyzzy") || !strings.Contains(body, "SQLite it is") {
			t.Error("a viewer reads words of high sensitivity, or does not read others")
		}
	})
	t.Run("R3-154 versions, content and comparison of an artifact", func(t *testing.T) {
		var lines []string
		for i := range 40 {
			lines = append(lines, fmt.Sprintf("line %d", i))
		}
		s.put("bo", "auth", "docs/plan.md", 0, strings.Join(lines, "\n"))
		lines[20] = "<script>alert(1)</script>"
		parent, text := int64(1), strings.Join(lines, "\n")
		s.team("cy", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "docs/plan.md", ParentVersion: &parent, Content: &text, Note: "names the <key>"})
		has(t, open("/teams/auth"), "docs/plan.md", "clean")
		has(t, open("/teams/auth/artifacts/docs/plan.md"), "Version 2", "from 1", "names the <key>", "line 39", "<script>alert(1)</script>")
		has(t, open("/teams/auth/artifacts/docs/plan.md?version=1"), "line 20")
		body := open("/teams/auth/artifacts/docs/plan.md?version=2&from=1")
		has(t, body, `<span class="del">line 20</span>`, `<span class="add"><script>alert(1)</script></span>`, "equal lines")
		if strings.Contains(body, ">line 5<") || strings.Contains(body, "<script>alert") {
			t.Error("the comparison shows equal lines far from a change, or a line is HTML")
		}
		s.put("bo", "auth", "long.txt", 0, strings.Repeat("x\n", 4000))
		s.put("bo", "auth", "long.txt", 1, strings.Repeat("y\n", 4000))
		s.put("cy", "auth", "long.txt", 1, strings.Repeat("z\n", 4000))
		has(t, open("/teams/auth/artifacts/long.txt?version=2&from=1"), "too long to compare")
		has(t, open("/teams/auth/merge/long.txt"), "More lines are not shown")
		v.do("merge", form("long.txt", 2, 3, url.Values{"take": {"newest"}}))
		binary := base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 255})
		zero := int64(0)
		got := s.team("bo", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "logo.png", ParentVersion: &zero, Content: &binary, Encoding: "base64"}).Version
		has(t, open("/teams/auth/artifacts/logo.png"), "is not text: 4 B", got.SHA256)
	})
	t.Run("R3-161 a conflict is merged in three panes", func(t *testing.T) {
		s.put("bo", "auth", "keys.toml", 0, "\nkeys = 1\nlimit = 5\nend\n")
		s.put("bo", "auth", "keys.toml", 1, "\nkeys = 2\nlimit = 5\nEND\n")
		s.put("cy", "auth", "keys.toml", 1, "\nkeys = 3\nlimit = 5\nend\n")
		has(t, open("/teams"), "1 to merge")
		has(t, open("/teams/auth"), `href="/teams/auth/merge/keys.toml?beside=3"`)
		body := open("/teams/auth/merge/keys.toml?beside=3")
		has(t, body, `aria-label="Base"`, `aria-label="Newest"`, `aria-label="Beside it"`, `<span class="add">keys = 3</span>`)
		text := textOf(t, body)
		want := "\n<<<<<<< version 2, the newest\nkeys = 2\n||||||| version 1, the base\nkeys = 1\n======= version 3, beside it\nkeys = 3\n>>>>>>> end\nlimit = 5\nEND\n"
		if text != want {
			t.Fatalf("the form has\n%s\nwant\n%s", text, want)
		}
		refused := func(name string, status int, says string, f url.Values) string {
			t.Helper()
			before := artifact("keys.toml")
			got := v.do("merge", f)
			if got.StatusCode != status || !strings.Contains(html.UnescapeString(got.body), says) {
				t.Errorf("%s: got %d, want %d and %q:\n%s", name, got.StatusCode, status, says, got.body)
			}
			if after := artifact("keys.toml"); after.Versions != before.Versions {
				t.Errorf("%s: a version was stored", name)
			}
			return got.body
		}
		browser := func(text string) []string { return []string{strings.ReplaceAll(text, "\n", "\r\n")} }
		if got := textOf(t, refused("with marks", 400, "line 2 of the text is a conflict marker", form("keys.toml", 2, 3, url.Values{"content": browser(text)}))); got != text {
			t.Errorf("the text that was sent is not kept: %q", got)
		}
		refused("a version that is not in conflict", 409, "does not wait for a merge", form("keys.toml", 2, 1, url.Values{"content": {"x"}}))
		refused("no number", 400, "is not a version number", form("keys.toml", 2, 3, url.Values{"content": {"x"}, "newest": {"two"}}))
		refused("no parents", 409, "is not the newest", form("keys.toml", 2, 3, url.Values{"content": {"x"}, "newest": nil, "beside": nil}))
		typed := "\nkeys = 23\nlimit = 5\nEND & \"more\"\n"
		s.put("ana", "auth", "keys.toml", 2, "\nkeys = 2\nlimit = 5\nEND\nadded\n")
		again := refused("the newest has moved on", 409, "is not the newest version of keys.toml; 4 is", form("keys.toml", 2, 3, url.Values{"content": browser(typed), "note": {"so"}}))
		if got := textOf(t, again); got != typed {
			t.Errorf("the text that was sent is not kept: %q, want %q", got, typed)
		}
		has(t, again, `data-keep="typed"`, `name="newest" value="4"`, `value="so"`, "added", `data-path="/teams/auth/merge/keys.toml?beside=3"`)
		got := v.do("merge", form("keys.toml", 4, 3, url.Values{"content": browser(typed), "note": {"so"}}))
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/teams/auth/artifacts/keys.toml" {
			t.Fatalf("the merge: %d to %q\n%s", got.StatusCode, got.Header.Get("Location"), got.body)
		}
		has(t, open("/teams/auth/artifacts/keys.toml"), "Version 5 of keys.toml is the merge", "merge of", "resolved")
		if now := s.team("", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "keys.toml"}); *now.Content != typed || now.Version.Author != hub.Operator || fmt.Sprint(now.Version.Parents) != "[4 3]" || now.Version.Note != "so" {
			t.Errorf("stored: %+v with %q", now.Version, *now.Content)
		}
		has(t, refused("it is merged already", 409, "has no versions to merge", form("keys.toml", 5, 3, url.Values{"content": {"mine"}})), "does not need a merge", "Your text (not stored)", "mine")
	})
	t.Run("R3-161 a merge keeps the line ends of a file, and a file that is no text is taken whole", func(t *testing.T) {
		s.put("bo", "auth", "dos.txt", 0, "a\r\nb\r\n")
		s.put("bo", "auth", "dos.txt", 1, "A\r\nb\r\n")
		s.put("cy", "auth", "dos.txt", 1, "X\r\nb\r\n")
		has(t, open("/teams/auth/merge/dos.txt"), `name="crlf"`)
		v.do("merge", form("dos.txt", 2, 3, url.Values{"content": {"AX\r\nb\r\n"}, "crlf": {"1"}}))
		if got := *s.team("", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "dos.txt"}).Content; got != "AX\r\nb\r\n" {
			t.Errorf("stored: %q", got)
		}
		s.put("bo", "auth", "mixed.txt", 0, "a\r\nb\nc")
		s.put("bo", "auth", "mixed.txt", 1, "A\r\nb\nc")
		want := s.team("cy", api.TeamParams{Action: "artifact", Team: "auth", Artifact: "mixed.txt", ParentVersion: new(int64(1)), Content: new("\x00")}).Version.SHA256
		if body := open("/teams/auth/merge/mixed.txt"); mergeText.MatchString(body) || !strings.Contains(body, "cannot edit these contents") {
			t.Error("the form would change the bytes of the file")
		}
		v.do("merge", form("mixed.txt", 2, 3, url.Values{"take": {"beside"}}))
		if got := artifact("mixed.txt"); got.SHA256 != want || got.Version != 4 {
			t.Errorf("stored: %+v", got)
		}
	})
	t.Run("R3-161 high sensitivity: operators alone read it, it waits on the page, and another one signs", func(t *testing.T) {
		high := func(as hub.AgentID, parent int64, text string) {
			s.team(as, api.TeamParams{Action: "artifact", Team: "auth", Artifact: "secret.txt", ParentVersion: &parent, Content: &text, Note: "plugh", Sensitivity: hub.SensitivityHigh})
		}
		high("bo", 0, "plugh 1\n")
		high("bo", 1, "plugh 2\n")
		high("cy", 1, "plugh 3\n")
		has(t, open("/"), `href="/teams/auth/merge/secret.txt?beside=3"`, "<title>(1) Now")
		for _, path := range []string{"/", "/teams/auth", "/teams/auth/artifacts/secret.txt", "/teams/auth/artifacts/secret.txt?version=2&from=1", "/teams/auth/merge/secret.txt?beside=3"} {
			got := viewer.get(path)
			if got.StatusCode != http.StatusOK || strings.Contains(got.body, "plugh") || strings.Contains(got.body, `action="/do/`) {
				t.Errorf("%s shows a viewer the text, or a change: %d", path, got.StatusCode)
			}
		}
		if got := viewer.do("merge", form("secret.txt", 2, 3, url.Values{"content": {"x"}})); got.StatusCode != http.StatusForbidden || strings.Contains(got.body, "plugh") {
			t.Errorf("a viewer merges: %d", got.StatusCode)
		}
		v.do("merge", form("secret.txt", 2, 3, url.Values{"content": {"plugh 5\n"}}))
		has(t, open("/teams/auth/artifacts/secret.txt"), "A team reviewer must sign it", "needs the signature of a team reviewer")
		if body := open("/"); !strings.Contains(body, "<title>Now") {
			t.Error("the merge of the operator still waits for the operator")
		}
		s.team("rea", api.TeamParams{Action: "merge", Team: "auth", Artifact: "secret.txt", SignOff: true})
		high("cy", 2, "plugh 6\n")
		s.team("ivo", api.TeamParams{Action: "merge", Team: "auth", Artifact: "secret.txt", Content: new("plugh 7\n")})
		has(t, open("/"), "View the merge")
		has(t, open("/teams/auth/merge/secret.txt?beside=5"), "which needs a signature", `action="/do/sign-merge"`)
		v.do("sign-merge", url.Values{"team": {"auth"}, "artifact": {"secret.txt"}})
		if got := artifact("secret.txt"); got.State != hub.MergeResolved {
			t.Errorf("after the signature it is %s", got.State)
		}
	})
	t.Run("bad input", func(t *testing.T) {
		for path, want := range map[string]int{
			"/teams/nothing": 404, "/teams/NO%20NAME": 400, "/teams/auth/artifacts/nothing": 404, "/teams/auth/artifacts/": 404, "/teams/auth/merge/nothing": 404, "/teams/auth/artifacts/docs": 404,
			"/teams/auth/artifacts/%2e%2e%2f%2e%2e%2fetc%2fpasswd": 404, "/teams/auth/artifacts/docs/%2e%2e/keys.toml": 404, "/teams/auth/artifacts/keys.toml%00": 404,
			"/teams/auth/artifacts/keys.toml?version=99": 404, "/teams/auth/artifacts/keys.toml?version=-1": 400, "/teams/auth/artifacts/keys.toml?version=1&from=x": 400,
			"/teams/auth/merge/keys.toml?beside=x": 400, "/teams?lifecycle=sleeping": 400, "/teams/auth?cursor=x&state=backlog": 400,
		} {
			if got := v.get(path); got.StatusCode != want {
				t.Errorf("GET %s: got %d, want %d:\n%.300s", path, got.StatusCode, want, got.body)
			}
		}
		before := artifact("docs/plan.md")
		s.put("bo", "auth", "docs/plan.md", 1, "other")
		f := form("docs/plan.md", 2, 3, url.Values{"content": {"x"}, "token": {v.token}})
		for name, header := range map[string]map[string]string{"another site": {"Origin": "https://evil.example"}, "no origin": {"Origin": ""}} {
			if got := v.request(http.MethodPost, s.page+"/do/merge", f, header); strings.Contains(got.body, `id="merged"`) || got.StatusCode == http.StatusOK {
				t.Errorf("%s: %d", name, got.StatusCode)
			}
		}
		f.Set("token", "wrong")
		v.request(http.MethodPost, s.page+"/do/merge", f, nil)
		f.Set("token", v.token)
		f.Set("content", strings.Repeat("x", 300<<10))
		if got := v.request(http.MethodPost, s.page+"/do/merge", f, nil); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.body, "limit 262144") {
			t.Errorf("300 KiB: %d", got.StatusCode)
		}
		f.Set("content", strings.Repeat("x", 10<<20))
		v.request(http.MethodPost, s.page+"/do/merge", f, nil)
		has(t, open("/"), "the form is larger than 1 MiB")
		if after := artifact("docs/plan.md"); after.Version != before.Version {
			t.Errorf("the newest version is %d, want %d", after.Version, before.Version)
		}
	})
	t.Run("messages of the hub are sentences, and lead to the team", func(t *testing.T) {
		has(t, open("/conversations"), "Notices of the hub about the team auth", `href="/conversations?team=auth"`)
		body := open("/conversations?team=auth")
		has(t, body, "team auth, by cy", "keys.toml and the newest, 2, must be merged")
		if strings.Contains(body, `href="/conversations/"`) {
			t.Error("a notice of the hub is in no thread")
		}
		has(t, open("/journal?action=team.created"), `href="/teams/auth"`)
	})
	t.Run("a page that is open survives the end of its conflict", func(t *testing.T) {
		has(t, open("/teams/auth/merge/keys.toml?beside=3"), "does not need a merge")
	})
}

func TestWithoutTeams(t *testing.T) {
	s := newSite(t, server.Options{Without: []hub.Feature{hub.FeatureTeamspaces}})
	v := s.visitor()
	v.signIn(s.link())
	if body := v.get("/").body; strings.Contains(body, "/teams") {
		t.Error("the navigation has teams")
	}
	if got := v.get("/teams"); got.StatusCode != http.StatusNotFound {
		t.Errorf("GET /teams: %d", got.StatusCode)
	}
	if _, err := rpc.Call(t.Context(), s.operator, api.Team, api.TeamParams{Action: "list"}); hub.CodeOf(err) != hub.CodeNotEnabled {
		t.Errorf("the hub has teams: %v", err)
	}
}
