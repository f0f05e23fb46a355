package peer_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/reach/peer"
)

var loopback = peer.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

func TestGuard(t *testing.T) {
	open := peer.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	private := peer.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::1/128")}}
	t.Run("R1-085 what is never a hub stays refused whatever is allowed", func(t *testing.T) {
		for _, addr := range []string{
			"169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200",
			"0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "239.255.255.250", "ff02::1", "255.255.255.255", "240.0.0.1",
			"::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "::169.254.169.254",
			"2001:0:1:2:3:4:5:6", "64:ff9b:1::a9fe:a9fe", "::ffff:0:169.254.169.254",
		} {
			if err := open.Check(netip.MustParseAddr(addr), true); hub.CodeOf(err) != hub.CodePolicy {
				t.Errorf("%s: got %v, want a refusal", addr, err)
			}
		}
	})
	t.Run("R1-085 loopback and private addresses only where configured", func(t *testing.T) {
		for _, addr := range []string{"127.0.0.1", "::1", "10.1.2.3", "fd12::1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"} {
			a := netip.MustParseAddr(addr)
			if err := (peer.Guard{}).Check(a, true); hub.CodeOf(err) != hub.CodePolicy {
				t.Errorf("%s without configuration: got %v, want a refusal", addr, err)
			}
			if err := private.Check(a, false); err != nil {
				t.Errorf("%s where configured: got %v", addr, err)
			}
		}
		for _, addr := range []string{"192.168.1.1", "172.16.0.1", "100.64.0.1", "fc00::1"} {
			if err := private.Check(netip.MustParseAddr(addr), true); hub.CodeOf(err) != hub.CodePolicy {
				t.Errorf("%s: got %v, want a refusal", addr, err)
			}
		}
	})
	t.Run("R1-085 public addresses only with TLS", func(t *testing.T) {
		for _, addr := range []string{"93.184.216.34", "2606:2800:220:1::1"} {
			if err := (peer.Guard{}).Check(netip.MustParseAddr(addr), true); err != nil {
				t.Errorf("%s with TLS: got %v", addr, err)
			}
			if err := (peer.Guard{}).Check(netip.MustParseAddr(addr), false); hub.CodeOf(err) != hub.CodePolicy {
				t.Errorf("%s without TLS: got %v, want a refusal", addr, err)
			}
		}
		if err := (peer.Guard{}).Check(netip.Addr{}, true); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("no address: got %v, want a refusal", err)
		}
	})
}

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:8081/":        "http://h:8081",
		"https://h/base/":       "https://h/base",
		"ftp://h":               "",
		"file:///etc/passwd":    "",
		"gopher://h":            "",
		"http://u:p@h":          "",
		"http://h/?q=1":         "",
		"http://h/?":            "",
		"http://h/#f":           "",
		"http://":               "",
		"http:opaque":           "",
		"//h":                   "",
		"http://h\x00":          "",
		"https://" + long(3000): "",
	} {
		got, err := federation.ParseEndpoint(in)
		if got != want || (want == "") != (hub.CodeOf(err) == hub.CodeInvalid) {
			t.Errorf("%.60q: got %q, %v; want %q", in, got, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// A fickle resolver answers differently each time it is asked.
type fickle struct {
	answers [][]netip.Addr
	asked   atomic.Int32
}

func (f *fickle) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	n := int(f.asked.Add(1)) - 1
	return f.answers[min(n, len(f.answers)-1)], nil
}

func (*fickle) LookupTXT(context.Context, string) ([]string, error) { return nil, errUnused }

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestClientSafety(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inside.Add(1) }))
	defer secret.Close()

	t.Run("R1-085 a name that changes its answer leads nowhere else", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.2:0")
		if err != nil {
			t.Fatal(err)
		}
		var touched atomic.Int32
		other := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched.Add(1) })}}
		other.Start()
		defer other.Close()
		port := l.Addr().(*net.TCPAddr).Port
		for name, second := range map[string][]netip.Addr{
			"another host":      addrs("127.0.0.2"),
			"metadata":          addrs("169.254.169.254"),
			"a mapped metadata": addrs("::ffff:169.254.169.254"),
			"nothing":           nil,
		} {
			same := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				io.WriteString(w, `{"agentId":"x"}`)
			}))
			first, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			same.Listener.Close()
			same.Listener = first
			same.Start()
			names := &fickle{answers: [][]netip.Addr{addrs("127.0.0.1"), second}}
			c := peer.NewClient(&peer.ClientOptions{Guard: loopback, Resolver: names})
			url := fmt.Sprintf("http://rebind.example:%d", port)
			if _, err := c.Health(t.Context(), url); err != nil {
				t.Errorf("%s: the first call: %v", name, err)
			}
			if _, err := c.Health(t.Context(), url); err == nil {
				t.Errorf("%s: the second call went through", name)
			}
			if got := names.asked.Load(); got != 2 {
				t.Errorf("%s: the name was looked up %d times for 2 connections", name, got)
			}
			c.Close()
			same.Close()
		}
		if touched.Load() != 0 {
			t.Error("the other host was reached")
		}
	})
	t.Run("R1-085 of several addresses only those allowed are tried", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{}`) }))
		defer s.Close()
		c := peer.NewClient(&peer.ClientOptions{Guard: loopback, Resolver: &fickle{answers: [][]netip.Addr{addrs("169.254.169.254", "127.0.0.1")}}})
		defer c.Close()
		if _, err := c.Health(t.Context(), "http://two.example:"+s.URL[strings.LastIndex(s.URL, ":")+1:]); err != nil {
			t.Error(err)
		}
	})
	t.Run("R1-085 nothing that is not public is called unless configured", func(t *testing.T) {
		c := peer.NewClient(nil)
		defer c.Close()
		for _, url := range []string{secret.URL, "http://169.254.169.254", "http://[::1]:1", "http://[::ffff:127.0.0.1]:1", "http://0.0.0.0:1", "https://10.0.0.1"} {
			if _, err := c.Card(t.Context(), url); hub.CodeOf(err) != hub.CodePolicy {
				t.Errorf("%s: got %v, want a refusal", url, err)
			}
		}
	})
	t.Run("R1-085 a redirect is not followed", func(t *testing.T) {
		s := httptest.NewServer(http.RedirectHandler(secret.URL, http.StatusTemporaryRedirect))
		defer s.Close()
		c := peer.NewClient(&peer.ClientOptions{Guard: loopback})
		defer c.Close()
		if _, err := c.Card(t.Context(), s.URL); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	t.Run("R1-085 no proxy is used", func(t *testing.T) {
		c := peer.NewClient(&peer.ClientOptions{Guard: loopback, Resolver: &fickle{answers: [][]netip.Addr{addrs("127.0.0.3")}}})
		defer c.Close()
		if _, err := c.Card(t.Context(), "http://proxied.example"); hub.CodeOf(err) != hub.CodePolicy {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	if inside.Load() != 0 {
		t.Error("a service that is not a peer was reached")
	}
}

func TestClientLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/large"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		for range 64 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-release
	})
	mux.HandleFunc("/zipped"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("the client asks for %s", got)
		}
		io.WriteString(w, "{}")
	})
	mux.HandleFunc("/garbage"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "\x00<html>") })
	mux.HandleFunc("/broken"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "{")
	})
	mux.HandleFunc("/fails"+peer.HealthPath, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) })
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(release)
	c := peer.NewClient(&peer.ClientOptions{Guard: loopback, Timeout: 2 * time.Second, MaxAnswer: 1 << 20})
	defer c.Close()
	quick := peer.NewClient(&peer.ClientOptions{Guard: loopback, Timeout: 50 * time.Millisecond})
	defer quick.Close()
	for _, test := range []struct {
		name   string
		client *peer.Client
		want   hub.Code
	}{
		{"large", c, hub.CodeTooLarge}, {"slow", quick, hub.CodeUnreachable}, {"zipped", c, ""},
		{"garbage", c, hub.CodeUnreachable}, {"broken", c, hub.CodeUnreachable}, {"fails", c, hub.CodeUnreachable},
	} {
		t.Run("R1-085 an answer that is "+test.name, func(t *testing.T) {
			if _, err := test.client.Health(t.Context(), s.URL+"/"+test.name); hub.CodeOf(err) != test.want {
				t.Errorf("got %v, want code %q", err, test.want)
			}
		})
	}
}

func TestClientTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"agentId":"a"}`) }))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	url := "https://example.com:" + s.URL[strings.LastIndex(s.URL, ":")+1:]
	names := &fickle{answers: [][]netip.Addr{addrs("127.0.0.1")}}
	good := peer.NewClient(&peer.ClientOptions{Guard: loopback, Resolver: names, Roots: roots})
	defer good.Close()
	if id, err := good.Health(t.Context(), url); err != nil || id != "a" {
		t.Errorf("a certificate that is known: got %q, %v", id, err)
	}
	strict := peer.NewClient(&peer.ClientOptions{Guard: loopback, Resolver: names})
	defer strict.Close()
	if _, err := strict.Health(t.Context(), url); hub.CodeOf(err) != hub.CodeUnreachable {
		t.Errorf("a certificate that nobody signed: got %v", err)
	}
}
