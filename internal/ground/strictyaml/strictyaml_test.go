package strictyaml

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
)

type house struct {
	Name  string          `yaml:"name"`
	Rooms map[string]room `yaml:"rooms"`
}

type room struct {
	Seats Count  `yaml:"seats"`
	Open  Period `yaml:"open"`
}

func TestDecode(t *testing.T) {
	const text = "name: a\nrooms:\n  hall:\n    seats: 3\n    open: 90s\n  attic: {}\n"
	var h house
	if err := DecodeOnly("f", []byte(text), &h); err != nil {
		t.Fatal(err)
	}
	if got := h.Rooms["hall"]; got.Seats != 3 || time.Duration(got.Open) != 90*time.Second {
		t.Errorf("got %+v", got)
	}
	if lines := Lines([]byte(text)); lines["rooms/hall"] != 3 || lines["rooms/attic"] != 6 {
		t.Errorf("got lines %v", lines)
	}
	if err := DecodeOnly("f", nil, &h); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, message, hint string }{
		{"a member that is not known", "nam: x\n", "f: line 1: unknown member nam", "the members are name, rooms"},
		{"a member of a part that is not known", "rooms: {hall: {seat: 1}}\n", "unknown member seat", "the members are seats, open"},
		{"a member twice", "name: a\nname: b\n", "name", ""},
		{"a number that is not positive", "rooms:\n  hall: {seats: 0}\n", "f: line 2: must be at least 1, not 0", ""},
		{"a list where a number belongs", "rooms:\n  hall: {seats: [1]}\n", "line 2: must be a single value", ""},
		{"a length of time without a unit", "rooms:\n  hall: {open: 5}\n", `line 2: "5" is not a duration`, ""},
		{"a second document", "name: a\n---\nname: b\n", "f: the file has more than one document", ""},
		{"not YAML", "\t:\n", "f: ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h house
			err := DecodeOnly("f", []byte(tt.text), &h)
			var e *hub.Error
			if !errors.As(err, &e) || e.Code != hub.CodeInvalid {
				t.Fatalf("got %v, want %s", err, hub.CodeInvalid)
			}
			if !strings.Contains(e.Error(), tt.message) || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %q with the hint %q, want %q and %q", e, e.Hint, tt.message, tt.hint)
			}
		})
	}
}
