package report_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/parley-agents/parley/protocol/report"
)

// typical is a report of about 200 bytes.
const typical = "STATUS:ok\nFILES_CREATED:src/middleware/limit.go,src/middleware/limit_test.go\nFILES_MODIFIED:go.mod,go.sum\n" +
	"TESTS:pass:12\nBUILD:pass\nLEARNED:The limiter is shared between handlers, so its tests cannot run in parallel\n"

// BenchmarkTypical reads and writes a report as agents write them.
func BenchmarkTypical(b *testing.B) {
	for _, mode := range []report.Mode{report.Tolerant, report.Reference} {
		b.Run(string(mode), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(typical)))
			opts := &report.Options{Mode: mode}
			for b.Loop() {
				if _, err := report.Parse(typical, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("text", func(b *testing.B) {
		r, err := report.Parse(typical, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Text(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHostile reads texts that are made to be slow: 1 MiB with the limits
// as they are, and 1 and 4 MiB without limits, whose times show how the time
// grows.
func BenchmarkHostile(b *testing.B) {
	unlimited := &report.Options{MaxBytes: 1 << 30, MaxLines: 1 << 30}
	for _, c := range []struct {
		name string
		size int
		opts *report.Options
	}{{"1MiB", 1 << 20, nil}, {"unlimited/1MiB", 1 << 20, unlimited}, {"unlimited/4MiB", 4 << 20, unlimited}} {
		texts := hostile(c.size)
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			b.Run(c.name+"/"+strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
				b.SetBytes(int64(len(texts[name])))
				for b.Loop() {
					_, _ = report.ParseAny(texts[name], c.opts) // some are no report
				}
			})
		}
	}
}
