package tail_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parley-agents/parley/internal/ground/text/tail"
)

func TestBuffer(t *testing.T) {
	for limit := range 6 {
		for size := range 6 { // of each write
			b := tail.NewBuffer(limit)
			all := ""
			for i := range 20 {
				part := strings.Repeat(string(rune('a'+i)), size)
				all += part
				if n, err := b.Write([]byte(part)); n != size || err != nil {
					t.Fatalf("limit %d: got %d, %v; want %d", limit, n, err, size)
				}
				want := all[max(0, len(all)-limit):]
				if last, dropped := b.Bytes(); !bytes.Equal(last, []byte(want)) || dropped != (len(all) > limit) {
					t.Fatalf("limit %d: got %q, %v; want %q of %q", limit, last, dropped, want, all)
				}
			}
		}
	}
}
