package workshop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/reach/workshop"
	"github.com/parley-agents/parley/internal/testing/patience"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confined" {
		os.Exit(confine.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "run-one" {
		runOne(os.Args[2], os.Args[3], os.Args[4])
	}
	os.Exit(m.Run())
}

// A site is a user with a home folder and a repository, a hub's home with a bare copy of the
// repository, and a shop.
type site struct {
	t     *testing.T
	home  string // of the user
	hub   string // the hub's home
	user  string // the user's repository
	copy  string
	shop  *workshop.Shop
	shops string
}

// needConfinement skips a test on a system that cannot confine, and fails it with CI=true.
func needConfinement(t *testing.T) {
	t.Helper()
	err := confine.Supported()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	needConfinement(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	s := &site{t: t, home: filepath.Join(top, "user")}
	s.hub = filepath.Join(s.home, ".parley")
	s.user = filepath.Join(s.home, "app")
	s.copy = filepath.Join(s.hub, "copies", "app.git")
	s.shops = filepath.Join(s.hub, "checks")
	for _, dir := range []string{s.user, filepath.Dir(s.copy), filepath.Join(s.home, ".ssh"), filepath.Join(s.home, ".config", "gh")} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	t.Setenv("HOME", s.home)
	put(t, filepath.Join(s.hub, "operator.key"), secret)
	put(t, filepath.Join(s.home, ".ssh", "id_ed25519"), secret)
	put(t, filepath.Join(s.home, ".netrc"), secret)
	put(t, filepath.Join(s.home, ".config", "gh", "hosts.yml"), secret)
	put(t, filepath.Join(s.home, ".config", "other"), "not a key")

	s.git("init", "--quiet", "--initial-branch=main")
	s.commit(map[string]string{"README": "an app\n", "src/a.txt": "a\n", "lock": "one\n"})
	must(t, exec.Command("git", "init", "--quiet", "--bare", s.copy).Run())
	s.open()
	return s
}

const secret = "the-secret-of-the-operator"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func (s *site) open() {
	s.t.Helper()
	shop, err := workshop.Open(s.t.Context(), s.shops, &workshop.Options{Jobs: 2, Hidden: []string{s.hub}, Processes: 60})
	must(s.t, err)
	s.shop = shop
}

func (s *site) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ana", "-c", "user.email=ana@example.com", "-C", s.user}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files and commits them in the user's repository.
func (s *site) commit(files map[string]string) string {
	s.t.Helper()
	for name, text := range files {
		put(s.t, filepath.Join(s.user, name), text)
	}
	s.git("add", "--all", "--force")
	s.git("commit", "--quiet", "--allow-empty", "--message=work")
	return s.git("rev-parse", "HEAD")
}

// job returns a run of a line of the shell on the user's commit, which it brings to the copy.
func (s *site) job(line string) workshop.Job {
	s.t.Helper()
	s.git("push", "--quiet", "--force", s.copy, "HEAD:refs/parley/try")
	return workshop.Job{
		Copy: s.copy, Commit: s.git("rev-parse", "HEAD"),
		Check: workshop.Check{
			Name: "test", Command: []string{"sh", "-c", line}, Timeout: patience.For(2 * time.Minute),
			Env: map[string]string{"USER_HOME": s.home, "HUB": s.hub, "APP": s.user, "COPY": s.copy, "SHOP": s.shops},
		},
	}
}

func (s *site) run(job workshop.Job) workshop.Result {
	s.t.Helper()
	r, err := s.shop.Run(s.t.Context(), job)
	must(s.t, err)
	return r
}

// clean reports worktrees, runs and processes that are left.
func (s *site) clean() {
	s.t.Helper()
	if out, err := exec.Command("git", "--git-dir="+s.copy, "worktree", "list").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 {
		s.t.Errorf("worktrees are left: %s, %v", out, err)
	}
	if left, err := os.ReadDir(filepath.Join(s.shops, "runs")); err != nil || len(left) > 0 {
		s.t.Errorf("runs are left: %v, %v", left, err)
	}
}

func TestRun(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name, line string
		state      workshop.State
		code       int
		output     string
	}{
		{"a command that ends well has passed", "cat README; pwd; ls -a", workshop.StatePassed, 0, "an app\n"},
		{"another exit code has failed", "echo why >&2; exit 3", workshop.StateFailed, 3, "why\n"},
		{"a signal has failed", "kill -SEGV $$", workshop.StateFailed, 139, ""},
		{"git works in the worktree", "git log --format=%s && git status --short", workshop.StatePassed, 0, "work\n"},
		{"the home folder and that for temporary files are its own", `touch ~/x $TMPDIR/x && echo ~`, workshop.StatePassed, 0, s.shops},
		{"files of the user that are not keys can be read", `cat $USER_HOME/.config/other`, workshop.StatePassed, 0, "not a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.run(s.job(tt.line))
			if r.State != tt.state || r.ExitCode != tt.code || !strings.Contains(string(r.Output.Tail), tt.output) || !r.Confined || r.InPlace {
				t.Errorf("got %+v\n%s", r, r.Output.Tail)
			}
			whole, err := os.ReadFile(r.Output.File)
			sum := sha256.Sum256(whole)
			if err != nil || !bytes.Equal(whole, r.Output.Tail) || int64(len(whole)) != r.Output.Bytes || hex.EncodeToString(sum[:]) != r.Output.SHA256 {
				t.Errorf("the file of the output: %q, %v", whole, err)
			}
			s.clean()
		})
	}
}

func TestNotStarted(t *testing.T) {
	s := newSite(t)
	job := s.job("")
	job.Check.Command = []string{"no-such-program"}
	if r := s.run(job); r.State != workshop.StateNotStarted || !strings.Contains(r.Reason, "no-such-program") {
		t.Errorf("got %+v", r)
	}
	job = s.job("echo the command ran")
	job.Check.Setup = []string{"sh", "-c", "echo the setup ran; exit 4"}
	if r := s.run(job); r.State != workshop.StateNotStarted || string(r.Output.Tail) != "the setup ran\n" || !strings.Contains(r.Reason, "setup") {
		t.Errorf("got %+v", r)
	}
	job.Commit = strings.Repeat("0", 40)
	if _, err := s.shop.Run(t.Context(), job); err == nil {
		t.Error("a commit that does not exist was run")
	}
	s.clean()
}

// A check that must be confined is refused where the system cannot, with an error that callers
// know; one that need not runs, and its result says so.
func TestSystemThatCannotConfine(t *testing.T) {
	s := newSite(t)
	job := s.job("cat $HUB/operator.key")
	t.Cleanup(workshop.SetSupported(func() error { return fmt.Errorf("%w: a test", confine.ErrUnsupported) }))
	if _, err := s.shop.Run(t.Context(), job); !errors.Is(err, workshop.ErrUnconfined) {
		t.Errorf("got %v", err)
	}
	job.Check.Unconfined = true
	if r := s.run(job); r.Confined || r.State != workshop.StatePassed || string(r.Output.Tail) != secret {
		t.Errorf("got %+v", r)
	}
}

// The result of a run names its level, and does not count if the machine had a better one before.
func TestLevelOfARun(t *testing.T) {
	s := newSite(t)
	best, err := confine.Probe("")
	must(t, err)
	if r := s.run(s.job("true")); r.State != workshop.StatePassed || r.Coverage.String() != best.String() || best.Level == confine.LevelNone {
		t.Errorf("got %+v, want %s", r, best)
	}

	weak := confine.Coverage{Level: confine.LevelFiles}
	workshop.Weaken(s.shop, weak, confine.LevelFiles)
	if r := s.run(s.job("true")); r.State != workshop.StatePassed || r.Coverage.Level != weak.Level || len(r.Coverage.Not) == 0 {
		t.Errorf("a machine that has no better level: got %+v", r)
	}
	workshop.Weaken(s.shop, confine.Coverage{Level: confine.LevelScopes}, confine.LevelFiles)
	for _, line := range []string{"true", "false"} {
		if r := s.run(s.job(line)); r.State != workshop.StateNotStarted || !strings.Contains(r.Reason, "level 3; not: signals") {
			t.Errorf("%s at a lower level than before: got %+v", line, r)
		}
	}
	job := s.job("true")
	job.Check.Unconfined = true
	if r := s.run(job); r.State != workshop.StatePassed || r.Coverage.Level != confine.LevelNone {
		t.Errorf("unconfined: got %+v", r)
	}
}

// hostile are lines of code under check that must not reach their aim. Each ends with another
// code than 0, and prints no secret.
var hostile = map[string]string{
	"it reads the operator's key":                    `cat $HUB/operator.key`,
	"it reads the key through the folder of its run": `cat $PWD/../../../../../operator.key`,
	"it lists the hub's home":                        `ls $HUB`,
	"it reads a key of ssh":                          `cat $USER_HOME/.ssh/id_ed25519`,
	"it reads the passwords of servers":              `cat $USER_HOME/.netrc`,
	"it reads the session of gh":                     `cat $USER_HOME/.config/gh/hosts.yml`,
	"it reads a key through a link":                  `ln -s $USER_HOME/.ssh keys && cat keys/id_ed25519`,
	"it links a key into its worktree":               `ln $USER_HOME/.ssh/id_ed25519 mine && cat mine`,
	"it moves a key away":                            `mv $USER_HOME/.netrc . && cat .netrc`,
	"it reads the environment of the hub":            `cat /proc/$HUB_PID/environ`,
	"it reads the memory of the hub":                 `head -c 1 /proc/$HUB_PID/mem`,
	"it writes a hook of the user":                   `echo 'touch /tmp/x' > $APP/.git/hooks/pre-commit`,
	"it writes the configuration of the user's git":  `git -C $APP config core.fsmonitor /bin/evil`,
	"it moves a branch of the user":                  `git -C $APP update-ref refs/heads/main HEAD~0 && git -C $APP update-ref refs/heads/new HEAD`,
	"it writes a file of the user":                   `echo x >> $APP/README`,
	"it removes a file of the user":                  `rm -f $APP/README`,
	"it empties a file of the user":                  `truncate -s 0 $APP/README`,
	"it makes a file beside the user's":              `touch $USER_HOME/new`,
	"it writes a start file of the user's shell":     `echo evil >> $USER_HOME/.bashrc`,
	"it writes to the hub's copy":                    `git update-ref refs/heads/evil HEAD`,
	"it writes a hook of the hub's copy":             `mkdir -p $COPY/hooks && echo evil > $COPY/hooks/post-checkout`,
	"it writes to the caches":                        `mkdir -p $SHOP/caches/x`,
	"it writes to the folders of other runs":         `mkdir $SHOP/runs/2`,
	"it writes the record of its own run":            `echo '{}' > $SHOP/runs/1/run.json`,
	"it writes to the folder of all programs":        `touch /tmp/parley-check-was-here-$$`,
	"it changes the mode of a key":                   `chmod 777 $USER_HOME/.ssh`,
	"it replaces its own worktree":                   `mv $PWD ../other && ln -s $APP $PWD`,
	"it reads the shared memory of others":           `cat /dev/shm/parley-check-test`,
	"it ends its supervisor":                         `kill -9 $PPID`,
	"it ends the hub":                                `kill -9 $HUB_PID`,
}

func TestHostileChecks(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	t.Setenv("PARLEY_KEY", secret)
	put(t, filepath.Join(s.home, ".bashrc"), "")
	put(t, "/dev/shm/parley-check-test", secret)
	t.Cleanup(func() { os.Remove("/dev/shm/parley-check-test") })
	s.job("") // brings the commit to the copy
	before := digest(t, s.user) + digest(t, filepath.Join(s.home, ".ssh")) + digest(t, s.copy)
	best, err := s.shop.Probe()
	must(t, err)
	for level := best.Level; level <= confine.LevelFiles; level++ {
		workshop.Weaken(s.shop, confine.Coverage{Level: level}, level)
		not := s.run(s.job("true")).Coverage.Not
		for name, line := range hostile {
			t.Run(fmt.Sprintf("level %d: %s", level, name), func(t *testing.T) {
				isNamed := (strings.Contains(name, "mode") && slices.Contains(not, "modes of files")) || (strings.HasPrefix(name, "it ends") && slices.Contains(not, "signals"))
				if isNamed {
					t.Skipf("the result says so: %q", not)
				}
				job := s.job(line)
				job.Check.Env["HUB_PID"] = strconv.Itoa(os.Getpid())
				r := s.run(job)
				if r.State != workshop.StateFailed || r.ExitCode <= 0 || r.Coverage.Level != level || strings.Contains(string(r.Output.Tail), secret) {
					t.Errorf("got %+v\n%s", r, r.Output.Tail)
				}
				s.clean()
			})
		}
	}
	if after := digest(t, s.user) + digest(t, filepath.Join(s.home, ".ssh")) + digest(t, s.copy); after != before {
		t.Error("files of the user or of the copy were changed")
	}
	for _, name := range []string{"new", ".parley/checks/caches/x"} {
		if _, err := os.Stat(filepath.Join(s.home, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(s.home, ".bashrc")); err != nil || len(text) > 0 {
		t.Errorf(".bashrc: %q, %v", text, err)
	}
}

// digest returns the digest of the names and contents in a folder. Lists of worktrees come and
// go with runs.
func digest(t *testing.T, folder string) string {
	t.Helper()
	sum := sha256.New()
	must(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(text))
		return err
	}))
	return hex.EncodeToString(sum.Sum(nil))
}

// The environment of a check has no keys of the hub and nothing that leads to them.
func TestEnvironment(t *testing.T) {
	s := newSite(t)
	job := s.job("env")
	for _, name := range []string{"PARLEY_KEY", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "GIT_DIR", "DATABASE_URL"} {
		t.Setenv(name, secret)
	}
	job.Check.Env["MODE"] = "strict"
	r := s.run(job)
	text := string(r.Output.Tail)
	if strings.Contains(text, secret) || !strings.Contains(text, "MODE=strict\n") || !strings.Contains(text, "\nPATH=") {
		t.Errorf("got %s", text)
	}
}

func TestWritable(t *testing.T) {
	s := newSite(t)
	folder := filepath.Join(s.home, "build-cache")
	must(t, os.Mkdir(folder, 0o755))
	job := s.job(`echo built > ` + folder + `/result`)
	job.Check.Writable = []string{folder}
	if r := s.run(job); r.State != workshop.StatePassed {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	for _, folder := range []string{"/", s.home, s.hub, filepath.Join(s.hub, "copies"), filepath.Join(s.home, ".ssh"), "relative", filepath.Join(s.home, "absent")} {
		job.Check.Writable = []string{folder}
		if _, err := s.shop.Run(t.Context(), job); err == nil {
			t.Errorf("%s was writable", folder)
		}
	}
}

// leave is a line that leaves a process behind in a session of its own whose parents have ended,
// without the variables by which it could be found. The process sleeps for a time that only it has.
var leave = `env -i PATH="$PATH" setsid sh -c 'setsid sh -c "echo > left; exec sleep 1` + strconv.Itoa(os.Getpid()) + ` >/dev/null 2>&1" & ' & while ! test -s left; do :; done; echo left;`

// sleeps reports whether a process is alive that sleeps for so many seconds. Its number in its own
// namespace says nothing here.
func sleeps(t *testing.T, seconds string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	return slices.ContainsFunc(lines, func(line string) bool {
		raw, err := os.ReadFile(line)
		return err == nil && string(raw) == "sleep\x00"+seconds+"\x00"
	})
}

// left reports whether the process that leave left behind is alive.
func left(t *testing.T) bool {
	t.Helper()
	return sleeps(t, "1"+strconv.Itoa(os.Getpid()))
}

func TestProcessesLeftBehind(t *testing.T) {
	s := newSite(t)
	r := s.run(s.job(leave))
	if r.State != workshop.StatePassed || r.Left == 0 {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if left(t) {
		t.Error("the process is alive")
	}
	s.clean()
}

func TestTimeout(t *testing.T) {
	s := newSite(t)
	job := s.job(leave + `trap '' TERM INT HUP; while :; do sleep 1000; done`)
	job.Check.Timeout = 2 * time.Second
	r := s.run(job)
	if r.State != workshop.StateTimedOut || r.ExitCode != -1 {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if left(t) {
		t.Error("the process is alive")
	}
	s.clean()
}

// A lineWriter tells when a whole line was written.
type lineWriter struct {
	once sync.Once
	line chan struct{}
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if bytes.ContainsRune(p, '\n') {
		w.once.Do(func() { close(w.line) })
	}
	return len(p), nil
}

func TestCancelled(t *testing.T) {
	s := newSite(t)
	job := s.job(leave + `sleep 1000`)
	live := &lineWriter{line: make(chan struct{})}
	job.Live = live
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-live.line
		cancel()
	}()
	r, err := s.shop.Run(ctx, job)
	if err != nil || r.State != workshop.StateCancelled {
		t.Errorf("got %+v, %v", r, err)
	}
	if left(t) {
		t.Error("the process is alive")
	}
	s.clean()
	if r, err := s.shop.Run(ctx, job); err != nil || r.State != workshop.StateCancelled {
		t.Errorf("a run after the end: got %+v, %v", r, err)
	}
}

// A check that is not confined can kill its supervisor. Its processes are ended all the same.
func TestSupervisorIsKilled(t *testing.T) {
	s := newSite(t)
	job := s.job(`setsid sh -c 'echo > left; exec sleep 1` + strconv.Itoa(os.Getpid()) + `' & while ! test -s left; do :; done; kill -9 $PPID; sleep 1000`)
	job.Check.Unconfined = true
	r := s.run(job)
	if r.State != workshop.StateFailed || !strings.Contains(r.Reason, "supervisor") {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if left(t) {
		t.Error("the process is alive")
	}
	s.clean()
}

// The bomb makes at most 2,000 processes.
func TestHostileForkBomb(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	r := s.run(s.job(`i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i+1)); done; wait`))
	if r.State != workshop.StateFailed || !strings.Contains(r.Reason, "more than 60 processes") {
		t.Errorf("got %+v", r)
	}
	s.clean()
}

func TestHostileOutput(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	r := s.run(s.job(`head -c 1000000000 /dev/zero; echo end`))
	if r.State != workshop.StatePassed || r.Output.Bytes != 1_000_000_004 || len(r.Output.Tail) != workshop.TailBytes || !bytes.HasSuffix(r.Output.Tail, []byte("end\n")) {
		t.Errorf("got %s %s, %d bytes, %d kept", r.State, r.Reason, r.Output.Bytes, len(r.Output.Tail))
	}
	if info, err := os.Stat(r.Output.File); err != nil || info.Size() != workshop.OutputBytes {
		t.Errorf("the file: %v, %v", info, err)
	}
	s.clean()
}

// A check that edits its tree edits neither the next run's nor the user's.
func TestEditedTree(t *testing.T) {
	s := newSite(t)
	if r := s.run(s.job(`echo edited > README; rm -r src; mkdir locked; touch locked/x; chmod 0 locked; rm .git; ln -s $APP/.git .git`)); r.State != workshop.StatePassed {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	s.clean()
	if r := s.run(s.job(`cat README src/a.txt; git status --short`)); string(r.Output.Tail) != "an app\na\n" {
		t.Errorf("got %s", r.Output.Tail)
	}
	if s.git("status", "--short") != "" {
		t.Error("the user's tree was changed")
	}
}

// A commit names programs in its attributes, and the user's configuration defines them; the
// worktree of a check is made without.
func TestHostileCommit(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	mark := filepath.Join(s.home, "ran")
	s.commit(map[string]string{".gitattributes": "* filter=evil\n", ".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ext::touch " + mark + "\n", "package.json": `{"scripts": {"postinstall": "touch ` + mark + `"}}`})
	s.git("config", "filter.evil.smudge", "touch "+mark)
	s.git("config", "core.fsmonitor", "touch "+mark)
	put(t, filepath.Join(s.user, ".git", "hooks", "post-checkout"), "#!/bin/sh\ntouch "+mark+"\n")
	must(t, os.Chmod(filepath.Join(s.user, ".git", "hooks", "post-checkout"), 0o755))
	job := s.job("cat README")
	os.Remove(mark) // the user's own git may have made it
	if r := s.run(job); string(r.Output.Tail) != "an app\n" {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program of the repository ran")
	}
}

// setup is a check whose setup makes a kept folder.
func (s *site) setup(line string) workshop.Job {
	job := s.job(line)
	job.Check.Setup = []string{"sh", "-c", `echo setup ran; mkdir -p deps/sub; cat lock > deps/sub/got; echo good > deps/good; touch ~/from-setup`}
	job.Check.SetupKey = []string{"lock"}
	job.Check.Keep = []string{"deps"}
	return job
}

func TestKeptFolders(t *testing.T) {
	s := newSite(t)
	fill := func(target bool, line string) workshop.Result {
		t.Helper()
		job := s.setup(line)
		job.Target = target
		return s.run(job)
	}
	show := `cat deps/sub/got deps/good; ls ~`

	// Only a run on the target branch that passed fills the cache.
	if r := fill(false, show); r.Cached || string(r.Output.Tail) != "setup ran\none\ngood\nfrom-setup\n" {
		t.Errorf("the first run: got %+v\n%s", r, r.Output.Tail)
	}
	if r := fill(true, show+"; exit 1"); r.Cached {
		t.Errorf("a run that is not on the target branch filled the cache: %+v", r)
	}
	if r := fill(true, show); r.Cached {
		t.Errorf("a run that failed filled the cache: %+v", r)
	}
	if r := fill(false, show); !r.Cached || string(r.Output.Tail) != "one\ngood\nfrom-setup\n" {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}

	// What a run does to its copy is thrown away.
	poison := `echo poison > deps/good; rm -r deps/sub; ln -s /etc deps/link; echo poison > ~/.profile; chmod -R 0 deps`
	if r := fill(false, poison); r.State != workshop.StatePassed {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if r := fill(true, poison+"; exit 1"); r.State != workshop.StateFailed {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if r := fill(false, show); !r.Cached || string(r.Output.Tail) != "one\ngood\nfrom-setup\n" {
		t.Errorf("after the poison: got %+v\n%s", r, r.Output.Tail)
	}

	// A changed file of the key, or a changed command, makes a new entry.
	s.commit(map[string]string{"lock": "two\n"})
	if r := fill(true, show); r.Cached || string(r.Output.Tail) != "setup ran\ntwo\ngood\nfrom-setup\n" {
		t.Errorf("a changed key: got %+v\n%s", r, r.Output.Tail)
	}
	if r := fill(false, show); !r.Cached {
		t.Errorf("got %+v", r)
	}
	job := s.setup(show)
	job.Check.Setup[2] += "; true"
	if r := s.run(job); r.Cached {
		t.Errorf("a changed setup: got %+v", r)
	}
	job = s.setup(show)
	job.Check.Env["FLAGS"] = "other"
	if r := s.run(job); r.Cached {
		t.Errorf("a changed environment: got %+v", r)
	}
	s.clean()
}

// A commit cannot lead a kept folder elsewhere, or hide its own files behind the cache.
func TestHostileKeptFolders(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	job := s.setup("true")
	job.Target = true
	if r := s.run(job); r.State != workshop.StatePassed {
		t.Fatalf("got %+v\n%s", r, r.Output.Tail)
	}

	s.commit(map[string]string{"deps/own": "of the commit\n"})
	if r := s.run(s.setup("cat deps/own")); r.Cached || !strings.Contains(string(r.Output.Tail), "of the commit") {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}

	s.git("rm", "-rq", "deps")
	must(t, os.Symlink(s.home, filepath.Join(s.user, "deps")))
	s.commit(nil)
	before := digest(t, s.user)
	job = s.setup("true")
	job.Target = true
	s.run(job)
	if _, err := os.Stat(filepath.Join(s.home, "good")); err == nil || digest(t, s.user) != before {
		t.Error("a kept folder was written to the user's home")
	}
	for _, folder := range []string{"../x", "/etc", ".", ".git/hooks", ".GIT", ""} {
		job.Check.Keep = []string{folder}
		if _, err := s.shop.Run(t.Context(), job); err == nil {
			t.Errorf("%q was kept", folder)
		}
	}
}

func TestInPlace(t *testing.T) {
	s := newSite(t)
	put(t, filepath.Join(s.user, "uncommitted"), "work\n")
	job := s.job("cat uncommitted")
	job.InPlace = s.user
	r := s.run(job)
	if r.State != workshop.StatePassed || !r.InPlace || r.Before == "" || r.Before != r.After || string(r.Output.Tail) != "work\n" {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	job.Check.Command = []string{"sh", "-c", "echo more >> uncommitted; cat $HUB/operator.key"}
	r = s.run(job)
	if r.State != workshop.StateFailed || r.Before == r.After || strings.Contains(string(r.Output.Tail), secret) {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	job.Check.Command = []string{"sh", "-c", "git config core.fsmonitor evil"}
	if r := s.run(job); r.Sealed && r.State != workshop.StateFailed {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	job.InPlace = s.home
	if _, err := s.shop.Run(t.Context(), job); err == nil {
		t.Error("a check ran in a folder with keys in it")
	}
}

func TestHostileReports(t *testing.T) {
	patience.NotUnderRace(t)
	s := newSite(t)
	s.commit(map[string]string{"out/old.xml": `<testsuite><testcase name="lie"/></testsuite>`})
	job := s.job(`mkdir -p out; for i in 1 2; do echo '<testsuite tests="900"><testcase name="a"/><testcase><failure/></testcase><testcase><skipped/></testcase></testsuite>' > out/$i.xml; done`)
	job.Check.JUnit = "out/*.xml"
	r := s.run(job)
	if r.Tests == nil || *r.Tests != (workshop.Tests{Total: 6, Failed: 2, Skipped: 2}) {
		t.Errorf("got %+v, %+v", r, r.Tests)
	}
	if r.State != workshop.StateFailed || r.ExitCode != 0 || !strings.Contains(r.Reason, "2 of 6 tests failed") {
		t.Errorf("tests failed and the command ended with 0: got %+v", r)
	}
	job = s.job(`true`)
	job.Check.JUnit = "out/*.xml"
	if r := s.run(job); r.Tests != nil {
		t.Errorf("the results that the commit has were counted: %+v", r.Tests)
	}
	for name, line := range map[string]string{
		"a pipe":             `mkdir -p o; mkfifo o/x.xml`,
		"a link out":         `mkdir -p o; ln -s $APP/out/old.xml o/x.xml`,
		"a broken file":      `mkdir -p o; echo '<testsuite><testcase>' > o/x.xml`,
		"no XML":             `mkdir -p o; head -c 1000 /dev/urandom > o/x.xml`,
		"a very large file":  `mkdir -p o; truncate -s 40M o/x.xml`,
		"too many files":     `mkdir -p o; i=0; while [ $i -lt 1100 ]; do : > o/$i.xml; i=$((i+1)); done`,
		"a folder, not file": `mkdir -p o/x.xml`,
	} {
		t.Run(name, func(t *testing.T) {
			job := s.job(line)
			job.Check.JUnit = "o/*.xml"
			if r := s.run(job); r.Tests != nil || r.State != workshop.StatePassed || r.Reason == "" {
				t.Errorf("got %+v, %+v", r, r.Tests)
			}
		})
	}
}

func TestOffline(t *testing.T) {
	s := newSite(t)
	job := s.job(`cat /proc/net/dev | grep -c :`)
	job.Check.Offline = true
	r := s.run(job)
	if r.Network == confine.NetworkLoopback && string(r.Output.Tail) != "1\n" {
		t.Errorf("got %+v\n%s", r, r.Output.Tail)
	}
	if r.Network == "" {
		t.Errorf("got %+v", r)
	}
}

// runOne runs a check until this process is killed.
func runOne(shop, copy, commit string) {
	s, err := workshop.Open(context.Background(), shop, nil)
	if err == nil {
		_, err = s.Run(context.Background(), workshop.Job{Copy: copy, Commit: commit, Check: workshop.Check{
			Name: "test", Command: []string{"sh", "-c", fmt.Sprintf(`sleep 2%[1]d & echo $! > left; setsid sh -c 'echo $$ > far; exec sleep 3%[1]d' & wait`, os.Getpid())},
		}})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// await waits until a file has a line.
func await(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience.For(time.Minute))
	for {
		raw, err := os.ReadFile(path)
		if err == nil && bytes.HasSuffix(raw, []byte("\n")) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s was not written", path)
		}
	}
}

// After a kill of the hub, with or without the supervisor, the next Open ends the processes and
// removes the worktree.
func TestKill(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("with the supervisor: ", both), func(t *testing.T) {
			s := newSite(t)
			job := s.job("")
			cmd := exec.Command(os.Args[0], "run-one", s.shops, s.copy, job.Commit)
			cmd.Stderr = os.Stderr
			must(t, cmd.Start())
			run := filepath.Join(s.shops, "runs", "1")
			await(t, filepath.Join(run, "work", "tree", "left"))
			await(t, filepath.Join(run, "work", "tree", "far"))
			var record struct{ Pid int }
			readJSON(t, filepath.Join(run, "run.json"), &record)
			if both {
				p, err := os.FindProcess(record.Pid)
				must(t, err)
				must(t, p.Kill())
			}
			cmd.Process.Kill()
			cmd.Wait()

			s.open()
			if process.Stamp(record.Pid) != "" {
				t.Error("the supervisor is alive")
			}
			for _, first := range []string{"2", "3"} {
				if seconds := first + strconv.Itoa(cmd.Process.Pid); sleeps(t, seconds) {
					t.Errorf("the process that sleeps %s seconds is alive", seconds)
				}
			}
			s.clean()
			if r := s.run(s.job("cat README")); r.State != workshop.StatePassed {
				t.Errorf("got %+v", r)
			}
		})
	}
}
