package launch

import (
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

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/ground/process"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
)

const (
	handTime     = 20 * time.Second // for a program that writes a notice
	waitSeconds  = 50               // of one request of a waiter
	firstBackoff = time.Second      // after a request that failed; doubled for each further one
	lastBackoff  = 30 * time.Second
	parentCheck  = 2 * time.Second // how often a waiter looks whether the CLI still runs
)

// A Waiter waits for wakes beside a CLI, and learns of them by one long request.
type Waiter struct {
	CLI        cli.CLI
	Session    string // id of the session, as the CLI calls it
	Process    int    // number of the CLI's process; 0 if it is to be found
	Dir        string // working folder of the session
	Transcript string // file of the session that tells of failed turns; "" if a hook does
	Began      string // when a hook started it, as hub.Time is written; "" for now

	Home   string // of the hub; it holds the file of the waiter
	Flags  []string
	Client func() (*rpc.Client, error) // calls the hub as the agent

	Unguarded bool                  // tool calls are not asked about
	Closed    func(dir string) bool // edits in a folder are denied while the hub is away; may be nil

	key    wake.Key
	launch cli.Launch // empty for a CLI that launch did not start
}

// locate finds the process of the session and, if launch started it, its record.
func (w *Waiter) locate() {
	w.key = wake.Key{CLI: w.CLI.Name, ID: w.Session}
	w.launch = currentLaunch()
	switch pid, err := strconv.Atoi(os.Getenv(w.CLI.ProcessVariable)); {
	case w.launch.Process != 0:
		w.key.Process = w.launch.Process
	case w.Process != 0:
		w.key.Process = w.Process
	case err == nil:
		w.key.Process = pid
	default:
		w.key.Process = callingProcess()
	}
}

// currentLaunch returns the record of the launch that this process is a part of.
func currentLaunch() (l cli.Launch) {
	if folder := os.Getenv(Variable); folder != "" {
		if raw, err := os.ReadFile(filepath.Join(folder, cli.RecordFile)); err == nil && json.Unmarshal(raw, &l) != nil {
			return cli.Launch{}
		}
	}
	return l
}

// attended reports whether a person has the session in a terminal. Claude Code says so
// itself; of other CLIs that launch did not start it is assumed.
func (w *Waiter) attended() bool {
	if w.launch.Process != 0 {
		return w.launch.Attended
	}
	return cli.Attended(os.Getenv)
}

// passed are the variables that find programs and the hub.
var passed = []string{"PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "PARLEY_HOME", "PARLEY_URL", Variable}

// detach starts a waiter that outlives this process and ends with the CLI. Of the
// environment, which lookup reads, it gets only the variables that find the hub and the CLI.
func (w *Waiter) detach(lookup func(name string) (value string, ok bool)) {
	unwanted := w.launch.Process != 0 && !w.launch.Wake
	if unwanted || w.waits() {
		return
	}
	self, err := os.Executable()
	if err != nil {
		return
	}
	args := append([]string{}, w.Flags...)
	args = append(args, "wake", "watch", w.CLI.Name, "--session", w.key.ID, "--process", strconv.Itoa(w.key.Process), "--dir", w.Dir, "--began", hub.At(time.Now()).String())
	if w.Transcript != "" {
		args = append(args, "--transcript", w.Transcript)
	}

	cmd := exec.Command(self, args...)
	for _, name := range slices.Concat(passed, w.CLI.Variables) {
		if value, ok := lookup(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	process.Detach(cmd)
	if cmd.Start() == nil {
		cmd.Process.Release()
	}
}

// lockFile names the file that the one waiter of a session holds.
func (w *Waiter) lockFile() string {
	sum := sha256.Sum256([]byte(fmt.Sprint(w.key.CLI, "\x00", w.key.ID, "\x00", w.key.Process)))
	return filepath.Join(w.Home, Dir, hex.EncodeToString(sum[:8])+".waiter")
}

// waits reports whether a waiter holds the session.
func (w *Waiter) waits() bool { return heldByProcess(w.lockFile()) }

// Waits reports whether a waiter of any session of a home runs.
func Waits(home string) bool {
	files, err := filepath.Glob(filepath.Join(home, Dir, "*.waiter"))
	return err == nil && slices.ContainsFunc(files, heldByProcess)
}

// heldByProcess reports whether the process whose number is in a file runs.
func heldByProcess(file string) bool {
	raw, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	return err == nil && process.Alive(pid)
}

// lock makes this process the one waiter of the session. The file holds the number of
// its process; one whose process has ended is replaced.
func (w *Waiter) lock() (unlock func(), ok bool) {
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

// Watch writes notices until the CLI ends: as the CLI takes them, or as lines to out. It
// returns nil at once if the session has a waiter.
func (w *Waiter) Watch(ctx context.Context, out io.Writer) error {
	w.locate()
	unlock, ok := w.lock()
	if !ok {
		return nil
	}
	defer unlock()

	if w.Transcript != "" {
		following, cancel := context.WithCancel(ctx)
		defer cancel()
		go w.follow(following)
	}
	return w.each(ctx, w.CLI.Mechanism, func(n cli.Notice) (error, bool) {
		if w.CLI.Hands() {
			hand, cancel := context.WithTimeout(ctx, handTime)
			defer cancel()
			return w.CLI.Hand(hand, cli.Target{Session: w.key.ID, Launch: w.launch}, n), true
		}
		_, err := fmt.Fprintln(out, n.Line())
		return err, true
	})
}

// Arm waits for one notice, writes it as a line to out, and reports whether it did. It
// returns at once if the session has a waiter.
func (w *Waiter) Arm(ctx context.Context, out io.Writer) (noticed bool) {
	w.locate()
	unlock, ok := w.lock()
	if !ok {
		return false
	}
	defer unlock()
	w.each(ctx, "async-hook", func(n cli.Notice) (error, bool) {
		_, err := fmt.Fprintln(out, n.Line())
		noticed = true
		return err, false
	})
	return noticed
}

// each calls write for each notice, until the CLI ends, another waiter takes over, the
// key is refused, or write wants no more.
func (w *Waiter) each(ctx context.Context, mechanism string, write func(cli.Notice) (err error, more bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with ctx
		w.awaitEnd(ctx)
		cancel()
	}()
	go w.readLate(ctx)

	began, err := hub.ParseTime(w.Began)
	if err != nil {
		began = hub.At(time.Now())
	}
	params := wake.Waiter{
		Key: w.key, Stamp: process.Stamp(w.key.Process), Cwd: w.Dir, Version: w.launch.Version,
		Mechanism: mechanism, Waiter: crand.Text(), Attended: w.attended(), Seconds: waitSeconds,
		Began: began,
	}

	// A hub that does not answer is called again after a pause, which doubles up to lastBackoff.
	for wait := firstBackoff; ctx.Err() == nil; {
		client, err := w.Client() // anew: a hub that was started again may have another address
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
		failed, more := write(cli.Notice{Wake: got.Wake.ID, Text: got.Wake.Notice})
		handing := wake.Handing{Wake: got.Wake.ID, Outcome: channel.Handed}
		if failed != nil {
			handing.Outcome = channel.Failed
			handing.Detail = failed.Error()
		}
		rpc.Call(ctx, client, api.HandedWake, handing) // without it the hub waits for the proof alone
		if !more {
			return nil
		}
	}
	return nil
}

// awaitEnd returns when the process of the CLI has ended, or ctx has.
func (w *Waiter) awaitEnd(ctx context.Context) {
	tick := time.NewTicker(parentCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !process.Alive(w.key.Process) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
