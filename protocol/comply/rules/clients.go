package rules

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-agents/parley/protocol/acp/schema"
)

//go:embed clients.json
var clientFile []byte

//go:embed clients.txt
var clientExampleFile string

// clientPrefix begins the ids of the rules for clients.
const clientPrefix = "CL-"

// clientTable holds the rules for clients in the order of the file.
var clientTable = sync.OnceValue(func() []Rule {
	var rules []Rule
	if err := json.Unmarshal(clientFile, &rules); err != nil {
		panic(fmt.Sprintf("comply: the built-in rules for clients are broken: %v", err)) // a test would have shown
	}
	return rules
})

// ForClients returns the rules that the protocol asks of a client, where [All] returns those
// for agents. Their ids begin with CL-. Package protocol/comply/client has the tests that check them.
func ForClients() []Rule { return append([]Rule(nil), clientTable()...) }

// ForClient reports whether the rule is one for clients.
func (r Rule) ForClient() bool { return strings.HasPrefix(r.ID, clientPrefix) }

// Subject returns the word for the side that keeps the rule.
func (r Rule) Subject() string {
	if r.ForClient() {
		return "client"
	}
	return "agent"
}

// Departure returns where and how a value departs from a definition of the schema: a path
// with dots, and a text. Both are empty if it does not, or if there is no such definition.
func Departure(version schema.Version, definition string, value any) (path, text string) {
	if _, ok := version.Definition(definition); !ok {
		return "", ""
	}
	var bad *jsonschema.ValidationError
	if err := compiled(version, definition).Validate(value); !errors.As(err, &bad) {
		return "", ""
	}
	leaf := deepest(bad)
	return strings.Join(leaf.InstanceLocation, "."), strings.TrimPrefix(leaf.Error(), "jsonschema validation failed ")
}
