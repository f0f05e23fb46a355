package server_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/testing/patience"
)

// A craftsman makes random changes that are work: each has words that were nowhere before,
// or removes or renames a file that has some.
type craftsman struct {
	*workshop
	random *rand.Rand
	words  int
}

// word returns a word that was nowhere before.
func (c *craftsman) word() string {
	c.words++
	return fmt.Sprintf("w%d", c.words)
}

// lines returns new lines.
func (c *craftsman) lines() string {
	var b strings.Builder
	for range 1 + c.random.IntN(8) {
		fmt.Fprintf(&b, "%s %s\n", c.word(), c.word())
	}
	return b.String()
}

// files returns the names of the files, without those that the task touched.
func (c *craftsman) files(touched map[string]bool) []string {
	c.t.Helper()
	var names []string
	for name := range strings.FieldsSeq(c.git("ls-files")) {
		if _, err := os.Stat(filepath.Join(c.repo, name)); err == nil && !touched[name] && name != ".gitignore" {
			names = append(names, name)
		}
	}
	return names
}

// change makes one random change.
func (c *craftsman) change(touched map[string]bool) {
	c.t.Helper()
	names := c.files(touched)
	name := names[c.random.IntN(len(names))]
	fresh := fmt.Sprintf("dir%d/%s.txt", c.random.IntN(5), c.word())
	touched[name], touched[fresh] = true, true
	switch kind := c.random.IntN(10); {
	case kind < 2 || len(names) < 5:
		c.write(fresh, c.lines())
	case kind == 2:
		c.write(fresh, "\x00\x01"+c.word())
	case kind == 3:
		c.remove(name)
	case kind == 4:
		c.write(fresh, "")
		c.remove(fresh)
		c.git("mv", name, fresh)
	default:
		c.edit(name)
	}
}

// edit replaces, adds or removes lines of a file, and adds a word in any case.
func (c *craftsman) edit(name string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.repo, name))
	if err != nil {
		c.t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	at := c.random.IntN(len(lines))
	to := min(len(lines), at+c.random.IntN(3))
	lines = slices.Replace(lines, at, to, []byte(c.lines()))
	c.write(name, string(bytes.Join(lines, nil)))
}

// TestRandomHonestWork completes random work on a hub that requires proof: none is refused.
// PARLEY_HONEST is the number of tasks, PARLEY_SEED the seed: a number,
// or the id of a commit, from which one is made.
func TestRandomHonestWork(t *testing.T) {
	patience.NotUnderRace(t)
	t.Parallel()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return otherwise
	}
	tasks, seed := number("PARLEY_HONEST", patience.Tenth(12)), number("PARLEY_SEED", 33+int(patience.Seed()%1000))
	w := newWorkshop(t, newTemplate(t), true)
	w.newRepository()
	c := &craftsman{workshop: w, random: rand.New(rand.NewPCG(uint64(seed), 1))}
	for range 30 {
		w.write(fmt.Sprintf("dir%d/%s.txt", c.random.IntN(5), c.word()), c.lines()+c.lines())
	}
	w.commit("files")

	refused := 0
	for i := range tasks {
		w.task = w.handOver("bob", w.bob, nil)
		var steps []string
		if i%7 == 3 { // begin on an older commit
			w.git("stash", "-q", "--include-untracked")
			w.git("checkout", "-q", "-b", c.word(), fmt.Sprintf("HEAD~%d", 1+c.random.IntN(2)))
			steps = append(steps, "older")
		}
		touched := map[string]bool{}
		for range 1 + c.random.IntN(3) {
			c.change(touched)
			if c.random.IntN(2) == 0 {
				w.commit(c.word(), "--allow-empty", "--author", []string{"bob <bob@example.com>", "Jane Doe <jane@example.com>"}[c.random.IntN(2)])
				steps = append(steps, "commit")
			}
		}
		if got := w.complete(w.task, nil); !strings.HasPrefix(got, "verified") {
			refused++
			t.Errorf("seed %d, task %d (%v): got %s, want verified; touched %v", seed, i, steps, got, touched)
		}
	}
	t.Logf("%d honest changes, %d refused", tasks, refused)
}
