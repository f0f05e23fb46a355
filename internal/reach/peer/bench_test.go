package peer_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

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

// BenchmarkPropose measures the median of what a caller waits for a proposal,
// alone and with three peers that are told of each.
func BenchmarkPropose(b *testing.B) {
	for _, peers := range []int{0, 3} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			a := newNode(b, "alpha", nil)
			all := []*node{a}
			for i := range peers {
				all = append(all, newNode(b, fmt.Sprint("peer", i), nil))
				befriend(a, all[i+1])
			}
			project := a.project()
			a.start()
			for _, o := range all[1:] {
				eventually(b, "they have met", all, same(a, o, project))
			}
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				a.propose(project, "c")
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "median-µs")
			a.stop()
		})
	}
}
