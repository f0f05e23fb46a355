package landing

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
)

// mergeMessage returns the message of the merge commit of an entry.
func mergeMessage(e hub.LandingEntry) string {
	text := fmt.Sprintf("Merge %s into %s\n\nParley-Landing: %s\nParley-Owner: %s\n", e.Ref, e.Into, e.ID, e.Owner)
	if e.Handoff != "" {
		text += fmt.Sprintf("Parley-Handoff: %s\n", e.Handoff)
	}
	if e.Task != "" {
		text += fmt.Sprintf("Parley-Task: %s\n", e.Task)
	}
	return text
}

// undoMessage returns the message of the commit that takes back a landing.
func undoMessage(e hub.LandingEntry) string {
	return fmt.Sprintf("Undo %s\n\nThis reverts the merge %s.\n\nParley-Landing: %s\nParley-Owner: %s\n", e.Undoes, e.Commit, e.ID, e.Owner)
}

// listed returns paths as a short list.
func listed(paths []string) string {
	const most = 3
	if len(paths) <= most {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:most], ", "), len(paths)-most)
}

// lastBytes returns the end of a text, from the beginning of a character.
func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}
