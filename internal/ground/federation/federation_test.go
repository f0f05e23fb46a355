package federation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
)

// wholeProject is a project as the protocol writes it, with every member.
const wholeProject = `{"project_id":"f0ebc7e6-3b58-4d02-abb1-b63e1e0ba7ac","name":"User Auth Feature","objective":"OAuth 2.0 <login> & more","status":"implementing",` +
	`"agreement_policy":"all","repos":[{"repo_id":"r1","name":"backend-api","role":"backend","language":"python","relevant_paths":["src/"],"url":"https://x/?a&b",` +
	`"agent_id":"aid://example.com/backend@1.0.0","assigned_agent":"aid://example.com/backend@1.0.0","agent_endpoint":"http://b:8080",` +
	`"claimed_at":"2026-11-15T00:14:52.378912Z","updated_at":"2026-11-15T00:14:52.378913Z"},` +
	`{"repo_id":"r2","name":"frontend-app","role":"frontend","language":"typescript","relevant_paths":[]}],` +
	`"created_at":"2026-11-15T00:14:52.378912Z","updated_at":"2026-11-15T00:14:53.000000Z",` +
	`"contracts":[{"contract_id":"c1","type":"api_endpoint","name":"Get User Profile","version":2,"status":"agreed","content":{"b":1.50,"a":"<x>"},"proposed_by":"r1",` +
	`"implementations":[{"repo_id":"r1","agent_id":"aid://example.com/backend@1.0.0","status":"in_progress","plan":"p","files":[],"notes":"",` +
	`"started_at":"2026-11-15T00:15:00.000001Z","contract_version":2}],` +
	`"history":[{"version":1,"content":{},"proposed_by":"r1","timestamp":"2026-11-15T00:14:54.000000Z","change_notes":"why"}],` +
	`"created_at":"2026-11-15T00:14:54.000000Z","updated_at":"2026-11-15T00:14:59.000000Z",` +
	`"conflicts":[{"version":2,"content":{"c":1},"proposed_by":"r2","timestamp":"2026-11-15T00:14:58.000000Z"}],` +
	`"agreements":[{"repo_id":"r2","agent_id":"x","version":2,"content_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","at":"2026-11-15T00:14:59.000000Z"}],` +
	`"reopened_at":"2026-11-15T00:14:57.000000Z"},` +
	`{"contract_id":"c2","type":"custom","name":"n","version":1,"status":"proposed","content":{},"proposed_by":"r2","implementations":[],"history":[],` +
	`"created_at":"2026-11-15T00:14:54.000000Z","updated_at":"2026-11-15T00:14:54.000000Z"}],` +
	`"context_history":[{"packet_id":"k1","from_repo":"r1","from_agent":"x","timestamp":"2026-11-15T00:14:55.000000Z","type":"question","content":{"q":"?"},"related_contracts":["c1"],"reply_to":"k0"},` +
	`{"packet_id":"k2","from_repo":"r1","from_agent":"x","timestamp":"2026-11-15T00:14:56.000000Z","type":"decision","content":{},"related_contracts":[]}]}`

func TestExchange(t *testing.T) {
	p, err := federation.DecodeProject([]byte(wholeProject))
	if err != nil {
		t.Fatal(err)
	}
	for rule, v := range map[string]json.Marshaler{
		"R1-010 a project":         p,
		"R1-011 a repository":      p.Repos[0],
		"R1-013 a contract":        p.Contracts[0],
		"R1-016 a context packet":  p.Packets[0],
		"R1-018 an implementation": p.Contracts[0].Implementations[0],
	} {
		t.Run(rule+" has the members of the protocol, byte for byte", func(t *testing.T) {
			got, err := v.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(wholeProject, string(got)) {
				t.Errorf("got  %s\nnot in %s", got, wholeProject)
			}
		})
	}
	t.Run("R1-010 what has no lists is written with empty ones", func(t *testing.T) {
		for _, v := range []any{federation.ProjectCopy{}, coord.Project{}, coord.Repo{}, coord.Contract{Content: json.RawMessage(`{}`)}, coord.Implementation{}, coord.Packet{Content: json.RawMessage(`{}`)}} {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"repos", "contracts", "context_history", "relevant_paths", "implementations", "history", "files", "related_contracts"} {
				if bytes.Contains(b, []byte(`"`+name+`":null`)) {
					t.Errorf("%T: %s is null: %s", v, name, b)
				}
			}
		}
	})
	t.Run("R1-011 an agent is read under either name, and what is null is not there", func(t *testing.T) {
		for raw, want := range map[string]coord.AID{
			`"agent_id":"a"`:                        "a",
			`"assigned_agent":"b"`:                  "b",
			`"agent_id":"a","assigned_agent":"b"`:   "b",
			`"agent_id":"a","assigned_agent":null`:  "a",
			`"agent_id":null,"assigned_agent":null`: "",
		} {
			r, err := federation.DecodeRepo([]byte(`{"repo_id":"r","name":"n","role":"x","language":"go","url":null,"relevant_paths":null,` + raw + `}`))
			if err != nil || r.Agent != want {
				t.Errorf("%s: got %q (%v), want %q", raw, r.Agent, err, want)
			}
		}
	})
	for rule, change := range map[string][2]string{
		"R1-012 a project's status":         {`"status":"implementing"`, `"status":"done"`},
		"R1-014 a contract's type":          {`"type":"api_endpoint"`, `"type":"graphql"`},
		"R1-015 a contract's status":        {`"status":"agreed"`, `"status":"rejected"`},
		"R1-018 an implementation's status": {`"status":"in_progress"`, `"status":"almost"`},
		"R1-017 a packet's type":            {`"type":"question"`, `"type":"gossip"`},
		"an agreement policy":               {`"agreement_policy":"all"`, `"agreement_policy":"most"`},
	} {
		t.Run(rule+" that does not exist is refused", func(t *testing.T) { decodeFails(t, change, hub.CodeInvalid) })
	}
	t.Run("R1-086 ids lead nowhere", func(t *testing.T) {
		for _, id := range []string{"", ".", "..", "../../etc", "a/b", `a\\b`, "a\\u0000", strings.Repeat("x", 129)} {
			for _, member := range []string{`"project_id":"f0ebc7e6-3b58-4d02-abb1-b63e1e0ba7ac"`, `"contract_id":"c1"`, `"packet_id":"k1"`, `"repo_id":"r2","name"`} {
				name, _, _ := strings.Cut(member, ":")
				tail := ""
				if strings.HasSuffix(member, `"name"`) {
					tail = `,"name"`
				}
				decodeFails(t, [2]string{member, name + `:"` + id + `"` + tail}, hub.CodeInvalid)
			}
		}
	})
	t.Run("what cannot be is refused", func(t *testing.T) {
		for _, change := range [][2]string{
			{`"content":{"b":1.50,"a":"<x>"}`, `"content":[]`},
			{`"content":{"b":1.50,"a":"<x>"}`, `"content":{"a":1,"a":2}`},
			{`"version":2,"status"`, `"version":0,"status"`},
			{`"version":2,"status"`, `"version":3000000000,"status"`},
			{`"history":[{"version":1`, `"history":[{"version":2`},
			{`"conflicts":[{"version":2`, `"conflicts":[{"version":3`},
			{`"content_sha256":"44`, `"content_sha256":"zz`},
			{`"repo_id":"r2","name"`, `"repo_id":"r1","name"`},
			{`"role":"frontend"`, `"role":""`},
			{`"timestamp":"2026-11-15T00:14:55.000000Z"`, `"timestamp":"yesterday"`},
			{`"timestamp":"2026-11-15T00:14:55.000000Z"`, `"timestamp":"9999-12-31T23:59:59Z"`},
			{`"name":"User Auth Feature"`, `"name":"User Auth Feature","Name":"x"`},
		} {
			decodeFails(t, change, hub.CodeInvalid)
		}
	})
	t.Run("R1-087 what is too large is refused as such", func(t *testing.T) {
		long := strings.Repeat("x", federation.MaxContent)
		for _, change := range [][2]string{
			{`"content":{"b":1.50,"a":"<x>"}`, `"content":{"b":"` + long + `"}`},
			{`"name":"User Auth Feature"`, `"name":"` + long[:federation.MaxName+1] + `"`},
			{`"related_contracts":["c1"]`, `"related_contracts":["c1"` + strings.Repeat(`,"c"`, federation.MaxRelated) + `]`},
			{`"plan":"p"`, `"plan":"` + long[:federation.MaxText+1] + `"`},
			{`"files":[]`, `"files":["x"` + strings.Repeat(`,"x"`, federation.MaxFiles) + `]`},
		} {
			decodeFails(t, change, hub.CodeTooLarge)
		}
	})
}

// decodeFails changes the whole project once and wants it refused.
func decodeFails(t *testing.T, change [2]string, want hub.Code) {
	t.Helper()
	raw := strings.Replace(wholeProject, change[0], change[1], 1)
	if raw == wholeProject {
		t.Fatalf("there is no %s", change[0])
	}
	if _, err := federation.DecodeProject([]byte(raw)); hub.CodeOf(err) != want {
		t.Errorf("%.80s: got %q (%v), want %q", change[1], hub.CodeOf(err), err, want)
	}
}

// FuzzDecodeProject checks that nothing breaks the reader, and that what it has
// read can be written and read again.
func FuzzDecodeProject(f *testing.F) {
	f.Add([]byte(wholeProject))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"project_id":"p","name":"n","status":"planning","repos":null,"contracts":[null],"context_history":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := federation.DecodeProject(raw)
		if err != nil {
			return
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := federation.DecodeProject(b)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, b)
		}
		if fmt.Sprint(again.Project) != fmt.Sprint(p.Project) || len(again.Contracts) != len(p.Contracts) || len(again.Packets) != len(p.Packets) {
			t.Errorf("got %+v, want %+v", again, p)
		}
	})
}
