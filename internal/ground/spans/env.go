package spans

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// FromEnv returns the tracer that the OTEL_* variables ask for; nil if they ask for none.
// The library reads those about sampling, the queue and the resource by itself. console
// gets the spans of the exporter of that name.
func FromEnv(version string, console io.Writer, log *slog.Logger) (*Tracer, error) {
	exporter, endpoint := os.Getenv("OTEL_TRACES_EXPORTER"), otlp("ENDPOINT")
	noExporter := exporter == "none" || (exporter == "" && endpoint == "")
	if off, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); off || noExporter {
		return nil, nil
	}

	t := &Tracer{ended: make(chan struct{})}
	aborted, abort := context.WithCancel(context.Background())
	t.abort = abort

	// An endpoint without a named exporter asks for OTLP.
	var to sdk.SpanExporter = &printer{w: console}
	switch exporter {
	case "", "otlp":
		c, err := newCollector(aborted, log)
		if err == nil {
			to, err = otlptrace.New(aborted, c)
		}
		if err != nil {
			abort()
			return nil, err
		}
	case "console":
	default:
		abort()
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %.40q is not one of otlp, console and none", exporter)
	}

	about, err := resource.New(aborted,
		resource.WithAttributes(attribute.String("service.name", "parley"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("some attributes of OTEL_RESOURCE_ATTRIBUTES cannot be read", "err", err)
	}

	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(ending{to, t.ended}), sdk.WithResource(about))
	t.tracer = t.provider.Tracer("github.com/parley-agents/parley")
	return t, nil
}

// otlp returns a variable for the exporter of spans, else that for all exporters.
func otlp(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// ending says when the goroutine that sends spans has ended.
type ending struct {
	sdk.SpanExporter
	ended chan struct{}
}

func (e ending) Shutdown(ctx context.Context) error {
	defer close(e.ended)
	return e.SpanExporter.Shutdown(ctx)
}

// A collector is a program that takes spans, by OTLP over HTTP. The module of
// OpenTelemetry for it would add the whole of gRPC to the binary (docs/adr/0036).
type collector struct {
	url     string
	header  http.Header // may hold a secret
	client  *http.Client
	aborted context.Context
	log     *slog.Logger
	failing atomic.Bool // the last spans were not taken
}

func newCollector(aborted context.Context, log *slog.Logger) (*collector, error) {
	if p := otlp("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %.40q is not http/protobuf", p)
	}

	// The variable for traces is a whole address; the one for all exporters lacks the path.
	c := &collector{url: os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), header: http.Header{"Content-Type": {"application/x-protobuf"}}, aborted: aborted, log: log}
	if c.url == "" {
		c.url = strings.TrimRight(cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318"), "/") + "/v1/traces"
	}
	u, err := url.Parse(c.url)
	isWebAddress := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	if !isWebAddress {
		return nil, errors.New("the endpoint for OTLP is not an address of http or https") // without it: it may hold a secret
	}

	for pair := range strings.SplitSeq(otlp("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case strings.TrimSpace(pair) == "":
		case !ok || err != nil:
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE")
		default:
			c.header.Set(strings.TrimSpace(name), value)
		}
	}

	wait := 10 * time.Second
	if ms, err := strconv.Atoi(otlp("TIMEOUT")); err == nil && ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}

	c.client = &http.Client{Timeout: wait, Transport: http.DefaultTransport.(*http.Transport).Clone(), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the header is for this address alone
	}}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. Spans that are not taken are dropped; the
// log has the first failure of several.
func (c *collector) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.aborted, cancel)()
	err := c.post(ctx, all)
	if was := c.failing.Swap(err != nil); err != nil && !was {
		c.log.Warn("the collector does not take spans, they are dropped", "err", err)
	}
	return nil
}

func (c *collector) post(ctx context.Context, all []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: all}) // the same bytes as an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	res, err := c.client.Do(req)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err // without the address, which may hold a secret
		}
		return err
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is used again
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered with status %d", res.StatusCode)
	}
	return nil
}

// A printer writes each span as a line of JSON.
type printer struct{ w io.Writer }

// ExportSpans implements sdk.SpanExporter.
func (p *printer) ExportSpans(_ context.Context, all []sdk.ReadOnlySpan) error {
	for _, s := range all {
		attributes := map[string]any{}
		for _, a := range s.Attributes() {
			attributes[string(a.Key)] = a.Value.AsInterface()
		}
		line := map[string]any{
			"name": s.Name(), "trace_id": s.SpanContext().TraceID(), "span_id": s.SpanContext().SpanID(), "at": s.StartTime().UTC(),
			"seconds": s.EndTime().Sub(s.StartTime()).Seconds(), "attributes": attributes,
		}
		if s.Parent().IsValid() {
			line["parent_id"] = s.Parent().SpanID()
		}
		raw, err := json.Marshal(line)
		if err != nil {
			return err
		}
		p.w.Write(append(raw, '\n')) // like the log: a writer that fails is not the hub's failure
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (p *printer) Shutdown(context.Context) error { return nil }
