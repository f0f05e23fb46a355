package clone

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// A Revision is a commit of a change, with the place where it was before.
type Revision struct {
	ID      string `json:"id"`
	Earlier string `json:"earlier,omitempty"` // a ref that had the commit at the given time; "" if none did
}

// maxRevisions bounds the commits that History returns.
const maxRevisions = 10_000

// History returns the commits of the user's repository that head has and base has not, newest
// first, and says of each whether another ref than the branch named own had it already at a
// time. An empty base stands for a repository without commits.
//
// The log of a ref says where it was. A ref without a log is taken to have been where it is
// now, so the date of a commit decides: an earlier one was there.
func (c *Copy) History(ctx context.Context, base, head, own string, at time.Time) ([]Revision, error) {
	s := c.source.shared()
	if !isRevision(head) {
		return nil, fail(ErrNoCommit, "list commits", s.folder, head)
	}
	args := []string{"rev-list", "--max-count=" + strconv.Itoa(maxRevisions), "--timestamp", head}
	if base != "" {
		args = append(args, "^"+base)
	}
	list, err := s.run(ctx, append(args, "--")...)
	if err != nil || list == "" {
		return nil, err
	}
	places, err := s.places(ctx, own, at)
	if err != nil {
		return nil, err
	}

	var out []Revision
	dates := map[string]time.Time{}
	for _, line := range strings.Split(list, "\n") {
		date, id, _ := strings.Cut(line, " ")
		seconds, _ := strconv.ParseInt(date, 10, 64) // a commit without a date is old
		dates[id] = time.Unix(seconds, 0)
		out = append(out, Revision{ID: id})
	}

	// All places are asked together first: mostly none has any of the commits. Then they are
	// asked in their order, until all commits that one of them has are found.
	all := s.user(ctx, append(args, "--stdin")...)
	var excluded strings.Builder
	for _, p := range places {
		excluded.WriteString("^" + p.id + "\n")
	}
	all.Stdin = strings.NewReader(excluded.String())
	rest, err := output(all, "rev-list", s.folder)
	if err != nil {
		return nil, err
	}
	missing := len(out) - strings.Count(rest+"\n", "\n")
	if rest == "" {
		missing = len(out)
	}
	earlier := map[string]string{}
	for _, p := range places {
		if len(earlier) >= missing {
			break
		}
		lacks, err := s.run(ctx, append(args, "^"+p.id, "--")...)
		if err != nil {
			return nil, err
		}
		for _, r := range out {
			counts := p.logged || !dates[r.ID].After(at)
			if counts && earlier[r.ID] == "" && !strings.Contains(lacks, r.ID) {
				earlier[r.ID] = p.ref
			}
		}
	}
	for i := range out {
		out[i].Earlier = earlier[out[i].ID]
	}
	return out, nil
}

// A place is the commit of a ref at a time.
type place struct {
	ref, id string
	logged  bool // the log of the ref says so
}

// places returns the branches, remote branches and tags other than the branch named own, with
// their commits at a time.
func (s source) places(ctx context.Context, own string, at time.Time) ([]place, error) {
	list, err := s.run(ctx, "for-each-ref", "--format=%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)", "refs/heads", "refs/remotes", "refs/tags")
	if err != nil {
		return nil, err
	}
	logs, err := s.logs(ctx, at)
	if err != nil {
		return nil, err
	}

	var out []place
	for _, line := range strings.Split(list, "\n") {
		f := strings.Fields(line)
		if len(f) == 5 { // a tag that is an object
			f = []string{f[0], f[3], f[4]}
		}
		if len(f) != 3 || f[1] != "commit" || f[0] == "refs/heads/"+own {
			continue
		}
		then, logged := logs[f[0]]
		if !logged {
			then = f[2]
		}
		if then != "" { // else the ref came later
			out = append(out, place{ref: f[0], id: then, logged: logged})
		}
	}
	return out, nil
}

// logs returns the commits of all refs that have a log, at a time; "" for a ref whose log
// begins later.
func (s source) logs(ctx context.Context, at time.Time) (map[string]string, error) {
	list, err := s.run(ctx, "log", "--walk-reflogs", "--all", "--no-show-signature", "--no-mailmap", "--no-patch", "--date=unix", "--format=%H %gD")
	if err != nil {
		return map[string]string{}, nil // there is no commit
	}
	out := map[string]string{}
	for _, line := range strings.Split(list, "\n") {
		id, selector, _ := strings.Cut(line, " ")
		ref, date, ok := strings.Cut(strings.TrimSuffix(selector, "}"), "@{")
		seconds, err := strconv.ParseInt(date, 10, 64)
		if !ok || err != nil {
			continue
		}
		if out[ref] != "" {
			continue // the newest entry before the time has been seen
		}
		out[ref] = ""
		if seconds <= at.Unix() {
			out[ref] = id
		}
	}
	return out, nil
}
