package peer_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
)

var self = peer.Self{
	AID: "aid://example.com/backend@1.0.0", URL: "https://backend.example.com/", Repo: "backend-api", Role: "backend", Language: "go", Version: "1.2.3",
	ContractTypes: []string{"api_endpoint", "event_schema", "data_model"},
}

func manifest(t *testing.T, strict bool) peer.Manifest {
	t.Helper()
	m, err := self.Manifest(make(ed25519.PublicKey, 32), hub.AtMilli(0), strict)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestManifest(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	raw, err := os.ReadFile("testdata/manifest.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("manifest.json", doc); err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("manifest.json")
	check := func(m peer.Manifest) error {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	t.Run("R1-059 the strict manifest fits the published schema", func(t *testing.T) {
		m := manifest(t, true)
		if err := check(m); err != nil {
			t.Error(err)
		}
		if got, want := m.Metadata.CACP.Endpoint, "https://backend.example.com"; got != want {
			t.Errorf("endpoint: got %q, want %q", got, want)
		}
	})
	t.Run("R1-059 the usual manifest differs from the schema by the entry that reference clients look for", func(t *testing.T) {
		m := manifest(t, false)
		first := m.Invocation.Protocols[0]
		if first.Type != "cacp" || first.Version != "2.0" || first.Endpoint != "https://backend.example.com" {
			t.Errorf("got %+v first", first)
		}
		m.Invocation.Protocols = m.Invocation.Protocols[1:]
		if err := check(m); err != nil {
			t.Error(err)
		}
	})
	t.Run("R1-059 a hub without a proper id has no manifest", func(t *testing.T) {
		for _, aid := range []string{"", "agent-backend", "aid://example.com/a--b@1.0.0"} {
			s := self
			s.AID = aid
			if _, err := s.Manifest(make(ed25519.PublicKey, 32), hub.AtMilli(0), false); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%q: got %v", aid, err)
			}
		}
		s := self
		if _, err := s.Manifest(nil, hub.AtMilli(0), false); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("without a key: got %v", err)
		}
	})
}

// A recorded exchange answers with fixed texts and keeps what it was asked.
type recorded struct {
	*httptest.Server
	answers map[string]answer // by method and path as sent
	bodies  map[string]string
}

type answer struct {
	status int
	body   string
}

func exchange(t *testing.T, answers map[string]answer) (*peer.Exchange, *recorded) {
	t.Helper()
	r := &recorded{answers: answers, bodies: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body) // a test's own request
		key := req.Method + " " + req.URL.EscapedPath()
		r.bodies[key] = string(body)
		a, ok := r.answers[key]
		if !ok {
			a = answer{404, `{"detail":"Not Found"}`}
		}
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
	}))
	t.Cleanup(r.Close)
	c := peer.NewClient(&peer.ClientOptions{Guard: loopback, Timeout: 5 * time.Second})
	t.Cleanup(c.Close)
	e, err := peer.NewExchange(c, r.URL)
	if err != nil {
		t.Fatal(err)
	}
	return e, r
}

const entryOfFrontend = `{"aid":"aid://example.com/frontend@1.0.0","name":"Frontend","score":0.9,"verified":true,
	"manifest":{"aid":"aid://example.com/frontend@1.0.0","invocation":{"protocols":[{"type":"rest","endpoint":"https://f.example/rest"},{"type":"cacp","version":"2.0","endpoint":"https://f.example/"}]},
	"security":{"signingKeys":{"current":"ed25519:AAAA"}}}}`

func TestSearch(t *testing.T) {
	for name, body := range map[string]string{
		"in an envelope":   `{"results":[` + entryOfFrontend + `],"total":1,"limit":10,"offset":0,"query":"x"}`,
		"bare":             `[` + entryOfFrontend + `]`,
		"under agents":     `{"agents":[` + entryOfFrontend + `]}`,
		"among unreadable": `{"results":[7,null,{"aid":"nonsense"},{"aid":7},` + entryOfFrontend + `]}`,
	} {
		t.Run("R1-058 results "+name, func(t *testing.T) {
			e, r := exchange(t, map[string]answer{"POST /v1/search/": {200, body}})
			got, err := e.Discover(t.Context(), "frontend", []string{"typescript"}, 10)
			if err != nil {
				t.Fatal(err)
			}
			want := federation.Discovery{AID: "aid://example.com/frontend@1.0.0", Name: "Frontend", Score: 0.9, Verified: true, Endpoint: "https://f.example", Version: "2.0", Key: "ed25519:AAAA"}
			if len(got) != 1 || got[0] != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			asked := `{"query":"cacp protocol coding frontend typescript","filters":{"protocols":["cacp"]},"limit":10}`
			if r.bodies["POST /v1/search/"] != asked {
				t.Errorf("asked %s, want %s", r.bodies["POST /v1/search/"], asked)
			}
		})
	}
	t.Run("R1-058 an endpoint that is no URL is not passed on", func(t *testing.T) {
		e, _ := exchange(t, map[string]answer{"POST /v1/search/": {200, strings.ReplaceAll(`[`+entryOfFrontend+`]`, "https://f.example/\"", "file:///etc/passwd\"")}})
		if got, err := e.Discover(t.Context(), "", nil, 10); err != nil || len(got) != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for name, test := range map[string]struct {
		answer answer
		code   hub.Code
		text   string
	}{
		"of validation":   {answer{422, `{"detail":[{"loc":["body","query"],"msg":"field required","type":"missing"}]}`}, hub.CodeInvalid, "field required"},
		"in words":        {answer{400, `{"detail":"bad filter"}`}, hub.CodeInvalid, "bad filter"},
		"of the registry": {answer{503, `{"error":"DOWN","message":"try later"}`}, hub.CodeUnreachable, "try later"},
		"of rates":        {answer{429, `{}`}, hub.CodeRateLimited, "429"},
		"garbage":         {answer{200, "<html>"}, hub.CodeUnreachable, "is malformed"},
		"a bad list":      {answer{200, "[1,"}, hub.CodeUnreachable, "is malformed"},
		"not JSON":        {answer{500, "oops"}, hub.CodeUnreachable, "500"},
	} {
		t.Run("R1-058 an error "+name, func(t *testing.T) {
			e, _ := exchange(t, map[string]answer{"POST /v1/search/": test.answer})
			_, err := e.Search(t.Context(), peer.Search{Query: "x"})
			if hub.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v (%s), want %s with %q", err, hub.CodeOf(err), test.code, test.text)
			}
		})
	}
	t.Run("R1-058 no exchange is asked that was not configured", func(t *testing.T) {
		if _, err := peer.NewExchange(peer.NewClient(nil), ""); hub.CodeOf(err) != hub.CodeNotEnabled {
			t.Errorf("got %v", err)
		}
	})
}

func TestRegister(t *testing.T) {
	const ours = "GET /v1/agents/aid%3A%2F%2Fexample.com%2Fbackend%401.0.0"
	there := func(endpoint, aid string) string {
		return `{"aid":"` + aid + `","verified":true,"manifest":{"invocation":{"protocols":[{"type":"cacp","endpoint":"` + endpoint + `"}]}}}`
	}
	for _, test := range []struct {
		name    string
		answers map[string]answer
		want    federation.Registration
		code    hub.Code
	}{
		{"as the exchange does", map[string]answer{"POST /v1/register/": {201, `{"message":"ok","aid":"aid://example.com/backend@1.0.0","verified":false}`}},
			federation.Registration{AID: self.AID}, ""},
		{"as the registry does", map[string]answer{"POST /v1/register/": {201, `{"id":"1","status":"registered","verified":true}`}},
			federation.Registration{AID: self.AID, Verified: true}, ""},
		{"that did not succeed", map[string]answer{"POST /v1/register/": {200, `{"success":false,"message":"no"}`}}, federation.Registration{}, hub.CodeInvalid},
		{"that was there before", map[string]answer{"POST /v1/register/": {409, `{"detail":"exists"}`}, ours: {200, there("https://backend.example.com/", self.AID)}},
			federation.Registration{AID: self.AID, Verified: true, Existed: true}, ""},
		{"that somebody else has", map[string]answer{"POST /v1/register/": {409, `{}`}, ours: {200, there("https://evil.example", self.AID)}}, federation.Registration{}, hub.CodeConflict},
		{"about which it lies", map[string]answer{"POST /v1/register/": {409, `{}`}, ours: {200, there("https://backend.example.com/", "aid://evil.example/x@1.0.0")}}, federation.Registration{}, hub.CodeTampering},
		{"that is then gone", map[string]answer{"POST /v1/register/": {409, `{}`}}, federation.Registration{}, hub.CodeNotFound},
		{"that is refused", map[string]answer{"POST /v1/register/": {400, `{"detail":[{"loc":["manifest"],"msg":"bad"}]}`}}, federation.Registration{}, hub.CodeInvalid},
		{"with nonsense", map[string]answer{"POST /v1/register/": {200, `yes`}}, federation.Registration{}, hub.CodeUnreachable},
	} {
		t.Run("R1-059 registration "+test.name, func(t *testing.T) {
			e, r := exchange(t, test.answers)
			got, err := e.Register(t.Context(), manifest(t, false))
			if got != test.want || hub.CodeOf(err) != test.code {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, test.want, test.code)
			}
			var sent struct{ Manifest peer.Manifest }
			if err := json.Unmarshal([]byte(r.bodies["POST /v1/register/"]), &sent); err != nil || sent.Manifest.AID != self.AID {
				t.Errorf("sent %s", r.bodies["POST /v1/register/"])
			}
		})
	}
}

func TestCard(t *testing.T) {
	t.Run("R1-050 the card has the members of the document, and names the protocol that is spoken alone", func(t *testing.T) {
		got, err := json.Marshal(self.Card())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"name":"CACP Agent (backend-api)","description":"Coding agent for backend-api repository","version":"1.2.3","url":"https://backend.example.com/",` +
			`"protocols":{"cacp":"2.0"},"capabilities":["go","backend"],"extensions":{"cacp":{"repo":"backend-api","role":"backend","language":"go",` +
			`"agentId":"aid://example.com/backend@1.0.0","supportedContractTypes":["api_endpoint","event_schema","data_model"],"timestamps":"rfc3339","sync":"batch-digest/1"}}}`
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
	t.Run("a hub without a repository has a name", func(t *testing.T) {
		c := peer.Self{AID: "aid://vm.example/parley@1.0.0"}.Card()
		if c.Name != "CACP Agent (aid://vm.example/parley@1.0.0)" || c.Description != "Hub of coding agents" {
			t.Errorf("got %q, %q", c.Name, c.Description)
		}
	})
	t.Run("R1-067 the card states the version", func(t *testing.T) {
		if got := self.Card().Protocols["cacp"]; got != "2.0" {
			t.Errorf("got %q, want 2.0", got)
		}
	})
	for name, test := range map[string]struct {
		body string
		ok   bool
	}{
		"of the same version":       {`{"protocols":{"cacp":"2.0"}}`, true},
		"of a later minor version":  {`{"protocols":{"cacp":"2.7"}}`, true},
		"that gives a number":       {`{"protocols":{"cacp":2}}`, true},
		"with capabilities of A2A":  {`{"protocols":{"cacp":"2.0"},"capabilities":{"streaming":true}}`, true},
		"of a later major version":  {`{"protocols":{"cacp":"3.0"}}`, false},
		"of an older major version": {`{"protocols":{"cacp":"1.9"}}`, false},
		"that says none":            {`{"protocols":{"a2a":"0.3"}}`, false},
		"without protocols":         {`{"name":"x"}`, false},
		"that is a manifest":        {`{"aid":"aid://e.com/x@1.0.0","invocation":{}}`, false},
		"that is no JSON":           {`<html>`, false},
		"of another kind":           {`{"protocols":{"cacp":"2.0"},"extensions":{"cacp":{"repo":7}}}`, false},
	} {
		t.Run("R1-066 a card "+name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, test.body) }))
			defer s.Close()
			c := peer.NewClient(&peer.ClientOptions{Guard: loopback})
			defer c.Close()
			card, err := c.Card(t.Context(), s.URL)
			if err == nil {
				err = card.Compatible()
			}
			if (err == nil) != test.ok || !test.ok && hub.CodeOf(err) != hub.CodeUnreachable {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}
