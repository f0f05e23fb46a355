// Package schema holds the published JSON Schemas (2020-12): of the message
// protocol the envelope, the payload of each type, the handoff package and the
// teamspace manifest; the report of parley comply; and the file of parley prove
// with the predicates of its statements.
//
// Each schema is complete in itself and refers to no other. They say all that
// the schema language can: that names occur once, that text is valid UTF-8 and
// how many bytes a payload has is checked by the reader of the JSON.
//
// The package compiles and validates nothing; any validator will do, with
// formats as annotations only.
package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.schema.json attestation/*.schema.json payload/*.schema.json
var files embed.FS

const suffix = ".schema.json"

// Names returns the name of every schema, sorted: "comply-report", "envelope",
// "handoff-package", "payload/status.update", "teamspace" and so on.
func Names() []string {
	var names []string
	// Walking embedded files cannot fail.
	_ = fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, suffix); ok {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names
}

// Text returns the schema of that name as it is published.
func Text(name string) ([]byte, error) {
	b, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("schema: there is no schema %q", name)
	}
	return b, nil
}
