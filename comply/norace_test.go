//go:build !race

package comply_test

// raceDetector says that this is a test binary with the race detector in it.
const raceDetector = false
