package server_test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hostiletest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// A scene is a hub under attack. Mallory is an agent of the hub and uses its own key
// where an attack needs one.
type scene struct {
	*running
	t                   *testing.T
	alice, bob, mallory string // keys
	root                string // a folder in which the hub checks handoffs
	project             string
	secret              string // a word that mallory must not see
	message             hub.EnvelopeID
	flood               int

	agents, tries, hits int
}

// try counts one attempt. through says whether it got what it should not get.
func (s *scene) try(through bool, format string, args ...any) {
	s.t.Helper()
	s.tries++
	if through {
		s.hits++
		s.t.Errorf(format, args...)
	}
}

// fresh returns the key of a new agent, which is not over any limit yet.
func (s *scene) fresh() string {
	s.agents++
	return s.add(s.t, hub.AgentID(fmt.Sprint("mallory-", s.agents)))[0]
}

// attacks are the attempts by kind. make attack prints their numbers.
var attacks = []struct {
	name string
	run  func(*scene)
}{
	{"keys that are wrong", (*scene).keys},
	{"other hosts and origins", (*scene).browsers},
	{"requests within requests", (*scene).smuggling},
	{"names of others as the sender", (*scene).impersonation},
	{"mail of others", (*scene).mail},
	{"text that hides or moves a cursor", (*scene).hiddenText},
	{"files that evidence could read", (*scene).evidence},
	{"programs that git could run", (*scene).git},
	{"harm that a member of a team could do", (*scene).teams},
	{"verdicts on one's own work", (*scene).verdicts},
	{"usage that spends what belongs to others", (*scene).money},
	{"gates of contracts", (*scene).contracts},
	{"landings without evidence", (*scene).landings},
	{"changes of what judges a change", (*scene).judges},
	{"files that run commands", (*scene).runningFiles},
	{"project tokens that are forged", (*scene).tokens},
	{"invites that are guessed", (*scene).invites},
	{"addresses that the hub must not call", (*scene).addresses},
	{"viewers and other ports", (*scene).viewers},
	{"connections that do not read or write", (*scene).slow},
	{"floods of calls", (*scene).floods},
}

// TestAttack makes every attempt of the list and looks at the result. make attack makes
// more of those that come in numbers, and prints a table.
func TestAttack(t *testing.T) {
	root := t.TempDir()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	o := onLoopback("back", "backend", "backend")
	o.Coordination.Allow = nil // nothing on this machine may be called
	o.Roots = []string{root}
	o.Checks = server.Checks{Program: program(t)}
	r := start(t, o)
	keys := r.add(t, "alice", "bob", "mallory")
	s := &scene{running: r, alice: keys[0], bob: keys[1], mallory: keys[2], root: root, secret: "for bob alone: swordfish", flood: 300}
	if n, err := strconv.Atoi(os.Getenv("PARLEY_ATTACK_FLOOD")); err == nil {
		s.flood = n
	}
	s.message = r.send(t, s.alice, "bob", s.secret)
	var made struct{ ProjectID string }
	json.Unmarshal(r.call(t, r.operator, "cacp/project/create", `{"name":"p","objective":"o","repos":[{"name":"backend","role":"backend","language":"go"}]}`).Result, &made)
	s.project = made.ProjectID
	table := &strings.Builder{}
	for i, a := range attacks {
		if !patience.Chosen(i, a.name) {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			s.t, s.tries, s.hits = t, 0, 0
			a.run(s)
			fmt.Fprintf(table, "| %s | %d | %d |\n", a.name, s.tries, s.hits)
			if s.tries == 0 {
				t.Error("nothing was tried")
			}
		})
	}
	t.Run("R3-163 the hub is well after every attack", func(t *testing.T) {
		r.renew() // the attacks may take longer than a token of the operator lives
		if a := r.do(t, "GET", "/health", "", nil); a.status != http.StatusOK {
			t.Errorf("health: got %d %s", a.status, a.body)
		}
		if got := must(rpc.Call(t.Context(), r.as(r.operator), api.Verify, api.VerifyParams{}))(t); !got.Clean() {
			t.Errorf("audit verify: got %+v", got)
		}
	})
	t.Logf("\n| attempts | number | got through |\n|---|---|---|\n%s", table)
}

func (s *scene) keys() {
	whoami := `{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`
	headers := []string{
		"", "Bearer", "Bearer ", "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:"+s.alice)), "bearer\x00" + s.alice, "Token " + s.alice,
		"Bearer " + s.alice + s.bob, "Bearer " + s.alice + "," + s.bob, "Bearer \"" + s.alice + "\"", "Bearer " + strings.ToUpper(s.alice), "Bearer null", "Bearer undefined",
		"Bearer ../../operator.key", "Bearer ' OR 1=1 --", "Bearer " + strings.Repeat("A", 20_000), "Bearer " + s.secret, "Bearer " + hub.HashSecret(s.alice),
		"Bearer " + s.running.secret, "Bearer parley_op_" + strings.Repeat("A", 52), "Bearer eyJhbGciOiJub25lIn0.e30.",
	}
	for i := range s.alice {
		changed := []byte(s.alice)
		changed[i] ^= 1
		headers = append(headers, "Bearer "+string(changed))
	}
	for _, path := range []string{"/", "/mcp", "/events", "/artifacts"} {
		for _, h := range headers {
			method := map[string]string{"/events": "GET"}[path]
			if method == "" {
				method = "POST"
			}
			req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(whoami))
			if err != nil {
				s.t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header["Authorization"] = []string{h}
			res, err := s.http.Do(req)
			if err != nil {
				s.try(false, "") // the client or the hub refused the header
				continue
			}
			res.Body.Close()
			s.try(res.StatusCode < 400, "%s with %.40q: status %d", path, h, res.StatusCode)
		}
	}
}

func (s *scene) browsers() {
	port := s.url[strings.LastIndex(s.url, ":"):]
	call := func(change func(*http.Request)) answer {
		return s.do(s.t, "POST", "/", s.alice, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`), change)
	}
	for _, host := range []string{
		"evil.example", "evil.example" + port, "127.0.0.1.evil.example", "localhost.evil.example", "localhost@evil.example", "evil.example#localhost", "0.0.0.0" + port,
		"[::]" + port, "2130706433", "0x7f000001", "127.1", "127.0.0.2" + port, "LOCALHOST.", "parley", "back.example.evil", "xn--lcalhost-54a",
	} {
		a := call(func(r *http.Request) { r.Host = host })
		s.try(a.status < 400, "host %s: status %d", host, a.status)
	}
	for _, origin := range []string{
		"null", "https://evil.example", "http://localhost", "http://127.0.0.1", "http://127.0.0.1:1", "https://127.0.0.1" + port, "http://127.0.0.1" + port + ".evil.example",
		"http://evil.example" + port, "file://", "chrome-extension://abc", "http://[::1]" + port, "http://localhost" + port + "/",
	} {
		a := call(func(r *http.Request) { r.Header.Set("Origin", origin) })
		s.try(a.status < 400 && a.Error == nil, "origin %q: status %d", origin, a.status)
		s.try(a.header.Get("Access-Control-Allow-Origin") != "", "origin %q is allowed", origin)
	}
	for _, kind := range []string{"text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded; charset=x", "text/html", "application/json5", "application/jsonp"} {
		a := s.do(s.t, "POST", "/", "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`), func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		s.try(a.status < 400, "type %s without a key: status %d", kind, a.status)
	}
}

// smuggling hides a second request, which would add a message, in a first one.
func (s *scene) smuggling() {
	addr := strings.TrimPrefix(s.url, "http://")
	body := `{"jsonrpc":"2.0","id":9,"method":"acp/send","params":{"to":["bob"],"text":"smuggled"}}`
	hidden := fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", addr, s.mallory, len(body), body)
	head := "POST / HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\n"
	chunked := "0\r\n\r\n" + hidden
	for name, raw := range map[string]string{
		"two lengths":               head + "Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"a list of lengths":         head + "Content-Length: 0, " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"length and chunks":         head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(chunked), chunked),
		"chunks with a blank":       head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding : chunked\r\n\r\n%s", len(chunked), chunked),
		"chunks that are not":       head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: xchunked\r\n\r\n%s", len(chunked), chunked),
		"chunks twice":              head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n%s", len(chunked), chunked),
		"a negative length":         head + "Content-Length: -1\r\n\r\n" + hidden,
		"a length with a sign":      head + "Content-Length: +0\r\n\r\n" + hidden,
		"a length in another base":  head + "Content-Length: 0x0\r\n\r\n" + hidden,
		"a folded header":           head + "X: y\r\n " + hidden + "\r\n\r\n",
		"a chunk size that is huge": head + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n" + hidden,
		"a NUL in a header":         head + "X: \x00\r\n\r\n" + hidden,
		"another host in the line":  strings.Replace(head, "POST / ", "POST http://evil.example/ ", 1) + "Content-Length: 0\r\n\r\n",
		"an upgrade":                head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n",
		"a version that is not":     strings.Replace(head, "HTTP/1.1", "HTTP/9.9", 1) + "\r\n" + hidden,
	} {
		before := s.rows(s.t, "SELECT count(*) FROM messages")[0]
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			s.t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience.For(20 * time.Second)))
		io.WriteString(conn, raw)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, bufio.NewReader(conn))
		conn.Close()
		after := s.rows(s.t, "SELECT count(*) FROM messages")[0]
		// A plain second request on a connection is allowed; here the first ends where its
		// own length says, and all of these lengths are wrong.
		s.try(after != before, "%s: the hidden request was performed", name)
	}
}

func (s *scene) impersonation() {
	for _, member := range []string{
		`"from":"alice"`, `"From":"alice"`, `"FROM":"alice"`, `"from ":"alice"`, `"from":{"agent":"alice"}`, `"from":["alice"]`, `"from":null,"from":"alice"`, `"fr\u006fm":"alice"`,
		`"sender":"alice"`, `"actor":"operator"`, `"source_agent":"alice"`, `"agent_id":"alice"`, `"provenance":{"from":"alice"}`, `"context":{"from":"alice"}`, `"policy":{"from":"alice"}`,
		`"payload":{"from":"alice","x":1}`, `"key":"` + s.alice + `"`, `"caller":"operator"`, `"as":"alice"`, `"on_behalf_of":"alice"`,
	} {
		s.call(s.t, s.fresh(), "acp/send", `{"to":["bob"],"type":"status.update","text":"I am alice",`+member+`}`)
		forged := s.rows(s.t, `SELECT id FROM messages WHERE from_agent = 'alice' AND payload_json LIKE '%I am alice%'`)
		s.try(len(forged) > 0, "%s: a message of alice that alice did not send", member)
	}
	for _, header := range []string{"X-Agent-ID", "X-Forwarded-User", "X-Project-Token", "From", "Parley-Session", "X-Original-Agent"} {
		a := s.do(s.t, "POST", "/", s.mallory, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`), func(r *http.Request) { r.Header.Set(header, "alice") })
		var who api.Identity
		json.Unmarshal(a.Result, &who)
		s.try(who.ID != "mallory" && a.Error == nil, "%s: mallory is taken for %s", header, who.ID)
	}
	for _, m := range api.Operations.Bind(nil) {
		if slices.Contains(m.Callers, hub.CallerAgent) {
			continue
		}
		a := s.call(s.t, s.mallory, m.Method, `{}`)
		s.try(a.Error == nil, "%s: an agent may call it", m.Method)
	}
}

func (s *scene) mail() {
	short := s.rows(s.t, "SELECT count(*) FROM messages")[0]
	ids := []string{string(s.message), "m1", "m" + short, "1", "%", "*", "' OR '1'='1", "../" + string(s.message), strings.ToUpper(string(s.message)), "bob", "to:bob"}
	for _, id := range ids {
		quoted := strconv.Quote(id)
		for _, c := range []struct{ method, params string }{
			{"parley/trace", `{"id":` + quoted + `}`}, {"acp/respond", `{"id":` + quoted + `,"text":"x"}`}, {"acp/inbox", `{"ack":[` + quoted + `]}`},
			{"acp/inbox", `{"agent":` + quoted + `}`}, {"acp/inbox", `{"cursor":` + quoted + `}`}, {"acp/query", `{"text":` + quoted + `}`}, {"acp/query", `{"thread_id":` + quoted + `}`},
			{"acp/query", `{"from":"alice","to":` + quoted + `}`}, {"parley/approve", `{"id":` + quoted + `}`}, {"parley/forget", `{"id":` + quoted + `}`},
			{"acp/handoff", `{"action":"show","handoff_id":` + quoted + `}`}, {"parley/run/show", `{"run_id":` + quoted + `}`},
		} {
			a := s.call(s.t, s.mallory, c.method, c.params)
			s.try(bytes.Contains(a.body, []byte("swordfish")), "%s %s: %s", c.method, c.params, a.body)
		}
		a := s.do(s.t, "GET", "/artifacts/"+fmt.Sprintf("%x", sha256.Sum256([]byte(s.secret))), s.mallory, nil)
		s.try(bytes.Contains(a.body, []byte("swordfish")), "artifact: %s", a.body)
	}
	for _, word := range []string{"swordfish", "sword*", "\"swordfish\"", "sword OR x", "NEAR(sword fish)", "for bob alone", "bob", "-x", "swordfish OR 1=1", "col:swordfish"} {
		a := s.call(s.t, s.mallory, "acp/query", `{"text":`+strconv.Quote(word)+`}`)
		s.try(bytes.Contains(a.body, []byte("alone")), "query %s: %s", word, a.body)
	}
	if a := s.call(s.t, s.bob, "acp/query", `{"text":"swordfish"}`); !bytes.Contains(a.body, []byte("swordfish")) {
		s.t.Errorf("bob does not find his own mail: %s", a.body)
	}
}

// hiddenText puts characters that hide text or move a cursor into everything that a hub
// keeps, and reads it with the tools of an agent and on the operator's page.
func (s *scene) hiddenText() {
	keys := s.add(s.t, "planner", "builder")
	h := &hostiletest.Hub{URL: s.url, Operator: s.operator, Planner: keys[0], Builder: keys[1]}
	h.Fill(s.t)
	answers := map[string]string{}

	tools := func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	began := s.do(s.t, "POST", "/mcp", h.Builder, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`), tools)
	session := func(r *http.Request) { r.Header.Set("Mcp-Session-Id", began.header.Get("Mcp-Session-Id")) }
	s.do(s.t, "POST", "/mcp", h.Builder, strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), tools, session)
	for _, c := range []struct{ tool, args string }{
		{"acp_inbox", `{}`}, {"acp_inbox", `{"id":"` + h.Long + `","part":1}`}, {"acp_query", `{}`}, {"acp_query", `{"negotiation":"` + h.Offer + `"}`}, {"acp_query", `{"disagreement":"` + h.Position + `"}`},
		{"acp_files", `{"action":"list","tree":"` + h.Tree + `"}`},
		{"acp_subscribe", `{"action":"list"}`}, {"acp_handoff", `{"action":"list"}`}, {"acp_handoff", `{"action":"show","handoff_id":"` + h.Proposed + `"}`}, {"acp_handoff", `{"action":"show","handoff_id":"` + h.Done + `"}`},
		{"acp_team", `{"action":"list"}`}, {"acp_team", `{"action":"show","team":"` + h.Team + `"}`}, {"acp_team", `{"action":"artifact","team":"` + h.Team + `","artifact":"` + h.Artifact + `"}`},
		{"coordinate", `{"action":"project/list"}`}, {"coordinate", `{"action":"contract/get","projectId":"` + h.Project + `","contractId":"` + h.Contract + `"}`}, {"coordinate", `{"action":"context/list","projectId":"` + h.Project + `"}`},
	} {
		a := s.do(s.t, "POST", "/mcp", h.Builder, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+c.tool+`","arguments":`+c.args+`}}`), tools, session)
		var got struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(a.Result, &got); err != nil || len(got.Content) != 1 {
			s.t.Fatalf("%s %s: %s", c.tool, c.args, a.body)
		}
		answers[c.tool+" "+c.args] = got.Content[0].Text
	}

	browser := s.signIn(s.t)
	for _, path := range []string{
		"/", "/agents/builder", "/conversations", "/messages/" + h.Message, "/handoffs", "/handoffs/" + h.Done, "/teams", "/teams/" + h.Team, "/teams/" + h.Team + "/artifacts/" + h.Artifact,
		"/teams/" + h.Team + "/merge/" + h.Artifact, "/runs", "/runs/" + h.Run, "/contracts", "/contracts/" + h.Project, "/contracts/" + h.Project + "/" + h.Contract, "/journal",
	} {
		answers[path] = html.UnescapeString(string(s.do(s.t, "GET", path, "", nil, browser).body))
	}

	for where, text := range answers {
		if !strings.Contains(text, hostiletest.Marker) {
			s.t.Errorf("%s shows no text of others: %s", where, text)
		}
		for _, row := range plaintext.Table() {
			through := strings.ContainsFunc(text, func(r rune) bool { return row.First <= r && r <= row.Last })
			s.try(through, "%s: %s", where, row.Name)
		}
	}
}

func (s *scene) evidence() {
	link := filepath.Join(s.root, "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		s.t.Fatal(err)
	}
	for i, path := range []string{
		"/etc/passwd", "/proc/self/environ", filepath.Join(s.home, "operator.key"), filepath.Join(s.home, "hub.db"), s.root + "/../" + filepath.Base(s.home) + "/operator.key", link,
		"file:///etc/passwd", "//etc/passwd", s.root + "/\x00", "/dev/stdin", "/dev/zero", `\\host\share`, "C:\\Windows", s.root + "/.git/../../../etc/passwd", "~/.ssh/id_rsa", "$HOME/.bashrc",
	} {
		raw, _ := json.Marshal(map[string]any{
			"action": "initiate", "to": "bob", "task_id": fmt.Sprint("E-", i), "title": "t", "summary": "s", "next_step": "n", "reason": "r", "success_criteria": []string{"c"},
			"artifacts": []map[string]any{{"type": "file", "path": path, "sha256": strings.Repeat("0", 64)}}, "worktree_path": path,
		})
		a := s.call(s.t, s.fresh(), "acp/handoff", string(raw))
		// A name that leads out of a root on the way is found out when the files are read.
		var proposed struct {
			ID string `json:"handoff_id"`
		}
		json.Unmarshal(a.Result, &proposed)
		b := s.call(s.t, s.bob, "acp/handoff", `{"action":"accept","handoff_id":"`+proposed.ID+`"}`)
		taken := a.Error == nil && !bytes.Contains(b.Result, []byte(`"status":"rejected"`))
		told := bytes.Contains(b.body, []byte("root:")) || bytes.Contains(b.body, []byte("cacp_sk_live_"))
		s.try(taken || told, "%q: %s", path, b.body)
	}
}

// git gives the hub a repository that would run programs.
func (s *scene) git() {
	marks := s.t.TempDir()
	repo := filepath.Join(s.root, "repo")
	run := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=m", "-c", "user.email=m@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	if err := os.MkdirAll(repo, 0o700); err != nil {
		s.t.Fatal(err)
	}
	run("init", "-q")
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(repo, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			s.t.Fatal(err)
		}
	}
	write("a.txt", "a\n", 0o600)
	write("b.txt", "b\n", 0o600)
	run("add", ".")
	run("commit", "-qm", "first")
	ways := map[string]string{
		"fsmonitor": "[core]\n\tfsmonitor = %s\n", "pager": "[core]\n\tpager = %s\n", "editor": "[core]\n\teditor = %s\n", "sshCommand": "[core]\n\tsshCommand = %s\n", "askpass": "[core]\n\taskPass = %s\n",
		"clean": "[filter \"x\"]\n\tclean = %s\n\tsmudge = %[1]s\n\tprocess = %[1]s\n", "textconv": "[diff \"x\"]\n\ttextconv = %s\n\tcommand = %[1]s\n", "external": "[diff]\n\texternal = %s\n",
		"hooks": "[core]\n\thooksPath = " + marks + "/hooks # %s\n", "credential": "[credential]\n\thelper = %s\n", "gpg": "[gpg]\n\tprogram = %s\n", "alias": "[alias]\n\tstatus = !%s\n",
		"proxy": "[core]\n\tgitProxy = %s\n", "worktree": "[core]\n\tworktree = / # %s\n", "include": "[include]\n\tpath = %s\n",
		"included": "[include]\n\tpath = " + marks + "/included # %s\n", "of the worktree": "[extensions]\n\tworktreeConfig = true # %s\n", "lfs": "[filter \"lfs\"]\n\tsmudge = %s\n\tprocess = %[1]s\n\trequired = true\n",
	}
	config, err := os.ReadFile(filepath.Join(repo, ".git", "config"))
	if err != nil {
		s.t.Fatal(err)
	}
	write(".gitattributes", "* filter=x diff=x\n", 0o600)
	write(".git/info/attributes", "a.txt filter=x diff=x\nb.txt filter=lfs\n", 0o600)
	hooks := filepath.Join(marks, "hooks")
	if err := os.Mkdir(hooks, 0o700); err != nil {
		s.t.Fatal(err)
	}
	for _, hook := range []string{"pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"} {
		text := "#!/bin/sh\ntouch " + marks + "/ran-hook\n"
		write(".git/hooks/"+hook, text, 0o700)
		if err := os.WriteFile(filepath.Join(hooks, hook), []byte(text), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	filters := fmt.Sprintf("[filter \"x\"]\n\tsmudge = touch %s/ran-filter\n\tprocess = touch %[1]s/ran-filter\n", marks)
	write(".git/config.worktree", filters, 0o600)
	if err := os.WriteFile(filepath.Join(marks, "included"), []byte(filters), 0o600); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for name, line := range ways {
		n++
		script := filepath.Join(marks, strings.ReplaceAll(name, " ", "-")+".sh")
		if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+marks+"/ran-"+name+"\n"), 0o700); err != nil {
			s.t.Fatal(err)
		}
		write(".git/config", string(config)+fmt.Sprintf(line, script), 0o600)
		raw, _ := json.Marshal(map[string]any{
			"action": "initiate", "to": "bob", "task_id": fmt.Sprint("G-", n), "title": "t", "summary": "s", "next_step": "n", "reason": "r", "success_criteria": []string{"c"}, "worktree_path": repo,
			"artifacts": []map[string]any{{"type": "file", "path": filepath.Join(repo, "a.txt"), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte("a\n")))}},
		})
		var got struct {
			ID string `json:"handoff_id"`
		}
		json.Unmarshal(s.call(s.t, s.fresh(), "acp/handoff", string(raw)).Result, &got)
		if a := s.call(s.t, s.bob, "acp/handoff", `{"action":"accept","handoff_id":"`+got.ID+`"}`); a.Error != nil && name != "worktree" {
			s.t.Errorf("%s: the hub did not look at the repository: %s", name, a.body)
		}
		write("a.txt", fmt.Sprint("changed ", n), 0o600)
		s.call(s.t, s.bob, "acp/handoff", `{"action":"complete","handoff_id":"`+got.ID+`","summary":"x"}`)
		write("a.txt", "a\n", 0o600)
		ran, _ := filepath.Glob(filepath.Join(marks, "ran-*"))
		s.try(len(ran) > 0, "%s: %v", name, ran)

		// A worktree of the repository, for an agent that the hub keeps.
		kept := hub.AgentID(fmt.Sprint("kept-", n))
		p := api.KeepParams{Definition: keeper.Definition{Agent: kept, Command: []string{"/bin/true"}, Dir: repo, Policy: sandbox.PolicyRead}, Worktree: true}
		if _, err := rpc.Call(s.t.Context(), s.as(s.operator), api.KeepAgent, p); err != nil && name != "worktree" && name != "include" {
			s.t.Errorf("%s: the hub did not make a worktree: %v", name, err)
		}
		ran, _ = filepath.Glob(filepath.Join(marks, "ran-*"))
		s.try(len(ran) > 0, "%s, in a worktree: %v", name, ran)
	}
}

func (s *scene) tokens() {
	encode := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	aid := must(rpc.Call(s.t.Context(), s.as(s.alice), api.Whoami, api.None{}))(s.t).ID
	claims := map[string]any{
		"sub": "aid://back.example/" + string(aid) + "@1.0.0", "iss": "aid://back.example/back@1.0.0", "project_id": s.project, "repo_id": "x", "jti": "x",
		"permissions": coord.Permissions, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	sign := func(alg, secret string) string {
		text := encode(map[string]string{"alg": alg, "typ": "JWT"}) + "." + encode(claims)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	tokens := []string{
		encode(map[string]string{"alg": "none"}) + "." + encode(claims) + ".", encode(map[string]string{"alg": "None"}) + "." + encode(claims) + ".x",
		encode(map[string]string{"alg": "HS256", "kid": "../../operator.key"}) + "." + encode(claims) + ".", "eyJ", "eyJ..", "eyJ.eyJ.eyJ", strings.Repeat("eyJ.", 1000),
	}
	for _, alg := range []string{"HS256", "HS384", "RS256", "none", "hs256"} {
		for _, secret := range []string{"", "secret", "change-me-in-production", "your-secret-key", s.alice, s.running.secret, hub.HashSecret(s.alice), s.project} {
			tokens = append(tokens, sign(alg, secret))
		}
	}
	for _, method := range []string{"cacp/project/get", "cacp/project/list", "cacp/contract/propose"} {
		for _, token := range tokens {
			for _, header := range []string{"Authorization", "X-Project-Token"} {
				a := s.do(s.t, "POST", "/", "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"projectId":"`+s.project+`"}}`), func(r *http.Request) {
					r.Header.Set(header, map[bool]string{true: "Bearer " + token, false: token}[header == "Authorization"])
				})
				s.try(a.status < 400, "%s with %.60s: %s", method, token, a.body)
			}
		}
	}
}

func (s *scene) invites() {
	before := s.journalHead(s.t)
	for i := range max(200, s.flood/10) {
		body := fmt.Sprintf("INV-%.5s-%s", s.project, base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%016d", i)))
		sum := sha256.Sum256([]byte(body))
		code := fmt.Sprintf("%s-%02x", body, sum[0])
		a := s.call(s.t, "", "cacp/invite/redeem", fmt.Sprintf(`{"invite":%q,"agentId":"aid://guest%d.example/g@1.0.0","endpoint":"http://guest.example","repoName":"r","key":"cacp_sk_live_%s"}`, code, i, strings.Repeat("A", 43)))
		s.try(a.Error == nil, "invite %s: %s", code, a.body)
		if a.Error != nil && a.Error.Data.Reason == hub.CodeInvalid {
			s.t.Fatalf("the guess is not looked at: %s", a.body)
		}
	}
	s.try(s.journalHead(s.t)-before > 100, "the guesses wrote %d journal entries", s.journalHead(s.t)-before)
}

// addresses names a listener of this machine, and worse places, as other hubs.
func (s *scene) addresses() {
	var calls atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	canary := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) })}
	go canary.Serve(l)
	defer canary.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "2130706433", "0x7f.1", "017700000001", "127.0.0.1.nip.io", "localtest.me",
		"169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "[fe80::1]", "224.0.0.1", "user@127.0.0.1", "example.com@127.0.0.1",
	} {
		for _, scheme := range []string{"http", "https", "file", "gopher", "ftp", "HTTP"} {
			url := scheme + "://" + host + ":" + port
			aid := fmt.Sprintf("aid://x%d.example/x@1.0.0", s.tries)
			// A name may be stored, because it may lead elsewhere later; no address may be called.
			s.call(s.t, s.operator, coordination.AddPeer.Method, fmt.Sprintf(`{"agentId":%q,"endpoint":%q,"repoName":"r"}`, aid, url))
			s.call(s.t, s.operator, "parley/peer/sync", fmt.Sprintf(`{"agentId":%q}`, aid))
			s.call(s.t, s.operator, coordination.JoinHub.Method, fmt.Sprintf(`{"invite":"INV-x","hub":%q}`, url))
			s.do(s.t, "POST", "/peers/register", s.mallory, strings.NewReader(fmt.Sprintf(`{"agentId":%q,"endpoint":%q,"repoName":"r"}`, aid, url)))
			s.try(calls.Load() > 0, "%s was called", url)
		}
	}
}

// slow opens connections that send half a request, and some that never read, and
// calls beside them.
func (s *scene) slow() {
	addr := strings.TrimPrefix(s.url, "http://")
	var conns []net.Conn
	for i := range 60 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			s.t.Fatal(err)
		}
		conns = append(conns, conn)
		switch i % 3 {
		case 0:
			io.WriteString(conn, "POST / HTTP/1.1\r\nHost: "+addr+"\r\n")
		case 1:
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", addr, s.mallory)
		default:
			for range 50 {
				fmt.Fprintf(conn, "GET /schema/envelope HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
			}
		}
	}
	for range 20 {
		a := s.call(s.t, s.alice, "parley/whoami", `{}`)
		s.try(a.status != http.StatusOK, "a call beside slow connections: status %d", a.status)
	}
	for _, c := range conns {
		c.Close()
	}
}

func (s *scene) floods() {
	before := s.journalHead(s.t)
	bodies := []string{
		`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["bob"],"text":"flood"}}`, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, `[`, `{"jsonrpc":"2.0","id":1,"method":"acp/query","params":{"text":"a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"parley/agent/add","params":{"id":"x"}}`, `[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"parley/whoami"},`, 20) + `{}]`,
	}
	var wg sync.WaitGroup
	var sent, failed atomic.Int64
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < s.flood; i += 16 {
				key := []string{s.mallory, "", "cacp_sk_live_x", s.mallory}[i%4]
				req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+"/", strings.NewReader(bodies[i%len(bodies)]))
				if err != nil {
					continue
				}
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Content-Type", "application/json")
				res, err := s.http.Do(req)
				sent.Add(1)
				if err != nil {
					failed.Add(1)
					continue
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	s.tries += int(sent.Load())
	taken := s.rows(s.t, `SELECT count(*) FROM messages WHERE from_agent = 'mallory' AND payload_json LIKE '%flood%'`)[0]
	if n, _ := strconv.Atoi(taken); n > 10 {
		s.try(true, "%d messages were taken, want at most ten a minute", n)
	}
	if grown := s.journalHead(s.t) - before; grown > 200 {
		s.try(true, "%d calls wrote %d journal entries", s.flood, grown)
	}
	a := s.call(s.t, s.alice, "parley/whoami", `{}`)
	s.try(a.status != http.StatusOK, "a call after the flood: status %d", a.status)
}
