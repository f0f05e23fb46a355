// Package nearest finds the name that a misspelled one was probably meant to
// be, for "did you mean" in messages.
package nearest

import (
	"cmp"
	"iter"
	"slices"
)

// maxLength bounds the bytes of a name that are compared, and so the cost of
// one comparison.
const maxLength = 64

// Name returns the first of Names, "" if there is none.
func Name[S ~string](name S, candidates iter.Seq[S]) S {
	for _, found := range Names(name, candidates, 1) {
		return found
	}
	return ""
}

// Names returns the candidates that are near to name, at most so many, those
// with the least edit distance first. Near is at most two edits, or a third of
// the name's length if that is more, and never more than half of the longer one.
func Names[S ~string](name S, candidates iter.Seq[S], most int) []S {
	type candidate struct {
		name     S
		distance int
	}
	var near []candidate
	limit := max(2, min(len(name), maxLength)/3)
	for c := range candidates {
		if d := distance(string(name), string(c)); d <= limit && 2*d <= max(len(name), len(c)) {
			near = append(near, candidate{c, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []S
	for _, c := range near[:min(most, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// distance counts the bytes to insert, delete or replace between a and b
// (Levenshtein). It keeps one row of the matrix, so that it takes
// len(a)*len(b) steps and len(b) integers.
func distance(a, b string) int {
	a, b = a[:min(len(a), maxLength)], b[:min(len(b), maxLength)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// synonyms are words that writers use for the names of members, with the names that
// they may mean, the best first.
var synonyms = map[string][]string{
	"message": {"text", "summary"}, "body": {"text", "summary"}, "content": {"text", "summary"}, "msg": {"text", "summary"},
	"question": {"text"}, "answer": {"text"}, "description": {"summary", "text"}, "comment": {"detail", "text"}, "note": {"detail", "text"},
	"recipient": {"to"}, "recipients": {"to"}, "receiver": {"to"}, "target": {"to"}, "agent": {"to"}, "agents": {"to"}, "agent_id": {"to", "agent"},
	"id": {"handoff_id", "reply_to"}, "message_id": {"reply_to", "id", "ack"}, "in_reply_to": {"reply_to"}, "handoff": {"handoff_id"},
	"subject": {"topic", "title"}, "name": {"title"}, "task": {"title", "task_id"}, "thread": {"thread_id"},
	"wait": {"wait_s"}, "timeout": {"wait_s"}, "timeout_s": {"wait_s"}, "mark_read": {"ack"}, "read": {"ack"},
	"criteria": {"success_criteria"}, "done_when": {"success_criteria"}, "acceptance_criteria": {"success_criteria"}, "next": {"next_step"}, "next_steps": {"next_step"},
	"files": {"artifacts"}, "worktree": {"worktree_path"}, "cwd": {"worktree_path"}, "status": {"state"}, "count": {"limit"}, "query": {"text"}, "search": {"text"},
}

// Member returns the name of a member that a wrong one was meant to be: one that is a
// single edit away, else one with the same meaning, else the nearest by its letters, ""
// if there is none.
func Member(name string, candidates iter.Seq[string]) string {
	near := Name(name, candidates)
	if near != "" && distance(name, near) == 1 {
		return near
	}
	all := slices.Collect(candidates)
	for _, known := range synonyms[name] {
		if slices.Contains(all, known) {
			return known
		}
	}
	return near
}
