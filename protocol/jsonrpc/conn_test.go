package jsonrpc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A peer is the other side of a Conn, played by a test: it writes and reads
// lines.
type peer struct {
	t     testing.TB
	lines *bufio.Reader
	r     *io.PipeReader
	w     *io.PipeWriter
}

// open returns a Conn and its peer. Inside a bubble, the bubble checks that no
// goroutine is left after Close.
func open(t testing.TB, opts *jsonrpc.Options) (*jsonrpc.Conn, *peer) {
	ar, aw := io.Pipe()
	br, bw := io.Pipe()
	return jsonrpc.Open(ar, bw, opts), &peer{t: t, lines: bufio.NewReader(br), r: br, w: aw}
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.w, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Error(err)
	}
}

func (p *peer) receive() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Errorf("reading an answer: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) expect(want string) {
	p.t.Helper()
	if got := p.receive(); got != want {
		p.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func (p *peer) close() {
	p.w.Close()
	p.r.Close()
}

// An outcome is what a call returned.
type outcome struct {
	result json.RawMessage
	err    error
}

// call makes a call on a goroutine of its own.
func call(ctx context.Context, c *jsonrpc.Conn, method string) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		result, err := c.Call(ctx, method, nil)
		ch <- outcome{result, err}
	}()
	return ch
}

// bubble runs a test with a fake clock. It fails if a goroutine is left.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestCall(t *testing.T) {
	bubble(t, "requests and answers as they look on the wire", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		for i, v := range []struct {
			params any
			want   string
		}{
			{nil, ``},
			{json.RawMessage(nil), ``},
			{struct {
				A string `json:"a"`
			}{"<&>"}, `,"params":{"a":"<&>"}`},
			{json.RawMessage(`{"a": 1.00}`), `,"params":{"a": 1.00}`},
			{json.RawMessage("{\n\"a\":1}"), `,"params":{"a":1}`},
			{[]int{1}, `,"params":[1]`},
		} {
			done := make(chan outcome, 1)
			go func() {
				r, err := c.Call(t.Context(), "m", v.params)
				done <- outcome{r, err}
			}()
			p.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m"%s}`, i+1, v.want))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n": 1.00}}`, i+1))
			if got := <-done; got.err != nil || string(got.result) != `{"n": 1.00}` {
				t.Errorf("got %s, %v, want the result as it came", got.result, got.err)
			}
		}
	})

	bubble(t, "quotes and braces in strings do not confuse", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		for i, want := range []string{`"\\"`, `"\""`, `"\\\"},{["`, `{"\"":"}","a\\":["]"]}`, `[[],{},"",-1.5e+3,true,null]`} {
			a := call(t.Context(), c, "m")
			p.receive()
			p.send(fmt.Sprintf(`{"result": %s , "\u0069d" : %d,"x\"":"","jsonrpc":"2.0"}`, want, i+1))
			if got := <-a; string(got.result) != want {
				t.Errorf("got %s, %v, want %s", got.result, got.err, want)
			}
		}
	})

	bubble(t, "params that cannot be sent are refused", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		for _, params := range []any{7, "x", true, func() {}, json.RawMessage(`{`), json.RawMessage(``)} {
			if _, err := c.Call(t.Context(), "m", params); err == nil {
				t.Errorf("a call with %v was made", params)
			}
			if err := c.Notify(t.Context(), "m", params); err == nil {
				t.Errorf("a notification with %v was sent", params)
			}
		}
	})

	bubble(t, "answers come in any order", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		a := call(t.Context(), c, "a")
		p.receive()
		b := call(t.Context(), c, "b")
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":2,"result":"b"}`)
		if got := <-b; string(got.result) != `"b"` {
			t.Errorf("got %s, %v", got.result, got.err)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":{"a": 1.0}}}`)
		var e *jsonrpc.Error
		if got := <-a; !errors.As(got.err, &e) || e.Code != -32002 || e.Message != "gone" || string(e.Data) != `{"a": 1.0}` {
			t.Errorf("got %v, want the error as it came", got.err)
		}
	})

	bubble(t, "both sides ask at the same time with the same ids", func(t *testing.T) {
		echo := &jsonrpc.Options{Request: func(ctx context.Context, c *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			var depth []int
			if err := json.Unmarshal(r.Params, &depth); err != nil || depth[0] == 0 {
				return depth, err
			}
			return c.Call(ctx, "down", []int{depth[0] - 1}) // and so on, back and forth
		}}
		ar, aw := io.Pipe()
		br, bw := io.Pipe()
		a, b := jsonrpc.Open(ar, bw, echo), jsonrpc.Open(br, aw, echo)
		var wg sync.WaitGroup
		for _, c := range []*jsonrpc.Conn{a, b} {
			for i := range 20 {
				wg.Go(func() {
					if got, err := c.Call(t.Context(), "down", []int{i}); err != nil || string(got) != "[0]" {
						t.Errorf("got %s, %v, want [0]", got, err)
					}
				})
			}
		}
		wg.Wait()
		a.Close()
		b.Close()
	})

	bubble(t, "a call that is given up is cancelled, and its answer dropped", func(t *testing.T) {
		var problems problems
		c, p := open(t, &jsonrpc.Options{Problem: problems.add})
		defer p.close()
		defer c.Close()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := call(ctx, c, "slow")
		p.receive()
		cancel(why)
		if got := <-a; !errors.Is(got.err, why) {
			t.Errorf("got %v, want %v", got.err, why)
		}
		p.expect(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"cancelled"}}`)
		b := call(t.Context(), c, "next")
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":2,"result":1}`)
		if got := <-b; got.err != nil {
			t.Error(got.err)
		}
		if got := problems.codes(); len(got) != 0 {
			t.Errorf("got the problems %v, want none", got)
		}
		if _, err := c.Call(ctx, "m", nil); !errors.Is(err, why) {
			t.Errorf("got %v, want a call that is not made", err)
		}
	})

	bubble(t, "a call does not outlast its context when nobody reads", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		big := json.RawMessage(`["` + strings.Repeat("x", 1<<20) + `"]`)
		c.Notify(t.Context(), "m", big) // is being written
		synctest.Wait()
		c.Notify(t.Context(), "m", big) // waits to be written
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "m", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if err := c.Notify(ctx, "m", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		c.Close()
	})
}

// A lateContext ends when the caller looks at its end for the first time. Before that
// the call is answered.
type lateContext struct {
	context.Context
	answer func()
	once   sync.Once
	ended  chan struct{}
}

func (c *lateContext) Done() <-chan struct{} {
	c.once.Do(func() {
		c.answer()
		close(c.ended)
	})
	return c.ended
}

func (c *lateContext) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

func TestAnswerThatCameMeanwhile(t *testing.T) {
	seen := make(chan struct{})
	c, p := open(t, &jsonrpc.Options{Notification: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) { seen <- struct{}{} }})
	defer p.close()
	defer c.Close()
	for i := range 40 { // which of the two a caller sees first is left to chance
		ctx := &lateContext{Context: t.Context(), ended: make(chan struct{}), answer: func() {
			p.receive()
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":1}`, i+1), `{"jsonrpc":"2.0","method":"after"}`)
			<-seen
		}}
		if got, err := c.Call(ctx, "m", nil); err != nil || string(got) != "1" {
			t.Fatalf("call %d: got %s, %v", i, got, err)
		}
	}
}

func TestBegin(t *testing.T) {
	// begin makes a request whose outcome comes out of the channel.
	begin := func(t *testing.T, c *jsonrpc.Conn) (got chan outcome, abandon func()) {
		got = make(chan outcome, 2)
		abandon, err := c.Begin("m", nil, func(result json.RawMessage, err error) { got <- outcome{result, err} })
		if err != nil {
			t.Fatal(err)
		}
		return got, abandon
	}
	bubble(t, "the answer is handed over once, after the notifications before it", func(t *testing.T) {
		var handled atomic.Int32
		c, p := open(t, &jsonrpc.Options{Notification: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) { handled.Add(1) }})
		defer p.close()
		defer c.Close()
		var before int32
		got := make(chan outcome, 2)
		abandon, err := c.Begin("m", []int{1}, func(result json.RawMessage, err error) {
			before = handled.Load()
			got <- outcome{result, err}
		})
		if err != nil {
			t.Fatal(err)
		}
		p.expect(`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`)
		p.send(`{"jsonrpc":"2.0","method":"u"}`, `{"jsonrpc":"2.0","id":1,"result":7}`)
		if o := <-got; string(o.result) != "7" || o.err != nil || before != 1 {
			t.Errorf("got %s, %v after %d notifications; want 7 after 1", o.result, o.err, before)
		}
		abandon() // too late
		c.Notify(t.Context(), "n", nil)
		p.expect(`{"jsonrpc":"2.0","method":"n"}`)
	})
	bubble(t, "a request that is abandoned is cancelled and never answered", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		got, abandon := begin(t, c)
		p.receive()
		abandon()
		p.expect(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":7}`)
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("got %v, want nothing", <-got)
		}
	})
	bubble(t, "the end of the connection is an answer", func(t *testing.T) {
		c, p := open(t, nil)
		defer c.Close()
		got, _ := begin(t, c)
		p.receive()
		p.close()
		if o := <-got; !errors.Is(o.err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", o.err, jsonrpc.ErrClosed)
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("got a second answer, %v", <-got)
		}
		if _, err := c.Begin("m", nil, func(json.RawMessage, error) { t.Error("done was called") }); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
	})
	bubble(t, "it waits for no room", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		big := []string{strings.Repeat("x", 2<<20)}
		c.Notify(t.Context(), "m", big) // is being written
		synctest.Wait()
		c.Notify(t.Context(), "m", big) // fills the queue
		begin(t, c)
	})
	bubble(t, "params that are none are refused", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		if _, err := c.Begin("m", 7, func(json.RawMessage, error) {}); err == nil {
			t.Error("got no error")
		}
	})
}

// problems gathers what a Conn reports.
type problems struct {
	mu   sync.Mutex
	list []*jsonrpc.Problem
}

func (p *problems) add(problem *jsonrpc.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, problem)
}

func (p *problems) codes() (codes []jsonrpc.ProblemCode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.list {
		codes = append(codes, problem.Code)
	}
	return codes
}

func TestNotifications(t *testing.T) {
	bubble(t, "an answer is handed over after the notifications before it", func(t *testing.T) {
		var handled atomic.Int32
		gate := make(chan struct{})
		c, p := open(t, &jsonrpc.Options{Notification: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) {
			<-gate
			handled.Add(1)
		}})
		defer p.close()
		defer c.Close()
		a := call(t.Context(), c, "prompt")
		p.receive()
		go p.send(`{"jsonrpc":"2.0","method":"u"}`, `{"jsonrpc":"2.0","method":"u"}`, `{"jsonrpc":"2.0","id":1,"result":1}`)
		synctest.Wait()
		select {
		case <-a:
			t.Error("the call returned before the updates were handled")
		default:
		}
		close(gate)
		if <-a; handled.Load() != 2 {
			t.Errorf("got %d updates before the answer, want 2", handled.Load())
		}
	})

	bubble(t, "a request is handled after the notifications before it", func(t *testing.T) {
		var order []string
		c, p := open(t, &jsonrpc.Options{
			Notification: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
				<-time.After(time.Second) // of the fake clock
				order = append(order, r.Method)
			},
			Request: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
				order = append(order, r.Method)
				return nil, nil
			},
		})
		defer p.close()
		defer c.Close()
		go p.send(`{"jsonrpc":"2.0","method":"tool_call"}`, `{"jsonrpc":"2.0","id":"p","method":"permission"}`)
		p.expect(`{"jsonrpc":"2.0","id":"p","result":null}`)
		if want := []string{"tool_call", "permission"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})

	bubble(t, "a flood waits for its handler and nothing is lost", func(t *testing.T) {
		const updates = 50_000
		frame := `{"jsonrpc":"2.0","method":"u","params":{"text":"0123456789"}}` + "\n"
		src := &countingReader{r: io.MultiReader(repeat(frame, updates), strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":"end"}`+"\n"))}
		start := make(chan struct{})
		n, ahead := 0, 0
		pr, pw := io.Pipe()
		c := jsonrpc.Open(src, pw, &jsonrpc.Options{Notification: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) {
			<-start
			n++
			ahead = max(ahead, src.n-n*len(frame))
			if n%1000 == 0 {
				<-time.After(time.Second) // of the fake clock
			}
		}})
		a := call(t.Context(), c, "prompt")
		bufio.NewReader(pr).ReadString('\n')
		close(start)
		if got := <-a; string(got.result) != `"end"` || n != updates {
			t.Errorf("got %s, %v after %d updates, want the answer after %d", got.result, got.err, n, updates)
		}
		if limit := 64 << 10; ahead > limit {
			t.Errorf("%d bytes were read before they could be handled, want at most %d", ahead, limit)
		}
		pr.Close()
		c.Close()
	})

	wait := func(name string, handler func(ctx context.Context, c *jsonrpc.Conn) error) {
		bubble(t, name, func(t *testing.T) {
			got := make(chan error, 1)
			c, p := open(t, &jsonrpc.Options{Notification: func(ctx context.Context, c *jsonrpc.Conn, _ jsonrpc.Request) {
				got <- handler(ctx, c)
			}})
			defer p.close()
			defer c.Close()
			p.send(`{"jsonrpc":"2.0","method":"u"}`)
			if err := <-got; !errors.Is(err, jsonrpc.ErrHandlerWait) {
				t.Errorf("got %v, want %v", err, jsonrpc.ErrHandlerWait)
			}
		})
	}
	wait("a handler that waits for a call is told", func(ctx context.Context, c *jsonrpc.Conn) error {
		_, err := c.Call(ctx, "m", nil)
		return err
	})
	wait("a handler that waits for another goroutine's call is told", func(ctx context.Context, c *jsonrpc.Conn) error {
		return (<-call(ctx, c, "m")).err
	})

	bubble(t, "a handler may start a goroutine that calls, and may notify", func(t *testing.T) {
		got := make(chan outcome, 1)
		c, p := open(t, &jsonrpc.Options{Notification: func(ctx context.Context, c *jsonrpc.Conn, _ jsonrpc.Request) {
			if err := c.Notify(ctx, "n", nil); err != nil {
				t.Error(err)
			}
			go func() { got <- <-call(jsonrpc.Detach(ctx), c, "m") }()
		}})
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"2.0","method":"u"}`)
		p.expect(`{"jsonrpc":"2.0","method":"n"}`)
		p.expect(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
		if o := <-got; o.err != nil {
			t.Error(o.err)
		}
	})
}

func TestOrder(t *testing.T) {
	bubble(t, "an ordered request is entered before the next frame is dispatched", func(t *testing.T) {
		var order []string // written by the goroutine that reads
		resume := make(chan struct{})
		c, p := open(t, &jsonrpc.Options{
			Ordered: map[string]jsonrpc.OrderedHandler{"prompt": func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) func(context.Context) (any, error) {
				order = append(order, "prompt "+string(r.ID))
				return func(context.Context) (any, error) {
					<-resume
					return "done", nil
				}
			}},
			Notification: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) { order = append(order, r.Method) },
		})
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"prompt"}`, `{"jsonrpc":"2.0","method":"cancel"}`,
			`[{"jsonrpc":"2.0","id":2,"method":"prompt"},{"jsonrpc":"2.0","method":"cancel"}]`)
		synctest.Wait()
		if want := []string{"prompt 1", "cancel", "prompt 2", "cancel"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
		resume <- struct{}{}
		resume <- struct{}{}
		p.receive()
		p.receive()
	})

	bubble(t, "a refused request does not enter its ordered handler", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{Ordered: map[string]jsonrpc.OrderedHandler{"m": func(context.Context, *jsonrpc.Conn, jsonrpc.Request) func(context.Context) (any, error) {
			t.Error("the handler was entered")
			return nil
		}}})
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"1.0","id":1,"method":"m"}`)
		if got := p.receive(); !strings.Contains(got, "-32600") {
			t.Errorf("got %s, want a refusal", got)
		}
	})

	bubble(t, "an ordered handler cannot wait for a call until it has returned", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{Ordered: map[string]jsonrpc.OrderedHandler{"m": func(ctx context.Context, c *jsonrpc.Conn, _ jsonrpc.Request) func(context.Context) (any, error) {
			if _, err := c.Call(ctx, "n", nil); !errors.Is(err, jsonrpc.ErrHandlerWait) {
				t.Errorf("got %v, want %v", err, jsonrpc.ErrHandlerWait)
			}
			return func(ctx context.Context) (any, error) { return c.Call(ctx, "n", nil) }
		}}})
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"2.0","id":7,"method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":1,"method":"n"}`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":2}`)
		p.expect(`{"jsonrpc":"2.0","id":7,"result":2}`)
	})

	// after answers every request and sends a notification after the response.
	after := func(_ context.Context, c *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
		return jsonrpc.Answer{Result: r.Method, After: func(err error) {
			if err == nil {
				err = c.Notify(context.Background(), "after "+r.Method, nil)
			}
			if err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
				t.Error(err)
			}
		}}, nil
	}
	bubble(t, "a frame sent after a response follows it", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{Request: after})
		defer p.close()
		defer c.Close()
		for range 100 {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
			p.expect(`{"jsonrpc":"2.0","id":1,"result":"m"}`)
			p.expect(`{"jsonrpc":"2.0","method":"after m"}`)
		}
	})

	bubble(t, "a frame sent after a response of a batch follows the whole batch", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{Request: after})
		defer p.close()
		defer c.Close()
		p.send(`[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m"}]`)
		if got := p.receive(); !strings.HasPrefix(got, "[") {
			t.Errorf("got %s, want the responses of the batch", got)
		}
		p.expect(`{"jsonrpc":"2.0","method":"after m"}`)
		p.expect(`{"jsonrpc":"2.0","method":"after m"}`)
	})

	bubble(t, "After is told that the result was not sent", func(t *testing.T) {
		got := make(chan error, 4)
		c, p := open(t, &jsonrpc.Options{Request: func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			a := jsonrpc.Answer{Result: func() {}, After: func(err error) { got <- err }}
			switch r.Method {
			case "refuse":
				return a, jsonrpc.MethodNotFound("refuse")
			case "closed":
				<-ctx.Done()
				a.Result = 1
			}
			return a, nil
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"encode"}`)
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"refuse"}`)
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":1,"method":"closed"}`)
		synctest.Wait()
		p.r.Close()
		p.send(`{"jsonrpc":"2.0","id":2,"method":"encode"}`) // cannot be answered, which ends the request that waits
		for range 4 {
			if err := <-got; err == nil {
				t.Error("got no error")
			}
		}
		p.close()
		c.Close()
	})
}

// A countingReader counts what was read.
type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// repeat returns a reader of n times s.
func repeat(s string, n int) io.Reader {
	readers := make([]io.Reader, n)
	for i := range readers {
		readers[i] = strings.NewReader(s)
	}
	return io.MultiReader(readers...)
}

func TestRequests(t *testing.T) {
	secret := errors.New("the password is 1234")
	handler := func(ctx context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
		switch r.Method {
		case "echo":
			return r.Params, nil
		case "struct":
			return struct {
				A int `json:"a"`
			}{1}, nil
		case "nil":
			return nil, nil
		case "refuse":
			return nil, fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: -32002, Message: "no such thing"})
		case "fail":
			return nil, secret
		case "func":
			return func() {}, nil
		case "wait":
			<-ctx.Done()
			return nil, ctx.Err()
		case "finish":
			<-ctx.Done()
			return "done anyway", nil
		}
		return nil, jsonrpc.MethodNotFound(r.Method)
	}
	for _, c := range []struct{ name, send, want string }{
		{"the result is sent as it is", `{"jsonrpc":"2.0","id":"a","method":"echo","params":{"x": 1.00}}`, `{"jsonrpc":"2.0","id":"a","result":{"x": 1.00}}`},
		{"ids are sent back as they came", `{"jsonrpc":"2.0","id":9007199254740993,"method":"nil"}`, `{"jsonrpc":"2.0","id":9007199254740993,"result":null}`},
		{"null is an id", `{"jsonrpc":"2.0","id":null,"method":"nil"}`, `{"jsonrpc":"2.0","id":null,"result":null}`},
		{"a value is encoded", `{"jsonrpc":"2.0","id":-1,"method":"struct"}`, `{"jsonrpc":"2.0","id":-1,"result":{"a":1}}`},
		{"an error with a code is sent", `{"jsonrpc":"2.0","id":1,"method":"refuse"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"no such thing"}}`},
		{"any other error stays inside", `{"jsonrpc":"2.0","id":1,"method":"fail"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		{"a result that is no JSON", `{"jsonrpc":"2.0","id":1,"method":"func"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		{"no such method", `{"jsonrpc":"2.0","id":1,"method":"x"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown method \"x\""}}`},
		{"a cancelled request", `{"jsonrpc":"2.0","id":"\u0061","method":"wait"}` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}`, `{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32800,"message":"the request was cancelled"}}`},
		{"a cancelled request may have a result", `{"jsonrpc":"2.0","id":1,"method":"finish"}` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":"done anyway"}`},
		{"a cancellation of nothing", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"nil"}`, `{"jsonrpc":"2.0","id":1,"result":null}`},
		{"a batch is answered together", `[{"jsonrpc":"2.0","id":1,"method":"nil"},{"jsonrpc":"2.0","method":"x"}]`, `[{"jsonrpc":"2.0","id":1,"result":null}]`},
		{"a batch over lines", "[\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nil\"}\n]", `[{"jsonrpc":"2.0","id":1,"result":null}]`},
		{"a bad request in a batch", `[{"jsonrpc":"2.0","id":1,"method":7}]`, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the method of a request must be a non-empty string"}}]`},
		{"notifications have no answer", `[{"jsonrpc":"2.0","method":"x"}]` + "\n" + `{"jsonrpc":"2.0","method":7}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"nil"}`, `{"jsonrpc":"2.0","id":1,"result":null}`},
	} {
		bubble(t, c.name, func(t *testing.T) {
			conn, p := open(t, &jsonrpc.Options{Request: handler})
			defer p.close()
			defer conn.Close()
			go p.send(c.send)
			p.expect(c.want)
		})
	}

	bubble(t, "a batch of several waits for all", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{Request: handler})
		defer p.close()
		defer c.Close()
		p.send(`[{"jsonrpc":"2.0","id":1,"method":"wait"},{"jsonrpc":"2.0","id":2,"method":"nil"}]`)
		synctest.Wait()
		p.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
		p.expect(`[{"jsonrpc":"2.0","id":2,"result":null},{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"the request was cancelled"}}]`)
	})

	bubble(t, "more than so many at once are refused, and calls are answered all the same", func(t *testing.T) {
		var problems problems
		c, p := open(t, &jsonrpc.Options{MaxRequests: 2, Problem: problems.add, Request: func(ctx context.Context, c *jsonrpc.Conn, _ jsonrpc.Request) (any, error) {
			return c.Call(ctx, "back", nil)
		}})
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"2.0","id":"a","method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":1,"method":"back"}`)
		p.send(`{"jsonrpc":"2.0","id":"a","method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"a request has the id of an unanswered request"}}`)
		p.send(`{"jsonrpc":"2.0","id":"b","method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":2,"method":"back"}`)
		p.send(`{"jsonrpc":"2.0","id":"c","method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":"c","error":{"code":-32603,"message":"too many unanswered requests (2)"}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
		p.expect(`{"jsonrpc":"2.0","id":"a","result":1}`)
		synctest.Wait()
		p.send(`{"jsonrpc":"2.0","id":"a","method":"m"}`)
		p.expect(`{"jsonrpc":"2.0","id":3,"method":"back"}`)
		if got, want := problems.codes(), []jsonrpc.ProblemCode{jsonrpc.ProblemReusedID, jsonrpc.ProblemBusy}; !slices.Equal(got, want) {
			t.Errorf("got the problems %v, want %v", got, want)
		}
	})

	bubble(t, "more than so many bytes at once are refused", func(t *testing.T) {
		c, p := open(t, &jsonrpc.Options{MaxFrame: 100, Request: handler})
		defer p.close()
		defer c.Close()
		for i := range 3 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait","params":["%s"]}`, i, strings.Repeat("x", 30)))
		}
		p.expect(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many bytes in unanswered requests (168)"}}`)
	})

	bubble(t, "without a handler every request is refused", func(t *testing.T) {
		c, p := open(t, nil)
		defer p.close()
		defer c.Close()
		p.send(`{"jsonrpc":"2.0","method":"x"}`, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
		p.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown method \"x\""}}`)
	})
}

// TestBadInput sends one thing that is wrong while a call with the id 1 waits.
func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       jsonrpc.ProblemCode
		text       string // what the user is told
		fails      bool   // the call fails with it
	}{
		{"prose", `Welcome to agent 1.0!`, jsonrpc.ProblemNotJSON, `logs to standard error: "Welcome to agent 1.0!"`, false},
		{"a truncated frame", `{"jsonrpc":"2.0","id":1,"result":"a`, jsonrpc.ProblemTruncated, "one value on one line", true},
		{"broken JSON after the id", `{"jsonrpc":"2.0","id":1,"result":x}`, jsonrpc.ProblemNotJSON, "not valid JSON at byte 33", true},
		{"broken JSON before the id", `{jsonrpc:"2.0","id":1,"result":1}`, jsonrpc.ProblemNotJSON, "not valid JSON at byte 1", false},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}", jsonrpc.ProblemUTF8, "invalid UTF-8 at byte 34", true},
		{"a lone surrogate", `{"jsonrpc":"2.0","result":"\ud83d","id":1}`, jsonrpc.ProblemSurrogate, "unpaired surrogate", true},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`, jsonrpc.ProblemDuplicate, "two members with the same name", true},
		{"the id twice", `{"jsonrpc":"2.0","id":1,"id":2,"result":1}`, jsonrpc.ProblemDuplicate, "two members with the same name", false},
		{"case twins in a message", `{"jsonrpc":"2.0","id":1,"result":1,"Result":2}`, jsonrpc.ProblemCaseTwin, `"result" and "Result"`, true},
		{"case twins in a result", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"A":2}}`, jsonrpc.ProblemCaseTwin, `result has the members "a" and "A"`, true},
		{"case twins among many", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"k":1,"\u212a":2}}`, jsonrpc.ProblemCaseTwin, "differ only in case", true},
		{"case twins in an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a","Message":"b"}}`, jsonrpc.ProblemCaseTwin, "an error has the members", true},
		{"case twins in params", `{"jsonrpc":"2.0","method":"m","params":{"a":1,"A":2}}`, jsonrpc.ProblemCaseTwin, "params has the members", false},
		{"a member in capitals", `{"jsonrpc":"2.0","ID":1,"result":1}`, jsonrpc.ProblemCaseTwin, `write it as "id"`, false},
		{"a scalar", `42`, jsonrpc.ProblemNotMessage, "a message must be a JSON object", false},
		{"an empty object", `{}`, jsonrpc.ProblemVersion, `"jsonrpc" with the value "2.0"`, false},
		{"neither request nor answer", `{"jsonrpc":"2.0"}`, jsonrpc.ProblemNotMessage, "must have a method, or an id", false},
		{"no version", `{"id":1,"result":1}`, jsonrpc.ProblemVersion, `"jsonrpc" with the value "2.0"`, true},
		{"another version", `{"jsonrpc":2.0,"id":1,"result":1}`, jsonrpc.ProblemVersion, `"jsonrpc" with the value "2.0"`, true},
		{"both result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m"}}`, jsonrpc.ProblemBoth, "not both", true},
		{"neither result nor error", `{"jsonrpc":"2.0","id":1}`, jsonrpc.ProblemNeither, "must have a result or an error", true},
		{"method and result", `{"jsonrpc":"2.0","method":"m","result":1}`, jsonrpc.ProblemNotMessage, "both a method and a result", false},
		{"an error that is a text", `{"jsonrpc":"2.0","id":1,"error":"no"}`, jsonrpc.ProblemError, "the error of a response must be an object", true},
		{"an error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}`, jsonrpc.ProblemError, "an integer code", true},
		{"an error with a code that is a fraction", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"no"}}`, jsonrpc.ProblemError, "an integer code", true},
		{"an error whose message is a number", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":1}}`, jsonrpc.ProblemError, "a string message", true},
		{"an unknown id", `{"jsonrpc":"2.0","id":7,"result":1}`, jsonrpc.ProblemUnknownID, "the id 7, but no call waits for it", false},
		{"an id of another type", `{"jsonrpc":"2.0","id":"1","result":1}`, jsonrpc.ProblemIDChanged, `the id "1", but the call has the id 1`, true},
		{"an id written differently", `{"jsonrpc":"2.0","id":1.0,"result":1}`, jsonrpc.ProblemIDChanged, "the id 1.0, but the call has the id 1", true},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"result":1}`, jsonrpc.ProblemID, "a string, a number or null", false},
		{"a notification answered with null", `{"jsonrpc":"2.0","id":null,"result":1}`, jsonrpc.ProblemNullID, "do not answer notifications", false},
		{"a notification answered without id", `{"jsonrpc":"2.0","result":1}`, jsonrpc.ProblemNullID, "do not answer notifications", false},
		{"an error for nobody", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, jsonrpc.ProblemRefused, "could not read a message: parse error", false},
		{"a method that is a number", `{"jsonrpc":"2.0","method":1}`, jsonrpc.ProblemMethod, "a non-empty string", false},
		{"an empty method", `{"jsonrpc":"2.0","method":""}`, jsonrpc.ProblemMethod, "a non-empty string", false},
		{"params that are a text", `{"jsonrpc":"2.0","method":"m","params":"x"}`, jsonrpc.ProblemParams, "an object or an array", false},
		{"an empty batch", `[]`, jsonrpc.ProblemBatch, "must have 1 to 1000 messages, got 0", false},
		{"a huge batch", `[` + strings.Repeat("1,", jsonrpc.MaxBatch) + `1]`, jsonrpc.ProblemBatch, "1 to 1000 messages, got 1001", false},
		{"a batch of scalars", `[1]`, jsonrpc.ProblemNotMessage, "a message must be a JSON object", false},
		{"a cancellation without id", `{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}`, jsonrpc.ProblemCancel, "in the member requestId", false},
		{"an answer over the limit, id first", `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 5000) + `"}`, jsonrpc.ProblemTooLarge, "larger than the limit of 4096 bytes", true},
		{"an answer over the limit, id last", `{"jsonrpc":"2.0","result":"` + strings.Repeat("x", 200_000) + `","id":1}`, jsonrpc.ProblemTooLarge, "larger than the limit of 4096 bytes", true},
		{"a notification over the limit", `{"jsonrpc":"2.0","method":"u","params":["` + strings.Repeat("x", 5000) + `"]}`, jsonrpc.ProblemTooLarge, "larger than the limit of 4096 bytes", false},
		{"prose over the limit", strings.Repeat("x", 5000), jsonrpc.ProblemTooLarge, "larger than the limit of 4096 bytes", false},
	} {
		bubble(t, c.name, func(t *testing.T) {
			reported := make(chan *jsonrpc.Problem, 10)
			conn, p := open(t, &jsonrpc.Options{MaxFrame: 4096, Problem: func(p *jsonrpc.Problem) { reported <- p }})
			defer p.close()
			defer conn.Close()
			a := call(t.Context(), conn, "m")
			p.receive()
			p.send(c.line)
			got := <-reported
			if got.Code != c.code || !strings.Contains(got.Error(), c.text) {
				t.Errorf("got %s: %v\nwant %s: ... %s", got.Code, got, c.code, c.text)
			}
			synctest.Wait()
			if len(reported) > 0 {
				t.Errorf("got one more problem: %v", <-reported)
			}
			if !c.fails {
				p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
			}
			var problem *jsonrpc.Problem
			if o := <-a; c.fails != (errors.As(o.err, &problem) && problem.Code == c.code) || !c.fails && o.err != nil {
				t.Errorf("the call returned %s, %v", o.result, o.err)
			}
			b := call(t.Context(), conn, "next")
			p.expect(`{"jsonrpc":"2.0","id":2,"method":"next"}`)
			p.send(`{"jsonrpc":"2.0","id":2,"result":2}`)
			if o := <-b; string(o.result) != "2" {
				t.Errorf("the next call returned %s, %v", o.result, o.err)
			}
		})
	}
}

func TestBadRequestsAreAnswered(t *testing.T) {
	for _, c := range []struct{ name, send, want string }{
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"invalid UTF-8 at byte 36"}}`},
		{"params that are a text", `{"jsonrpc":"2.0","id":"a","method":"m","params":"x"}`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"the params of a request must be an object or an array"}}`},
		{"over the limit", `{"jsonrpc":"2.0","id":"a","method":"m","params":["` + strings.Repeat("x", 5000) + `"]}`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"the message is larger than the limit of 4096 bytes"}}`},
		{"prose", "hello", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON: write only messages here, and logs to standard error"}}`},
		{"no message", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message must have a method, or an id with a result or an error"}}`},
		{"an empty batch", `[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch must have 1 to 1000 messages, got 0"}}`},
	} {
		bubble(t, c.name, func(t *testing.T) {
			conn, p := open(t, &jsonrpc.Options{MaxFrame: 4096, AnswerUnreadable: true})
			defer p.close()
			defer conn.Close()
			go p.send(c.send)
			p.expect(c.want)
		})
	}
}

func TestEnd(t *testing.T) {
	bubble(t, "an answer just before the end is delivered", func(t *testing.T) {
		c, p := open(t, nil)
		a, b := call(t.Context(), c, "m"), call(t.Context(), c, "m")
		p.receive()
		p.receive()
		io.WriteString(p.w, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n"+`{"jsonrpc":"2.0","id":2,"result":2}`) // no line end
		p.close()
		for _, ch := range []<-chan outcome{a, b} {
			if got := <-ch; got.err != nil {
				t.Error(got.err)
			}
		}
		<-c.Done()
		if err := c.Err(); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		c.Close()
	})

	bubble(t, "an answer is delivered although the other side has stopped to listen", func(t *testing.T) {
		c, p := open(t, nil)
		a := call(t.Context(), c, "m")
		p.receive()
		p.r.Close()
		for c.Notify(t.Context(), "n", nil) == nil { // until it is known
			synctest.Wait()
		}
		p.send(`{"jsonrpc":"2.0","id":1,"result":1}`)
		if got := <-a; got.err != nil {
			t.Error(got.err)
		}
		p.close()
		c.Close()
	})

	bubble(t, "calls fail when the other side neither listens nor speaks", func(t *testing.T) {
		handled := make(chan struct{})
		c, p := open(t, &jsonrpc.Options{Request: func(ctx context.Context, _ *jsonrpc.Conn, _ jsonrpc.Request) (any, error) {
			<-ctx.Done() // nobody could be told the result
			close(handled)
			return nil, context.Cause(ctx)
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		synctest.Wait()
		a := call(t.Context(), c, "m")
		p.receive()
		p.r.CloseWithError(errors.New("deaf"))
		c.Notify(t.Context(), "n", nil)
		<-handled
		if got := <-a; !errors.Is(got.err, jsonrpc.ErrClosed) || !strings.Contains(got.err.Error(), "deaf") {
			t.Errorf("got %v, want the reason", got.err)
		}
		p.close()
		c.Close()
	})

	bubble(t, "calls fail at the end, requests are still answered", func(t *testing.T) {
		start := make(chan struct{})
		c, p := open(t, &jsonrpc.Options{Request: func(ctx context.Context, c *jsonrpc.Conn, r jsonrpc.Request) (any, error) {
			<-start
			return r.Params, ctx.Err()
		}})
		a := call(t.Context(), c, "m")
		p.receive()
		p.send(`{"jsonrpc":"2.0","id":"a","method":"m","params":[1]}`)
		p.w.Close()
		got := <-a
		if !errors.Is(got.err, jsonrpc.ErrClosed) || got.err.Error() != "m: the connection is closed: the other side ended it" {
			t.Errorf("got %v, want %v", got.err, jsonrpc.ErrClosed)
		}
		if _, err := c.Call(t.Context(), "m", nil); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		close(start)
		waited := make(chan error)
		go func() { waited <- c.Wait() }()
		p.expect(`{"jsonrpc":"2.0","id":"a","result":[1]}`)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if err := c.Notify(t.Context(), "n", nil); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		p.close()
		c.Close()
	})

	bubble(t, "why reading failed is told", func(t *testing.T) {
		c, p := open(t, nil)
		broken := errors.New("broken")
		a := call(t.Context(), c, "m")
		p.receive()
		p.w.CloseWithError(broken)
		if got := <-a; !errors.Is(got.err, jsonrpc.ErrClosed) || !errors.Is(got.err, broken) {
			t.Errorf("got %v, want %v", got.err, broken)
		}
		if err := c.Wait(); err != broken {
			t.Errorf("got %v, want %v", err, broken)
		}
		p.close()
		c.Close()
	})
}

func TestClose(t *testing.T) {
	bubble(t, "everything ends", func(t *testing.T) {
		var causes atomic.Int32
		until := func(ctx context.Context) {
			if <-ctx.Done(); context.Cause(ctx) == jsonrpc.ErrClosed {
				causes.Add(1)
			}
		}
		c, p := open(t, &jsonrpc.Options{
			Request: func(ctx context.Context, _ *jsonrpc.Conn, _ jsonrpc.Request) (any, error) {
				until(ctx)
				return nil, nil
			},
			Notification: func(ctx context.Context, _ *jsonrpc.Conn, _ jsonrpc.Request) { until(ctx) },
		})
		a := call(t.Context(), c, "m")
		p.receive()
		go p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0","id":2,"method":"m"}`, `{"jsonrpc":"2.0","method":"n"}`)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if got := <-a; !errors.Is(got.err, jsonrpc.ErrClosed) {
			t.Errorf("got %v, want %v", got.err, jsonrpc.ErrClosed)
		}
		if causes.Load() != 3 {
			t.Errorf("%d handlers were told, want 3", causes.Load())
		}
		if err := c.Wait(); err != jsonrpc.ErrClosed {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})

	bubble(t, "what was sent is written first", func(t *testing.T) {
		c, p := open(t, nil)
		for i := range 100 {
			if err := c.Notify(t.Context(), "n", []int{i}); err != nil {
				t.Error(err)
			}
		}
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		for i := range 100 {
			p.expect(fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":[%d]}`, i))
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})

	bubble(t, "a handler that does not return is left behind and reported", func(t *testing.T) {
		hang := make(chan struct{})
		c, p := open(t, &jsonrpc.Options{Request: func(context.Context, *jsonrpc.Conn, jsonrpc.Request) (any, error) {
			<-hang
			return nil, nil
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
		synctest.Wait()
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "a request handler has not returned") {
			t.Errorf("got %v", err)
		}
		close(hang)
	})

	bubble(t, "a reader that cannot be closed is left behind and reported", func(t *testing.T) {
		r, w := io.Pipe()
		c := jsonrpc.Open(struct{ io.Reader }{r}, io.Discard, nil)
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "the reader cannot be closed") {
			t.Errorf("got %v", err)
		}
		w.Close()
	})

	bubble(t, "what is both reader and writer is closed once", func(t *testing.T) {
		s := &socket{closed: make(chan struct{})}
		c := jsonrpc.Open(s, s, nil)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Err(); err != jsonrpc.ErrClosed {
			t.Errorf("got %v, want %v", err, jsonrpc.ErrClosed)
		}
	})
}

// A socket is silent, and cannot be closed twice.
type socket struct{ closed chan struct{} }

func (s *socket) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.EOF
}
func (s *socket) Write(b []byte) (int, error) { return len(b), nil }
func (s *socket) Close() error {
	close(s.closed)
	return nil
}

func TestTap(t *testing.T) {
	bubble(t, "every frame is seen in both directions, in time", func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		start := time.Now()
		c, p := open(t, &jsonrpc.Options{Tap: func(d jsonrpc.Direction, f jsonrpc.Frame) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s %v %s", d, f.Time.Sub(start), f.Raw))
		}})
		defer p.close()
		defer c.Close()
		a := call(t.Context(), c, "m")
		p.receive()
		<-time.After(time.Second) // of the fake clock
		p.send(`prose`, `{"jsonrpc":"2.0","id":1,"result":1}`)
		<-a
		want := []string{`out 0s {"jsonrpc":"2.0","id":1,"method":"m"}`, `in 1s prose`, `in 1s {"jsonrpc":"2.0","id":1,"result":1}`}
		if mu.Lock(); !slices.Equal(seen, want) {
			t.Errorf("got  %q\nwant %q", seen, want)
		}
		mu.Unlock()
	})
}

// TestPipes sends more than the pipes of the operating system hold, from many
// goroutines at once, so that all ways to write are taken.
func TestPipes(t *testing.T) {
	const senders, each = 8, 50
	var mu sync.Mutex
	last := map[string]int{}
	got := 0
	ar, aw := pipe(t)
	br, bw := pipe(t)
	var tapped bytes.Buffer
	var received bytes.Buffer
	server := jsonrpc.Open(ar, bw, &jsonrpc.Options{
		Tap: func(d jsonrpc.Direction, f jsonrpc.Frame) {
			if d == jsonrpc.In {
				received.Write(append(f.Raw, '\n'))
			}
		},
		Notification: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) {
			var params struct {
				N    int
				Text string
			}
			if err := json.Unmarshal(r.Params, &params); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if last[r.Method]++; last[r.Method] != params.N {
				t.Errorf("%s: got update %d, want %d", r.Method, params.N, last[r.Method])
			}
			got++
		},
		Request: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) { return r.Params, nil },
	})
	client := jsonrpc.Open(br, aw, &jsonrpc.Options{Tap: func(d jsonrpc.Direction, f jsonrpc.Frame) {
		if d == jsonrpc.Out {
			tapped.Write(append(f.Raw, '\n'))
		}
	}})
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				params := map[string]any{"N": n + 1, "Text": strings.Repeat("x", n*n*10)}
				if err := client.Notify(t.Context(), fmt.Sprint("sender", s), params); err != nil {
					t.Error(err)
				}
			}
			big := json.RawMessage(`["` + strings.Repeat("y", 300_000) + `"]`)
			if res, err := client.Call(t.Context(), "echo", big); err != nil || string(res) != string(big) {
				t.Errorf("got %d bytes, %v, want %d", len(res), err, len(big))
			}
		})
	}
	wg.Wait()
	if mu.Lock(); got != senders*each {
		t.Errorf("got %d updates, want %d", got, senders*each)
	}
	mu.Unlock()
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(tapped.Bytes(), received.Bytes()) {
		t.Error("what the tap saw go out is not what came in")
	}
}

func FuzzConn(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, `[{"jsonrpc":"2.0","id":1,"method":"m"},1]`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":"1","result":1}`, `{"id":1,"ID":2}`, `{"jsonrpc":"2.0","id":1`, "[[]]", "prose",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		var out bytes.Buffer
		c := jsonrpc.Open(strings.NewReader(input), &out, &jsonrpc.Options{
			MaxFrame: 200, AnswerUnreadable: true,
			Request: func(_ context.Context, _ *jsonrpc.Conn, r jsonrpc.Request) (any, error) { return r.Params, nil },
		})
		result, err := c.Call(t.Context(), "m", nil)
		if err == nil && !json.Valid(result) {
			t.Errorf("the result %q is not JSON", result)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("the line %q was sent, which is not JSON", line)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
