package acpv1

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Rules are further rules for a message, beyond those of the protocol.
type Rules struct {
	// Own is for messages that this program makes up, in contrast to those that
	// it hands on: every value of an enum and every variant must be one that
	// this version defines, or one of Extensions.
	Own        bool
	Extensions *Extensions

	// Closed names enums and unions that are treated as if they were closed.
	Closed []string
}

// IsClosed reports whether the enum or union of that name is in Closed.
func (r *Rules) IsClosed(name string) bool { return slices.Contains(r.Closed, name) }

// Extensions are the values that an implementation has added to enums and unions.
// The zero value has none. It is safe for concurrent use.
type Extensions struct {
	mu     sync.RWMutex // guards values
	values map[string]bool
}

// Register adds values of an enum, or tags of a union, given the name of its Go
// type. All must begin with _: the others belong to the protocol.
func (e *Extensions) Register(name string, values ...string) error {
	for _, v := range values {
		if !strings.HasPrefix(v, "_") {
			return fmt.Errorf("acp: register %q for %s: extensions begin with _", v, name)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.values == nil {
		e.values = map[string]bool{}
	}
	for _, v := range values {
		e.values[name+"\x00"+v] = true
	}
	return nil
}

// Registered reports whether a value was registered. An unknown value without _
// never was: it belongs to a future version of the protocol.
func (e *Extensions) Registered(name, value string) bool {
	if e == nil {
		return false
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.values[name+"\x00"+value]
}
