package proof_test

import (
	"testing"

	"github.com/parley-agents/parley/internal/service/proof"
)

// BenchmarkProof measures the tree over a journal of 100,000 rows, the file of a landing among them,
// and the check of that file.
func BenchmarkProof(b *testing.B) {
	const rows = 100_000
	w := newWorld(b)
	for range rows / 1000 {
		w.noise(1000)
	}
	w.grow()
	b.Run("tree", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.log.Rebuild(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("prove", func(b *testing.B) {
		for b.Loop() {
			w.prove("l1")
		}
	})
	raw := bytesOf(b, w.prove("l1"))
	trusted := w.trusted()
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if _, err := proof.Verify(raw, trusted); err != nil {
				b.Fatal(err)
			}
		}
	})
}
