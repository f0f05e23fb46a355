package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestLaunchByAnotherUser launches the one CLI that takes the hub's entries from a
// file of the user, as a user other than root.
func TestLaunchByAnotherUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "parley-user") // not t.TempDir, which only its owner can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	cli := "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 1.0.0\nprintf 'arg %s\\n' \"$@\"\n"
	for name, content := range map[string][]byte{"parley": program, "gemini": []byte(cli)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("addr: 127.0.0.1:0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	root := os.Getuid() == 0
	if root {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(dir, "parley"), append(args[:len(args):len(args)], "--config", filepath.Join(dir, "config.yaml"))...)
		cmd.Env = []string{asParley + "=1", "PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "GORACE=atexit_sleep_ms=0"}
		cmd.Dir = dir
		if root {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd
	}
	t.Cleanup(func() {
		if r := do(t, command("stop", "--as-operator")); r.code != 0 {
			t.Errorf("the hub was not stopped: exit %d: %s", r.code, r.err)
		}
	})
	settings := filepath.Join(dir, ".gemini", "settings.json")

	t.Run("without a person the file is named and nothing is written", func(t *testing.T) {
		r := do(t, command("gemini"))
		if r.code != exitRefused {
			t.Errorf("exit %d, want %d", r.code, exitRefused)
		}
		contains(t, r.err, settings, "parley connect gemini --agent gemini --wake")
		if _, err := os.Stat(settings); err == nil {
			t.Error("the file was written")
		}
	})
	t.Run("a person is asked once, and --undo takes the entries out", func(t *testing.T) {
		s := sit(t, command("gemini", "--", "-p", "hello"))
		s.types(t, settings, "y\n")
		s.types(t, "May the hub read the files", "n\n")
		if code, screen := s.leaves(t); code != 0 || !strings.Contains(screen, "arg hello") {
			t.Fatalf("exit %d: %s", code, screen)
		}
		written, err := os.ReadFile(settings)
		if err != nil || !strings.Contains(string(written), `"parley"`) || !strings.Contains(string(written), "BeforeAgent") {
			t.Errorf("got %s (%v)", written, err)
		}
		r := do(t, command("gemini", "--", "again"))
		if contains(t, r.out, "arg again"); r.code != 0 {
			t.Errorf("the second time: exit %d: %s", r.code, r.err)
		}
		refused(t, do(t, command("gemini", "--as", "other", "--json")), exitMissing, "conflict")
		r = do(t, command("gemini", "--undo", "--as-operator"))
		contains(t, r.out+r.err, "the entries in files of Gemini CLI are removed")
		if left, err := os.ReadFile(settings); err == nil && strings.Contains(string(left), "parley") {
			t.Errorf("left: %s", left)
		}
	})
}
