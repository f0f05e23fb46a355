package web

import (
	"regexp"
	"strings"
	"testing"
)

// The page promises nothing by its form: no style sheet, script or template writes a tick, and the words
// for work that is over stand beside its state alone.
func TestNothingIsTickedBeforeItIsDone(t *testing.T) {
	ticks := regexp.MustCompile(`[\x{2705}\x{2611}\x{2713}\x{2714}]|\\27(05|13|14)|\\2611|&#(10003|10004|x2713|x2714);|&check;`)
	read := func(name string) string {
		t.Helper()
		raw, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for _, folder := range []string{"assets", "pages"} {
		all, err := files.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			name := folder + "/" + f.Name()
			if found := ticks.FindString(read(name)); found != "" {
				t.Errorf("%s has a tick: %q", name, found)
			}
			if strings.Contains(read(name), "reviewed by</span>") {
				t.Errorf("%s says that work was reviewed, beside the one who may review it", name)
			}
		}
	}
	if text := read("pages/entry.html"); !strings.Contains(text, `{{if eq .State "landed"}}landed as{{else}}had landed as{{end}}`) {
		t.Error("an entry that was undone is said to have landed")
	}
}
