package spans_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/spans"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

func TestOff(t *testing.T) {
	hubtest.NoGoroutinesLeft(t)
	tracer, err := spans.FromEnv("v1", nil, slog.New(slog.DiscardHandler))
	if tracer != nil || err != nil {
		t.Fatalf("without variables: got %v, %v, want none", tracer, err)
	}
	defer tracer.Close()
	ctx := tracer.Context(t.Context())
	fails := errors.New("x")
	if n := testing.AllocsPerRun(100, func() {
		in, call := spans.Call(spans.Below(ctx, nil), "acp/send")
		_, step := spans.Step(in, "store.update")
		step.End(nil)
		call.Set("parley.caller", "agent")
		call.Count("parley.requests", 1)
		call.End(fails)
	}); n > 0 {
		t.Errorf("a call that is not recorded costs %v allocations, want 0", n)
	}
}

func TestFromEnv(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318", "OTEL_EXPORTER_OTLP_HEADERS": "secret", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
	} {
		t.Run(name+" that cannot be read is an error without its secret", func(t *testing.T) {
			hubtest.NoGoroutinesLeft(t)
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv(name, value)
			tracer, err := spans.FromEnv("v1", nil, slog.New(slog.DiscardHandler))
			if tracer != nil || err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, %v, want an error", tracer, err)
			}
		})
	}
}

func TestCollectorThatFails(t *testing.T) {
	release := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"refuses":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"redirects":     func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/"); w.WriteHeader(307) },
		"never answers": func(_ http.ResponseWriter, r *http.Request) { <-release },
	} {
		t.Run("a collector that "+name+" delays nothing, and the hub ends", func(t *testing.T) {
			hubtest.NoGoroutinesLeft(t)
			server := httptest.NewServer(answer)
			defer server.Close()
			if name == "never answers" {
				defer close(release)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/secret")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
			var log bytes.Buffer
			tracer, err := spans.FromEnv("v1", nil, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ctx := tracer.Context(context.Background())
			for range 100 { // more than the queue holds
				_, s := spans.Work(ctx, "turn")
				s.End(nil)
			}
			tracer.Close()
			if got := log.String(); strings.Count(got, "does not take spans") != 1 || strings.Contains(got, "secret") {
				t.Errorf("the log: %q, want one line without the address", got)
			}
		})
	}
}
