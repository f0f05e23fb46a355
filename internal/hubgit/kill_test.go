package hubgit_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/hubgit"
)

// Variables with which the test binary is started again, to be killed.
const (
	childCopies = "HUBGIT_TEST_COPIES" // the folder of copies
	childFolder = "HUBGIT_TEST_FOLDER" // a folder of the user's repository; "" to recover
	childMove   = "HUBGIT_TEST_MOVE"   // the old and the new commit
	childKill   = "HUBGIT_TEST_KILL"   // the number of the write before which the child ends
)

// killed is the exit code of a child that ended where it was told to.
const killed = 77

// child opens the copies, and lands or recovers. Before the write of the given number the
// process ends at once, as one that is killed does: nothing of it runs any more.
func child() int {
	ctx := context.Background()
	copies, err := hubgit.Open(os.Getenv(childCopies))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	last, _ := strconv.Atoi(os.Getenv(childKill))
	count := 0
	copies.SetPause(func(before string) {
		if count++; count == last {
			fmt.Println("before:", before)
			os.Exit(killed)
		}
	})

	folder := os.Getenv(childFolder)
	if folder == "" {
		_, err = copies.Recover(ctx)
	} else {
		var c *hubgit.Copy
		if c, err = copies.Of(ctx, folder); err == nil {
			old, new, _ := strings.Cut(os.Getenv(childMove), " ")
			_, err = c.Forward(ctx, "main", old, new)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// runChild lands in a child, or recovers if folder is "", and returns the write before which
// the child ended; "" if it did all of it.
func (l *landing) runChild(folder string, kill int) string {
	l.Helper()
	program, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childCopies+"="+filepath.Dir(l.copy().Folder()), childFolder+"="+folder, childMove+"="+l.old.ID+" "+l.new.ID, childKill+"="+strconv.Itoa(kill))
	out, err := cmd.CombinedOutput()
	switch code := cmd.ProcessState.ExitCode(); code {
	case 0:
		return ""
	case killed:
		_, before, _ := strings.Cut(strings.TrimSpace(string(out)), "before: ")
		return before
	default:
		l.Fatalf("the child exits with %d (%v): %s", code, err, out)
		return ""
	}
}

// killable is a landing with two trees that have the target checked out, and changes of a
// person in both.
type killable struct {
	*landing
	linked string
}

func newKillable(t *testing.T) *killable {
	t.Helper()
	l := newLanding(t)
	k := &killable{landing: l, linked: filepath.Join(l.dir+"-linked", "tree")}
	t.Cleanup(func() { os.RemoveAll(l.dir + "-linked") })
	l.git("worktree", "add", "-q", "--force", k.linked, "main")
	k.reset()
	return k
}

// reset brings branch and trees back to the old commit, with the changes of the person.
func (k *killable) reset() {
	k.Helper()
	k.git("update-ref", "refs/heads/main", k.old.ID)
	for _, dir := range []string{k.dir, k.linked} {
		k.gitIn(dir, "reset", "-q", "--hard", k.old.ID)
		writeFile(k.T, filepath.Join(dir, "other.txt"), "mine\n")
		writeFile(k.T, filepath.Join(dir, "staged.txt"), "mine\n")
		k.gitIn(dir, "add", "staged.txt")
	}
}

// status is that of both trees, before and after the landing.
const status = "M other.txt\nA  staged.txt"

// whole fails if a file of a tree is neither as before nor as after the landing.
func (k *killable) whole() {
	k.Helper()
	may := map[string][]string{
		"a.txt": {"old a\n", "new a\n", "-"}, "gone.txt": {"old gone\n", "-"}, "new/n.txt": {"new n\n", "-"},
		"other.txt": {"mine\n"}, "staged.txt": {"mine\n"}, "run.sh": {"#!/bin/sh\n", "-"},
	}
	for _, dir := range []string{k.dir, k.linked} {
		for name, texts := range may {
			if got := read(k.T, dir, name); !slices.Contains(texts, got) {
				k.Errorf("%s in %s is %q", name, dir, got)
			}
		}
	}
}

// recover opens the copies as a new process does, and returns the outcome of the one step.
func (k *killable) recover() hubgit.Recovered {
	k.Helper()
	copies, err := hubgit.Open(filepath.Dir(k.copy().Folder()))
	if err != nil {
		k.Fatal(err)
	}
	k.copies = copies
	got, err := copies.Recover(k.Context())
	if err != nil || len(got) > 1 {
		k.Fatalf("got %+v (%v)", got, err)
	}
	if len(got) == 0 {
		return hubgit.Recovered{}
	}
	if got[0].Failure != "" {
		k.Errorf("the step could not be finished: %s", got[0].Failure)
	}
	return got[0]
}

// inParts runs a test in parallel parts, of which each takes every fourth number.
func inParts(t *testing.T, test func(k *killable, first, step int)) {
	const parts = 4
	for i := range parts {
		t.Run(strconv.Itoa(i), func(t *testing.T) { test(newKillable(t), i+1, parts) })
	}
}

// The process is killed before each of its writes. Afterwards the landing is complete: the
// branch and both trees.
func TestRecoverAfterEveryWrite(t *testing.T) {
	inParts(t, func(k *killable, first, step int) {
		for n := first; ; n += step {
			before := k.runChild(k.dir, n)
			if before == "" {
				k.landed(k.dir, status)
				k.landed(k.linked, status)
				if n < 20 {
					k.Errorf("the landing has %d writes alone", n)
				}
				return
			}
			k.whole()
			got := k.recover()
			if n > 1 { // the first write is the record
				if !got.Landed {
					k.Errorf("got %+v", got)
				}
				k.landed(k.dir, status)
				k.landed(k.linked, status)
			}
			if k.Failed() {
				k.Fatalf("killed before write %d, %q", n, before)
			}
			k.reset()
		}
	})
}

// After a kill a person writes a file that the landing touches. The landing is stopped, all
// else is as before, and the file stays.
func TestRecoverStopsAtContentOfAPerson(t *testing.T) {
	inParts(t, func(k *killable, first, step int) {
		for n := first + 1; k.runChild(k.dir, n) != ""; n += step {
			moved := k.git("rev-parse", "main") == k.new.ID
			writeFile(k.T, filepath.Join(k.linked, "a.txt"), "of a person\n")
			got := k.recover()
			if text := read(k.T, k.linked, "a.txt"); text != "of a person\n" {
				k.Errorf("the file of the person is %q", text)
			}
			if moved && !got.Landed {
				k.Errorf("the branch has moved: %+v", got)
			}
			if !moved {
				k.waited(hubgit.Forwarded{Waits: got.Waits}, k.linked, hubgit.Changed, "a.txt")
				for dir, want := range map[string]string{k.dir: status, k.linked: "M a.txt\n M other.txt\nA  staged.txt"} {
					if text := k.gitIn(dir, "status", "--porcelain"); text != want {
						k.Errorf("the status of %s is %q, want %q", dir, text, want)
					}
				}
			}
			k.noTraces()
			if k.Failed() {
				k.Fatalf("killed before write %d", n)
			}
			k.reset()
		}
	})
}

// Recover is killed before each of its writes, too.
func TestRecoverAfterKillsOfRecover(t *testing.T) {
	const middle = 22 // a write in the second tree
	inParts(t, func(k *killable, first, step int) {
		for n := first; ; n += step {
			if k.runChild(k.dir, middle) == "" {
				k.Fatal("the landing was not killed")
			}
			before := k.runChild("", n)
			k.whole()
			k.recover()
			k.landed(k.dir, status)
			k.landed(k.linked, status)
			if k.Failed() {
				k.Fatalf("recovering was killed before write %d, %q", n, before)
			}
			if before == "" {
				return
			}
			k.reset()
		}
	})
}
