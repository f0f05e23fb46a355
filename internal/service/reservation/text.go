package reservation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/shorten"
)

// spoken returns a duration as people say it: 12 min, 3 h.
func spoken(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(1, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

func shortened(text string) string { return shorten.Bytes(text, maxText) }

// heldText is read by a model after the words of its CLI about a refused call.
func heldText(denied []Denial, now hub.Time) string {
	ask, free := "it", "the file is"
	if len(holders(denied)) > 1 {
		ask = "them"
	}
	if len(denied) > 1 {
		free = "they are"
	}
	return fmt.Sprintf("%s. Ask %s with acp_send, or work on something else: you get a message when %s free.", changedBy(denied, now), ask, free)
}

// WaitsText says which agent has a pattern that another one reserved, and when it is its turn.
func WaitsText(r Reserved) string {
	switch len(r.Behind) {
	case 0:
		return fmt.Sprintf("you are next for %s", r.Pattern)
	case 1:
		return fmt.Sprintf("%s has %s; you are next", r.Behind[0], r.Pattern)
	}
	return fmt.Sprintf("%s has %s; %d wait before you", r.Behind[0], r.Pattern, len(r.Behind)-1)
}

// maxHolders is the number of holders that a denial names.
const maxHolders = 3

// holders returns the first denial of each holder.
func holders(denied []Denial) (out []Denial) {
	for _, d := range denied {
		if !slices.ContainsFunc(out, func(o Denial) bool { return o.Holder == d.Holder }) {
			out = append(out, d)
		}
	}
	return out
}

// ownOf returns the denials of one holder.
func ownOf(denied []Denial, holder hub.AgentID) []Denial {
	return slices.DeleteFunc(slices.Clone(denied), func(d Denial) bool { return d.Holder != holder })
}

// changedBy says which files each holder changes: the first one, and the number of the others.
func changedBy(denied []Denial, now hub.Time) string {
	var parts []string
	for _, first := range holders(denied) {
		if len(parts) == maxHolders {
			parts = append(parts, "and others")
			break
		}
		parts = append(parts, fmt.Sprintf("%s%s is being changed by %s for %s%s", first.Path, more(ownOf(denied, first.Holder)), first.Holder, spoken(now.Sub(first.Since.Time)), forTask(first)))
	}
	return strings.Join(parts, ", ")
}

func commitText(denied []Denial, now hub.Time) string {
	return fmt.Sprintf("%s: commit your own files only (git restore --staged %s takes it out of the index).", changedBy(denied, now), denied[0].Path)
}

func shellText(denied []Denial, list []touch, now hub.Time) string {
	d := denied[0]
	does := "would change"
	for _, t := range list {
		if t.name == d.Path {
			does = t.does
			break
		}
	}
	whose := ""
	names := []string{}
	for i, h := range holders(denied) {
		if i == maxHolders {
			break
		}
		if i > 0 {
			whose += fmt.Sprintf(", and %s, which %s has", h.Path, h.Holder)
		}
		names = append(names, string(h.Holder))
	}
	return fmt.Sprintf("this command %s %s%s, which %s has been changing for %s%s%s. Name your own files in the command, or ask %s with acp_send.",
		does, d.Path, more(ownOf(denied, d.Holder)), d.Holder, spoken(now.Sub(d.Since.Time)), forTask(d), whose, strings.Join(names, " and "))
}

func more(denied []Denial) string {
	if len(denied) == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(denied)-1)
}

func forTask(d Denial) string {
	if d.Task == "" {
		return ""
	}
	return " (" + d.Task + ")"
}

func staleText(name string, s staleness, now hub.Time) string {
	return shortened(fmt.Sprintf("%s was changed by %s %s ago, after you last read it: read it again, then edit", name, s.by, spoken(now.Sub(s.at.Time))))
}

func orphanText(r hub.Reservation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s left changes in %s that are not committed", r.Holder, r.Path)
	if r.Lines > 0 {
		fmt.Fprintf(&b, " (%d lines)", r.Lines)
	}
	fmt.Fprintf(&b, "; parley files show %s has the difference", r.Path)
	return b.String()
}

func overlapText(other hub.AgentID, name, tree string) string {
	return fmt.Sprintf("%s changes %s, too, in %s: expect a merge conflict", other, name, tree)
}

// violationText is told to both agents and to the operator. That a file changed while an agent
// ran a command does not prove that the command changed it. line brings the content back, if it is not
// empty.
func violationText(v violation, line string) string {
	back := ""
	if line != "" {
		back = "; it is kept: " + line + " brings it back"
	}
	if v.during {
		return fmt.Sprintf("%s, which %s holds, changed while a command of %s ran%s", some(v.names), v.holder, v.by, back)
	}
	return fmt.Sprintf("%s changed %s, which %s holds%s", v.by, some(v.names), v.holder, back)
}

// restoredText is told to a holder and to the operator.
func restoredText(whose string, names []string) string {
	return fmt.Sprintf("%s changes in %s are not in the working tree any more and were not committed as they were; the hub saw no agent's command run, so a person or a landing did it", whose, some(names))
}

// some names the first file and the number of the others.
func some(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}
