//go:build unix

package guard_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/guard"
)

// asInstaller in the environment makes the test install the guard in the repository that it names.
const asInstaller = "GUARD_TEST_AS_INSTALLER"

// TestReadOnlyHooksFolder has a hooks folder that its user may not write. Root may write every
// folder, so that the test goes on as another user.
func TestReadOnlyHooksFolder(t *testing.T) {
	if dir := os.Getenv(asInstaller); dir != "" {
		h, err := guard.FindHook(t.Context(), dir, []string{"/parley"})
		if err != nil {
			t.Fatal(err)
		}
		changed, err := h.Install()
		fmt.Printf("code %s, changed %v: %v\n", hub.CodeOf(err), changed, err)
		return
	}

	const text = "#!/bin/sh\necho mine\n"
	r := newRepository(t)
	r.write(".git/hooks/pre-commit", text)
	for folder := r.dir; folder != os.TempDir() && folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(r.path(".git/hooks"), 0o555); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(r.dir, "test")
	raw, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(copied, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), copied, "-test.run=^TestReadOnlyHooksFolder$")
	cmd.Env = append(os.Environ(), asInstaller+"="+r.dir, "HOME="+r.dir)
	cmd.Dir = r.dir
	if os.Getuid() == 0 {
		const nobody = 65534
		r.git("config", "--global", "safe.directory", "*")
		if err := os.Chmod(os.Getenv("GIT_CONFIG_GLOBAL"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "code "+string(hub.CodeDenied)+", changed false") {
		t.Errorf("%v: %s", err, out)
	}
	if got := r.read(".git/hooks/pre-commit"); got != text {
		t.Errorf("the hook is now %q", got)
	}
}
