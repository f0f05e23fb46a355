package main

import (
	"os"
	"strings"
	"testing"
)

// TestMap checks that the map in the documentation is that of the code.
func TestMap(t *testing.T) {
	const root = "../.."
	want, err := draw(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + "/" + page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), begin+want+end) {
		t.Errorf("the map in %s is not that of the code: go run ./scripts/housemap", page)
	}
}

// TestEveryPackageHasARoom checks that the picture leaves no package out, and that each says what it is.
func TestEveryPackageHasARoom(t *testing.T) {
	h, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range h.imports {
		if roomOf(pkg) == "" {
			t.Errorf("package %s lies in no room: give it one in the table of rooms", pkg)
		}
		if h.synopsis[pkg] == "" {
			t.Errorf("package %s has no comment that begins with Package or Command", pkg)
		}
	}
}
