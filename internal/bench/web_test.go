package bench_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/server"
)

// A reader is a browser that is signed in as the operator.
type reader struct {
	b      *testing.B
	client *http.Client
	page   string
	cookie string
}

// reader signs a browser in.
func (p *process) reader() *reader {
	key, err := os.ReadFile(filepath.Join(p.home, server.OperatorKeyFile))
	must(p.b, err)
	link, err := rpc.Call(p.b.Context(), rpc.NewOperator("", p.url, strings.TrimSpace(string(key)), ""), api.OpenWeb, api.None{})
	must(p.b, err)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(p.url, "http://"))
	}}
	p.b.Cleanup(transport.CloseIdleConnections)
	r := &reader{b: p.b, client: &http.Client{Transport: transport}, page: strings.TrimSuffix(link.URL, "/sign-in")}
	req, err := http.NewRequestWithContext(p.b.Context(), http.MethodPost, link.URL, strings.NewReader(url.Values{"code": {link.Code}}.Encode()))
	must(p.b, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", r.page)
	res, err := r.client.Do(req)
	must(p.b, err)
	res.Body.Close()
	for _, c := range res.Cookies() {
		r.cookie = c.Name + "=" + c.Value
	}
	return r
}

func (r *reader) open(ctx context.Context, path string) *http.Response {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.page+path, nil)
	must(r.b, err)
	req.Header.Set("Cookie", r.cookie)
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := r.client.Do(req)
	must(r.b, err)
	if res.StatusCode != http.StatusOK {
		r.b.Fatalf("GET %s: %s", path, res.Status)
	}
	return res
}

// get returns the body of an address as it came over the wire.
func (r *reader) get(path string) []byte {
	res := r.open(r.b.Context(), path)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(r.b, err)
	return body
}

// follow opens the event stream of a page and calls each with every event until ctx ends.
// It returns after the first event.
func (r *reader) follow(ctx context.Context, wg *sync.WaitGroup, path string, each func([]byte)) {
	res := r.open(ctx, "/live?after=0&path="+url.QueryEscape(path))
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for begun := false; !begun; {
		line, err := lines.ReadSlice('\n')
		if err != bufio.ErrBufferFull {
			must(r.b, err)
		}
		begun = bytes.HasPrefix(line, []byte("id: "))
	}
	wg.Go(func() {
		defer res.Body.Close()
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
			each(line)
		}
	})
}

var navigation = []string{"/", "/conversations", "/handoffs", "/runs", "/contracts", "/journal", "/health"}

const openPages = 100

// sessionStreams is the number of pages that one session may have open.
const sessionStreams = 20

// pages measures the hub's page.
func (t *table) pages() {
	b := t.b
	homes := map[int]string{1000: b.TempDir(), 100_000: b.TempDir()}
	processes, readers := map[int]*process{}, map[int]*reader{}
	for n, home := range homes {
		must(b, fill(b, home, n).Close())
		processes[n] = t.start(home)
		defer processes[n].stop()
		readers[n] = processes[n].reader()
	}
	small, large := readers[1000], readers[100_000]
	first := small.get("/")
	total := len(first)
	for _, name := range regexp.MustCompile(`/assets/[^"]*`).FindAllString(string(unzip(b, first)), -1) {
		total += len(small.get(name))
	}
	t.most("first load of the page, compressed", float64(total)/1000, 200, "KB")
	for _, path := range append(navigation, "/conversations/shared") {
		few, many := turns(loadOf(small, path), loadOf(large, path))
		t.ratio(fmt.Sprintf("page %s, µs: among 100000 messages / among 1000", path), 1e6/many, 1e6/few, "µs", 3, false)
	}
	var watchers []*reader
	for range openPages / sessionStreams {
		watchers = append(watchers, processes[1000].reader())
	}
	t.pageMemory(processes[1000], watchers)
	t.openPages(processes[1000], watchers)
}

// pageMemory measures the memory of open pages, before a load leaves some of its own.
func (t *table) pageMemory(p *process, watchers []*reader) {
	b := t.b
	wire := p.wires()[0]
	grow := func() (most float64) {
		for range 20 {
			wire.post("/", []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["reader"],"text":"one more"}}`))
			<-time.After(250 * time.Millisecond)
			most = max(most, p.resident())
		}
		return most
	}
	before := grow()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for i := range openPages {
		watchers[i%len(watchers)].follow(ctx, &wg, navigation[i%len(navigation)], func([]byte) {})
	}
	t.most(fmt.Sprintf("memory of %d open pages", openPages), grow()-before, 50, "MiB")
	cancel()
	wg.Wait()
}

func loadOf(r *reader, path string) load {
	return func(stop <-chan struct{}) int64 { return crowd(1, stop, func(int, int64) { r.get(path) }) }
}

// openPages compares sends while pages are open with sends without, and measures how long
// an event takes to one.
func (t *table) openPages(p *process, watchers []*reader) {
	b := t.b
	wires := p.wires()
	send := func(stop <-chan struct{}) int64 {
		return crowd(conns, stop, func(w int, _ int64) {
			wires[w].post("/", []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["reader"],"type":"status.update","payload":`+benchPayload+`}}`))
		})
	}
	var slowdowns []float64
	rate := func(pages int) float64 {
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		for i := range pages {
			watchers[i%len(watchers)].follow(ctx, &wg, navigation[i%len(navigation)], func([]byte) {})
		}
		n, took := run(send, slice)
		cancel()
		wg.Wait()
		return float64(n) / took.Seconds()
	}
	for i := range 3 * loads { // between two turns without pages, because the store grows
		before, watched, after := rate(0), rate(openPages), rate(0)
		slowdowns = append(slowdowns, 100*(1-2*watched/(before+after)))
		b.Logf("turn %d: %.0f and %.0f sends/s alone, %.0f with %d open pages", i, before, after, watched, openPages)
	}
	t.most(fmt.Sprintf("%d open pages make sends over HTTP slower by, median", openPages), median(slowdowns), 10, "%")
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	shown := make(chan string, 16)
	watchers[0].follow(ctx, &wg, "/conversations", func(line []byte) {
		if m := regexp.MustCompile(`event number (\d+) `).FindSubmatch(line); m != nil {
			shown <- string(m[1])
		}
	})
	var delays []float64
	for i := range 30 {
		wires[0].post("/", fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["reader"],"text":"event number %d is here"}}`, i))
		sent := time.Now() // it is committed
		for name := range shown {
			if name == fmt.Sprint(i) {
				break
			}
		}
		delays = append(delays, float64(time.Since(sent).Microseconds())/1000)
		<-time.After(time.Second) // an event after a pause is shown at once
	}
	cancel()
	wg.Wait()
	slices.Sort(delays)
	t.fact("from the answer to a send to the event on an open page: median, largest of 30", fmt.Sprintf("%.1f ms, %.1f ms", median(delays), delays[len(delays)-1]))
}

func unzip(b *testing.B, packed []byte) []byte {
	b.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(b, err)
	plain, err := io.ReadAll(z)
	must(b, err)
	return plain
}
