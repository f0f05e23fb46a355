//go:build race

package contract

// The race detector makes everything ten times slower, and a schedule has one
// goroutine.
const (
	schedules     = 200
	diskSchedules = 3
)
