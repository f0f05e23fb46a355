package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/acptest"
)

// TestMain runs the tests in the root of the repository, as make runs the command.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A mirror is a folder with releases, made by the functions of the command, that a server offers.
type mirror struct {
	t        *testing.T
	dir, url string
	key      string // that signs; "" for none
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{t: t, dir: t.TempDir()}
	server := httptest.NewServer(http.FileServer(http.Dir(m.dir)))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// folder returns the folder of a release.
func (m *mirror) folder(version string) string { return filepath.Join(m.dir, "download", version) }

// add writes a release with a small program for this machine and makes it the newest.
func (m *mirror) add(version, program string) *release {
	m.t.Helper()
	r := &release{version: version, commit: "0123", date: day, out: m.folder(version), download: m.url, key: m.key}
	stage := filepath.Join(r.out, "stage", "parley_"+strings.TrimPrefix(version, "v")+"_"+runtime.GOOS+"_"+runtime.GOARCH)
	binary := filepath.Join(stage, "parley")
	err := errors.Join(os.MkdirAll(stage, 0o755), os.WriteFile(binary, []byte(program), 0o755), os.WriteFile(filepath.Join(stage, "sbom.cdx.json"), []byte("{}"), 0o644))
	if err == nil {
		err = r.pack(runtime.GOOS, runtime.GOARCH, stage, binary)
	}
	if err == nil {
		err = r.sums()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.newest(version)
	return r
}

// newest makes a release the newest.
func (m *mirror) newest(version string) {
	m.t.Helper()
	link := filepath.Join(m.dir, "latest", "download")
	if err := errors.Join(os.RemoveAll(link), os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(m.folder(version), link)); err != nil {
		m.t.Fatal(err)
	}
}

// archive returns the path of the archive of a release.
func (m *mirror) archive(version string) string {
	return filepath.Join(m.folder(version), fmt.Sprintf("parley_%s_%s_%s.tar.gz", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH))
}

// says returns a program that prints its arguments and a version.
func says(version string) string { return "#!/bin/sh\necho \"parley " + version + " $*\"\n" }

// TestNoAddress builds a release without a download address.
func TestNoAddress(t *testing.T) {
	m := newMirror(t)
	m.url = ""
	r := m.add("v1.0.0", says("v1.0.0"))
	if _, err := os.Stat(filepath.Join(r.out, "parley.rb")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a formula without addresses: %v", err)
	}
	u := newUser(t, dash, m, "curl")
	u.refuses("this installer has no download address; set PARLEY_DOWNLOAD")
	for _, name := range []string{"install.sh", "install.ps1"} {
		raw, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil || bytes.Contains(raw, []byte("@DOWNLOAD@")) {
			t.Errorf("%s is not filled in (%v)", name, err)
		}
	}
}

// TestPlatforms writes the files of a release for all platforms, with programs that are none.
func TestPlatforms(t *testing.T) {
	r := &release{version: "v1.2.3", date: day, out: t.TempDir(), download: "https://releases.invalid"}
	for target := range strings.FieldsSeq(platforms) {
		goos, arch, _ := strings.Cut(target, "/")
		stage := filepath.Join(r.out, "stage", "parley_1.2.3_"+goos+"_"+arch)
		binary := filepath.Join(stage, "parley")
		if goos == "windows" {
			binary += ".exe"
		}
		err := errors.Join(os.MkdirAll(stage, 0o755), os.WriteFile(binary, []byte(target), 0o755), os.WriteFile(filepath.Join(stage, "sbom.cdx.json"), []byte("{}"), 0o644))
		if err == nil {
			err = r.pack(goos, arch, stage, binary)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sums(); err != nil {
		t.Fatal(err)
	}

	sums, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"parley_1.2.3_linux_amd64.tar.gz", "parley_1.2.3_darwin_arm64.tar.gz", "parley_1.2.3_windows_arm64.zip", "parley_1.2.3_linux_arm64.cdx.json",
		"parley-agents-parley-1.2.3.tgz", "parley-agents-parley-linux-x64-1.2.3.tgz", "parley-agents-parley-darwin-arm64-1.2.3.tgz", "parley-agents-parley-win32-x64-1.2.3.tgz",
		"install.sh", "install.ps1", "parley.rb", "server.json",
	} {
		if !regexp.MustCompile(`(?m)^[0-9a-f]{64}  ` + regexp.QuoteMeta(name) + `$`).Match(sums) {
			t.Errorf("%s is not in\n%s", name, sums)
		}
	}
	t.Run("the package for npm has the programs of all platforms", func(t *testing.T) {
		files := unpacked(t, filepath.Join(r.out, "parley-agents-parley-1.2.3.tgz"))
		for _, part := range []string{
			`"version": "1.2.3"`, `"mcpName": "io.github.parley-agents/parley"`,
			`"@parley-agents/parley-darwin-x64": "1.2.3"`, `"@parley-agents/parley-win32-arm64": "1.2.3"`, `"@parley-agents/parley-linux-x64": "1.2.3"`,
		} {
			if !strings.Contains(files["package/package.json"], part) {
				t.Errorf("%s is not in %s", part, files["package/package.json"])
			}
		}
		windows := unpacked(t, filepath.Join(r.out, "parley-agents-parley-win32-x64-1.2.3.tgz"))
		if windows["package/bin/parley.exe"] != "windows/amd64" || !strings.Contains(windows["package/package.json"], `"win32"`) {
			t.Errorf("the package for Windows has %q", windows)
		}
	})
	t.Run("the formula has the addresses of the archives", func(t *testing.T) {
		raw, err := os.ReadFile(filepath.Join(r.out, "parley.rb"))
		if err != nil || strings.Count(string(raw), `url "https://releases.invalid/download/v1.2.3/parley_1.2.3_`) != 4 {
			t.Errorf("%v: %s", err, raw)
		}
	})
	t.Run("the entry for the registry has the version", func(t *testing.T) {
		raw, err := os.ReadFile(filepath.Join(r.out, "server.json"))
		if err != nil || strings.Count(string(raw), `"version": "1.2.3"`) != 2 || strings.Contains(string(raw), "0.0.0") {
			t.Errorf("%v: %s", err, raw)
		}
	})
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	files := tar.NewReader(packed)
	for {
		header, err := files.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name] = string(raw)
	}
}

// TestNPMInstall installs the packages for npm from their files, without the network, and starts the
// program as npx does.
func TestNPMInstall(t *testing.T) {
	for _, tool := range []string{"npm", "npx", "node"} {
		if _, err := exec.LookPath(tool); err != nil {
			acptest.Missing(t, "MISSING: %s", tool)
		}
	}
	m := newMirror(t)
	r := m.add("v1.0.0", "#!/bin/sh\necho \"got $*\"\nexit 3\n")
	packages, err := filepath.Glob(filepath.Join(r.out, "*.tgz"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("got %q, %v", packages, err)
	}
	dir := t.TempDir()
	if out, code := runNPM(t, dir, "npm", append([]string{"install", "--no-audit", "--no-fund"}, packages...)...); code != 0 {
		t.Fatalf("npm install: exit %d: %s", code, out)
	}
	if out, code := runNPM(t, dir, "npx", "@parley-agents/parley", "send", "a b"); code != 3 || out != "got send a b\n" {
		t.Errorf("npx: exit %d: %s", code, out)
	}
}

// runNPM runs npm or npx in a folder, without the network, and returns the output and the exit code.
func runNPM(t *testing.T, dir, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "npm_config_offline=true", "npm_config_update_notifier=false")
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestContainerfile reads the file for a container. TestRelease builds and starts it.
func TestContainerfile(t *testing.T) {
	raw, err := os.ReadFile("packaging/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instruction == "" || strings.HasPrefix(instruction, "#") {
			continue
		}
		got[instruction] = append(got[instruction], rest)
	}
	for instruction, want := range map[string][]string{
		"FROM": {"scratch"}, "ENTRYPOINT": {`["/parley"]`}, "WORKDIR": {"/data"}, "VOLUME": {"/data"}, "EXPOSE": {"7420"},
		"COPY": {"--chmod=0755 parley /parley", "--chown=65532:65532 container/ /"}, // the folder data, which the user may write
		"USER": {"65532:65532"},                                                     // not root
	} {
		if !slices.Equal(got[instruction], want) {
			t.Errorf("%s: got %q, want %q", instruction, got[instruction], want)
		}
	}

	// The command is one that the program has.
	help, err := os.ReadFile("cmd/parley/testdata/help/parley-serve.txt")
	if err != nil {
		t.Fatal(err)
	}
	command := strings.Join(got["CMD"], "")
	flags := regexp.MustCompile(`"(--[a-z-]+)"`).FindAllStringSubmatch(command, -1)
	if !strings.HasPrefix(command, `["serve", `) || len(flags) == 0 {
		t.Errorf("the command is %s", command)
	}
	for _, f := range flags {
		if !strings.Contains(string(help), f[1]+" ") {
			t.Errorf("parley serve has no flag %s", f[1])
		}
	}
}
