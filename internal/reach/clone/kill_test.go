package clone_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/reach/clone"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// Variables with which the test binary is started again, to be killed.
const (
	childCopies = "HUBGIT_TEST_COPIES" // the folder of copies
	childFolder = "HUBGIT_TEST_FOLDER" // a folder of the user's repository; "" to recover
	childMove   = "HUBGIT_TEST_MOVE"   // the old and the new commit
	childKill   = "HUBGIT_TEST_KILL"   // the number of the write before which the child ends, or a pattern of its name
	childGroup  = "HUBGIT_TEST_GROUP"  // set if the processes of git end with it
)

// killed is the exit code of a child that ended where it was told to.
const killed = 77

// child opens the copies, and lands or recovers. Before the write of the given number the
// process ends at once, as one that is killed does: nothing of it runs any more.
func child() int {
	ctx := context.Background()
	copies, err := clone.Open(os.Getenv(childCopies))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	last, _ := strconv.Atoi(os.Getenv(childKill))
	count := 0
	copies.SetPause(func(before string) {
		isNamed, _ := path.Match(os.Getenv(childKill), before)
		if count++; count == last || isNamed {
			fmt.Println("before:", before)
			if os.Getenv(childGroup) != "" {
				killGroup()
			}
			os.Exit(killed)
		}
	})

	folder := os.Getenv(childFolder)
	if folder == "" {
		_, err = copies.Recover(ctx)
	} else {
		var c *clone.Copy
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
	return l.runChildUntil(folder, strconv.Itoa(kill))
}

// runChildUntil is runChild with a write that has a number or a name.
func (l *landing) runChildUntil(folder, kill string) string {
	l.Helper()
	program, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childCopies+"="+filepath.Dir(l.copy().Folder()), childFolder+"="+folder, childMove+"="+l.old.ID+" "+l.new.ID, childKill+"="+kill)
	if l.group {
		cmd.Env = append(cmd.Env, childGroup+"=1")
		ownGroup(cmd)
	}
	out, err := cmd.CombinedOutput()
	switch code := cmd.ProcessState.ExitCode(); code {
	case 0:
		return ""
	case killed, -1:
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
func (k *killable) recover() clone.Recovered {
	k.Helper()
	copies, err := clone.Open(filepath.Dir(k.copy().Folder()))
	if err != nil {
		k.Fatal(err)
	}
	k.copies = copies
	got, err := copies.Recover(k.Context())
	if err != nil || len(got) > 1 {
		k.Fatalf("got %+v (%v)", got, err)
	}
	if len(got) == 0 {
		return clone.Recovered{}
	}
	if got[0].Failure != "" {
		k.Errorf("the step could not be finished: %s", got[0].Failure)
	}
	return got[0]
}

// inParts runs a test in four parallel parts, which together take every multiple of a number.
func inParts(t *testing.T, every int, test func(k *killable, first, step int)) {
	const parts = 4
	for i := range parts {
		t.Run(strconv.Itoa(i), func(t *testing.T) { test(newKillable(t), (i+1)*every, parts*every) })
	}
}

// The process is killed before each of its writes, in make test before every fourth. Afterwards the landing is complete: the
// branch and both trees.
func TestRecoverAfterEveryWrite(t *testing.T) {
	inParts(t, patience.Every(4), func(k *killable, first, step int) {
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
	inParts(t, patience.Every(6), func(k *killable, first, step int) {
		for n := first; k.runChild(k.dir, n) != ""; n += step {
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
				if n > 1 { // the first write is the record
					k.waited(clone.Forwarded{Waits: got.Waits}, k.linked, clone.Changed, "a.txt")
				}
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

// The process is killed when a new file has two names, its own and the one in the folder of the
// step, and a person writes to it: it stays.
func TestRecoverKeepsANewFileOfAPerson(t *testing.T) {
	k := newKillable(t)
	if k.runChildUntil(k.dir, "remove .parley-*/files/a.txt") == "" {
		t.Fatal("the landing was not killed")
	}
	if got := read(t, k.linked, "a.txt"); got != "new a\n" {
		t.Fatalf("a.txt is %q", got)
	}
	writeFile(t, filepath.Join(k.linked, "a.txt"), "of a person\n")
	got := k.recover()
	k.waited(clone.Forwarded{Waits: got.Waits}, k.linked, clone.Changed, "a.txt")
	if got := read(t, k.linked, "a.txt"); got != "of a person\n" {
		t.Errorf("the file of the person is %q", got)
	}
}

// Recover is killed, too.
func TestRecoverAfterKillsOfRecover(t *testing.T) {
	const middle = 50 // a write in the second tree
	inParts(t, patience.Every(9), func(k *killable, first, step int) {
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

// The machine stops, and the processes of git with ours: their locks stay.
func TestRecoverRemovesLocksOfGit(t *testing.T) {
	k := newKillable(t)
	k.group = true
	lock := filepath.Join(k.dir, ".git", "refs", "heads", "main.lock")
	found := 0
	for n := 27; n < 63; n += 9 { // while the branch is locked
		if k.runChild(k.dir, n) == "" {
			break
		}
		if read(t, lock) != "-" {
			found++
			if found == 1 { // as git leaves it when it is killed before it writes
				writeFile(t, lock, "")
			}
		}
		if got := k.recover(); !got.Landed {
			t.Errorf("killed before write %d: %+v", n, got)
		}
		k.landed(k.dir, status)
		k.landed(k.linked, status)
		k.reset()
	}
	if found == 0 {
		t.Error("no lock of the branch was left")
	}
}

// A person has moved the branch after a kill. The files are theirs then: nothing is changed
// but for files that the step had set aside.
func TestRecoverOfABranchThatMoved(t *testing.T) {
	k := newKillable(t)
	for n := 4; k.runChild(k.dir, n) != ""; n += 9 {
		if k.git("rev-parse", "main") == k.new.ID {
			break
		}
		elsewhere := k.git("commit-tree", k.old.Tree, "-p", k.old.ID, "-m", "elsewhere")
		k.git("update-ref", "refs/heads/main", elsewhere)
		if got := k.recover(); got.Landed || got.At != elsewhere {
			t.Errorf("killed before write %d: %+v", n, got)
		}
		k.whole()
		for _, dir := range []string{k.dir, k.linked} {
			if read(t, dir, "a.txt") == "-" {
				t.Errorf("killed before write %d: a.txt is not there", n)
			}
		}
		k.noTraces()
		k.reset()
	}
}

// A person works in the tree while it is brought forward.
func TestForwardBesideAPerson(t *testing.T) {
	tests := []struct {
		name, before string
		do           func(l *landing)
		path         string
	}{
		{"writes before a file is set aside", "set aside a.txt", func(l *landing) { l.write("a.txt", "mine\n") }, "a.txt"},
		{"writes the same number of bytes", "set aside a.txt", func(l *landing) { l.write("a.txt", "old b\n") }, "a.txt"},
		{"replaces a file", "set aside gone.txt", func(l *landing) {
			l.write("gone.new", "mine\n")
			os.Rename(filepath.Join(l.dir, "gone.new"), filepath.Join(l.dir, "gone.txt"))
		}, "gone.txt"},
		{"removes a file", "set aside gone.txt", func(l *landing) { os.Remove(filepath.Join(l.dir, "gone.txt")) }, "gone.txt"},
		{"writes where a file was", "put a.txt", func(l *landing) { l.write("a.txt", "mine\n") }, "a.txt"},
		{"makes a file that comes", "put new/n.txt", func(l *landing) { l.write("new/n.txt", "mine\n") }, "new/n.txt"},
		{"makes a link where a folder comes", "put new/n.txt", func(l *landing) { os.Symlink(l.TempDir(), filepath.Join(l.dir, "new")) }, "new/n.txt"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLanding(t)
			l.copies.SetPause(func(before string) {
				if before == test.before {
					test.do(l)
				}
			})
			got := l.forward()
			l.waited(got, l.dir, clone.Changed, test.path)
			l.copies.SetPause(func(string) {})

			// All other files are as before.
			for name, want := range map[string]string{"a.txt": "old a\n", "gone.txt": "old gone\n", "run.sh": "#!/bin/sh\n"} {
				if name != test.path && read(t, l.dir, name) != want {
					t.Errorf("%s is %q", name, read(t, l.dir, name))
				}
			}
			if text := read(t, l.dir, test.path); test.name != "removes a file" && test.name != "makes a link where a folder comes" && text != "mine\n" && text != "old b\n" {
				t.Errorf("the file of the person is %q", text)
			}
		})
	}
}

// A program that has a file open writes to it after it was replaced.
func TestForwardKeepsWhatOpenFilesGet(t *testing.T) {
	l := newLanding(t)
	file, err := os.OpenFile(filepath.Join(l.dir, "a.txt"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l.copies.SetPause(func(before string) {
		if before == "move the branch" {
			file.WriteString("mine\n")
		}
	})
	got := l.forward()
	if !got.Moved || len(got.Kept) != 1 || read(t, got.Kept[0]) != "old a\nmine\n" || read(t, l.dir, "a.txt") != "new a\n" {
		t.Errorf("got %+v", got)
	}
}

// A person replaces a file while it is moved, twice: the first of the new files is in the way
// of the second. Both are kept.
func TestForwardKeepsBothFilesOfAPerson(t *testing.T) {
	l := newLanding(t)
	l.copies.SetPause(func(before string) {
		switch before {
		case "set aside a.txt":
			l.write("a.txt", "mine, first\n")
		case "put back a.txt":
			l.write("a.txt", "mine, second\n")
		}
	})
	got := l.forward()
	if got.Moved || len(got.Waits) != 1 || len(got.Kept) != 1 || read(t, got.Kept[0]) != "mine, first\n" || read(t, l.dir, "a.txt") != "mine, second\n" {
		t.Errorf("got %+v", got)
	}
	if read(t, l.dir, "gone.txt") != "old gone\n" || l.git("rev-parse", "main") != l.old.ID {
		t.Error("the landing was not undone")
	}
}
