package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// A mirror is a folder with releases that a server offers, and the programs that were made for it.
type mirror struct {
	t        *testing.T
	dir, url string
}

func newMirror(t *testing.T, versions ...string) *mirror {
	t.Helper()
	m := &mirror{t: t, dir: t.TempDir()}
	server := httptest.NewServer(http.FileServer(http.Dir(m.dir)))
	t.Cleanup(server.Close)
	m.url = server.URL
	for _, v := range versions {
		m.add(v)
	}
	return m
}

// folder returns the folder of a release.
func (m *mirror) folder(version string) string { return filepath.Join(m.dir, "download", version) }

// archive returns the file name of the archive of a release.
func (m *mirror) archive(version string) string {
	return fmt.Sprintf("parley_%s_%s_%s.tar.gz", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)
}

// add adds a release and makes it the newest.
func (m *mirror) add(version string) {
	m.t.Helper()
	if err := os.MkdirAll(m.folder(version), 0o755); err != nil {
		m.t.Fatal(err)
	}
	program := m.program(filepath.Join(m.dir, "build", version))
	defer os.Remove(program)
	stampFile(m.t, program, version)
	sum := packProgram(m.t, program, filepath.Join(m.folder(version), m.archive(version)))
	m.write(version, "checksums.txt", fmt.Sprintf("%s  %s\n", sum, m.archive(version)))
	m.newest(version)
}

// newest makes a release the newest.
func (m *mirror) newest(version string) {
	m.t.Helper()
	link := filepath.Join(m.dir, "latest", "download")
	if err := errors.Join(os.RemoveAll(link), os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(m.folder(version), link)); err != nil {
		m.t.Fatal(err)
	}
}

// write writes a file of a release.
func (m *mirror) write(version, name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.folder(version), name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// program copies the test binary to a folder, as parley.
func (m *mirror) program(dir string) string {
	m.t.Helper()
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	program := filepath.Join(dir, "parley")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	copyFile(m.t, self, program)
	return program
}

// installed returns the program of a release in a folder.
func (m *mirror) installed(dir, version string) string {
	m.t.Helper()
	program := m.program(dir)
	stampFile(m.t, program, version)
	return program
}

// copyFile copies a program.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		t.Fatal(err)
	}
}

// stampFile makes a copy of the test binary the program of a release.
func stampFile(t *testing.T, program, version string) {
	t.Helper()
	f, err := os.OpenFile(program, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "%-*s", stampSize, stampStart+version)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// packProgram writes an archive with a program and returns its checksum.
func packProgram(t *testing.T, program, archive string) string {
	t.Helper()
	src, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		t.Fatal(err)
	}
	dst, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	packed, err := gzip.NewWriterLevel(io.MultiWriter(dst, sum), gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(packed)
	err = w.WriteHeader(&tar.Header{Name: strings.TrimSuffix(filepath.Base(archive), ".tar.gz") + "/parley", Mode: 0o755, Size: info.Size()})
	if err == nil {
		_, err = io.Copy(w, src)
	}
	if err := errors.Join(err, w.Close(), packed.Close(), dst.Close()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// runs returns a program with arguments, which knows the mirror.
func (m *mirror) runs(program string, args ...string) *exec.Cmd {
	cmd := parley(m.t, []string{"PARLEY_DOWNLOAD=" + m.url, "PARLEY_HOME=" + filepath.Join(m.dir, "home")}, args...)
	cmd.Path = program
	cmd.Args[0] = program
	return cmd
}

// upgradeRefusal returns the code, the text and the hint of the error that a command with --json printed.
func upgradeRefusal(t *testing.T, r result) (code hub.Code, message, hint string) {
	t.Helper()
	_, line, _ := strings.Cut(r.err, "{") // after the line about the download
	var got struct {
		Error struct {
			Code          hub.Code
			Message, Hint string
		}
	}
	if err := json.Unmarshal([]byte("{"+line), &got); err != nil {
		t.Fatalf("%v in %q (exit %d: %s)", err, r.err, r.code, r.out)
	}
	return got.Error.Code, got.Error.Message, got.Error.Hint
}

func TestUpgrade(t *testing.T) {
	m := newMirror(t, "v1.0.0", "v1.1.0")
	dir := t.TempDir()
	program := m.installed(dir, "v1.0.0")
	runs := func(args ...string) result { return do(t, m.runs(program, args...)) }
	is := func(t *testing.T, version string) {
		t.Helper()
		if r := runs("--version"); r.out != "parley "+version+"\n" {
			t.Errorf("the program is %s%s, want %s", r.out, r.err, version)
		}
	}

	t.Run("check says that there is a newer release, and changes nothing", func(t *testing.T) {
		r := runs("upgrade", "--check")
		if r.code != exitCheck || r.out != "parley v1.1.0 is available; this is v1.0.0\n" {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		var got upgradeReport
		r = runs("upgrade", "--check", "--json")
		if strict(t, r.out, &got); got != (upgradeReport{Version: "v1.0.0", Release: "v1.1.0", Program: program}) {
			t.Errorf("got %+v", got)
		}
		is(t, "v1.0.0")
	})
	t.Run("the program is replaced while it runs, and the one from before stays", func(t *testing.T) {
		r := runs("upgrade")
		if r.code != exitDone {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		contains(t, r.out, "replaced parley v1.0.0 with v1.1.0: "+program, "parley upgrade --back", "after a restart")
		is(t, "v1.1.0")
		if got := filesOf(t, dir); !slices.Equal(got, []string{"parley", "parley.before"}) {
			t.Errorf("the folder has %q", got)
		}
	})
	t.Run("the newest release is not installed again", func(t *testing.T) {
		if r := runs("upgrade"); r.code != exitDone || r.out != "parley v1.1.0 is already installed\n" {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		if r := runs("upgrade", "--check"); r.code != exitDone || r.out != "parley v1.1.0 is the newest release\n" {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
	})
	t.Run("back returns to the program from before", func(t *testing.T) {
		r := runs("upgrade", "--back")
		if r.code != exitDone {
			t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
		}
		is(t, "v1.0.0")
		var got upgradeReport
		strict(t, runs("upgrade", "--back", "--json").out, &got)
		if !got.Back || got.Program != program {
			t.Errorf("got %+v", got)
		}
		is(t, "v1.1.0")
	})
	t.Run("an older release is only installed by its name", func(t *testing.T) {
		m.newest("v1.0.0")
		code, message, hint := upgradeRefusal(t, runs("upgrade", "--json"))
		if code != hub.CodeConflict || !strings.Contains(message, "the newest release, v1.0.0, is older") || !strings.Contains(hint, "parley upgrade --to v1.0.0") {
			t.Errorf("got %s: %s (%s)", code, message, hint)
		}
		if r := runs("upgrade", "--check"); r.code != exitDone || !strings.Contains(r.out, "is newer than the newest release, v1.0.0") {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		is(t, "v1.1.0")
		if r := runs("upgrade", "--to", "1.0.0"); r.code != exitDone {
			t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
		}
		is(t, "v1.0.0")
		m.newest("v1.1.0")
	})

	// Everything below is refused, and leaves the folder as it is.
	before := filesOf(t, dir)
	refuses := func(name string, exit int, code hub.Code, part string, cmd func() *exec.Cmd) {
		t.Run(name, func(t *testing.T) {
			r := do(t, cmd())
			got, message, hint := upgradeRefusal(t, r)
			if r.code != exit || got != code || !strings.Contains(message+" "+hint, part) {
				t.Errorf("exit %d, %s: %s (%s); want exit %d, %s with %q", r.code, got, message, hint, exit, code, part)
			}
			is(t, "v1.0.0")
			if now := filesOf(t, dir); !slices.Equal(now, before) {
				t.Errorf("the folder has %q, had %q", now, before)
			}
		})
	}
	asks := func(args ...string) func() *exec.Cmd {
		return func() *exec.Cmd { return m.runs(program, append([]string{"upgrade", "--json"}, args...)...) }
	}
	refuses("a release that does not exist", exitMissing, hub.CodeNotFound, "v9.9.9", asks("--to", "v9.9.9"))
	refuses("a name that is not a version", exitUsage, hub.CodeInvalid, "is not a version", asks("--to", "../x"))
	refuses("a restart without a service", exitMissing, hub.CodeNotFound, "runs as a service", asks("--restart"))
	refuses("a signature that is missing", exitRefused, hub.CodeTampering, "not signed", asks("--key", write(t, "key", "x")))
	refuses("no download address", exitRefused, hub.CodeNotEnabled, "PARLEY_DOWNLOAD", func() *exec.Cmd {
		cmd := asks()()
		cmd.Env = append(cmd.Env, "PARLEY_DOWNLOAD=")
		return cmd
	})
	refuses("no network", exitDegraded, hub.CodeUnreachable, "cannot download", func() *exec.Cmd {
		cmd := asks()()
		cmd.Env = append(cmd.Env, "PARLEY_DOWNLOAD=http://127.0.0.1:1")
		return cmd
	})
	refuses("an address without encryption", exitRefused, hub.CodePolicy, "not encrypted", func() *exec.Cmd {
		cmd := asks()()
		cmd.Env = append(cmd.Env, "PARLEY_DOWNLOAD=http://releases.invalid")
		return cmd
	})
	if _, err := exec.LookPath("dpkg-query"); err == nil {
		refuses("a program of a deb package", exitRefused, hub.CodePolicy, "sudo apt install", func() *exec.Cmd {
			cmd := asks()()
			cmd.Env = append(cmd.Env, "DPKG_ADMINDIR="+debDatabase(t, program))
			return cmd
		})
	}
	m.write("v1.1.0", "checksums.txt", fmt.Sprintf("%064x  %s\n", 1, m.archive("v1.1.0")))
	refuses("a wrong checksum", exitUsage, hub.CodeHashMismatch, "the checksum", asks())
}

// debDatabase returns a database of dpkg in which a package owns a program.
func debDatabase(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	status := "Package: parley\nStatus: install ok installed\nMaintainer: a <a@example.invalid>\nArchitecture: all\nVersion: 1\nDescription: x\n"
	for name, text := range map[string]string{"status": status, "available": "", "info/format": "1\n", "info/parley.list": program + "\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// filesOf returns the names in a folder.
func filesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestUpgradeOfOthers has a program that its user may not write.
func TestUpgradeOfOthers(t *testing.T) {
	m := newMirror(t, "v1.1.0")
	dir, err := os.MkdirTemp("", "parley-upgrade") // that another user may read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(dir, 0o755)
		os.RemoveAll(dir)
	})
	program := m.installed(dir, "v1.0.0")
	cmd := m.runs(program, "upgrade", "--json")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // whom no mode stops
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}

	r := do(t, cmd)
	code, message, _ := upgradeRefusal(t, r)
	if r.code != exitRefused || code != hub.CodeDenied || !strings.Contains(message, "cannot write to "+dir) {
		t.Errorf("exit %d, %s: %s", r.code, code, message)
	}
	if got := filesOf(t, dir); !slices.Equal(got, []string{"parley"}) {
		t.Errorf("the folder has %q", got)
	}
}

// TestUpgradeOfLink upgrades a program that is called by a link, in a folder with spaces. The link
// stays a link.
func TestUpgradeOfLink(t *testing.T) {
	m := newMirror(t, "v1.1.0")
	dir := filepath.Join(t.TempDir(), "my programs")
	program := m.installed(dir, "v1.0.0")
	link := filepath.Join(t.TempDir(), "parley")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	if r := do(t, m.runs(link, "upgrade")); r.code != exitDone || !strings.Contains(r.out, "replaced parley v1.0.0 with v1.1.0: "+program) {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if to, err := os.Readlink(link); err != nil || to != program {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if got := filesOf(t, dir); !slices.Equal(got, []string{"parley", "parley.before"}) {
		t.Errorf("the folder has %q", got)
	}
	if r := do(t, m.runs(link, "--version")); r.out != "parley v1.1.0\n" {
		t.Errorf("the program is %s", r.out)
	}
}

// TestUpgradeRestarts has the hub as a service of systemd, whose systemctl records its calls.
func TestUpgradeRestarts(t *testing.T) {
	m := newMirror(t, "v1.1.0")
	d := newDesktop(t)
	program := m.installed(t.TempDir(), "v1.0.0")
	d.ok(d.does("hub", "service", "install"), nil)
	d.called()

	upgrades := func(args ...string) result {
		cmd := m.runs(program, append([]string{"upgrade", "--restart"}, args...)...)
		cmd.Env = append(cmd.Env, "HOME="+d.user, "PARLEY_HOME="+d.home, "PATH="+d.user+":"+os.Getenv("PATH"))
		return do(t, cmd)
	}
	d.contains(upgrades(), "replaced parley v1.0.0 with v1.1.0", "restarted the hub")
	if got := d.called(); got != "--user restart parley.service\n" {
		t.Errorf("systemctl was called with %q", got)
	}
	d.contains(upgrades(), "parley v1.1.0 is already installed", "the hub was not restarted")
	if got := d.called(); got != "" {
		t.Errorf("systemctl was called with %q", got)
	}
	d.systemctl("echo Failed to connect to bus; exit 1")
	d.refused(upgrades("--back"), exitDegraded, "but the hub was not restarted")
	if r := do(t, m.runs(program, "--version")); r.out != "parley v1.0.0\n" {
		t.Errorf("the program is %s", r.out)
	}
}
