package comply_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/comply"
)

func TestPrepare(t *testing.T) {
	// The agent answers one request with what it finds in its home.
	script := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte(`read -r line
text=$(cat "$HOME/.my/conf.json" "$HOME/plain.txt" | tr -d '\n' | sed 's/"/\\"/g')
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
printf '{"jsonrpc":"2.0","id":%s,"result":{"text":"%s","arg":"%s","env":"%s"}}\n' "$id" "$text" "$1" "$WHERE"
cat > /dev/null
`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]any{"agent_servers": map[string]any{"mine": map[string]any{
		"command": "sh", "args": []string{script, "${modelURL}/v1"}, "env": map[string]string{"WHERE": "${home}/.my"},
		"files": map[string]any{".my/conf.json": map[string]any{"url": "${modelURL}"}, "plain.txt": "at ${modelURL} ${other}"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	agents, err := comply.ParseAgents("agents.json", file)
	if err != nil {
		t.Fatal(err)
	}
	const url = "http://127.0.0.1:1"
	t.Run("places are filled in arguments, variables and files, which are in the home folder", func(t *testing.T) {
		text := `{` + head + `, "init": {"manual": true}, "steps": [
			{"send": {"jsonrpc": "2.0", "id": 1, "method": "x"}},
			{"expect": {"messages": [{"response": {"id": 1, "result": {"text": "^{\"url\":\"http://127.0.0.1:1\"}at http://127.0.0.1:1 \\$\\{other\\}$", "arg": "^http://127.0.0.1:1/v1$", "env": "/home/\\.my$"}}}]}}
		]}`
		if got := playWith(t, agents[0], text, &comply.Options{Startup: 2 * time.Second, ModelURL: url}); got.Status != comply.Pass {
			t.Errorf("got %s: %+v", got.Status, got.Findings)
		}
	})
	tests := suite(t, map[string]string{"case": steps()})
	for name, opts := range map[string]*comply.Options{
		"needs the scripted model": {},
		"a real home folder":       {ModelURL: url, Home: t.TempDir()},
	} {
		t.Run("an agent that needs the model or files is not run where it gets neither: "+name, func(t *testing.T) {
			if _, err := comply.Run(t.Context(), agents, tests, opts); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("files cannot be outside of the home folder", func(t *testing.T) {
		_, err := comply.ParseAgents("agents.json", []byte("{\"agent_servers\": {\"x\": {\"command\": \"sh\",\n\"files\": {\"../x\": \"\"}}}}"))
		if err == nil || !strings.Contains(err.Error(), "agents.json:2") {
			t.Errorf("got %v", err)
		}
	})
}

func TestKnownAgents(t *testing.T) {
	dir := t.TempDir()
	known, err := comply.KnownAgents(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known {
		if k.Title == "" || k.Version == "" || k.Licence == "" || k.Command == "" || k.Root != filepath.Join(dir, k.Name) {
			t.Errorf("%s is not complete: %+v", k.Name, k)
		}
		if k.UsesModel() != (k.API != "") {
			t.Errorf("%s: it has the API %q, and uses a model: %v", k.Name, k.API, k.UsesModel())
		}
		if k.Installed() {
			t.Errorf("%s is not installed", k.Name)
		}
		pins := "package-lock.json"
		if k.Name == "go-sdk-example" {
			pins = "module"
		}
		text, err := os.ReadFile(filepath.Join("agents", k.Name, pins))
		name, version, _ := strings.Cut(k.Version, " ")
		if err != nil || !strings.Contains(string(text), name) || !strings.Contains(string(text), version) {
			t.Errorf("%s: version %s is not pinned: %v", k.Name, k.Version, err)
		}
		if err := os.Mkdir(k.Root, 0o700); err != nil || !k.Installed() {
			t.Errorf("%s is installed: %v", k.Name, err)
		}
	}
	if len(known) < 8 {
		t.Errorf("got %d agents", len(known))
	}
}
