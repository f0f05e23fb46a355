package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/server"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// An exchange is one request and the answer to it. Those of a folder follow
// each other.
type exchange struct {
	Rule     string            `json:"rule"`
	As       string            `json:"as"`             // whose key is sent; "" for none
	Get      string            `json:"get,omitempty"`  // a page
	Post     string            `json:"post,omitempty"` // a page; default /
	Request  json.RawMessage   `json:"request,omitempty"`
	Document json.RawMessage   `json:"document,omitempty"` // what the answer must have by the protocol's document
	Bind     map[string]string `json:"bind,omitempty"`     // names for members of the result, for requests that follow
	Answer   json.RawMessage   `json:"answer"`             // with ids, times and addresses replaced
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	times   = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`)
	nowhere = regexp.MustCompile(`"2026-01-02T[^"]*"`) // a time that a test has sent
	random  = regexp.MustCompile(`[0-9a-f]{12}-(logo\.svg|passwd)`)
	counts  = regexp.MustCompile(`"(lag|uptime_s|journal)":\d+`)
	passing = regexp.MustCompile(`,"(tries|failures|nextTry|fault|health|catchUp)":("(\\.|[^"\\])*"|\d+|true)`)
	cursors = regexp.MustCompile(`"next":"\d+ `)
)

// TestConversation holds a conversation with every example of the protocol's
// document in it, and compares each answer with what the document says and with
// what it was before.
func TestConversation(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	o := quiet()
	o.Version = "2.0.0"
	o.Coordination = server.Coordination{
		AID: "aid://example.com/backend@1.0.0", Repo: "backend-api", Role: "backend", Language: "python", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	r := start(t, o)
	keys := map[string]string{"": "", "operator": r.operator, "frontend": r.add(t, "frontend")[0]}
	keys["peer"] = ask[struct{ Key string }](t, r, "parley/peer/add", m{"agentId": "aid://peer.example/agent@1.0.0", "endpoint": "https://127.0.0.1:9", "repoName": "frontend-app"}).Key
	files, err := filepath.Glob(filepath.Join("testdata", "coordination", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversation: %v", err)
	}
	bound := map[string]string{}
	seen := map[string]string{}
	normal := func(raw []byte) []byte {
		raw = times.ReplaceAllFunc(raw, func(b []byte) []byte {
			if nowhere.Match(b) {
				return b
			}
			return []byte(`"<time>"`)
		})
		raw = uuids.ReplaceAllFunc(raw, func(id []byte) []byte {
			if seen[string(id)] == "" {
				seen[string(id)] = fmt.Sprintf("<id %d>", len(seen)+1)
			}
			return []byte(seen[string(id)])
		})
		raw = random.ReplaceAll(raw, []byte("<random>-$1"))
		raw = counts.ReplaceAll(raw, []byte(`"$1":0`))
		raw = passing.ReplaceAll(raw, nil)
		raw = cursors.ReplaceAll(raw, []byte(`"next":"<time> `))
		return bytes.ReplaceAll(raw, []byte(r.url), []byte("<url>"))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var x exchange
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		ok := t.Run(x.Rule, func(t *testing.T) {
			body := string(x.Request)
			for name, value := range bound {
				body = strings.ReplaceAll(body, "${"+name+"}", value)
			}
			method, path := http.MethodPost, x.Post
			if x.Get != "" {
				method, path = http.MethodGet, x.Get
			} else if path == "" {
				path = "/"
			}
			a := r.do(t, method, path, keys[x.As], strings.NewReader(body), func(req *http.Request) { req.Header.Set("Content-Type", "application/json") })
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
				t.Fatalf("got status %d and %s, want 200 and application/json: %s", a.status, a.header.Get("Content-Type"), a.body)
			}
			if x.Document != nil {
				contains(t, "answer", decoded(t, a.body), decoded(t, x.Document))
			}
			for name, member := range x.Bind {
				var result map[string]any
				if err := json.Unmarshal(a.Result, &result); err != nil {
					t.Fatal(err)
				}
				bound[name], _ = result[member].(string)
			}
			got := normal(a.body)
			if *update {
				x.Answer = got
				var out bytes.Buffer
				enc := json.NewEncoder(&out)
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				if err := enc.Encode(x); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !reflect.DeepEqual(decoded(t, got), decoded(t, x.Answer)) {
				t.Errorf("%s has changed; read it and run with -update\ngot:  %s\nwant: %s", file, got, x.Answer)
			}
		})
		if !ok {
			return // what follows builds on it
		}
	}
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// contains fails unless got has every member of want with the same value.
func contains(t *testing.T, path string, got, want any) {
	t.Helper()
	members, ok := want.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
		return
	}
	have, ok := got.(map[string]any)
	if !ok {
		t.Errorf("%s: got %v, want an object", path, got)
		return
	}
	for name, w := range members {
		g, ok := have[name]
		if !ok {
			t.Errorf("%s: there is no %s", path, name)
			continue
		}
		contains(t, path+"."+name, g, w)
	}
}

func TestMethodsPage(t *testing.T) {
	t.Parallel()
	r := start(t, quiet())
	t.Run("R1-052 /methods lists exactly what can be called", func(t *testing.T) {
		var got struct{ Methods []string }
		if err := json.Unmarshal(r.do(t, "GET", "/methods", "", nil).body, &got); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range slices.Concat(api.Operations.Bind(nil), coordination.Operations.Bind(nil)) {
			all = append(all, m.Method)
		}
		for _, name := range got.Methods {
			if !slices.Contains(all, name) {
				t.Errorf("%s is listed and is in no table", name)
			}
		}
		for _, name := range all {
			listed := slices.Contains(got.Methods, name)
			if name == api.StopHub.Method && listed { // it works: TestScripts stops a hub
				continue
			}
			a := r.call(t, r.operator, name, `{}`)
			if callable := a.Error == nil || a.Error.Code != -32601 && !strings.Contains(a.Error.Message, "later phase"); callable != listed {
				t.Errorf("%s: listed %v, callable %v: %s", name, listed, callable, a.body)
			}
		}
		if a := r.call(t, r.operator, "cacp/no/such", `{}`); a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("cacp/no/such: got %s, want -32601", a.body)
		}
	})
}
