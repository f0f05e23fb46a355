package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/testing/acptest"
	"github.com/parley-agents/parley/protocol/acp"
	"github.com/parley-agents/parley/protocol/acp/acpv2"
)

const (
	streamText  = "The quick brown fox jumps over the lazy dog, "
	updateFrame = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + streamText + `"}}}}` + "\n"
)

func init() {
	agents["bare"] = func() { bareAgent(os.Stdin, os.Stdout, func() {}) }
	agents["streams"] = func() {
		acp.Serve(context.Background(), &acp.Agent{Prompt: func(ctx context.Context, t *acp.AgentTurn) (acp.StopReason, error) {
			n, err := strconv.Atoi(t.Text())
			for range n {
				if err == nil {
					err = t.Say(ctx, streamText)
				}
			}
			return acpv2.StopReasonEndTurn, err
		}}, os.Stdin, os.Stdout)
	}
}

// A bench is a client and a bare agent at the ends of two pipes.
type bench struct {
	session *acp.Session
	updates atomic.Int64 // how many the agent sends in the next turn
}

func newBench(b *testing.B) *bench {
	fromClient, toAgent := pipe(b)
	fromAgent, toClient := pipe(b)
	x := &bench{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer toClient.Close()
		bareAgent(fromClient, toClient, func() { flood(toClient, int(x.updates.Load())) })
	}()
	c, err := acp.Connect(context.Background(), fromAgent, toAgent, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Close()
		<-done
		fromClient.Close()
	})
	if x.session, err = c.NewSession(context.Background(), b.TempDir(), nil); err != nil {
		b.Fatal(err)
	}
	return x
}

// bareAgent is an agent without this package. It calls work for each prompt.
func bareAgent(r io.Reader, w io.Writer, work func()) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params plainPrompt
		}
		if json.Unmarshal(line, &m) != nil {
			return
		}
		var result any
		switch m.Method {
		case "initialize":
			result = map[string]int{"protocolVersion": 1}
		case "session/new":
			result = map[string]string{"sessionId": "s1"}
		default:
			work()
			result = plainResult{"end_turn"}
		}
		raw, _ := json.Marshal(result) // cannot fail
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, raw)
	}
}

// A plainPrompt and a plainResult are messages as a program without this package
// would have them.
type plainPrompt struct {
	SessionID string       `json:"sessionId"`
	Prompt    []plainBlock `json:"prompt"`
}

type plainBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type plainResult struct {
	StopReason string `json:"stopReason"`
}

// turn has the agent send n updates, and takes them.
func (x *bench) turn(b *testing.B, n int) {
	x.updates.Store(int64(n))
	turn, err := x.session.Prompt(context.Background(), acp.Text("Please rename the function and run the tests."))
	if err != nil {
		b.Fatal(err)
	}
	got := 0
	for u := range turn.Updates() {
		if u.Text() != "" {
			got++
		}
	}
	if r, err := turn.Wait(); err != nil || !r.StopReason.Success() || got != n {
		b.Fatalf("got %d updates, %v, %v; want %d", got, r.StopReason, err, n)
	}
}

func pipe(b *testing.B) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return r, w
}

var manyUpdates = []byte(strings.Repeat(updateFrame, 64))

// flood writes n updates, several at once.
func flood(w io.Writer, n int) {
	for n > 0 {
		at := min(n, 64)
		w.Write(manyUpdates[:at*len(updateFrame)])
		n -= at
	}
}

// A plainUpdate is an update as a program without this package would decode it.
type plainUpdate struct {
	Method string
	Params struct {
		SessionID string
		Update    struct {
			SessionUpdate string
			Content       struct{ Type, Text string }
		}
	}
}

func bareUpdates(b *testing.B, n int) {
	r, w := pipe(b)
	defer r.Close()
	go func() {
		defer w.Close()
		flood(w, n)
	}()
	lines := bufio.NewReaderSize(r, 32<<10)
	got := 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			break
		}
		var m plainUpdate
		if err := json.Unmarshal(line, &m); err != nil || m.Params.Update.Content.Text == "" {
			b.Fatal(err)
		}
		got++
	}
	if got != n {
		b.Fatalf("got %d updates, want %d", got, n)
	}
}

// compare runs both in turns, so that what else the machine does hits both, and
// reports the median of the ratios.
func compare(b *testing.B, metric string, base, ours func(n int)) {
	const rounds = 9
	n := max(1, b.N/rounds)
	base(n)
	ours(n)
	var ratios [rounds]float64
	var took time.Duration
	for i := range ratios {
		start := time.Now()
		base(n)
		middle := time.Now()
		ours(n)
		end := time.Now()
		took += end.Sub(middle)
		ratios[i] = float64(middle.Sub(start)) / float64(end.Sub(middle))
	}
	slices.Sort(ratios[:])
	b.ReportMetric(float64(took)/float64(rounds*n), "ns/op")
	b.ReportMetric(ratios[rounds/2], metric)
}

// BenchmarkUpdates takes a stream of updates from a pipe, with a bare loop over
// lines and with a Client. The metric "of-bare" is the speed of the Client as a
// part of that of the loop.
func BenchmarkUpdates(b *testing.B) {
	x := newBench(b)
	compare(b, "of-bare", func(n int) { bareUpdates(b, n) }, func(n int) { x.turn(b, n) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x.turn(b, 10_000)
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/10_000, "allocs/update")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/10_000, "B/update")
}

// BenchmarkPrompts makes one turn without updates after the other, with a bare loop
// and with a Client. The agent is a bare loop in both: a process of its own, as
// agents are, and a goroutine, where the bare client and the agent can take turns
// on one thread and a Client, which has a goroutine that reads, cannot.
func BenchmarkPrompts(b *testing.B) {
	b.Run("process", func(b *testing.B) {
		r, w := bareProcess(b)
		c, err := acp.Connect(context.Background(), r, w, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		session, err := c.NewSession(context.Background(), b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		comparePrompts(b, &bench{session: session}, func() (r, w *os.File) { return bareProcess(b) })
	})
	b.Run("goroutine", func(b *testing.B) {
		comparePrompts(b, newBench(b), func() (r, w *os.File) {
			fromClient, toAgent := pipe(b)
			fromAgent, toClient := pipe(b)
			go bareAgent(fromClient, toClient, func() {})
			b.Cleanup(func() {
				for _, f := range []*os.File{toAgent, fromClient, fromAgent, toClient} {
					f.Close()
				}
			})
			return fromAgent, toAgent
		})
	})
}

func comparePrompts(b *testing.B, x *bench, bare func() (r, w *os.File)) {
	r, w := bare()
	lines := bufio.NewReader(r)
	compare(b, "of-bare", func(n int) { barePrompts(b, lines, w, n) }, func(n int) {
		for range n {
			x.turn(b, 0)
		}
	})
}

// bareProcess starts a bare agent and returns what it writes and what it reads.
func bareProcess(b *testing.B) (r, w *os.File) {
	in, w := pipe(b)
	r, out := pipe(b)
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), agentMode+"=bare")
	cmd.Stdin, cmd.Stdout = in, out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	in.Close()
	out.Close()
	b.Cleanup(func() {
		w.Close() // it ends with its input
		cmd.Wait()
		r.Close()
	})
	return r, w
}

func barePrompts(b *testing.B, lines *bufio.Reader, toAgent io.Writer, n int) {
	for i := range n {
		params, _ := json.Marshal(plainPrompt{"s1", []plainBlock{{"text", "Please rename the function and run the tests."}}})
		fmt.Fprintf(toAgent, `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":%s}`+"\n", i, params)
		line, err := lines.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		var m struct {
			ID     int
			Result plainResult
		}
		if err := json.Unmarshal(line, &m); err != nil || m.ID != i || m.Result.StopReason != "end_turn" {
			b.Fatal(err)
		}
	}
}

// BenchmarkAgainstTypeScript has an agent stream updates to a client, each a
// process of its own, with the TypeScript SDK on both ends and with this package on
// both. The metric "of-typescript" is how many times as fast this package is.
func BenchmarkAgainstTypeScript(b *testing.B) {
	acptest.TypeScript.Command(b)
	sdk := filepath.Join(acptest.Dir(b), "node_modules", "@agentclientprotocol", "sdk")
	node := exec.CommandContext(within(b), "node", "testdata/stream-client.mjs", sdk, "testdata/stream-agent.mjs")
	node.Stderr = os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := node.Start(); err != nil {
		b.Fatal(err)
	}
	defer node.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	theirs := func(n int) float64 {
		fmt.Fprintln(in, n)
		if !lines.Scan() {
			b.Fatal("the client on the TypeScript SDK has ended")
		}
		ms, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			b.Fatal(err)
		}
		return ms
	}

	c, err := acp.Start(within(b), self(b, "streams"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	s := open(b, c)
	ours := func(n int) float64 {
		start := time.Now()
		turn := prompt(b, s, strconv.Itoa(n))
		got := 0
		for u := range turn.Updates() {
			if u.Text() != "" {
				got++
			}
		}
		if _, err := turn.Wait(); err != nil || got != n {
			b.Fatalf("got %d updates, %v; want %d", got, err, n)
		}
		return time.Since(start).Seconds() * 1000
	}

	const n, rounds = 5_000, 9
	theirs(n)
	ours(n)
	for b.Loop() {
		var ratios, mine [rounds]float64
		for i := range ratios {
			t := theirs(n)
			mine[i] = ours(n)
			ratios[i] = t / mine[i]
		}
		slices.Sort(ratios[:])
		slices.Sort(mine[:])
		b.ReportMetric(ratios[rounds/2], "of-typescript")
		b.ReportMetric(ratios[0], "worst-of-typescript")
		b.ReportMetric(n/mine[rounds/2]*1000, "updates/s")
	}
}
