package parley_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/surface/rpc"
	"github.com/parley-agents/parley/server"
)

// A benchHub is a hub that coordinates with others on loopback.
type benchHub struct {
	b      *testing.B
	opts   server.Options
	url    string
	key    string
	client *rpc.Client
	stop   func()
}

func newBenchHub(b *testing.B, name string) *benchHub {
	h := &benchHub{b: b, opts: server.Options{
		Home: b.TempDir(), Addr: "127.0.0.1:0", NoInboxFiles: true, Limits: server.Limits{Unsafe: true},
		Coordination: server.Coordination{
			AID: hub.AID("aid://" + name + ".example/hub@1.0.0"), Repo: name, Role: "backend", Language: "go",
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		},
	}}
	h.start()
	return h
}

// start starts the hub, at the address that it had before.
func (h *benchHub) start() {
	s, err := server.New(h.b.Context(), h.opts)
	must(h.b, err)
	h.url = s.URL()
	h.opts.Addr = strings.TrimPrefix(h.url, "http://")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx); err != nil {
			h.b.Error(err)
		}
	})
	h.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	h.b.Cleanup(h.stop)
	key, err := os.ReadFile(filepath.Join(h.opts.Home, server.OperatorKeyFile))
	must(h.b, err)
	h.key, err = rpc.NewOperator("", h.url, strings.TrimSpace(string(key)), "").Token(h.b.Context())
	must(h.b, err)
	h.client = rpc.NewClient(h.url, h.key, "", nil)
}

// do makes a call and returns one text member of the result.
func (h *benchHub) do(method, member string, params map[string]any) string {
	raw, err := json.Marshal(params)
	must(h.b, err)
	answer, err := h.client.Raw(h.b.Context(), method, raw)
	must(h.b, err)
	var got map[string]any
	must(h.b, json.Unmarshal(answer, &got))
	text, _ := got[member].(string)
	return text
}

func (h *benchHub) project(repos ...string) string {
	list := []map[string]any{}
	for _, r := range repos {
		list = append(list, map[string]any{"name": r, "role": "backend", "language": "go"})
	}
	return h.do("cacp/project/create", "projectId", map[string]any{"name": "bench", "objective": "speed", "repos": list})
}

// join makes h a peer of host for a project.
func (h *benchHub) join(host *benchHub, project, repo string) {
	invite := host.do("cacp/invite/create", "invite", map[string]any{"projectId": project, "repoName": repo})
	h.do("parley/peer/join", "", map[string]any{"invite": invite, "hub": host.url})
}

func proposal(project string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"cacp/contract/propose","params":{"projectId":"` + project +
		`","type":"api_endpoint","name":"Get User Profile","content":{"method":"GET","path":"/api/v1/users/profile","responseBody":{"type":"object"}}}}`)
}

func packet(project string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"cacp/context/share","params":{"projectId":"` + project +
		`","type":"code_snippet","content":{"language":"go","file":"auth.go","snippet":"` + snippet + `"}}}`)
}

// snippet is about as long as what agents share.
var snippet = strings.Repeat("func Verify(token string) error; ", 48)

// fill adds contracts and packets, many in a request.
func (h *benchHub) fill(project string, contracts, packets int) {
	w := newWire(h.b, h.url, h.key)
	defer w.close()
	for _, part := range []struct {
		n    int
		body []byte
	}{{contracts, proposal(project)}, {packets, packet(project)}} {
		for left := part.n; left > 0; left -= 200 {
			batch := bytes.Repeat(append(slices.Clone(part.body), ','), min(left, 200))
			w.post("/", append(append([]byte("["), batch[:len(batch)-1]...), ']'))
		}
	}
}

// count returns how many contracts and packets of a project a hub has.
func (h *benchHub) count(project string) int {
	answer, err := h.client.Raw(h.b.Context(), "cacp/project/list", []byte(`{"summary":true}`))
	must(h.b, err)
	var got struct {
		Projects []struct {
			ProjectID                  string
			ContractCount, PacketCount int
		}
	}
	must(h.b, json.Unmarshal(answer, &got))
	for _, p := range got.Projects {
		if p.ProjectID == project {
			return p.ContractCount + p.PacketCount
		}
	}
	return 0
}

// has waits until a hub has so many contracts and packets.
func (h *benchHub) has(project string, n int) {
	deadline := time.Now().Add(2 * time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); h.count(project) < n; <-tick.C {
		if time.Now().After(deadline) {
			h.b.Fatalf("%s has %d of %d things", h.url, h.count(project), n)
		}
	}
}

func (t *table) coordination() {
	t.propose()
	t.withPeers()
	t.catchUp()
	t.wholeProject()
}

// propose compares proposals with a handler that does nothing.
func (t *table) propose() {
	h := newBenchHub(t.b, "alone")
	defer h.stop()
	var projects []string // one has room for 10,000 contracts
	for range conns {
		projects = append(projects, h.project("alone"))
	}
	probe := newWire(t.b, h.url, h.key)
	size := len(probe.post("/", proposal(projects[0])))
	probe.close()
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", size-40) + `"}`)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	defer plain.Close()
	load := func(url string) func(<-chan struct{}) int64 {
		wires := make([]*wire, conns)
		for i := range wires {
			wires[i] = newWire(t.b, url, h.key)
		}
		t.b.Cleanup(func() {
			for _, w := range wires {
				w.close()
			}
		})
		return func(stop <-chan struct{}) int64 {
			return crowd(conns, stop, func(w int, _ int64) { wires[w].post("/", proposal(projects[w])) })
		}
	}
	got, base := turns(load(h.url), load(plain.URL))
	t.ratio("contract/propose over HTTP, 32 connections / plain net/http handler", got, base, "/s", 0.25, true)
}

// withPeers compares what a caller waits for with three live peers and without.
func (t *table) withPeers() {
	alone, host := newBenchHub(t.b, "alone"), newBenchHub(t.b, "host")
	defer alone.stop()
	defer host.stop()
	names := []string{"one", "two", "three"}
	quiet, busy := alone.project("alone"), host.project(append(names, "host")...)
	var peers []*benchHub
	for _, name := range names {
		p := newBenchHub(t.b, name)
		defer p.stop()
		p.join(host, busy, name)
		peers = append(peers, p)
	}
	const calls = 400
	var times [2][]time.Duration
	wires := []*wire{newWire(t.b, alone.url, alone.key), newWire(t.b, host.url, host.key)}
	for range calls {
		for i, project := range []string{quiet, busy} {
			began := time.Now()
			wires[i].post("/", proposal(project))
			times[i] = append(times[i], time.Since(began))
		}
	}
	for _, w := range wires {
		w.close()
	}
	for _, p := range peers {
		p.has(busy, calls) // what was told so quickly has arrived
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Microseconds())
	}
	t.ratio("contract/propose, median with 3 live peers / without", median(times[1]), median(times[0]), "µs", 1.2, false)
}

// catchUp measures how fast a peer that was away gets what it missed.
func (t *table) catchUp() {
	const changes = 10_000
	host, guest := newBenchHub(t.b, "host"), newBenchHub(t.b, "guest")
	defer host.stop()
	project := host.project("host", "guest")
	guest.join(host, project, "guest")
	host.fill(project, 1, 0)
	guest.has(project, 1)
	guest.stop()
	host.fill(project, changes/2, changes/2)
	began := time.Now()
	guest.start()
	guest.has(project, changes+1)
	took := time.Since(began)
	guest.stop()
	t.ratio("changes that a peer catches up with after it was away, 10,000 / target", changes/took.Seconds(), 2000, "/s", 1, true)
}

// wholeProject looks at how much of a large project is in memory while a slow
// caller reads it.
func (t *table) wholeProject() {
	h := newBenchHub(t.b, "large")
	defer h.stop()
	project := h.project("large")
	h.fill(project, 1000, 10_000)
	read := func(look func()) (int, time.Duration) {
		began := time.Now()
		body := strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"cacp/project/get","params":{"projectId":%q}}`, project))
		res, err := h.client.Do(t.b.Context(), http.MethodPost, "/", "application/json", body)
		must(t.b, err)
		defer res.Body.Close()
		total, buf := 0, make([]byte, 64<<10)
		for {
			n, err := io.ReadFull(res.Body, buf)
			total += n
			if err != nil {
				return total, time.Since(began)
			}
			look()
		}
	}
	size, took := read(func() {})
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := live(), uint64(0)
	read(func() { most = max(most, live()) })
	t.ratio("project/get of 1,000 contracts and 10,000 packets, memory while it is read / size", float64(most-min(before, most))/1024, float64(size)/1024, "KiB", 0.25, false)
	t.fact("project/get of 1,000 contracts and 10,000 packets", fmt.Sprintf("%.0f ms, %.1f MiB", float64(took.Milliseconds()), float64(size)/(1<<20)))
}
