//go:build unix

package postgres_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/blobs"
	"github.com/parley-agents/parley/internal/engine/postgres"
	"github.com/parley-agents/parley/internal/testing/hubtest"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
)

// open opens a store as a further hub would.
func open(t *testing.T, address string, opts *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func note(s hub.Store, subject string) error {
	return s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(hub.Entry{At: hub.At(time.Now()), Actor: "ada", Action: actions.MessageSent, Subject: subject, Outcome: hub.OutcomeOK})
		return err
	})
}

// chain reads the journal and checks that it is one chain.
func chain(t *testing.T, s hub.Store) map[string]int {
	t.Helper()
	subjects := map[string]int{}
	err := s.View(context.Background(), func(r hub.Reader) error {
		all, err := r.Journal(hub.JournalQuery{Limit: 1 << 20})
		var last hub.Entry
		for _, e := range all {
			if e.Seq != last.Seq+1 || e.Hash != e.Chain(last.Hash) {
				t.Fatalf("entry %d does not follow %d", e.Seq, last.Seq)
			}
			last = e
			subjects[e.Subject]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return subjects
}

func TestOpen(t *testing.T) {
	t.Run("hubs that start together make the tables once", func(t *testing.T) {
		address := pgtest.Address(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { open(t, address, nil) })
		}
		wg.Wait()
	})
	t.Run("tables of a newer version are refused and stay", func(t *testing.T) {
		address := pgtest.Address(t)
		open(t, address, nil)
		pgtest.Exec(t, address, fmt.Sprintf(`UPDATE parley_schema SET version = %d`, postgres.Schema()+1))
		_, err := postgres.Open(context.Background(), address, nil)
		wantCode(t, err, hub.CodeConflict)
	})
	t.Run("a database of schema 19 keeps its queue: items become tasks", func(t *testing.T) {
		address := pgtest.Address(t)
		files, err := filepath.Glob("schema/*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if filepath.Base(name) >= "0020" {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, address, strings.ReplaceAll(string(text), " TEXT", ` TEXT COLLATE "C"`))
		}
		pgtest.Exec(t, address, `CREATE TABLE parley_schema (version BIGINT NOT NULL); INSERT INTO parley_schema VALUES (19);`+hubtest.QueueBefore20)
		hubtest.CheckQueue(t, open(t, address, nil))
		if left := pgtest.Column(t, address, `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name IN ('claims', 'team_tasks')`); len(left) > 0 {
			t.Errorf("the tables %v are still there", left)
		}
	})
	t.Run("a password in the address is refused, one in a file is used", func(t *testing.T) {
		for _, address := range []string{"postgres://u:secret@h/d", "postgres://u@h/d?password=secret"} {
			_, err := postgres.Open(context.Background(), address, nil)
			wantCode(t, err, hub.CodeInvalid)
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
		}
		for _, address := range []string{"", "mysql://h", "postgres://h:port/x"} {
			_, err := postgres.Open(context.Background(), address, nil)
			wantCode(t, err, hub.CodeInvalid)
		}
		file := t.TempDir() + "/password"
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		open(t, pgtest.Address(t), &postgres.Options{PasswordFile: file})
		_, err := postgres.Open(context.Background(), pgtest.Address(t), &postgres.Options{PasswordFile: file + ".none"})
		wantCode(t, err, hub.CodeInvalid)
	})
	t.Run("a server beyond loopback is not called without verified TLS", func(t *testing.T) {
		gone, cancel := context.WithCancel(context.Background())
		cancel() // nothing is dialled here
		authority := t.TempDir() + "/ca.pem"
		writeCertificate(t, authority)
		for _, test := range []struct {
			address string
			refused bool
		}{
			{"postgres://u@db.example.com/d", true}, // prefer, which is the default
			{"postgres://u@192.0.2.7/d?sslmode=disable", true},
			{"postgres://u@192.0.2.7/d?sslmode=allow", true},
			{"postgres://u@192.0.2.7/d?sslmode=prefer", true},
			{"postgres://u@192.0.2.7/d?sslmode=require", true},
			{"postgres://u@[2001:db8::1]/d?sslmode=require", true},
			{"postgres://u@127.0.0.1,db.example.com/d?sslmode=disable", true},
			{"postgres:///d?host=db.example.com&user=u", true},
			{"postgres://u@127.0.0.1.example.com/d", true},
			{"postgres://u@localhost.example.com/d", true},
			{"postgres://u@0.0.0.0/d", true},
			{"postgres://u@db.example.com/d?sslmode=verify-full", false},
			{"postgres://u@db.example.com/d?sslmode=verify-ca&sslrootcert=" + authority, false},
			{"postgres://u@db.example.com/d?sslmode=require&sslrootcert=" + authority, false}, // as verify-ca, says libpq
			{"postgres://u@127.0.0.1/d?sslmode=disable", false},
			{"postgres://u@[::1]/d", false},
			{"postgres://u@localhost/d", false},
			{"postgres:///d?user=u&host=/run/postgresql", false},
		} {
			_, err := postgres.Open(gone, test.address, nil)
			if refused := hub.CodeOf(err) == hub.CodePolicy; err == nil || refused != test.refused {
				t.Errorf("%s: got %v", test.address, err)
			}
			if e, ok := errors.AsType[*hub.Error](err); test.refused && (!ok || !strings.Contains(e.Hint, "--store-no-tls-because")) {
				t.Errorf("%s: got %v, want a hint", test.address, err)
			}
			if _, err := postgres.Open(gone, test.address, &postgres.Options{NoTLSBecause: "a tunnel"}); hub.CodeOf(err) == hub.CodePolicy {
				t.Errorf("%s with a reason: got %v", test.address, err)
			}
		}
		t.Setenv("PGSSLMODE", "verify-full")
		if _, err := postgres.Open(gone, "postgres://u@db.example.com/d", nil); hub.CodeOf(err) == hub.CodePolicy {
			t.Errorf("a mode of the environment: got %v", err)
		}
	})
	t.Run("a database that is away is degraded and has a hint", func(t *testing.T) {
		_, err := postgres.Open(context.Background(), "postgres:///d?host="+t.TempDir(), nil)
		wantCode(t, err, hub.CodeDegraded)
		if e, ok := errors.AsType[*hub.Error](err); !ok || e.Hint == "" {
			t.Errorf("got %v, want a hint", err)
		}
	})
}

// writeCertificate writes the certificate of an authority.
func writeCertificate(t *testing.T, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAppendOnly(t *testing.T) {
	address := pgtest.Address(t)
	s := open(t, address, nil)
	if err := s.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error {
		_, err := tx.Append(hub.Entry{At: hub.At(time.Now()), Actor: hub.Operator, Action: actions.AgentPaused, Subject: "agent/x", Outcome: hub.OutcomeOK})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T) {
		t.Helper()
		for _, sql := range []string{
			`UPDATE journal SET actor = 'eve'`, `DELETE FROM journal`, `TRUNCATE journal`, `TRUNCATE journal CASCADE`, `TRUNCATE journal_archives`, `TRUNCATE agents CASCADE`,
			`TRUNCATE handoffs CASCADE`, `TRUNCATE handoff_history`, `TRUNCATE runs CASCADE`, `TRUNCATE decisions`, `TRUNCATE team_members`, `TRUNCATE team_versions CASCADE`,
		} {
			if err := pgtest.Try(address, sql); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: got %v", sql, err)
			}
		}
		if got := pgtest.Column(t, address, `SELECT count(*) FROM journal`); got[0] != "1" {
			t.Errorf("the journal has %s entries", got[0])
		}
		if drift, err := s.SchemaDrift(context.Background()); err != nil || len(drift) > 0 {
			t.Errorf("got %v, %v", drift, err)
		}
	}
	t.Run("the journal and everything that is kept is neither changed, deleted nor emptied", refused)
	t.Run("a database of an earlier version is guarded when a hub starts", func(t *testing.T) {
		for _, table := range pgtest.Column(t, address, `SELECT tgrelid::regclass || ' ' || tgname FROM pg_trigger WHERE tgname LIKE '%\_no\_truncate' AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)`) {
			on, name, _ := strings.Cut(table, " ")
			pgtest.Exec(t, address, `DROP TRIGGER `+name+` ON `+on)
		}
		if drift, err := s.SchemaDrift(context.Background()); err != nil || len(drift) == 0 {
			t.Errorf("without the triggers: got %v, %v", drift, err)
		}
		open(t, address, nil)
		refused(t)
	})
}

func TestSeveralHubs(t *testing.T) {
	t.Run("several hubs write one chain, and each sees what another acknowledged", func(t *testing.T) {
		address := pgtest.Address(t)
		hubtest.NoGoroutinesLeft(t)
		stores := []*postgres.Store{open(t, address, nil), open(t, address, nil), open(t, address, nil)}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				for n := range 10 {
					subject := fmt.Sprintf("%d/%d", i, n)
					if err := note(stores[i%3], subject); err != nil {
						t.Error(err)
						return
					}
					err := stores[(i+1)%3].View(context.Background(), func(r hub.Reader) error {
						found, err := r.Journal(hub.JournalQuery{Subject: subject, Limit: 2})
						if len(found) != 1 {
							t.Errorf("%s: another hub finds %d entries", subject, len(found))
						}
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := chain(t, stores[0]); len(got) != 120 {
			t.Errorf("got %d entries, want 120", len(got))
		}
	})
	t.Run("connections that the database ends cost nothing that was acknowledged, and nothing is done twice", func(t *testing.T) {
		address := pgtest.Address(t)
		a, b := open(t, address, nil), open(t, address, nil)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		var mu sync.Mutex
		acknowledged := map[string]bool{}
		for i, s := range []*postgres.Store{a, b, a, b} {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					subject := fmt.Sprintf("%d/%d", i, n)
					if err := note(s, subject); err == nil {
						mu.Lock()
						acknowledged[subject] = true
						mu.Unlock()
					} else if hub.CodeOf(err) != hub.CodeDegraded {
						t.Error(err)
					}
				}
			})
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged)
		}
		deadline := time.Now().Add(patience.For(time.Minute))
		for round := range 10 {
			pgtest.Exec(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley' AND pid <> pg_backend_pid()`)
			for before := count(); count() < before+5 && time.Now().Before(deadline); {
				if err := note(a, fmt.Sprintf("beside/%d", round)); err != nil && hub.CodeOf(err) != hub.CodeDegraded {
					t.Error(err)
				}
			}
		}
		close(stop)
		wg.Wait()
		got := chain(t, a)
		for subject := range acknowledged {
			if got[subject] != 1 {
				t.Errorf("%s was acknowledged and is there %d times", subject, got[subject])
			}
		}
		for subject, n := range got {
			if n > 1 && !strings.HasPrefix(subject, "beside/") {
				t.Errorf("%s is there %d times", subject, n)
			}
		}
		if len(acknowledged) < 50 {
			t.Errorf("only %d were acknowledged", len(acknowledged))
		}
	})
	t.Run("one hub has a lease, another gets it with a greater number when it is given back or over", func(t *testing.T) {
		address := pgtest.Address(t)
		a, err := postgres.Open(context.Background(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, address, nil)
		first, err := a.Lease(context.Background(), "sweep", time.Minute)
		wantCode(t, err, "")
		_, err = b.Lease(context.Background(), "sweep", time.Minute)
		wantCode(t, err, hub.CodeConflict)
		pgtest.Exec(t, address, `UPDATE leases SET until = now() - interval '1 second'`) // as after ten seconds of silence
		second, err := b.Lease(context.Background(), "sweep", time.Minute)
		wantCode(t, err, "")
		if second.Number <= first.Number {
			t.Errorf("got %d after %d", second.Number, first.Number)
		}
		err = a.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return errors.Join(tx.CheckLease(first), tx.PutMeta("swept", "a")) })
		wantCode(t, err, hub.CodeConflict)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a hub that ends gives its leases back at once", func(t *testing.T) {
		address := pgtest.Address(t)
		a, err := postgres.Open(context.Background(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, address, nil)
		_, err = a.Lease(context.Background(), "sweep", time.Minute)
		wantCode(t, err, "")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = b.Lease(context.Background(), "sweep", time.Minute)
		wantCode(t, err, "")
	})
	t.Run("a machine is away while no hub runs there, and never for its own hub", func(t *testing.T) {
		address := pgtest.Address(t)
		a := open(t, address, &postgres.Options{Machine: "a"})
		b := open(t, address, &postgres.Options{Machine: "b"})
		for _, c := range []struct {
			name    string
			hub     *postgres.Store
			machine string
			want    bool
		}{
			{"its own machine, of the first hub", a, "a", false},
			{"its own machine, of the second hub", b, "b", false},
			{"the machine of the other hub", b, "a", false},
			{"a machine without a hub", b, "c", true},
		} {
			if got := c.hub.Away(c.machine); got != c.want {
				t.Errorf("%s: got away %v, want %v", c.name, got, c.want)
			}
		}
	})
	t.Run("subscribers are woken after the connection was away, because hints may be lost meanwhile", func(t *testing.T) {
		address := pgtest.Address(t)
		a, b := open(t, address, nil), open(t, address, nil)
		told, endTold := a.Bus().Subscribe("inbox/bob")
		defer endTold()
		quiet, endQuiet := a.Bus().Subscribe("inbox/eve")
		defer endQuiet()
		deadline := time.After(patience.For(time.Minute))
		wait := func(hints <-chan struct{}) {
			t.Helper()
			select {
			case <-hints:
			case <-deadline:
				t.Fatal("no hint")
			}
		}
		// Until a hint comes for one topic alone, the first hub may not listen yet.
		for listens := false; !listens; {
			b.Bus().Publish("inbox/bob")
			wait(told)
			select {
			case <-quiet:
			default:
				listens = true
			}
		}
		pgtest.Exec(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley' AND pid <> pg_backend_pid()`)
		wait(quiet)
	})
	t.Run("a hint reaches the subscribers of every hub", func(t *testing.T) {
		address := pgtest.Address(t)
		a, b := open(t, address, nil), open(t, address, nil)
		here, endHere := a.Bus().Subscribe("inbox/bob")
		defer endHere()
		there, endThere := b.Bus().Subscribe("inbox/bob")
		defer endThere()
		other, endOther := b.Bus().Subscribe("inbox/eve")
		defer endOther()
		for len(other) > 0 {
			<-other // of the beginning
		}
		a.Bus().Publish("inbox/bob")
		for name, hints := range map[string]<-chan struct{}{"here": here, "there": there} {
			select {
			case <-hints:
			case <-time.After(patience.For(30 * time.Second)):
				t.Errorf("no hint %s", name)
			}
		}
	})
	t.Run("a hub that died after its commit is noticed without its hint", func(t *testing.T) {
		address := pgtest.Address(t)
		a, b := open(t, address, nil), open(t, address, nil)
		hints, end := b.Bus().Subscribe("inbox/bob")
		defer end()
		if err := note(a, "unheard"); err != nil { // without Publish
			t.Fatal(err)
		}
		deadline := time.After(patience.For(time.Minute))
		for found := false; !found; {
			select {
			case <-hints:
			case <-deadline:
				t.Fatal("nobody was woken")
			}
			if err := b.View(context.Background(), func(r hub.Reader) error {
				all, err := r.Journal(hub.JournalQuery{Limit: 1})
				found = len(all) == 1
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("roots belong to their machine", func(t *testing.T) {
		address := pgtest.Address(t)
		a, b := open(t, address, &postgres.Options{Machine: "a"}), open(t, address, &postgres.Options{Machine: "b"})
		root := hub.Root{Path: "/src", AddedBy: hub.Operator, AddedAt: hub.At(time.Now())}
		if err := a.Update(context.Background(), hub.SurvivesKill, func(tx hub.Tx) error { return tx.AddRoot(root) }); err != nil {
			t.Fatal(err)
		}
		for s, want := range map[*postgres.Store]int{a: 1, b: 0} {
			roots, err := hub.Read(context.Background(), s, func(r hub.Reader) ([]hub.Root, error) { return r.Roots() })
			if err != nil || len(roots) != want {
				t.Errorf("got %v (%v), want %d", roots, err, want)
			}
		}
	})
	t.Run("an artifact can be read on every hub until it is removed on one", func(t *testing.T) {
		address := pgtest.Address(t)
		var all []*postgres.Artifacts
		for range 2 {
			files, err := blobs.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, open(t, address, nil).Artifacts(files))
		}
		for _, size := range []int{0, 1, 1 << 20, 5<<20 + 3} {
			content := bytes.Repeat([]byte{0, 'a', 0xff}, size/3+1)[:size]
			_, sum, n, err := all[0].Put(bytes.NewReader(content))
			if err != nil || n != int64(size) {
				t.Fatalf("Put: %d, %v", n, err)
			}
			f, err := all[1].Open(sum)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(f)
			f.Close()
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes: got %d other bytes (%v)", size, len(got), err)
			}
			if err := all[0].Remove(sum); err != nil {
				t.Fatal(err)
			}
			_, err = all[1].Open(sum)
			wantCode(t, err, hub.CodeNotFound)
		}
	})
}

// The tests of services run on PostgreSQL, too. Two packages run at a time: each opens
// many stores, and a store has several connections.
func TestServices(t *testing.T) {
	if os.Getenv("PARLEY_REAL") == "" {
		t.Skip("PARLEY_REAL is not set: make test-real sets it")
	}
	server := pgtest.Own(t, "fsync=off")
	services := strings.Fields("callers contract deliberation folder handoff journal keys mailroom metrics peers records roots run team")
	for i := range services {
		services[i] = "./" + services[i]
	}
	cmd := exec.Command("go", append([]string{"test", "-count", "1", "-p", "2", "-timeout", "30m"}, services...)...)
	cmd.Dir = "../../service"
	cmd.Env = append(os.Environ(), "PARLEY_TEST_STORE=postgres", pgtest.Variable+"="+server.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
