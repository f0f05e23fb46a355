package server_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/coordination"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/server"
)

// files returns the regular files under a folder of the hub's home.
func (r *running) files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(r.home, dir), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sample is a line of the Prometheus text format: name, labels, value.
var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*\})?) ([-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf|NaN))$`)

func TestDoors(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	o := quiet()
	o.Hosts = []string{"hub.example"}
	o.Version = "9.8.7"
	r := start(t, o)
	alice := r.add(t, "alice")[0]
	port := r.url[strings.LastIndex(r.url, ":"):]
	whoami := `{"jsonrpc":"2.0","id":1,"method":"parley/whoami"}`

	for _, tt := range []struct {
		host string
		ok   bool
	}{
		{"127.0.0.1" + port, true}, {"localhost" + port, true}, {"LOCALHOST", true}, {"[::1]" + port, true},
		{"hub.example" + port, true}, {"evil.example" + port, false}, {"127.0.0.1.evil.example", false}, {"localhost.evil.example" + port, false},
	} {
		t.Run(fmt.Sprintf("a request for the host %s is let in: %v", tt.host, tt.ok), func(t *testing.T) {
			a := r.do(t, "POST", "/", alice, strings.NewReader(whoami), func(req *http.Request) { req.Host = tt.host })
			if tt.ok {
				a.wantOK(t, nil)
				return
			}
			if a.status != http.StatusForbidden {
				t.Errorf("status: got %d, want 403", a.status)
			}
			a.wantReason(t, -32000, hub.CodeDenied)
		})
	}
	for _, tt := range []struct {
		origin string
		ok     bool
	}{
		{r.url, true}, {"https://evil.example", false}, {"null", false}, {"http://127.0.0.1:1", false}, {strings.Replace(r.url, "http", "https", 1), false},
	} {
		t.Run(fmt.Sprintf("a request from a page of %s is let in: %v", tt.origin, tt.ok), func(t *testing.T) {
			for _, path := range []string{"/", "/mcp", "/artifacts"} {
				a := r.do(t, "POST", path, alice, strings.NewReader(whoami), func(req *http.Request) { req.Header.Set("Origin", tt.origin) })
				if got := a.status != http.StatusForbidden; got != tt.ok {
					t.Errorf("%s: got status %d, want it let in: %v", path, a.status, tt.ok)
				}
			}
		})
	}
	t.Run("no answer ever invites pages of others", func(t *testing.T) {
		for _, d := range []struct{ method, path string }{
			{"OPTIONS", "/"}, {"POST", "/"}, {"OPTIONS", "/mcp"}, {"GET", "/mcp"}, {"GET", "/health"}, {"GET", "/metrics"}, {"GET", "/methods"},
			{"GET", "/schema/envelope"}, {"OPTIONS", "/artifacts"}, {"GET", "/events?after=x"}, {"GET", "/nothing"},
		} {
			for _, key := range []string{"", alice} {
				a := r.do(t, d.method, d.path, key, nil, func(req *http.Request) {
					if d.method == "OPTIONS" {
						req.Header.Set("Access-Control-Request-Method", "POST")
					}
				})
				for name := range a.header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s: got the header %s, want none", d.method, d.path, name)
					}
				}
			}
		}
	})
	t.Run("/health says that the hub works, to everybody", func(t *testing.T) {
		a := r.do(t, "GET", "/health", "", nil)
		var h struct {
			Status  string `json:"status"`
			Version string `json:"version"`
		}
		if err := json.Unmarshal(a.body, &h); err != nil || a.status != http.StatusOK || h.Status != "healthy" || h.Version != "9.8.7" {
			t.Errorf("health: got %d %s, want 200, healthy and the version", a.status, a.body)
		}
	})
	t.Run("/metrics is what Prometheus reads, and counts calls by method and code", func(t *testing.T) {
		r.call(t, alice, "parley/whoami", "{}")
		r.call(t, alice, "acp/send", "{}")
		a := r.do(t, "GET", "/metrics", "", nil)
		values := map[string]string{}
		for line := range strings.Lines(string(a.body)) {
			line = strings.TrimSuffix(line, "\n")
			m := sample.FindStringSubmatch(line)
			if m == nil && !strings.HasPrefix(line, "# HELP ") && !strings.HasPrefix(line, "# TYPE ") {
				t.Errorf("metrics: %q is neither a comment nor a sample", line)
			}
			if m != nil {
				values[m[1]] = m[2]
			}
		}
		for _, name := range []string{
			`parley_calls_total{code="",method="parley/whoami"}`, `parley_calls_total{code="schema_invalid",method="acp/send"}`,
			`parley_call_seconds_count{method="acp/send"}`, `parley_journal_entries`, `go_goroutines`,
		} {
			if v := values[name]; v == "" || v == "0" {
				t.Errorf("%s: got %q, want a count", name, v)
			}
		}
		if strings.Contains(string(a.body), "alice") {
			t.Error("metrics name an agent")
		}
	})
	t.Run("/methods lists every operation that can be called", func(t *testing.T) {
		var got struct {
			Operations []struct{ Method, Tool, Doc, Permission string }
		}
		if err := json.Unmarshal(r.do(t, "GET", "/methods", "", nil).body, &got); err != nil {
			t.Fatal(err)
		}
		all := append(api.Operations.Bind(nil), coordination.Operations.Bind(nil)...)
		all = slices.DeleteFunc(all, func(m *rpc.Method) bool { return m.Unlisted })
		if len(got.Operations) != len(all) {
			t.Fatalf("methods: got %d, want %d", len(got.Operations), len(all))
		}
		for i, o := range all {
			permission := cmp.Or(string(o.Permission), "anyone")
			if slices.Equal(o.Callers, rpc.OperatorOnly) {
				permission = "operator"
			}
			if m := got.Operations[i]; m.Method != o.Method || m.Tool != o.Tool || m.Doc == "" || m.Permission != permission {
				t.Errorf("method %d: got %+v, want %s for %s", i, m, o.Method, permission)
			}
		}
	})
	t.Run("/methods lists no operation of a feature that is off", func(t *testing.T) {
		listed := func(off ...hub.Feature) []string {
			o := quiet()
			o.Without = off
			var got struct{ Methods []string }
			if err := json.Unmarshal(start(t, o).do(t, "GET", "/methods", "", nil).body, &got); err != nil {
				t.Fatal(err)
			}
			return got.Methods
		}
		all := listed()
		for _, tt := range []struct {
			off  []hub.Feature
			gone []string
		}{
			{[]hub.Feature{hub.FeatureTeamspaces}, []string{"acp/subscribe", "acp/team", "parley/team/log", "parley/team/policy"}},
			{[]hub.Feature{hub.FeatureNegotiation}, nil},
			{[]hub.Feature{hub.FeatureNegotiation, hub.FeatureDisagreement}, []string{"parley/decide", "parley/deliberation/list"}},
			{hub.Features, []string{"acp/subscribe", "acp/team", "parley/decide", "parley/decision/list", "parley/deliberation/list", "parley/team/log", "parley/team/policy"}},
		} {
			rest := listed(tt.off...)
			gone := slices.DeleteFunc(slices.Clone(all), func(m string) bool { return slices.Contains(rest, m) })
			if !slices.Equal(gone, tt.gone) {
				t.Errorf("without %v: %v are not listed, want %v", tt.off, gone, tt.gone)
			}
		}
	})
	t.Run("/schema gives the published schemas", func(t *testing.T) {
		a := r.do(t, "GET", "/schema/envelope", "", nil)
		want, err := schema.Text("envelope")
		if err != nil || string(a.body) != string(want) || a.header.Get("Content-Type") != "application/schema+json" {
			t.Errorf("schema: got %d %s %.60s (%v)", a.status, a.header.Get("Content-Type"), a.body, err)
		}
		for _, path := range []string{"/schema/nothing", "/schema/../../etc/passwd", "/schema/%2e%2e%2fschema.go"} {
			if a := r.do(t, "GET", path, "", nil); a.status != http.StatusNotFound {
				t.Errorf("%s: got status %d, want 404", path, a.status)
			}
		}
	})
}

func TestArtifacts(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	r := start(t, quiet())
	keys := r.add(t, "alice", "bob")
	content := strings.Repeat("a large thing\n", 10_000)
	sum := sha256.Sum256([]byte(content))
	want := hex.EncodeToString(sum[:])
	put := func(t *testing.T, key, content string) server.Artifact {
		t.Helper()
		a := r.do(t, "POST", "/artifacts", key, strings.NewReader(content))
		var out server.Artifact
		if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK {
			t.Fatalf("put: got %d %s", a.status, a.body)
		}
		return out
	}
	get := func(key string) int { return r.do(t, "GET", "/artifacts/"+want, key, nil).status }
	t.Run("what is put can be fetched by its hash, by the agent that put it and by auditors", func(t *testing.T) {
		got := put(t, keys[0], content).Artifact
		if got.SHA256 != want || got.Type != "file" || got.SizeBytes == nil || *got.SizeBytes != int64(len(content)) || !filepath.IsAbs(got.Path) {
			t.Errorf("reference: got %+v, want hash, size and an absolute path", got)
		}
		if a := r.do(t, "GET", "/artifacts/"+got.SHA256, keys[0], nil); a.status != http.StatusOK || string(a.body) != content {
			t.Errorf("get: got status %d and %d bytes, want the content", a.status, len(a.body))
		}
		if got := get(r.operator); got != http.StatusOK {
			t.Errorf("the operator: got status %d, want 200", got)
		}
	})
	t.Run("to know the hash is not enough, nor to name it in a message", func(t *testing.T) {
		nowhere := r.do(t, "GET", "/artifacts/"+strings.Repeat("0", 64), keys[1], nil)
		foreign := r.do(t, "GET", "/artifacts/"+want, keys[1], nil)
		if foreign.status != http.StatusNotFound || strings.ReplaceAll(string(foreign.body), want, "") != strings.ReplaceAll(string(nowhere.body), strings.Repeat("0", 64), "") {
			t.Errorf("bob: got %d %s, want the answer for content that is not there: %s", foreign.status, foreign.body, nowhere.body)
		}
		carol := r.add(t, "carol")[0]
		must(rpc.Call(t.Context(), r.as(keys[1]), api.Send, api.SendParams{To: api.Recipients{"carol"}, Text: "mine",
			Context: json.RawMessage(object(t, hub.Context{Artifacts: []hub.ArtifactRef{{Type: "file", Path: "/x", SHA256: want}}}))}))(t)
		if bob, carol := get(keys[1]), get(carol); bob != http.StatusNotFound || carol != http.StatusNotFound {
			t.Errorf("after bob named it: got bob %d, carol %d, want 404", bob, carol)
		}
	})
	t.Run("the reference can be sent", func(t *testing.T) {
		ref := put(t, keys[0], content).Artifact
		must(rpc.Call(t.Context(), r.as(keys[0]), api.Send, api.SendParams{
			To: api.Recipients{"bob"}, Text: "see there", Context: json.RawMessage(object(t, hub.Context{Artifacts: []hub.ArtifactRef{ref}})),
		}))(t)
		if got := get(keys[1]); got != http.StatusOK {
			t.Errorf("bob, who got it: got status %d, want 200", got)
		}
	})
	t.Run("the same content is one file", func(t *testing.T) {
		put(t, keys[1], content)
		if got := r.files(t, "artifacts"); len(got) != 1 {
			t.Errorf("files: got %q, want one", got)
		}
	})
	t.Run("only the owner of the home can read the file", func(t *testing.T) {
		info, err := os.Stat(r.files(t, "artifacts")[0])
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("mode: got %v (%v), want nothing for others", info.Mode(), err)
		}
	})
	t.Run("R3-120 who put it is recorded", func(t *testing.T) {
		found := false
		for _, e := range r.journal(t, 0) {
			found = found || strings.HasPrefix(e, "alice|artifact.put|ok|")
		}
		if !found {
			t.Errorf("journal: got %q, want alice's artifact.put", r.journal(t, 0))
		}
	})
	for _, tt := range []struct {
		name, sum string
		status    int
		code      hub.Code
	}{
		{"a hash that nobody put", strings.Repeat("0", 64), http.StatusNotFound, hub.CodeNotFound},
		{"half a hash", want[:63], http.StatusBadRequest, hub.CodeInvalid},
		{"a hash in capitals", strings.ToUpper(want), http.StatusBadRequest, hub.CodeInvalid},
		{"a path", "..%2f..%2fhub.db", http.StatusBadRequest, hub.CodeInvalid},
	} {
		t.Run(tt.name+" gives nothing", func(t *testing.T) {
			a := r.do(t, "GET", "/artifacts/"+tt.sum, keys[0], nil)
			if a.status != tt.status {
				t.Errorf("status: got %d, want %d", a.status, tt.status)
			}
			a.wantReason(t, -32602, tt.code)
		})
	}
	t.Run("an upload that breaks off leaves nothing", func(t *testing.T) {
		before := len(r.files(t, "artifacts"))
		body, w := io.Pipe()
		req, _ := http.NewRequestWithContext(t.Context(), "POST", r.url+"/artifacts", body)
		req.Header.Set("Authorization", "Bearer "+keys[0])
		req.ContentLength = 1 << 20
		go func() {
			w.Write(make([]byte, 1000))
			w.CloseWithError(errors.New("the network is gone"))
		}()
		if res, err := r.http.Do(req); err == nil {
			res.Body.Close()
			t.Errorf("answer: got %d, want none", res.StatusCode)
		}
		r.stop() // what was under way has ended now
		if after := r.files(t, "artifacts"); len(after) != before {
			t.Errorf("files: got %q, want as before", after)
		}
	})
}
