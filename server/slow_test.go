package server_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/server"
)

// A pipes is a listener whose connections never leave the process, so that
// they live in the time of a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inBubble runs a hub whose time is that of a bubble, and calls f with a connection
// to it and the operator's key.
func inBubble(t *testing.T, f func(t *testing.T, conn net.Conn, key string)) {
	withDials(t, func(t *testing.T, _ *server.Server, dial func() net.Conn, key string) {
		conn := dial()
		defer conn.Close()
		f(t, conn, key)
	})
}

// withDials is inBubble with any number of connections.
func withDials(t *testing.T, f func(t *testing.T, s *server.Server, dial func() net.Conn, key string)) {
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(t.Context(), server.Options{Home: home, Addr: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		key, err := os.ReadFile(filepath.Join(home, server.OperatorKeyFile))
		if err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		ended := make(chan struct{})
		go func() { s.ServeHTTPOn(l); close(ended) }()
		defer func() { s.CloseHTTP(); <-ended }()
		f(t, s, l.dial, s.TokenFor(t, strings.TrimSpace(string(key))))
	})
}

func TestSlowBody(t *testing.T) {
	for _, tt := range []struct {
		name, request string
		status        int
		code          hub.Code // "" if the answer is not JSON-RPC
		within        time.Duration
	}{
		{"of a call", "POST / HTTP/1.1", http.StatusOK, hub.CodeInvalid, 20 * time.Second},
		{"of a stranger", "POST / HTTP/1.1\r\nX-Key: none", http.StatusUnauthorized, hub.CodeUnauthenticated, 40 * time.Second},
		{"of a tool", "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream", 0, "", 40 * time.Second},
		{"of an upload", "POST /artifacts HTTP/1.1", http.StatusBadRequest, hub.CodeInvalid, 6 * time.Minute},
		{"nobody wants", "POST /nothing HTTP/1.1", http.StatusNotFound, "", 40 * time.Second},
	} {
		t.Run("a body "+tt.name+" that does not arrive is answered and the connection is closed", func(t *testing.T) {
			inBubble(t, func(t *testing.T, conn net.Conn, key string) {
				began := time.Now()
				head := tt.request + "\r\nHost: localhost\r\nContent-Length: 1000\r\n"
				if !strings.Contains(tt.request, "X-Key: none") {
					head += "Authorization: Bearer " + key + "\r\n"
				}
				go io.WriteString(conn, head+"\r\n{\"jsonrpc\":") // and then nothing
				in := bufio.NewReader(conn)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					if tt.status != 0 {
						t.Fatalf("answer: %v", err)
					}
				} else {
					if tt.status != 0 && res.StatusCode != tt.status {
						t.Errorf("status: got %d, want %d", res.StatusCode, tt.status)
					}
					var a answer
					body, _ := io.ReadAll(res.Body)
					json.Unmarshal(body, &a)
					if tt.code != "" && (a.Error == nil || a.Error.Data.Reason != tt.code) {
						t.Errorf("answer: got %s, want %s", body, tt.code)
					}
				}
				if _, err := in.ReadByte(); err == nil {
					t.Error("the connection is open and says more")
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("the connection was held for %s, want at most %s", took, tt.within)
				}
			})
		})
	}
	t.Run("a call that waits is not cut off by the limits for its body", func(t *testing.T) {
		inBubble(t, func(t *testing.T, conn net.Conn, key string) {
			body := `{"jsonrpc":"2.0","id":1,"method":"acp/inbox","params":{"wait_s":300}}`
			req, _ := http.NewRequest("POST", "http://localhost/", strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+key)
			began := time.Now()
			go req.Write(conn)
			res, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(res.Body)
			if took := time.Since(began); took != 300*time.Second || !strings.Contains(string(got), `"messages":[]`) {
				t.Errorf("answer after %s: got %s, want an empty inbox after 5m0s", took, got)
			}
		})
	})
}
