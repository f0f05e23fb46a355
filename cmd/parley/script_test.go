package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script. A script is a story of several
// personas on one hub: each line is a command as a person types it, with its expected
// output below. The commands that scripts have besides those of testscript:
//
//	hub [FLAG...]              start a hub on a home of its own
//	stophub                    stop it, and expect exit code 0
//	agent NAME [ROLE]          add an agent and remember its key
//	as NAME ARG...             run parley with the agent's key
//	operator ARG...            run parley with the operator's key
//	nobody ARG...              run parley without a key
//	feed FILE NAME ARG...      run parley with the agent's key and FILE as standard input
//	refused EXIT CODE WHO ARG  run parley as an agent, operator or nobody, with --json;
//	                           expect this exit code, this error code, and no output
//	hint TEXT, message TEXT    expect TEXT in the hint or the message of the last refusal
//	code N                     expect this exit code of the last parley command
//	keep NAME PATTERN          set $NAME to the first group of PATTERN in the last output
//	bytes NAME N TEXT          set $NAME to TEXT with the last of its % replaced so that it
//	                           has N bytes
//
// A line that begins with # names the rule that the lines below it hold, so that a
// failure is read as a sentence.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("PARLEY_HOME", home)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TERM", "xterm-256color")
			env.Setenv("GIT_AUTHOR_NAME", "t")
			env.Setenv("GIT_AUTHOR_EMAIL", "t@example.com")
			env.Setenv("GIT_COMMITTER_NAME", "t")
			env.Setenv("GIT_COMMITTER_EMAIL", "t@example.com")
			s := &stage{keys: map[string]string{}}
			env.Values[personas{}] = s
			env.Defer(func() {
				if test, ok := env.T().(interface{ Failed() bool }); ok && !test.Failed() {
					return
				}
				for _, log := range s.logs {
					env.T().Log("the log of the hub:\n" + log.String())
				}
			})
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"hub": scriptHub, "stophub": scriptStop, "agent": scriptAgent, "as": scriptAs, "operator": scriptOperator, "nobody": scriptNobody, "feed": scriptFeed,
			"refused": expectRefusal, "hint": expectHint, "message": expectMessage, "code": expectCode, "keep": keepGroup, "bytes": fillBytes,
		},
	})
}

// personas is the key of the stage in a script's environment.
type personas struct{}

// A stage is the state of one script: its hub, the keys of its agents, the output
// of the last command and the last refusal.
type stage struct {
	keys     map[string]string
	serve    *exec.Cmd
	logs     []*lines // of its hubs
	out, err string   // of the last parley command
	exit     int
	refusal  refusal
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(personas{}).(*stage) }

// command returns parley as a process in the script's environment, with more
// variables.
func command(ts *testscript.TestScript, env []string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(self, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{asParley + "=1", "GORACE=atexit_sleep_ms=0"}
	for _, name := range []string{"PATH", "HOME", "TERM", "PARLEY_HOME", "PARLEY_URL", "PARLEY_KEY", "TMPDIR"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func scriptHub(ts *testscript.TestScript, neg bool, args []string) {
	cmd := command(ts, nil, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	out, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s := stageOf(ts)
	s.serve = cmd
	log := newLines()
	s.logs = append(s.logs, log)
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() }) // both fail if the script stopped the hub
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		log.add(lines.Text(), false)
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			ts.Setenv("PARLEY_URL", url)
			go func() { // until the hub ends
				for lines.Scan() {
					log.add(lines.Text(), false)
				}
			}()
			return
		}
	}
	ts.Fatalf("the hub did not start: %s", log)
}

func scriptStop(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	ts.Check(s.serve.Process.Signal(syscall.SIGTERM))
	if err := s.serve.Wait(); err != nil {
		ts.Fatalf("the hub ended with %v", err)
	}
}

func scriptAgent(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 {
		args = append(args, "executor")
	}
	add := append([]string{"agent", "add", args[0], "--role", args[1], "--json", "--as-operator"}, args[2:]...)
	out, err := command(ts, nil, add...).Output()
	ts.Check(err)
	var got struct{ Key string }
	ts.Check(json.Unmarshal(out, &got))
	stageOf(ts).keys[args[0]] = got.Key
}

// perform runs a command, shows its output to the commands stdout and stderr of the
// script, and checks whether it failed as the script says.
func perform(ts *testscript.TestScript, neg bool, cmd *exec.Cmd) int {
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	s := stageOf(ts)
	s.out, s.err = out.String(), errOut.String()
	fmt.Fprint(ts.Stdout(), out.String())
	fmt.Fprint(ts.Stderr(), errOut.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v: %v", cmd.Args[1:], err)
	}
	if (err != nil) != neg {
		ts.Fatalf("parley %s: exit code %d\n%s%s", strings.Join(cmd.Args[1:], " "), cmd.ProcessState.ExitCode(), out.String(), errOut.String())
	}
	s.exit = cmd.ProcessState.ExitCode()
	return s.exit
}

func scriptAs(ts *testscript.TestScript, neg bool, args []string) {
	perform(ts, neg, command(ts, []string{"PARLEY_KEY=" + key(ts, args[0])}, args[1:]...))
}

func scriptFeed(ts *testscript.TestScript, neg bool, args []string) {
	cmd := command(ts, []string{"PARLEY_KEY=" + key(ts, args[1])}, args[2:]...)
	cmd.Stdin = strings.NewReader(ts.ReadFile(args[0]))
	perform(ts, neg, cmd)
}

func key(ts *testscript.TestScript, name string) string {
	k, ok := stageOf(ts).keys[name]
	if !ok {
		ts.Fatalf("the script has no agent %q", name)
	}
	return k
}

func scriptOperator(ts *testscript.TestScript, neg bool, args []string) {
	perform(ts, neg, command(ts, nil, append(args, "--as-operator")...))
}

func scriptNobody(ts *testscript.TestScript, neg bool, args []string) {
	perform(ts, neg, command(ts, nil, args...))
}

func expectRefusal(ts *testscript.TestScript, neg bool, args []string) {
	exit, code, who := args[0], args[1], args[2]
	args = append(args[3:len(args):len(args)], "--json")
	var cmd *exec.Cmd
	switch who {
	case "operator":
		cmd = command(ts, nil, append(args, "--as-operator")...)
	case "nobody":
		cmd = command(ts, nil, args...)
	default:
		cmd = command(ts, []string{"PARLEY_KEY=" + key(ts, who)}, args...)
	}
	if got := fmt.Sprint(perform(ts, true, cmd)); got != exit {
		ts.Fatalf("exit code %s, want %s", got, exit)
	}
	s := stageOf(ts)
	if s.out != "" {
		ts.Fatalf("a refused command wrote to standard output: %s", s.out)
	}
	s.refusal = refusal{}
	dec := json.NewDecoder(strings.NewReader(s.err))
	dec.DisallowUnknownFields()
	ts.Check(dec.Decode(&s.refusal))
	if e := s.refusal.Error; e.Code != code || e.Message == "" {
		ts.Fatalf("error code %q (%s), want %q", e.Code, e.Message, code)
	}
}

func expectHint(ts *testscript.TestScript, neg bool, args []string) {
	if got := stageOf(ts).refusal.Error.Hint; strings.Contains(got, args[0]) == neg {
		ts.Fatalf("the hint is %q", got)
	}
}

func expectMessage(ts *testscript.TestScript, neg bool, args []string) {
	if got := stageOf(ts).refusal.Error.Message; strings.Contains(got, args[0]) == neg {
		ts.Fatalf("the message is %q", got)
	}
}

func expectCode(ts *testscript.TestScript, neg bool, args []string) {
	if got := fmt.Sprint(stageOf(ts).exit); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func keepGroup(ts *testscript.TestScript, neg bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(stageOf(ts).out)
	if m == nil {
		ts.Fatalf("%s is not in the output", args[1])
	}
	ts.Setenv(args[0], m[1])
}

func fillBytes(ts *testscript.TestScript, neg bool, args []string) {
	var n int
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	before, after, _ := strings.Cut(args[2], "%")
	ts.Setenv(args[0], before+strings.Repeat("x", n-len(before)-len(after))+after)
}
