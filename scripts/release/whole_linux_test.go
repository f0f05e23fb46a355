package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
)

// TestRelease builds two releases as make release-dry does, and uses them as people do: install.sh in
// a root with nothing but busybox, an upgrade and back there, the container, the deb, and npx. make test-real runs
// it.
func TestRelease(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("PARLEY_REAL is not set: make test-real sets it")
	}
	m := newMirror(t)
	own := filepath.Join(t.TempDir(), "parley")
	build := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "build", "-o", own, "./cmd/parley")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		r := &release{version: version, parley: own, out: m.folder(version), download: m.url}
		if err := r.build([]string{"linux/" + runtime.GOARCH}); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("a root with nothing but busybox", func(t *testing.T) { testCleanRoot(t, m) })
	t.Run("the container starts a hub", func(t *testing.T) { testContainer(t, m) })
	t.Run("the deb has the plugin", func(t *testing.T) {
		debs, err := filepath.Glob(filepath.Join(m.folder("v1.0.0"), "*.deb"))
		if err != nil || len(debs) != 1 {
			t.Fatalf("got %q, %v", debs, err)
		}
		out, err := exec.Command("dpkg-deb", "--contents", debs[0]).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"./usr/bin/parley", "./usr/share/parley/.claude-plugin/marketplace.json", "./usr/share/parley/plugin/.mcp.json", "./usr/share/parley/plugin/skills/parley/SKILL.md", "./usr/share/man/man1/parley-upgrade.1"} {
			if !strings.Contains(string(out), name) {
				t.Errorf("%s is not in\n%s", name, out)
			}
		}
	})
	t.Run("npx starts the demo", func(t *testing.T) {
		packages, err := filepath.Glob(filepath.Join(m.folder("v1.0.0"), "*.tgz"))
		if err != nil || len(packages) != 2 {
			t.Fatalf("got %q, %v", packages, err)
		}
		dir := t.TempDir()
		if out, code := runNPM(t, dir, "npm", append([]string{"install", "--no-audit", "--no-fund"}, packages...)...); code != 0 {
			t.Fatalf("npm install: exit %d: %s", code, out)
		}
		if out, code := runNPM(t, dir, "npx", "@parley-agents/parley", "demo"); code != 0 || !strings.Contains(out, "It is done, with proof.") {
			t.Errorf("demo: exit %d: %s", code, out)
		}
		if out, code := runNPM(t, dir, "npx", "@parley-agents/parley", "upgrade"); code != 3 || !strings.Contains(out, "npm install --global @parley-agents/parley@latest") {
			t.Errorf("upgrade: exit %d: %s", code, out)
		}
	})
}

// testCleanRoot installs, upgrades and removes the program in a root that has busybox alone.
func testCleanRoot(t *testing.T, m *mirror) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		acptest.Missing(t, "MISSING: busybox: run scripts/tool busybox busybox-static")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "proc", "dev", "tmp", "root"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(m.folder("v1.0.0"), "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(root, "bin", "busybox"), raw, 0o755), os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o666), os.WriteFile(filepath.Join(root, "root", "install.sh"), script, 0o644))
	if err != nil {
		t.Fatal(err)
	}

	// The mount of /proc, where a program finds its own path, ends with the command.
	inside := func(line string) (string, error) {
		t.Helper()
		cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t proc proc "$1/proc" && exec chroot "$1" /bin/busybox sh -c "$2"`, "sh", root, "/bin/busybox --install -s /bin; cd /root; "+line)
		cmd.Env = []string{"HOME=/root", "PATH=/bin:/usr/bin:/sbin:/usr/sbin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, c := range []struct {
		newest, line string
		parts        []string
	}{
		{"v1.0.0", "sh install.sh", []string{"installed /root/.local/bin/parley: parley v1.0.0", "not in your PATH"}},
		{"v1.1.0", ".local/bin/parley upgrade --check || echo newer", []string{"parley v1.1.0 is available; this is v1.0.0", "newer"}},
		{"v1.1.0", ".local/bin/parley upgrade", []string{"replaced parley v1.0.0 with v1.1.0: /root/.local/bin/parley"}},
		{"v1.1.0", ".local/bin/parley --version", []string{"parley v1.1.0\n"}},
		{"v1.1.0", ".local/bin/parley upgrade --back", []string{"restored the program from before"}},
		{"v1.1.0", ".local/bin/parley --version", []string{"parley v1.0.0\n"}},
		{"v1.1.0", "sh install.sh --uninstall; ls -A .local/bin | wc -l", []string{"removed /root/.local/bin/parley", "\n0\n"}},
	} {
		m.newest(c.newest)
		out, err := inside(c.line)
		if err != nil {
			t.Fatalf("%s: %v: %s", c.line, err, out)
		}
		for _, part := range c.parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %q is not in %s", c.line, part, out)
			}
		}
	}
}

// testContainer builds the container of an archive and starts the hub in it, as the container's user.
func testContainer(t *testing.T, m *mirror) {
	if _, err := exec.LookPath("buildah"); err != nil {
		acptest.Missing(t, "MISSING: buildah: run scripts/tool buildah buildah crun")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", m.archive("v1.0.0"), "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// Storage and isolation are those that need no other service.
	store := t.TempDir()
	buildah := func(args ...string) *exec.Cmd {
		cmd := exec.Command("buildah", append([]string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...)...)
		cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
		cmd.Dir = dir
		return cmd
	}
	for _, args := range [][]string{{"bud", "-f", "Containerfile", "-t", "parley", "."}, {"from", "--name", "hub", "localhost/parley"}} {
		if out, err := buildah(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { buildah("rm", "--all").Run() })

	hub := buildah("run", "hub", "--", "/parley", "serve", "--addr", "127.0.0.1:0")
	said, err := hub.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Start(); err != nil {
		t.Fatal(err)
	}
	defer hub.Wait()
	defer func() { buildah("run", "hub", "--", "/parley", "stop", "--as-operator").Run() }()
	for lines := bufio.NewScanner(said); lines.Scan(); {
		url, found := strings.CutPrefix(lines.Text(), "listening on ")
		if !found {
			continue
		}
		res, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if raw, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(raw), `"version":"v1.0.0"`) {
			t.Errorf("%v: %s", err, raw)
		}
		return
	}
	t.Error("the hub did not listen")
}
