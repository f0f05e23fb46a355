// Command release builds the files of a release without publishing them: an archive
// for each platform, deb and rpm packages, packages for npm, installers, the entry for the
// registry of MCP servers, a list of the modules in each binary, and checksums, signed if a
// key is given.
//
//	go run ./scripts/release -version v1.2.3 -parley bin/parley -out bin/release
//
// Every time in the archives is that of the commit, so that a commit built again gives
// the same archives.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"text/template"
	"time"
)

// nfpm makes deb and rpm packages. It runs as a program of its own and is no dependency
// of the module.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.1"

// maxBinary is the size in bytes that a stripped binary stays under.
const maxBinary = 60 << 20

// prices is the embedded list of prices, which is at most maxPriceDays days old in a release.
const (
	prices       = "internal/service/usage/prices.json"
	maxPriceDays = 60
)

const platforms = "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"

// A release is one call of this command.
type release struct {
	version, commit string
	date            time.Time
	parley          string   // a binary of this machine
	out             string   // the folder of the release
	key             string   // of gpg; "" signs nothing
	download        string   // address of the releases, for installers, upgrades and Homebrew; "" if there is none yet
	npm             []string // platforms of the packages for npm
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the version")
	flag.StringVar(&r.parley, "parley", "bin/parley", "a parley of the same version for this machine, which prints the completions")
	flag.StringVar(&r.out, "out", "bin/release", "the folder to write; it is replaced")
	flag.StringVar(&r.key, "sign", "", "the gpg key that signs the checksums (default none)")
	flag.StringVar(&r.download, "download", "", "the address of the releases, from which installers and upgrades download (default none: users name one)")
	targets := flag.String("targets", platforms, "the platforms")
	flag.Parse()
	list, err := os.ReadFile(prices)
	if err == nil {
		err = checkPrices(list, time.Now())
	}
	if err == nil {
		err = r.build(strings.Fields(*targets))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// checkPrices refuses a list of prices that is too old for a release.
func checkPrices(raw []byte, now time.Time) error {
	var list struct {
		AsOf string `json:"as_of"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: %w", prices, err)
	}
	day, err := time.Parse(time.DateOnly, list.AsOf)
	if err != nil {
		return fmt.Errorf("%s: %w", prices, err)
	}
	if days := int(now.Sub(day).Hours() / 24); days > maxPriceDays {
		return fmt.Errorf("the list prices are of %s, %d days old; a release has prices of the last %d days: run make prices", list.AsOf, days, maxPriceDays)
	}
	return nil
}

func (r *release) build(targets []string) error {
	// All dates are that of the commit, so that the same commit gives the same files.
	stamp, err := output("git", "log", "-1", "--format=%H %cI")
	if err != nil {
		return err
	}
	commit, at, _ := strings.Cut(strings.TrimSpace(stamp), " ")
	r.commit = commit
	if r.date, err = time.Parse(time.RFC3339, at); err != nil {
		return err
	}
	r.date = r.date.UTC()

	for _, path := range []*string{&r.out, &r.parley} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}

	for _, target := range targets {
		goos, arch, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("%q is no platform such as linux/amd64", target)
		}
		if err := r.target(goos, arch); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return r.sums()
}

// target builds the binary of one platform and packs it.
func (r *release) target(goos, arch string) error {
	name := fmt.Sprintf("parley_%s_%s_%s", strings.TrimPrefix(r.version, "v"), goos, arch)
	stage := filepath.Join(r.out, "stage", name)
	binary := filepath.Join(stage, "parley")
	if goos == "windows" {
		binary += ".exe"
	}

	build := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "build", "-trimpath", "-ldflags", fmt.Sprintf("-s -w -X main.release=%s -X main.commit=%s -X main.date=%s -X main.download=%s",
		r.version, r.commit, r.date.Format(time.RFC3339), r.download), "-o", binary, "./cmd/parley")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	if err := run(build); err != nil {
		return err
	}

	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	if info.Size() >= maxBinary {
		return fmt.Errorf("the binary has %d bytes, want fewer than %d", info.Size(), maxBinary)
	}
	if err := r.fill(stage, binary); err != nil {
		return err
	}
	if err := r.pack(goos, arch, stage, binary); err != nil || goos != "linux" {
		return err
	}

	// Linux gets packages besides the archive.
	config, err := filepath.Abs("packaging/nfpm.yaml")
	if err != nil {
		return err
	}
	for _, packager := range []string{"deb", "rpm"} {
		cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "run", nfpm, "package", "--config", config, "--packager", packager, "--target", r.out)
		cmd.Dir = stage // the paths of the configuration are those of the archive
		cmd.Env = append(os.Environ(), "VERSION="+packageVersion(r.version), "ARCH="+arch, fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if err := run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the archive and the package for npm of one platform.
func (r *release) pack(goos, arch, stage, binary string) error {
	if err := r.npmProgram(goos, arch, binary); err != nil {
		return err
	}
	archive := filepath.Join(r.out, filepath.Base(stage))
	if goos == "windows" {
		return r.zip(archive+".zip", stage)
	}
	return r.tar(archive+".tar.gz", stage)
}

var semver = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+.*)$`)

// packageVersion returns a version that package managers can order.
func packageVersion(version string) string {
	if m := semver.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return "0.0.0+" + strings.ReplaceAll(version, "-", ".")
}

// fill puts the files beside the binary: license, pages, manual pages, completions, and
// the list of modules.
func (r *release) fill(stage, binary string) error {
	files := map[string][]byte{}
	for _, pattern := range []string{"LICENSE", "README.md", "CHANGELOG.md", "docs/*.md", "packaging/Containerfile", "packaging/container/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no file %s (%v)", pattern, err)
		}
		for _, file := range found {
			if files[strings.TrimPrefix(file, "packaging/")], err = os.ReadFile(file); err != nil {
				return err
			}
		}
	}

	for _, pattern := range []string{".claude-plugin/*.json", "plugin/*.json", "plugin/.*.json", "plugin/.*/*.json", "plugin/skills/*/SKILL.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no file %s (%v)", pattern, err)
		}
		for _, file := range found {
			if files[file], err = r.stamped(file); err != nil {
				return err
			}
		}
	}

	// The manual pages are made from the help texts.
	help, err := filepath.Glob("cmd/parley/testdata/help/*.txt")
	if err != nil || len(help) == 0 {
		return fmt.Errorf("no help (%v)", err)
	}
	for _, file := range help {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		files["man/"+name+".1"] = manual(name, string(text), r.version, r.date)
	}

	for shell, file := range map[string]string{"bash": "parley.bash", "zsh": "_parley", "fish": "parley.fish", "powershell": "parley.ps1"} {
		script, err := output(r.parley, "completion", shell)
		if err != nil {
			return err
		}
		files["completions/"+file] = []byte(script)
	}
	if files["sbom.cdx.json"], err = bill(binary, r.version, r.date); err != nil {
		return err
	}

	for name, content := range files {
		path := filepath.Join(stage, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// unstamped is the version in the files of the repository that carry one.
var unstamped = regexp.MustCompile(`"version": "0\.0\.0"`)

// stamped returns a file of the repository with the version of the release in it.
func (r *release) stamped(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	return unstamped.ReplaceAllLiteral(content, fmt.Appendf(nil, "%q: %q", "version", npmVersion(r.version))), err
}

// manual returns a manual page with the help of a command, as it is.
func manual(name, help, version string, date time.Time) []byte {
	first, _, _ := strings.Cut(help, "\n\n")
	first = strings.Join(strings.Fields(first), " ")
	first, _, _ = strings.Cut(first, ". ")
	first, _, _ = strings.Cut(first, ": ")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"parley %s\" \"Parley\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n", roff(strings.ToUpper(name)), date.Format("2006-01-02"), version, roff(name), roff(strings.TrimSuffix(first, ".")))
	for line := range strings.Lines(help) {
		if line = roff(line); strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line)
	}
	b.WriteString(".fi\n")
	return []byte(b.String())
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`)

func roff(s string) string { return roffEscapes.Replace(s) }

// bill returns a CycloneDX document with the modules that the binary says it is made of.
func bill(binary, version string, date time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum, err := sumOf(binary)
	if err != nil {
		return nil, err
	}

	type hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	part := func(kind string, m *debug.Module, version string) component {
		purl := "pkg:golang/" + m.Path + "@" + version
		return component{Type: kind, Ref: purl, Name: m.Path, Version: version, PURL: purl}
	}

	main := part("application", &info.Main, version)
	main.Hashes = []hash{{"SHA-256", sum}}
	parts := []component{{Type: "library", Ref: "pkg:golang/std@" + info.GoVersion, Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}

	for _, m := range info.Deps {
		// A replaced module is listed as its replacement.
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, part("library", m, m.Version))
	}

	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"timestamp": date.Format(time.RFC3339), "component": main},
		"components": parts,
	}, "", "  ")
}

// each calls fn for each file of a folder with the path in the archive.
func each(stage string, fn func(name string, info fs.FileInfo, content []byte) error) error {
	return filepath.WalkDir(stage, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(stage), path)
		if err != nil {
			return err
		}
		return fn(filepath.ToSlash(name), info, content)
	})
}

func (r *release) tar(path, stage string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	err = each(stage, func(name string, info fs.FileInfo, content []byte) error {
		header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: int64(len(content)), ModTime: r.date}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), packed.Close(), f.Close())
}

func (r *release) zip(path, stage string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := zip.NewWriter(f)
	err = each(stage, func(name string, info fs.FileInfo, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.date}
		header.SetMode(info.Mode())
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(content)
		}
		return err
	})
	return errors.Join(err, w.Close(), f.Close())
}

// sums writes the checksums of all files of the release, and their signature. The
// lists of modules lie beside the archives, too.
func (r *release) sums() error {
	stages, err := filepath.Glob(filepath.Join(r.out, "stage", "*"))
	if err != nil {
		return err
	}
	for _, stage := range stages {
		if err := os.Rename(filepath.Join(stage, "sbom.cdx.json"), filepath.Join(r.out, filepath.Base(stage)+".cdx.json")); err != nil {
			return err
		}
	}

	if err := os.RemoveAll(filepath.Join(r.out, "stage")); err != nil {
		return err
	}
	if err := errors.Join(r.formula(), r.npmMain(), r.installers(), r.registryEntry()); err != nil {
		return err
	}

	files, err := filepath.Glob(filepath.Join(r.out, "*"))
	if err != nil {
		return err
	}
	slices.Sort(files)

	var b strings.Builder
	for _, file := range files {
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, filepath.Base(file))
	}

	// Without a key the list is not signed.
	list := filepath.Join(r.out, "checksums.txt")
	if err := os.WriteFile(list, []byte(b.String()), 0o644); err != nil || r.key == "" {
		return err
	}
	return run(exec.Command("gpg", "--batch", "--yes", "--local-user", r.key, "--armor", "--detach-sign", list))
}

// formula writes the formula of Homebrew for the archives that it can install. It names their
// addresses, so there is none without a download address.
func (r *release) formula() error {
	if r.download == "" {
		fmt.Fprintln(os.Stderr, "release: DOWNLOAD is not set: there is no formula for Homebrew, and users of the installers and of parley upgrade must set PARLEY_DOWNLOAD")
		return nil
	}
	type archive struct{ OS, CPU, File, Sum string }
	var all []archive
	for _, goos := range [][2]string{{"darwin", "mac"}, {"linux", "linux"}} {
		for _, arch := range [][2]string{{"amd64", "intel"}, {"arm64", "arm"}} {
			file := fmt.Sprintf("parley_%s_%s_%s.tar.gz", strings.TrimPrefix(r.version, "v"), goos[0], arch[0])
			sum, err := sumOf(filepath.Join(r.out, file))
			switch {
			case errors.Is(err, fs.ErrNotExist): // it is not among the targets
			case err != nil:
				return err
			default:
				all = append(all, archive{goos[1], arch[1], file, sum})
			}
		}
	}
	t, err := template.ParseFiles("packaging/parley.rb.tmpl")
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, "parley.rb"))
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, map[string]any{"Version": strings.TrimPrefix(r.version, "v"), "Tag": r.version, "Download": r.download, "Archives": all}), f.Close())
}

// installers writes the scripts that install the program for a user, with the address of the
// releases.
func (r *release) installers() error {
	for _, name := range []string{"install.sh", "install.ps1"} {
		script, err := os.ReadFile(filepath.Join("packaging", name))
		if err != nil {
			return err
		}
		script = bytes.ReplaceAll(script, []byte("@DOWNLOAD@"), []byte(r.download))
		if err := os.WriteFile(filepath.Join(r.out, name), script, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// registryEntry writes the entry for the registry of MCP servers.
func (r *release) registryEntry() error {
	entry, err := r.stamped("server.json")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "server.json"), entry, 0o644)
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
