package main

import (
	"regexp"
	"testing"
)

// What a decision is about is shown before the question, by whichever id it is named.
func TestApproveShowsWhatItIsAbout(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.ok(h.operator("team", "new", "gated", "--goal", "careful", "--members", "planner:coordinator", "--gate", "add"), nil)
	short := regexp.MustCompile(`\b(?:m|h)[0-9]+\b`)
	for _, c := range []struct{ name, shows string }{
		{short.FindString(h.as("planner", "send", "builder", "drop the table", "--human-gate", "required").out), "drop the table"},
		{short.FindString(h.as("planner", "handoff", "new", "--to", "builder", "--task", "T-3", "--title", "move the users", "--summary", "s", "--next", "n", "--criterion", "c", "--needs-approval").out), "move the users"},
		{short.FindString(h.as("planner", "team", "add", "gated", "builder").out), "planner asks to add in the team gated"},
	} {
		t.Run(c.shows, func(t *testing.T) {
			s := sit(t, parley(t, h.env(""), "deny", c.name))
			s.types(t, "Deny it? [y/N] ", "n\n")
			code, screen := s.leaves(t)
			contains(t, screen, c.shows, "nothing was changed")
			if code != exitDone {
				t.Errorf("a no: exit %d\n%s", code, screen)
			}

			s = sit(t, parley(t, h.env(""), "approve", c.name))
			s.types(t, "Approve it? [y/N] ", "y\n")
			if code, screen := s.leaves(t); code != exitDone {
				t.Errorf("a yes: exit %d\n%s", code, screen)
			}
			if r := h.operator("approve", c.name); r.code != exitMissing {
				t.Errorf("a second yes: exit %d\n%s", r.code, r.err)
			}
		})
	}
	t.Run("an id of nothing is asked about and not found", func(t *testing.T) {
		s := sit(t, parley(t, h.env(""), "approve", "m99"))
		s.types(t, "Approve it? [y/N] ", "y\n")
		code, screen := s.leaves(t)
		contains(t, screen, `no message "m99" that you can see`)
		if code != exitMissing {
			t.Errorf("exit %d\n%s", code, screen)
		}
	})
}
