package clone_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/clone"
)

// roots has the working trees under one folder.
type roots struct{ folder string }

func (r roots) Tree(_ context.Context, path string) (hub.WorkingTree, error) {
	rel, err := filepath.Rel(r.folder, path)
	if err != nil || !filepath.IsLocal(rel) {
		return hub.WorkingTree{}, hub.Errorf(hub.CodeOutsideRoots, "roots", "%s is under no root", path)
	}
	if filepath.Base(path) == "plain" {
		return hub.WorkingTree{Path: path}, nil
	}
	return hub.WorkingTree{Path: r.folder, Repository: filepath.Join(r.folder, ".git")}, nil
}

// under returns the repositories under the folder of r, where work lands in targets.
func (r *repository) under(targets ...string) *clone.Repositories {
	return clone.NewRepositories(r.copies, roots{r.dir}, clone.RepositoryOptions{
		Targets: func(context.Context, hub.Repository) ([]string, error) { return targets, nil },
	})
}

// must fails the test for an error.
func (r *repository) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func TestRepositories(t *testing.T) {
	t.Run("errors have the code of their cause", func(t *testing.T) {
		r := newRepository(t)
		r.commit("a", "1\n")
		repos := r.under()
		_, unknown := repos.Fetch(r.Context(), r.dir, "ghost")
		_, branch := repos.Branch(r.Context(), r.dir, "ghost")
		_, outside := repos.Fetch(r.Context(), filepath.Dir(r.dir), "HEAD")
		_, plain := repos.Find(r.Context(), filepath.Join(r.dir, "plain"))
		for name, c := range map[string]struct {
			err  error
			code hub.Code
			text string
		}{
			"revision": {unknown, hub.CodeNotFound, `no branch or commit named "ghost" in ` + r.dir},
			"branch":   {branch, hub.CodeNotFound, `no branch or commit named "ghost"`},
			"outside":  {outside, hub.CodeOutsideRoots, "under no root"},
			"plain":    {plain, hub.CodeInvalid, "not in a git repository"},
		} {
			if hub.CodeOf(c.err) != c.code || !strings.Contains(c.err.Error(), c.text) {
				t.Errorf("%s: got %v", name, c.err)
			}
		}
	})
	t.Run("a commit that the copy does not have is in no history", func(t *testing.T) {
		r := newRepository(t)
		first := r.commit("a", "1\n")
		second := r.commit("a", "2\n")
		repos := r.under()
		_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
		r.must(err)
		for commit, want := range map[string]bool{first: true, second: true, strings.Repeat("d", 40): false} {
			if got, err := repos.Contains(r.Context(), r.dir, second, commit); err != nil || got != want {
				t.Errorf("%s: got %v, %v", commit, got, err)
			}
		}
	})
	t.Run("a conflict has the three texts, and names what has none", func(t *testing.T) {
		r := newRepository(t)
		r.commit("a", "base\n", "b", "base\n")
		r.git("switch", "-q", "-c", "work")
		r.commit("a", "theirs\n", "b", "\x00theirs")
		r.git("switch", "-q", "main")
		r.commit("a", "ours\n", "b", "\x00ours")
		repos := r.under()
		onto, err := repos.Branch(r.Context(), r.dir, "main")
		r.must(err)
		change, err := repos.Resolve(r.Context(), r.dir, "work")
		r.must(err)
		got, err := repos.Merge(r.Context(), r.dir, onto, change, "merge")
		if err != nil || len(got.Conflicts) != 2 || got.Commit.ID != "" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if got := got.Conflicts[0]; got != (hub.FileConflict{Path: "a", Base: "base\n", Ours: "ours\n", Theirs: "theirs\n"}) {
			t.Errorf("text: got %+v", got)
		}
		if got := got.Conflicts[1]; !strings.HasPrefix(got.Theirs, "(a binary file of 7 bytes, blob ") {
			t.Errorf("binary: got %+v", got)
		}
	})
	t.Run("a branch that moved, or that the commit does not have, makes a forwarding stale", func(t *testing.T) {
		r := newRepository(t)
		first := r.commit("a", "1\n")
		second := r.commit("a", "2\n")
		third := r.commit("a", "3\n")
		r.git("switch", "-q", "-c", "away")
		repos := r.under()
		for _, rev := range []string{first, second, third} {
			_, err := repos.Fetch(r.Context(), r.dir, rev)
			r.must(err)
		}
		if got, err := repos.Forward(r.Context(), r.dir, "main", first, second); err != nil || !got.Stale || got.Moved {
			t.Errorf("moved: got %+v, %v", got, err)
		}
		if got, err := repos.Forward(r.Context(), r.dir, "main", third, first); err != nil || !got.Stale {
			t.Errorf("backwards: got %+v, %v", got, err)
		}
		r.git("branch", "-f", "main", first)
		if got, err := repos.Forward(r.Context(), r.dir, "main", first, second); err != nil || !got.Moved || r.git("rev-parse", "main") != second {
			t.Errorf("forward: got %+v, %v", got, err)
		}
	})
	t.Run("authors are those of commits and trailers, without the lines of CLIs", func(t *testing.T) {
		r := newRepository(t)
		base := r.commit("a", "1\n")
		r.write("a", "2\n")
		r.git("add", "-A")
		r.git("-c", "user.name=Ada", "commit", "-q", "-m", "change\n\nCo-authored-by: Ben <ben@example.org>\nCo-authored-by: Claude <noreply@anthropic.com>\nCo-authored-by: Copilot <12+copilot@users.noreply.github.com>")
		head := r.git("rev-parse", "HEAD")
		repos := r.under()
		_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
		r.must(err)
		got, err := repos.Change(r.Context(), r.dir, base, head, 1<<20)
		if err != nil || !slices.Equal(got.Authors, []string{"Ada", "Ben"}) || got.Base != base || !strings.Contains(got.Patch.Text, "+2") {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("two commits that bring the same change are the same patch", func(t *testing.T) {
		r := newRepository(t)
		base := r.commit("a", "1\n")
		one := r.commit("b", "new\n")
		r.git("reset", "-q", "--hard", base)
		r.commit("c", "other\n")
		r.git("cherry-pick", one)
		other := r.git("rev-parse", "HEAD")
		r.git("reset", "-q", "--hard", base)
		same := r.commit("b", "new\n")
		repos := r.under()
		for _, rev := range []string{one, other, same} {
			_, err := repos.Fetch(r.Context(), r.dir, rev)
			r.must(err)
		}
		for commit, want := range map[string]bool{same: true, other: false} {
			if got, err := repos.SamePatch(r.Context(), r.dir, base, one, commit); err != nil || got != want {
				t.Errorf("%s: got %v, %v", commit, got, err)
			}
		}
	})
	t.Run("work lands in the branches of the policies, else in the default branch", func(t *testing.T) {
		r := newRepository(t)
		first := r.commit("a", "1\n")
		r.git("branch", "release")
		second := r.commit("a", "2\n")
		for name, c := range map[string]struct {
			targets []string
			target  string
			on      bool // the second commit is on a target
			before  []string
		}{
			"the default":             {nil, second, true, []string{second, first}},
			"a policy":                {[]string{"release"}, first, false, []string{first}},
			"two policies":            {[]string{"release", "main"}, first, true, []string{first, second, first}},
			"a branch that is gone":   {[]string{"gone"}, "", false, nil},
			"a branch and a gone one": {[]string{"gone", "main"}, second, true, []string{second, first}},
		} {
			t.Run(name, func(t *testing.T) {
				repos := r.under(c.targets...)
				_, err := repos.Fetch(r.Context(), r.dir, second)
				r.must(err)
				if got, err := repos.Target(r.Context(), r.dir); err != nil || got.ID != c.target {
					t.Errorf("target: got %+v, %v", got, err)
				}
				if got, err := repos.OnTarget(r.Context(), r.dir, second); err != nil || got != c.on {
					t.Errorf("on target: got %v, %v", got, err)
				}
				before, err := repos.Before(r.Context(), r.dir, second, 10)
				var ids []string
				for _, b := range before {
					ids = append(ids, b.ID)
				}
				if err != nil || !slices.Equal(ids, c.before) {
					t.Errorf("before: got %v, %v, want %v", ids, err, c.before)
				}
			})
		}
	})
	t.Run("a landing of another machine is not judged here", func(t *testing.T) {
		r := newRepository(t)
		head := r.commit("a", "1\n")
		repos := clone.NewRepositories(r.copies, roots{r.dir}, clone.RepositoryOptions{Machine: "here"})
		entry := hub.LandingEntry{Machine: "here", Repository: r.dir, Into: "main", LandedCommit: head}
		if isIn, ok := repos.Landed(r.Context(), entry); !isIn || !ok {
			t.Errorf("here: got %v, %v", isIn, ok)
		}
		entry.LandedCommit = strings.Repeat("d", 40)
		if isIn, ok := repos.Landed(r.Context(), entry); isIn || !ok {
			t.Errorf("a commit that is not there: got %v, %v", isIn, ok)
		}
		entry.Machine = "there"
		if _, ok := repos.Landed(r.Context(), entry); ok {
			t.Error("there: it was judged")
		}
	})
	t.Run("a file of a commit is read up to a bound, and none where there is none", func(t *testing.T) {
		r := newRepository(t)
		head := r.commit("dir/a", "text\n", "large", strings.Repeat("x", 1<<20+1))
		repos := r.under()
		_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
		r.must(err)
		if got, err := repos.File(r.Context(), r.dir, head, "dir/a"); err != nil || string(got) != "text\n" {
			t.Errorf("got %q, %v", got, err)
		}
		for _, name := range []string{"dir", "ghost"} {
			if got, err := repos.File(r.Context(), r.dir, head, name); err != nil || got != nil {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		if _, err := repos.File(r.Context(), r.dir, head, "large"); hub.CodeOf(err) != hub.CodePayloadTooLarge {
			t.Errorf("large: got %v", err)
		}
	})
}

// What a reader of a difference does not see is named before it.
func TestOddness(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       string // in the text before the difference; "" for nothing
	}{
		"a plain file":                    {"a.go", "package a\n", ""},
		"a binary file":                   {"a.bin", "\x00\x01", "# binary: a.bin, 2 bytes, blob "},
		"a vendored file":                 {"web/node_modules/x.js", "x\n", "# vendored: web/node_modules/x.js, 2 bytes"},
		"a file that its name gives away": {"go.sum", "x\n", "# generated: go.sum"},
		"a file with the mark":            {"a.go", "// Code generated by x. DO NOT EDIT.\n", "# generated: a.go"},
		"a character that turns text":     {"a.go", "// \u202e evil\n", "# look: a.go:1 has a character that hides or turns text: U+202E"},
		"another encoding":                {".gitattributes", "*.go working-tree-encoding=UTF-16\n", "# look: .gitattributes:1 lets working trees have another encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepository(t)
			base := r.commit("first", "1\n")
			head := r.commit(c.file, c.text)
			repos := r.under()
			_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
			r.must(err)
			got, err := repos.Patch(r.Context(), r.dir, base, head, 1<<20)
			r.must(err)
			before, _, _ := strings.Cut(got.Text, "diff --git")
			if c.want == "" && before != "" || !strings.Contains(before, c.want) {
				t.Errorf("got %q, want %q", before, c.want)
			}
			if isNamed := strings.HasPrefix(c.want, "# look"); isNamed != (len(got.Named) == 1) {
				t.Errorf("got named %q", got.Named)
			}
		})
	}
	t.Run("a difference that is cut says so", func(t *testing.T) {
		r := newRepository(t)
		base := r.commit("a", "1\n")
		head := r.commit("a", strings.Repeat("line\n", 1000))
		repos := r.under()
		_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
		r.must(err)
		if got, err := repos.Patch(r.Context(), r.dir, base, head, 500); err != nil || !got.Cut || len(got.Text) > 500 {
			t.Errorf("got %d bytes, cut %v, %v", len(got.Text), got.Cut, err)
		}
	})
	t.Run("many odd lines are counted", func(t *testing.T) {
		r := newRepository(t)
		base := r.commit("a", "1\n")
		head := r.commit("a", strings.Repeat("\u202e\n", 9))
		repos := r.under()
		_, err := repos.Fetch(r.Context(), r.dir, "HEAD")
		r.must(err)
		got, err := repos.Patch(r.Context(), r.dir, base, head, 1<<20)
		if err != nil || len(got.Named) != 6 || got.Named[5] != "4 more like this" {
			t.Errorf("got %q, %v", got.Named, err)
		}
	})
}

func TestRescues(t *testing.T) {
	r := newRepository(t)
	head := r.commit("a", "1\n", "b", "1\n")
	r.write("a", "2\n")
	r.write("new", "new\n")
	inRoot := clone.NewRescues(r.under(), func(context.Context, string) bool { return false })

	saved, err := inRoot.Save(r.Context(), r.dir, "rescue/ada/1", "work of ada")
	if err != nil || saved.Clean || saved.Base != head || saved.Branch != "main" || saved.Files != 2 || saved.Insertions != 2 || saved.Deletions != 1 {
		t.Fatalf("got %+v, %v", saved, err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(saved.Paths)), []string{"a", "new"}) {
		t.Errorf("got paths %q", saved.Paths)
	}
	if got := r.git("status", "--porcelain"); !strings.Contains(got, "M a") || !strings.Contains(got, "?? new") {
		t.Errorf("the tree changed: %q", got)
	}
	names, err := inRoot.Names(r.Context())
	if err != nil || len(names) != 1 || names[0].Ref != saved.Ref || names[0].Copy != saved.Copy {
		t.Errorf("names: got %+v, %v", names, err)
	}
	if patch, cut, err := inRoot.Patch(r.Context(), saved.Rescue, 1<<20); err != nil || cut || !strings.Contains(patch, "+2") {
		t.Errorf("patch: got %q, %v, %v", patch, cut, err)
	}

	// What a person changed in the meantime is in the way; a clean tree takes the work.
	r.git("checkout", "-q", "--", "a")
	r.write("a", "of a person\n")
	waits, err := inRoot.Apply(r.Context(), saved.Rescue, r.dir)
	if err != nil || len(waits.Waits) == 0 || len(waits.Paths) != 0 {
		t.Errorf("a changed file: got %+v, %v", waits, err)
	}
	r.git("checkout", "-q", "--", "a")
	r.git("clean", "-qfd")
	applied, err := inRoot.Apply(r.Context(), saved.Rescue, r.dir)
	if err != nil || len(applied.Paths) != 2 || read(t, r.dir, "a") != "2\n" || read(t, r.dir, "new") != "new\n" {
		t.Errorf("a clean tree: got %+v, %v", applied, err)
	}

	// A clean tree has nothing to keep.
	r.git("checkout", "-q", "--", "a")
	r.git("clean", "-qfd")
	if got, err := inRoot.Save(r.Context(), r.dir, "rescue/ada/2", "nothing"); err != nil || !got.Clean || got.Base != head {
		t.Errorf("clean: got %+v, %v", got, err)
	}
	r.must(inRoot.Drop(r.Context(), saved.Rescue))
	if names, err := inRoot.Names(r.Context()); err != nil || len(names) != 0 {
		t.Errorf("after the drop: got %+v, %v", names, err)
	}

	// A folder under no root is kept only if the hub runs an agent in it.
	nowhere := clone.NewRepositories(r.copies, roots{filepath.Join(r.dir, "elsewhere")}, clone.RepositoryOptions{})
	r.write("a", "3\n")
	if _, err := clone.NewRescues(nowhere, func(context.Context, string) bool { return false }).Save(r.Context(), r.dir, "rescue/ada/3", "x"); hub.CodeOf(err) != hub.CodeOutsideRoots {
		t.Errorf("under no root: %v", err)
	}
	if _, err := clone.NewRescues(nowhere, func(_ context.Context, folder string) bool { return folder == r.dir }).Save(r.Context(), r.dir, "rescue/ada/3", "x"); err != nil {
		t.Errorf("where the hub runs an agent: %v", err)
	}
}
