package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestServe(t *testing.T) {
	t.Run("a hub says where it is and where its journal stands, leaves its address in its home, and takes it back", func(t *testing.T) {
		h := newHouse(t)
		urlFile := filepath.Join(h.home, "url")
		raw, err := os.ReadFile(urlFile)
		if err != nil || strings.TrimSpace(string(raw)) != h.url {
			t.Errorf("the home says %q (%v), want %q", raw, err, h.url)
		}
		if info, err := os.Stat(filepath.Join(h.home, "operator.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the operator's key: %v, mode %v", err, info.Mode())
		}
		h.stop()
		if !regexp.MustCompile(`^listening on http://127\.0\.0\.1:\d+\njournal head \d+ [0-9a-f]{64}$`).MatchString(h.hub.stderr.String()) || h.hub.stdout.String() != "" {
			t.Errorf("serve wrote %q and %q", h.hub.stderr, h.hub.stdout)
		}
		if _, err := os.Stat(urlFile); !os.IsNotExist(err) {
			t.Errorf("the address is still there: %v", err)
		}
	})
	t.Run("Ctrl-C ends a hub in order, also while somebody waits", func(t *testing.T) {
		h := newHouse(t)
		p := spawn(t, parley(t, h.env("builder"), "inbox", "--wait", "10m"))
		h.ok(h.as("planner", "send", "tester", "x"), nil)
		if code := h.hub.signal(t, syscall.SIGINT); code != 0 {
			t.Errorf("exit %d, want 0: %s", code, h.hub.stderr)
		}
		if code := p.wait(t); code != 5 {
			t.Errorf("a wait at a hub that went away: exit %d, want 5: %s", code, p.stderr)
		}
	})
	t.Run("a second hub on the same home is refused with the pid of the first", func(t *testing.T) {
		h := readersHouse(t)
		got := refused(t, do(t, parley(t, nil, "serve", "--home", h.home, "--addr", "127.0.0.1:0", "--json")), 4, "conflict")
		contains(t, got.Error.Message, fmt.Sprint(h.hub.cmd.Process.Pid))
		contains(t, got.Error.Message, h.home)
		contains(t, got.Error.Hint, "parley stop", "--home DIR", "--addr ")
		h.ok(h.as("planner", "inbox"), nil)
		raw, _ := os.ReadFile(filepath.Join(h.home, "url"))
		if strings.TrimSpace(string(raw)) != h.url {
			t.Errorf("the second hub changed the address to %q", raw)
		}
	})
	t.Run("a port that is taken is refused", func(t *testing.T) {
		h := readersHouse(t)
		got := refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", strings.TrimPrefix(h.url, "http://"), "--json")), 4, "conflict")
		contains(t, got.Error.Hint, "--addr")
	})
	t.Run("a hub that others could listen in on is refused", func(t *testing.T) {
		got := refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "0.0.0.0:0", "--json")), 3, "policy_violation")
		contains(t, got.Error.Hint, "--tls-cert", "--no-tls-because")
		refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "0.0.0.0:0", "--no-tls-because", "a lab", "--unsafe-limits", "--json")), 3, "policy_violation")
		refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "nowhere", "--json")), 2, "schema_invalid")
		refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--tls-cert", "x", "--json")), 2, "schema_invalid")
	})
	t.Run("a hub without limits says so, at its start and in every answer", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		contains(t, h.hub.stderr.String(), "--unsafe-limits")
		var receipt receiptShape
		for i := range 12 {
			h.ok(h.as("builder", "send", "planner", "the same again", "--json"), &receipt)
			if i == 0 {
				contains(t, strings.Join(receipt.Warnings, "\n"), "--unsafe-limits")
			}
		}
		contains(t, h.as("builder", "send", "planner", "in words").err, "note: ", "--unsafe-limits")
		h.ok(h.as("planner", "reply", receipt.ID, "enough", "--json"), &receipt)
		contains(t, strings.Join(receipt.Warnings, "\n"), "--unsafe-limits")
		h.ok(h.as("builder", "status", "update", "fine", "--json"), &receipt)
		contains(t, strings.Join(receipt.Warnings, "\n"), "--unsafe-limits")
	})
	t.Run("a hub without limits says so to readers too", func(t *testing.T) {
		h := newHouse(t, "--unsafe-limits")
		for _, command := range [][]string{{"inbox"}, {"log", "--whole"}} {
			var list listShape
			h.ok(h.as("planner", append(command, "--json")...), &list)
			contains(t, strings.Join(list.Warnings, "\n"), "--unsafe-limits")
		}
	})
	t.Run("the log has no secrets and no payloads, however much it says", func(t *testing.T) {
		const marker = "xyzzy-marker-4711"
		for _, format := range []string{"text", "json"} {
			h := newHouse(t, "--log-level", "debug", "--log-format", format)
			id := h.sent(h.as("planner", "send", "builder", marker, "--topic", marker, "--idempotency-key", marker, "--json"))
			h.ok(h.as("builder", "inbox"), nil)
			h.ok(h.as("builder", "reply", id, marker+" too"), nil)
			h.as("planner", "send", "builder", "--type", "knowledge.push", "--payload", `{"topic":"`+marker+`","nonsense":1}`)
			h.as("planner", "log", "--whole", "--text", marker)
			body := `{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["builder"],"from":"` + marker + `","text":"` + marker + `"}}`
			for path, key := range map[string]string{"/": h.keys["mallory"], "/mcp": h.keys["mallory"], "/" + marker: "cacp_sk_live_" + marker} {
				req, err := http.NewRequest(http.MethodPost, h.url+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			h.stop()
			log := h.hub.stderr.String()
			for _, secret := range append([]string{marker, "cacp_sk_live_"}, h.keys["planner"], h.keys["builder"], h.keys["mallory"]) {
				if strings.Contains(log, secret) {
					t.Errorf("%s log has %q:\n%s", format, secret, log)
				}
			}
			if format == "json" {
				for line := range strings.Lines(log) {
					if !strings.HasPrefix(line, "listening on ") && !strings.HasPrefix(line, "journal head ") && !json.Valid([]byte(line)) {
						t.Errorf("not JSON: %s", line)
					}
				}
			}
			contains(t, log, "stopping")
		}
	})
	t.Run("inboxes are rendered as files, unless that is off", func(t *testing.T) {
		h := newHouse(t, "--no-inbox-files")
		h.ok(h.as("planner", "send", "builder", "hello"), nil)
		h.stop()
		if found, _ := filepath.Glob(filepath.Join(h.home, "inbox", "*")); len(found) > 0 {
			t.Errorf("there are files: %v", found)
		}
	})
}

func TestConfig(t *testing.T) {
	level := func(t *testing.T, h *house) string {
		t.Helper()
		h.stop()
		log := h.hub.stderr.String()
		switch {
		case strings.Contains(log, `"msg":"stopping"`):
			return "json"
		case strings.Contains(log, `msg=stopping`):
			return "text"
		}
		return "silent"
	}
	serve := func(t *testing.T, home string, env []string, flags ...string) *house {
		t.Helper()
		h := &house{t: t, home: home, keys: map[string]string{}}
		h.hub = spawn(t, parley(t, env, append([]string{"serve", "--home", home}, flags...)...))
		h.url = strings.TrimPrefix(h.hub.stderr.await(t, "listening on "), "listening on ")
		return h
	}
	t.Run("flags go before the environment, and that before the file", func(t *testing.T) {
		home := t.TempDir()
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte("addr: 127.0.0.1:0\nlog_level: info\nlog_format: json\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := level(t, serve(t, home, nil)); got != "json" {
			t.Errorf("the file alone: %s, want json", got)
		}
		if got := level(t, serve(t, home, []string{"PARLEY_LOG_FORMAT=text"})); got != "text" {
			t.Errorf("the environment over the file: %s, want text", got)
		}
		if got := level(t, serve(t, home, []string{"PARLEY_LOG_FORMAT=text", "PARLEY_LOG_LEVEL=error"}, "--log-level", "info", "--log-format", "json")); got != "json" {
			t.Errorf("flags over both: %s, want json", got)
		}
		if got := level(t, serve(t, home, nil, "--log-level", "error")); got != "silent" {
			t.Errorf("a flag over the file: %s, want silent", got)
		}
	})
	t.Run("what is off above is off, though it is on below", func(t *testing.T) {
		home := t.TempDir()
		path := filepath.Join(home, "config.yaml")
		if err := os.WriteFile(path, []byte("addr: 127.0.0.1:0\nno_inbox_files: true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files := func(h *house) int {
			t.Helper()
			h.stop()
			found, _ := filepath.Glob(filepath.Join(home, "inbox", "*.md"))
			return len(found)
		}
		if n := files(serve(t, home, nil)); n != 0 {
			t.Errorf("%d inbox files though they are off", n)
		}
		h := serve(t, home, []string{"PARLEY_NO_INBOX_FILES=false"})
		h.awaitFile(filepath.Join(home, "inbox", "operator.md"))
		h.stop()
		os.RemoveAll(filepath.Join(home, "inbox"))
		h = serve(t, home, []string{"PARLEY_NO_INBOX_FILES=true"}, "--no-inbox-files=false")
		h.awaitFile(filepath.Join(home, "inbox", "operator.md"))
		h.stop()
	})
	t.Run("a 0 in the file is refused, not taken for the default", func(t *testing.T) {
		for _, member := range []string{"kept: 0", "limits: {recipients: 0}", "limits: {negotiation_rounds: 0}", "limits: {suspend_for: 0s}", "wakes: {per_hour: 0}", "runs: {keep: -1}"} {
			path := write(t, "hub.yaml", "addr: 127.0.0.1:0\n"+member+"\n")
			got := refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--config", path, "--json")), 2, "schema_invalid")
			contains(t, got.Error.Message, "line 2: must be ")
		}
	})
	t.Run("a file can be named, and must be there then", func(t *testing.T) {
		path := write(t, "hub.yaml", "addr: 127.0.0.1:0\nlog_level: info\n")
		if got := level(t, serve(t, t.TempDir(), nil, "--config", path)); got != "text" {
			t.Errorf("--config: %s, want text", got)
		}
		if got := level(t, serve(t, t.TempDir(), []string{"PARLEY_CONFIG=" + path})); got != "text" {
			t.Errorf("PARLEY_CONFIG: %s, want text", got)
		}
		refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--config", "/nonexistent", "--json")), 2, "schema_invalid")
	})
	t.Run("limits can be tightened", func(t *testing.T) {
		h := newHouse(t, "--config", write(t, "c.yaml", "limits:\n  direct_per_minute: 2\n  suspend_for: 1h\n"))
		h.ok(h.as("builder", "send", "planner", "one"), nil)
		h.ok(h.as("builder", "send", "planner", "two"), nil)
		refused(t, h.as("builder", "send", "planner", "three", "--json"), 3, "rate_limited")
	})
	for _, tt := range []struct{ name, yaml, message, hint string }{
		{"a member that does not exist", "adress: x\n", "line 1: unknown member adress", "addr,"},
		{"a limit that does not exist", "limits:\n  speed: 1\n", "unknown member speed", "direct_per_minute"},
		{"a member twice", "addr: a\naddr: b\n", "addr", ""},
		{"a member of the wrong kind", "limits:\n  repeats: many\n", "line 2", ""},
		{"a limit that is loosened", "limits:\n  direct_per_minute: 11\n", "limits.direct_per_minute must be between 1 and 10, got 11", "not loosened"},
		{"a span that is loosened", "limits:\n  suspend_for: 1s\n", "limits.suspend_for must be at least 5m0s, got 1s", "not loosened"},
		{"a negative limit", "limits:\n  repeats: -1\n", "line 2: must be at least 1, not -1", ""},
		{"a feature that is not built", "features: [negotiation]\n", "unknown member features", ""},
		{"a channel that is not built", "channels: [session]\n", "unknown member channels", ""},
		{"a member of the gateway that does not exist", "gateway:\n  adress: x\n", "unknown member adress", "token_file"},
		{"a gateway without an address", "gateway: {wake: true}\n", "gateway.url", "ws://127.0.0.1:18789"},
		{"a gateway without a token", "gateway: {url: 'ws://127.0.0.1:1', wake: true}\n", "a token is required", "token_file"},
		{"a token that is not there", "gateway: {url: 'ws://127.0.0.1:1', token_file: /nonexistent}\n", "gateway.token_file", ""},
		{"a token file that is empty", "gateway: {url: 'ws://127.0.0.1:1', token_file: /dev/null}\n", "is empty", ""},
		{"a durability that does not exist", "durability: eternal\n", "eternal", ""},
		{"a log level that does not exist", "log_level: loud\n", "loud", ""},
		{"a log format that does not exist", "log_format: xml\n", "xml", ""},
		{"not YAML", "\t:\n", "", ""},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			got := refused(t, do(t, parley(t, nil, "serve", "--home", t.TempDir(), "--addr", "127.0.0.1:0", "--config", write(t, "c.yaml", tt.yaml), "--json")), 2, "schema_invalid")
			contains(t, got.Error.Message, tt.message)
			contains(t, got.Error.Hint, tt.hint)
		})
	}
	t.Run("a bad switch in the environment is refused", func(t *testing.T) {
		got := refused(t, do(t, parley(t, []string{"PARLEY_LENIENT_FROM=maybe"}, "serve", "--home", t.TempDir(), "--json")), 2, "schema_invalid")
		contains(t, got.Error.Message, "PARLEY_LENIENT_FROM")
	})
}

// awaitFile waits for a file that the hub writes when it gets to it.
func (h *house) awaitFile(path string) {
	h.t.Helper()
	poll(h.t, "the file "+path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}
