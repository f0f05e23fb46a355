package peer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/federation"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/peers"
)

// A script is a peer that answers as it is told to.
type script struct {
	*httptest.Server
	aid coord.AID

	mu      sync.Mutex
	native  bool
	results map[string]string // by method, as JSON; others get an error
	count   int               // of requests
	before  func(string)      // called with the method of each request; may be nil
}

func newScript(t *testing.T, native bool, results map[string]string) *script {
	t.Helper()
	s := &script{aid: "aid://hostile.example/x@1.0.0", native: native, results: results}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	switch r.URL.Path {
	case peer.HealthPath, peer.RegisterPath:
		fmt.Fprint(w, `{}`)
	case peer.CardPath:
		card := peer.Self{AID: string(s.aid)}.Card()
		if !s.native {
			card.Extensions.CACP.Sync, card.Extensions.CACP.Timestamps = "", ""
		}
		json.NewEncoder(w).Encode(card)
	default:
		body, _ := io.ReadAll(r.Body) // a test's own request
		var one rpcRequest
		if json.Unmarshal(body, &one) == nil {
			fmt.Fprint(w, s.answer(one))
			return
		}
		var many []rpcRequest
		json.Unmarshal(body, &many)
		answers := make([]string, len(many))
		for i, req := range many {
			answers[i] = s.answer(req)
		}
		fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
	}
}

// An rpcRequest is a JSON-RPC request as a script reads it.
type rpcRequest struct {
	ID     json.RawMessage
	Method string
}

func (s *script) answer(req rpcRequest) string {
	if s.before != nil {
		s.before(req.Method)
	}
	if result, ok := s.results[req.Method]; ok {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid params: Project x not found","data":[1]}}`, req.ID)
}

func (s *script) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// against returns a hub whose only peer is the script.
func against(t *testing.T, s *script) *node {
	t.Helper()
	n := newNode(t, "alpha", nil)
	if _, _, err := n.peers.AddPeer(t.Context(), operator, peers.NewPeer{AID: s.aid, Endpoint: s.URL}); err != nil {
		t.Fatal(err)
	}
	return n.start()
}

func (n *node) projectIDs() (ids []coord.ProjectID) {
	err := n.store.View(n.t.Context(), func(r hub.Reader) error {
		ps, err := r.Coordination().Projects("", 100)
		ids = nil
		for _, p := range ps {
			ids = append(ids, p.ID)
		}
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return ids
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"p",`, 100_000)
	ids := new(strings.Builder)
	for i := range 100_000 {
		fmt.Fprintf(ids, `"p%d",`, i)
	}
	head := `{"projectId":"good","project":{"project_id":"good","name":"n","objective":"o","status":"planning","repos":[]}}`
	for name, test := range map[string]struct {
		native  bool
		results map[string]string
		fault   string // "" if the peer just has nothing to offer
	}{
		"R1-086 ids that are paths": {true, map[string]string{"cacp/sync/projects": `{"projects":["../../etc","a/b","..",""]}`}, ""},
		"R1-086 ids that are paths, of an agent": {false, map[string]string{"cacp/project/list": `{"projects":[{"projectId":"../../etc"}]}`,
			"cacp/project/get": `{"project_id":"../../etc","name":"n","objective":"o"}`}, ""},
		"R1-086 another project than asked for": {false, map[string]string{"cacp/project/list": `{"projects":[{"projectId":"p"}]}`,
			"cacp/project/get": `{"project_id":"q","name":"n","objective":"o","status":"planning","repos":[],"contracts":[],"context_history":[]}`}, "is malformed"},
		"R1-087 the same project without an end": {true, map[string]string{"cacp/sync/projects": `{"projects":[` + many + `"p"],"next":"p"}`}, ""},
		"R1-087 a hundred thousand packets": {true, map[string]string{"cacp/sync/projects": `{"projects":["good"]}`,
			"cacp/sync/summary": `{"projectId":"good","head":"x","contracts":[],"buckets":[{"n":1,"count":100000,"sum":"x"}]}`,
			"cacp/sync/packets": `{"packets":[` + ids.String() + `"p"]}`, "cacp/sync/copies": `{"copies":[` + head + `],"left":0}`}, ""},
		"R1-087 pages that do not end": {true, map[string]string{"cacp/sync/projects": `{"projects":["good"]}`,
			"cacp/sync/summary": `{"projectId":"good","head":"x","contracts":[],"buckets":[],"next":"a"}`, "cacp/sync/copies": `{"copies":[` + head + `],"left":7}`}, ""},
		"R1-083 a list that is none":        {true, map[string]string{"cacp/sync/projects": `{"projects":{}}`}, "is malformed"},
		"R1-083 nothing at all":             {true, map[string]string{"cacp/sync/projects": `null`}, ""},
		"R1-083 a negative rest":            {true, map[string]string{"cacp/sync/projects": `{"projects":["good"]}`, "cacp/sync/summary": `{"projectId":"good","head":"x"}`, "cacp/sync/copies": `{"copies":[],"left":-1}`}, "is malformed"},
		"R1-083 an agent that has no lists": {false, map[string]string{"cacp/project/list": `[]`}, "is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, test.native, test.results)
			n := against(t, s)
			eventually(t, "the peer was looked at", []*node{n}, func() bool {
				st := n.standing(&node{aid: s.aid})
				if test.fault != "" {
					return strings.Contains(st.Fault, test.fault)
				}
				return st.Health == hub.HealthUp && !n.outbox(s.aid).CatchUp
			})
			for _, id := range n.projectIDs() {
				if id != "good" && id != "p" {
					t.Errorf("project %q is here", id)
				}
			}
		})
	}
}

func (n *node) outbox(aid coord.AID) (box hub.Outbox) {
	n.t.Helper()
	err := n.store.View(n.t.Context(), func(r hub.Reader) (err error) {
		box, err = r.Outbox(aid)
		return err
	})
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		n.t.Fatal(err)
	}
	return box
}

func TestHostileFlood(t *testing.T) {
	t.Parallel()
	t.Run("R1-083 a peer that always claims to know more is not asked without an end", func(t *testing.T) {
		behind := `{"status":"updated","behind":true}`
		s := newScript(t, true, map[string]string{
			"cacp/project/sync": behind, "cacp/contract/sync": behind, "cacp/context/sync": behind, "cacp/sync/projects": `{"projects":[]}`,
		})
		n := against(t, s)
		project := n.project()
		settled := func() bool {
			return n.standing(&node{aid: s.aid}).Lag == 0 && n.outbox(s.aid).CatchUp == false && n.outbox(s.aid).Sent > 0
		}
		eventually(t, "all was sent", []*node{n}, settled)
		before := s.requests()
		const changes = 20
		for i := range changes {
			n.propose(project, fmt.Sprint("c", i))
		}
		eventually(t, "all was sent", []*node{n}, settled)
		if got := s.requests() - before; got > 10*changes {
			t.Errorf("%d requests for %d changes", got, changes)
		}
	})
	t.Run("R1-083 an agent that makes a project and then lacks it is not sent the project without an end", func(t *testing.T) {
		s := newScript(t, false, map[string]string{"cacp/project/list": `{"projects":[]}`, "cacp/project/sync": `{"status":"created"}`})
		n := against(t, s)
		n.propose(n.project(), "c")
		eventually(t, "the contract is a dead letter", []*node{n}, func() bool {
			st := n.standing(&node{aid: s.aid})
			return st.Lag == 0 && st.DeadLetters > 0 && !n.outbox(s.aid).CatchUp
		})
	})
	t.Run("R1-087 a body of 50 MiB is not read", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(50<<20))
			chunk := make([]byte, 1<<20)
			for range 50 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}))
		defer s.Close()
		c := peer.NewClient(&peer.ClientOptions{Guard: loopback, MaxAnswer: 1 << 20})
		defer c.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := c.Card(t.Context(), s.URL); hub.CodeOf(err) != hub.CodeTooLarge {
			t.Errorf("got %v", err)
		}
		runtime.ReadMemStats(&after)
		if grown := after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc); grown > 32<<20 {
			t.Errorf("memory grew by %d bytes", grown)
		}
	})
}

func TestSyncAnswers(t *testing.T) {
	t.Parallel()
	n := newNode(t, "alpha", nil)
	project := n.project()
	for i := range 300 {
		n.share(project, fmt.Sprint(i))
	}
	_, key, err := n.peers.AddPeer(t.Context(), operator, peers.NewPeer{AID: "aid://b.example/b@1.0.0", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	client := rpc.NewClient(n.server.URL, key, "", nil)
	ask := func(method, params string) (string, error) {
		raw, err := client.Raw(t.Context(), method, []byte(params))
		return string(raw), err
	}
	t.Run("R1-087 an answer has a bound", func(t *testing.T) {
		var packets struct{ Packets []string }
		all := make([]int, 256)
		for i := range all {
			all[i] = i
		}
		buckets, _ := json.Marshal(all) // numbers
		raw, err := ask("cacp/sync/packets", `{"projectId":"`+string(project)+`","buckets":`+string(buckets)+`}`)
		if err != nil || json.Unmarshal([]byte(raw), &packets) != nil || len(packets.Packets) != 300 {
			t.Fatalf("got %d packets, %v", len(packets.Packets), err)
		}
		ids, _ := json.Marshal(packets.Packets) // strings
		var got struct {
			Copies []federation.Copy
			Left   int
		}
		raw, err = ask("cacp/sync/copies", `{"projectId":"`+string(project)+`","head":true,"packets":`+string(ids)+`}`)
		if err != nil || json.Unmarshal([]byte(raw), &got) != nil || len(got.Copies) != 200 || got.Left != 101 {
			t.Errorf("got %d copies, %d left, %v", len(got.Copies), got.Left, err)
		}
	})
	t.Run("R1-083 what is asked wrongly is refused", func(t *testing.T) {
		for _, method := range []string{"cacp/sync/projects", "cacp/sync/summary", "cacp/sync/packets", "cacp/sync/copies"} {
			if _, err := ask(method, `[]`); hub.CodeOf(err) != hub.CodeInvalid {
				t.Errorf("%s: got %v", method, err)
			}
		}
		if _, err := ask("cacp/sync/summary", `{"projectId":"none"}`); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("got %v", err)
		}
		if got, err := ask("cacp/sync/packets", `{"projectId":"none","buckets":[-1,256,7]}`); err != nil || got != `{"packets":[]}` {
			t.Errorf("got %s, %v", got, err)
		}
		if _, err := ask("cacp/sync/summary", `{"projectId":"none","projectId":"other"}`); hub.CodeOf(err) != hub.CodeInvalid {
			t.Errorf("a name that is there twice: got %v", err)
		}
	})
}
