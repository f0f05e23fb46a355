package peer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/reach/peer"
	"github.com/parley-agents/parley/internal/service/contract"
	"github.com/parley-agents/parley/internal/service/peers"
	"github.com/parley-agents/parley/internal/testing/patience"
)

// TestKilledHub is the hub that TestKill kills. By itself it does nothing.
func TestKilledHub(t *testing.T) {
	home := os.Getenv("PARLEY_KILLED_HOME")
	if home == "" {
		return
	}
	n := newNodeIn(t, "killed", home, nil, peer.ClientOptions{Guard: loopback, Timeout: 5 * time.Second})
	say := func(words ...any) { fmt.Println(append([]any{"@"}, words...)...) }
	key := ""
	if _, secret, err := n.peers.AddPeer(t.Context(), operator, peers.NewPeer{
		AID: coord.AID(os.Getenv("PARLEY_KILLED_PEER")), Endpoint: os.Getenv("PARLEY_KILLED_URL"), Key: os.Getenv("PARLEY_KILLED_KEY"),
	}); err == nil {
		key = secret
	} else if hub.CodeOf(err) != hub.CodeConflict {
		t.Fatal(err)
	}
	say("ready", n.server.URL, key)
	n.start()
	project := coord.ProjectID(os.Getenv("PARLEY_KILLED_PROJECT"))
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() { // one line, one change; the answer is the acknowledgement
		r, err := n.contracts.Propose(t.Context(), n.caller(), contract.Proposal{InProject: contract.In(project), Type: coord.ContractCustom, Name: in.Text(), Content: json.RawMessage(`{}`)})
		if hub.CodeOf(err) == hub.CodeNotFound {
			say("later") // the project is not here yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		say("ack", r.Contract.ID)
	}
}

// killed is the hub in a process of its own.
type killed struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []string
}

func startKilled(t *testing.T, env ...string) *killed {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHub$")
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &killed{cmd, in, make(chan []string, 100)}
	go func() {
		defer close(k.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if words := strings.Fields(s.Text()); len(words) > 1 && words[0] == "@" {
				k.lines <- words[1:]
			} else {
				t.Log(s.Text())
			}
		}
	}()
	t.Cleanup(k.kill)
	return k
}

// next returns what the hub says next; nil if it is gone.
func (k *killed) next(t *testing.T) []string {
	t.Helper()
	select {
	case words := <-k.lines:
		return words
	case <-time.After(patience.For(time.Minute)):
		t.Fatal("the hub says nothing")
	}
	return nil
}

func (k *killed) kill() {
	k.cmd.Process.Kill() // gone already in most cases
	for range k.lines {
	}
	k.cmd.Wait() // killed on purpose
}

// TestKill kills a hub while it and another one tell each other of changes,
// again and again. PARLEY_CHAOS_KILLS says how often (3), PARLEY_CHAOS_SEED repeats a run.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := 3
	if s := os.Getenv("PARLEY_CHAOS_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	given := uint64(0)
	if s := os.Getenv("PARLEY_CHAOS_SEED"); s != "" {
		var err error
		if given, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	patience.Random(t, given, 1, func(random *rand.Rand) { killPeer(t, kills, random) })
}

// killPeer kills a hub after random numbers of changes.
func killPeer(t *testing.T, kills int, random *rand.Rand) {
	t.Helper()
	b := newNode(t, "beta", nil)
	const aid = coord.AID("aid://killed.example/killed@1.0.0")
	p, err := b.contracts.CreateProject(t.Context(), b.caller(), contract.NewProject{Name: "n", Objective: "o", Repos: []coord.Repo{
		{Name: b.repo, Role: "backend", Language: "go"}, {Name: "killed-repo", Role: "frontend", Language: "go"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := b.peers.AddPeer(t.Context(), operator, peers.NewPeer{AID: aid, Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env := []string{"PARLEY_KILLED_HOME=" + home, "PARLEY_KILLED_PEER=" + string(b.aid), "PARLEY_KILLED_URL=" + b.server.URL, "PARLEY_KILLED_KEY=" + key, "PARLEY_KILLED_PROJECT=" + string(p.ID)}
	b.start()
	var promised []coord.ContractID
	begin := func() *killed {
		k := startKilled(t, env...)
		ready := k.next(t)
		if len(ready) < 2 || ready[0] != "ready" {
			t.Fatalf("the hub says %v", ready)
		}
		if len(ready) > 2 {
			b.setKey(aid, ready[2])
		}
		if _, err := b.peers.RegisterPeer(t.Context(), operator, peers.NewPeer{AID: aid, Endpoint: ready[1]}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	work := func(k *killed, changes int) {
		for n := 0; n < changes; {
			fmt.Fprintln(k.in, "theirs")
			words := k.next(t)
			if words[0] == "ack" {
				promised = append(promised, coord.ContractID(words[1]))
				promised = append(promised, b.propose(p.ID, "ours"))
				n++
			}
		}
	}
	for range kills {
		k := begin()
		work(k, 5+random.IntN(20))
		fmt.Fprintln(k.in, "unanswered")
		k.kill()
		promised = append(promised, b.propose(p.ID, "while it is dead"))
	}
	k := begin()
	work(k, 1)
	t.Run("R1-083 hubs that are killed while they sync converge, and nothing acknowledged is lost", func(t *testing.T) {
		last := promised[len(promised)-1]
		eventually(t, "every change is here", []*node{b}, func() bool {
			for _, id := range promised {
				if b.status(p.ID, id) == "" {
					return false
				}
			}
			return b.status(p.ID, last) != ""
		})
		eventually(t, "nothing is left to send", []*node{b}, func() bool { return b.standing(&node{aid: aid}).Lag == 0 })
		// Look at the other side's store, which nobody has open any more.
		fmt.Fprintln(k.in, "last")
		if words := k.next(t); words[0] == "ack" {
			promised = append(promised, coord.ContractID(words[1]))
		}
		k.kill()
		b.stop()
		other := newNodeIn(t, "killed", home, nil, peer.ClientOptions{Guard: loopback})
		for _, id := range promised {
			if other.status(p.ID, id) == "" {
				t.Errorf("%s is not on the hub that was killed", id)
			}
		}
		other.start()
		b.start()
		if _, err := b.peers.RegisterPeer(t.Context(), operator, peers.NewPeer{AID: aid, Endpoint: other.server.URL}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both have the same", []*node{b, other}, same(b, other, p.ID))
	})
	t.Logf("%d kills, %d changes acknowledged", kills, len(promised))
}
