package sandbox

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		name      string
		limit     int
		writes    []string
		complete  bool
		want      string
		truncated bool
	}{
		{"nothing", 4, nil, true, "", false},
		{"less than the limit", 4, []string{"ab", "c"}, true, "abc", false},
		{"just the limit", 4, []string{"ab", "cd"}, true, "abcd", false},
		{"the end is kept", 4, []string{"ab", "cd", "e"}, true, "bcde", true},
		{"the end of one write is kept", 4, []string{"abcdefgh"}, true, "efgh", true},
		{"the end is kept time and again", 4, []string{"abc", "def", "ghi", "jkl"}, true, "ijkl", true},
		{"a limit of 0 keeps nothing", 0, []string{"a"}, true, "", true},
		{"a limit of 0 and no output", 0, nil, true, "", false},
		{"half a character is not kept", 4, []string{"aéb", "cd"}, true, "bcd", true},
		{"a whole character is kept", 4, []string{"aéb", "c"}, true, "éb" + "c", true},
		{"three quarters of a character are not kept", 4, []string{"😀", "x"}, true, "x", true},
		{"a character in two writes", 4, []string{"\xc3", "\xa9"}, false, "é", false},
		{"a character that has only begun waits", 4, []string{"a\xf0\x9f\x98"}, false, "a", false},
		{"a character that is never finished is marked", 8, []string{"a\xc3"}, true, "a\uFFFD", false},
		{"a bad byte is marked", 8, []string{"a\xffb"}, false, "a\uFFFDb", false},
		{"marks do not exceed the limit", 4, []string{"\xffa\xffb"}, true, "\uFFFDb", true},
		{"a limit below a mark", 2, []string{"\xff"}, true, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tail := newTail(tt.limit)
			for _, w := range tt.writes {
				if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("write: got %d (%v), want %d", n, err, len(w))
				}
			}
			got, truncated := tail.Text(tt.complete)
			if got != tt.want || truncated != tt.truncated {
				t.Errorf("text: got %q, truncated %t, want %q, %t", got, truncated, tt.want, tt.truncated)
			}
		})
	}
}

// Whatever is written in whatever pieces, what is kept is valid, within the
// limit, and the end of what was written.
func FuzzTail(f *testing.F) {
	f.Add([]byte("plain text"), uint8(4), uint8(3), true)
	f.Add([]byte("aé😀\xff\xf0\x9f"), uint8(5), uint8(1), false)
	f.Add([]byte{}, uint8(0), uint8(0), true)
	f.Add([]byte(strings.Repeat("\x80", 40)), uint8(16), uint8(7), true)
	f.Fuzz(func(t *testing.T, data []byte, limit, piece uint8, complete bool) {
		tail := newTail(int(limit))
		for rest := data; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			tail.Write(rest[:n])
			rest = rest[n:]
		}
		got, truncated := tail.Text(complete)
		if !utf8.ValidString(got) || len(got) > int(limit) {
			t.Errorf("text: got %q, want valid UTF-8 of at most %d bytes", got, limit)
		}
		if !truncated && len(data) > int(limit) {
			t.Error("truncated: got false, want true")
		}
		if utf8.Valid(data) {
			if !strings.HasSuffix(string(data), got) {
				t.Errorf("text: got %q, want the end of %q", got, data)
			}
			if lost := min(len(data), int(limit)) - len(got); lost >= utf8.UTFMax {
				t.Errorf("text: got %d bytes less than there is room for, want at most one character", lost)
			}
		}
	})
}
