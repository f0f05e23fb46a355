// Package spans records the work of a hub as spans of OpenTelemetry, as the standard
// OTEL_* variables of the environment say: calls, changes of the store within them,
// deliveries and turns of kept agents. It is off unless a variable asks for it, and then
// Call, Step and Work cost a look at the context.
//
// A span has its name, its times, words of the hub and counts. It has no text of agents,
// no name of one, no payload, topic or key, and of an error it has the code alone.
//
// Spans are sent by one goroutine from a bounded queue. If a collector is down they are
// dropped; no work waits for one.
package spans

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-agents/parley/hub"
)

// A Tracer sends spans to a collector. A nil Tracer sends none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	abort    context.CancelFunc // ends the request that is under way
	ended    chan struct{}      // closed when the goroutine has ended
}

// flushTime bounds the time for the last spans when a hub stops.
var flushTime = 3 * time.Second

// Close sends the spans that are left, for a few seconds at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	t.provider.Shutdown(ctx) // a failure is in the log already
	t.abort()
	<-t.ended
}

type tracerKey struct{}

// Context returns a context in which Call and Work record spans.
func (t *Tracer) Context(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, t)
}

// Handler returns a handler whose requests record spans, below the span that the header
// traceparent of a request names.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(Below(t.Context(r.Context()), r.Header)))
	})
}

// Below returns a context whose spans are below the span that the header traceparent
// names, and below no other.
func Below(ctx context.Context, h http.Header) context.Context {
	if ctx.Value(tracerKey{}) == nil {
		return ctx
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}

// A Span is a piece of work. The zero Span records nothing.
type Span struct{ span trace.Span }

// Call begins the span of a request.
func Call(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindServer)
}

// Work begins the span of work that the hub does by itself.
func Work(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, trace.SpanKindInternal)
}

// Step begins a span within another one of this process. Outside of one it records
// nothing.
func Step(ctx context.Context, name string) (context.Context, Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, Span{}
	}
	return start(ctx, name, trace.SpanKindInternal)
}

func start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, Span) {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, Span{s}
}

// Set sets an attribute to a word of the hub, never to text of an agent.
func (s Span) Set(key, word string) {
	if s.span != nil && word != "" {
		s.span.SetAttributes(attribute.String(key, word))
	}
}

// Count sets an attribute to a number.
func (s Span) Count(key string, n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, n))
	}
}

// End ends the span. An error is recorded by its code.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetAttributes(attribute.String("error.type", string(hub.CodeOf(err))))
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
