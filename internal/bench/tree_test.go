package bench_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/engine/sqlite"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/strictjson"
	"github.com/parley-agents/parley/internal/service/keys"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/proof"
)

// treeKey is the key that signs checkpoints in benchmarks.
func treeKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bench"))
	return ed25519.NewKeyFromSeed(seed[:])
}

// treeRows is the number of rows of an old journal.
const treeRows = 1_000_000

// tree measures the Merkle tree over the journal: beside sends, over an old journal, and files among
// its rows.
func (t *table) tree() {
	t.sendsWithTree()
	t.oldJournal()
}

// sendsWithTree compares sends with the tree growing beside them and sends without it.
func (t *table) sendsWithTree() {
	b := t.b
	mailOf := func(hasTree bool) load {
		store, err := sqlite.Open(b.TempDir(), nil)
		must(b, err)
		b.Cleanup(func() { store.Close() })
		addAgents(b, store)
		mail, err := mailroom.New(store, keys.New(store, nil), &mailroom.Options{Limits: mailroom.Limits{Unsafe: true}})
		must(b, err)
		if hasTree {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				proof.New(store, treeKey(), nil).Run(ctx)
			}()
			b.Cleanup(func() { cancel(); <-done })
		}
		return func(stop <-chan struct{}) int64 {
			return crowd(senders, stop, func(w int, _ int64) {
				draft := mailroom.Draft{To: []hub.AgentID{benchAgent(w + 1)}, Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))}
				if _, err := mail.Send(context.Background(), hub.Caller{ID: benchAgent(w), Role: hub.RoleExecutor}, draft); err != nil {
					b.Error(err)
				}
			})
		}
	}
	with, without := turns(mailOf(true), mailOf(false))
	t.ratio("durable Send, 64 senders: with the tree over the journal / without", with, without, "/s", 0.97, true)
}

// oldJournal measures the tree of a journal that has none yet, and a file of a message among its rows.
func (t *table) oldJournal() {
	b := t.b
	store, err := sqlite.Open(b.TempDir(), nil)
	must(b, err)
	defer store.Close()
	addAgents(b, store)
	mail, err := mailroom.New(store, keys.New(store, nil), &mailroom.Options{Limits: mailroom.Limits{Unsafe: true}})
	must(b, err)
	fill := func(rows int) {
		const batch = 5000
		for range rows / batch {
			must(b, store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
				for range batch {
					if _, err := tx.Append(hub.Caller{ID: hub.Self}.Entry(hub.At(time.Now()), actions.HubStarted, "", nil)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	fill(treeRows / 2)
	sent, err := mail.Send(b.Context(), hub.Caller{ID: benchAgent(0), Role: hub.RoleExecutor}, mailroom.Draft{To: []hub.AgentID{benchAgent(1)}, Type: hub.TypeStatusUpdate, Payload: strictjson.Trust([]byte(benchPayload))})
	must(b, err)
	fill(treeRows / 2)

	log := proof.New(store, treeKey(), nil)
	began := time.Now()
	must(b, log.Grow(b.Context()))
	t.most("the tree over an old journal of 1,000,000 rows", time.Since(began).Seconds(), 20, "s")

	operator := hub.Caller{Kind: hub.CallerOperator, ID: hub.Operator}
	var proving, verifying []float64
	var size int
	key, err := log.Key(b.Context())
	must(b, err)
	for range 20 {
		began := time.Now()
		made, err := log.Prove(b.Context(), operator, proof.Request{ID: string(sent.ID)})
		must(b, err)
		proving = append(proving, float64(time.Since(began).Microseconds())/1000)
		raw, err := json.Marshal(made.File)
		must(b, err)
		row, err := json.Marshal(made.File.Rows[0])
		must(b, err)
		size = len(row)
		began = time.Now()
		_, err = proof.Verify(raw, []attest.Key{key})
		must(b, err)
		verifying = append(verifying, float64(time.Since(began).Microseconds())/1000)
	}
	t.most("prove, among 1,000,000 rows, median", median(proving), 20, "ms")
	t.most("verify, median", median(verifying), 5, "ms")
	t.most("a row of 1,000,000 with its proof", float64(size), 2048, "bytes")
}
