package peer_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/parley-agents/parley/hub"
)

// BenchmarkCatchUp measures how fast a peer that was away gets 10,000 changes:
// in order from the log, and as the differences that comparing finds.
func BenchmarkCatchUp(b *testing.B) {
	const changes = 10_000
	for _, way := range []string{"log", "compare"} {
		b.Run(way, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				a, z := newNode(b, "alpha", nil), newNode(b, "beta", nil)
				befriend(a, z)
				a.start()
				project := a.project(z)
				eventually(b, "they have met", []*node{a, z}, same(a, z, project))
				a.stop()
				z.setGate(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
				for i := range changes / 2 {
					a.propose(project, fmt.Sprint("c", i))
					a.share(project, fmt.Sprint("s", i))
				}
				if way == "compare" {
					err := a.store.Update(b.Context(), hub.SurvivesKill, func(tx hub.Tx) error {
						_, newest, err := tx.ChangeSpan()
						if err != nil {
							return err
						}
						return tx.PutOutbox(hub.Outbox{Peer: z.aid, Sent: newest, CatchUp: true})
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				z.setGate(nil)
				b.StartTimer()
				a.start()
				eventually(b, "all is there", []*node{z}, func() bool {
					p, err := z.contracts.Project(b.Context(), z.caller(), project)
					return err == nil && p.Tally.Contracts == changes/2 && p.Tally.Packets == changes/2
				})
				b.StopTimer()
				a.stop()
				b.StartTimer()
			}
			b.ReportMetric(changes*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}
