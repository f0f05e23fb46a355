//go:build unix

package evidence_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/reach/evidence"
)

// A trap is a way in which a repository can make git run a program.
type trap struct {
	name   string
	key    string   // of the configuration, where the program is set; empty if it is set elsewhere
	spring []string // what an ordinary git is asked to do to run it; nil if that takes a terminal or a network
}

var traps = []trap{
	{"fsmonitor", "core.fsmonitor", []string{"status"}},
	{"clean", "filter.evil.clean", []string{"add", "filtered.txt"}},
	{"smudge", "filter.evil.smudge", []string{"checkout", "-f", "HEAD", "--", "filtered.txt"}},
	{"process", "filter.worse.process", []string{"add", "processed.txt"}},
	{"textconv", "diff.evil.textconv", []string{"log", "-p", "--", "filtered.txt"}},
	{"driver", "diff.worse.command", []string{"diff", "HEAD", "--", "driven.txt"}},
	{"external", "diff.external", []string{"diff", "HEAD", "--", "a.txt"}},
	{"alias", "alias.evil", []string{"evil"}},
	{"editor", "core.editor", []string{"-c", "core.hooksPath=/dev/null", "commit", "--allow-empty"}},
	{"credentials", "credential.helper", []string{"credential", "fill"}},
	{"upload", "remote.origin.uploadpack", []string{"fetch", "origin"}},
	{"pager", "core.pager", nil},
	{"ssh", "core.sshCommand", nil},
	{"proxy", "core.gitProxy", nil},
	{"askpass", "core.askPass", nil},
	{"gpg", "gpg.program", nil},
	{"merge", "merge.evil.driver", nil},
	{"hook", "", []string{"commit", "--allow-empty", "-m", "x"}},
	{"submodule", "", []string{"status"}},
}

// trapped makes a repository full of traps, which leave their marks in the
// folder marks.
func trapped(t *testing.T, repo, marks string) (first string) {
	t.Helper()
	newRepository(t, repo)
	newRepository(t, filepath.Join(repo, "sub"))
	write(t, filepath.Join(repo, ".gitattributes"), "filtered.txt filter=evil diff=evil merge=evil\nprocessed.txt filter=worse\ndriven.txt diff=worse\n")
	for _, name := range []string{"filtered.txt", "processed.txt", "driven.txt"} {
		write(t, filepath.Join(repo, name), "as committed\n")
	}
	first = commitAll(t, repo, "before the traps")
	for _, name := range []string{"filtered.txt", "processed.txt", "driven.txt", "a.txt", "untracked.txt"} {
		write(t, filepath.Join(repo, name), "changed since\n")
	}

	mark := func(name string) string { return "touch '" + filepath.Join(marks, name) + "'; exit 1;" }
	var config strings.Builder
	for _, trap := range traps {
		if trap.key == "" {
			continue
		}
		section, key, _ := strings.Cut(trap.key, ".")
		if i := strings.LastIndex(key, "."); i >= 0 {
			section, key = section+` "`+key[:i]+`"`, key[i+1:]
		}
		value := mark(trap.name)
		if trap.name == "alias" || trap.name == "credentials" {
			value = "!" + value
		}
		config.WriteString("[" + section + "]\n\t" + key + ` = "` + value + "\"\n")
	}
	write(t, filepath.Join(repo, ".git", "included"), config.String())
	appendTo(t, filepath.Join(repo, ".git", "config"), "[include]\n\tpath = included\n[includeIf \"gitdir:**\"]\n\tpath = included\n[filter \"worse\"]\n\trequired = true\n[remote \"origin\"]\n\turl = .\n")
	appendTo(t, filepath.Join(repo, "sub", ".git", "config"), "[core]\n\tfsmonitor = \""+mark("submodule")+"\"\n")
	for _, hook := range []string{"pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-rewrite"} {
		path := write(t, filepath.Join(repo, ".git", "hooks", hook), "#!/bin/sh\n"+mark("hook"))
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return first
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(b)+text)
}

// sprung returns the names of the traps that left a mark, and wipes the marks.
func sprung(t *testing.T, marks string) []string {
	t.Helper()
	found, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found {
		names = append(names, e.Name())
		if err := os.Remove(filepath.Join(marks, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestNothingOfARepositoryIsRun(t *testing.T) {
	for _, trap := range traps {
		if trap.spring == nil {
			continue
		}
		t.Run("an ordinary git springs the trap "+trap.name, func(t *testing.T) {
			root, marks := folder(t), folder(t)
			repo := filepath.Join(root, "repo")
			trapped(t, repo, marks)
			cmd := gitCommand(repo, trap.spring...)
			cmd.Stdin = strings.NewReader("protocol=https\nhost=example.org\n\n")
			out, _ := cmd.CombinedOutput() // most fail, after they ran what they should not
			if got := sprung(t, marks); !slices.Contains(got, trap.name) {
				t.Errorf("got marks of %v, want one of %s; git said %s", got, trap.name, out)
			}
		})
	}

	root, marks := folder(t), folder(t)
	repo := filepath.Join(root, "repo")
	first := trapped(t, repo, marks)
	linked := filepath.Join(root, "linked")
	write(t, filepath.Join(linked, "filtered.txt"), "changed\n")
	write(t, filepath.Join(linked, ".git"), "gitdir: ../repo/.git/worktrees/linked\n")
	for name, content := range map[string]string{"HEAD": first + "\n", "commondir": "../..\n", "gitdir": filepath.Join(linked, ".git") + "\n"} {
		write(t, filepath.Join(repo, ".git", "worktrees", "linked", name), content)
	}
	in := inspector(t, nil, root)
	check := func(t *testing.T) {
		t.Helper()
		for _, worktree := range []string{repo, linked} {
			for _, c := range in.Check(t.Context(), evidence.RepositoryClaim{Path: worktree, Branch: "main", Commit: first, Worktree: true}) {
				expect(t, c, an{hub.CheckVerified, "", ""})
			}
		}
		if got := sprung(t, marks); len(got) > 0 {
			t.Errorf("got marks of %v, want none", got)
		}
	}
	t.Run("a look at it springs none", check)
	t.Run("the hub's own environment does not reach git", func(t *testing.T) {
		evil := "touch '" + filepath.Join(marks, "environment") + "'"
		for name, value := range map[string]string{
			"GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere",
			"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": evil,
			"GIT_EXTERNAL_DIFF": evil, "GIT_PAGER": evil, "GIT_SSH_COMMAND": evil, "GIT_EXEC_PATH": "/nowhere", "GIT_TRACE": filepath.Join(marks, "trace"),
		} {
			t.Setenv(name, value)
		}
		check(t)
	})
}

func TestHostileRepository(t *testing.T) {
	at := func(repo string, names ...string) string {
		return filepath.Join(append([]string{repo, ".git"}, names...)...)
	}
	loose := func(repo, id string) string { return at(repo, "objects", id[:2], id[2:]) }
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	pipe := func(t *testing.T, path string) {
		t.Helper()
		os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := an{hub.CheckUnverifiable, hub.CodeDenied, "not under a root"}
	leadsOut := an{hub.CheckFailed, hub.CodePolicy, "leads out of the root"}
	notLookedAt := an{hub.CheckUnverifiable, hub.CodeNotEnabled, "is not checked"}
	notThere := an{hub.CheckFailed, hub.CodeNotFound, ""}

	// Each case moves a part of the repository to elsewhere, a path outside the
	// roots, or spoils it. What lies elsewhere must not change the answer.
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, repo, first, elsewhere string)
		what  string
		want  an
	}{
		{"a .git file that leads outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo), elsewhere)
			write(t, at(repo), "gitdir: "+elsewhere+"\n")
		}, evidence.WhatRepository, outside},
		{"a .git link that leads outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo), elsewhere)
			link(t, elsewhere, at(repo))
		}, evidence.WhatRepository, leadsOut},
		{"a shared folder outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo), elsewhere)
			write(t, at(repo, "HEAD"), "ref: refs/heads/main\n")
			write(t, at(repo, "commondir"), elsewhere+"\n")
		}, evidence.WhatRepository, outside},
		{"an object store outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo, "objects"), elsewhere)
			link(t, elsewhere, at(repo, "objects"))
		}, evidence.WhatRepository, notThere},
		{"a folder of objects outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo, "objects", first[:2]), elsewhere)
			link(t, elsewhere, at(repo, "objects", first[:2]))
		}, evidence.WhatCommit, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "something other than a file"}},
		{"an object outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, loose(repo, first), elsewhere)
			link(t, elsewhere, loose(repo, first))
		}, evidence.WhatCommit, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "something other than a file"}},
		{"a pack outside", func(t *testing.T, repo, first, elsewhere string) {
			git(t, repo, "gc", "-q")
			packs, _ := filepath.Glob(at(repo, "objects", "pack", "*.pack"))
			move(t, packs[0], elsewhere)
			link(t, elsewhere, packs[0])
		}, evidence.WhatCommit, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "something other than a file"}},
		{"objects borrowed from outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo, "objects"), elsewhere)
			write(t, at(repo, "objects", "info", "alternates"), elsewhere+"\n")
		}, evidence.WhatCommit, notLookedAt},
		{"a branch outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, at(repo, "refs", "heads", "main"), elsewhere)
			link(t, elsewhere, at(repo, "refs", "heads", "main"))
		}, evidence.WhatBranch, leadsOut},
		{"packed branches outside", func(t *testing.T, repo, first, elsewhere string) {
			git(t, repo, "pack-refs", "--all")
			move(t, at(repo, "packed-refs"), elsewhere)
			link(t, elsewhere, at(repo, "packed-refs"))
		}, evidence.WhatBranch, leadsOut},
		{"rules outside", func(t *testing.T, repo, first, elsewhere string) {
			write(t, elsewhere, "*\n")
			link(t, elsewhere, filepath.Join(repo, ".gitignore"))
		}, evidence.WhatClean, an{hub.CheckVerified, "", `1 untracked, such as ".gitignore"`}},
		{"a folder of files outside", func(t *testing.T, repo, first, elsewhere string) {
			move(t, filepath.Join(repo, "src"), elsewhere)
			link(t, elsewhere, filepath.Join(repo, "src"))
		}, evidence.WhatClean, an{hub.CheckVerified, "", `1 missing, 1 untracked`}},

		{"a branch that names a path", func(t *testing.T, repo, first, elsewhere string) {
			write(t, at(repo, "refs", "heads", "main"), "ref: refs/../../../secret\n")
		}, evidence.WhatBranch, an{hub.CheckUnverifiable, hub.CodeDegraded, "neither a commit nor the name of a branch"}},
		{"a branch that names itself", func(t *testing.T, repo, first, elsewhere string) {
			write(t, at(repo, "refs", "heads", "main"), "ref: refs/heads/main\n")
		}, evidence.WhatBranch, an{hub.CheckUnverifiable, hub.CodeDegraded, "too many other names"}},
		{"a branch that is an endless file", func(t *testing.T, repo, first, elsewhere string) {
			if err := os.Truncate(at(repo, "refs", "heads", "main"), 10<<30); err != nil {
				t.Fatal(err)
			}
		}, evidence.WhatBranch, an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than"}},
		{"a pipe for a HEAD", func(t *testing.T, repo, first, elsewhere string) { pipe(t, at(repo, "HEAD")) }, evidence.WhatRepository, notThere},
		{"a pipe for a .git", func(t *testing.T, repo, first, elsewhere string) {
			os.RemoveAll(at(repo))
			pipe(t, at(repo))
		}, evidence.WhatRepository, an{hub.CheckFailed, hub.CodeConflict, "a pipe"}},
		{"a pipe for an object", func(t *testing.T, repo, first, elsewhere string) { pipe(t, loose(repo, first)) }, evidence.WhatCommit, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "something other than a file"}},
		{"a pipe for packed branches", func(t *testing.T, repo, first, elsewhere string) {
			pipe(t, at(repo, "packed-refs"))
			os.Remove(at(repo, "refs", "heads", "main"))
		}, evidence.WhatBranch, an{hub.CheckFailed, hub.CodeConflict, "a pipe"}},
		{"a pipe for a file", func(t *testing.T, repo, first, elsewhere string) { pipe(t, filepath.Join(repo, "a.txt")) }, evidence.WhatClean, an{hub.CheckVerified, "", "1 changed"}},
		{"a pipe for rules", func(t *testing.T, repo, first, elsewhere string) { pipe(t, filepath.Join(repo, ".gitignore")) }, evidence.WhatClean, an{hub.CheckVerified, "", "1 untracked"}},

		{"an object that is not what its name says", func(t *testing.T, repo, first, elsewhere string) {
			second := commitAll(t, repo, "second")
			move(t, loose(repo, second), loose(repo, first))
			write(t, at(repo, "refs", "heads", "main"), first+"\n")
		}, evidence.WhatCommit, notThere},
		{"an object that is garbage", func(t *testing.T, repo, first, elsewhere string) {
			os.Remove(loose(repo, first))
			write(t, loose(repo, first), "garbage")
		}, evidence.WhatCommit, notThere},
		{"an object that is missing", func(t *testing.T, repo, first, elsewhere string) { os.Remove(loose(repo, first)) }, evidence.WhatCommit, notThere},
		{"files that cannot be listed", func(t *testing.T, repo, first, elsewhere string) {
			os.Remove(loose(repo, git(t, repo, "rev-parse", "HEAD^{tree}")))
		}, evidence.WhatClean, an{hub.CheckUnverifiable, hub.CodeDegraded, "cannot read the files"}},
		{"a tree with a way up", func(t *testing.T, repo, first, elsewhere string) {
			blob := git(t, repo, "rev-parse", "HEAD:a.txt")
			cmd := gitCommand(repo, "mktree")
			cmd.Stdin = strings.NewReader("100644 blob " + blob + "\t..\n100644 blob " + blob + "\t.git\n")
			tree, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			git(t, repo, "update-ref", "HEAD", git(t, repo, "commit-tree", "-m", "x", strings.TrimSpace(string(tree))))
		}, evidence.WhatClean, an{hub.CheckVerified, "", "2 missing"}},
	} {
		t.Run(tt.name+" is not followed or believed", func(t *testing.T) {
			base := folder(t)
			root, elsewhere := filepath.Join(base, "root"), filepath.Join(base, "elsewhere")
			repo := filepath.Join(root, "repo")
			first := newRepository(t, repo)
			tt.spoil(t, repo, first, elsewhere)
			in := inspector(t, nil, root)
			claim := evidence.RepositoryClaim{Path: repo, Branch: "main", Commit: first, Worktree: true}
			before := in.Check(t.Context(), claim)
			expect(t, of(t, before, tt.what), tt.want)
			os.RemoveAll(elsewhere)
			if after := in.Check(t.Context(), claim); !slices.Equal(before, after) {
				t.Errorf("without what was outside: got\n%v\nwant the same as before\n%v", after, before)
			}
		})
	}

	t.Run("an oversized commit is not read", func(t *testing.T) {
		root := folder(t)
		repo := filepath.Join(root, "repo")
		newRepository(t, repo)
		message := write(t, filepath.Join(root, "message"), strings.Repeat("long ", 1<<19))
		git(t, repo, "commit", "-q", "--allow-empty", "-F", message)
		checks := inspector(t, nil, root).Check(t.Context(), evidence.RepositoryClaim{Path: repo, Commit: git(t, repo, "rev-parse", "HEAD")})
		expect(t, of(t, checks, evidence.WhatCommit), an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than 1048576 bytes"})
	})
	t.Run("a file over the limit is not hashed", func(t *testing.T) {
		root := folder(t)
		repo := filepath.Join(root, "repo")
		newRepository(t, repo)
		if err := os.Truncate(filepath.Join(repo, "a.txt"), 10<<30); err != nil {
			t.Fatal(err)
		}
		checks := inspector(t, nil, root).Check(t.Context(), evidence.RepositoryClaim{Path: repo, Worktree: true})
		expect(t, of(t, checks, evidence.WhatClean), an{hub.CheckUnverifiable, hub.CodeTooLarge, "larger than"})
	})
}

func TestRepositoryOutside(t *testing.T) {
	base := folder(t)
	root, repo := filepath.Join(base, "root"), filepath.Join(base, "repo")
	own := filepath.Join(root, "own")
	newRepository(t, own)
	in := inspector(t, nil, root)
	claims := []evidence.RepositoryClaim{
		{Path: repo, Branch: "main"},
		{Path: repo, Worktree: true},
		{Path: link(t, repo, filepath.Join(root, "link")), Worktree: true},
		{Path: root + "/../repo"},
	}
	var absent [][]evidence.Check
	for _, claim := range claims {
		absent = append(absent, in.Check(t.Context(), claim))
	}
	newRepository(t, repo)
	for i, claim := range claims {
		got := in.Check(t.Context(), claim)
		if !slices.Equal(got, absent[i]) {
			t.Errorf("%v: got %v when it is there, want %v as when it is not", claim, got, absent[i])
		}
		want := an{hub.CheckUnverifiable, hub.CodeDenied, "not under a root"}
		if i >= 2 { // they name a place under the root
			want = an{hub.CheckFailed, hub.CodePolicy, "leads out of the root"}
		}
		expect(t, got[len(got)-1], want)
	}
}

func TestRepositoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	root := folder(t)
	repo := filepath.Join(root, "repo")
	newRepository(t, repo)
	if err := os.Chown(filepath.Join(repo, ".git"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	claim := evidence.RepositoryClaim{Path: repo, Branch: "main"}
	t.Run("it is unverifiable", func(t *testing.T) {
		for _, c := range inspector(t, nil, root).Check(t.Context(), claim) {
			expect(t, c, an{hub.CheckUnverifiable, hub.CodeNotEnabled, "another user"})
		}
	})
}
