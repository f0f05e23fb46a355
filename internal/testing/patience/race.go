//go:build race

package patience

// Race says that the test binary has the race detector in it.
const Race = true
