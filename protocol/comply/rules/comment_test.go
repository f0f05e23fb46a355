package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommentsOfChecks holds the comment above each check to the text of its rule: the
// ids mean nothing to a reader of the tables.
func TestCommentsOfChecks(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\t+\{rule: "([A-Z]+-[0-9]+)"`)
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		for line := range strings.Lines(string(source)) {
			line = strings.TrimRight(line, "\n")
			if m := row.FindStringSubmatch(line); m != nil {
				if want := "// " + m[1] + ": " + Find(m[1]).Text; strings.TrimSpace(before) != want {
					t.Errorf("%s: got %q above the check, want %q", name, strings.TrimSpace(before), want)
				}
			}
			before = line
		}
	}
}
