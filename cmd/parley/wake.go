package main

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/briefing"
	"github.com/parley-agents/parley/internal/process"
	"github.com/parley-agents/parley/internal/reach/terminal"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/surface/api"
	"github.com/parley-agents/parley/internal/surface/rpc"
)

const (
	hookTime     = 2 * time.Second  // for the one call of a hook
	handTime     = 20 * time.Second // for a program that writes a notice
	waitSeconds  = 50               // of one request of a waiter
	firstBackoff = time.Second      // after a request that failed; doubled for each further one
	lastBackoff  = 30 * time.Second
	parentCheck  = 2 * time.Second // how often a waiter looks whether the CLI still runs
	maxHookInput = 64 << 20        // bytes; the results of tools are in it
)

// A waiter waits for wakes beside a CLI, and is told of them by one long request.
type waiter struct {
	*app
	cli     terminal.CLI
	key     wake.Key
	dir     string
	launch  terminal.Launch // empty for a CLI that launch did not start
	process int             // from a flag

	transcript string // file of the session that tells of failed turns; "" if a hook does
}

func (a *app) wakeWatchCommand() *cobra.Command {
	w := waiter{app: a}
	cmd := &cobra.Command{
		Use:   "watch CLI",
		Short: "Wait for mail beside a CLI and write notices into its session (for plugins)",
		Long: `Wait for mail beside a CLI and write a notice into its session when mail comes: as
a line on standard output, or as the CLI takes it. It holds one request to the hub,
marks no message as read, and ends when the CLI ends or when another one waits.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if w.cli, err = terminal.Lookup(args[0]); err != nil || a.displaced() {
				return err
			}
			return w.watch(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.key.ID, "session", os.Getenv("CLAUDE_CODE_SESSION_ID"), "id of the session, as the CLI calls it")
	f.Lookup("session").DefValue = ""
	f.IntVar(&w.process, "process", 0, "number of the CLI's process")
	f.StringVar(&w.dir, "dir", "", "working folder of the session")
	f.StringVar(&w.transcript, "transcript", "", "transcript of the session, to see turns that failed")
	return cmd
}

func (a *app) wakeArmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "arm CLI",
		Short: "Wait for mail as an asynchronous hook: exit code 2 and the notice on stderr (for hooks)",
		Long: `Wait for mail as an asynchronous hook of Claude Code: when mail comes, print the
notice on standard error and end with exit code 2. It ends at once, with 0, in a
session without a person, in one that has a waiter, and when the hub is not known.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			w := waiter{app: a}
			if len(args) == 0 || os.Getenv("CLAUDE_CODE_ENTRYPOINT") != "cli" || a.displaced() {
				return nil // in claude -p an asynchronous hook would hold up the run
			}
			var err error
			if w.cli, err = terminal.Lookup(args[0]); err != nil {
				return nil
			}
			in, err := readHook(cmd.Context(), a.in)
			if err != nil {
				return nil
			}
			w.key.ID, w.dir = in.Session, in.Dir
			return w.arm(cmd.Context())
		},
	}
}

func (a *app) wakeHookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook CLI EVENT",
		Short: "Tell the hub what a session does, and show waiting mail to it (for hooks)",
		Long: `Tell the hub what a session does. The CLI gives the hook's input on standard input;
the output is what the CLI shows to the model, if mail waits that it was not told
of. It makes one call to the hub, gives up after two seconds, prints nothing then,
and always ends with exit code 0: no hub holds up an agent.`,
		Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), hookTime)
			defer cancel()
			defer func() { recover() }() // a panic would end with exit code 2, by which a CLI refuses
			if len(args) == 2 && !a.displaced() {
				a.hook(ctx, args[0], args[1])
			}
			return nil
		},
	}
}

// displaced reports whether a launch gives this session an identity of its own, so
// that the hooks of a permanent connection, which name a key file, must be silent.
func (a *app) displaced() bool { return os.Getenv(launchVariable) != "" && a.keyFile != "" }

// readHook reads the input of a hook.
func readHook(ctx context.Context, in io.Reader) (terminal.Input, error) {
	raw, err := await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxHookInput)) })
	if err != nil {
		return terminal.Input{}, err
	}
	return terminal.ReadInput(raw)
}

// hook tells the hub of an event and prints the answer. It fails without a word.
func (a *app) hook(ctx context.Context, cli, name string) {
	c, err := terminal.Lookup(cli)
	if err != nil {
		return
	}
	h, ok := c.Hook(name)
	if !ok {
		return
	}
	in, err := readHook(ctx, a.in)
	if err != nil || in.Session == "" || h.Event == terminal.Waiting && in.Reminds {
		return
	}
	w := waiter{app: a, cli: c, key: wake.Key{ID: in.Session}, dir: in.Dir}
	if c.Follows() {
		w.transcript = in.Transcript
	}
	w.locate()
	if c.Detached && (h.Event == terminal.Start || h.Event == terminal.Prompt) {
		w.detach(os.LookupEnv)
	}
	text := ""
	if h.Event == terminal.Start && c.Tells && w.launch.Agent != "" {
		text = briefing.Instruction(w.launch.Agent)
	}
	client, err := a.client()
	if err == nil {
		attended := w.attended()
		report := wake.Report{
			Key: w.key, Stamp: process.Stamp(w.key.Process), Cwd: w.dir, Version: w.launch.Version, Event: reported(h, in), Wakes: in.Wakes[:min(len(in.Wakes), 20)], StopActive: in.StopActive,
			Quiet: slices.Contains([]terminal.Event{terminal.Waiting, terminal.Failed, terminal.End}, h.Event), Attended: &attended, Release: c.Detached,
			NoQuota: in.NoQuota, Only: c.Leaves && (h.Event == terminal.Start || h.Event == terminal.Prompt),
		}
		if advice, err := rpc.Call(ctx, client, api.ReportWake, report); err == nil {
			text = strings.TrimSpace(text + "\n" + advice.Notice)
		}
	}
	a.out.Write(c.Answer(h, text)) // a CLI that does not read it loses nothing
}

// reported returns the event that the hub is told of. A turn that failed is over, and a
// prompt hook without a prompt stands in the middle of a turn.
func reported(h terminal.Hook, in terminal.Input) wake.Event {
	switch {
	case h.Event == terminal.Failed:
		return wake.EventTurnEnd
	case h.Event == terminal.Prompt && in.Goes:
		return wake.EventTool
	}
	return wake.Event(h.Event)
}

// locate finds the process of the session and, if launch started it, its record.
func (w *waiter) locate() {
	w.key.CLI = w.cli.Name
	w.launch = currentLaunch()
	switch pid, err := strconv.Atoi(os.Getenv("CLAUDE_PID")); {
	case w.launch.Process != 0:
		w.key.Process = w.launch.Process
	case w.process != 0:
		w.key.Process = w.process
	case err == nil && w.cli.Name == "claude":
		w.key.Process = pid
	default:
		w.key.Process = cliProcess()
	}
}

// currentLaunch returns the record of the launch that this process is a part of.
func currentLaunch() (l terminal.Launch) {
	if folder := os.Getenv(launchVariable); folder != "" {
		if raw, err := os.ReadFile(filepath.Join(folder, terminal.RecordFile)); err == nil && json.Unmarshal(raw, &l) != nil {
			return terminal.Launch{}
		}
	}
	return l
}

// attended reports whether a person has the session in a terminal. Claude Code says so
// itself; of other CLIs that launch did not start it is assumed.
func (w *waiter) attended() bool {
	if w.launch.Process != 0 {
		return w.launch.Attended
	}
	return cmp.Or(os.Getenv("CLAUDE_CODE_ENTRYPOINT"), "cli") == "cli"
}

// detach starts a waiter that outlives the hook and ends with the CLI. Of the
// environment, which lookup reads, it gets only the variables that find the hub and the CLI.
func (w *waiter) detach(lookup func(name string) (value string, ok bool)) {
	if w.launch.Process != 0 && !w.launch.Wake || w.waits() {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	var args []string
	if w.home != "" {
		args = append(args, "--home", w.home)
	}
	if w.keyFile != "" {
		args = append(args, "--key-file", w.keyFile)
	}
	args = append(args, "wake", "watch", w.cli.Name, "--session", w.key.ID, "--process", strconv.Itoa(w.key.Process), "--dir", w.dir)
	if w.transcript != "" {
		args = append(args, "--transcript", w.transcript)
	}
	cmd := exec.Command(self, args...)
	for _, name := range []string{"PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "CODEX_HOME", "QWEN_HOME", "PARLEY_HOME", "PARLEY_URL", launchVariable} {
		if value, ok := lookup(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	detach(cmd)
	if cmd.Start() == nil {
		cmd.Process.Release()
	}
}

// lockFile names the file that the one waiter of a session holds.
func (w *waiter) lockFile() string {
	home, err := w.homeDir()
	if err != nil {
		home = os.TempDir()
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(w.key.CLI, "\x00", w.key.ID, "\x00", w.key.Process)))
	return filepath.Join(home, launchDir, hex.EncodeToString(sum[:8])+".waiter")
}

// waits reports whether a waiter holds the session.
func (w *waiter) waits() bool { return heldByProcess(w.lockFile()) }

// heldByProcess reports whether the process whose number is in a file runs.
func heldByProcess(file string) bool {
	raw, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	return err == nil && processAlive(pid)
}

// lock makes this process the one waiter of the session. The file holds the number of
// its process; one whose process has ended is replaced.
func (w *waiter) lock() (unlock func(), ok bool) {
	path := w.lockFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false
	}
	for range 2 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, os.Getpid())
			return func() { os.Remove(path) }, errors.Join(err, f.Close()) == nil
		}
		if !errors.Is(err, fs.ErrExist) || w.waits() {
			return nil, false
		}
		os.Remove(path)
	}
	return nil, false
}

// watch writes notices until the CLI ends.
func (w *waiter) watch(ctx context.Context) error {
	if w.key.ID == "" {
		return usagef("watch needs the session").WithHint("name it with --session")
	}
	w.locate()
	unlock, ok := w.lock()
	if !ok {
		return nil
	}
	defer unlock()
	if w.transcript != "" {
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		go w.follow(following)
	}
	return w.each(ctx, w.cli.Mechanism, func(n terminal.Notice) (error, bool) {
		if w.cli.Hands() {
			hand, cancel := context.WithTimeout(ctx, handTime)
			defer cancel()
			return w.cli.Hand(hand, terminal.Target{Session: w.key.ID, Launch: w.launch}, n), true
		}
		_, err := fmt.Fprintln(w.out, n.Line())
		return err, true
	})
}

// follow reads the transcript, and tells the hub that a turn is over when the last news of it
// is that it broke off.
func (w *waiter) follow(ctx context.Context) {
	at := sizeOf(w.transcript) - transcriptTail
	for tick := time.NewTicker(parentCheck); ; {
		lines, next := linesAfter(w.transcript, max(at, 0))
		at = next
		if news := w.cli.Turn(lines); news == terminal.TurnBroke || news == terminal.TurnSpent {
			if client, err := w.client(); err == nil {
				report := wake.Report{Key: w.key, Stamp: process.Stamp(w.key.Process), Event: wake.EventTurnEnd, Quiet: true, NoQuota: news == terminal.TurnSpent}
				rpc.Call(ctx, client, api.ReportWake, report) // else the hub finds out by the silence
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// transcriptTail is the part of a transcript, in bytes, that a waiter reads when it starts: the
// turn that started it may be over.
const transcriptTail = 256 << 10

// sizeOf returns the size of a file; 0 if it is not there.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// linesAfter returns the whole lines of a file after a place, and the place behind them. The
// first may lack its beginning.
func linesAfter(path string, at int64) (lines [][]byte, next int64) {
	f, err := os.Open(path)
	if err != nil {
		return nil, at // not written yet
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, at, maxHookInput))
	if err != nil {
		return nil, at
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	return bytes.Split(raw, []byte("\n")), at + int64(len(raw))
}

// arm waits for one notice.
func (w *waiter) arm(ctx context.Context) error {
	w.locate()
	unlock, ok := w.lock()
	if !ok {
		return nil
	}
	defer unlock()
	got := false
	w.each(ctx, "async-hook", func(n terminal.Notice) (error, bool) {
		_, err := fmt.Fprintln(w.err, n.Line())
		got = true
		return err, false
	})
	if got {
		return exitError(exitUsage) // by which the CLI starts a turn with standard error
	}
	return nil
}

// each calls write for each notice, until the CLI ends, another waiter takes over, the
// key is refused, or write wants no more.
func (w *waiter) each(ctx context.Context, mechanism string, write func(terminal.Notice) (err error, more bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		for tick := time.NewTicker(parentCheck); ; {
			select {
			case <-tick.C:
				if !processAlive(w.key.Process) {
					cancel()
				}
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	params := wake.Waiter{Key: w.key, Stamp: process.Stamp(w.key.Process), Cwd: w.dir, Version: w.launch.Version, Mechanism: mechanism, Waiter: crand.Text(), Attended: w.attended(), Seconds: waitSeconds}
	for wait := firstBackoff; ctx.Err() == nil; {
		client, err := w.client() // anew: a hub that was started again may have another address
		var got wake.Call
		if err == nil {
			got, err = rpc.Call(ctx, client, api.WaitWake, params)
		}
		switch code := hub.CodeOf(err); {
		case code == hub.CodeUnauthenticated || code == hub.CodeDenied || got.Gone:
			return nil
		case err != nil:
			pause(ctx, wait/2+rand.N(wait/2))
			wait = min(2*wait, lastBackoff)
			continue
		}
		wait = firstBackoff
		if got.Wake == nil {
			continue
		}
		failed, more := write(terminal.Notice{Wake: got.Wake.ID, Text: got.Wake.Notice})
		handing := wake.Handing{Wake: got.Wake.ID, Outcome: channel.Handed}
		if failed != nil {
			handing.Outcome, handing.Detail = channel.Failed, failed.Error()
		}
		rpc.Call(ctx, client, api.HandedWake, handing) // without it the hub waits for the proof alone
		if !more {
			return nil
		}
	}
	return nil
}

func (a *app) wakeCommand() *cobra.Command {
	cmd := group("wake", "See and steer how mail starts turns of agents",
		a.wakeSessionsCommand(), a.wakeTestCommand(), a.wakeAllowCommand(), a.wakePauseCommand("pause", "Stop the wakes of an agent, or all; mail goes on", api.PauseWake),
		a.wakePauseCommand("resume", "Let mail wake an agent again, or all", api.ResumeWake), a.wakeWatchCommand(), a.wakeArmCommand(), a.wakeHookCommand())
	cmd.Long = `See and steer how mail starts turns of agents. A wake is a notice with an id and
counts, never the text of a message; it starts a turn of an idle session, which spends
tokens, and so each agent needs your yes once.`
	return cmd
}

func (a *app) wakeSessionsCommand() *cobra.Command {
	var p api.AgentNameParams
	cmd := &cobra.Command{Use: "sessions [AGENT]", Short: "List sessions of agents, and how mail reaches them", Args: cobra.MaximumNArgs(1)}
	return operation(a, cmd, api.ListSessions, &p, func(w io.Writer, got api.WakeList) {
		if got.Paused {
			fmt.Fprintln(w, "all wakes are paused; go on with: parley wake resume --all")
		}
		type row struct {
			agent api.AgentWakes
			wake.Session
		}
		var rows []row
		for _, agent := range got.Agents {
			for _, s := range agent.Sessions {
				rows = append(rows, row{agent, s})
			}
			if len(agent.Sessions) == 0 {
				rows = append(rows, row{agent: agent})
			}
		}
		writeList(w, "sessions", "AGENT, CLI, STATE, SINCE, MECHANISM, WAKES, PROBE, FOLDER", rows, func(r row) []any {
			wakes := "off"
			if r.agent.Allowed {
				wakes = "on"
			}
			return []any{r.agent.Agent, cmp.Or(r.CLI, "-"), cmp.Or(string(r.State), "-"), ago(r.Since), cmp.Or(r.Mechanism, "-"), wakes, lastProbe(r.agent.Probe), cmp.Or(r.Cwd, "-")}
		})
	}, argument(0, &p.Agent))
}

func (a *app) wakeAllowCommand() *cobra.Command {
	var p api.WakeAllowParams
	var off bool
	cmd := &cobra.Command{
		Use: "allow AGENT", Short: "Let mail start turns of an agent, which spends tokens (operator)", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&off, "off", false, "take it back")
	cmd.Flags().BoolVar(&p.Interrupt, "interrupt", false, "critical mail of a coordinator may interrupt a turn")
	cmd.Flags().IntVar(&p.PerHour, "per-hour", 0, "the most wakes within an hour (default that of the hub)")
	cmd.Flags().BoolVar(&p.WithText, "with-text", false, "a short message of yours travels in the notice itself; text of agents never does")
	return operation(a, cmd, api.AllowWake, &p, func(w io.Writer, got api.AgentWakes) {
		if got.Allowed {
			fmt.Fprintf(w, "mail may start turns of %s\n", got.Agent)
		} else {
			fmt.Fprintf(w, "mail does not start turns of %s\n", got.Agent)
		}
	}, argument(0, &p.Agent), func(context.Context, []string) error {
		p.Allow = !off
		return nil
	})
}

func (a *app) wakePauseCommand(verb, short string, o rpc.Operation[*api.Services, api.WakePauseParams, api.PauseState]) *cobra.Command {
	var p api.WakePauseParams
	cmd := &cobra.Command{Use: verb + " AGENT | --all", Short: short + " (operator)", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVar(&p.All, "all", false, "all agents of the hub")
	return operation(a, cmd, o, &p, func(w io.Writer, got api.PauseState) {
		state := "on"
		if got.Paused {
			state = "paused"
		}
		fmt.Fprintf(w, "wakes of %s are %s\n", cmp.Or(string(got.Agent), "all agents"), state)
	}, argument(0, &p.Agent))
}

func (a *app) wakeTestCommand() *cobra.Command {
	var p api.WakeTestParams
	cmd := &cobra.Command{
		Use: "test AGENT", Short: "Wake an agent without mail, wait for the proof, and print mechanism and seconds (operator)", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Var(&p.Seconds, "seconds", "how long to wait for the proof (default 60)")
	return operation(a, cmd, api.TestWake, &p, func(w io.Writer, got api.ProbeReport) {
		if got.Proven {
			fmt.Fprintf(w, "%s began a turn after %.1f s, by %s\n", got.Agent, got.Seconds, got.Mechanism)
			return
		}
		fmt.Fprintf(w, "%s did not begin a turn: %s\n", got.Agent, cmp.Or(got.Detail, got.State))
	}, argument(0, &p.Agent))
}
