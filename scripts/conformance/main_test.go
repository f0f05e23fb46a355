package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const listed = `
built R1-001..003   # two tests, one test, a test with two numbers
double R1-004 - a stand-in
absent R1-005 - not begun
`

func ended(action, test string) string {
	return `{"Action":"` + action + `","Package":"github.com/parley-agents/parley/x","Test":"` + test + `"}` + "\n"
}

// standIn is what a test says that has one.
func standIn(test string) string {
	return `{"Action":"attr","Package":"github.com/parley-agents/parley/x","Test":"` + test + `","Key":"stand-in","Value":"gateway"}` + "\n"
}

var passes = ended("pass", "TestA/R1-001_a_rule_with_a/slash_in_it") + ended("pass", "TestA/R1-001_another") +
	ended("pass", "TestB/R1-002_R1-003_one_test_for_two") + standIn("TestC") + ended("pass", "TestC/R1-004_x") + ended("pass", "TestD")

// files writes each text to a file, and returns their names.
func files(t *testing.T, texts ...string) (names []string) {
	t.Helper()
	for i, text := range texts {
		names = append(names, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err := os.WriteFile(names[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestConformance(t *testing.T) {
	table := filepath.Join(t.TempDir(), "table.md")
	var out bytes.Buffer
	if err := run(files(t, passes), &out, options{list: listed, table: table, write: true}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"5 requirements: 3 met, 0 differ, 1 met against a double only, 1 not built.",
		"| R1-001 | met | another |",
		"| R1-002 | met | one test for two |",
		"| R1-003 | met | one test for two |",
		"| R1-004 | met against a double only | x; a stand-in |",
		"| R1-005 | not built | not begun |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the table has no line %q:\n%s", want, text)
		}
	}
	t.Run("a true table is accepted", func(t *testing.T) {
		if err := run(files(t, passes), &out, options{list: listed, table: table}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a table stays true when a row has more tests, and they do not change it", func(t *testing.T) {
		more := ended("pass", "TestA/R1-001_a") + passes + ended("pass", "TestZ/R1-001_a_third")
		if err := run(files(t, more), &out, options{list: listed, table: table}); err != nil {
			t.Error(err)
		}
		copied := filepath.Join(t.TempDir(), "table.md")
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(files(t, more), &out, options{list: listed, table: copied, write: true}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%v; the table was written otherwise:\n%s", err, got)
		}
	})
	t.Run("a row keeps its test when its state changes, and a test without words is named last", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "table.md")
		named := strings.ReplaceAll(string(text), "| R1-001 | met | another |", "| R1-001 | met | a rule with a/slash in it |")
		if err := os.WriteFile(copied, []byte(named), 0o600); err != nil {
			t.Fatal(err)
		}
		list := strings.Replace(listed, "built R1-001..003", "differs R1-001 - with an exception\nbuilt R1-002..003", 1)
		events := passes + ended("pass", "TestA/R1-001_") + ended("pass", "TestA/R1-002_")
		if err := run(files(t, events), &out, options{list: list, table: copied, write: true}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(copied)
		for _, want := range []string{"| R1-001 | differs | a rule with a/slash in it; with an exception |", "| R1-002 | met | one test for two |"} {
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("%v; the table has no line %q:\n%s", err, want, got)
			}
		}
		if err := os.WriteFile(copied, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(files(t, events), &out, options{list: list, table: copied, write: true}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(copied); err != nil || strings.Contains(string(got), "| met |  |") {
			t.Errorf("%v; a test without words is named:\n%s", err, got)
		}
	})
	t.Run("a table that names a test that went is stale, except where tests are missing", func(t *testing.T) {
		other := strings.Replace(passes, "R1-001_another", "R1-001_an_other", 1)
		if err := run(files(t, other), &out, options{list: listed, table: table}); err == nil || !strings.Contains(err.Error(), "R1-001 is met | an other, the table says met | another") {
			t.Errorf("got %v, want the row", err)
		}
		if err := run(files(t, other), &out, options{list: listed, table: table, partial: true}); err != nil {
			t.Errorf("some tests: %v", err)
		}
	})
	t.Run("on a machine that lacks a part, skipped tests say nothing", func(t *testing.T) {
		some := passes + ended("skip", "TestE/R1-003_more")
		all := strings.Replace(passes, ended("pass", "TestB/R1-002_R1-003_one_test_for_two"), ended("skip", "TestB/R1-002_R1-003_one_test_for_two"), 1)
		for name, events := range map[string]string{"some of a row": some, "all of a row": all} {
			if err := run(files(t, events), &out, options{list: listed, table: table, partial: true}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := run(files(t, events), &out, options{list: listed, table: filepath.Join(t.TempDir(), "t"), write: true, partial: true}); err == nil {
				t.Errorf("%s: the table was written", name)
			}
		}
		if err := run(files(t, passes+ended("fail", "TestE/R1-003_more")), &out, options{list: listed, table: table, partial: true}); err == nil {
			t.Error("a failed test was not found")
		}
	})
	t.Run("several files are one result", func(t *testing.T) {
		half := strings.Index(passes, "\n") + 1
		if err := run(files(t, passes[:half], passes[half:]), &out, options{list: listed, table: table}); err != nil {
			t.Error(err)
		}
		if err := run(files(t, passes, ended("fail", "TestE")), &out, options{list: listed, table: table}); err == nil {
			t.Error("a failed test in the second file was not found")
		}
	})
	for _, tt := range []struct{ name, events, list, want string }{
		{"a row whose test went", strings.Replace(passes, "R1-002_R1-003", "R1-003", 1), listed, "R1-002 (no test)"},
		{"a row whose test failed", passes + ended("fail", "TestE/R1-003_more"), listed, "tests failed"},
		{"a row whose test was skipped", passes + ended("skip", "TestE/R1-003_more"), listed, "R1-003 (skip: more)"},
		{"a row that is built by now", passes + ended("pass", "TestE/R1-005_x"), listed, "R1-005 (has a test, and is listed as not built)"},
		{"a number that is none", passes + ended("pass", "TestE/R1-006_x"), listed, "R1-006 (not in the list of requirements)"},
		{"a table that says less", passes, strings.Replace(listed, "double R1-004 - a stand-in", "built R1-004", 1), "R1-004 (every test has a stand-in, and it is listed as built)"},
		{"a row whose tests have a stand-in", standIn("TestB") + passes, listed, "R1-002 (every test has a stand-in, and it is listed as built)"},
		{"a row that has a test without a stand-in", passes + ended("pass", "TestE/R1-004_real"), listed, "R1-004 (has a test without a stand-in, and is listed as double)"},
		{"a table that lacks a row", passes, listed + "absent R1-007 - x\n", "R1-007 is not built | x, the table says not listed"},
		{"a failed test without a number", passes + ended("fail", "TestE"), listed, "tests failed"},
		{"a list that names a row twice", passes, listed + "built R1-001\n", "R1-001 is listed twice"},
		{"a state that is none", passes, "done R1-001\n", "a line is a state"},
		{"a state without a reason", passes, "absent R1-001\n", "a line is a state"},
		{"a range that is empty", passes, "built R1-005..001\n", "empty range"},
		{"output that is cut off", passes[:len(passes)-4], listed, "unexpected"},
	} {
		t.Run(tt.name+" is found", func(t *testing.T) {
			err := run(files(t, tt.events), &out, options{list: tt.list, table: table})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("the output of a failed test is shown, and that of others is not", func(t *testing.T) {
		out.Reset()
		events := `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestB","Output":"why\n"}` + "\n" +
			`{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB"}` + "\n" + `{"Action":"output","Package":"p","Output":"FAIL\tp\n"}` + "\n"
		run(files(t, events), &out, options{list: listed, table: table})
		if got := out.String(); got != "why\nFAIL\tp\n" {
			t.Errorf("output: got %q", got)
		}
	})
}

// TestStill has a lane write nothing.
func TestStill(t *testing.T) {
	begun := func(test string) string {
		return `{"Action":"run","Package":"p","Test":"` + test + `"}` + "\n"
	}
	for _, tt := range []struct{ name, events, want string }{
		{"a lane whose tests stand still is ended, and they are named", begun("TestA") + begun("TestB") + begun("TestB/x") + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n", "these tests run:\n  p TestB/x\n"},
		{"a lane that compiles is not", `{"Action":"start","Package":"p"}` + "\n", ""},
		{"a lane between two packages is not", begun("TestA") + `{"Action":"pass","Package":"p"}` + "\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &bytes.Buffer{}
				in, lane := io.Pipe()
				ended := ""
				r := &results{out: out, found: map[string][]result{}, standIns: map[string]bool{}, end: func(name string) { ended = name }}
				done := make(chan error)
				go func() { done <- r.follow("rest", in) }()
				io.WriteString(lane, tt.events)
				<-time.After(stillFor - time.Second)
				synctest.Wait()
				if ended != "" {
					t.Errorf("%q was ended early", ended)
				}
				<-time.After(2 * time.Second)
				synctest.Wait()
				isEnded := tt.want != ""
				if (ended == "rest") != isEnded || r.failed != isEnded || !strings.Contains(out.String(), tt.want) {
					t.Errorf("ended %q, failed %t, printed %q; want %q", ended, r.failed, out, tt.want)
				}
				lane.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestList reads the list of this repository.
func TestList(t *testing.T) {
	rows, err := parse(requirements)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 384 {
		t.Errorf("got %d requirements, want 384", len(rows))
	}
}
