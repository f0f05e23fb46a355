package server_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/server"
)

func TestSpansOfTurns(t *testing.T) {
	var mu sync.Mutex // guards sent
	var sent bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		io.Copy(&sent, r.Body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	w := startWakes(t, server.Options{Traces: io.Discard, Wakes: server.WakeLimits{Gap: time.Nanosecond}}, "planner")
	dir := w.keepSelf("builder", nil)
	w.send("planner", api.SendParams{To: api.Recipients{"builder"}, Text: "the schema is frozen"})
	w.turns("builder", dir, 1)
	w.stop()
	mu.Lock()
	defer mu.Unlock()
	for _, part := range []string{"turn", "parley.state", "deliver wake", "parley.outcome", "acp/inbox"} {
		if !bytes.Contains(sent.Bytes(), []byte(part)) {
			t.Errorf("no span has %q", part)
		}
	}
	for _, part := range []string{"frozen", "planner", "builder", dir} {
		if bytes.Contains(sent.Bytes(), []byte(part)) {
			t.Errorf("%q left the hub", part)
		}
	}
}
