package reftest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/reftest"
)

// TestHabits holds what was measured of the reference implementation: other
// tests rely on each of these.
func TestHabits(t *testing.T) {
	t.Parallel()
	a := reftest.New("agent-frontend", "frontend-app", "frontend", "typescript")
	defer a.Close()
	post := func(body string) (int, string) {
		res, err := http.Post(a.URL(), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		out, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(bytes.TrimSpace(out))
	}
	call := func(method, params string) string {
		_, out := post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
		return out
	}
	const naive = `"created_at":"2026-01-01T00:00:00.000001","updated_at":"2026-01-01T00:00:00.000001"`
	project := func(extra string) string {
		return `{"project":{"project_id":"p","name":"n","objective":"o"` + extra + `},"source_agent":"x"}`
	}
	contract := func(extra string) string {
		return `{"projectId":"p","contract":{"contract_id":"c","type":"custom","name":"n","content":{},"proposed_by":"r"` + extra + `},"source_agent":"x"}`
	}
	for _, test := range []struct{ name, got, want string }{
		{"a missing member of the call is a server error", call("cacp/contract/sync", `{}`), `"code":-32000`},
		{"an unknown project is a success that says error", call("cacp/contract/sync", contract("")), `"status":"error"`},
		{"null for a list is a server error", call("cacp/project/sync", project(`,"repos":null`)), `"code":-32000`},
		{"a wrong status is refused", call("cacp/project/sync", project(`,"status":"done"`)), `"code":-32602`},
		{"a project without an objective is refused", call("cacp/project/sync", `{"project":{"name":"n"}}`), `"code":-32602`},
		{"an unknown project is created", call("cacp/project/sync", project(","+naive)), `"status":"created"`},
		{"an older project is skipped", call("cacp/project/sync", project(","+naive)), `"status":"skipped"`},
		{"a zone cannot be compared with none", call("cacp/project/sync", project(`,"updated_at":"2036-01-01T00:00:00Z"`)), `offset-naive`},
		{"a contract is created as it is", call("cacp/contract/sync", contract(`,"version":2,`+naive)), `"status":"created"`},
		{"one that is no newer is skipped", call("cacp/contract/sync", contract(`,"version":2,`+naive)), `"status":"skipped"`},
		{"a zone fails within a version", call("cacp/contract/sync", contract(`,"version":2,"updated_at":"2026-01-01T00:00:00Z"`)), `offset-naive`},
		{"a lower version with a later time wins", call("cacp/contract/sync", contract(`,"version":1,"updated_at":"2026-01-01T00:00:01"`)), `"status":"updated"`},
		{"what was accepted has the agent's own time", call("cacp/contract/sync", contract(`,"version":1,"updated_at":"2026-01-01T00:00:02"`)), `"status":"skipped"`},
		{"a zone passes with a higher version", call("cacp/contract/sync", contract(`,"version":3,"updated_at":"2026-01-01T00:00:00Z"`)), `"status":"updated"`},
		{"content must be an object", call("cacp/contract/sync", strings.Replace(contract(""), `"content":{}`, `"content":"x"`, 1)), `"code":-32602`},
		{"notes must not be null", call("cacp/contract/sync", contract(`,"version":9,"implementations":[{"repo_id":"r","agent_id":"a","notes":null}]`)), `"code":-32602`},
		{"history is left out unless asked for", call("cacp/contract/get", `{"projectId":"p","contractId":"c"}`), `"version":3`},
		{"an unknown method", call("cacp/nonsense", `{}`), `"code":-32601`},
		{"params that are no object", call("cacp/project/get", `null`), `"code":-32000`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(test.got, test.want) {
				t.Errorf("got %s, want %s", test.got, test.want)
			}
		})
	}
	t.Run("a batch makes it fail", func(t *testing.T) {
		if got, _ := post(`[{"jsonrpc":"2.0","id":1,"method":"cacp/project/list"}]`); got != http.StatusInternalServerError {
			t.Errorf("got %d, want 500", got)
		}
	})
	t.Run("times have no zone", func(t *testing.T) {
		var p struct {
			UpdatedAt string `json:"updated_at"`
		}
		if err := a.Do("cacp/project/get", map[string]string{"projectId": "p"}, &p); err != nil || strings.HasSuffix(p.UpdatedAt, "Z") {
			t.Errorf("got %q, %v", p.UpdatedAt, err)
		}
	})
	t.Run("three failures and a peer is never told again", func(t *testing.T) {
		a.Register("down", "http://127.0.0.1:1", "")
		for range 3 {
			if !a.Healthy("down") {
				t.Error("given up too early")
			}
			if err := a.Do("cacp/project/create", map[string]string{"name": "n", "objective": "o"}, nil); err != nil {
				t.Error(err)
			}
		}
		if a.Healthy("down") {
			t.Error("not given up")
		}
	})
	t.Run("a restart forgets everything", func(t *testing.T) {
		a.Restart()
		var list struct{ Projects []json.RawMessage }
		if err := a.Do("cacp/project/list", map[string]string{}, &list); err != nil || len(list.Projects) != 0 {
			t.Errorf("got %d projects, %v", len(list.Projects), err)
		}
	})
}
