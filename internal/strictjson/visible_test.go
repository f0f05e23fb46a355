package strictjson_test

import (
	"encoding/json"
	"testing"

	"github.com/parley-agents/parley/internal/strictjson"
)

func TestVisible(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"printable text stays", `{"a":"ü 漢 \u001b 😀"}`, `{"a":"ü 漢 \u001b 😀"}`},
		{"DEL and C1 are escaped", "[\"\x7f\u0080\u009f\"]", `["\u007f\u0080\u009f"]`},
		{"bidi is escaped", "[\"a\u202eb\u2066\"]", `["a\u202eb\u2066"]`},
		{"tag characters are escaped as pairs", "[\"\U000E0041\"]", `["\udb40\udc41"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(strictjson.Visible([]byte(tt.raw)))
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			var was, is any
			if json.Unmarshal([]byte(tt.raw), &was) != nil || json.Unmarshal([]byte(got), &is) != nil || !jsonEqual(was, is) {
				t.Errorf("%s is not the same JSON as %s", got, tt.raw)
			}
		})
	}
}

func jsonEqual(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}
