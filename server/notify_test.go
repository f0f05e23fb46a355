package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/server"
)

// A receiver is the webhook of a person. It keeps the notices.
type receiver struct {
	url string
	mu  sync.Mutex // guards got
	got strings.Builder
}

func newReceiver(t *testing.T) *receiver {
	p := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		io.Copy(&p.got, r.Body)
		p.got.WriteByte('\n')
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// tell makes the receiver a target of a hub.
func (p *receiver) tell(o *server.Options) {
	o.Notify = []server.NotifyTarget{{Name: "ops", URL: p.url + "/hook", Secret: []byte("sixteen bytes or more"), Batch: time.Millisecond}}
	o.Coordination.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// count returns how often a text occurs in the notices.
func (p *receiver) count(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.got.String(), part)
}
