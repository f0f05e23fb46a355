// Package contractfile keeps the contracts of a repository as files: parley.contracts.yaml
// names the files that the repository provides and uses, and parley.contracts.lock has the
// versions that they were last equal to.
//
// [Read] reads both, [Folder.Compare] compares the files with a hub and changes nothing,
// [Folder.Push] proposes the files that differ, and [Folder.Pull] writes the agreed versions. A
// file that is no document of its format is an error with its line. Files stay in the folder:
// nothing is read or written outside of it. The package prints nothing and asks no questions.
//
// Push and Pull are also tested through the commands contract push, pull and status in cmd/parley.
package contractfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-agents/parley/compat"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
)

// The files of a folder.
const (
	Name     = "parley.contracts.yaml"
	LockName = "parley.contracts.lock"
)

// A File is the content of parley.contracts.yaml.
type File struct {
	Project    coord.ProjectID `yaml:"project"`    // "" for the one of PARLEY_PROJECT, or the only one
	Repository string          `yaml:"repository"` // "" for the only one that the agent claimed
	Provides   []Provided      `yaml:"provides"`
	Uses       []Used          `yaml:"uses"`
}

// A Provided is a contract that the repository provides.
type Provided struct {
	Name      string           `yaml:"name"`
	File      string           `yaml:"file"`      // relative to the folder
	Format    compat.Format    `yaml:"format"`    // "" finds it out
	Type      string           `yaml:"type"`      // "" follows from the format
	Direction compat.Direction `yaml:"direction"` // "" follows from the type
}

// A Used is a contract that the repository uses.
type Used struct {
	Name  string   `yaml:"name"`
	Parts []string `yaml:"parts"` // none: everything
	File  string   `yaml:"file"`  // to which the agreed version is written; "" for none
}

// A Lock is the content of parley.contracts.lock.
type Lock struct {
	Contracts []Locked `json:"contracts"`
}

// A Locked is the version of a contract that a file was last equal to.
type Locked struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Digest  string `json:"digest"`         // of its content
	Base    string `json:"base,omitempty"` // of the content of the agreed version at that time
}

// A Folder is a folder with its two files.
type Folder struct {
	File
	Lock Lock
	root *os.Root
}

// Read reads the files of a folder. Errors are CodeInvalid, or CodeNotFound for a folder
// without a file. The caller closes the folder.
func Read(dir string) (*Folder, error) {
	const op = "contractfile.Read"
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, hub.Errorf(hub.CodeNotFound, op, "%w", err)
	}
	f := &Folder{root: root}
	if err := f.read(op); err != nil {
		root.Close()
		return nil, err
	}
	return f, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// read fills a folder from its files.
func (f *Folder) read(op string) error {
	path := filepath.Join(f.root.Name(), Name)
	raw, err := f.root.ReadFile(Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hub.Errorf(hub.CodeNotFound, op, "%s has no %s", f.root.Name(), Name).
			WithHint("it has: repository: NAME, provides: [{name: NAME, file: FILE}], uses: [{name: NAME, parts: [PART], file: FILE}]")
	case err != nil:
		return hub.Errorf(hub.CodeInvalid, op, "%w", err)
	}
	if err := strictyaml.DecodeOnly(path, raw, &f.File); err != nil {
		return err
	}
	if err := f.check(op, path); err != nil {
		return err
	}

	raw, err = f.root.ReadFile(LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &f.Lock)
	}
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, op, "%s: %v", LockName, err).WithHint("remove the file; the next pull writes it again")
	}
	return nil
}

// check finds mistakes that need no hub.
func (f *Folder) check(op, path string) error {
	seen := map[string]bool{}
	one := func(name, file string, needsFile bool) error {
		switch {
		case name == "":
			return hub.Errorf(hub.CodeInvalid, op, "%s: a contract has no name", path)
		case seen[name]:
			return hub.Errorf(hub.CodeInvalid, op, "%s: the contract %s is there twice", path, name)
		case file == "" && needsFile:
			return hub.Errorf(hub.CodeInvalid, op, "%s: the contract %s has no file", path, name)
		case file != "" && !filepath.IsLocal(file):
			return hub.Errorf(hub.CodeInvalid, op, "%s: the file %s of %s is not in this folder", path, file, name)
		}
		seen[name] = true
		return nil
	}
	for _, p := range f.Provides {
		if err := one(p.Name, p.File, true); err != nil {
			return err
		}
		if p.Format != "" && !slices.Contains(compat.Formats, p.Format) {
			return hub.Errorf(hub.CodeInvalid, op, "%s: the contract %s has the unknown format %q; use json-schema, openapi, shape or custom", path, p.Name, p.Format)
		}
	}
	for _, u := range f.Uses {
		if err := one(u.Name, u.File, false); err != nil {
			return err
		}
	}
	return nil
}

// content returns the content of a file as JSON, and nil if there is no file. A custom file
// that is neither JSON nor YAML is the member text of an object.
func (f *Folder) content(file string, format compat.Format, kind string) (json.RawMessage, compat.Format, error) {
	const op = "contractfile.Compare"
	text, err := f.root.ReadFile(filepath.FromSlash(file))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, format, nil
	case err != nil:
		return nil, format, hub.Errorf(hub.CodeInvalid, op, "%w", err)
	case format == compat.FormatCustom && !isData(file):
		raw, err := json.Marshal(map[string]string{"text": string(text)})
		return raw, format, err
	}
	doc, err := compat.Read(text, &compat.ReadOptions{Format: format, Type: kind})
	if err != nil {
		return nil, format, hub.Errorf(hub.CodeInvalid, op, "%s: %v", file, err)
	}
	if _, ok := doc.Value().(map[string]any); !ok {
		return nil, format, hub.Errorf(hub.CodeInvalid, op, "%s: line %d: the content of a contract is an object", file, doc.Line(""))
	}
	raw, err := json.Marshal(doc.Value())
	return raw, doc.Format(), err
}

// isData reports whether a file has a value as JSON or YAML, by its name.
func isData(file string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(file)))
}

// write writes the content of a contract to a file.
func (f *Folder) write(file string, content json.RawMessage) error {
	text, err := render(file, content)
	if err != nil {
		return err
	}
	file = filepath.FromSlash(file)
	if err := f.root.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return f.root.WriteFile(file, text, 0o644)
}

// render returns a content as the text of a file: YAML or JSON by the name of the file, or the
// text of a custom file.
func render(file string, content json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	members, _ := value.(map[string]any)
	if text, ok := members["text"].(string); ok && len(members) == 1 && !isData(file) {
		return []byte(text), nil
	}
	if ext := strings.ToLower(filepath.Ext(file)); ext == ".yaml" || ext == ".yml" {
		return strictyaml.Encode(value)
	}
	out, err := json.MarshalIndent(value, "", "  ")
	return append(out, '\n'), err
}

// locked returns the entry of the lock file for a contract.
func (f *Folder) locked(name string) (Locked, bool) {
	i := slices.IndexFunc(f.Lock.Contracts, func(l Locked) bool { return l.Name == name })
	if i < 0 {
		return Locked{}, false
	}
	return f.Lock.Contracts[i], true
}

// setLocked replaces the entry of the lock file for a contract.
func (f *Folder) setLocked(l Locked) {
	f.Lock.Contracts = slices.DeleteFunc(f.Lock.Contracts, func(old Locked) bool { return old.Name == l.Name })
	f.Lock.Contracts = append(f.Lock.Contracts, l)
	slices.SortFunc(f.Lock.Contracts, func(a, b Locked) int { return cmp.Compare(a.Name, b.Name) })
}

// writeLock writes the lock file, without contracts that the folder does not name any more.
func (f *Folder) writeLock() error {
	f.Lock.Contracts = slices.DeleteFunc(f.Lock.Contracts, func(l Locked) bool {
		isProvided := slices.ContainsFunc(f.Provides, func(p Provided) bool { return p.Name == l.Name })
		isUsed := slices.ContainsFunc(f.Uses, func(u Used) bool { return u.Name == l.Name })
		return !isProvided && !isUsed
	})
	text, err := json.MarshalIndent(f.Lock, "", "  ")
	if err != nil {
		return err
	}
	return f.root.WriteFile(LockName, append(text, '\n'), 0o644)
}
