package sandbox

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/iotest"
)

// Pages put together are the file, however long its lines are.
func FuzzReadLines(f *testing.F) {
	f.Add([]byte("one\ntwo\r\nthree"), uint8(1))
	f.Add([]byte("\n\n\n"), uint8(2))
	f.Add([]byte(strings.Repeat("x", 70_000)+"\nend\n"), uint8(1))
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, page uint8) {
		limit := int(page) + 1
		lines := bytes.Count(data, []byte("\n")) + 1
		if lines > 1000*limit {
			return // it reads from the start for every page
		}
		var got []byte
		for line := 1; line <= lines; line += limit {
			r := &boundedReader{ctx: context.Background(), r: iotest.HalfReader(bytes.NewReader(data)), left: int64(len(data)) + 1}
			part, err := readLines(r, line, limit, int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(part, []byte("\n")); n > limit {
				t.Errorf("lines: got %d, want at most %d", n, limit)
			}
			got = append(got, part...)
		}
		if !bytes.Equal(got, data) {
			t.Errorf("text: got %q, want %q", got, data)
		}
	})
}
