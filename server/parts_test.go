package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestParts holds that a part of the hub is whole: what can run is run, and what can be
// closed is closed.
func TestParts(t *testing.T) {
	t.Run("every part has a name of its own and does something", func(t *testing.T) {
		seen := map[string]bool{}
		for _, p := range new(Server).parts() {
			if p.Name == "" || seen[p.Name] || (p.Open == nil && p.Run == nil) {
				t.Errorf("part %q: its name is empty or taken, or it has nothing to open and to run", p.Name)
			}
			seen[p.Name] = true
		}
	})
	t.Run("every member of the server that can run is run by a part, and every one that can be closed is closed", func(t *testing.T) {
		source := ownSource(t)
		members := reflect.TypeFor[Server]()
		for i := range members.NumField() {
			member := members.Field(i)
			for method, others := range map[string]map[string]string{"Run": notRun, "Close": notClosed} {
				can := hasMethod(member.Type, method)
				called := strings.Contains(source, "s."+member.Name+"."+method+"(")
				reason, excepted := others[member.Name]
				switch {
				case can && !called && !excepted:
					t.Errorf("nothing calls s.%s.%s: add it to the list of parts", member.Name, method)
				case called && excepted:
					t.Errorf("s.%s.%s is called, though there is a reason not to: %s", member.Name, method, reason)
				}
			}
		}
	})
	t.Run("parts are closed once, in the opposite order, and no error is lost", func(t *testing.T) {
		var closed []string
		stuck := errors.New("stuck")
		s := &Server{}
		for _, name := range []string{"a", "b", "c"} {
			s.opened = append(s.opened, part{Name: name, Close: func() error {
				closed = append(closed, name)
				if name == "c" {
					return stuck
				}
				return nil
			}})
		}
		s.opened = append(s.opened, part{Name: "d", Run: func(context.Context) {}})
		if err := s.Close(); !errors.Is(err, stuck) {
			t.Errorf("got %v, want the error of a part", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if want := []string{"c", "b", "a"}; !slices.Equal(closed, want) {
			t.Errorf("got %v, want %v", closed, want)
		}
	})
}

// notRun are members of the server with a method Run that nothing calls, with the reason.
var notRun = map[string]string{
	"distant": "it has the method of the inspector, which is a part of its own",
}

// notClosed are members of the server with a method Close that nothing calls, with the
// reason.
var notClosed = map[string]string{
	"sqlite":   "it is the store",
	"postgres": "it is the store",
	"records":  "its method closes the store, for records that are opened without a hub",
}

// hasMethod reports whether values of a type run with a context alone, or are closed
// without parameters.
func hasMethod(of reflect.Type, method string) bool {
	switch method {
	case "Run":
		return of.Implements(reflect.TypeFor[interface{ Run(context.Context) }]()) || of.Implements(reflect.TypeFor[interface{ Run(context.Context) error }]())
	default:
		return of.Implements(reflect.TypeFor[interface{ Close() }]()) || of.Implements(reflect.TypeFor[interface{ Close() error }]())
	}
}

// ownSource returns the source of this package without its tests.
func ownSource(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}
