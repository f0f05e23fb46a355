package jsonrpc

import (
	"bytes"
	"runtime"
	"strconv"
)

// goroutineID returns the number of the calling goroutine. The runtime tells it
// only in the first line of a stack trace, "goroutine 7 [running]:". It is good
// for one thing: to find out that a goroutine is about to wait for itself.
func goroutineID() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	if len(words) < 2 {
		return 0
	}
	id, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return id
}
