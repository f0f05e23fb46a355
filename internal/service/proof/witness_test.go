package proof_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/service/proof"
	"github.com/parley-agents/parley/internal/testing/storetest"
)

// A network has logs under their addresses, and serves them as a hub does.
type network map[string]*proof.Log

func (n network) call(ctx context.Context, method, address string, body []byte) (int, []byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, nil, err
	}
	l := n[u.Scheme+"://"+u.Host]
	if l == nil {
		return 0, nil, errors.New("connection refused")
	}
	answer := func(text string, err error) (int, []byte, error) {
		if err != nil {
			return http.StatusNotFound, []byte(err.Error()), nil
		}
		return http.StatusOK, []byte(text), nil
	}
	switch tile, isTile := strings.CutPrefix(u.Path, "/tile/"); {
	case isTile:
		hashes, err := l.Tile(ctx, tile)
		return answer(string(hashes), err)
	case u.Path == "/add-checkpoint":
		status, text, err := l.Cosign(ctx, string(body))
		return status, []byte(text), err
	case u.Path == "/witnessed":
		return answer(l.Seen(ctx, u.Query().Get("log")))
	}
	keys, err := l.Keys(ctx)
	text := ""
	for _, k := range keys {
		text += k.Text + "\n"
	}
	return answer(text, err)
}

// A node is a hub in a network. Its operator reads told.
type node struct {
	*world
	home *storetest.Home
	told []string
}

// open opens the store of a home with a log under an address.
func (n network) open(t *testing.T, home *storetest.Home, address, secret string) *node {
	t.Helper()
	out := &node{home: home}
	out.world = &world{TB: t, store: home.Open(), now: epoch.Time}
	t.Cleanup(func() { out.store.Close() })
	out.log = proof.New(out.store, key(secret), &proof.Options{
		Clock: func() time.Time { out.now = out.now.Add(time.Second); return out.now }, Call: n.call,
		TellOperator: func(_ hub.Tx, payload any) (hub.Message, error) {
			out.told = append(out.told, payload.(map[string]any)["message"].(string))
			return hub.Message{}, nil
		},
	})
	n[address] = out.log
	return out
}

func (w *world) peer(aid coord.AID, endpoint string) {
	w.Helper()
	w.update(func(tx hub.Tx) error {
		return tx.PutPeer(hub.Peer{AID: aid, Endpoint: endpoint, State: hub.PeerApproved, Access: coord.AccessFull, Health: hub.HealthUp, AddedAt: coord.InstantAt(epoch.Time)})
	})
}

// witnesses makes two hubs each other's witnesses.
func witnesses(t *testing.T) (n network, a, b *node) {
	n = network{}
	a = n.open(t, storetest.NewHome(t, t.TempDir()), "http://a.example", "a")
	b = n.open(t, storetest.NewHome(t, t.TempDir()), "http://b.example", "b")
	a.peer("aid://b.example/hub", "http://b.example")
	b.peer("aid://a.example/hub", "http://a.example")
	a.noise(300)
	a.grow()
	b.noise(5)
	b.grow()
	for _, x := range []struct {
		of   *node
		peer coord.AID
	}{{a, "aid://b.example/hub"}, {b, "aid://a.example/hub"}} {
		if _, err := x.of.log.AddWitness(t.Context(), operator, x.peer); err != nil {
			t.Fatal(err)
		}
		x.of.grow()
	}
	return n, a, b
}

// backup copies the home of the first hub, and starts the hub again.
func (n *node) backup(t *testing.T, net network) (*storetest.Home, *node) {
	t.Helper()
	if err := n.store.Close(); err != nil {
		t.Fatal(err)
	}
	return n.home.Copy(t, t.TempDir()), net.open(t, n.home, "http://a.example", "a")
}

func (n *node) ask() {
	n.Helper()
	if err := n.log.AskWitnesses(n.Context()); err != nil {
		n.Fatal(err)
	}
}

// fault returns why the last exchange with the one witness failed.
func (n *node) fault() string {
	n.Helper()
	all, err := n.log.Witnesses(n.Context())
	if err != nil || len(all) != 1 {
		n.Fatalf("got %+v, %v", all, err)
	}
	return all[0].Fault
}

func (n *node) newest() string {
	n.Helper()
	c, err := n.log.Newest(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	return c.Note
}

func TestWitnesses(t *testing.T) {
	net, a, b := witnesses(t)
	keyB := b.trusted()[0]

	t.Run("a peer cosigns each newest checkpoint that continues the last", func(t *testing.T) {
		for range 3 {
			a.noise(40)
			a.grow()
			a.ask()
			if _, ok := keyB.Cosigned(a.newest()); !ok || a.fault() != "" {
				t.Fatalf("no cosignature (%q): %s", a.fault(), a.newest())
			}
		}
		a.ask() // the same checkpoint once more
		if strings.Count(a.newest(), "\n\u2014 ") > 3 {
			t.Errorf("got %s", a.newest())
		}
		wantFindings(t, a.store)
	})
	t.Run("files have the checkpoint with its cosignatures, and verify names witnesses whose keys are trusted", func(t *testing.T) {
		a.handOver()
		for _, id := range []hub.AgentID{"builder", "planner"} {
			a.update(func(tx hub.Tx) error {
				return tx.PutAgent(hub.Agent{ID: id, Role: hub.RoleExecutor, State: hub.AgentActive, CreatedAt: epoch}, "")
			})
		}
		a.grow()
		a.ask()
		a.noise(3)
		a.grow() // this checkpoint has no cosignature
		made := a.prove(string(a.handoff.ID))
		got, err := proof.Verify(bytesOf(t, made), append(a.trusted(), keyB))
		if err != nil || !slices.Equal(got.Cosigned, []string{keyB.Name}) {
			t.Errorf("got %+v, %v", got.Cosigned, err)
		}
		if got, err := proof.Verify(bytesOf(t, made), a.trusted()); err != nil || len(got.Cosigned) > 0 {
			t.Errorf("without the key of the witness: %+v, %v", got.Cosigned, err)
		}
		made.Checkpoint = strings.Replace(made.Checkpoint, keyB.Name+" ", keyB.Name+" AAAA", 1)
		if got, err := proof.Verify(bytesOf(t, made), append(a.trusted(), keyB)); err == nil && len(got.Cosigned) > 0 {
			t.Error("a changed cosignature counts")
		}
	})
	t.Run("nothing but a continuation of a known log is cosigned", func(t *testing.T) {
		g, err := a.log.Since(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := attest.NewSigner(a.trusted()[0].Name, key("mallory"))
		if err != nil {
			t.Fatal(err)
		}
		forged, err := other.Checkpoint(5, attest.Hash{1})
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := attest.NewSigner("parley/stranger", key("mallory"))
		if err != nil {
			t.Fatal(err)
		}
		unknown, err := stranger.Checkpoint(5, attest.Hash{1})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			request string
			want    int
		}{
			"a text":                         {"hello", http.StatusBadRequest},
			"a request without a checkpoint": {"old 0\n\nhello", http.StatusBadRequest},
			"a log that is not known":        {attest.Growing{Note: unknown}.String(), http.StatusNotFound},
			"another key of a known log":     {attest.Growing{Note: forged}.String(), http.StatusForbidden},
			"another last checkpoint":        {g.String(), http.StatusConflict},
			"an old size beyond":             {attest.Growing{Old: 1 << 40, Note: g.Note}.String(), http.StatusBadRequest},
		} {
			status, text, err := b.log.Cosign(t.Context(), c.request)
			if err != nil || status != c.want {
				t.Errorf("%s: got %d %s, %v; want %d", name, status, text, err, c.want)
			}
		}
		_, text, err := b.log.Cosign(t.Context(), g.String())
		if size, err2 := strconv.Atoi(text); err != nil || err2 != nil || size == 0 {
			t.Errorf("the answer names no size: %q, %v", text, err)
		}
	})
	t.Run("a witness that is away is asked again, and stops nothing", func(t *testing.T) {
		delete(net, "http://b.example")
		a.noise(1)
		a.grow()
		a.ask()
		if !strings.Contains(a.fault(), "connection refused") {
			t.Errorf("got %q", a.fault())
		}
		net["http://b.example"] = b.log
		a.ask()
		if _, ok := keyB.Cosigned(a.newest()); !ok || a.fault() != "" {
			t.Errorf("no cosignature (%q)", a.fault())
		}
	})
	t.Run("only the operator adds a witness, and only a peer", func(t *testing.T) {
		if _, err := a.log.AddWitness(t.Context(), builder, "aid://b.example/hub"); hub.CodeOf(err) != hub.CodeDenied {
			t.Errorf("an agent: %v", err)
		}
		if _, err := a.log.AddWitness(t.Context(), operator, "aid://c.example/hub"); hub.CodeOf(err) != hub.CodeNotFound {
			t.Errorf("no peer: %v", err)
		}
	})
}

// TestTwoHistories holds that a hub that shows two histories is found by its witness, with both notes.
func TestTwoHistories(t *testing.T) {
	for name, more := range map[string]int{"of one size": 0, "of which one goes on": 9} {
		t.Run(name, func(t *testing.T) {
			net, a, b := witnesses(t)
			other, a := a.backup(t, net)
			a.noise(10)
			a.grow()
			a.ask()
			seen := a.newest()
			if _, ok := b.trusted()[0].Cosigned(seen); !ok {
				t.Fatalf("no cosignature: %s", seen)
			}

			// The same hub, with the same key, and another history.
			twin := net.open(t, other, "http://a.example", "a")
			twin.update(func(tx hub.Tx) error { return appendRow(tx, "mallory", "hub.started", "", nil) })
			twin.noise(9 + more)
			twin.grow()
			twin.ask()
			note := twin.newest()
			if len(b.told) != 1 || !strings.Contains(b.told[0], "two histories") || !strings.Contains(b.told[0], strings.TrimSpace(note)) {
				t.Fatalf("the operator of the witness reads %q", b.told)
			}
			if !strings.Contains(b.told[0], strings.Split(seen, "\n")[2]) {
				t.Errorf("the first note is not in %q", b.told[0])
			}
			if len(twin.told) != 1 || !strings.Contains(twin.told[0], "two histories") || !strings.Contains(twin.told[0], "parley hub key --new") {
				t.Errorf("its own operator reads %q", twin.told)
			}
			if strings.Contains(twin.newest(), b.trusted()[0].Name) {
				t.Error("the second history was cosigned")
			}
			twin.noise(1)
			if err := twin.log.Grow(t.Context()); err == nil {
				t.Error("it signs on")
			}
			twin.ask() // once is enough
			if len(b.told) != 1 {
				t.Errorf("the operator of the witness reads %q", b.told)
			}
		})
	}
}

// TestRestoredBackup holds that a hub whose journal is older than a checkpoint of its witness says so at
// its start, signs nothing, and goes on as a new log after the operator's word.
func TestRestoredBackup(t *testing.T) {
	net, a, _ := witnesses(t)
	backup, a := a.backup(t, net)
	a.noise(10)
	a.grow()
	a.ask()

	restored := net.open(t, backup, "http://a.example", "a")
	before := restored.newest()
	restored.noise(2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { restored.log.Run(ctx); close(done) }()
	for restored.log.Stopped() == nil {
		select {
		case <-t.Context().Done():
			t.Fatal("it goes on")
		default:
		}
	}
	cancel()
	<-done
	if len(restored.told) != 1 || !strings.Contains(restored.told[0], "restored from an older backup") || !strings.Contains(restored.told[0], "parley hub key --new") {
		t.Errorf("the operator reads %q", restored.told)
	}
	if restored.newest() != before {
		t.Error("it signed a checkpoint")
	}
	if _, err := restored.log.Prove(t.Context(), operator, proof.Request{ID: "l1"}); hub.CodeOf(err) != hub.CodeDegraded {
		t.Errorf("prove: %v", err)
	}

	if _, err := restored.log.Renew(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	restored.grow()
	wantRoot(t, restored.store, restored.log)
	wantFindings(t, restored.store)
}
