package strictjson

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns JSON in which no character moves a cursor, hides or reorders text:
// DEL, C1, bidi, tag and other characters that cannot be printed are written as
// escapes. It is the same JSON, because such characters occur in strings only.
func Visible(raw []byte) []byte {
	from := 0 // of the bytes that are not copied yet
	var out []byte
	for i := 0; i < len(raw); {
		if c := raw[i]; c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(raw[i:])
		if unicode.IsPrint(r) {
			i += size
			continue
		}
		out = append(out, raw[from:i]...)
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
		from = i
	}
	if out == nil {
		return raw
	}
	return append(out, raw[from:]...)
}
