package workshop_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/workshop"
)

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountTests(t *testing.T) {
	for _, tt := range []struct {
		name, xml string
		want      workshop.Tests
		fails     bool
	}{
		{"one suite", `<testsuite><testcase name="a"/><testcase name="b"></testcase></testsuite>`, workshop.Tests{Total: 2}, false},
		{"nested suites", `<?xml version="1.0" encoding="UTF-8"?><testsuites><testsuite><testsuite><testcase/></testsuite><testcase><error/></testcase></testsuite></testsuites>`, workshop.Tests{Total: 2, Failed: 1}, false},
		{"failures and errors of one test count once", `<s><testcase><failure/><failure/><error/></testcase></s>`, workshop.Tests{Total: 1, Failed: 1}, false},
		{"a failed test is not a skipped one", `<s><testcase><skipped/><failure/></testcase></s>`, workshop.Tests{Total: 1, Failed: 1}, false},
		{"skipped", `<s><testcase><skipped message="later"/></testcase></s>`, workshop.Tests{Total: 1, Skipped: 1}, false},
		{"the totals that a file claims do not count", `<testsuite tests="41" failures="0"><testcase/></testsuite>`, workshop.Tests{Total: 1}, false},
		{"words in the output of a test do not count", `<s><testcase><system-out><failure/></system-out></testcase><system-out><![CDATA[<testcase/>]]></system-out></s>`, workshop.Tests{Total: 1}, false},
		{"a test in a test is not a second one", `<s><testcase><testcase/></testcase></s>`, workshop.Tests{Total: 1}, false},
		{"no tests", `<testsuite/>`, workshop.Tests{}, false},
		{"an empty file", ``, workshop.Tests{}, true},
		{"an element that does not end", `<s><testcase>`, workshop.Tests{}, true},
		{"elements that end in another order", `<s><testcase></s></testcase>`, workshop.Tests{}, true},
		{"entities", `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><s><testcase name="&b;"/></s>`, workshop.Tests{}, true},
		{"a file of the system as an entity", `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><s>&a;</s>`, workshop.Tests{}, true},
		{"deep nesting", strings.Repeat("<a>", 100_000), workshop.Tests{}, true},
		{"another encoding", `<?xml version="1.0" encoding="UTF-16"?><s/>`, workshop.Tests{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := workshop.CountXML(strings.NewReader(tt.xml))
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func FuzzCountTests(f *testing.F) {
	f.Add(`<testsuite><testcase><failure/></testcase></testsuite>`)
	f.Add(`<a><testcase/><b></a>`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := workshop.CountXML(strings.NewReader(text))
		if got.Failed+got.Skipped > got.Total || got.Total > len(text) || (err != nil && got != workshop.Tests{}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// Repositories take turns, even if one of them has asked for many runs before.
func TestQueueIsFair(t *testing.T) {
	q := workshop.NewQueue(1)
	place, err := workshop.Take(q, t.Context(), "busy")
	if err != nil || place != 1 {
		t.Fatalf("got %d, %v", place, err)
	}
	served := make(chan string)
	ask := func(name string) {
		before := workshop.Waiting(q)
		go func() {
			if _, err := workshop.Take(q, t.Context(), name); err == nil {
				served <- name
			}
		}()
		for workshop.Waiting(q) == before {
			runtime.Gosched()
		}
	}
	for _, name := range []string{"busy", "busy", "busy", "calm", "busy", "other"} {
		ask(name)
	}
	var got []string
	for range 6 {
		workshop.Give(q, 1)
		got = append(got, <-served)
	}
	if want := []string{"busy", "calm", "other", "busy", "busy", "busy"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A run that is cancelled while it waits leaves the queue.
func TestQueueIsLeft(t *testing.T) {
	q := workshop.NewQueue(1)
	if _, err := workshop.Take(q, t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := workshop.Take(q, ctx, "b")
		left <- err
	}()
	for workshop.Waiting(q) == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-left; err == nil || workshop.Waiting(q) != 0 {
		t.Errorf("got %v, %d wait", err, workshop.Waiting(q))
	}
	workshop.Give(q, 1)
	if place, err := workshop.Take(q, t.Context(), "c"); err != nil || place != 1 {
		t.Errorf("got %d, %v", place, err)
	}
}
