package main

import (
	"testing"

	"github.com/parley-agents/parley/internal/testing/hubtest"
)

func TestDoctorOnASmallDisk(t *testing.T) {
	got := do(t, parley(t, nil, "doctor", "--home", hubtest.SmallDisk(t, 4)))
	if got.code != exitCheck {
		t.Errorf("exit %d, want %d", got.code, exitCheck)
	}
	contains(t, got.out, "FAIL space: the home uses 0 MiB, 4 MiB are free\n     free some space, or run \"parley hub archive\" to move old records into files\n")
}
