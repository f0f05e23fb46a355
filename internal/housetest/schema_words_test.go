package housetest_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// otherWords lists the constraints whose words are not all constants of one type, each with the reason.
var otherWords = map[string]string{
	"short_ids.kind":             "the letters of the first short ids; later kinds are numbered by their own tables",
	"handoff_meta.ownership":     "pending is of tasks alone, and no item is stored as empty",
	"reservations.state":         "the state over is that of a row that is gone",
	"runs.verdict":               "a claimed verdict has a column of its own",
	"contract_versions.standing": "words of the tables alone, which the engines' common part names",
	"team_held.verdict":          "the answer of a person, which the service names",
	"team_conflicts.state":       "a conflict's column knows open from over; its body has the state, also clean and abandoned",
}

// TestSchemaRepeatsGo compares the words that the tables of SQLite allow in a column with the constants of
// the type that is stored there. PostgreSQL's tables are compared with SQLite's in its own package.
func TestSchemaRepeatsGo(t *testing.T) {
	raw, err := os.ReadFile("internal/housetest/testdata/stored-words.txt")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		kind, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		word, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if types[kind] == nil {
			types[kind] = map[string]bool{}
		}
		types[kind][word] = true
	}

	schema, err := os.ReadFile("internal/engine/sqlite/schema/whole.sql")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^CREATE TABLE "?(\w+)"?`)
	lists := regexp.MustCompile(`(\w+) IN ?\(('[^)]*)\)`)
	found, used := 0, map[string]bool{}
	for statement := range strings.SplitSeq(string(schema), ";\n\n") {
		table := name.FindStringSubmatch(strings.TrimSpace(statement))
		if table == nil {
			continue
		}
		for _, list := range lists.FindAllStringSubmatch(statement, -1) {
			if list[1] == "NOT" {
				continue
			}
			found++
			words := map[string]bool{}
			for word := range strings.SplitSeq(list[2], ",") {
				words[strings.Trim(strings.TrimSpace(word), "'")] = true
			}
			column := table[1] + "." + list[1]
			used[column] = true
			if otherWords[column] == "" && !isSomeType(types, words) {
				t.Errorf("%s allows %v, which are the constants of no type: a list in Go has changed, and a migration is missing",
					column, slices.Sorted(maps.Keys(words)))
			}
		}
	}
	for column := range otherWords {
		if !used[column] {
			t.Errorf("%s has a reason, and no list in the schema", column)
		}
	}
	if found < 30 {
		t.Errorf("%d lists of words were found in the schema", found)
	}
}

// isSomeType reports whether words are those of a type of Go, an empty one aside.
func isSomeType(types map[string]map[string]bool, words map[string]bool) bool {
	words = maps.Clone(words)
	delete(words, "")
	for _, constants := range types {
		constants = maps.Clone(constants)
		delete(constants, "")
		if maps.Equal(constants, words) {
			return true
		}
	}
	return false
}
