// Package pgtest is a real PostgreSQL for tests: the one that PARLEY_TEST_POSTGRES
// names, or else one that is made for the test process and ends with it. Only tests
// import it.
//
// It has no tests of its own: those of internal/engine/postgres stand on it.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-agents/parley/internal/testing/patience"
)

// Variable names a server to use: postgres://..., whose user may make schemas.
const Variable = "PARLEY_TEST_POSTGRES"

// Main runs the tests of a package and ends the server that they made.
func Main(m *testing.M) {
	code := m.Run()
	End()
	os.Exit(code)
}

// End ends the server that the tests of a package made, for a TestMain.
func End() {
	if !started.Load() {
		return
	}
	if s, err := shared(); err == nil {
		s.End()
	}
}

var started atomic.Bool

var shared = sync.OnceValues(func() (*Server, error) {
	if address := os.Getenv(Variable); address != "" {
		return &Server{URL: address}, nil
	}
	return Start("fsync=off")
})

var schemas atomic.Int64

// Address returns the address of an empty schema of the server of this test process,
// which is removed when the test ends. Where no server can be had the test is not run;
// with CI=true it fails.
func Address(t testing.TB) string {
	t.Helper()
	started.Store(true)
	s, err := shared()
	had(t, err)
	return s.Schema(t)
}

// Own returns a server for one test, which may kill it, with settings such as fsync=off.
// It ends with the test.
func Own(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(settings...)
	had(t, err)
	t.Cleanup(s.End)
	return s
}

// had skips the test if there is no server; with CI=true it fails.
func had(t testing.TB, err error) {
	t.Helper()
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("no PostgreSQL: %v", err)
	case err != nil:
		t.Skipf("no PostgreSQL: %v", err)
	}
}

// A Server is a PostgreSQL server.
type Server struct {
	URL string

	dir     string // "" for a server that was there
	bin     string
	options []string
	cred    *syscall.SysProcAttr
	cmd     *exec.Cmd
	done    chan error
}

// Schema makes an empty schema and returns its address.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	s.Exec(t, "CREATE SCHEMA "+name)
	t.Cleanup(func() { s.Exec(t, "SET client_min_messages = error; DROP SCHEMA "+name+" CASCADE") })
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// Exec runs statements on the server.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := s.exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Exec runs statements at an address.
func Exec(t testing.TB, address, sql string) {
	t.Helper()
	(&Server{URL: address}).Exec(t, sql)
}

// Try runs statements at an address and returns their error.
func Try(address, sql string) error { return (&Server{URL: address}).exec(sql) }

// Column returns the first column of the rows that a statement returns at an address.
func Column(t testing.TB, address, sql string) (all []string) {
	t.Helper()
	got, err := (&Server{URL: address}).run(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for _, row := range got[0].Rows {
		all = append(all, string(row[0]))
	}
	return all
}

func (s *Server) exec(sql string) error {
	_, err := s.run(sql)
	return err
}

func (s *Server) run(sql string) ([]*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience.For(10*time.Minute))
	defer cancel()
	c, err := pgconn.Connect(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	return c.Exec(ctx, sql).ReadAll()
}

// Start makes a server of its own with settings such as fsync=off. It listens on a
// socket in its folder alone. PostgreSQL refuses to run as root, so that root starts it
// as another user.
func Start(settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}

	dir, err := os.MkdirTemp("", "parley-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, options: settings, cred: new(syscall.SysProcAttr)}
	if os.Getuid() == 0 {
		uid, gid, err := other()
		if err == nil {
			err = os.Chown(dir, uid, gid)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		runAs(s.cred, uid, gid)
	}

	// The database has no password: only users who may open the folder reach the socket.
	cmd := exec.Command(filepath.Join(bin, "initdb"), "--pgdata", filepath.Join(dir, "data"), "--username", "parley", "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, s.cred
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}

	s.URL = "postgres:///postgres?" + url.Values{"host": {dir}, "user": {"parley"}, "sslmode": {"disable"}}.Encode()
	if err := s.Launch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Launch starts the server's process, for the first time or again, and waits until it
// answers.
func (s *Server) Launch() error {
	args := []string{"-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	for _, o := range s.options {
		args = append(args, "-c", o)
	}

	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	attr := *s.cred
	endsWithParent(&attr)
	s.cmd = exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.cmd.Dir = s.dir
	s.cmd.SysProcAttr = &attr
	s.cmd.Stdout = log
	s.cmd.Stderr = log

	began, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the process ends with the thread that started it
		err := s.cmd.Start()
		began <- err
		if err == nil {
			done <- s.cmd.Wait()
		}
	}()
	if err := <-began; err != nil {
		return err
	}
	s.done = done

	// The server refuses connections until it is ready.
	for deadline := time.Now().Add(patience.For(time.Minute)); ; runtime.Gosched() {
		err := s.exec("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case ended := <-done:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("postgres ended: %v: %s", ended, text)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// Kill ends the server at once, as pg_ctl stop -m immediate does.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-s.done
	return nil
}

// End ends the server and removes its folder.
func (s *Server) End() {
	if s.dir == "" {
		return
	}
	s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.done
	os.RemoveAll(s.dir)
}

// binaries returns the folder of initdb and postgres: that of PATH, or Debian's.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	for i := len(found) - 1; i >= 0; i-- {
		real, err := filepath.EvalSymlinks(found[i])
		if err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(real), "initdb")); err == nil {
			return filepath.Dir(real), nil
		}
	}
	return "", errors.New("neither initdb nor postgres is installed, and " + Variable + " names no server; on Debian: apt-get install postgresql-15")
}

// other returns a user that is not root.
func other() (uid, gid int, err error) {
	for _, name := range strings.Fields("postgres nobody") {
		var u *user.User
		if u, err = user.Lookup(name); err == nil {
			uid, err = strconv.Atoi(u.Uid)
		}
		if err == nil {
			gid, err = strconv.Atoi(u.Gid)
		}
		if err == nil {
			return uid, gid, nil
		}
	}
	return 0, 0, err
}
