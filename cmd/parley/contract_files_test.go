package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/contractfile"
)

// TestContractFiles lets a provider and a consumer keep one contract as files in their folders.
func TestContractFiles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--aid", "aid://team.example/hub@1.0.0", "--unsafe-limits")
	var made struct{ ProjectID string }
	h.ok(h.operator("project", "create", "Users", "--objective", "one user", "--repo", "api:backend:go", "--repo", "web:frontend:ts", "--json"), &made)
	for name, agent := range map[string]string{"api": "builder", "web": "tester"} {
		h.keys[name] = h.keys[agent]
		h.ok(h.as(name, "project", "join", "--repo", name), nil)
	}
	api := t.TempDir()
	web := t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(dir, name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	states := func(who, dir string, code int, want ...contractfile.Word) contractfile.States {
		t.Helper()
		var got contractfile.States
		r := h.as(who, "contract", "status", dir, "--json")
		if r.code != code {
			t.Errorf("got exit code %d, want %d: %s%s", r.code, code, r.out, r.err)
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%v in %s", err, r.out)
		}
		for i, w := range want {
			if i >= len(got.Files) || got.Files[i].State != w {
				t.Errorf("got %+v, want %v", got.Files, want)
				break
			}
		}
		return got
	}
	write(api, contractfile.Name, "project: "+made.ProjectID+"\nrepository: api\nprovides:\n  - {name: User, file: user.json, direction: response}\n")
	write(api, "user.json", userOne)
	write(web, contractfile.Name, "project: "+made.ProjectID+"\nuses:\n  - {name: User, parts: [User.avatar], file: vendor/user.yaml}\n")

	t.Run("a new file is proposed, and its use declared", func(t *testing.T) {
		states("api", api, exitCheck, contractfile.New)
		refused(t, h.as("web", "contract", "push", web, "--json"), exitMissing, string(hub.CodeNotFound))
		h.says(h.as("api", "contract", "push", api), "User: contract", "version 1 is proposed")
		h.says(h.as("web", "contract", "respond", "User", "agree"), "version 1 is agreed")
		h.says(h.as("web", "contract", "push", web), "web uses User: User.avatar")
		states("api", api, exitDone, contractfile.Same)
		states("web", web, exitCheck, contractfile.Behind)
	})
	t.Run("the agreed version is written, with a lock file", func(t *testing.T) {
		h.says(h.as("web", "contract", "pull", web), "wrote vendor/user.yaml")
		contains(t, read(web, "vendor/user.yaml"), "title: User\n")
		contains(t, read(web, contractfile.LockName), `"version": 1`)
		states("web", web, exitDone, contractfile.Same)
	})
	t.Run("a change shows its verdict, and waits for the consumer", func(t *testing.T) {
		write(api, "user.json", userThree)
		got := states("api", api, exitCheck, contractfile.Ahead)
		if len(got.Files) != 1 || got.Files[0].Verdict != "breaking" || !strings.Contains(strings.Join(got.Files[0].Drift, " "), "/properties/avatar") {
			t.Errorf("got %+v", got)
		}
		r := h.as("api", "contract", "push", api)
		contains(t, r.err, "for web: breaking")
		h.says(r, "version 2 is proposed", "still to agree: web")
		states("api", api, exitDone, contractfile.Same)
		states("web", web, exitDone, contractfile.Same) // version 1 is in force
		h.says(h.as("web", "contract", "respond", "User", "agree"), "version 2 is agreed")
		states("web", web, exitCheck, contractfile.Behind)
	})
	t.Run("a file that both changed is a conflict, and is left alone", func(t *testing.T) {
		write(web, "vendor/user.yaml", "title: Mine\ntype: object\n")
		states("web", web, exitCheck, contractfile.Conflict)
		refused(t, h.as("web", "contract", "pull", web, "--json"), exitMissing, string(hub.CodeConflict))
		contains(t, read(web, "vendor/user.yaml"), "title: Mine")
		h.says(h.as("web", "contract", "pull", web, "--force"), "wrote vendor/user.yaml")
		states("web", web, exitDone, contractfile.Same)
	})
	t.Run("a provider without the newest version cannot push", func(t *testing.T) {
		h.says(h.as("api", "contract", "update", "User", "--content", userTwo), "version 3 is")
		write(api, "user.json", userOne)
		states("api", api, exitCheck, contractfile.Conflict)
		refused(t, h.as("api", "contract", "push", api, "--json"), exitMissing, string(hub.CodeConflict))
	})
	t.Run("a file that cannot be read is an error with its line", func(t *testing.T) {
		write(api, "user.json", "{\n\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n\"type\": \"objekt\"}")
		r := h.as("api", "contract", "status", api)
		contains(t, r.err, "user.json: line 3: /type: not a valid schema")
		write(api, contractfile.Name, "provides:\n  - {name: User, file: ../user.json}\n")
		contains(t, h.as("api", "contract", "status", api).err, "is not in this folder")
		write(api, contractfile.Name, "provide: []\n")
		contains(t, h.as("api", "contract", "status", api).err, "line 1")
	})
}
