package bench_test

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
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/contract"
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
			AID: coord.AID("aid://" + name + ".example/hub@1.0.0"), Repo: name, Role: "backend", Language: "go",
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

// A mirror is the content of a project as its peers have it.
type mirror struct {
	project coord.ProjectID
	summary federation.Summary // with all contracts
	packets []coord.PacketID
}

func readMirror(b *testing.B, home, project string) mirror {
	store, err := sqlite.Open(home, nil)
	must(b, err)
	defer store.Close()
	m, contracts := mirror{project: coord.ProjectID(project)}, contract.New(store, nil)
	m.summary, err = contracts.Summary(b.Context(), m.project, "")
	must(b, err)
	for next := m.summary.Next; next != ""; {
		page, err := contracts.Summary(b.Context(), m.project, next)
		must(b, err)
		m.summary.Contracts, next = append(m.summary.Contracts, page.Contracts...), page.Next
	}
	m.packets, err = hub.Read(b.Context(), store, func(r hub.Reader) ([]coord.PacketID, error) {
		return r.Coordination().PacketIDs(m.project, "", 1_000_000)
	})
	must(b, err)
	return m
}

// benchPeer is a hub that lacks one contract and one packet of a mirror, and takes
// what it is sent.
func benchPeer(b *testing.B, n int, m mirror) (coord.AID, *httptest.Server) {
	aid := coord.AID(fmt.Sprintf("aid://peer%d.example/hub@1.0.0", n))
	lacks, part := m.packets[n], m.summary
	part.Contracts = slices.Delete(slices.Clone(m.summary.Contracts), n, n+1)
	part.Buckets = slices.Clone(m.summary.Buckets)
	for i, k := range part.Buckets {
		if k.N == lacks.Bucket() {
			part.Buckets[i] = coord.PacketBucket{N: k.N, Count: k.Count - 1, Sum: coord.ToggleSum(k.Sum, string(lacks))}
		}
	}
	answer := func(method string, raw json.RawMessage) any {
		switch method {
		case "cacp/sync/projects":
			return federation.ProjectsPage{Projects: []coord.ProjectID{m.project}, Sums: map[coord.ProjectID]string{m.project: "another"}}
		case "cacp/sync/summary":
			var in federation.SummaryParams
			must(b, json.Unmarshal(raw, &in))
			page := part
			page.Contracts = slices.DeleteFunc(slices.Clone(part.Contracts), func(c coord.ContractSum) bool { return c.ID <= in.After })
			if page.Next = ""; len(page.Contracts) > 1000 {
				page.Contracts, page.Next = page.Contracts[:1000], page.Contracts[999].ID
			}
			return page
		case "cacp/sync/packets":
			var in federation.PacketsParams
			must(b, json.Unmarshal(raw, &in))
			return federation.PacketsPage{Packets: slices.DeleteFunc(slices.Clone(m.packets), func(id coord.PacketID) bool {
				return id == lacks || !slices.Contains(in.Buckets, id.Bucket())
			})}
		}
		return federation.SyncResult{Status: federation.SyncCreated}
	}
	type request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := json.NewEncoder(w)
		switch r.URL.Path {
		case peer.HealthPath:
			out.Encode(map[string]string{"status": "healthy", "agentId": string(aid)})
		case peer.CardPath:
			out.Encode(peer.Self{AID: string(aid), URL: s.URL, Repo: "peer"}.Card())
		default:
			body, err := io.ReadAll(r.Body)
			must(b, err)
			var one request
			if json.Unmarshal(body, &one) == nil {
				out.Encode(map[string]any{"jsonrpc": "2.0", "id": one.ID, "result": answer(one.Method, one.Params)})
				return
			}
			var many []request
			must(b, json.Unmarshal(body, &many))
			results := []map[string]any{}
			for _, q := range many {
				results = append(results, map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": answer(q.Method, q.Params)})
			}
			out.Encode(results)
		}
	}))
	return aid, s
}

// manyPeers measures what callers notice while 100 peers, each of which lacks a
// contract and a packet, are compared with, and compare themselves.
func (t *table) manyPeers() {
	const contracts, packets, peers = 10_000, 40_000, 100
	h := newBenchHub(t.b, "host")
	project := h.project("host")
	h.fill(project, contracts, packets)
	h.stop()
	m := readMirror(t.b, h.opts.Home, project)
	p := t.start(h.opts.Home, "--aid", string(h.opts.Coordination.AID), "--repo", "host", "--role", "backend", "--language", "go", "--peer-allow", "127.0.0.0/8")
	defer p.stop()
	w := p.wires()[0]
	h.client = rpc.NewClient(p.url, strings.TrimPrefix(w.header.Get("Authorization"), "Bearer "), "", nil)
	h.do("parley/agent/add", "", map[string]any{"id": "reader"})
	send := func() time.Duration {
		began := time.Now()
		w.post("/", []byte(`{"jsonrpc":"2.0","id":1,"method":"acp/send","params":{"to":["reader"],"type":"status.update","payload":`+benchPayload+`}}`))
		return time.Since(began)
	}
	p99 := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)*99/100].Microseconds())
	}
	quiet(t.b, fmt.Sprint(p.cmd.Process.Pid))
	var idle, busy []time.Duration
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for range 1000 {
		idle = append(idle, send())
		<-pace.C
	}
	var wg sync.WaitGroup
	began, most := time.Now(), 0.0
	for n := range peers {
		aid, s := benchPeer(t.b, n, m)
		defer s.Close()
		key := h.do("parley/peer/add", "key", map[string]any{"agentId": aid, "endpoint": s.URL, "repoName": fmt.Sprint("peer", n), "key": "cacp_sk_live_bench"})
		client := rpc.NewClient(p.url, key, string(aid), nil)
		wg.Go(func() {
			if _, err := client.Raw(t.b.Context(), "cacp/sync/projects", []byte("{}")); err != nil {
				t.b.Error(err)
			}
			for after, more := "", true; more; more = after != "" {
				raw, err := client.Raw(t.b.Context(), "cacp/sync/summary", fmt.Appendf(nil, `{"projectId":%q,"after":%q}`, project, after))
				if err != nil {
					t.b.Error(err)
					return
				}
				var page federation.Summary
				must(t.b, json.Unmarshal(raw, &page))
				after = string(page.Next)
			}
		})
	}
	took := time.Duration(0)
	for i := 0; took == 0; i++ {
		busy = append(busy, send())
		if <-pace.C; i%40 == 0 {
			most = max(most, p.resident())
			var list struct{ Peers []federation.PeerStatus }
			raw, err := h.client.Raw(t.b.Context(), "parley/peer/list", []byte("{}"))
			must(t.b, err)
			must(t.b, json.Unmarshal(raw, &list))
			left := slices.DeleteFunc(list.Peers, func(p federation.PeerStatus) bool { return p.Healthy && !p.CatchUp })
			if len(left) == 0 || time.Since(began) > 10*time.Minute {
				took = time.Since(began)
			}
		}
	}
	wg.Wait()
	const what = "10,000 contracts, 40,000 packets, 100 peers"
	t.ratio("99th percentile of acp/send while peers are compared, "+what+" / idle", p99(busy), p99(idle), "µs", 4, false)
	t.most("resident memory meanwhile", max(most, p.resident()), 200, "MiB")
	t.most("time until all are compared", took.Seconds(), 120, "s")
}
