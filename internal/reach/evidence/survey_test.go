package evidence

import (
	"testing"
	"time"
)

func TestOnlyQuietFilesAreNotReadAgain(t *testing.T) {
	began := time.Now()
	long := began.Add(-time.Hour)
	old := stamp{size: 1, modified: long, changed: long}
	fresh := stamp{size: 1, modified: long, changed: began.Add(-settled / 2)}
	for _, tt := range []struct {
		name     string
		id       string
		was, now stamp
		want     bool
	}{
		{"an old file with the same times", "id", old, old, true},
		{"one that changed just before", "id", fresh, fresh, false},
		{"another size", "id", old, stamp{size: 2, modified: long, changed: long}, false},
		{"another time", "id", old, fresh, false},
		{"one that could not be read", "", old, old, false},
	} {
		s := surveyor{previous: &survey{began: began, files: map[string]sighting{"x": {blob: blob{id: tt.id}, stamp: tt.was}}}}
		if _, got := s.before("x", tt.now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if _, got := s.before("y", tt.now); got {
			t.Errorf("%s: got another file", tt.name)
		}
	}
}
