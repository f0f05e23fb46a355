package main

import (
	"io"
	"os"
	"strings"
)

// A copy of the test binary with a stamp at its end is the parley of a release. Programs may have
// more bytes at their end than they need.
const (
	stampStart = "\nrelease of a test: "
	stampSize  = 64 // bytes of a stamp, padded with spaces
)

// stampOfTest returns the release that this copy of the test binary is, "" for the test binary.
func stampOfTest() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(self)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw := make([]byte, stampSize)
	if _, err := f.Seek(-stampSize, io.SeekEnd); err != nil {
		return ""
	}
	if _, err := io.ReadFull(f, raw); err != nil {
		return ""
	}
	stamp, found := strings.CutPrefix(string(raw), stampStart)
	if !found {
		return ""
	}
	return strings.TrimSpace(stamp)
}
