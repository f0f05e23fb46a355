package proof_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/actions"
	"github.com/parley-agents/parley/hub/coord"
	"github.com/parley-agents/parley/hub/schema"
	"github.com/parley-agents/parley/internal/ground/attest"
	"github.com/parley-agents/parley/internal/ground/shape"
	"github.com/parley-agents/parley/internal/service/proof"
)

func packageHash(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	hash, err := shape.PackageHash(raw)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// trusted returns the key of a log as a caller trusts it.
func (w *world) trusted() []attest.Key {
	w.Helper()
	k, err := w.log.Key(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return []attest.Key{k}
}

func TestProve(t *testing.T) {
	w := newWorld(t)
	file := w.prove("l1")
	raw := bytesOf(t, file)

	t.Run("a file of a landing has its handoff, both checks and the review, in at most 24 KiB", func(t *testing.T) {
		got, err := proof.Verify(raw, w.trusted())
		if err != nil {
			t.Fatal(err)
		}
		var nouns []string
		for _, s := range got.Statements {
			nouns = append(nouns, s.Noun)
		}
		if want := "landing,check result,check result,review,handoff"; strings.Join(nouns, ",") != want {
			t.Errorf("got %v", nouns)
		}
		if len(raw) > 24<<10 {
			t.Errorf("it has %d bytes", len(raw))
		}
		if got.State != "landed" || !got.IsOf(commit[:8]) || !got.IsOf(merged) || got.IsOf("17920d") || got.IsOf(tree) {
			t.Errorf("it is %s of %v", got.State, got.Commits())
		}
		if h := got.Statements[4].Handoff; h == nil || h.Proof != hub.ProofVerified || len(h.Steps) != 1 || h.Title != "Fix <login> & logout" || h.Package != nil {
			t.Errorf("the handoff: %+v", h)
		}
	})
	t.Run("a key that the caller does not trust is unknown, though all fits", func(t *testing.T) {
		other, err := attest.NewSigner("parley/other", key("other"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = proof.Verify(raw, []attest.Key{other.Key})
		if _, ok := errors.AsType[*proof.UnknownKey](err); !ok {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the owner of a landing and auditors prove it, no other agent", func(t *testing.T) {
		for _, c := range []hub.Caller{builder, {Kind: hub.CallerAgent, ID: "eve", Auditor: true}} {
			if _, err := w.log.Prove(t.Context(), c, proof.Request{ID: "l1"}); err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		}
		for _, id := range []string{"l1", "l9", "v1", string(w.handoff.ID), "nothing"} {
			if _, err := w.log.Prove(t.Context(), stranger, proof.Request{ID: id}); hub.CodeOf(err) != hub.CodeNotFound {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
	t.Run("the caller reads what leaves", func(t *testing.T) {
		made, err := w.log.Prove(t.Context(), operator, proof.Request{ID: "l1"})
		if err != nil {
			t.Fatal(err)
		}
		l := made.Leaves
		for _, want := range []struct {
			in   []string
			text string
		}{{l.Folders, "/src/shop"}, {l.Machines, "desk"}, {l.Names, "builder"}, {l.Names, "codex"}, {l.Texts, "Fix <login> & logout"}, {l.Texts, "2 files are not committed"}} {
			if !slices.Contains(want.in, want.text) {
				t.Errorf("%q is not listed: %+v", want.text, l)
			}
		}
	})
	t.Run("every noun by itself, and the package with its text", func(t *testing.T) {
		for _, id := range []string{"v1", "c1", string(w.handoff.ID)} {
			if _, err := proof.Verify(bytesOf(t, w.prove(id)), w.trusted()); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		made, err := w.log.Prove(t.Context(), operator, proof.Request{ID: string(w.handoff.ID), WithText: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := proof.Verify(bytesOf(t, made.File), w.trusted())
		if err != nil || !strings.Contains(string(got.Statements[0].Handoff.Package), "origin_session") {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("a noun that was changed behind the hub is not provable", func(t *testing.T) {
		e := w.entry
		e.Handoff = ""
		e.State = hub.EntryUndone
		w.update(func(tx hub.Tx) error { _, err := tx.WriteLandings().PutEntry(e); return err })
		_, err := w.log.Prove(t.Context(), operator, proof.Request{ID: "l1"})
		if hub.CodeOf(err) != hub.CodeUnproven || !strings.Contains(err.Error(), "not provable") {
			t.Errorf("got %v", err)
		}
	})
}

func TestUndone(t *testing.T) {
	w := newWorld(t)
	before := w.prove("l1")
	w.undo()

	after, err := proof.Verify(bytesOf(t, w.prove("l1")), w.trusted())
	if err != nil || after.State != "undone" || after.Statements[0].Landing.Because != "it broke the shop" {
		t.Errorf("after the undo: %s, %v", after.State, err)
	}
	old, err := proof.Verify(bytesOf(t, before), w.trusted())
	if err != nil || old.State != "landed" || old.Rows >= after.Rows {
		t.Errorf("the honest older file: %s as of row %d, %v", old.State, old.Rows, err)
	}
}

// TestContract holds that the present version of a contract is provable, with the bytes of its content.
func TestContract(t *testing.T) {
	w := newWorld(t)
	at := coord.InstantAt(epoch.Time)
	p := coord.Project{ID: "shop", Name: "shop", Status: coord.ProjectPlanning, CreatedAt: at, UpdatedAt: at}
	c := coord.Contract{
		Project: p.ID, ID: "get-user", Type: coord.ContractTypes[0], Name: "Get User", Version: 1, Status: coord.ContractAgreed, Content: json.RawMessage(`{"path": "/users/<id>", "n": 1.0}`),
		ProposedBy: "frontend", CreatedAt: at, UpdatedAt: at, Implementations: []coord.Implementation{},
		Agreements: []coord.Agreement{{Repo: "backend", Agent: "aid://b.example/builder", Version: 1, Content: strings.Repeat("a", 64), At: at}},
	}
	w.update(func(tx hub.Tx) error {
		if err := tx.WriteCoordination().PutProject(p, coord.Project{}); err != nil {
			return err
		}
		if err := tx.WriteCoordination().PutContract(c, coord.Contract{}); err != nil {
			return err
		}
		return appendRow(tx, "builder", actions.ContractProposed, string(c.ID), map[string]any{"project_id": p.ID, "sha256": c.Digest()})
	})
	w.grow()
	made, err := w.log.Prove(t.Context(), builder, proof.Request{ID: string(c.ID)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := proof.Verify(bytesOf(t, made.File), w.trusted())
	if err != nil || got.State != "agreed" || string(got.Statements[0].Contract.Content) != string(c.Content) {
		t.Errorf("got %+v, %v", got, err)
	}
	if !slices.Contains(made.Leaves.Texts, string(c.Content)) || !slices.Contains(made.Leaves.Texts, "Get User") {
		t.Errorf("not all that leaves is listed: %+v", made.Leaves)
	}
	published, err := schema.Text("attestation/contract")
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Predicate json.RawMessage }
	if err := json.Unmarshal(payloadOf(t, made.File.Statements[0]), &s); err != nil {
		t.Fatal(err)
	}
	conforms(t, "the predicate", string(published), s.Predicate)
	for path, payload := range changes(t, payloadOf(t, made.File.Statements[0])) {
		f := clone(t, made.File)
		signer, err := attest.NewSigner(w.trusted()[0].Name, key("hub"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Statements[0], err = signer.Seal(payload); err != nil {
			t.Fatal(err)
		}
		if _, err := proof.Verify(bytesOf(t, f), w.trusted()); err == nil {
			t.Errorf("another %s passes", path)
		}
	}

	c.Status = coord.ContractVerified
	w.update(func(tx hub.Tx) error {
		was, err := tx.Coordination().Contract(p.ID, c.ID)
		if err != nil {
			return err
		}
		return tx.WriteCoordination().PutContract(c, was)
	})
	if _, err := w.log.Prove(t.Context(), builder, proof.Request{ID: string(c.ID)}); hub.CodeOf(err) != hub.CodeUnproven {
		t.Errorf("a contract that was changed behind the hub: %v", err)
	}
}
