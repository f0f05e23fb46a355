package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may have none

	"github.com/parley-agents/parley/hub"
)

func TestClockText(t *testing.T) {
	zone := time.FixedZone("east", 5*3600+45*60)
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, zone)
	for _, tt := range []struct {
		name, want string
		at         time.Time
	}{
		{"today", "00:05", time.Date(2026, 3, 2, 0, 5, 0, 0, zone)},
		{"later today", "23:59", time.Date(2026, 3, 2, 23, 59, 0, 0, zone)},
		{"yesterday", "1 Mar 23:59", time.Date(2026, 3, 1, 23, 59, 0, 0, zone)},
		{"today in UTC only", "3 Mar 00:15", time.Date(2026, 3, 2, 18, 30, 0, 0, time.UTC).In(zone)},
		{"last year", "2025-12-31 23:59", time.Date(2025, 12, 31, 23, 59, 0, 0, zone)},
		{"the same day of another year", "2025-03-02 09:30", time.Date(2025, 3, 2, 9, 30, 0, 0, zone)},
		{"never", "-", time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := clockText(tt.at, now); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	t.Run("columns are aligned, and end at the last cell", func(t *testing.T) {
		var b bytes.Buffer
		writeTable(&b, "ID, STATE, TITLE", [][]any{{"h1", state("proposed"), "tab\tand\nline"}, {"h10", state("done"), ""}}, func(row []any) []any { return row })
		want := "ID   STATE     TITLE\nh1   proposed  tab and line\nh10  done\n"
		if b.String() != want {
			t.Errorf("got\n%swant\n%s", b.String(), want)
		}
	})
	t.Run("a time in a cell is that of the machine", func(t *testing.T) {
		at := hub.At(time.Date(2020, 1, 2, 3, 4, 0, 0, time.Local))
		if got := cellText(at); got != "2020-01-02 03:04" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("facts stand below each other, and no line of a value begins with a name", func(t *testing.T) {
		var f facts
		f.add("task", "T-1\nproof  verified")
		f.add("due", "")
		f.add("checks", "one")
		f.add("checks", "two")
		var b bytes.Buffer
		f.write(&b)
		if want := "  task    T-1\n          proof  verified\n  checks  one\n          two\n"; b.String() != want {
			t.Errorf("got\n%swant\n%s", b.String(), want)
		}
	})
	t.Run("a state has no colour where there is no terminal", func(t *testing.T) {
		var b bytes.Buffer
		if got := state("rejected, by bo").on(&b); got != "rejected, by bo" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("hashes are cut, and times of the hub are local", func(t *testing.T) {
		if got := cutHashes("at " + strings.Repeat("ab", 20) + ", not 12ab"); got != "at abababababab, not 12ab" {
			t.Errorf("got %q", got)
		}
		at := time.Date(2020, 1, 2, 3, 4, 0, 0, time.Local)
		if got := localTimes("approved at " + hub.At(at).String() + ", not 2020-01-01T00:00:00Z"); got != "approved at 2020-01-02 03:04, not 2020-01-01T00:00:00Z" {
			t.Errorf("got %q", got)
		}
	})
}

// Text for people has the time of their clock, short ids and cut hashes, and neither JSON nor
// colours; JSON has everything in full.
func TestPeopleRead(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Kathmandu") // three quarters of an hour off
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, "--unsafe-limits")
	artifact := write(t, "a.sql", "select 1")
	h.ok(h.operator("hub", "folder", "add", filepath.Dir(artifact)), nil)

	h.ok(h.as("planner", "send", "builder", "the schema is frozen"), nil) // m1
	h.ok(h.as("builder", "inbox"), nil)
	h.ok(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-1", "--title", "Add retry", "--summary", "s", "--next", "n", "--criterion", "old rows load", "--artifact", artifact, "--deadline", "4h"), nil)
	h.ok(h.as("builder", "handoff", "accept", "h1"), nil)
	h.ok(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-2", "--title", "Ship it", "--summary", "s", "--next", "n", "--criterion", "c", "--needs-approval"), nil)
	held := strings.Fields(h.as("builder", "send", "tester", "drop the table", "--human-gate", "required").out)[1]
	offer := strings.Fields(h.as("planner", "offer", "fix the build", "--to", "builder", "--respond-by", "2h").out)[1]
	h.ok(h.operator("team", "new", "auth", "--goal", "log in", "--members", "planner:coordinator,builder:executor", "--gate", "add"), nil)
	h.ok(h.as("planner", "team", "task", "auth", "rotate the keys", "--owner", "builder"), nil)
	h.ok(h.as("planner", "team", "decide", "auth", "keys last a day", "--because", "they leak"), nil)
	h.ok(h.as("planner", "team", "add", "auth", "tester"), nil)
	h.ok(h.as("planner", "workq", "claim", "app-1"), nil)

	program := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d|\x1b|[{}]|\b[0-9a-f]{40}`)
	longID := regexp.MustCompile(`(?m)^.*[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-.*$`)
	idLine := regexp.MustCompile(`^  id +[0-9a-f-]{36}$`)
	hubTime := regexp.MustCompile(`"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"`)
	for _, c := range []struct {
		command string
		want    []string
	}{
		{"show m1", []string{`m1 delivered: "the schema is frozen" from planner to builder`, "  planner sent it\n", "  builder fetched it\n"}},
		{"show h1", []string{`h1 activated: "Add retry" by builder for planner`, "  builder accepted\n", "handoff.initiate", "  due ", "  planner proposed\n", "> done when: old rows load\n", "a.sql, 8 bytes, sha256 "}},
		{"approve", []string{held + " held: status.update from builder to tester, sent ", `h2 proposed: "Ship it" by builder for planner`, "held: planner asks to add in the team auth", "  agent  tester\n"}},
		{"decide", []string{"decided ", ` by planner in team auth: "keys last a day"`, "  because  they leak\n"}},
		{"offer", []string{"ID ", "STATE ", offer + " "}},
		{"show " + offer, []string{`: "fix the build" from planner to builder`, "  until "}},
		{"team show auth", []string{"auth forming: 2 members, 1 assigned\n", "  goal ", "TASK ", "STATE ", "decided "}},
		{"team task auth T-3", []string{`T-3 assigned: "rotate the keys" by builder`, "  created "}},
		{"team log auth", []string{"team.created"}},
		{"workq list", []string{"ITEM ", "OWNER ", "SINCE\n"}},
		{"log --whole", []string{"m1 status.update from planner to builder, delivered, "}},
		{"inbox builder", []string{"m1 status.update from planner to builder, "}},
		{"hub folder", []string{"PATH ", "ADDED "}},
		{"hub operator list", []string{"SINCE"}},
	} {
		t.Run(c.command, func(t *testing.T) {
			args := append(strings.Fields(c.command), "--as-operator")
			text := do(t, parley(t, append(h.env(""), "TZ="+zone.String()), args...))
			h.ok(text, nil)
			contains(t, text.out, c.want...)
			if found := program.FindString(text.out); found != "" {
				t.Errorf("%q is not for people:\n%s", found, text.out)
			}
			for _, line := range longID.FindAllString(text.out, -1) {
				if !idLine.MatchString(line) {
					t.Errorf("a long id: %q", line)
				}
			}

			// JSON has the times in UTC; the text has one of them on the person's clock.
			full := h.operator(append(strings.Fields(c.command), "--json")...)
			h.ok(full, nil)
			found := false
			for _, m := range hubTime.FindAllStringSubmatch(full.out, -1) {
				at, err := time.Parse(time.RFC3339, m[1])
				if err != nil {
					t.Fatal(err)
				}
				found = found || strings.Contains(text.out, at.In(zone).Format("15:04"))
			}
			if !found {
				t.Errorf("no time of %s is in\n%s", full.out, text.out)
			}
		})
	}
	t.Run("the package is in JSON only", func(t *testing.T) {
		contains(t, h.operator("show", "h1", "--json").out, `"package":{`, `"success_criteria":["old rows load"]`)
	})
	t.Run("a decision names its kind first", func(t *testing.T) {
		contains(t, h.operator("approve", "h2").out, "h2 approved: handoff from planner to builder\n")
		contains(t, h.operator("deny", held, "--because", "no").out, held+" denied: message from builder to tester\n")
		if got := h.operator("deny", "h2"); got.code == 0 || strings.Contains(got.err, "Z") {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
		contains(t, h.operator("log", "--undelivered").out, "ID ", "SENT ", "WHY ", "denied by the operator: no")
	})
	t.Run("runs are a list", func(t *testing.T) {
		if got := h.operator("run", "list").out; got != "no runs\n" {
			t.Errorf("got %q", got)
		}
	})
}
