package goodagent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parley-agents/parley/protocol/acp/acpv2"
	"github.com/parley-agents/parley/protocol/jsonrpc"
)

// A streamed is a server that is written to by requests and read from a stream
// of events, as MCP servers were reached before 2025.
type streamed struct {
	Name, URL string
	Headers   []struct{ Name, Value string }

	ctx      context.Context
	endpoint string
}

// streamServer connects to a server of a type that version 2 does not have any
// more. It returns nil if that fails within the time that ctx gives.
func streamServer(ctx context.Context, m *acpv2.Unknown) *server {
	s := &streamed{}
	if m.Tag != "sse" || json.Unmarshal(m.Raw, s) != nil {
		return nil
	}

	// The stream outlives ctx; only the attempt to connect ends with it.
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	connecting := context.AfterFunc(ctx, cancel)
	answer, err := s.do(http.MethodGet, s.URL, nil)
	if err != nil {
		cancel()
		return nil
	}

	// The first event names the path for requests.
	events := bufio.NewScanner(answer.Body)
	events.Buffer(nil, maxBody)
	path, ok := nextEvent(events)
	if !ok || !connecting() {
		cancel()
		answer.Body.Close()
		return nil
	}

	base, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), "/")
	s.endpoint = "http://" + base + path

	// Each event is a line for the connection.
	in, feed := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for data, ok := nextEvent(events); ok; data, ok = nextEvent(events) {
			if _, err := io.WriteString(feed, data+"\n"); err != nil {
				break
			}
		}
		feed.Close()
	}()

	conn := jsonrpc.Open(in, s, nil)
	return &server{
		name: s.Name,
		call: func(ctx context.Context, method string, params any) (json.RawMessage, error) {
			return conn.Call(ctx, method, params)
		},
		tell: func(ctx context.Context, method string) error { return conn.Notify(ctx, method, object{}) },
		close: func() {
			cancel()
			answer.Body.Close()
			in.Close()
			<-done
			conn.Close() // it has ended one way or another
		},
	}
}

// do makes a request with the headers that were given.
func (s *streamed) do(method, url string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(s.ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	for _, h := range s.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err == nil && answer.StatusCode >= 300 {
		answer.Body.Close()
		return nil, fmt.Errorf("the server answered with %s", answer.Status)
	}
	return answer, err
}

// Write sends one message.
func (s *streamed) Write(line []byte) (int, error) {
	answer, err := s.do(http.MethodPost, s.endpoint, bytes.NewReader(line))
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	return len(line), nil
}

// nextEvent returns the data of the next event.
func nextEvent(events *bufio.Scanner) (string, bool) {
	for events.Scan() {
		if data, ok := strings.CutPrefix(events.Text(), "data:"); ok {
			return strings.TrimSpace(data), true
		}
	}
	return "", false
}
