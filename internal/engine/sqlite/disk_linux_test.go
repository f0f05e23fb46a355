package sqlite

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/testing/hubtest"
)

func TestFullDisk(t *testing.T) {
	t.Run("R3-115 a full disk is reported, and forgotten when there is room", func(t *testing.T) {
		dir := hubtest.SmallDisk(t, 4)
		s := openAt(t, dir, &Options{Busy: testBusy})
		first := put(t, s)

		empty := hubtest.FillDisk(t, dir)
		var failed error
		for range 5000 { // what was allocated before may still be used
			if _, failed = tryPut(s); failed != nil {
				break
			}
		}
		wantCode(t, failed, hub.CodeDegraded)
		wantMessage(t, s, first) // reading goes on
		empty()
		wantMessage(t, s, put(t, s))
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
