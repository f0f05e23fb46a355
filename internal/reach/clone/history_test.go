package clone_test

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/reach/clone"
)

// gitAt runs git as the user does at a time.
func (r *repository) gitAt(at time.Time, args ...string) {
	r.Helper()
	cmd := gitCommand(r.dir, args...)
	date := at.UTC().Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r *repository) commitAt(at time.Time, message string) string {
	r.Helper()
	r.gitAt(at, "commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

func TestHistory(t *testing.T) {
	r := newRepository(t)
	accepted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before, after := accepted.Add(-time.Hour), accepted.Add(time.Hour)
	base := r.commitAt(before.Add(-time.Hour), "base")

	r.gitAt(before, "checkout", "-q", "-b", "others")
	theirs := r.commitAt(before, "theirs")
	r.gitAt(after, "checkout", "-q", "-b", "mine")
	mine := r.commitAt(after, "mine")
	r.gitAt(after, "branch", "same") // the same commits on a branch that came later
	r.gitAt(after, "tag", "later")   // and a tag, which has no log

	got, err := r.copy().History(t.Context(), base, "mine", "mine", accepted)
	if err != nil {
		t.Fatal(err)
	}
	want := []clone.Revision{{ID: mine}, {ID: theirs, Earlier: "refs/heads/others"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	// The branch of another agent has moved on, and has lost its log.
	r.git("reflog", "expire", "--expire=all", "--all")
	r.git("config", "core.logAllRefUpdates", "false")
	os.RemoveAll(r.dir + "/.git/logs")
	got, err = r.copy().History(t.Context(), base, "mine", "mine", accepted)
	if err != nil || !reflect.DeepEqual(got, []clone.Revision{{ID: mine}, {ID: theirs, Earlier: "refs/heads/others"}}) {
		t.Errorf("without logs: %+v (%v)", got, err)
	}
	if none, err := r.copy().History(t.Context(), mine, mine, "mine", accepted); err != nil || len(none) != 0 {
		t.Errorf("got %+v (%v), want nothing", none, err)
	}
}
