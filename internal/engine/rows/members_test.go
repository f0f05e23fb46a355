package rows

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// A rowOf is a row in memory: the parameters that were bound to a statement, read again as columns.
type rowOf struct{ values []any }

func (r *rowOf) bind(param int, v any) error {
	for len(r.values) < param {
		r.values = append(r.values, nil)
	}
	r.values[param-1] = v
	return nil
}

func (r *rowOf) BindText(param int, v string) error { return r.bind(param, v) }
func (r *rowOf) BindInt64(param int, v int64) error { return r.bind(param, v) }
func (r *rowOf) BindNull(param int) error           { return r.bind(param, nil) }
func (r *rowOf) Exec() error                        { return nil }
func (r *rowOf) Step() bool                         { return false }
func (r *rowOf) Err() error                         { return nil }
func (r *rowOf) Reset() error                       { return nil }
func (r *rowOf) ColumnRawText(col int) []byte       { return []byte(r.ColumnText(col)) }

func (r *rowOf) ColumnText(col int) string {
	text, _ := r.values[col].(string)
	return text
}

func (r *rowOf) ColumnInt64(col int) int64 {
	n, _ := r.values[col].(int64)
	return n
}

// words are values that a type must have to be read again.
var words = map[string]string{
	"hub.CheckResultID":  "c7",
	"hub.LandingID":      "l7",
	"hub.ReviewID":       "r7",
	"hub.ContinuationID": "k7",
	"hub.RescueID":       "s7",
	"hub.KeptID":         "s8",
	"hub.ScheduleID":     "e7",
	"hub.TaskID":         "T-7",
}

// fill gives every exported member of a value a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *hub.Time:
		*at = hub.Time{Time: time.Date(2026, 3, 1, 12, 0, *n%60, *n*1000000, time.UTC)}
		return
	case *coord.Instant:
		*at = coord.InstantMicro(int64(1_760_000_000_000_000 + *n))
		return
	case *json.RawMessage:
		*at = fmt.Appendf(nil, `{"n":%d}`, *n)
		return
	}

	switch v.Kind() {
	case reflect.String:
		text := words[v.Type().String()]
		if text == "" {
			text = fmt.Sprintf("w%d", *n)
		}
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	}
}

// membersOf returns the values of all members of a noun by their paths.
func membersOf(v reflect.Value, path string, into map[string]string) {
	switch at := v.Interface().(type) {
	case hub.Time:
		into[path] = at.String()
		return
	case coord.Instant:
		into[path] = fmt.Sprint(at.Micro())
		return
	case json.RawMessage:
		into[path] = string(at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			into[path] = "nothing"
			return
		}
		membersOf(v.Elem(), path, into)
	case reflect.Slice:
		if v.Len() == 0 {
			into[path] = "nothing"
		}
		for i := range v.Len() {
			membersOf(v.Index(i), path, into)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				membersOf(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), into)
			}
		}
	default: // maps, too: they are printed in the order of their keys
		into[path] = fmt.Sprint(v.Interface())
	}
}

// A noun is a table with its name, and a function that stores and reads a filled noun.
type noun struct {
	name  string
	again func(t *testing.T) (want, got map[string]string)
}

// of returns the noun of a table.
func of[T any](table *table[T]) noun {
	return noun{table.name, func(t *testing.T) (want, got map[string]string) {
		var stored, read T
		n := 0
		fill(reflect.ValueOf(&stored).Elem(), &n)
		row := &rowOf{}
		bound := codec{q: &query{s: row}, r: NewReader(nil)}
		table.fields(&bound, &stored)
		if bound.q.err != nil {
			t.Fatal(bound.q.err)
		}
		if len(row.values) != len(table.columns) {
			t.Errorf("%d columns, and %d values are bound", len(table.columns), len(row.values))
		}

		found := codec{s: row, r: NewReader(nil)}
		table.fields(&found, &read)
		if found.err != nil {
			t.Fatal(found.err)
		}
		want, got = map[string]string{}, map[string]string{}
		membersOf(reflect.ValueOf(stored), "", want)
		membersOf(reflect.ValueOf(read), "", got)
		return want, got
	}}
}

// notStored lists the members that a row does not have, each with the reason.
var notStored = map[string]string{
	"peers.Grants.Evidence": "bounds are of project tokens, whose rows have them",
	"projects.Tally":        "counts that are made when a project is read",
	"contracts.History":     "versions have rows of their own",
	"contracts.Conflicts":   "versions have rows of their own",
	"runs.Verdict":          "a claimed verdict is in a column of its own, and its word follows from that",
	"runs.VerdictNote":      "a sentence that follows from the members beside it",
}

// reasonOf returns the entry of notStored for a member or for what it is part of.
func reasonOf(member string) string {
	for ; member != ""; member = member[:max(strings.LastIndex(member, "."), 0)] {
		if notStored[member] != "" {
			return member
		}
	}
	return ""
}

// nouns are all tables of the engines' common part.
var nouns = []noun{
	of(agents), of(keys), of(teamArtifacts), of(artifactVersions), of(conflicts), of(repositoryChecks), of(checkPolicies),
	of(checkResults), of(progresses), of(continuations), of(rescues), of(keptWorks), of(deliberations), of(decisions), of(eventSources), of(treeTiles), of(treeCheckpoints),
	of(schedules), of(handoffSteps), of(landingPolicies), of(landings), of(reviews), of(changes), of(peers), of(outboxes),
	of(deadLetters), of(invites), of(tokens), of(projects), of(contracts), of(packets), of(fileRequests), of(reservations),
	of(fileWaits), of(fileViews), of(fileNotes), of(contractResults), of(deployments), of(contractVerdicts), of(roots),
	of(runs), of(subscriptions), of(copies), of(tasks), of(teams), of(members), of(heldActions), of(usages), of(budgets), of(wakes),
}

// TestEveryMemberIsStored fills every member of every noun, binds it to a row as an engine does, and
// reads the row: a member that a table forgot is named.
func TestEveryMemberIsStored(t *testing.T) {
	used := map[string]bool{}
	for _, one := range nouns {
		t.Run(one.name, func(t *testing.T) {
			want, got := one.again(t)
			for path, value := range want {
				if got[path] == value {
					continue
				}
				reason := reasonOf(one.name + "." + path)
				used[reason] = true
				if reason == "" {
					t.Errorf("%s is stored as %s and read as %q: add it to the table, or to notStored with the reason", path, value, got[path])
				}
			}
		})
	}
	for member := range notStored {
		if !used[member] {
			t.Errorf("%s is stored, and notStored says that it is not", member)
		}
	}
}

// TestEveryTableIsInTheList holds that a new table is in the list above.
func TestEveryTableIsInTheList(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"event_deliveries": true, "contract_versions": true} // rows without a noun of their own
	for _, one := range nouns {
		listed[one.name] = true
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 4 {
				return true
			}
			called, isName := call.Fun.(*ast.Ident)
			name, isText := call.Args[0].(*ast.BasicLit)
			if isName && isText && called.Name == "newTable" && !listed[strings.Trim(name.Value, `"`)] {
				t.Errorf("the table %s is not in the list of nouns", name.Value)
			}
			return true
		})
	}
}
