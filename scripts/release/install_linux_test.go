package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
)

// A shell runs the installer.
type shell struct {
	name     string
	program  string   // in the PATH of the test
	argument []string // before the script
	applets  bool     // the program is also every tool, by the name of the link
}

var (
	dash    = shell{name: "dash", program: "dash"}
	busybox = shell{name: "busybox", program: "busybox", argument: []string{"sh"}, applets: true}
)

// tools are the programs that the installer needs, besides one that downloads.
var tools = []string{"uname", "mktemp", "rm", "mkdir", "grep", "head", "cut", "gzip", "tar", "cp", "chmod", "mv", "sha256sum"}

// A user has a home, a shell and no more tools than are given.
type user struct {
	t         *testing.T
	shell     shell
	home, bin string
	script    string // the installer
	env       []string
	ids       *syscall.Credential // nil for the user of the test
	stdin     io.Reader           // the installer, for a shell that reads it from there; nil for the file
}

// newUser returns a user who has the installer of the newest release, and some tools besides the
// usual ones.
func newUser(t *testing.T, s shell, m *mirror, more ...string) *user {
	t.Helper()
	program, err := exec.LookPath(s.program)
	if err != nil {
		acptest.Missing(t, "MISSING: %s", s.program)
	}
	u := &user{t: t, shell: s, home: t.TempDir(), bin: t.TempDir(), script: filepath.Join(m.dir, "latest", "download", "install.sh")}
	for _, name := range append(slices.Clone(tools), more...) {
		from := program
		if !s.applets || name == "gpg" || name == "curl" {
			if from, err = exec.LookPath(name); err != nil {
				acptest.Missing(t, "MISSING: %s", name)
			}
		}
		if err := os.Symlink(from, filepath.Join(u.bin, name)); err != nil {
			t.Fatal(err)
		}
	}

	// The installer asks for no rights.
	for _, name := range []string{"sudo", "su", "doas"} {
		if err := os.WriteFile(filepath.Join(u.bin, name), []byte("#!/bin/sh\necho asked > "+u.home+"/rights\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// runs runs the installer.
func (u *user) runs(args ...string) (out, errOut string, code int) {
	u.t.Helper()
	program, err := exec.LookPath(u.shell.program)
	if err != nil {
		u.t.Fatal(err)
	}
	script := []string{u.script}
	if u.stdin != nil {
		script = []string{"-s", "--"}
	}
	cmd := exec.Command(program, slices.Concat(u.shell.argument, script, args)...)
	cmd.Stdin = u.stdin
	cmd.Dir = u.home
	cmd.Env = append([]string{"HOME=" + u.home, "PATH=" + u.bin, "TMPDIR=" + u.tmp()}, u.env...)
	if u.ids != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.ids}
	}
	var o, e strings.Builder
	cmd.Stdout = &o
	cmd.Stderr = &e
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		u.t.Fatal(err)
	}
	if left, err := os.ReadDir(u.tmp()); err != nil || len(left) > 0 {
		u.t.Errorf("temporary files are left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(u.home, "rights")); err == nil {
		u.t.Error("the installer asked for the rights of another user")
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// tmp returns the folder for temporary files.
func (u *user) tmp() string {
	u.t.Helper()
	dir := filepath.Join(u.home, "tmp")
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		u.t.Fatal(err)
	}
	return dir
}

// installs runs the installer, which must succeed, and returns its output.
func (u *user) installs(args ...string) string {
	u.t.Helper()
	out, errOut, code := u.runs(args...)
	if code != 0 || errOut != "" {
		u.t.Fatalf("%v: exit %d: %s%s", args, code, out, errOut)
	}
	return out
}

// refuses runs the installer, which must fail and leave the program of the user as it is.
func (u *user) refuses(part string, args ...string) {
	u.t.Helper()
	before, _ := os.ReadFile(u.program())
	out, errOut, code := u.runs(args...)
	if code != 1 || !strings.Contains(errOut, "install: ") || !strings.Contains(errOut, part) || out != "" {
		u.t.Errorf("%v: exit %d: %s%s; want exit 1 and %q", args, code, out, errOut, part)
	}
	if after, _ := os.ReadFile(u.program()); string(after) != string(before) {
		u.t.Errorf("%v: the program has changed", args)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(u.program()), ".parley*"))
	if len(left) > 0 {
		u.t.Errorf("%v: parts are left: %q", args, left)
	}
}

// program returns the path of the program in its usual folder.
func (u *user) program() string { return filepath.Join(u.home, ".local", "bin", "parley") }

// has checks that a program is that of a version, and can be run.
func (u *user) has(program, version string) {
	u.t.Helper()
	out, err := exec.Command(program).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "parley "+version {
		u.t.Errorf("%s: got %s, %v; want %s", program, out, err, version)
	}
}

// TestInstaller runs install.sh of a release with the shells and tools of several systems.
func TestInstaller(t *testing.T) {
	for _, c := range []struct {
		name  string
		shell shell
		tool  string
	}{
		{"Debian with curl", dash, "curl"},
		{"Debian with wget", dash, "wget"},
		{"Alpine", busybox, "wget"},
		{"Alpine with curl", busybox, "curl"},
	} {
		t.Run(c.name, func(t *testing.T) { testInstaller(t, c.shell, c.tool) })
	}
}

func testInstaller(t *testing.T, s shell, tool string) {
	m := newMirror(t)
	m.add("v1.0.0", says("v1.0.0"))
	m.add("v1.1.0", says("v1.1.0"))
	u := newUser(t, s, m, tool)

	t.Run("the newest release is installed, and the user is told about PATH", func(t *testing.T) {
		out := u.installs()
		for _, part := range []string{"installed " + u.program() + ": parley v1.1.0", "not in your PATH", `export PATH="` + filepath.Dir(u.program()) + `:$PATH"`, "Next: " + u.program() + " demo"} {
			if !strings.Contains(out, part) {
				t.Errorf("%q is not in %s", part, out)
			}
		}
		u.has(u.program(), "v1.1.0")
		if names, err := filepath.Glob(filepath.Join(filepath.Dir(u.program()), "*")); err != nil || len(names) != 1 {
			t.Errorf("the folder has %q, %v", names, err)
		}
	})
	t.Run("another version replaces it", func(t *testing.T) {
		for _, version := range []string{"v1.0.0", "1.1.0", "1.0.0"} {
			u.installs("--version", version)
			u.has(u.program(), "v"+strings.TrimPrefix(version, "v"))
		}
		u.installs("--version=v1.1.0")
		u.has(u.program(), "v1.1.0")
	})
	t.Run("a folder may be chosen", func(t *testing.T) {
		for _, dir := range []string{filepath.Join(u.home, "with a space"), "relative"} {
			out := u.installs("--dir", dir)
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(u.home, dir)
			}
			if !strings.Contains(out, "installed "+dir+"/parley:") {
				t.Errorf("got %s", out)
			}
			u.has(filepath.Join(dir, "parley"), "v1.1.0")
			if out := u.installs("--uninstall", "--dir="+dir); !strings.Contains(out, "removed "+dir+"/parley") {
				t.Errorf("got %s", out)
			}
		}
	})
	t.Run("the script may come from a pipe, and does nothing if a part of it is missing", func(t *testing.T) {
		script, err := os.ReadFile(u.script)
		if err != nil {
			t.Fatal(err)
		}
		piped := func(text []byte, want string) {
			t.Helper()
			u.stdin = bytes.NewReader(text)
			defer func() { u.stdin = nil }()
			dir := filepath.Join(u.home, "piped")
			if out, errOut, _ := u.runs("--dir", dir); !strings.Contains(out, want) || (want == "") != (out == "") {
				t.Errorf("%d bytes: got %s%s", len(text), out, errOut)
			}
		}
		piped(script, "installed ")
		for size := 0; size < len(script)-len("main \"$@\"\n"); size += 97 {
			piped(script[:size], "")
		}
	})
	t.Run("a folder of the PATH needs no word about it", func(t *testing.T) {
		u.env = []string{"PATH=" + u.bin + ":" + filepath.Dir(u.program())}
		if out := u.installs(); !strings.HasSuffix(out, "\nNext: parley demo\n") || strings.Contains(out, "PATH") {
			t.Errorf("got %s", out)
		}
		other := filepath.Join(u.bin, "parley")
		if err := os.WriteFile(other, []byte(says("v0")), 0o755); err != nil {
			t.Fatal(err)
		}
		if out := u.installs(); !strings.Contains(out, "Another parley comes first in your PATH: "+other) {
			t.Errorf("got %s", out)
		}
		os.Remove(other)
		if out := u.installs("--dir", filepath.Dir(u.program())+"/"); !strings.Contains(out, "installed "+u.program()+":") || strings.Contains(out, "PATH") {
			t.Errorf("a folder with a slash at its end: got %s", out)
		}
		u.env = nil
	})

	refusals(t, m, u)
	t.Run("uninstall removes the program and the one from before", func(t *testing.T) {
		if err := os.WriteFile(u.program()+".before", nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if out := u.installs("--uninstall"); !strings.Contains(out, "removed "+u.program()) || !strings.Contains(out, u.home+"/.parley stay") {
			t.Errorf("got %s", out)
		}
		if names, err := filepath.Glob(u.program() + "*"); err != nil || len(names) > 0 {
			t.Errorf("%q is left, %v", names, err)
		}
		u.refuses("there is no parley in", "--uninstall")
	})
}

// refusals has the installer refuse what is wrong. The program stays as it is.
func refusals(t *testing.T, m *mirror, u *user) {
	t.Run("wrong arguments are refused", func(t *testing.T) {
		u.refuses("unknown option --force", "--force")
		u.refuses("--version needs a value", "--version")
		u.refuses("--dir must not be empty", "--dir", "")
		u.refuses("must be a version such as v1.2.3", "--version", "latest")
		u.refuses("must be a version such as v1.2.3", "--version", "v1/../../x")
		if out, _, code := u.runs("--help"); code != 0 || !strings.Contains(out, "--uninstall") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	t.Run("an address that cannot be trusted is refused", func(t *testing.T) {
		for address, part := range map[string]string{
			"releases.invalid":                     "is not an address for downloads",
			"http://releases.invalid":              "is not encrypted",
			"http://localhost.invalid":             "is not encrypted",
			"http://127.releases.invalid":          "is not encrypted",
			"http://127.0.0.1:80@releases.invalid": "is not encrypted",
		} {
			u.env = []string{"PARLEY_DOWNLOAD=" + address}
			u.refuses(part)
		}
		gone := httptest.NewServer(nil)
		gone.Close()
		u.env = []string{"PARLEY_DOWNLOAD=" + gone.URL}
		u.refuses("cannot download " + gone.URL)
		u.env = nil
	})
	t.Run("a version that does not exist is refused", func(t *testing.T) {
		u.refuses("cannot download "+m.url+"/download/v9.9.9/checksums.txt", "--version", "v9.9.9")
	})
	t.Run("the release of another version is refused", func(t *testing.T) {
		if err := os.Symlink(m.folder("v1.0.0"), m.folder("v2.0.0")); err != nil {
			t.Fatal(err)
		}
		u.refuses("not v2.0.0", "--version", "v2.0.0")
	})
	t.Run("a changed and a shortened archive are refused", func(t *testing.T) {
		whole, err := os.ReadFile(m.archive("v1.1.0"))
		if err != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(whole)
		changed[len(changed)/2] ^= 1
		for _, content := range [][]byte{changed, whole[:len(whole)/2], nil} {
			if err := os.WriteFile(m.archive("v1.1.0"), content, 0o644); err != nil {
				t.Fatal(err)
			}
			u.refuses("is wrong; nothing was installed")
		}
		if err := os.WriteFile(m.archive("v1.1.0"), whole, 0o644); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a program that does not run here is refused", func(t *testing.T) {
		m.add("v1.2.0", "#!/bin/sh\nexit 1\n")
		u.refuses("does not run on this machine")
		m.newest("v1.1.0")
	})
	t.Run("a folder that cannot be written is refused", func(t *testing.T) {
		if os.Geteuid() == 0 { // whom no mode stops
			u.ids = &syscall.Credential{Uid: 65534, Gid: 65534}
			defer func() { u.ids = nil }()
			for _, dir := range []string{u.home, u.bin, m.dir} {
				os.Chmod(filepath.Dir(dir), 0o755) // of the test
			}
		} else {
			os.Chmod(filepath.Dir(u.program()), 0o555)
			defer os.Chmod(filepath.Dir(u.program()), 0o755)
		}
		u.refuses("cannot write to " + filepath.Dir(u.program()) + "; choose another folder with --dir")
		u.refuses("cannot make the folder", "--dir", filepath.Join(filepath.Dir(u.program()), "new"))
	})
}

// TestInstallerRedirects has a server with TLS redirect to another address.
func TestInstallerRedirects(t *testing.T) {
	m := newMirror(t)
	m.add("v1.0.0", says("v1.0.0"))
	files := http.FileServer(http.Dir(m.dir))
	var target atomic.Value // of redirects
	target.Store(m.url)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/there/") {
			http.StripPrefix("/there", files).ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, target.Load().(string)+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, dash, m, "curl")
	u.env = []string{"PARLEY_DOWNLOAD=" + secure.URL, "CURL_CA_BUNDLE=" + certificate}

	u.refuses("cannot download " + secure.URL) // the mirror has no TLS
	target.Store(secure.URL + "/there")
	u.installs()
	u.has(u.program(), "v1.0.0")
}

// TestInstallerTools has no tool that downloads, none for checksums, and others for checksums.
func TestInstallerTools(t *testing.T) {
	m := newMirror(t)
	m.add("v1.0.0", says("v1.0.0"))
	u := newUser(t, dash, m)
	u.refuses("curl or wget is needed")
	for _, tool := range []string{"shasum", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			acptest.Missing(t, "MISSING: %s", tool)
		}
		u := newUser(t, dash, m, "curl", tool)
		if tool == "shasum" { // a script
			if err := os.Symlink("/usr/bin/perl", filepath.Join(u.bin, "perl")); err != nil {
				t.Fatal(err)
			}
		}
		os.Remove(filepath.Join(u.bin, "sha256sum"))
		u.installs()
		u.has(u.program(), "v1.0.0")
		os.Remove(filepath.Join(u.bin, tool))
		u.refuses("sha256sum, shasum or openssl is needed")
	}
}

// TestInstallerSignature has releases that are signed, not signed and signed by others.
func TestInstallerSignature(t *testing.T) {
	if _, err := exec.LookPath("gpg"); err != nil {
		acptest.Missing(t, "MISSING: gpg")
	}
	ours := newSigner(t, "ours@example.invalid")
	others := newSigner(t, "others@example.invalid")
	m := newMirror(t)
	signs := func(version string, s *signer) {
		t.Setenv("GNUPGHOME", s.home)
		m.key = s.name
		m.add(version, says(version))
	}
	signs("v1.0.0", ours)
	for _, s := range []shell{dash, busybox} {
		t.Run(s.name, func(t *testing.T) {
			m.newest("v1.0.0")
			u := newUser(t, s, m, "wget", "gpg")
			u.installs("--key", ours.public)
			u.has(u.program(), "v1.0.0")
			u.refuses("is not signed with", "--key", others.public)
			u.refuses("cannot read the key", "--key", "/nonexistent")
			u.refuses("gpg cannot read the key", "--key", "/dev/null")
			os.Remove(filepath.Join(u.bin, "gpg"))
			u.refuses("gpg is needed", "--key", ours.public)
		})
	}
	signs("v1.1.0", others)
	u := newUser(t, dash, m, "curl", "gpg")
	u.refuses("is not signed with", "--key", ours.public)
	if err := os.Remove(filepath.Join(m.folder("v1.1.0"), "checksums.txt.asc")); err != nil {
		t.Fatal(err)
	}
	u.refuses("the release is not signed", "--key", ours.public)
}

// A signer has a key of gpg in a folder of its own.
type signer struct{ name, home, public string }

func newSigner(t *testing.T, name string) *signer {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // short: gpg's socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() // fails if none runs
		os.RemoveAll(home)
	})
	s := &signer{name, home, filepath.Join(home, "public.asc")}
	for _, args := range [][]string{{"--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "never"}, {"--armor", "--output", s.public, "--export"}} {
		cmd := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gpg %v: %v: %s", args, err, out)
		}
	}
	return s
}
