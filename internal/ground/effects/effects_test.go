package effects_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/effects"
)

const tree = "/w/app"

// say writes the effects in one line for comparison.
func say(e effects.Effects) string {
	var out []string
	for _, t := range e.Writes {
		out = append(out, "write "+target(t))
	}
	for _, g := range e.Git {
		line := string(g.Verb)
		switch {
		case g.Tracked && g.Untracked:
			line += " any"
		case g.Untracked:
			line += " untracked"
		}
		if g.Dir != tree {
			line += " in " + g.Dir
		}
		if g.Ref != "" {
			line += " to " + g.Ref
		}
		for _, t := range g.Paths {
			line += " " + target(t)
		}
		for _, t := range g.Except {
			line += " except " + target(t)
		}
		if g.NoVerify {
			line += " unverified"
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func target(t effects.Target) string {
	text := strings.TrimPrefix(t.Path, tree+"/")
	if t.Path == tree {
		text = "."
	}
	if t.Deep {
		text += "/**"
	}
	if t.Glob {
		text = "glob:" + text
	}
	if t.Spec {
		text = "spec:" + text
	}
	return text
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		// Commands without effects on files that are known.
		{"ls -la", ""},
		{"go test ./... && echo ok", ""},
		{"cat a.go", ""},
		{"grep -r x . | sort", ""},
		{"make build", ""},
		{"this is (not a command", ""},
		{"rm $FILE", ""},
		{`rm "$(cat list)"`, ""},

		// Redirections.
		{"echo x > a.go", "write a.go"},
		{"echo x >> src/a.go", "write src/a.go"},
		{"echo x >| 'a b.go'", "write a b.go"},
		{"make &> log.txt", "write log.txt"},
		{"cat <<EOF > a.go\nrm b.go\nEOF", "write a.go"},
		{"cat < a.go", ""},
		{"echo x > $OUT", ""},
		{"cmd 2>&1", ""},

		// Programs.
		{"rm a.go b.go", "write a.go/**; write b.go/**"},
		{"rm -rf -- src", "write src/**"},
		{"rm *.go", "write glob:*.go/**"},
		{"rm '*.go'", "write *.go/**"},
		{`rm a\ b.go`, "write a b.go/**"},
		{"rm {a,b}.go", "write a.go/**; write b.go/**"},
		{"mv a.go b.go", "write a.go/**; write b.go; write b.go/a.go/**"},
		{"cp x/a.go src", "write src; write src/a.go"},
		{"cp -r lib vendor", "write vendor; write vendor/lib/**"},
		{"cp -t src a.go b.go", "write src; write src/a.go; write src/b.go"},
		{"echo x | tee -a a.go b.go", "write a.go; write b.go"},
		{"sed -i s/a/b/ a.go", "write a.go"},
		{"sed -i.bak -e s/a/b/ a.go b.go", "write a.go; write b.go"},
		{"sed -n 1p a.go", ""},
		{"perl -pi -e 's/a/b/' a.go", "write a.go"},
		{"truncate -s 0 a.go", "write a.go"},
		{"dd if=x of=a.bin bs=1", "write a.bin"},
		{"/bin/rm a.go", "write a.go/**"},

		// Folders.
		{"cd src && rm a.go", "write src/a.go/**"},
		{"cd src; cd ..; rm a.go", "write a.go/**"},
		{"(cd src && rm a.go); rm b.go", "write src/a.go/**; write b.go/**"},
		{"cd $X && rm a.go", ""},
		{"cd src | rm a.go", "write a.go/**"},
		{"rm /etc/a ../other/b", "write /etc/a/**; write /w/other/b/**"},

		// Commands inside of commands.
		{`bash -c 'rm a.go'`, "write a.go/**"},
		{`bash -lc "cd src && rm a.go"; rm b.go`, "write src/a.go/**; write b.go/**"},
		{"bash <<'EOF'\nrm a.go\nEOF", "write a.go/**"},
		{"sudo -u me rm a.go", "write a.go/**"},
		{"env A=1 nice -n 5 rm a.go", "write a.go/**"},
		{"timeout -k 5 10 rm a.go", "write a.go/**"},
		{"eval rm a.go", "write a.go/**"},
		{"echo $(rm a.go)", "write a.go/**"},
		{"find . | xargs rm a.go", "write a.go/**"},
		{"if true; then rm a.go; else rm b.go; fi", "write a.go/**; write b.go/**"},
		{"for f in 1 2; do rm a.go; done", "write a.go/**"},
		{"f() { rm a.go; }; f", "write a.go/**"},
		{strings.Repeat("bash -c '", 1) + "rm a.go'", "write a.go/**"},
		{"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/a.go\n*** Move to: b.go\n@@\n-x\n+y\n*** End Patch\nEOF", "write src/a.go; write b.go"},

		// git.
		{"git status", ""},
		{"git diff a.go", ""},
		{"git checkout .", "switch to . ./**"},
		{"git checkout -- a.go", "discard a.go/**"},
		{"git checkout HEAD~1 -- src", "discard src/**"},
		{"git checkout main", "switch to main main/**"},
		{"git checkout -b new", "move"},
		{"git checkout -f main", "discard"},
		{"git switch main", "switch to main main/**"},
		{"git switch -c new", "move"},
		{"git switch --discard-changes main", "discard"},
		{"git restore a.go", "discard a.go/**"},
		{"git restore --staged a.go", ""},
		{"git restore --staged --worktree a.go", "discard a.go/**"},
		{"git restore '*.go'", "discard spec:*.go/**"},
		{"git reset --hard", "discard"},
		{"git reset --hard HEAD~1", "discard"},
		{"git reset HEAD a.go", ""},
		{"git stash", "restash; discard"},
		{"git stash -u", "restash; discard any"},
		{"git stash push -m 'x y' -- a.go", "restash; discard a.go/**"},
		{"git stash pop", "unstash to pop"},
		{"git stash list", ""},
		{"git clean -fdx", "discard untracked"},
		{"git clean -nfd", ""},
		{"git clean -fd build", "discard untracked build/**"},
		{"git add -A", "stage any"},
		{"git add --all .", "stage any ./**"},
		{"git add .", "stage any ./**"},
		{"git add a.go", "stage any a.go/**"},
		{"git add -A -- ':!a.go' ':(exclude)b.go' .", "stage any ./** except a.go/** except b.go/**"},
		{"git add", ""},
		{"git add -u", "stage"},
		{"git commit -m x", "commit"},
		{"git commit -am 'x'", "stage; commit"},
		{"git commit --all -m x", "stage; commit"},
		{"git commit -m a", "commit"},
		{"git commit -ma", "commit"},
		{"git commit a.go -m x", "stage a.go/**; commit"},
		{"git commit --no-verify -m x", "commit unverified"},
		{"git commit -nm x", "commit unverified"},
		{"git commit -m n", "commit"},
		{"git -c core.hooksPath=/dev/null commit -m x", "commit unverified"},
		{"git -C src add -A", "stage any in /w/app/src"},
		{"cd src && git add .", "stage any in /w/app/src src/**"},
		{"git --work-tree=/x add -A", "stage any in /x"},
		{"F=a.go; echo x > $F", "write a.go"},
		{"for f in a.go b.go; do echo x > $f; done", "write a.go; write b.go"},
		{"for f in *.go; do echo x > $f; done", ""},
		{"patch a.go < x.diff", "write a.go"},
		{"awk -i inplace '{print}' a.go", "write a.go"},
		{"awk '{print}' a.go", ""},
		{"gofmt -w a.go", "write a.go"},
		{"gofmt -l .", ""},
		{"curl -so a.go https://example.com/x", "write a.go"},
		{"find . -name a.go -delete", "write spec:a.go; write spec:*/a.go"},
		{"find src -type f -delete", "write src/**"},
		{"find . -mtime +3 -delete", ""},
		{"find . -exec rm a.go ';'", "write a.go/**"},
		{"git checkout-index -f -a", "discard"},
		{"git read-tree -u --reset HEAD", "discard"},
		{"git pull --autostash", "discard"},
		{"git rebase --autostash main", "discard"},
		{"git pull --rebase", ""},
		{"git stash drop", "unstash to drop"},
		{"env -C src git reset --hard", "discard in /w/app/src"},
		{"GIT_WORK_TREE=/x git checkout -f", "discard in /x"},
		{"git rm a.go", "discard a.go/**"},
		{"git rm --cached a.go", ""},
		{"git mv a.go b.go", "discard a.go/** b.go/**"},
		{"git log && git add -A && git commit -m x && git push", "stage any; commit"},
	} {
		if got := say(effects.Read(c.command, tree)); got != c.want {
			t.Errorf("%s\n got  %q\n want %q", c.command, got, c.want)
		}
	}
}

func TestReach(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"cd ../b && git reset --hard", "/w/b"},
		{"pushd ../b; make clean", "/w/b"},
		{"git -C ../b status", "/w/b"},
		{"git --git-dir=../b/.git --work-tree=../b reset --hard", "/w/b"},
		{"GIT_DIR=/w/b/.git git stash clear", "/w/b"},
		{"env -C /w/b make", "/w/b"},
		{"rm -rf ../b/src", "/w/b/src"},
		{"sh -c 'cd ../b && make'", "/w/b"},
		{"find .. -name '*.txt' -exec sed -i s/a/b/ {} +", "/w"},
		{"echo x > ../b/a.txt", "/w/b/a.txt"},
		{"D=../b; rm -rf $D", "/w/b"},
		{"for d in ../b ../c; do git -C $d reset --hard; done", "/w/c"},
		{"./clean.sh ../b", "/w/b"},
		{"rm -rf ../b/*", "/w/b"},
		{"make -C ../b clean", "/w/b"},
		{"git worktree remove --force ../b", "/w/b"},
	} {
		if got := effects.Read(c.command, "/w/app").Reach; !slices.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %s", c.command, got, c.want)
		}
	}
}

func TestCommandsThatOnlyRead(t *testing.T) {
	for command, reads := range map[string]bool{
		"ls -la": true, "cat a b | grep x | wc -l": true, "cd src && rg foo": true, "find . -name x": true, "git status && git diff": true, "git log --oneline -3": true,
		"git stash list": true, "git branch": true, "git worktree list": true, "sed -n 1,3p a": true, "sh -c 'ls | head'": true, "env -C src ls": true, "for f in a b; do cat $f; done": true,
		"find . -delete": false, "find . -exec rm {} +": false, "make": false, "npm test": false, "./x.sh": false, "git stash": false, "git branch -D x": false, "$CMD": false,
		"sed -i s/a/b/ x": false, "sort -o a a": false, "git diff --output=x": false, "sh -c 'make'": false, "xargs rm": false, "sed 's/a/b/w out' x": false, "awk '{print}' a": false,
		"if true; then rm x; fi": false, "git co .": false, "((": false, "sh x.sh": false, "bash < x": false, "eval $X": false,
	} {
		if got := !effects.Read(command, "/w/app").Acts; got != reads {
			t.Errorf("%s: reads only: got %v, want %v", command, got, reads)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		command string
		touched []string
	}{
		{"rm -r src", []string{"src/a.go", "src/deep/c.go"}},
		{"rm *.go", []string{"b.go"}},
		{"rm src/*", []string{"src/a.go", "src/deep/c.go"}},
		{"cp x.go src", nil},
		{"cp a.go src", []string{"src/a.go"}},
		{"git restore '*.go'", []string{"b.go", "src/a.go", "src/deep/c.go"}},
		{"git checkout -- .", []string{"b.go", "src/a.go", "src/deep/c.go"}},
		{"cd src && git add -A .", []string{"src/a.go", "src/deep/c.go"}},
		{"git add -A -- ':!src'", []string{"b.go"}},
		{"git add :/src", []string{"src/a.go", "src/deep/c.go"}},
	} {
		e := effects.Read(c.command, tree)
		var got []string
		for _, name := range []string{"b.go", "src/a.go", "src/deep/c.go"} {
			file := tree + "/" + name
			steps := 0
			isTouched := effects.Compile(e.Writes...).Matches(file) ||
				slices.ContainsFunc(e.Git, func(g effects.Git) bool { return g.Compile()(file, &steps) })
			if isTouched {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, c.touched) {
			t.Errorf("%s: got %v, want %v", c.command, got, c.touched)
		}
	}
}

func TestPatchPaths(t *testing.T) {
	patch := "*** Begin Patch\n*** Add File: rel/new file.txt\n+*** Delete File: not this\n*** Update File: old.txt\r\n*** Move to: /abs/moved.txt\n*** Delete File: gone.txt\n*** End Patch\n"
	want := "[rel/new file.txt old.txt /abs/moved.txt gone.txt]"
	if got := fmt.Sprint(effects.PatchPaths(patch)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A command inside a command has a bounded depth, and text of any form is read without a panic.
func FuzzRead(f *testing.F) {
	f.Add("cd src && git -C x add -A ':!a' && rm -rf {a,b}/*.go > out")
	f.Add(strings.Repeat("eval ", 50) + "rm a")
	f.Add("git checkout")
	f.Add("git -C")
	f.Add("sed -i")
	f.Add("mv")
	f.Add("cp -t")
	f.Add("timeout")
	f.Add(":(")
	f.Add("git add ':(' ':' ':!'")
	f.Fuzz(func(t *testing.T, command string) {
		e := effects.Read(command, tree)
		for _, w := range e.Writes {
			if !strings.HasPrefix(w.Path, "/") {
				t.Errorf("%q writes %q, which is not absolute", command, w.Path)
			}
		}
		steps := 0
		effects.Compile(e.Writes...).Matches(tree + "/a.go")
		for _, g := range e.Git {
			g.Compile()(tree+"/a.go", &steps)
		}
	})
}

// TestCommandsThatWouldTakeMuchMemory reads commands that were made to take much memory. Beyond
// the bounds their effects are unknown, and what comes after a here-document still counts.
func TestCommandsThatWouldTakeMuchMemory(t *testing.T) {
	patch := "*** Begin Patch\n*** Update File: a.go\n@@\n+x\n*** End Patch\n"
	for _, c := range []struct{ name, command, want string }{
		{"braces", "touch " + strings.Repeat("{a,b}", 10_000), ""},
		{"braces inside braces", "touch " + strings.Repeat("{a,", 10_000) + strings.Repeat("}", 10_000), ""},
		{"blocks", strings.Repeat("{ ", 60_000), ""},
		{"substitutions", strings.Repeat("$(", 30_000), ""},
		{"parameters", "echo " + strings.Repeat("${a:-", 10_000), ""},
		{"arithmetic", "echo " + strings.Repeat("((", 30_000), ""},
		{"words that expand to much text", "touch " + strings.Repeat("x", 20_000) + strings.Repeat("{a,b}", 14), "*"},
		{"a text beyond the bound", "rm a.go; " + strings.Repeat("true; ", 10_000), ""},
		{"a long here-document", "cat > b.json <<'EOF'\n" + strings.Repeat("{\"a\":", 30_000) + "\nEOF\nrm a.go", "write b.json; write a.go/**"},
		{"an open here-document with substitutions", "cat > b.txt <<EOF\n" + strings.Repeat("$(", 30_000) + "\nEOF\nrm a.go", "write b.txt; write a.go/**"},
		{"a patch in a long here-document", "apply_patch <<'EOF'\n" + strings.Replace(patch, "+x", "+"+strings.Repeat("x{", 50_000), 1) + "EOF\n", "write a.go"},
		{"two here-documents of one line", "cat <<A > b; cat <<-B > c\none\nA\n\ttwo\n\tB\nrm a.go", "write b; write c; write a.go/**"},
		{"no here-document in quotes", "echo '<<EOF' > b\nrm a.go\nEOF", "write b; write a.go/**"},
		{"no here-document in a number", "echo $((1<<2)) > b\nrm a.go", "write b; write a.go/**"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := say(effects.Read(c.command, tree))
			runtime.ReadMemStats(&after)
			if got != c.want && c.want != "*" {
				t.Errorf("got %.200q, want %q", got, c.want)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 64 {
				t.Errorf("a command of %d bytes took %d MiB", len(c.command), took)
			}
		})
	}
}
