package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-agents/parley/channel"
	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/process/confine"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/wake"
	"github.com/parley-agents/parley/internal/testing/patience"
	"github.com/parley-agents/parley/internal/testing/pgtest"
	"github.com/parley-agents/parley/server"
)

const (
	chaosSenders = 16
	chaosReaders = 4
)

// TestChaos kills a real hub under load, again and again, and looks each time
// what is left: every send that was acknowledged is there once, every other at
// most once, and nothing that was processed comes back.
//
// PARLEY_CHAOS_KILLS says how often (5), PARLEY_CHAOS_SEED repeats a run.
func TestChaos(t *testing.T) {
	t.Parallel()
	binary := program(t) // before the clock starts
	kills, seed := fromEnv(t, "PARLEY_CHAOS_KILLS", 5), fromEnv(t, "PARLEY_CHAOS_SEED", int(time.Now().UnixNano()&0xffffff))
	t.Logf("%d kills, seed %d", kills, seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 0))
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute+time.Duration(kills)*10*time.Second))
	defer cancel()

	c := newChaos(&chaosHub{t: t, binary: binary, home: filepath.Join(t.TempDir(), "home")})
	c.start(ctx)
	c.enroll(ctx)
	senders, readers := c.load(ctx, seed)

	for n := range kills {
		reached := c.after(20 + rnd.IntN(300))
		c.open()
		select {
		case <-reached:
		case <-c.ended:
			t.Fatalf("the hub ended by itself: %s", c.log)
		case <-ctx.Done():
			t.Fatalf("round %d: too few sends within the time: %s", n, c.log)
		}
		c.kill()
		if rnd.IntN(3) == 0 {
			// Also in the middle of a start, which nothing announces.
			c.spawn(ctx)
			select {
			case <-time.After(time.Duration(rnd.IntN(60)) * time.Millisecond):
			case <-c.ready:
			}
			c.kill()
		}
		c.start(ctx)
		if n < everyKill || n%everyKill == 0 { // it reads everything, and nothing that is lost comes back
			c.verify(ctx, fmt.Sprintf("after kill %d", n+1))
		}
		if t.Failed() {
			t.FailNow()
		}
	}

	// What got no answer is asked for again, what lies there is read, and then
	// everything has to add up.
	c.finish(true, false)
	c.open()
	senders.Wait()
	c.inTime(ctx, "the answers to the last sends")
	c.finish(true, true)
	readers.Wait()
	c.inTime(ctx, "the readers to process the last messages")
	messages := c.verify(ctx, "at the end")
	c.settled(messages)
	c.stop()
	store, err := sqlite.Open(c.home, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Check(ctx); err != nil {
		t.Error(err)
	}
	c.journal(ctx, store, messages)
	store.Close()
	t.Logf("%d messages: %d acknowledged, %d asked for; %d tasks handed over", len(messages), len(c.acked), len(c.asked), len(c.tasks))
	audit := c.audit(ctx)
	t.Logf("chaos: %d kills, %d messages acknowledged, lost %d, duplicated %d, %d tasks handed over, audit verify: %s", kills, len(c.acked), c.lostSends, c.doubleSends, len(c.tasks), audit)
}

// inTime ends the test if the time was over while it waited for the thing that is named.
func (c *chaos) inTime(ctx context.Context, what string) {
	c.t.Helper()
	if ctx.Err() != nil {
		c.t.Fatalf("waited in vain for %s: %s", what, c.log)
	}
}

// everyKill is the number of kills after each of which everything is compared; later,
// it is also that of the kills between two comparisons.
const everyKill = 50

// audit verifies the records of the stopped hub, and returns the result in words.
func (c *chaos) audit(ctx context.Context) string {
	c.t.Helper()
	r, err := server.OpenRecords(c.home, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Verify(ctx)
	if err != nil || !got.Clean() {
		c.t.Errorf("audit verify: %v (%v)", got.Findings, err)
		return fmt.Sprintf("%d findings", len(got.Findings)+got.More)
	}
	return "clean"
}

func fromEnv(t *testing.T, name string, value int) int {
	t.Helper()
	if s := os.Getenv(name); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			t.Fatalf("%s: %q is not a number", name, s)
		}
		value = n
	}
	return value
}

// A chaosHub is the process of a hub.
type chaosHub struct {
	t      *testing.T
	binary string
	home   string
	store  string // address of its database; "" for SQLite

	cmd   *exec.Cmd
	url   string
	log   *tail
	ready chan string   // the hub's address, once
	ended chan struct{} // closed when the process is gone
}

// chaos is a hub, those who use it, and what they were told.
type chaos struct {
	*chaosHub
	keys      map[hub.AgentID]string
	transport *http.Transport
	answer    time.Duration // senders wait no longer for an answer; no limit if zero
	wait      int           // seconds that readers wait for a message

	lostSends, doubleSends int // messages that verify missed or found twice

	mu        sync.Mutex    // guards what follows
	gate      chan struct{} // closed while the load may run
	addresses []string      // of the hubs, for the load
	lastSends bool          // no new messages
	lastReads bool          // readers end at an empty inbox
	count     int           // sends acknowledged
	target    int
	reached   chan struct{}             // closed when count gets to target
	asked     map[string]bool           // markers of every send that was tried
	keyed     map[string]bool           // of those with an idempotency key
	acked     map[string]hub.EnvelopeID // of those acknowledged
	read      map[hub.AgentID]map[hub.EnvelopeID]int
	tasks     map[string]promise // that were handed over, as far as their parties know
}

func newChaos(first *chaosHub) *chaos {
	return &chaos{
		chaosHub: first, keys: map[hub.AgentID]string{}, wait: 1,
		transport: &http.Transport{MaxIdleConnsPerHost: 64},
		gate:      make(chan struct{}),
		asked:     map[string]bool{}, acked: map[string]hub.EnvelopeID{}, keyed: map[string]bool{},
		read: map[hub.AgentID]map[hub.EnvelopeID]int{}, tasks: map[string]promise{},
	}
}

// load starts senders and readers, which end with ctx or when they may, see finish.
func (c *chaos) load(ctx context.Context, seed int) (senders, readers *sync.WaitGroup) {
	senders, readers = new(sync.WaitGroup), new(sync.WaitGroup)
	for i := range chaosSenders {
		rnd := rand.New(rand.NewPCG(uint64(seed), uint64(1+i)))
		senders.Go(func() { c.send(ctx, hub.AgentID(fmt.Sprint("sender", i)), rnd) })
	}
	for i := range chaosPairs {
		rnd := rand.New(rand.NewPCG(uint64(seed), uint64(1000+i)))
		senders.Go(func() { c.hand(ctx, i, rnd) })
	}
	for i := range chaosReaders {
		id := hub.AgentID(fmt.Sprint("reader", i))
		readers.Go(func() { c.fetch(ctx, id) })
		readers.Go(func() { c.await(ctx, id) })
	}
	return senders, readers
}

// TestMain removes what program made, and ends the database server of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "confined" { // a workshop runs a check with this program
		os.Exit(confine.Main(os.Args[2:]))
	}
	if os.Getenv(asKeptAgent) != "" {
		beKeptAgent()
		return
	}
	if os.Getenv(asGoodAgent) != "" {
		beGoodAgent()
		return
	}
	if home, key, ok := strings.Cut(os.Getenv(askWindow), " "); ok {
		beWindow(home, key)
		return
	}
	code := m.Run()
	pgtest.End()
	if built != "" {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// built is the path of the program that all tests kill; "" before program was called.
var built string

// buildOnce builds parley for the first test that needs it. With the flags of make build, whatever the
// environment says, so that nothing is compiled again: the driver of SQLite alone takes minutes.
var buildOnce = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	built = filepath.Join(dir, "parley")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-w", "-o", built, "github.com/parley-agents/parley/cmd/parley")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
})

// program returns the path of parley.
func program(t *testing.T) string {
	t.Helper()
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	return built
}

// spawn starts the hub; it is up when ready has its address.
func (c *chaosHub) spawn(ctx context.Context) {
	c.t.Helper()
	cmd := exec.CommandContext(ctx, c.binary, "serve", "--home", c.home, "--addr", "127.0.0.1:0", "--unsafe-limits", "--store", c.store)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	log, ready, ended := new(tail), make(chan string, 1), make(chan struct{})
	c.cmd, c.log, c.ready, c.ended = cmd, log, ready, ended
	go func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			log.add(s.Text())
			if url, ok := strings.CutPrefix(s.Text(), "listening on "); ok {
				ready <- url
			}
		}
		cmd.Wait() // killed on purpose
		close(ended)
	}()
	c.t.Cleanup(func() {
		cmd.Process.Kill() // gone already in most cases
		<-ended
	})
}

// start starts the hub and waits until it is ready.
func (c *chaosHub) start(ctx context.Context) {
	c.t.Helper()
	c.spawn(ctx)
	select {
	case c.url = <-c.ready:
	case <-c.ended:
		c.t.Fatalf("the hub does not start: %s", c.log)
	case <-ctx.Done():
		c.t.Fatalf("the hub is not ready in time: %s", c.log)
	}
}

// open lets the load run against the hub as it is now.
func (c *chaos) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = []string{c.url}
	close(c.gate)
}

// kill ends the hub without warning.
func (c *chaosHub) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	<-c.ended
}

// kill ends the hub without warning, and holds the load back until the next
// open.
func (c *chaos) kill() {
	c.t.Helper()
	c.chaosHub.kill()
	c.transport.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
		c.gate = make(chan struct{})
	default: // it was not open
	}
}

// stop ends the hub in order.
func (c *chaosHub) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	<-c.ended
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Errorf("the hub ended with %d after SIGTERM: %s", code, c.log)
	}
}

// finish lets senders end when they have an answer for all they asked, and
// readers when there is nothing left.
func (c *chaos) finish(senders, readers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastSends, c.lastReads = senders, readers
}

// after returns a channel that is closed when n more sends were acknowledged.
func (c *chaos) after(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target, c.reached = c.count+n, make(chan struct{})
	return c.reached
}

// client returns a client for an agent.
func (c *chaos) client(url string, id hub.AgentID) *rpc.Client {
	return rpc.NewClient(url, c.keys[id], "", &http.Client{Transport: c.transport})
}

// operator returns a client of the hub that runs now.
func (c *chaos) operator() *rpc.Client {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.home, "operator.key"))
	if err != nil {
		c.t.Fatal(err)
	}
	return rpc.NewOperator("", c.url, strings.TrimSpace(string(raw)), "")
}

// up waits until the load may run and returns a client for a hub there is.
// It returns nil when the test is over.
func (c *chaos) up(ctx context.Context, id hub.AgentID) *rpc.Client {
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client(c.addresses[rand.IntN(len(c.addresses))], id)
}

// enroll adds the agents. Mail may wake those that read.
func (c *chaos) enroll(ctx context.Context) {
	c.t.Helper()
	operator := c.operator()
	for name, n := range map[string]int{"sender": chaosSenders, "reader": chaosReaders, "giver": chaosPairs, "taker": chaosPairs} {
		for i := range n {
			id := hub.AgentID(fmt.Sprint(name, i))
			got, err := rpc.Call(ctx, operator, api.AddAgent, api.AgentParams{ID: id})
			if err != nil {
				c.t.Fatal(err)
			}
			c.keys[id] = got.Key
			if name == "sender" || name == "reader" {
				c.read[id] = map[hub.EnvelopeID]int{}
			}
			if name == "reader" {
				if _, err := rpc.Call(ctx, operator, api.AllowWake, api.WakeAllowParams{Agent: id, Allow: true}); err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
}

// lost reports whether a call got no answer, or one that says "not now". Any
// other failure is one of the test.
func (c *chaos) lost(ctx context.Context, what string, err error) bool {
	if err == nil {
		return false
	}
	late := c.answer > 0 && errors.Is(err, context.DeadlineExceeded)
	if ctx.Err() == nil && !late && !hub.Unavailable(err) {
		c.t.Errorf("%s: %v", what, err)
	}
	return true
}

// send sends one message after the other, every other one with an idempotency
// key. What got no answer is asked for again if it has a key, and left if not.
func (c *chaos) send(ctx context.Context, id hub.AgentID, rnd *rand.Rand) {
	for n := 0; ; n++ {
		marker := fmt.Sprintf("%s-%d", id, n)
		p := api.SendParams{To: api.Recipients{hub.AgentID(fmt.Sprint("reader", rnd.IntN(chaosReaders)))}, Text: marker}
		if n%2 == 0 {
			p.IdempotencyKey = marker
		}
		if rnd.IntN(10) == 0 {
			p.Priority = hub.PriorityHigh
		}
		for first := true; ; first = false {
			client := c.up(ctx, id)
			c.mu.Lock()
			if client == nil || first && c.lastSends {
				c.mu.Unlock()
				return
			}
			c.asked[marker], c.keyed[marker] = true, p.IdempotencyKey != ""
			c.mu.Unlock()
			call, cancel := ctx, func() {}
			if c.answer > 0 {
				call, cancel = context.WithTimeout(ctx, c.answer)
			}
			got, err := rpc.Call(call, client, api.Send, p)
			cancel()
			if !c.lost(ctx, "send", err) {
				if got.Duplicate && first {
					c.t.Errorf("%s was answered as a repetition at the first try", marker)
				}
				c.acknowledged(marker, got.ID)
				break
			}
			if p.IdempotencyKey == "" {
				break
			}
		}
	}
}

func (c *chaos) acknowledged(marker string, id hub.EnvelopeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[marker] = id
	if c.count++; c.count == c.target {
		close(c.reached)
	}
}

// fetch reads an inbox and says afterwards what it has processed. What it was
// told is processed must not come again.
func (c *chaos) fetch(ctx context.Context, id hub.AgentID) {
	var dealt []hub.EnvelopeID
	for {
		client := c.up(ctx, id)
		if client == nil {
			return
		}
		c.mu.Lock()
		last := c.lastReads
		c.mu.Unlock()
		wait := c.wait
		if last {
			wait = 1
		}
		got, err := rpc.Call(ctx, client, api.Inbox, api.InboxParams{Limit: 20, WaitS: wait, Ack: api.AckSet{IDs: dealt}})
		if c.lost(ctx, "inbox", err) {
			continue // the acks may have been taken or not; they are given again
		}
		c.mu.Lock()
		for _, a := range got.Acked {
			if a.First {
				c.read[id][a.ID]++
			} else {
				c.read[id][a.ID] += 0 // by a call whose answer was lost
			}
			if c.read[id][a.ID] > 1 {
				c.t.Errorf("%s was processed for the first time twice", a.ID)
			}
		}
		dealt = dealt[:0]
		for _, e := range got.Messages {
			if _, done := c.read[id][e.ID]; done {
				c.t.Errorf("%s came again after it was processed", e.ID)
			}
			dealt = append(dealt, e.ID)
		}
		c.mu.Unlock()
		if last && len(dealt) == 0 {
			return
		}
	}
}

// await waits for wakes in the session of an agent, and hands each over.
func (c *chaos) await(ctx context.Context, id hub.AgentID) {
	session := wake.Key{CLI: "claude", ID: "s-" + string(id), Process: 42}
	for {
		client := c.up(ctx, id)
		c.mu.Lock()
		last := c.lastReads
		c.mu.Unlock()
		if client == nil || last {
			return
		}
		call, err := rpc.Call(ctx, client, api.WaitWake, api.WakeWaitParams{Key: session, Mechanism: "monitor", Attended: true, Seconds: 2})
		if c.lost(ctx, "wait for a wake", err) || call.Wake == nil {
			continue
		}
		_, err = rpc.Call(ctx, client, api.HandedWake, api.WakeHandedParams{Wake: call.Wake.ID, Outcome: channel.Handed})
		if hub.CodeOf(err) != hub.CodeNotFound { // the mail was read meanwhile
			c.lost(ctx, "hand a wake over", err)
		}
	}
}

// marker returns what tells one message from every other.
func (c *chaos) marker(e hub.Envelope) string {
	var p struct{ Summary string }
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		c.t.Errorf("%s: payload %s: %v", e.ID, e.Payload, err)
	}
	return p.Summary
}

// verify reads everything through the API and compares it with what senders
// and readers were told. It returns every message.
func (c *chaos) verify(ctx context.Context, when string) []hub.Envelope {
	c.t.Helper()
	c.mu.Lock()
	acked, asked, keyed := maps.Clone(c.acked), maps.Clone(c.asked), maps.Clone(c.keyed)
	read := map[hub.AgentID]map[hub.EnvelopeID]int{}
	for id, m := range c.read {
		read[id] = maps.Clone(m)
	}
	finished := c.lastSends
	c.mu.Unlock()

	var all []hub.Envelope
	operator := c.operator()
	for cursor := ""; ; {
		got, err := rpc.Call(ctx, operator, api.Query, api.QueryParams{Limit: 200, Cursor: cursor})
		if err != nil {
			c.t.Fatalf("%s: query: %v", when, err)
		}
		for _, e := range got.Messages {
			if e.Type.Family() != "handoff" && e.From != hub.Self { // see verifyTasks; the hub tells of spent wakes
				all = append(all, e)
			}
		}
		if cursor = got.Next; cursor == "" {
			break
		}
	}
	seen := map[string]hub.EnvelopeID{}
	unread := map[hub.AgentID]map[hub.EnvelopeID]bool{}
	for _, e := range all {
		m := c.marker(e)
		switch other, twice := seen[m]; {
		case twice:
			c.doubleSends++
			c.t.Errorf("%s: %s is there twice: %s and %s", when, m, other, e.ID)
		case !asked[m]:
			c.t.Errorf("%s: %s was never sent: %q", when, e.ID, m)
		case acked[m] != "" && acked[m] != e.ID:
			c.t.Errorf("%s: %s is %s, but was acknowledged as %s", when, m, e.ID, acked[m])
		}
		seen[m] = e.ID
		reader := e.To[0]
		if _, done := read[reader][e.ID]; done && e.Status != hub.StatusRead {
			c.t.Errorf("%s: %s was processed, but is %s", when, e.ID, e.Status)
		}
		if e.Status != hub.StatusRead {
			if unread[reader] == nil {
				unread[reader] = map[hub.EnvelopeID]bool{}
			}
			unread[reader][e.ID] = true
		}
	}
	for m, id := range acked {
		if seen[m] == "" {
			c.lostSends++
			c.t.Errorf("%s: %s was acknowledged as %s, but is gone", when, m, id)
		}
	}
	if finished {
		for m := range asked {
			if keyed[m] && acked[m] == "" {
				c.t.Errorf("%s: %s was asked for until it should have worked", when, m)
			}
		}
	}
	for id := range read {
		c.inbox(ctx, when, id, unread[id])
	}
	c.verifyTasks(ctx, when)
	return all
}

// inbox checks that an inbox holds what the messages say it holds.
func (c *chaos) inbox(ctx context.Context, when string, id hub.AgentID, want map[hub.EnvelopeID]bool) {
	c.t.Helper()
	client := c.client(c.url, id)
	got := map[hub.EnvelopeID]bool{}
	for cursor := ""; ; {
		page, err := rpc.Call(ctx, client, api.Inbox, api.InboxParams{Peek: true, Limit: 200, Cursor: cursor})
		if err != nil {
			c.t.Fatalf("%s: inbox: %v", when, err)
		}
		for _, e := range page.Messages {
			if got[e.ID] {
				c.t.Errorf("%s: %s is twice in the inbox of %s", when, e.ID, id)
			}
			got[e.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !maps.Equal(got, want) {
		c.t.Errorf("%s: the inbox of %s holds %d messages, want %d", when, id, len(got), len(want))
	}
}

// settled checks that every message was processed, once.
func (c *chaos) settled(messages []hub.Envelope) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range messages {
		if e.Status != hub.StatusRead {
			c.t.Errorf("%s is %s at the end, want read", e.ID, e.Status)
		}
		if _, ok := c.read[e.To[0]][e.ID]; !ok {
			c.t.Errorf("%s was never said to be processed", e.ID)
		}
	}
}

// journal reads the database of the stopped hub and checks the chain from its
// first entry to its head, and that every message was sent, delivered and read
// once.
func (c *chaos) journal(ctx context.Context, store hub.Store, messages []hub.Envelope) {
	c.t.Helper()
	type step struct {
		action  actions.Action
		subject string
	}
	steps := map[step]int{}
	var seq int64
	var hash string
	err := store.View(ctx, func(r hub.Reader) error {
		for {
			page, err := r.Journal(hub.JournalQuery{After: seq, Limit: 1000})
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				if e.Seq != seq+1 {
					return fmt.Errorf("entry %d follows %d", e.Seq, seq)
				}
				if want := e.Chain(hash); e.Hash != want {
					return fmt.Errorf("entry %d has hash %s, want %s", e.Seq, e.Hash, want)
				}
				seq, hash = e.Seq, e.Hash
				steps[step{e.Action, e.Subject}]++
			}
		}
		head, err := hub.HeadOf(r)
		if err == nil && (head.Seq != seq || head.Hash != hash) {
			err = fmt.Errorf("the head is %d %s, the last entry %d %s", head.Seq, head.Hash, seq, hash)
		}
		return err
	})
	if err != nil {
		c.t.Errorf("journal: %v", err)
	}
	for _, e := range messages {
		for _, a := range []actions.Action{actions.MessageSent, actions.MessageDelivered, actions.MessageRead} {
			if n := steps[step{a, string(e.ID)}]; n != 1 {
				c.t.Errorf("the journal has %s of %s %d times, want once", a, e.ID, n)
			}
		}
		delete(steps, step{actions.MessageSent, string(e.ID)})
	}
	for s := range steps {
		if s.action == actions.MessageSent && !c.aboutTask(ctx, store, s.subject) {
			c.t.Errorf("the journal says that %s was sent, but it is gone", s.subject)
		}
	}
}

// aboutTask reports whether a message is one that a handoff made.
func (c *chaos) aboutTask(ctx context.Context, store hub.Store, id string) (yes bool) {
	c.t.Helper()
	err := store.View(ctx, func(r hub.Reader) error {
		m, err := r.Message(hub.EnvelopeID(id))
		yes = m.Type.Family() == "handoff"
		return err
	})
	return err == nil && yes
}

// A tail keeps the last lines that a process wrote.
type tail struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *tail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.lines = slices.Delete(l.lines, 0, max(0, len(l.lines)-20))
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
