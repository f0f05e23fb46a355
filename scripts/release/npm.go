package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// npmName is the package for npm. Its programs are packages of their own, of which npm installs
// the one for the machine.
const npmName = "@parley-agents/parley"

// npmWords are the words of npm for platforms.
var npmWords = map[string]string{"amd64": "x64", "windows": "win32"}

// npmWord returns the word of npm for a system or a processor.
func npmWord(word string) string {
	if other, ok := npmWords[word]; ok {
		return other
	}
	return word
}

// npmVersion returns a version that npm takes: numbers, and perhaps a word after a minus.
func npmVersion(version string) string {
	if semver.MatchString(version) {
		return strings.TrimPrefix(version, "v")
	}
	return "0.0.0-" + strings.NewReplacer("+", "-", "_", "-", "/", "-").Replace(version)
}

// npmFile is one file of a package.
type npmFile struct {
	name    string
	content []byte
	mode    int64
}

// npmProgram writes the package with the program of one platform, and remembers it for the main
// package.
func (r *release) npmProgram(goos, arch, binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	platform := npmWord(goos) + "-" + npmWord(arch)
	r.npm = append(r.npm, platform)
	manifest := map[string]any{
		"name": npmName + "-" + platform, "version": npmVersion(r.version), "description": "The program of " + npmName + " for " + platform,
		"license": "Apache-2.0", "os": []string{npmWord(goos)}, "cpu": []string{npmWord(arch)}, "preferUnplugged": true,
	}
	return r.npmPack(manifest, npmFile{"bin/" + filepath.Base(binary), content, 0o755})
}

// npmMain writes the package that people install. It starts the program of the platform.
func (r *release) npmMain() error {
	script, err := os.ReadFile("contrib/npm/parley.js")
	if err != nil {
		return err
	}
	raw, err := os.ReadFile("contrib/npm/package.json")
	if err != nil {
		return err
	}
	var manifest map[string]any
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return fmt.Errorf("contrib/npm/package.json: %w", err)
	}
	manifest["version"] = npmVersion(r.version)
	programs := map[string]string{}
	for _, platform := range r.npm {
		programs[npmName+"-"+platform] = npmVersion(r.version)
	}
	manifest["optionalDependencies"] = programs
	return r.npmPack(manifest, npmFile{"parley.js", script, 0o755})
}

// npmPack writes a package as npm pack does, with the license.
func (r *release) npmPack(manifest map[string]any, files ...npmFile) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	about, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	files = slices.Concat([]npmFile{{"package.json", append(about, '\n'), 0o644}, {"LICENSE", license, 0o644}}, files)

	name := strings.NewReplacer("@", "", "/", "-").Replace(fmt.Sprint(manifest["name"])) + "-" + fmt.Sprint(manifest["version"]) + ".tgz"
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w := tar.NewWriter(packed)
	for _, file := range files {
		err = w.WriteHeader(&tar.Header{Name: "package/" + file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: r.date})
		if err == nil {
			_, err = w.Write(file.content)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, w.Close(), packed.Close(), f.Close())
}
