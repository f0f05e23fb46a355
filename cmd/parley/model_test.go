package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestModel(t *testing.T) {
	t.Run("it says where it listens, follows its script and ends in order", func(t *testing.T) {
		script := write(t, "script.json", `{"otherwise": [{"do": "say", "text": "as scripted"}]}`)
		p := spawn(t, parley(t, nil, "model", "--script", script))
		url := strings.TrimSpace(strings.TrimPrefix(p.stderr.await(t, "listening on "), "listening on "))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"messages": [{"role": "user", "content": "hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text := make([]byte, 4096)
		n, _ := resp.Body.Read(text)
		contains(t, string(text[:n]), `"content":"as scripted"`)
		if code := p.signal(t, syscall.SIGTERM); code != exitDone {
			t.Errorf("exit %d: %s", code, p.stderr)
		}
	})
	for name, args := range map[string][]string{
		"an address that others can reach": {"model", "--addr", "0.0.0.0:0"},
		"a missing script":                 {"model", "--script", "/nonexistent/script.json"},
		"a broken script":                  {"model", "--script", write(t, "script.json", `{"rules": 1}`)},
		"an argument":                      {"model", "x"},
	} {
		t.Run(name+" is exit 2", func(t *testing.T) {
			if r := do(t, parley(t, nil, args...)); r.code != exitUsage || r.out != "" || r.err == "" {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
}

func TestComplyWithModel(t *testing.T) {
	// The agent answers its first request with the address that it was given.
	agent := write(t, "agent.sh", `while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case "$line" in
	*initialize*) more='"protocolVersion":1,' ;;
	*session/new*) more='"sessionId":"s",' ;;
	*session/prompt*) more='"stopReason":"end_turn",' ;;
	*) more= ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":{%s"_meta":{"url":"%s"}}}\n' "$id" "$more" "$URL"
done
`)
	tests := filepath.Dir(write(t, "url.jsont", `{"title": "t", "description": "d", "severity": "required", "init": {"manual": true}, "steps": [
		{"send": {"jsonrpc": "2.0", "id": 1, "method": "x"}},
		{"expect": {"messages": [{"response": {"id": 1, "result": {"_meta": {"url": "^http://127\\.0\\.0\\.1:[0-9]+/v1$"}}}}]}}
	]}`))
	t.Run("an agent gets the address of the model", func(t *testing.T) {
		r := do(t, parley(t, nil, "comply", "--with-model", "--tests", tests, "--env", "URL=${modelURL}/v1", "--", "sh", agent))
		if r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("a model that an agent asks for is there", func(t *testing.T) {
		file := write(t, "agents.json", `{"agent_servers": {"a": {"command": "sh", "args": ["`+agent+`"], "env": {"URL": "${modelURL}/v1"}, "files": {"x": "y"}}}}`)
		if r := do(t, parley(t, nil, "comply", "--agents", file, "--tests", tests)); r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		if r := do(t, parley(t, nil, "comply", "--agents", file, "--tests", tests, "--real-home")); r.code != exitUsage {
			t.Errorf("files for a real home: exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("agents that are known are listed, and used when they are installed", func(t *testing.T) {
		home := t.TempDir()
		if err := os.MkdirAll(filepath.Join(home, "agents", "go-sdk-example"), 0o700); err != nil {
			t.Fatal(err)
		}
		r := do(t, parley(t, nil, "comply", "--list-agents", "--home", home))
		if r.code != exitDone {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		contains(t, r.out, "go-sdk-example     installed      github.com/coder/acp-go-sdk v0.13.0\n", "qwen-code          not installed  @qwen-code/qwen-code 0.24.4\n")
		var list struct {
			Agents []struct {
				Name, Title, Version, Licence, API string
				Installed                          bool
			}
		}
		if strict(t, do(t, parley(t, nil, "comply", "--list-agents", "--home", home, "--json")).out, &list); len(list.Agents) < 8 {
			t.Errorf("got %+v", list)
		}
		r = do(t, parley(t, nil, "comply", "--agent", "qwen-code", "--home", home))
		if r.code != exitUsage {
			t.Errorf("exit %d: %s", r.code, r.out)
		}
		contains(t, r.err, "qwen-code is not installed in "+filepath.Join(home, "agents", "qwen-code"), "scripts/agents qwen-code")
		program := filepath.Join(home, "agents", "go-sdk-example", "agent")
		if err := os.WriteFile(program, []byte("#!/bin/sh\nURL=http://127.0.0.1:1/v1 exec sh "+agent+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if r := do(t, parley(t, nil, "comply", "--agent", "go-sdk-example", "--home", home, "--tests", tests)); r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	for name, args := range map[string][]string{
		"an agent that is not known": {"comply", "--agent", "nobody"},
		"a missing script":           {"comply", "--model-script", "/nonexistent/script.json", "--", "sh"},
	} {
		t.Run(name+" is exit 2", func(t *testing.T) {
			if r := do(t, parley(t, nil, args...)); r.code != exitUsage || r.out != "" || r.err == "" {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
}
