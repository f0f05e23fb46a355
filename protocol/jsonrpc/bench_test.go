package jsonrpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// An update is what an agent streams most.
type update struct {
	SessionID string `json:"sessionId"`
	Update    struct {
		Kind    string `json:"sessionUpdate"`
		Content struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"update"`
}

type prompt struct {
	SessionID string `json:"sessionId"`
	Prompt    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"prompt"`
}

type promptResult struct {
	StopReason string `json:"stopReason"`
}

const (
	updateParams = `{"sessionId":"sess_abc123def456","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"The quick brown fox jumps over the lazy dog, "}}}`
	promptParams = `{"sessionId":"sess_abc123def456","prompt":[{"type":"text","text":"Please rename the function and run the tests."}]}`
	updateFrame  = `{"jsonrpc":"2.0","method":"session/update","params":` + updateParams + "}\n"
)

// BenchmarkUpdates reads a stream of updates from a pipe, decodes each and
// counts it, first with a bare loop over lines, then with a Conn. The metric
// "of-bare" is the speed of the Conn as a part of that of the loop.
func BenchmarkUpdates(b *testing.B) {
	for _, text := range []int{1, 20, 200} {
		frame := strings.Replace(updateFrame, "The quick", strings.Repeat("The quick ", text), 1)
		b.Run(fmt.Sprintf("%d bytes", len(frame)), func(b *testing.B) {
			compare(b, func(n int) { bareUpdates(b, frame, n) }, func(n int) { connUpdates(b, frame, n) })
		})
	}
}

// BenchmarkPrompts makes one call after the other over two pipes, with a bare
// loop on both sides and with a Conn on both.
func BenchmarkPrompts(b *testing.B) {
	compare(b, func(n int) { barePrompts(b, n) }, func(n int) { connPrompts(b, n) })
}

// compare runs both in turns, so that what else the machine does hits both, and
// reports the median of the ratios.
func compare(b *testing.B, bare, conn func(n int)) {
	const rounds = 9
	n := max(1, b.N/rounds)
	bare(n)
	conn(n)
	var ratios [rounds]float64
	var bareTime, connTime time.Duration
	b.ResetTimer()
	for i := range ratios {
		start := time.Now()
		bare(n)
		middle := time.Now()
		conn(n)
		end := time.Now()
		bareTime += middle.Sub(start)
		connTime += end.Sub(middle)
		ratios[i] = float64(middle.Sub(start)) / float64(end.Sub(middle))
	}
	slices.Sort(ratios[:])
	total := float64(rounds * n)
	b.ReportMetric(float64(bareTime)/total, "bare-ns/op")
	b.ReportMetric(float64(connTime)/total, "ns/op")
	b.ReportMetric(ratios[rounds/2], "of-bare")
}

// pipe returns a pipe of the operating system.
func pipe(tb testing.TB) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	return r, w
}

// flood writes a frame n times, several at once.
func flood(w io.WriteCloser, frame string, n int) {
	const at = 64
	many := strings.Repeat(frame, at)
	for ; n >= at; n -= at {
		io.WriteString(w, many)
	}
	io.WriteString(w, many[:n*len(frame)])
	w.Close()
}

func bareUpdates(b *testing.B, frame string, n int) {
	r, w := pipe(b)
	defer r.Close()
	go flood(w, frame, n)
	lines := bufio.NewReaderSize(r, 32<<10)
	got := 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			break
		}
		var m struct {
			Method string
			Params update
		}
		if err := json.Unmarshal(line, &m); err != nil || m.Params.Update.Kind == "" {
			b.Fatal(err)
		}
		got++
	}
	if got != n {
		b.Fatalf("got %d updates, want %d", got, n)
	}
}

func connUpdates(b *testing.B, frame string, n int) {
	r, w := pipe(b)
	go flood(w, frame, n)
	got := 0
	c := jsonrpc.Open(r, io.Discard, &jsonrpc.Options{
		Notification: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
			var u update
			if err := json.Unmarshal(r.Params, &u); err != nil || u.Update.Kind == "" {
				b.Error(err)
			}
			got++
		},
	})
	<-c.Done()
	c.Close()
	if got != n {
		b.Fatalf("got %d updates, want %d", got, n)
	}
}

func barePrompts(b *testing.B, n int) {
	ar, aw := pipe(b)
	br, bw := pipe(b)
	done := make(chan struct{})
	go func() { // the agent
		defer close(done)
		defer bw.Close()
		lines := bufio.NewReader(ar)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			var m struct {
				ID     json.RawMessage
				Method string
				Params prompt
			}
			if err := json.Unmarshal(line, &m); err != nil {
				b.Error(err)
			}
			result, _ := json.Marshal(promptResult{"end_turn"})
			bw.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result))
		}
	}()
	var p prompt
	if err := json.Unmarshal([]byte(promptParams), &p); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(br)
	for i := range n {
		params, _ := json.Marshal(p)
		aw.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":%s}`+"\n", i, params))
		line, err := lines.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		var m struct {
			ID     int
			Result promptResult
		}
		if err := json.Unmarshal(line, &m); err != nil || m.ID != i || m.Result.StopReason != "end_turn" {
			b.Fatal(err)
		}
	}
	aw.Close()
	<-done
	ar.Close()
	br.Close()
}

func connPrompts(b *testing.B, n int) {
	ar, aw := pipe(b)
	br, bw := pipe(b)
	agent := jsonrpc.Open(ar, bw, &jsonrpc.Options{
		Request: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			var p prompt
			if err := json.Unmarshal(r.Params, &p); err != nil {
				return nil, err
			}
			return promptResult{"end_turn"}, nil
		},
	})
	client := jsonrpc.Open(br, aw, nil)
	var p prompt
	if err := json.Unmarshal([]byte(promptParams), &p); err != nil {
		b.Fatal(err)
	}
	for range n {
		raw, err := client.Call(b.Context(), "session/prompt", p)
		if err != nil {
			b.Fatal(err)
		}
		var res promptResult
		if err := json.Unmarshal(raw, &res); err != nil || res.StopReason != "end_turn" {
			b.Fatal(err)
		}
	}
	client.Close()
	agent.Close()
}
