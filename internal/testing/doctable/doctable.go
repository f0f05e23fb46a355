// Package doctable keeps the tables of documents that are made from the rows of tests.
//
// It has no tests of its own.
package doctable

import (
	"os"
	"strings"
	"testing"
)

// Check fails the test unless a document has a table between the comments <!-- name --> and
// <!-- /name -->, as text with a line feed at its end. With update it writes the table there.
func Check(t *testing.T, path, name, table string, update bool) {
	t.Helper()
	begin := "<!-- " + name + " -->\n"
	end := "<!-- /" + name + " -->\n"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table %s", path, name)
	}
	want := before + begin + table + end + after
	if want == string(raw) {
		return
	}
	if !update {
		t.Fatalf("the table %s in %s is not that of the code; run the test with -update", name, path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
