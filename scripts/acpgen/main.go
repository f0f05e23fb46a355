// Command acpgen makes the Go types of the Agent Client Protocol from its schemas.
//
//	acpgen reduce DIR   copies the schemas of an unpacked npm package in DIR to protocol/acp/schema,
//	                    structure only
//	acpgen generate     writes the Go types of protocol/acp/acpv1 and protocol/acp/acpv2 from those copies
//
// It is run in the root of the repository. The same input gives the same output.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "acpgen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "reduce":
		return reduceAll(args[1], ".")
	case len(args) == 1 && args[0] == "generate":
		return generateAll(".")
	}
	return errors.New("usage: acpgen reduce DIR | acpgen generate")
}

// versions are the versions of the protocol that are generated.
var versions = []int{1, 2}

// reduceAll writes the reduced copy of each version's schema.
func reduceAll(npm, root string) error {
	for _, v := range versions {
		name := "v" + strconv.Itoa(v)
		stable, err := os.ReadFile(filepath.Join(npm, "schema", name, "schema.json"))
		if err != nil {
			return err
		}
		unstable, err := os.ReadFile(filepath.Join(npm, "schema", name, "schema.unstable.json"))
		if err != nil {
			return err
		}
		out, err := reduce(stable, unstable)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, "protocol", "acp", "schema", name+".json"), out, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// generateAll writes the generated files of all versions.
func generateAll(root string) error {
	files, err := generated(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// generated returns the generated files of all versions, by path.
func generated(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var before *model
	var models []*model
	for _, v := range versions {
		name := "v" + strconv.Itoa(v)
		m, err := readModel(filepath.Join(root, "protocol", "acp", "schema", name+".json"), v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if before != nil {
			m.alias(before)
		}
		before = m
		models = append(models, m)
		for _, f := range m.files() {
			src, err := f.source(m)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", name, f.name, err)
			}
			files[filepath.Join(root, "protocol", "acp", "acp"+name, f.name)] = src
		}
	}
	choices, err := choiceTable(models)
	files[filepath.Join(root, "protocol", "acp", "schema", "choices_gen.go")] = choices
	return files, err
}

// readModel returns the model of one version.
func readModel(path string, version int) (*model, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return newModel(version, doc)
}
