package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.log")
	for range 2 { // a log is continued by the next hub
		l, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		line := append(bytes.Repeat([]byte{'x'}, 1<<20-1), '\n')
		for range 7 {
			if n, err := l.Write(line); err != nil || n != len(line) {
				t.Fatalf("wrote %d bytes: %v", n, err)
			}
		}
		l.file.Close()
	}
	for name, want := range map[string]int64{path: 2 << 20, path + ".1": maxLog} {
		if info, err := os.Stat(name); err != nil || info.Size() != want {
			t.Errorf("%s: %v, want %d bytes", name, err, want)
		}
	}
}
