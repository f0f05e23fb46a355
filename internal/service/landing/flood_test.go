package landing_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// branchesEnv is the number of branches of TestManyBranches; 60 without it.
const branchesEnv = "PARLEY_LANDING_BRANCHES"

// A planted is a branch of TestManyBranches, and what must become of it.
type planted struct {
	name   string
	files  map[string]string
	bad    bool
	reason string // a part of the reason, or of the output, with which a bad one goes back
}

// plant returns n branches in random order, of which nine of ten are good. Both branches of a pair
// are good alone; the one that comes later is bad.
func plant(n int, random *rand.Rand) (out []planted) {
	bad := n / 10
	for i := range bad {
		name := fmt.Sprintf("bad%d", i)
		switch i % 3 {
		case 0:
			out = append(out, planted{name, map[string]string{"shared.txt": "one\n" + name + "\nthree\n"}, true, "it conflicts with main in shared.txt"})
		case 1: // its author says that it passes, deletes the test and rewrites the command that the repository names
			files := map[string]string{"mod/" + name: "says it works\n", "tests/one": "", "check.sh": "exit 0\n"}
			out = append(out, planted{name, files, true, "main fails the check test"})
		case 2:
			pair := fmt.Sprintf("pair/%d.", i)
			out = append(out, planted{name: name + "-first", files: map[string]string{pair + "a": "x\n"}})
			out = append(out, planted{name: name, files: map[string]string{pair + "b": "x\n"}})
		}
	}
	for i := len(out); i < n; i++ {
		name := fmt.Sprintf("good%d", i)
		out = append(out, planted{name: name, files: map[string]string{"mod/" + name: "ok\n", "src/" + name + ".go": "package " + name + "\n"}})
	}

	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	seen := map[string]bool{}
	for i, p := range out {
		for path := range p.files {
			if pair, _, isPair := strings.Cut(path, "."); isPair && strings.HasPrefix(path, "pair/") {
				if seen[pair] {
					out[i].bad = true
					out[i].reason = "main fails the check test"
				}
				seen[pair] = true
			}
		}
	}
	return out
}

func TestManyBranches(t *testing.T) {
	n := 20
	if text := os.Getenv(branchesEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	patience.Random(t, 0, 1, func(random *rand.Rand) { landMany(t, plant(n, random)) })
}

// landMany lands branches at once, and checks what became of each.
func landMany(t *testing.T, branches []planted) {
	t.Helper()
	w := newWorld(t, plain)
	w.repo.t = t
	var commits []commitOf
	for _, b := range branches {
		commits = append(commits, commitOf{branch: b.name, from: "refs/heads/main", author: "ada", files: b.files})
	}
	w.repo.write(commits...)
	w.repo.write(commitOf{branch: "main", from: "refs/heads/main", files: map[string]string{"shared.txt": "one\nMAIN\nthree\n"}})

	entries := map[string]hub.LandingID{}
	agents := []hub.Caller{ada, bob, rex}
	for i, b := range branches {
		entries[b.name] = w.land(agents[i%len(agents)], b.name).ID
	}
	w.turn()

	good := 0
	for _, b := range branches {
		if b.bad {
			w.want(entries[b.name], hub.EntryReturned, b.reason)
			continue
		}
		good++
		w.want(entries[b.name], hub.EntryLanded, "")
		for path := range b.files {
			if got := w.repo.git("", "cat-file", "-t", "main:"+path); got != "blob" {
				t.Errorf("%s of %s is not in main", path, b.name)
			}
		}
	}
	perGood := float64(w.check.runs) / float64(good)
	t.Logf("%d branches, %d good, %d runs of the queue, %.2f for each good one, %d heads", len(branches), good, w.check.runs, perGood, len(w.repo.heads))
	if perGood > 0.9 {
		t.Errorf("%.2f runs for each good entry, want at most 0.9", perGood)
	}

	// Nothing kept counts here: the checks run again on every head.
	for _, head := range w.repo.heads {
		if out, passed := w.check.execute(head, w.check.command); !passed {
			t.Errorf("the queue gave main the head %s, which fails: %s", head, out)
		}
	}
	if got := w.repo.git("", "rev-list", "--merges", "--count", "main"); got != strconv.Itoa(good) {
		t.Errorf("main has %s merge commits, want %d", got, good)
	}
}
