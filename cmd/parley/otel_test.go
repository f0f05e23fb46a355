package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A spanCollector takes spans as a collector of OpenTelemetry does.
type spanCollector struct {
	*httptest.Server
	mu     sync.Mutex // guards the rest
	bodies [][]byte
	paths  []string
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies, c.paths = append(c.bodies, body), append(c.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+r.Header.Get("X-Tenant"))
	}))
	t.Cleanup(c.Close)
	return c
}

// A recordedSpan is a span with its attributes as text.
type recordedSpan struct {
	*tracepb.Span
	attributes map[string]string
}

// spans returns the spans by name, and the name of the service.
func (c *spanCollector) spans(t *testing.T) (out map[string][]recordedSpan, service string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	out = map[string][]recordedSpan{}
	for _, body := range c.bodies {
		var all tracepb.TracesData
		if err := proto.Unmarshal(body, &all); err != nil {
			t.Fatal(err)
		}
		for _, r := range all.ResourceSpans {
			for _, a := range r.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					attributes := map[string]string{}
					for _, a := range s.Attributes {
						attributes[a.Key] = a.Value.GetStringValue()
					}
					out[s.Name] = append(out[s.Name], recordedSpan{s, attributes})
				}
			}
		}
	}
	return out, service
}

// serveWith starts the hub of a house again with variables; it was stopped before.
func (h *house) serveWith(env ...string) {
	h.t.Helper()
	h.hub = spawn(h.t, parley(h.t, env, "serve", "--home", h.home, "--addr", "127.0.0.1:0"))
	h.url = strings.TrimSpace(strings.TrimPrefix(h.hub.stderr.await(h.t, "listening on "), "listening on "))
}

func TestSpans(t *testing.T) {
	const marker = "xyzzy-marker-4711"
	h := newHouse(t)
	h.stop()
	c := newSpanCollector(t)

	t.Run("a collector gets the spans of calls, without text, names and keys", func(t *testing.T) {
		h.serveWith("OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-tenant=a%20b", "OTEL_SERVICE_NAME=desk-hub")
		h.ok(h.as("planner", "send", "builder", marker, "--topic", marker, "--priority", "critical"), nil)
		h.as("mallory", "notify", "list") // refused
		const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		req, err := http.NewRequest(http.MethodPost, h.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"acp/inbox","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.keys["builder"])
		req.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		h.stop()

		all, service := c.spans(t)
		if len(all["acp/send"]) != 1 || len(all["acp/inbox"]) != 1 || len(all["parley/notify/list"]) != 1 || service != "desk-hub" {
			t.Fatalf("spans of %q: %v", service, all)
		}
		send, inbox, refused := all["acp/send"][0], all["acp/inbox"][0], all["parley/notify/list"][0]
		if send.attributes["parley.caller"] != "agent" || send.attributes["error.type"] != "" || send.Kind != tracepb.Span_SPAN_KIND_SERVER {
			t.Errorf("the span of a send: %v", send)
		}
		if got := refused.attributes["error.type"]; got != "forbidden" || refused.Status.Code != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("the span of a refused call: %q, %v", got, refused.Status)
		}
		if hex.EncodeToString(inbox.TraceId) != trace || hex.EncodeToString(inbox.ParentSpanId) != parent {
			t.Errorf("the parent of a call with a traceparent: %x %x", inbox.TraceId, inbox.ParentSpanId)
		}
		changed := false
		for _, s := range all["store.update"] {
			changed = changed || bytes.Equal(s.ParentSpanId, send.SpanId) && bytes.Equal(s.TraceId, send.TraceId)
		}
		if !changed {
			t.Errorf("no change of the store within the send: %v", all["store.update"])
		}
		if got, want := c.paths[0], "POST /v1/traces application/x-protobuf a b"; got != want {
			t.Errorf("the request: got %q, want %q", got, want)
		}
		for _, secret := range []string{marker, "cacp_", "planner", "builder", "mallory", h.home} {
			if bytes.Contains(bytes.Join(c.bodies, nil), []byte(secret)) {
				t.Errorf("%q left the hub", secret)
			}
		}
	})

	t.Run("none are sent unless a variable asks for them", func(t *testing.T) {
		for _, env := range [][]string{
			{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_SDK_DISABLED=true"},
			{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + c.URL, "OTEL_TRACES_EXPORTER=none"},
			{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_TRACES_SAMPLER=always_off"},
			{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		} {
			c.bodies = nil
			h.serveWith(env...)
			h.ok(h.as("planner", "send", "builder", env[1]), nil)
			h.stop()
			if len(c.bodies) > 0 {
				t.Errorf("%v: %d requests", env, len(c.bodies))
			}
		}
		contains(t, h.hub.stderr.String(), `no spans are recorded`, `grpc`)
	})

	t.Run("the console gets them as lines", func(t *testing.T) {
		h.serveWith("OTEL_TRACES_EXPORTER=console")
		h.ok(h.as("planner", "send", "builder", marker), nil)
		h.stop()
		contains(t, h.hub.stderr.String(), `"name":"acp/send"`, `"parley.caller":"agent"`, `"parent_id":`)
		if strings.Contains(h.hub.stderr.String(), marker) {
			t.Error("a span has text")
		}
	})
}
