// Package proof makes files with which strangers check what a hub says, without the hub, and checks
// those files.
//
// Beside the journal, whose rows form a chain, stands a Merkle tree with one leaf for each row. A
// consumer of the journal adds the leaves and signs checkpoints, never on the path of a send. A file
// has a few rows of the journal whole, each with the proof that one checkpoint has it, and statements
// about nouns of the hub. A statement has the record of its noun, and a row has the digest of that
// record, so that a statement says no more than its rows. The last statement lists all parts of the
// file, so that a part cannot be cut out.
//
// A log proves that a row is there, never that none follows: a file speaks of the moment of its
// checkpoint.
package proof

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/internal/ground/attest"
)

// Cursor names the tree among the consumers of the journal.
const Cursor = "proof.tree"

// Options changes how a Log works. The zero value works.
type Options struct {
	Clock hub.Clock    // default time.Now
	Bus   hub.Bus      // gives hints that the journal has grown; may be nil
	Log   *slog.Logger // default silent

	// Archived calls each with the entries after a number that are in archives alone, for the tree of
	// a journal that is older than the tree; may be nil.
	Archived func(ctx context.Context, after int64, each func(hub.Entry) error) error

	// Call calls another hub; may be nil.
	Call func(ctx context.Context, method, url string, body []byte) (status int, answer []byte, err error)

	// TellOperator writes a message of the hub to the operator inside tx; may be nil.
	TellOperator func(tx hub.Tx, payload any) (hub.Message, error)
	// Announce announces messages after their commit; may be nil.
	Announce func(...hub.Message)
}

// A Log is the tree over the journal of one store, with the key that signs its checkpoints.
type Log struct {
	store  hub.Store
	secret ed25519.PrivateKey // of the hub; the first log signs with it
	o      Options

	mu        sync.Mutex // guards the fields below
	stopped   error      // why the tree does not grow any more; nil while it does
	stoppedIn string     // the id of the log that stopped
}

// New returns the log of a store. secret is the hub's key.
func New(store hub.Store, secret ed25519.PrivateKey, opts *Options) *Log {
	l := &Log{store: store, secret: secret}
	if opts != nil {
		l.o = *opts
	}
	if l.o.Clock == nil {
		l.o.Clock = time.Now
	}
	if l.o.Log == nil {
		l.o.Log = slog.New(slog.DiscardHandler)
	}
	return l
}

// An identity is what the store knows about the log: its name and the keys that signed in it.
type identity struct {
	ID   string    `json:"id"`
	Keys []signing `json:"keys"` // the newest last

	// Renewed is the number of logs before this one. Each has a name and a key of its own.
	Renewed int `json:"renewed,omitempty"`
	// Contradicted says which checkpoint of the log a witness has that the journal contradicts. The log
	// signs no more.
	Contradicted string `json:"contradicted,omitempty"`
}

// A signing is a key with the size of the tree from which on it signs.
type signing struct {
	Key   string `json:"key"`
	Since int64  `json:"since"`
}

// logKey is where the identity of the log is stored.
const logKey = "proof/log"

func (i identity) name() string { return "parley/" + i.ID }

// signer returns the signer of the log.
func (l *Log) signer(who identity) (*attest.Signer, error) {
	private := l.secret
	if who.Renewed > 0 {
		seed, err := hkdf.Key(sha256.New, l.secret.Seed(), nil, "parley/1 log "+who.ID, ed25519.SeedSize)
		if err != nil {
			return nil, fmt.Errorf("proof: the key of the log: %w", err)
		}
		private = ed25519.NewKeyFromSeed(seed)
	}
	return attest.NewSigner(who.name(), private)
}

// newID returns the id of a new log.
func newID() string {
	var random [8]byte
	rand.Read(random[:]) // never fails: the runtime ends the program instead
	return hex.EncodeToString(random[:])
}

// errNoLog says that the store has no log yet.
var errNoLog = hub.Errorf(hub.CodeNotFound, "proof", "this hub has no checkpoint yet").WithHint("try again in a second")

// Key returns the public key of the log as checkpoints need it.
func (l *Log) Key(ctx context.Context) (attest.Key, error) {
	s, err := l.sign(ctx)
	if err != nil {
		return attest.Key{}, err
	}
	return s.Key, nil
}

// Keys returns the keys that signed in the log, the newest first.
func (l *Log) Keys(ctx context.Context) ([]attest.Key, error) {
	who, err := hub.Read(ctx, l.store, func(r hub.Reader) (identity, error) { return hub.ReadMeta[identity](r, logKey) })
	if err != nil {
		return nil, err
	}
	var all []attest.Key
	for i := len(who.Keys) - 1; i >= 0; i-- {
		k, err := attest.ParseKey(who.Keys[i].Key)
		if err != nil {
			return nil, fmt.Errorf("proof: the stored key: %w", err)
		}
		all = append(all, k)
	}
	return all, nil
}

// isBroken reports whether an error is a contradiction of tree and journal.
func isBroken(err error) bool {
	_, ok := errors.AsType[*broken](err)
	return ok
}

// sign returns the signer of the log, which exists after the first step. Another hub on the store may
// have begun a new log.
func (l *Log) sign(ctx context.Context) (*attest.Signer, error) {
	who, err := hub.Read(ctx, l.store, func(r hub.Reader) (identity, error) { return hub.ReadMeta[identity](r, logKey) })
	if err != nil {
		return nil, err
	}
	if who.ID == "" {
		return nil, errNoLog
	}
	if who.Contradicted != "" {
		return nil, &broken{text: who.Contradicted, ends: true}
	}
	s, err := l.signer(who)
	if err != nil {
		return nil, err
	}
	if n := len(who.Keys); n == 0 || who.Keys[n-1].Key != s.Key.Text {
		return nil, errNoLog
	}
	return s, nil
}

// begin makes the log in an empty store, and notes a key that signs from now on: that of a home which
// was made from an export.
func (l *Log) begin(ctx context.Context, store hub.Store) error {
	if _, err := l.sign(ctx); !errors.Is(err, errNoLog) {
		return err
	}
	return store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		who, err := hub.ReadMeta[identity](tx, logKey)
		if err != nil {
			return err
		}
		if who.ID == "" {
			who.ID = newID()
		}
		s, err := l.signer(who)
		if err != nil {
			return err
		}
		if n := len(who.Keys); n > 0 && who.Keys[n-1].Key == s.Key.Text {
			return nil
		}
		return l.note(tx, hub.Caller{ID: hub.Self}, who, s.Key)
	})
}

// note stores the log with a new key of it. Except for the first key, a row names the last checkpoint
// before.
func (l *Log) note(tx hub.Tx, caller hub.Caller, who identity, key attest.Key) error {
	size, err := tx.Cursor(Cursor)
	if err != nil {
		return err
	}
	who.Keys = append(who.Keys, signing{key.Text, size})
	if err := hub.WriteMeta(tx, logKey, who); err != nil || len(who.Keys) == 1 {
		return err
	}
	facts := map[string]any{"key": key.Text, "size": size}
	if last, err := tx.Tree().Checkpoints(0, true, 1); err != nil {
		return err
	} else if len(last) > 0 {
		facts["after"] = last[0].Note
	}
	_, err = tx.Append(caller.Entry(hub.At(l.o.Clock()), actions.LogKey, who.name(), facts))
	return err
}

// Renew begins a new log over the same journal, with a name and a key of its own: after a key was lost,
// and after a backup was restored that is older than a checkpoint that others have. Its first row names
// the last checkpoint of the log before.
func (l *Log) Renew(ctx context.Context, caller hub.Caller) (attest.Key, error) {
	const op = "proof.Renew"
	if !caller.IsOperator() {
		return attest.Key{}, hub.Errorf(hub.CodeDenied, op, "only the operator begins a new log")
	}
	var key attest.Key
	err := l.store.Update(ctx, hub.SurvivesKill, func(tx hub.Tx) error {
		who, err := hub.ReadMeta[identity](tx, logKey)
		if err != nil {
			return err
		}
		if who.ID == "" {
			return errNoLog
		}
		who.ID = newID()
		who.Contradicted = ""
		who.Renewed++
		s, err := l.signer(who)
		if err != nil {
			return err
		}
		key = s.Key
		return l.note(tx, caller, who, key)
	})
	if err != nil {
		return attest.Key{}, err
	}
	l.mu.Lock()
	l.stopped = nil
	l.mu.Unlock()
	return key, nil
}
