//go:build !linux && !darwin

package durable

// Free reports that the space for files in a folder is not known here.
func Free(string) (bytes uint64, known bool) { return 0, false }
