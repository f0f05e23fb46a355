package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/cli"
	"github.com/parley-agents/parley/internal/desk/launch"
	"github.com/parley-agents/parley/internal/ground/text/shell"
	"github.com/parley-agents/parley/internal/ground/vault"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// client returns a client that calls with the caller's key.
func (a *app) client() (*rpc.Client, error) { return a.clientFor(os.Getenv("PARLEY_SESSION")) }

// clientFor returns a client that calls with the caller's key in a session.
func (a *app) clientFor(session string) (*rpc.Client, error) {
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	url, err := a.hubURL()
	if err != nil {
		return nil, err
	}
	isOwn := os.Getenv("PARLEY_URL") == ""
	if a.home != "" && isOwn && !server.Running(home) { // that home and no other hub
		return nil, hub.Errorf(hub.CodeDegraded, "parley", "%w: no hub is running in %s", rpc.ErrUnreachable, home).WithHint("start it: parley serve --home %s", shell.Word(home))
	}
	return clientAt(home, url, key, session), nil
}

// clientAt returns a client for the hub at url. An operator's key is never sent there: it
// goes to the socket in the home if PARLEY_URL names no other hub, and is proven
// otherwise.
func clientAt(home, url, key, session string) *rpc.Client {
	if vault.IsWindowSecret(key) { // accepted at the socket alone
		return rpc.NewOperator(filepath.Join(home, server.SocketFile), url, key, session)
	}
	if own, err := operatorKey(home); !vault.IsOperatorSecret(key) && (err != nil || key != own) {
		return rpc.NewClient(url, key, session, nil)
	}
	socket := filepath.Join(home, server.SocketFile)
	if os.Getenv("PARLEY_URL") != "" {
		socket = ""
	}
	return rpc.NewOperator(socket, url, key, session)
}

// call calls an operation of the hub with the caller's key.
func call[S, P, R any](ctx context.Context, a *app, o rpc.Operation[S, P, R], params P) (R, error) {
	c, err := a.client()
	if err != nil {
		var none R
		return none, err
	}
	return rpc.Call(ctx, c, o, params)
}

// answer calls an operation and prints its result: as JSON, or with write.
func answer[S, P, R any](ctx context.Context, a *app, o rpc.Operation[S, P, R], params P, write func(w io.Writer, got R)) error {
	got, err := call(ctx, a, o, params)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { write(w, got) })
}

// key finds the key to call with. The operator's is taken only where a person
// sits at a terminal, or asks for it: agents often run as the same user.
func (a *app) key() (string, error) {
	switch {
	case a.keyFile != "":
		return readKey(a.keyFile)
	case a.asOperator:
	case os.Getenv("PARLEY_KEY") != "":
		return strings.TrimSpace(os.Getenv("PARLEY_KEY")), nil
	case os.Getenv(launch.Variable) != "":
		return readKey(filepath.Join(os.Getenv(launch.Variable), cli.KeyFile))
	case !isTerminal(a.in):
		if err := a.noHubYet(); err != nil {
			return "", err
		}
		return "", hub.Errorf(hub.CodeUnauthenticated, "parley", "no key was given, and this is not a terminal, so you are not taken for the operator").
			WithHint("add --as-operator if you are the operator, or set PARLEY_KEY or --key-file")
	}
	home, err := a.homeDir()
	if err != nil {
		return "", err
	}
	if err := a.noHubYet(); err != nil {
		return "", err
	}
	key, err := operatorKey(home)
	if err != nil || os.Getenv("PARLEY_URL") != "" || server.Running(home) {
		return key, err
	}
	return "", hub.Errorf(hub.CodeDegraded, "parley", "%w: no hub is running in %s", rpc.ErrUnreachable, home).WithHint(rpc.StartHint)
}

// noHubYet returns an error if no hub was ever started in the home, and PARLEY_URL names none.
func (a *app) noHubYet() error {
	home, err := a.homeDir()
	if err != nil || os.Getenv("PARLEY_URL") != "" {
		return err
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return hub.Errorf(hub.CodeDegraded, "parley", "%w: no hub has been started here: %s does not exist", rpc.ErrUnreachable, home).
			WithHint("start one: parley serve, or parley init in a repository")
	}
	return nil
}

// readKey reads a file with a key.
func readKey(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", hub.Errorf(hub.CodeInvalid, "parley", "cannot read the key file: %v", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" {
		return "", hub.Errorf(hub.CodeInvalid, "parley", "the key file %s is empty", file)
	}
	return key, nil
}

// operatorKey reads the operator's key in a home.
func operatorKey(home string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	if err != nil {
		return "", hub.Errorf(hub.CodeUnauthenticated, "parley", "cannot read the operator's key: %v", err).
			WithHint("run \"parley serve\" once to create it, or set PARLEY_KEY to call as an agent")
	}
	return strings.TrimSpace(string(raw)), nil
}

// hubURL finds the hub.
func (a *app) hubURL() (string, error) {
	if url := strings.TrimSpace(os.Getenv("PARLEY_URL")); url != "" {
		if !strings.Contains(url, "://") {
			url = "http://" + url
		}
		return url, nil
	}
	home, err := a.homeDir()
	if err != nil {
		return "", err
	}
	// A hub that was killed leaves its address, where another program may listen now.
	if raw, err := os.ReadFile(filepath.Join(home, server.URLFile)); err == nil && server.Running(home) {
		return strings.TrimSpace(string(raw)), nil
	}
	return "http://" + server.DefaultAddr, nil
}

// maxContent is the size of the largest value of an argument.
const maxContent = 1 << 20

var errContent = hub.Errorf(hub.CodePayloadTooLarge, "parley", "the input is larger than %d bytes", maxContent).
	WithHint("store it with \"parley artifact put FILE\" and send the reference")

// content returns the value of an argument: itself, the file after an @, or
// standard input for a dash.
func (a *app) content(ctx context.Context, arg string) ([]byte, error) {
	name, isFile := strings.CutPrefix(arg, "@")
	if !isFile && arg != "-" {
		return []byte(arg), nil
	}
	return a.read(ctx, name, maxContent, errContent)
}

// read returns the content of a file, or standard input for a dash. It reports
// tooLarge if there are more than limit bytes.
func (a *app) read(ctx context.Context, name string, limit int, tooLarge error) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, invalid(err)
		}
		defer f.Close()
		in = f
	} else if isTerminal(a.in) {
		fmt.Fprintln(a.err, "reading from the keyboard; press Ctrl-D on an empty line to finish")
	}
	b, err := await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, int64(limit)+1)) })
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, invalid(err)
	case len(b) > limit:
		return nil, tooLarge
	}
	return b, nil
}

// await calls f, which may block for long, and returns early when ctx ends. f then
// ends with the process.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// object returns the JSON object that an argument stands for.
func (a *app) object(ctx context.Context, name, arg string) (json.RawMessage, error) {
	raw, err := a.content(ctx, arg)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, hub.Errorf(hub.CodeInvalid, "parley", "%s: not valid JSON", name).WithHint("use a JSON object, @FILE, or - for standard input")
	}
	return raw, nil
}

// maxDays is the longest span in days that a flag takes.
const maxDays = 36500

// moment reads an ISO 8601 time, or a span before (or after) now as in "2h" or "7d".
func moment(name, s string, sign time.Duration) (hub.Time, error) {
	if s == "" {
		return hub.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return hub.At(time.Now().Add(sign * d)), nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= maxDays {
			return hub.At(time.Now().Add(sign * time.Duration(n) * 24 * time.Hour)), nil
		}
	}
	t, err := hub.ParseTime(s)
	if err != nil {
		return hub.Time{}, hub.Errorf(hub.CodeInvalid, "parley", "--%s: %v", name, err).WithHint("use a duration such as 2h or 7d, or a time such as 2026-02-21T09:00:00Z")
	}
	return t, nil
}
