//go:build !race

package contract

// How many schedules are played.
const (
	schedules     = 1000
	diskSchedules = 12
)
