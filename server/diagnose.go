package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/desk/home"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/surface/routes"
)

// A Check is the result of looking at one part of a hub.
// Detail describes the state in words; Hint is empty if there is nothing to do.
type Check struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Hint   string `json:"hint,omitempty"` // how to repair it, if it is not OK
}

// Diagnose looks at a hub's home and at the hub itself, which should be at
// url. It changes nothing, except that a database of a hub that is not running
// is opened and checked whole.
// Checks build on each other: without a home there is one check only, and the key
// is tried against the hub only if that answers. No check waits longer than five
// seconds, except that of the database.
func Diagnose(ctx context.Context, home, url string) []Check {
	var out []Check
	info, err := os.Stat(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return append(out, Check{What: "home", Detail: home + " does not exist", Hint: "start the hub once: parley serve"})
	case err != nil || !info.IsDir():
		return append(out, Check{What: "home", Detail: home + " is not a readable folder", Hint: "use another --home"})
	case info.Mode().Perm()&0o077 != 0:
		out = append(out, Check{What: "home", Detail: "other users can access " + home, Hint: "chmod 700 " + home})
	default:
		out = append(out, Check{What: "home", OK: true, Detail: home})
	}
	out = append(out, checkWritable(home))
	running := checkRunning(ctx, url)
	out = append(out, running)
	key := checkOperator(ctx, home, url, running.OK)
	out = append(out, key)
	return append(out, checkDatabase(ctx, home))
}

// A file of some size is written, because a full disk still lets small files be
// made.
func checkWritable(home string) Check {
	c := Check{What: "disk"}
	f, err := os.CreateTemp(home, ".doctor-*")
	if err == nil {
		_, err = f.Write(make([]byte, 64<<10))
		f.Close()
		os.Remove(f.Name())
	}
	if err != nil {
		c.Detail, c.Hint = err.Error(), "free space, or make the folder writable"
		return c
	}
	c.OK = true
	return c
}

// It asks without a key: /health answers everybody.
func checkRunning(ctx context.Context, url string) Check {
	c := Check{What: "hub", Hint: "start it with: parley serve; PARLEY_URL is its address"}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/health", nil)
	if err != nil {
		c.Detail = fmt.Sprintf("%q is not an address", url)
		return c
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Detail = "nothing answers at " + url
		return c
	}
	defer res.Body.Close()

	// Another program may answer at the address.
	var h struct {
		Status  string `json:"status"`
		Version string `json:"version"`
		Problem string `json:"problem"`
		Hint    string `json:"hint"`
	}
	if json.NewDecoder(res.Body).Decode(&h) != nil || h.Status == "" {
		c.Detail = "the program at " + url + " is not a hub"
		return c
	}

	c.OK = h.Status == routes.Healthy
	c.Detail = fmt.Sprintf("%s at %s, version %s", h.Status, url, h.Version)
	if !c.OK {
		c.Hint = cmp.Or(h.Hint, "check the hub's log: its store cannot be used now")
		if h.Problem != "" {
			c.Detail += ": " + h.Problem
		}
	}
	return c
}

// It checks that only its owner can read the file, and that a hub that runs accepts
// it.
func checkOperator(ctx context.Context, home, url string, running bool) Check {
	c := Check{What: "operator's key", Hint: "restart the hub to create it"}
	path := filepath.Join(home, OperatorKeyFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Detail, c.Hint = "other users can read "+path, "chmod 600 "+path
		return c
	}
	if running {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := rpc.Call(ctx, rpc.NewOperator(filepath.Join(home, SocketFile), url, strings.TrimSpace(string(raw)), ""), api.Whoami, api.None{}); err != nil {
			c.Detail = err.Error()
			return c
		}
	}
	c.OK = true
	return c
}

// checkDatabase reads the whole database, unless a hub has it open.
func checkDatabase(ctx context.Context, folder string) Check {
	c := Check{What: "database"}
	if home.StoredElsewhere("server.Diagnose", folder) != nil {
		c.OK, c.Detail = true, "on a PostgreSQL server; the hub reports whether it is reachable"
		return c
	}
	if _, err := os.Stat(filepath.Join(folder, "hub.db")); err != nil {
		c.Detail, c.Hint = "no database yet", "start the hub once: parley serve"
		return c
	}
	store, err := home.OpenSQLite(folder, sqlite.Options{})
	if hub.CodeOf(err) == hub.CodeConflict && Running(folder) {
		c.OK, c.Detail = true, "in use by the hub; stop the hub for a full check"
		return c
	}
	if err == nil {
		err = store.Check(ctx)
		store.Close()
	}
	if err != nil {
		e := rpc.Describe(err, rpc.Commands)
		c.Detail, c.Hint = e.Message, e.Hint
		return c
	}
	c.OK, c.Detail = true, "full check, no errors"
	return c
}
