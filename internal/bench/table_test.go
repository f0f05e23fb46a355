package bench_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/work/keeper"
	"github.com/parley-agents/parley/protocol/sandbox"
	"github.com/parley-agents/parley/server"
)

// BenchmarkTable prints how fast the hub is in relation to a baseline that does
// as little as possible, each pair measured in turns in one run. Ratios can be
// compared between machines; the rates beside them cannot.
//
// PARLEY_BENCH_MESSAGES sets the size of the large store (default 1,000,000),
// PARLEY_BENCH_SECONDS the length of a sustained load (default 30), and
// PARLEY_BENCH_ONLY picks one part: send, http, memory, lookups, recovery,
// coordination, peers, pages, kept, teams, proof, tree, guard, landing, contracts, weights, spend, comply or postgres.
func BenchmarkTable(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as parley serve does
	for b.Loop() {
		t := &table{b: b}
		for name, measure := range parts {
			if only := os.Getenv("PARLEY_BENCH_ONLY"); only == "" || only == name {
				measure(t)
			}
		}
		t.print()
	}
}

// parts are the parts of the table.
var parts = map[string]func(*table){
	"send": (*table).send, "http": (*table).http, "memory": (*table).memory, "lookups": (*table).lookups, "recovery": (*table).recovery,
	"coordination": (*table).coordination, "peers": (*table).manyPeers, "pages": (*table).pages, "kept": (*table).kept, "teams": (*table).teamwork, "proof": (*table).proof, "tree": (*table).tree,
}

// A table gathers lines while it measures.
type table struct {
	b         *testing.B
	lines     []string
	weighed   []string // rows of the table of weights
	largeHome string   // of the large store, once it is made; see large
}

const (
	senders = 64
	conns   = 32
	rounds  = 4               // turns that a pair of lookups is measured in
	slice   = 2 * time.Second // length of one such turn
	loads   = 3               // sustained loads that a row is the median of
	rest    = 8 * time.Second // of the baseline between two sustained loads
)

// number returns a number from the environment.
func number(b *testing.B, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	must(b, err)
	return n
}

// loadTime is how long a sustained load lasts.
func loadTime(b *testing.B) time.Duration {
	return time.Duration(number(b, "PARLEY_BENCH_SECONDS", 30)) * time.Second
}

func (t *table) ratio(what string, got, base float64, unit string, target float64, least bool) {
	r := got / base
	verdict, sign := "ok", "≥"
	if !least {
		sign = "≤"
	}
	if least && r < target || !least && r > target {
		verdict = "MISSED"
	}
	t.lines = append(t.lines, fmt.Sprintf("| %s | %.0f %s | %.0f %s | %.2f | %s %.2f | %s |", what, got, unit, base, unit, r, sign, target, verdict))
}

func (t *table) fact(what, value string) {
	t.lines = append(t.lines, fmt.Sprintf("| %s | %s | | | | |", what, value))
}

func (t *table) print() {
	fmt.Printf("\n%s, %d cores, %s\n\n", runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	fmt.Println("| what | hub | baseline | ratio | target | |\n|---|---|---|---|---|---|")
	for _, l := range t.lines {
		fmt.Println(l)
	}
	if len(t.weighed) > 0 {
		fmt.Println("\n| operation | input | time | memory | steps | allowed | |\n|---|---|---|---|---|---|---|")
	}
	for _, l := range t.weighed {
		fmt.Println(l)
	}
	fmt.Println()
}

// A load works until stop is closed, and returns how often.
type load = func(stop <-chan struct{}) int64

// run runs a load for a while and returns how often it worked and how long it
// took.
func run(f load, d time.Duration) (int64, time.Duration) {
	stop := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(stop) })
	defer timer.Stop()
	began := time.Now()
	n := f(stop)
	return n, time.Since(began)
}

// turns measures two things alternately and returns both rates per second.
func turns(first, second load) (float64, float64) {
	var n [2]int64
	var took [2]time.Duration
	for i := range 2 * rounds {
		k, d := run([]load{first, second}[i%2], slice)
		n[i%2] += k
		took[i%2] += d
	}
	return float64(n[0]) / took[0].Seconds(), float64(n[1]) / took[1].Seconds()
}

// sustained measures a load that lasts, between turns of its baseline, and adds
// the row of the median ratio. The time until finish returns belongs to the
// load: then everything that it put off is done. A second row compares the
// processor time of both, which says more on a machine that has other things to
// do. It returns the median rate.
func (t *table) sustained(what string, ours, baseline load, finish func(), target float64) float64 {
	b := t.b
	type result struct{ got, base float64 }
	var all []result
	var times, works [2]float64 // of the baseline and of the load, together
	for range loads {
		before := ticks(b, "self")
		n, took := run(baseline, rest)
		between := ticks(b, "self")
		base := float64(n) / took.Seconds()
		times[0], works[0] = times[0]+float64(between-before), works[0]+float64(n)
		began := time.Now()
		n, _ = run(ours, loadTime(b))
		finish()
		times[1], works[1] = times[1]+float64(ticks(b, "self")-between), works[1]+float64(n)
		all = append(all, result{float64(n) / time.Since(began).Seconds(), base})
	}
	slices.SortFunc(all, func(a, b result) int { return cmp.Compare(a.got/a.base, b.got/b.base) })
	for i, r := range all {
		b.Logf("%s: %d of %d: %.0f /s, baseline %.0f /s, ratio %.3f", what, i+1, loads, r.got, r.base, r.got/r.base)
	}
	middle := all[loads/2]
	t.ratio(what, middle.got, middle.base, "/s", target, true)
	if times[0] > 0 {
		micros := func(i int) float64 { return times[i] * 1e4 / works[i] }
		t.fact("processor time of one of these, callers included; of the baseline; ratio",
			fmt.Sprintf("%.0f µs, %.0f µs, %.2f", micros(1), micros(0), micros(0)/micros(1)))
	}
	return middle.got
}

// paced runs n workers that start work together rate times a second, and
// returns the 99th percentile of how long it took.
func paced(n int, rate float64, d time.Duration, work func(worker int)) time.Duration {
	every := time.Duration(float64(n) / rate * float64(time.Second))
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			var mine []time.Duration
			tick := time.NewTicker(every)
			defer tick.Stop()
			for end := time.After(d); ; {
				select {
				case <-end:
					mu.Lock()
					all = append(all, mine...)
					mu.Unlock()
					return
				case <-tick.C:
					began := time.Now()
					work(w)
					mine = append(mine, time.Since(began))
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all[len(all)*99/100]
}

// steady starts work rate times a second, at even intervals, whether or not earlier work is done,
// and returns the 99th percentile of how long it took.
func steady(rate int, d time.Duration, work func(n int)) time.Duration {
	took := make([]time.Duration, rate*int(d.Seconds()))
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()

	var wg sync.WaitGroup
	for n := range took {
		<-tick.C
		wg.Go(func() {
			began := time.Now()
			work(n)
			took[n] = time.Since(began)
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// most adds a row whose value has an upper bound.
func (t *table) most(what string, got, bound float64, unit string) {
	verdict := "ok"
	if got > bound {
		verdict = "MISSED"
	}
	t.lines = append(t.lines, fmt.Sprintf("| %s | %.1f %s | | | ≤ %.0f %s | %s |", what, got, unit, bound, unit, verdict))
}

// quiet waits until a process has nothing to do.
func quiet(b *testing.B, pid string) {
	const pause = 100 * time.Millisecond
	for last := ticks(b, pid); ; {
		<-time.After(pause)
		now := ticks(b, pid)
		if now-last <= 1 {
			return
		}
		last = now
	}
}

// ticks returns how many hundredths of a second a process has computed; always
// the same where that cannot be known.
func ticks(b *testing.B, pid string) int {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must(b, err)
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // from the third on
	user, err := strconv.Atoi(fields[14-3])
	must(b, err)
	system, err := strconv.Atoi(fields[15-3])
	must(b, err)
	return user + system
}

// crowd runs n workers until stop is closed and counts what they did.
func crowd(n int, stop <-chan struct{}, work func(worker int, turn int64)) int64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					total.Add(i)
					return
				default:
					work(w, i)
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

func benchAgent(i int) hub.AgentID { return hub.AgentID(fmt.Sprintf("agent-%02d", i%senders)) }

// addAgents adds the senders and returns their keys.
func addAgents(b *testing.B, store hub.Store) []string {
	b.Helper()
	who := keys.New(store, nil)
	var secrets []string
	for i := range senders {
		_, _, secret, err := who.AddAgent(b.Context(), hub.Caller{ID: hub.Operator}, hub.Agent{ID: benchAgent(i)}, keys.NewKey{})
		must(b, err)
		secrets = append(secrets, secret)
	}
	return secrets
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

const benchPayload = `{"summary":"the schema is frozen and avatar is nullable","detail":"migration 42 is merged; clients may read the column from now on"}`

// send compares a durable Send through the service, words indexed, with a loop
// that inserts the message, delivery and journal rows with the same driver and
// group commit, into tables with the protocol's own indexes and no others.
func (t *table) send() {
	b := t.b
	home := b.TempDir()
	store, err := sqlite.Open(home, nil)
	must(b, err)
	defer store.Close()
	addAgents(b, store)
	mail, err := mailroom.New(store, keys.New(store, nil), &mailroom.Options{Limits: mailroom.Limits{Unsafe: true}})
	must(b, err)
	actors := make([]hub.Caller, senders)
	for i := range actors {
		actors[i] = hub.Caller{ID: benchAgent(i), Role: hub.RoleExecutor}
	}
	draft := func(w int) mailroom.Draft {
		return mailroom.Draft{To: []hub.AgentID{benchAgent(w + 1)}, Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))}
	}
	ctx := context.Background()
	ours := func(stop <-chan struct{}) int64 {
		return crowd(senders, stop, func(w int, _ int64) {
			if _, err := mail.Send(ctx, actors[w], draft(w)); err != nil {
				b.Error(err)
			}
		})
	}
	bare := newBare(b, filepath.Join(b.TempDir(), "bare.db"))
	defer bare.close()
	t.sustained("durable Send, 64 senders / bare group-commit inserts of message, delivery and journal rows", ours, func(stop <-chan struct{}) int64 {
		return crowd(senders, stop, func(w int, _ int64) { bare.insert(w) })
	}, func() { must(b, store.IndexText(ctx)) }, 0.4)

	var before, after runtime.MemStats
	const n = 2000
	runtime.ReadMemStats(&before)
	for range n {
		_, err := mail.Send(ctx, actors[0], draft(0))
		must(b, err)
	}
	runtime.ReadMemStats(&after)
	t.fact("allocations per send through the service", fmt.Sprintf("%d, %d bytes", (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n))
}

// A bare is a group-commit loop that inserts rows and does nothing else.
type bare struct {
	b     *testing.B
	db    *sqlite3.Conn
	ids   *hub.IDs
	queue chan bareRow
	done  chan struct{}
	seq   int64
}

type bareRow struct {
	from, to string
	done     chan struct{}
}

func newBare(b *testing.B, path string) *bare {
	db, err := sqlite3.Open("file:" + path)
	must(b, err)
	must(b, db.Exec(`PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000; PRAGMA cache_size=-16384; PRAGMA temp_store=MEMORY`))
	schema, err := os.ReadFile("internal/engine/sqlite/schema/0001_protocol.sql")
	must(b, err)
	must(b, db.Exec(string(schema)+`CREATE TABLE journal (seq INTEGER PRIMARY KEY, at TEXT NOT NULL, actor TEXT NOT NULL,
		action TEXT NOT NULL, subject TEXT NOT NULL, outcome TEXT NOT NULL, facts_json TEXT NOT NULL, hash TEXT NOT NULL)`))
	x := &bare{b: b, db: db, ids: hub.NewIDs(time.Now), queue: make(chan bareRow, 1024), done: make(chan struct{})}
	go x.run()
	return x
}

func (x *bare) close() {
	close(x.queue)
	<-x.done
	x.db.Close()
}

var bareDone = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

func (x *bare) insert(w int) {
	done := bareDone.Get().(chan struct{})
	x.queue <- bareRow{string(benchAgent(w)), string(benchAgent(w + 1)), done}
	<-done
	bareDone.Put(done)
}

func (x *bare) run() {
	defer close(x.done)
	prepare := func(sql string) *sqlite3.Stmt {
		s, _, err := x.db.Prepare(sql)
		must(x.b, err)
		return s
	}
	begin, commit := prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
	message := prepare(`INSERT INTO messages(id,from_agent,to_agents_json,thread_id,type,priority,status,payload_json,policy_json,payload_bytes,created_at) VALUES(?,?,?,?,?,?,?,?,?,?,?)`)
	delivery := prepare(`INSERT INTO delivery_log(message_id,recipient,channel,status) VALUES(?,?,?,?)`)
	journal := prepare(`INSERT INTO journal(seq,at,actor,action,subject,outcome,facts_json,hash) VALUES(?,?,?,?,?,?,?,?)`)
	exec := func(s *sqlite3.Stmt, args ...any) {
		for i, a := range args {
			switch v := a.(type) {
			case string:
				must(x.b, s.BindText(i+1, v))
			case int64:
				must(x.b, s.BindInt64(i+1, v))
			}
		}
		must(x.b, s.Exec())
	}
	hash := strings.Repeat("0", 64)
	var batch []bareRow
	for row := range x.queue {
		batch = append(batch[:0], row)
	drain:
		for len(batch) < 256 {
			select {
			case r, ok := <-x.queue:
				if !ok {
					break drain
				}
				batch = append(batch, r)
			default:
				break drain
			}
		}
		must(x.b, begin.Exec())
		for _, r := range batch {
			x.seq++
			id := string(x.ids.Next())
			at := hub.EnvelopeID(id).Time().String()
			exec(message, id, r.from, `["`+r.to+`"]`, id, "status.update", "normal", "pending", benchPayload, `{"visibility":"private","sensitivity":"low","human_gate":"none"}`, int64(len(benchPayload)), at)
			exec(delivery, id, r.to, "inbox", "stored")
			exec(journal, x.seq, at, r.from, "message.sent", id, "ok", `{"type":"status.update","to":["`+r.to+`"],"recipients":1,"thread_id":"`+id+`","priority":"normal","policy":{"visibility":"private","sensitivity":"low","human_gate":"none"},"payload_sha256":"`+hash+`","payload_bytes":125}`, hash)
		}
		must(x.b, commit.Exec())
		for _, r := range batch {
			r.done <- struct{}{}
		}
	}
}

// http compares sends over the wire with a handler that decodes the same body
// and answers the same size.
func (t *table) http() {
	b := t.b
	home := b.TempDir()
	store, err := sqlite.Open(home, nil)
	must(b, err)
	keys := addAgents(b, store)
	must(b, store.Close())
	s, err := server.New(b.Context(), server.Options{Home: home, Addr: "127.0.0.1:0", Limits: server.Limits{Unsafe: true}})
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx); err != nil {
			b.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()

	call := func(w int) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["` + string(benchAgent(w+1)) + `"],"type":"status.update","payload":` + benchPayload + `}}`)
	}
	tool := func(w int) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acp_send","arguments":{"to":["` + string(benchAgent(w+1)) + `"],"type":"status.update","payload":` + benchPayload + `}}}`)
	}
	probe := newWire(b, s.URL(), keys[0])
	size := len(probe.post("/", call(0)))
	probe.close()

	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", size-40) + `"}`)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	defer plain.Close()

	wires := func(url string, mcp bool) []*wire {
		all := make([]*wire, conns)
		for w := range all {
			all[w] = newWire(b, url, keys[w])
			b.Cleanup(all[w].close)
			if mcp {
				all[w].initialize()
			}
		}
		return all
	}
	posts := func(wires []*wire, path string, body func(int) []byte) load {
		return func(stop <-chan struct{}) int64 {
			return crowd(conns, stop, func(w int, _ int64) { wires[w].post(path, body(w)) })
		}
	}
	finish := func() { quiet(b, "self") }
	length := fmt.Sprintf(" for %v, then everything indexed / plain net/http handler", loadTime(b))
	ours := wires(s.URL(), false)
	rate := t.sustained("acp/send over HTTP, 32 connections"+length, posts(ours, "/", call), posts(wires(plain.URL, false), "/", call), finish, 0.13)
	theirs := wires(plain.URL, false)
	milliseconds := func(wires []*wire) float64 {
		p99 := paced(conns, rate/2, loadTime(b)/2, func(w int) { wires[w].post("/", call(w)) })
		return float64(p99.Microseconds()) / 1e3
	}
	t.fact("the 99th percentile of the plain handler at half of that load, which the machine alone takes", fmt.Sprintf("%.1f ms", milliseconds(theirs)))
	t.most(fmt.Sprintf("the 99th percentile of acp/send at half of that load, %.0f /s", rate/2), milliseconds(ours), 25, "ms")
	finish()
	t.sustained("acp_send over MCP, 32 connections"+length, posts(wires(s.URL(), true), "/mcp", tool), posts(wires(plain.URL, false), "/", tool), finish, 0.13)
}

// A wire is one keep-alive connection.
type wire struct {
	b      *testing.B
	client *http.Client
	url    string
	header http.Header
	buf    bytes.Buffer
}

func newWire(b *testing.B, url, key string) *wire {
	return &wire{
		b: b, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}},
		header: http.Header{
			"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-06-18"},
		},
	}
}

func (w *wire) close() { w.client.CloseIdleConnections() }

// post sends a body and returns the answer's, which is good until the next.
func (w *wire) post(path string, body []byte) []byte {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+path, bytes.NewReader(body))
	must(w.b, err)
	req.Header = w.header
	res, err := w.client.Do(req)
	must(w.b, err)
	w.buf.Reset()
	_, err = w.buf.ReadFrom(res.Body)
	must(w.b, err)
	res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && w.header.Get("Mcp-Session-Id") == "" {
		w.header.Set("Mcp-Session-Id", id)
	}
	answer := w.buf.Bytes()
	if res.StatusCode >= 300 || bytes.Contains(answer, []byte(`"error"`)) || bytes.Contains(answer, []byte(`"isError":true`)) {
		w.b.Fatalf("%s: %s", res.Status, answer)
	}
	return answer
}

func (w *wire) initialize() {
	w.post("/mcp", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	w.post("/mcp", []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// lookups compares reading from a large store with reading from a small one.
func (t *table) lookups() {
	b := t.b
	small := fill(b, b.TempDir(), 1000)
	largeHome, large := t.large()
	big, err := sqlite.Open(largeHome, nil)
	must(b, err)
	view := func(store hub.Store, read func(hub.Reader) (hub.Page, error), want int) func(<-chan struct{}) int64 {
		return func(stop <-chan struct{}) int64 {
			return crowd(1, stop, func(int, int64) {
				must(b, store.View(context.Background(), func(r hub.Reader) error {
					page, err := read(r)
					if err == nil && len(page.Messages) != want {
						b.Fatalf("got %d messages, want %d", len(page.Messages), want)
					}
					return err
				}))
			})
		}
	}
	now := hub.At(time.Now())
	for _, c := range []struct {
		name string
		read func(hub.Reader) (hub.Page, error)
		want int
	}{
		{"inbox of 50", func(r hub.Reader) (hub.Page, error) {
			return r.Inbox("reader", hub.InboxFilter{Limit: 50, Now: now})
		}, 50},
		{"query by thread", func(r hub.Reader) (hub.Page, error) {
			return r.Query(hub.Query{Viewer: "reader", Thread: "shared", Limit: 50})
		}, 20},
		{"query by type", func(r hub.Reader) (hub.Page, error) {
			return r.Query(hub.Query{Viewer: "reader", Type: hub.TypeKnowledgePush, Limit: 50})
		}, 50},
	} {
		few, many := turns(view(small, c.read, c.want), view(big, c.read, c.want))
		t.ratio(fmt.Sprintf("%s, µs: among %d / among 1000", c.name, large), 1e6/many, 1e6/few, "µs", 2, false)
	}
	for _, c := range []struct {
		name, text string
		want       int
	}{{"a word that is everywhere", "schema", 50}, {"a word in 10 of the caller's and a third of all", "avatar schema", 10}} {
		n, took := run(view(big, func(r hub.Reader) (hub.Page, error) {
			return r.Query(hub.Query{Viewer: "reader", Text: c.text, Limit: 50})
		}, c.want), slice)
		t.most(fmt.Sprintf("search for %s, among %d", c.name, large), took.Seconds()/float64(n)*1e3, 50, "ms")
	}
	must(b, small.Close())
	must(b, big.Close())
	p := t.start(largeHome)
	t.fact(fmt.Sprintf("start with %d messages", large), p.started.Round(time.Millisecond).String())
	p.stop()
}

// large makes the large store, once, and returns its home and the number of its
// messages.
func (t *table) large() (home string, n int) {
	n = number(t.b, "PARLEY_BENCH_MESSAGES", 1_000_000)
	if t.largeHome == "" {
		t.largeHome = t.b.TempDir()
		must(t.b, fill(t.b, t.largeHome, n).Close())
	}
	return t.largeHome, n
}

// recovery measures the start of the real program in a large home, after a clean
// stop and after a kill under load, and a backup beside a copy of the file.
func (t *table) recovery() {
	b := t.b
	home, n := t.large()
	t.start(home).stop() // the first start in a home makes files
	var clean, killed []float64
	for range loads {
		p := t.start(home)
		clean = append(clean, float64(p.started.Milliseconds()))
		p.fillLog()
		p.kill()
		p = t.start(home)
		killed = append(killed, float64(p.started.Milliseconds()))
		p.stop()
	}
	b.Logf("start: clean %v ms, after a kill %v ms", clean, killed)
	t.ratio(fmt.Sprintf("start with %d messages: after a kill under load, its log %d MiB / after a clean stop", n, logSize>>20), median(killed), median(clean), "ms", 3, false)

	store, err := sqlite.Open(home, nil)
	must(b, err)
	defer store.Close()
	file := filepath.Join(home, "hub.db")
	info, err := os.Stat(file)
	must(b, err)
	var ours, plain []float64 // MiB per second
	for i := range loads {
		dir := b.TempDir()
		began := time.Now()
		must(b, store.Backup(b.Context(), filepath.Join(dir, "backup.db")))
		ours = append(ours, float64(info.Size()>>20)/time.Since(began).Seconds())
		began = time.Now()
		copyFile(b, file, filepath.Join(dir, "copy.db"))
		plain = append(plain, float64(info.Size()>>20)/time.Since(began).Seconds())
		b.Logf("backup %d: %.0f MiB/s, copy %.0f MiB/s", i, ours[i], plain[i])
		must(b, os.RemoveAll(dir))
	}
	t.ratio(fmt.Sprintf("backup of %d messages while the store is open / a copy of the file, both synced", n), median(ours), median(plain), "MiB/s", 0.5, true)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// copyFile copies a file and syncs the copy.
func copyFile(b *testing.B, from, to string) {
	src, err := os.Open(from)
	must(b, err)
	defer src.Close()
	dst, err := os.Create(to)
	must(b, err)
	_, err = io.Copy(dst, src)
	must(b, errors.Join(err, dst.Sync(), dst.Close()))
}

// logSize is how large the write-ahead log is when a program under load is killed:
// close to the size at which it is emptied.
const logSize = 60 << 20

// fillLog sends until the log of a program that was started a moment ago has
// logSize bytes.
func (p *process) fillLog() {
	stop := make(chan struct{})
	var once sync.Once
	wires := p.wires()
	crowd(conns, stop, func(w int, turn int64) {
		wires[w].post("/", []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["writer"],"type":"status.update","payload":`+benchPayload+`}}`))
		if info, err := os.Stat(filepath.Join(p.home, "hub.db-wal")); w == 0 && err == nil && info.Size() >= logSize {
			once.Do(func() { close(stop) })
		}
	})
}

// fill makes a store with n messages, 200 of which concern the agent "reader".
func fill(b *testing.B, home string, n int) *sqlite.Store {
	store, err := sqlite.Open(home, nil)
	must(b, err)
	who := keys.New(store, nil)
	for _, id := range []hub.AgentID{"reader", "writer"} {
		_, _, _, err := who.AddAgent(b.Context(), hub.Caller{ID: hub.Operator}, hub.Agent{ID: id}, keys.NewKey{})
		must(b, err)
	}
	const batch = 500
	every := n / 200
	ids := hub.NewIDs(time.Now)
	for done := 0; done < n; done += batch {
		must(b, store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
			for i := done; i < min(done+batch, n); i++ {
				id := ids.Next()
				from, to := hub.AgentID(fmt.Sprintf("crowd-%03d", i%500)), hub.AgentID(fmt.Sprintf("crowd-%03d", (i+7)%500))
				text := "the schema of part " + strconv.Itoa(i%5000) + " is frozen"
				m := hub.Message{Envelope: hub.Envelope{
					ID: id, Protocol: hub.Protocol, Version: hub.Version, From: from, To: []hub.AgentID{to}, ThreadID: string(id),
					Type: hub.TypeStatusUpdate, Priority: hub.PriorityNormal, Status: hub.StatusPending,
					Policy: hub.DefaultPolicy, CreatedAt: id.Time(),
				}}
				if i%2 == 0 {
					m.Type = hub.TypeKnowledgePush
				}
				if k := i / every; i%every == 0 && k < 200 {
					from, to = "writer", "reader"
					if k%10 == 0 && k < 100 {
						text += " avatar"
					}
					m.From, m.To = from, []hub.AgentID{to}
					m.Type = []hub.MessageType{hub.TypeKnowledgePush, hub.TypeStatusUpdate}[k%2]
					if k%10 == 0 {
						m.ThreadID = "shared"
					}
				} else if i%3 == 0 {
					text += " avatar" // others' messages must not slow the reader's search
				}
				m.Payload = json.RawMessage(`{"summary":"` + text + `"}`)
				if err := tx.AddMessage(m, []hub.Party{{Agent: to, State: hub.PartyUnread}, {Agent: from, State: hub.PartySender}}); err != nil {
					return err
				}
				if err := tx.AddDelivery(hub.Delivery{MessageID: id, Recipient: to, Channel: hub.ChannelInbox, Status: hub.DeliveryStored}); err != nil {
					return err
				}
				if _, err := tx.Append(hub.Entry{At: id.Time(), Actor: from, Action: actions.MessageSent, Subject: string(id), Outcome: hub.OutcomeOK, Facts: json.RawMessage(`{}`)}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	must(b, store.IndexText(b.Context()))
	return store
}

// memory measures the real program before and after a sustained load.
func (t *table) memory() {
	b := t.b
	home := b.TempDir()
	must(b, fill(b, home, 20_000).Close())
	p := t.start(home)
	defer p.stop()
	quiet(b, strconv.Itoa(p.cmd.Process.Pid))
	t.fact("resident memory, idle", fmt.Sprintf("%.0f MiB", p.resident()))
	wires := p.wires()
	run(func(stop <-chan struct{}) int64 {
		return crowd(conns, stop, func(w int, _ int64) {
			wires[w].post("/", []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["reader"],"type":"status.update","payload":`+benchPayload+`}}`))
		})
	}, loadTime(b))
	loaded := p.resident()
	quiet(b, strconv.Itoa(p.cmd.Process.Pid))
	t.most(fmt.Sprintf("resident memory at the end of %v of load over HTTP", loadTime(b)), max(loaded, p.resident()), 110, "MiB")
}

// kept measures the real program while it keeps agents that sleep.
func (t *table) kept() {
	const agents = 20
	b := t.b
	home := b.TempDir()
	p := t.start(home)
	defer p.stop()
	key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
	must(b, err)
	operator := rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), "")
	program, err := exec.LookPath("cat") // never started
	must(b, err)
	for i := range agents {
		_, err := rpc.Call(b.Context(), operator, api.KeepAgent, api.KeepParams{Definition: keeper.Definition{
			Agent: hub.AgentID(fmt.Sprint("agent", i)), Command: []string{program}, Dir: b.TempDir(), Policy: sandbox.PolicyRead,
		}})
		must(b, err)
	}
	pid := strconv.Itoa(p.cmd.Process.Pid)
	quiet(b, pid)
	before := ticks(b, pid)
	<-time.After(loadTime(b))
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if !errors.Is(err, fs.ErrNotExist) {
		must(b, err)
	}
	t.most(fmt.Sprintf("resident memory of a hub that keeps %d sleeping agents", agents), p.resident(), 100, "MiB")
	t.most(fmt.Sprintf("processes of %d sleeping agents", agents), float64(len(strings.Fields(string(children)))), 0, "")
	t.fact(fmt.Sprintf("processor time of that hub within %v", loadTime(b)), fmt.Sprintf("%d ms", 10*(ticks(b, pid)-before)))
}

// A process is the real program.
type process struct {
	b       *testing.B
	home    string
	cmd     *exec.Cmd
	url     string
	started time.Duration // from its start to its first line
}

// start builds the program and serves a home with it.
func (t *table) start(home string, more ...string) *process {
	b := t.b
	bin := filepath.Join(b.TempDir(), "parley")
	build := exec.Command("go", "build", "-o", bin, "./cmd/parley")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin, append([]string{"serve", "--home", home, "--addr", "127.0.0.1:0", "--unsafe-limits", "--log-level", "error"}, more...)...)
	pipe, err := cmd.StderrPipe()
	must(b, err)
	began := time.Now()
	must(b, cmd.Start())
	said := bufio.NewReader(pipe)
	line, err := said.ReadString('\n')
	must(b, err)
	took := time.Since(began)
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		b.Fatalf("got %q", line)
	}
	go io.Copy(io.Discard, said)
	return &process{b, home, cmd, url, took}
}

// wires returns connections of the operator, which are closed with the benchmark.
func (p *process) wires() []*wire {
	key, err := os.ReadFile(filepath.Join(p.home, server.OperatorKeyFile))
	must(p.b, err)
	token, err := rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), "").Token(p.b.Context())
	must(p.b, err)
	all := make([]*wire, conns)
	for i := range all {
		all[i] = newWire(p.b, p.url, token)
		p.b.Cleanup(all[i].close)
	}
	return all
}

// kill ends the program without warning.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func (p *process) stop() {
	p.cmd.Process.Signal(os.Interrupt)
	p.cmd.Wait()
}

// resident returns how many MiB of memory the process has; 0 where that cannot
// be known.
func (p *process) resident() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must(p.b, err)
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, err := strconv.Atoi(f[1])
			must(p.b, err)
			return float64(kb) / 1024
		}
	}
	return 0
}
