package plaintext_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// The table is that of Unicode: a character that a later version of Unicode makes
// ignorable fails here.
func TestTableHasWhatUnicodeCallsIgnorable(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		control := unicode.Is(unicode.Cc, r) && r != '\n' && r != '\t'
		format := unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
		want := control || format || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point)
		if got := plaintext.Hidden(r); got != want {
			t.Errorf("Hidden(%U) is %t, want %t", r, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"what can be seen stays", "naïve 漢字\u3000日本\u00a0«x» \U0001f600 \ue0b0", "naïve 漢字\u3000日本\u00a0«x» \U0001f600 \ue0b0"},
		{"line ends and tabs stay", "a\n\tb", "a\n\tb"},
		{"escape sequences lose their escape", "\x1b[2Ja\x1b]0;x\x07b\u009b31mc", "[2Ja]0;xb31mc"},
		{"a carriage return goes", "a\r\nb\rc", "a\nbc"},
		{"other ends of lines become spaces", "a\vb\fc\u0085d\u2028e\u2029f", "a b c d e f"},
		{"backspace and delete go", "ab\b\x7fc\x00", "abc"},
		{"directions go", "\u202eabc\u2066d\u2069\u200e\u200f\u061c", "abcd"},
		{"zero width goes", "a\u200bb\u2060c\u2063d\ufeffe\u00adf\u180eg", "abcdefg"},
		{"tag characters go", "ok\U000e0001\U000e0068\U000e0069\U000e007f", "ok"},
		{"the flag of England becomes a black one", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001f3f4"},
		{"bytes hidden in variation selectors go", "\U0001f600\ufe01\U000e0100\U000e01ef", "\U0001f600"},
		{"annotations and fillers go", "a\ufff9b\ufffac\ufffbd\u115f\u1160\u3164\uffa0", "abcd"},
		{"bytes that are not UTF-8 are replaced", "a\xffb\xe2\x80", "a\ufffdb\ufffd\ufffd"},
		{"what is no character is replaced", "\ufdd0\uffff\U0010ffff", "\ufffd\ufffd\ufffd"},
		{"a joiner in Persian stays", "می\u200cخواهم", "می\u200cخواهم"},
		{"a joiner in Sinhala stays", "ශ්\u200dරී", "ශ්\u200dරී"},
		{"a family stays one picture", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f468\u200d\U0001f469\u200d\U0001f467"},
		{"a heart on fire stays one picture", "\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"},
		{"a joiner in Latin goes", "pass\u200dword\u200c", "password"},
		{"a joiner at an end goes", "\u200cمی\u200c", "می"},
		{"of a row of joiners one stays", "م\u200c\u200d\u200c\u200dی", "م\u200dی"},
		{"of a row of selectors one stays", "\u2764\ufe0f\ufe0f\ufe0e\ufe0f", "\u2764\ufe0f"},
		{"a selector behind a letter goes", "a\ufe0fb\ufe0e", "ab"},
		{"an Arabic number sign can be seen", "\u0600\u06dd", "\u0600\u06dd"},
	} {
		if got := plaintext.Text(tt.in); got != tt.want {
			t.Errorf("%s: Text(%q) is %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestLineHasNoLineEnd(t *testing.T) {
	if got, want := plaintext.Line("a\r\nb\tc\u2028d\x1b"), "a b\tc d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVisible(t *testing.T) {
	for _, r := range "aä漢 \U0001f600" {
		if !plaintext.Visible(r) {
			t.Errorf("%U is not visible", r)
		}
	}
	for _, r := range "\n\t\x1b\u00a0\u200d\u3164\U000e0100\ue000" {
		if plaintext.Visible(r) {
			t.Errorf("%U is visible", r)
		}
	}
}

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"printable text stays", `{"a":"ü 漢 \u001b 😀"}`, `{"a":"ü 漢 \u001b 😀"}`},
		{"space between values stays", "{\n\t\"a\": 1\r\n}", "{\n\t\"a\": 1\r\n}"},
		{"controls are escaped", "[\"a\x7fb\u009bc\"]", `["a\u007fb\u009bc"]`},
		{"bidi is escaped", "[\"a\u202eb\u2066\"]", `["a\u202eb\u2066"]`},
		{"tag characters are escaped as pairs", "[\"\U000e0041\"]", `["\udb40\udc41"]`},
		{"fillers are escaped", "[\"\u3164\"]", `["\u3164"]`},
		{"a joiner is escaped wherever it stands", "[\"م\u200cی\"]", `["م\u200cی"]`},
		{"names are escaped too", "{\"\u200b\":1}", `{"\u200b":1}`},
	} {
		if got := string(plaintext.JSON([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// every has each character at an end of a row of the table.
func every() string {
	var b strings.Builder
	for _, row := range plaintext.Table() {
		b.WriteString("x" + string(row.First) + string(row.Last))
	}
	return b.String()
}

func TestWriterHoldsHalfACharacterBack(t *testing.T) {
	var b strings.Builder
	w := plaintext.NewWriter(&b)
	for _, piece := range []string{"m\xc3", "\xa4n \xe2", "\x80\xae!", "\U0001f468\u200d", "\U0001f469", "\u200d", " \xe2"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("Write(%q) is %d, %v", piece, n, err)
		}
	}
	if got, want := b.String(), "män !\U0001f468\u200d\U0001f469 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzText(f *testing.F) {
	f.Add(every(), 3)
	f.Add("\u2764\ufe0f\u200d\U0001f525\U0001f468\u200d\u200dm\xff\xe2\x80", 1)
	f.Add("م\u200c\u200d\u200bی\U000e0041", 2)
	f.Fuzz(func(t *testing.T, s string, size int) {
		got := plaintext.Text(s)
		if !utf8.ValidString(got) {
			t.Errorf("Text(%q) is %q, which is not UTF-8", s, got)
		}
		if again := plaintext.Text(got); again != got {
			t.Errorf("Text(%q) is %q, and %q the second time", s, got, again)
		}
		for _, r := range got {
			kept := r == 0x200c || r == 0x200d || r == 0xfe0e || r == 0xfe0f
			if plaintext.Hidden(r) && !kept {
				t.Errorf("Text(%q) has %U", s, r)
			}
		}

		// The pieces do not matter, but for what waits at the end.
		var b strings.Builder
		w := plaintext.NewWriter(&b)
		whole := s + "\n"
		for rest := whole; rest != ""; {
			n := min(len(rest), 1+size&7)
			w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if b.String() != plaintext.Text(whole) {
			t.Errorf("%q in pieces is %q, whole %q", s, b.String(), plaintext.Text(whole))
		}

		// JSON changes no value.
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var was, is string
		json.Unmarshal(raw, &was)
		visible := plaintext.JSON(raw)
		if json.Unmarshal(visible, &is) != nil || is != was {
			t.Errorf("JSON(%q) is %q", raw, visible)
		}
		if text := string(visible); plaintext.Text(text) != text {
			t.Errorf("JSON(%q) is %q, which hides", raw, visible)
		}
	})
}
