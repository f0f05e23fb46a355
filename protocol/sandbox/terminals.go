package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"os/exec"
	"sync"
	"time"
)

// TerminalOptions changes how Terminals works. The zero value works.
type TerminalOptions struct {
	MaxTerminals int           // the largest number, ended but unreleased ones included; default 32
	MaxOutput    int           // bytes of output kept per terminal; default 1 MiB
	Grace        time.Duration // the time between the signal to end and the kill; default 2 s

	// Env is the environment of every command, as NAME=value; default Environment.
	Env []string
}

// Terminals runs commands. Each command leads a process group, has no input, and
// writes both outputs to one place, of which the end is kept. When it ends, the
// processes that it left in its group are killed. Terminals is safe for concurrent
// use.
//
// A terminal begins with Create and ends with Release. In between its output can be
// read at any time, also after its command has ended by itself or by Kill; Release
// removes it at once for every caller. It counts against MaxTerminals until its command
// has ended, too, so that an agent that releases without waiting starts no more commands
// than one that waits.
type Terminals struct {
	roots *Roots
	opts  TerminalOptions

	commands sync.WaitGroup // running commands, and those about to start

	// mu guards the fields below, and released and ended of each terminal. A terminal
	// is in open from before its command starts until both are true, so that open
	// bounds the commands that run, too.
	mu     sync.Mutex
	closed bool
	open   map[string]*terminal
}

// An Exit says how a command ended.
type Exit struct {
	Code   int    // 0 if a signal ended it
	Signal string // such as SIGKILL; empty if the command ended by itself
}

// An Output is the output of a command until now.
type Output struct {
	Text      string // the end of the output; valid UTF-8
	Truncated bool   // whether output before Text was dropped
	Exit      *Exit  // nil while the command runs
}

// NewTerminals returns terminals in roots. The caller closes the roots after
// Terminals.Close. opts may be nil.
func NewTerminals(roots *Roots, opts *TerminalOptions) *Terminals {
	t := &Terminals{roots: roots, open: make(map[string]*terminal)}
	if opts != nil {
		t.opts = *opts
	}
	o := &t.opts
	o.MaxTerminals = cmp.Or(o.MaxTerminals, 32)
	o.MaxOutput = cmp.Or(o.MaxOutput, 1<<20)
	o.Grace = cmp.Or(o.Grace, 2*time.Second)
	if t.opts.Env == nil {
		t.opts.Env = Environment()
	}
	return t
}

// Create starts c and returns the id of its terminal. It does not wait for the
// command, which goes on when ctx ends. The terminal must be released.
func (t *Terminals) Create(ctx context.Context, c Command) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", systemError("run", brief(c.Name), err)
	}
	dir, err := t.folder(c.Dir)
	if err != nil {
		return "", err
	}
	cmd, err := c.prepare(dir, t.opts.Env)
	if err != nil {
		return "", err
	}
	limit := t.opts.MaxOutput
	if c.OutputLimit != nil {
		limit = min(limit, *c.OutputLimit)
	}
	id, term := "term-"+rand.Text(), newTerminal(limit)
	if err := t.add(id, term); err != nil {
		return "", err
	}
	if err := t.launch(cmd, id, term); err != nil {
		return "", systemError("run", brief(c.Name), err)
	}
	return id, nil
}

// folder returns the real path of a command's working folder. The command starts by
// that path and not by an open folder, which exec cannot do: another process that
// exchanges a folder above it for a link at this moment moves the command out of the
// roots. That gives the agent nothing that a command could not do by itself.
func (t *Terminals) folder(dir string) (string, error) {
	const verb = "run in"
	if dir == "" {
		dir = t.roots.roots[0].real
	}
	p, err := t.roots.place(verb, dir)
	if err != nil {
		return "", err
	}
	info, err := p.dir.Stat(p.rel)
	if err != nil {
		return "", t.roots.placeError(verb, p, err)
	}
	if !info.IsDir() {
		return "", errorf(CodeInvalid, "run in %s: not a folder", dir)
	}
	return p.real, nil
}

// add adds a terminal whose command is about to start. From then on Close ends the
// command and waits for it.
func (t *Terminals) add(id string, term *terminal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errClosed()
	case len(t.open) >= t.opts.MaxTerminals:
		return errorf(CodeLimit, "run: too many terminals (%d); release one first", len(t.open))
	}
	t.open[id] = term
	t.commands.Add(1)
	return nil
}

// launch starts the command of a terminal that was added.
func (t *Terminals) launch(cmd *exec.Cmd, id string, term *terminal) error {
	output, err := start(cmd)
	if err != nil {
		t.mark(id, term, true, true)
		t.commands.Done()
		return err
	}
	go func() {
		defer t.commands.Done()
		term.supervise(cmd, output, t.opts.Grace)
		t.mark(id, term, false, true) // before done is closed: a waiter may create the next terminal
		close(term.done)
	}()
	return nil
}

// mark records that a terminal was released or has ended, and removes it once both are
// true.
func (t *Terminals) mark(id string, term *terminal, released, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term.released = term.released || released
	term.ended = term.ended || ended
	if term.released && term.ended {
		delete(t.open, id)
	}
}

// terminal returns the terminal with the id, unless it was released.
func (t *Terminals) terminal(id string) (*terminal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term, ok := t.open[id]
	switch {
	case t.closed:
		return nil, errClosed()
	case !ok || term.released:
		return nil, errorf(CodeNotFound, "no terminal with id %s: it was released or never created", brief(id))
	}
	return term, nil
}

func errClosed() *Error { return errorf(CodeClosed, "the terminals are closed; open a new sandbox") }

// Output returns the output of the command until now. It does not wait.
func (t *Terminals) Output(ctx context.Context, id string) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, systemError("output of", brief(id), err)
	}
	term, err := t.terminal(id)
	if err != nil {
		return Output{}, err
	}
	var out Output
	select {
	case <-term.done:
		exit := term.exit
		out.Exit = &exit
	default:
	}
	out.Text, out.Truncated = term.output.Text(out.Exit != nil)
	return out, nil
}

// Wait waits until the command has ended and its output is complete.
func (t *Terminals) Wait(ctx context.Context, id string) (Exit, error) {
	term, err := t.terminal(id)
	if err != nil {
		return Exit{}, err
	}
	return wait(ctx, "wait for", id, term)
}

func wait(ctx context.Context, verb, id string, term *terminal) (Exit, error) {
	select {
	case <-term.done:
		return term.exit, nil
	case <-ctx.Done():
		return Exit{}, systemError(verb, id, ctx.Err())
	}
}

// Ended returns a channel that is closed when the command of a terminal has ended, even if the
// terminal is released before. It is closed if there is no such terminal.
func (t *Terminals) Ended(id string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term, ok := t.open[id]; ok {
		return term.done
	}
	none := make(chan struct{})
	close(none)
	return none
}

// Kill ends the command if it still runs, first by a signal, and waits until it has
// ended. The terminal keeps its output and exit, and must be released. If ctx ends
// first, the command is ended all the same.
func (t *Terminals) Kill(ctx context.Context, id string) error {
	term, err := t.terminal(id)
	if err != nil {
		return err
	}
	term.stop()
	_, err = wait(ctx, "kill", id, term)
	return err
}

// Release ends the command as Kill does, and removes the terminal.
func (t *Terminals) Release(ctx context.Context, id string) error {
	term, err := t.terminal(id)
	if err != nil {
		return err
	}
	term.stop()
	t.mark(id, term, true, false)
	_, err = wait(ctx, "release", id, term)
	return err
}

// Close releases all terminals and returns when their commands have ended. After
// that no terminal can be created. It never fails.
func (t *Terminals) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, term := range t.open {
		term.stop()
	}
	t.mu.Unlock()
	t.commands.Wait()
	return nil
}
