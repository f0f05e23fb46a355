package contractfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/operation/coordination"
)

// folder returns a folder with files, which the test closes.
func folder(t *testing.T, files map[string]string) (*Folder, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Read(dir)
	if err == nil {
		t.Cleanup(func() { f.Close() })
	}
	return f, err
}

func TestBadFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		code hub.Code
		says string
	}{
		"a member that is not known":  {"provids:\n  - {name: User, file: u.json}\n", hub.CodeInvalid, "provids"},
		"a contract without a name":   {"provides:\n  - {file: u.json}\n", hub.CodeInvalid, "has no name"},
		"a provided one without file": {"provides:\n  - {name: User}\n", hub.CodeInvalid, "User has no file"},
		"one contract twice":          {"provides:\n  - {name: User, file: u.json}\nuses:\n  - {name: User}\n", hub.CodeInvalid, "there twice"},
		"a file above the folder":     {"provides:\n  - {name: User, file: ../u.json}\n", hub.CodeInvalid, "not in this folder"},
		"an absolute file":            {"uses:\n  - {name: User, file: /etc/passwd}\n", hub.CodeInvalid, "not in this folder"},
		"a format that is not known":  {"provides:\n  - {name: User, file: u.json, format: xml}\n", hub.CodeInvalid, `unknown format "xml"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := folder(t, map[string]string{Name: c.text})
			if hub.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.says)
			}
		})
	}
	if _, err := Read(t.TempDir()); hub.CodeOf(err) != hub.CodeNotFound {
		t.Errorf("a folder without the file: got %v", err)
	}
	_, err := folder(t, map[string]string{Name: "uses: []\n", LockName: "{"})
	if hub.CodeOf(err) != hub.CodeInvalid || !strings.Contains(err.Error(), LockName) {
		t.Errorf("a broken lock file: got %v", err)
	}
}

// TestStates has a row for each way in which a file and the hub can differ. The lock file decides which
// side changed.
func TestStates(t *testing.T) {
	const one, two, three = `{"a":1}`, `{"a":2}`, `{"a":3}`
	type remote struct {
		content   string // of the newest version; "" if the hub has no such contract
		agreed    string // content of the version in force; "" if none is
		withdrawn bool
	}
	for _, c := range []struct {
		name   string
		remote remote
		local  string // "" for no file
		lock   string // content that the lock file has; "" without an entry
		used   bool   // by the repository, else provided
		want   Word
	}{
		{"the hub has no such contract", remote{}, one, "", false, New},
		{"the contract was withdrawn", remote{content: one, withdrawn: true}, one, one, false, Ended},
		{"both are equal", remote{content: one, agreed: one}, one, "", false, Same},
		{"there is no file yet", remote{content: one, agreed: one}, "", "", true, Behind},
		{"nothing is agreed yet, and there is no file", remote{content: one}, "", "", true, Same},
		{"the file was changed since the lock", remote{content: one, agreed: one}, two, one, false, Ahead},
		{"the hub has moved on since the lock", remote{content: two, agreed: two}, one, one, false, Behind},
		{"both have changed", remote{content: two, agreed: two}, three, one, false, Conflict},
		{"they differ, and no lock says which side changed", remote{content: two, agreed: two}, one, "", false, Conflict},
		{"a consumer compares with what is in force, not with a proposal", remote{content: two, agreed: one}, one, one, true, Same},
		{"a provider compares with its newest proposal", remote{content: two, agreed: one}, two, "", false, Same},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &Folder{}
			e := Entry{State: State{Name: "User", File: "user.json"}}
			if c.used {
				e.used = &Used{Name: "User"}
				e.declared = true
			} else {
				e.provided = &Provided{Name: "User", File: "user.json"}
			}
			if c.local != "" {
				e.local = json.RawMessage(c.local)
			}
			if c.lock != "" {
				f.setLocked(Locked{Name: "User", Version: 1, Digest: coord.ContentHash(json.RawMessage(c.lock))})
			}
			if c.remote.content != "" {
				e.onHub = true
				e.remote = remoteOf(c.remote.content, c.remote.agreed)
				if c.remote.withdrawn {
					e.remote.Terms.Ends = []coord.Ending{{Withdrawn: true}}
				}
			}
			if got := f.stateOf(e); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// remoteOf returns a contract whose newest version is 2 if its agreed content differs, else 1.
func remoteOf(content, agreed string) coordination.Contract {
	var c coordination.Contract
	c.Name = "User"
	c.Content = json.RawMessage(content)
	c.Version = 1
	if agreed == "" {
		c.Status = coord.ContractProposed
		return c
	}
	c.Status = coord.ContractAgreed
	inForce := 1
	if agreed != content {
		c.Version = 2
		c.Status = coord.ContractProposed
		c.History = []coord.ContractVersion{{Version: 1, Content: json.RawMessage(agreed)}}
	}
	c.Shown.InForce = &coord.InForce{Version: inForce}
	return c
}

func TestDrift(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"nothing":                      {`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2}]}`, nil},
		"a value":                      {`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":3}]}`, []string{"/a/1/b"}},
		"a member that is gone":        {`{"a":1,"b":2}`, `{"a":1}`, []string{"/b"}},
		"a member that is null now":    {`{"a":1}`, `{"a":null}`, []string{"/a"}},
		"null and absent differ":       {`{"a":null}`, `{}`, []string{"/a"}},
		"lists of other lengths":       {`{"a":[1]}`, `{"a":[1,2]}`, []string{"/a"}},
		"another kind":                 {`{"a":{}}`, `{"a":[]}`, []string{"/a"}},
		"names with signs of pointers": {`{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, []string{"/a~1b/~0"}},
	} {
		if got := drift("", decoded(json.RawMessage(c.old)), decoded(json.RawMessage(c.new)), nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}

	many := map[string]any{}
	for i := range 3 * maxDrift {
		many[fmt.Sprint(i)] = i
	}
	if got := drift("", map[string]any{}, many, nil); len(got) != maxDrift {
		t.Errorf("%d pointers of a large difference, want %d", len(got), maxDrift)
	}
}

// TestFilesStayInTheFolder holds that a link does not lead a pull out of the folder.
func TestFilesStayInTheFolder(t *testing.T) {
	f, err := folder(t, map[string]string{Name: "uses:\n  - {name: User, file: out/user.json}\n"})
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(f.root.Name(), "out")); err != nil {
		t.Fatal(err)
	}
	if err := f.write("out/user.json", json.RawMessage(`{"a":1}`)); err == nil {
		t.Error("a file was written through a link")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside of the folder: %v, %v", left, err)
	}
}

// TestWhatIsWrittenIsReadAgain writes a content in each form and reads the same content.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	f, err := folder(t, map[string]string{Name: "uses: []\n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file    string
		format  compat.Format
		content string
	}{
		{"a.json", compat.FormatJSONSchema, `{"type":"object","maximum":9007199254740993}`},
		{"deep/b.yaml", compat.FormatJSONSchema, `{"properties":{"no":{"type":"string"}},"type":"object"}`},
		{"c.proto", compat.FormatCustom, `{"text":"message User {}\n"}`},
	} {
		if err := f.write(c.file, json.RawMessage(c.content)); err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		got, _, err := f.content(c.file, c.format, "")
		if err != nil || coord.ContentHash(got) != coord.ContentHash(json.RawMessage(c.content)) {
			t.Errorf("%s: got %s, %v, want %s", c.file, got, err, c.content)
		}
	}
}

// TestLockForgets holds that a lock file has only the contracts that the folder names.
func TestLockForgets(t *testing.T) {
	f, err := folder(t, map[string]string{
		Name: "uses:\n  - {name: User}\n", LockName: `{"contracts":[{"name":"Old","version":3,"digest":"x"},{"name":"User","version":1,"digest":"y"}]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.writeLock(); err != nil {
		t.Fatal(err)
	}
	again, err := Read(f.root.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if len(again.Lock.Contracts) != 1 || again.Lock.Contracts[0].Name != "User" {
		t.Errorf("got %v", again.Lock.Contracts)
	}
}
