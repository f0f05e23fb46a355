package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/reftest"
	"github.com/parley-agents/parley/server"
)

// asJSON says what the body of a request is.
func asJSON(r *http.Request) { r.Header.Set("Content-Type", "application/json") }

func TestWire(t *testing.T) {
	t.Parallel()
	r := start(t, onLoopback("back", "backend-api", "backend"))
	key := r.operator
	code := func(a answer) int {
		if a.Error == nil {
			return 0
		}
		return a.Error.Code
	}
	t.Run("R1-001 POST / takes JSON-RPC 2.0 as application/json", func(t *testing.T) {
		a := r.do(t, "POST", "/", key, strings.NewReader(`{"jsonrpc":"2.0","method":"cacp/project/list","params":{},"id":"request-123"}`), asJSON)
		if a.status != 200 || string(a.ID) != `"request-123"` || a.Result == nil {
			t.Errorf("got %d %s", a.status, a.body)
		}
	})
	for _, id := range []string{`"a"`, `7`, `1.50`, `null`} {
		t.Run("R1-002 an answer has jsonrpc, result and the same id: "+id, func(t *testing.T) {
			for _, method := range []string{"cacp/project/list", "cacp/context/list"} { // one is streamed, one is not
				var got map[string]json.RawMessage
				a := r.post(t, key, `{"jsonrpc":"2.0","method":"`+method+`","params":{"projectId":"x"},"id":`+id+`}`)
				if err := json.Unmarshal(a.body, &got); err != nil || string(got["jsonrpc"]) != `"2.0"` || string(got["id"]) != id || len(got) != 3 {
					t.Errorf("%s: got %s", method, a.body)
				}
			}
		})
	}
	for _, c := range []struct {
		rule, body string
		code       int
	}{
		{"R1-004 what is not JSON is a parse error", `{`, -32700},
		{"R1-005 another version is an invalid request", `{"jsonrpc":"1.0","id":1,"method":"cacp/project/list"}`, -32600},
		{"R1-005 no method is an invalid request", `{"jsonrpc":"2.0","id":1}`, -32600},
		{"R1-005 a body that is no object is an invalid request", `7`, -32600},
		{"R1-006 an unknown method is not found", `{"jsonrpc":"2.0","id":1,"method":"cacp/no/such"}`, -32601},
		{"R1-007 a parameter that is missing is invalid", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{}}`, -32602},
		{"R1-007 params may be absent", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get"}`, -32602},
		{"R1-007 params may be null", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":null}`, -32602},
		{"R1-007 params are no array", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":["x"]}`, -32602},
		{"R1-007 a parameter of the wrong type is invalid", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{"projectId":7}}`, -32602},
		{"R1-007 an unknown id is invalid", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{"projectId":"nowhere"}}`, -32602},
		{"R1-086 an id that leads elsewhere is invalid", `{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{"projectId":"../../etc"}}`, -32602},
	} {
		t.Run(c.rule, func(t *testing.T) {
			a := r.post(t, key, c.body)
			if a.status != 200 || code(a) != c.code || a.Error.Message == "" {
				t.Errorf("got %d %s, want 200 and %d", a.status, a.body, c.code)
			}
		})
	}
	t.Run("R1-003 an error has code, message and the id", func(t *testing.T) {
		a := r.post(t, key, `{"jsonrpc":"2.0","id":"x","method":"cacp/project/get","params":{}}`)
		if a.Error == nil || a.Error.Message != "Invalid params: projectId required" || string(a.ID) != `"x"` || a.Result != nil {
			t.Errorf("got %s", a.body)
		}
	})
	t.Run("R1-009 a batch is answered in one array, notifications not at all", func(t *testing.T) {
		a := r.post(t, key, `[{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"},{"jsonrpc":"2.0","method":"cacp/project/create","params":{"name":"told","objective":"o"}},{"jsonrpc":"2.0","id":2,"method":"parley/whoami"},7]`)
		var got []answer
		if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 || len(got) != 3 || string(got[0].ID) != "1" || string(got[1].ID) != "2" || code(got[2]) != -32600 {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if a := r.call(t, key, "cacp/project/list", `{}`); !bytes.Contains(a.body, []byte(`"told"`)) {
			t.Error("the notification was not performed")
		}
	})
	t.Run("R1-009 nothing but notifications is answered with nothing", func(t *testing.T) {
		a := r.post(t, key, `{"jsonrpc":"2.0","method":"cacp/project/list"}`)
		if a.status != http.StatusNoContent || len(a.body) != 0 {
			t.Errorf("got %d %s, want 204", a.status, a.body)
		}
	})
	t.Run("no path is answered with a redirect", func(t *testing.T) {
		r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		defer func() { r.http.CheckRedirect = nil }()
		for _, path := range []string{"/", "//", "/./", "/health/", "//health", "/peers/", "/.well-known//agent.json"} {
			for _, method := range []string{"GET", "POST"} {
				a := r.do(t, method, path, key, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}`), asJSON)
				if a.status >= 300 && a.status < 400 {
					t.Errorf("%s %s: got %d", method, path, a.status)
				}
			}
		}
	})
	t.Run("R1-088 nothing is said to pages of others, and nothing is taken from them", func(t *testing.T) {
		body := `{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}`
		for name, change := range map[string]func(*http.Request){
			"another origin":     func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") },
			"another host":       func(q *http.Request) { q.Host = "evil.example" },
			"a form":             func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") },
			"the origin of none": func(q *http.Request) { q.Header.Set("Origin", "null") },
		} {
			a := r.do(t, "POST", "/", key, strings.NewReader(body), asJSON, change)
			if a.status < 400 || a.Result != nil {
				t.Errorf("%s: got %d %s, want a refusal", name, a.status, a.body)
			}
			for header := range a.header {
				if strings.HasPrefix(header, "Access-Control-") {
					t.Errorf("%s: got %s", name, header)
				}
			}
		}
	})
}

// TestServerError looks at what callers get when the hub cannot work.
func TestServerError(t *testing.T) {
	t.Parallel()
	r := start(t, server.Impatient(onLoopback("back", "backend-api", "backend")))
	t.Run("R1-008 what is wrong with the hub is a server error", func(t *testing.T) {
		other := openDB(t, r.home, sqlite3.OPEN_READWRITE)
		defer other.Close()
		if err := other.Exec(`BEGIN EXCLUSIVE`); err != nil {
			t.Fatal(err)
		}
		r.call(t, r.operator, "cacp/project/create", `{"name":"n","objective":"o"}`).wantError(t, -32000, hub.CodeDegraded)
		if err := other.Exec(`ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		r.call(t, r.operator, "cacp/project/create", `{"name":"n","objective":"o"}`).wantOK(t, nil)
	})
}

// TestBadParameters gives every method of one contract what it cannot take.
func TestBadParameters(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	r := start(t, onLoopback("back", "backend-api", "backend"))
	project := ask[struct{ ProjectID string }](t, r, "cacp/project/create", m{"name": "n", "objective": "o", "repos": []m{{"name": "backend-api", "role": "backend", "language": "go"}}}).ProjectID
	contract := ask[struct{ ContractID string }](t, r, "cacp/contract/propose", m{"projectId": project, "type": "custom", "name": "c", "content": m{}}).ContractID
	for _, c := range []struct {
		rule, method string
		params       m
		want         string
	}{
		{"R1-021 a project has a name", "cacp/project/create", m{"objective": "o"}, "name required"},
		{"R1-021 a project has an objective", "cacp/project/create", m{"name": "n"}, "objective required"},
		{"R1-021 a repository has a role and a language", "cacp/project/create", m{"name": "n", "objective": "o", "repos": []m{{"name": "x"}}}, "role"},
		{"R1-023 a repository is claimed by name", "cacp/project/join", m{}, "repoName required"},
		{"R1-023 a repository that is claimed exists", "cacp/project/join", m{"repoName": "nope"}, "not found"},
		{"R1-014 a contract has one of six types", "cacp/contract/propose", m{"type": "graphql", "name": "n", "content": m{}}, "type"},
		{"R1-028 a contract has a type", "cacp/contract/propose", m{"name": "n", "content": m{}}, "type required"},
		{"R1-028 a contract has a content", "cacp/contract/propose", m{"type": "custom", "name": "n"}, "content required"},
		{"R1-028 a content is an object", "cacp/contract/propose", m{"type": "custom", "name": "n", "content": "text"}, "content"},
		{"R1-033 an action is one of three", "cacp/contract/respond", m{"contractId": contract, "action": "maybe"}, "action"},
		{"R1-033 a response has an action", "cacp/contract/respond", m{"contractId": contract}, "action required"},
		{"R1-035 an update has a content", "cacp/contract/update", m{"contractId": contract}, "content required"},
		{"R1-035 an update is of a contract that exists", "cacp/contract/update", m{"contractId": "nope", "content": m{}}, "not found"},
		{"R1-017 context has one of ten types", "cacp/context/share", m{"type": "poem", "content": m{}}, "type"},
		{"R1-016 context is an object", "cacp/context/share", m{"type": "api_spec", "content": []int{1}}, "content"},
		{"R1-016 what is answered exists", "cacp/context/share", m{"type": "api_spec", "content": m{}, "replyTo": "nope"}, "not found"},
		{"R1-040 a question is asked", "cacp/context/askQuestion", m{}, "question required"},
		{"R1-041 a decision has a rationale", "cacp/context/recordDecision", m{"decision": "d", "chosen": "c"}, "rationale required"},
		{"R1-042 only what is agreed is begun", "cacp/implementation/start", m{"contractId": contract}, "status proposed"},
		{"R1-043 files are named", "cacp/implementation/complete", m{"contractId": contract}, "files required"},
		{"R1-044 a result is one of three", "cacp/implementation/verify", m{"contractId": contract, "result": "fine"}, "result"},
		{"R1-044 only what is implemented is verified", "cacp/implementation/verify", m{"contractId": contract, "result": "success"}, "status proposed"},
		{"R1-075 a file is base64 to the letter", "cacp/file/share", m{"file": m{"name": "x", "content": "!!!"}}, "base64"},
		{"R1-078 a request that is fulfilled exists", "cacp/file/fulfillRequest", m{"requestId": "nope", "file": m{"name": "x", "content": ""}}, "not found"},
		{"R1-073 a thread begins with a packet", "cacp/context/getThread", m{}, "packetId required"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if c.method != "cacp/project/create" {
				c.params["projectId"] = project
			}
			a := r.call(t, r.operator, c.method, object(t, c.params))
			if a.status != 200 || a.Error == nil || a.Error.Code != -32602 || !strings.HasPrefix(a.Error.Message, "Invalid params: ") || !strings.Contains(a.Error.Message, c.want) {
				t.Errorf("got %d %s, want -32602 about %q", a.status, a.body, c.want)
			}
		})
	}
	t.Run("R1-087 a body over its limit is refused, and the hub stays up", func(t *testing.T) {
		big := strings.Repeat("x", 2<<20)
		r.call(t, r.operator, "cacp/contract/propose", object(t, m{"projectId": project, "type": "custom", "name": "n", "content": m{"x": big}})).
			wantError(t, -32602, hub.CodeTooLarge)
		r.call(t, r.operator, "cacp/contract/propose", object(t, m{"projectId": project, "type": "custom", "name": "n", "content": m{"x": big[:300<<10]}})).
			wantError(t, -32602, hub.CodeTooLarge)
		file := m{"projectId": project, "file": m{"name": "x", "content": strings.Repeat("QUFB", 11<<20/3)}}
		r.call(t, r.operator, "cacp/file/share", object(t, file)).wantError(t, -32602, hub.CodeTooLarge)
		file["file"].(m)["content"] = strings.Repeat("QUFB", 2<<20/3)
		r.call(t, r.operator, "cacp/file/share", object(t, file)).wantOK(t, nil)
		a := r.do(t, "POST", "/", r.operator, io.LimitReader(endless{}, 50<<20), asJSON)
		a.wantReason(t, -32602, hub.CodeTooLarge)
		r.call(t, r.operator, "cacp/project/list", `{}`).wantOK(t, nil)
	})
	t.Run("R1-035 a note has two spellings, and the document's wins", func(t *testing.T) {
		ask[m](t, r, "cacp/contract/update", m{"projectId": project, "contractId": contract, "content": m{}, "change_notes": "old", "changeNote": "new"})
		ask[m](t, r, "cacp/contract/update", m{"project_id": project, "contract_id": contract, "content": m{}, "changeNotes": "reference"})
		got := ask[struct {
			History []struct {
				ChangeNotes string `json:"change_notes"`
			}
		}](t, r, "cacp/contract/get", m{"projectId": project, "contractId": contract, "include_history": true})
		if len(got.History) != 2 || got.History[0].ChangeNotes != "new" || got.History[1].ChangeNotes != "reference" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("R1-071 the contracts of an unknown project are none", func(t *testing.T) {
		if got := ask[struct{ Contracts []m }](t, r, "cacp/contract/list", m{"projectId": "nowhere"}); got.Contracts == nil || len(got.Contracts) != 0 {
			t.Errorf("got %v, want []", got)
		}
	})
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestVisitors goes through who may come in, over HTTP.
func TestVisitors(t *testing.T) {
	t.Parallel()
	r := start(t, onLoopback("back", "backend-api", "backend"))
	project := ask[struct{ ProjectID string }](t, r, "cacp/project/create", m{"name": "n", "objective": "o", "repos": []m{{"name": "backend-api", "role": "backend", "language": "go"}}}).ProjectID
	const peerID = "aid://peer.example/agent@1.0.0"
	peerKey := ask[struct{ Key string }](t, r, "parley/peer/add", m{"agentId": peerID, "endpoint": "https://127.0.0.1:9"}).Key
	get := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{"projectId":%q}}`, project)
	call := func(t *testing.T, key, body string, headers ...string) answer {
		t.Helper()
		return r.do(t, "POST", "/", key, strings.NewReader(body), asJSON, func(q *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				q.Header.Set(headers[i], headers[i+1])
			}
		})
	}
	t.Run("R1-063 a peer with its key may do everything that peers do", func(t *testing.T) {
		call(t, peerKey, get, "X-Agent-ID", peerID).wantOK(t, nil)
		call(t, peerKey, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/addRepo","params":{"projectId":%q,"name":"x","role":"shared","language":"l"}}`, project)).
			wantError(t, -32602, hub.CodeConflict) // it is let in, and has no repository to speak for
	})
	t.Run("R1-065 nobody is let in without a key, but all see the card and the health", func(t *testing.T) {
		for _, a := range []answer{call(t, "", get), call(t, "cacp_sk_live_no", get), call(t, "", get, "X-Agent-ID", "aid://x.example/y@1.0.0")} {
			if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("got %d %s, want 401", a.status, a.body)
			}
			a.wantReason(t, -32000, hub.CodeUnauthenticated)
		}
		for _, page := range []string{"/health", "/.well-known/agent.json", "/methods"} {
			if a := r.do(t, "GET", page, "", nil); a.status != 200 {
				t.Errorf("%s: got %d", page, a.status)
			}
		}
		var card struct{ Protocols map[string]string }
		if err := json.Unmarshal(r.do(t, "GET", "/.well-known/agent.json", "", nil).body, &card); err != nil || len(card.Protocols) != 1 || card.Protocols["cacp"] == "" {
			t.Errorf("protocols of the card: got %v (%v), want the one that is spoken", card.Protocols, err)
		}
		// A2A clients read their card here, and the hub does not speak A2A.
		if a := r.do(t, "GET", "/.well-known/agent-card.json", "", nil); a.status != http.StatusNotFound {
			t.Errorf("the card at the address of A2A: got %d, want 404", a.status)
		}
		if a := r.do(t, "GET", "/peers", "", nil); a.status != http.StatusUnauthorized {
			t.Errorf("/peers: got %d, want 401", a.status)
		}
	})
	t.Run("R1-062 who shows one key and another name is turned away, and that is recorded", func(t *testing.T) {
		head := r.journalHead(t)
		a := call(t, peerKey, get, "X-Agent-ID", "aid://other.example/agent@1.0.0")
		if a.status != http.StatusForbidden {
			t.Errorf("got %d %s, want 403", a.status, a.body)
		}
		a.wantReason(t, -32000, hub.CodeTampering)
		if string(a.ID) == "null" {
			t.Errorf("id: got %s, want that of the request", a.ID)
		}
		if got := strings.Join(r.journal(t, head), "\n"); !strings.Contains(got, string(hub.CodeTampering)) {
			t.Errorf("journal: got %q", got)
		}
	})
	t.Run("R1-061 a project token permits what it says, in its project", func(t *testing.T) {
		token := ask[struct{ Token string }](t, r, "parley/project/token", m{"projectId": project, "agent": "aid://ci.example/ci@1.0.0", "permissions": []string{"project:read"}, "ttlS": 60}).Token
		call(t, "", get, "X-Project-Token", token).wantOK(t, nil)
		call(t, token, get).wantOK(t, nil)
		call(t, "", strings.Replace(get, project, "elsewhere", 1), "X-Project-Token", token).wantError(t, -32000, hub.CodeDenied)
		call(t, "", strings.Replace(get, "project/get", "project/join", 1), "X-Project-Token", token).wantError(t, -32000, hub.CodeDenied)
		call(t, "", `{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`, "X-Project-Token", token).wantError(t, -32000, hub.CodeDenied)
		if a := r.do(t, "GET", "/peers", token, nil); a.status != http.StatusForbidden {
			t.Errorf("/peers: got %d %s, want 403", a.status, a.body)
		}
	})
	t.Run("R1-060 what an agent or a peer may not do, only the operator does", func(t *testing.T) {
		agent := r.add(t, "builder")[0]
		for _, key := range []string{agent, peerKey} {
			for _, method := range []string{"parley/peer/add", "parley/peer/list", "parley/peer/approve", "parley/peer/remove", "parley/peer/sync", "parley/peer/join", "parley/peer/enlist", "parley/discover", "parley/project/token", "cacp/invite/create", "cacp/invite/revoke", "cacp/invite/list"} {
				call(t, key, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"projectId":"`+project+`","agentId":"x","agent":"x","invite":"x","hub":"x","repoName":"x"}}`).
					wantError(t, -32000, hub.CodeDenied)
			}
		}
		call(t, peerKey, `{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["builder"],"text":"hi"}}`).wantError(t, -32000, hub.CodeDenied)
	})
	t.Run("R1-060 an agent of the hub speaks for the hub's repository, or for the one it claimed", func(t *testing.T) {
		agent := r.add(t, "coder")[0]
		r.call(t, agent, "cacp/contract/propose", object(t, m{"projectId": project, "type": "custom", "name": "c", "content": m{}})).wantOK(t, nil)
	})
	t.Run("R1-053 a peer that registers itself waits for the operator", func(t *testing.T) {
		body := `{"agentId":"aid://new.example/agent@1.0.0","endpoint":"https://127.0.0.1:9","repoName":"x"}`
		if a := r.do(t, "POST", "/peers/register", "", strings.NewReader(body), asJSON); a.status != http.StatusUnauthorized {
			t.Errorf("a stranger: got %d %s, want 401", a.status, a.body)
		}
		a := r.do(t, "POST", "/peers/register", r.operator, strings.NewReader(body), asJSON)
		if a.status != 200 || !bytes.Contains(a.body, []byte(`"state":"pending"`)) {
			t.Errorf("got %d %s", a.status, a.body)
		}
		for _, bad := range []string{`{`, `[]`, `{"agentId":"x"}`, `{"agentId":"x","endpoint":"ftp://x"}`, `{"agentId":"x","endpoint":"http://u:p@x"}`} {
			if a := r.do(t, "POST", "/peers/register", r.operator, strings.NewReader(bad), asJSON); a.status != http.StatusBadRequest {
				t.Errorf("%s: got %d %s, want 400", bad, a.status, a.body)
			}
		}
	})
	t.Run("R1-069 an invite is the only thing that is taken from a stranger", func(t *testing.T) {
		invite := ask[struct{ Invite string }](t, r, "cacp/invite/create", m{"projectId": project, "repoName": "backend-api"}).Invite
		redeem := func(text string) answer {
			return call(t, "", object(t, m{"jsonrpc": "2.0", "id": 1, "method": "cacp/invite/redeem", "params": m{
				"invite": text, "agentId": "aid://guest.example/agent@1.0.0", "endpoint": "https://127.0.0.1:9", "repoName": "x", "key": "cacp_sk_live_theirs",
			}}))
		}
		redeem("INV-no").wantError(t, -32602, hub.CodeInvalid)
		redeem(invite).wantOK(t, nil)
		redeem(invite).wantError(t, -32602, hub.CodeConflict)
		if a := call(t, "", `[`+get+`]`); a.status != http.StatusUnauthorized {
			t.Errorf("a batch of a stranger: got %d, want 401", a.status)
		}
	})
}

func TestOpenHub(t *testing.T) {
	t.Parallel()
	t.Run("R1-060 a hub that needs no keys is for loopback only", func(t *testing.T) {
		o := quiet()
		o.Home, o.Addr, o.NoTLSBecause, o.Coordination.Open = t.TempDir(), "0.0.0.0:0", "a test", true
		_, err := server.New(t.Context(), o)
		wantCode(t, err, hub.CodePolicy)
	})
	o := onLoopback("back", "backend-api", "backend")
	o.Coordination.Open = true
	r := start(t, o)
	t.Run("R1-030 on an open hub one client goes the whole way alone", func(t *testing.T) {
		call := func(method string, params m) (out struct{ ProjectID, ContractID, Status, ContractStatus string }) {
			t.Helper()
			r.do(t, "POST", "/", "", strings.NewReader(object(t, m{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})), asJSON).wantOK(t, &out)
			return out
		}
		p := call("cacp/project/create", m{"name": "n", "objective": "o", "agreementPolicy": "any", "repos": []m{{"name": "backend-api", "role": "backend", "language": "go"}}}).ProjectID
		c := call("cacp/contract/propose", m{"projectId": p, "type": "custom", "name": "c", "content": m{}}).ContractID
		call("cacp/contract/respond", m{"projectId": p, "contractId": c, "action": "agree"})
		call("cacp/implementation/start", m{"projectId": p, "contractId": c})
		call("cacp/implementation/complete", m{"projectId": p, "contractId": c, "files": []string{}})
		if got := call("cacp/implementation/verify", m{"projectId": p, "contractId": c, "result": "success"}); got.ContractStatus != "verified" {
			t.Errorf("got %+v, want verified", got)
		}
	})
	t.Run("R1-088 an open hub takes nothing but application/json", func(t *testing.T) {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
			a := r.do(t, "POST", "/", "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}`), func(q *http.Request) { q.Header.Set("Content-Type", kind) })
			if a.status != http.StatusUnsupportedMediaType {
				t.Errorf("%q: got %d, want 415", kind, a.status)
			}
		}
	})
	t.Run("an open hub trusts no peer that registers itself", func(t *testing.T) {
		self := object(t, m{"agentId": "aid://front.example/hub@1.0.0", "endpoint": "http://127.0.0.1:9"})
		if a := r.do(t, "POST", "/peers/register", "", strings.NewReader(self), asJSON); a.status != http.StatusOK {
			t.Fatalf("got %d: %s", a.status, a.body)
		}
		var got struct {
			Peers []struct{ State, Trust string }
		}
		r.do(t, "POST", "/", r.operator, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"parley/peer/list"}`), asJSON).wantOK(t, &got)
		if len(got.Peers) != 1 || got.Peers[0].State != "approved" || got.Peers[0].Trust != "open" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("R1-060 the hub's own methods need a key on an open hub, too", func(t *testing.T) {
		r.do(t, "POST", "/", "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`), asJSON).wantError(t, -32000, hub.CodeDenied)
	})
}

func TestBasePath(t *testing.T) {
	t.Parallel()
	o := onLoopback("back", "backend-api", "backend")
	o.Coordination.URL = "http://hub.example/agents/back"
	r := start(t, o)
	for _, path := range []string{"/", "/agents/back", "/agents/back/"} {
		t.Run("R1-001 the hub answers at "+path, func(t *testing.T) {
			r.do(t, "POST", path, r.operator, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}`), asJSON).wantOK(t, nil)
		})
	}
	t.Run("R1-050 the card under a path names it", func(t *testing.T) {
		a := r.do(t, "GET", "/agents/back/.well-known/agent.json", "", nil, func(q *http.Request) { q.Host = "hub.example" })
		if a.status != 200 || !bytes.Contains(a.body, []byte(`"url":"http://hub.example/agents/back"`)) {
			t.Errorf("got %d %s", a.status, a.body)
		}
	})
}

// TestReferencePeer lets an agent of the reference implementation and a hub go
// the whole way together, over HTTP.
func TestReferencePeer(t *testing.T) {
	t.Parallel()
	t.Attr("stand-in", "agent of the reference implementation")
	o := onLoopback("back", "backend-api", "backend")
	r := start(t, o)
	ref := reftest.New("agent-frontend-app", "frontend-app", "frontend", "typescript")
	defer ref.Close()
	ask[m](t, r, "parley/peer/add", m{"agentId": ref.ID, "endpoint": ref.URL(), "repoName": "frontend-app", "from": "127.0.0.1"})
	t.Run("R1-080 a contract goes from a hub to a reference agent and back", func(t *testing.T) {
		project := ask[struct{ ProjectID string }](t, r, "cacp/project/create", m{"name": "n", "objective": "o", "repos": []m{
			{"name": "backend-api", "role": "backend", "language": "go"}, {"name": "frontend-app", "role": "frontend", "language": "typescript"},
		}}).ProjectID
		id := ask[struct{ ContractID string }](t, r, "cacp/contract/propose", m{"projectId": project, "type": "custom", "name": "c", "content": m{"a": 1}}).ContractID
		eventually(t, "the agent can claim its repository", func() bool {
			return ref.Do("cacp/project/join", m{"projectId": project, "repoName": "frontend-app"}, new(m)) == nil
		})
		eventually(t, "the agent agrees", func() bool {
			return ref.Do("cacp/contract/respond", m{"projectId": project, "contractId": id, "action": "agree"}, new(m)) == nil
		})
		eventually(t, "the hub has it", func() bool {
			s, _ := contractStatus(t, r, project, id)
			return s == coord.ContractAgreed
		})
	})
	t.Run("R1-053 /peers says whether a peer is healthy and when it was seen, and shows removed ones to the operator alone", func(t *testing.T) {
		key := r.add(t, "reader")[0]
		list := func(key string) string { return string(r.do(t, "GET", "/peers", key, nil).body) }
		for _, who := range []string{r.operator, key} {
			eventually(t, "the peer is listed as healthy and seen", func() bool {
				got := list(who)
				return strings.Contains(got, ref.ID) && strings.Contains(got, `"isHealthy":true`) && strings.Contains(got, `"lastSeen":"`)
			})
		}
		ask[m](t, r, "parley/peer/add", m{"agentId": "aid://gone.example/x@1.0.0", "endpoint": "http://127.0.0.1:9", "repoName": "gone"})
		ask[m](t, r, "parley/peer/remove", m{"agentId": "aid://gone.example/x@1.0.0"})
		if got := list(r.operator); !strings.Contains(got, "gone.example") {
			t.Errorf("the operator sees %s", got)
		}
		if got := list(key); strings.Contains(got, "gone.example") {
			t.Errorf("an agent sees %s", got)
		}
	})
	t.Run("R1-079 a file without content is refused", func(t *testing.T) {
		for _, content := range []string{`,"content":null`, ""} {
			a := r.call(t, r.operator, "cacp/file/share", `{"projectId":"p","file":{"name":"x"`+content+`}}`)
			a.wantError(t, -32602, hub.CodeInvalid)
		}
	})
	t.Run("R1-065 a legacy peer may do nothing but sync", func(t *testing.T) {
		a := r.do(t, "POST", "/", "", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}`), asJSON, func(q *http.Request) { q.Header.Set("X-Agent-ID", ref.ID) })
		a.wantError(t, -32000, hub.CodeDenied)
	})
}
