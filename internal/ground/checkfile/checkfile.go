// Package checkfile reads the checks that a repository proposes in its file parley.yaml. A
// proposal is no permission: the hub runs nothing of it before the operator trusts it.
//
// The file is the one that declares agents for "parley up", which reads the checks with the
// same types and ignores them. The package is tested here, and through "parley check trust".
package checkfile

import (
	"maps"
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/digest"
	"github.com/parley-agents/parley/internal/ground/strictyaml"
)

// Name is the file at the top of a repository.
const Name = "parley.yaml"

// Checks are the checks of a file: a list whose entries have names, or a map by name.
type Checks []Check

// A Check is one proposed check.
type Check struct {
	Name     string            `yaml:"name"`
	Command  Command           `yaml:"command"`
	Timeout  strictyaml.Period `yaml:"timeout"`
	Setup    Command           `yaml:"setup"`
	SetupKey []string          `yaml:"setup_key"`
	Keep     []string          `yaml:"keep"`
	Env      map[string]string `yaml:"env"`
	Writable []string          `yaml:"writable"`
	Network  *bool             `yaml:"network"`
	Required bool              `yaml:"required"`
	When     []string          `yaml:"when"`
	JUnit    string            `yaml:"junit"`
	InPlace  bool              `yaml:"in_place"`
}

// A Command is a list of a program and its arguments, or one line for sh -c.
type Command []string

// UnmarshalYAML reads a list, or a line.
func (c *Command) UnmarshalYAML(unmarshal func(any) error) error {
	var line string
	if unmarshal(&line) == nil {
		*c = Line(line)
		return nil
	}
	return unmarshal((*[]string)(c))
}

// Line returns the command that runs one line of a shell.
func Line(text string) Command {
	if text == "" {
		return nil
	}
	return Command{"sh", "-c", text}
}

// UnmarshalYAML reads a list, or a map by name.
func (c *Checks) UnmarshalYAML(unmarshal func(any) error) error {
	var list []any
	if unmarshal(&list) == nil {
		return unmarshal((*[]Check)(c))
	}
	byName := map[string]Check{}
	if err := unmarshal(&byName); err != nil {
		return err
	}
	*c = nil
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		one := byName[name]
		one.Name = name
		*c = append(*c, one)
	}
	return nil
}

// Tests are the checks of a repository that are its tests of contracts: by the contract, its
// name or its id, the name of the check.
type Tests map[string]string

// A File holds what a repository proposes.
type File struct {
	Checks        Checks
	ContractTests Tests
}

// IsEmpty reports whether the file proposes nothing.
func (f File) IsEmpty() bool { return len(f.Checks) == 0 && len(f.ContractTests) == 0 }

// Parse returns what the content of a file proposes. Errors are CodeInvalid and name the line.
func Parse(path string, raw []byte) (File, error) {
	var file struct {
		Checks        Checks `yaml:"checks"`
		ContractTests Tests  `yaml:"contract_tests"`
		Agents        any    `yaml:"agents"` // those of "parley up", and teams
		Teams         any    `yaml:"teams"`
	}
	err := strictyaml.DecodeOnly(path, raw, &file)
	return File{file.Checks, file.ContractTests}, err
}

// Digest returns the SHA-256, in hexadecimal, of everything that the file proposes.
func (f File) Digest() string {
	d := digest.New("checks of a file")
	d.JSON(f.Checks)
	if len(f.ContractTests) > 0 {
		d.JSON(f.ContractTests)
	}
	return d.Hex()
}

// Of returns the checks as those of a repository.
func (c Checks) Of(r hub.Repository) (out []hub.RepositoryCheck) {
	for _, one := range c {
		out = append(out, hub.RepositoryCheck{
			Repository: r, Name: one.Name, Command: one.Command, Setup: one.Setup, SetupKey: one.SetupKey, Keep: one.Keep, Env: one.Env, Writable: one.Writable,
			Timeout: hub.Duration(one.Timeout), Network: one.Network, Required: one.Required, When: one.When, JUnit: one.JUnit, InPlace: one.InPlace, Trusted: true,
		})
	}
	return out
}
