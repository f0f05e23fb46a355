package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/handshake"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// A tap records everything that passes.
type tap struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen.Write(p)
}

func (t *tap) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen.String()
}

// relay listens on a port of its own and passes everything on to another, as a program
// that wants the operator's key would. It returns its address.
func relay(t *testing.T, to string, seen io.Writer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	conns.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer from.Close()
				hub, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer hub.Close()
				context.AfterFunc(ctx, func() { from.Close(); hub.Close() })
				conns.Go(func() { io.Copy(from, io.TeeReader(hub, seen)) })
				io.Copy(hub, io.TeeReader(from, seen))
			})
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); conns.Wait() })
	return "http://" + l.Addr().String()
}

func TestOperatorLogin(t *testing.T) {
	r := start(t, quiet())
	alice := r.add(t, "alice")[0]

	t.Run("the operator's key is not accepted over a port, and an agent's is", func(t *testing.T) {
		_, err := rpc.Call(t.Context(), r.as(r.secret), api.Whoami, api.None{})
		wantCode(t, err, hub.CodeUnauthenticated)
		if err == nil || !strings.Contains(err.Error(), "over a port") {
			t.Errorf("refusal: got %v, want the reason", err)
		}
		must(rpc.Call(t.Context(), r.as(alice), api.Whoami, api.None{}))(t)
	})
	t.Run("through the socket in the home it is, and only the owner can open that", func(t *testing.T) {
		socket := filepath.Join(r.home, server.SocketFile)
		info, err := os.Stat(socket)
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
			t.Fatalf("socket: got %v %v, want a socket for its owner alone", info, err)
		}
		// The address leads nowhere: only the socket can answer.
		who := must(rpc.Call(t.Context(), rpc.NewOperator(socket, "http://127.0.0.1:1", r.secret, ""), api.Whoami, api.None{}))(t)
		if who.ID != hub.Operator {
			t.Errorf("caller: got %s, want the operator", who.ID)
		}
	})
	t.Run("over the port it is proven without being sent", func(t *testing.T) {
		seen := new(tap)
		proxy := relay(t, strings.TrimPrefix(r.url, "http://"), seen)
		direct := rpc.NewOperator("", r.url, r.secret, "")
		if who := must(rpc.Call(t.Context(), direct, api.Whoami, api.None{}))(t); who.ID != hub.Operator {
			t.Errorf("caller: got %s, want the operator", who.ID)
		}
		t.Run("a relay between two ports gets nothing", func(t *testing.T) {
			_, err := rpc.Call(t.Context(), rpc.NewOperator("", proxy, r.secret, ""), api.ListAgents, api.None{})
			wantCode(t, err, hub.CodeTampering)
			got := seen.text()
			if !strings.Contains(got, handshake.ChallengePath) {
				t.Fatal("the relay was not used")
			}
			for what, secret := range map[string]string{"key": r.secret, "hash of the key": hub.HashSecret(r.secret), "answer": handshake.TokenPath, "token": "parley_op_"} {
				if strings.Contains(got, secret) {
					t.Errorf("the relay saw the %s", what)
				}
			}
		})
	})
	t.Run("a listener in place of the hub gets nothing", func(t *testing.T) {
		seen := new(tap)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fake := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			q.Write(seen)
			json.NewEncoder(w).Encode(handshake.Challenge{Nonce: strings.Repeat("x", 32), Proof: strings.Repeat("0", 64)})
		})}
		go fake.Serve(l)
		defer fake.Close()
		_, err = rpc.Call(t.Context(), rpc.NewOperator("", "http://"+l.Addr().String(), r.secret, ""), api.ListAgents, api.None{})
		wantCode(t, err, hub.CodeTampering)
		if got := seen.text(); strings.Contains(got, r.secret) || strings.Contains(got, "Authorization") || strings.Contains(got, handshake.TokenPath) {
			t.Errorf("the listener got %q", got)
		}
	})
	t.Run("plain HTTP beyond loopback is refused before anything is sent", func(t *testing.T) {
		_, err := rpc.Call(t.Context(), rpc.NewOperator("", "http://hub.example:7420", r.secret, ""), api.ListAgents, api.None{})
		wantCode(t, err, hub.CodePolicy)
	})
	t.Run("a challenge can be answered once, and no answer is good for another", func(t *testing.T) {
		post := func(path string, in any) (map[string]any, int) {
			raw := must(json.Marshal(in))(t)
			a := r.do(t, "POST", path, "", bytes.NewReader(raw))
			var out map[string]any
			json.Unmarshal(a.body, &out)
			return out, a.status
		}
		channel := handshake.TCP(must(net.ResolveTCPAddr("tcp", strings.TrimPrefix(r.url, "http://")))(t))
		x := handshake.Begin(r.secret)
		got, _ := post(handshake.ChallengePath, x.Opening)
		nonce, _ := got["nonce"].(string)
		proof, _ := got["proof"].(string)
		answer := must(x.Answer(channel, handshake.Challenge{Nonce: nonce, Proof: proof}))(t)
		if _, status := post(handshake.TokenPath, handshake.Answer{Nonce: nonce, Proof: proof}); status != http.StatusUnauthorized {
			t.Errorf("the hub's own proof sent back: got status %d, want 401", status)
		}
		if _, status := post(handshake.TokenPath, answer); status != http.StatusUnauthorized {
			t.Errorf("a right answer after a wrong one: got status %d, want 401", status)
		}
		for name, bad := range map[string]string{"not JSON": "{", "no nonce": `{"key":"x"}`, "unknown key": `{"key":"0123456789abcdef","nonce":"0123456789abcdef"}`, "too large": `{"key":"` + strings.Repeat("x", 8<<10) + `"}`} {
			if a := r.do(t, "POST", handshake.ChallengePath, "", strings.NewReader(bad)); a.status < 400 || a.status >= 500 {
				t.Errorf("opening, %s: got status %d, want a refusal", name, a.status)
			}
		}
	})
	t.Run("the journal names the operator who approved", func(t *testing.T) {
		ana := must(rpc.Call(t.Context(), r.as(r.operator), api.AddOperator, api.OperatorParams{Name: "ana"}))(t)
		_, err := rpc.Call(t.Context(), r.as(r.operator), api.AddOperator, api.OperatorParams{Name: "ana"})
		wantCode(t, err, hub.CodeConflict)
		_, err = rpc.Call(t.Context(), r.as(alice), api.AddOperator, api.OperatorParams{Name: "eve"})
		wantCode(t, err, hub.CodeDenied)
		_, err = rpc.Call(t.Context(), r.as(alice), api.ListOperators, api.None{})
		wantCode(t, err, hub.CodeDenied)
		held := must(rpc.Call(t.Context(), r.as(alice), api.Send, api.SendParams{To: api.Recipients{"alice"}, Text: "held", Policy: []byte(`{"human_gate":"required"}`)}))(t)
		c := rpc.NewOperator("", r.url, ana.Key, "")
		must(rpc.Call(t.Context(), c, api.Approve, api.IDParams{ID: held.ID}))(t)
		page := must(rpc.Call(t.Context(), c, api.Audit, api.AuditParams{Action: actions.MessageApproved}))(t)
		if len(page.Entries) != 1 || !strings.Contains(string(page.Entries[0].Facts), `"operator":"ana"`) {
			t.Errorf("journal: got %+v, want one approval by ana", page.Entries)
		}
		list := must(rpc.Call(t.Context(), c, api.ListOperators, api.None{}))(t)
		if len(list.Operators) != 2 || list.Operators[0].Name != "" || list.Operators[1].Name != "ana" {
			t.Errorf("operators: got %+v, want the owner and ana", list.Operators)
		}
		must(rpc.Call(t.Context(), r.as(r.operator), api.RemoveOperator, api.OperatorParams{Name: "ana"}))(t)
		_, err = rpc.Call(t.Context(), c, api.ListAgents, api.None{})
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("a client whose token died with the hub proves the key again", func(t *testing.T) {
		o := quiet()
		o.Home, o.Addr = r.home, strings.TrimPrefix(r.url, "http://")
		c := rpc.NewOperator("", r.url, r.secret, "")
		must(rpc.Call(t.Context(), c, api.Whoami, api.None{}))(t)
		r.stop()
		if _, err := os.Stat(filepath.Join(r.home, server.SocketFile)); err == nil {
			t.Error("the socket is still there after the hub stopped")
		}
		start(t, o)
		must(rpc.Call(t.Context(), c, api.Whoami, api.None{}))(t)
	})
}
