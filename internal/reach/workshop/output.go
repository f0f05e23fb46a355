package workshop

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"github.com/parley-agents/parley/internal/ground/text/tail"
)

// An outputFile takes the output of a run: its end, its digest, and its beginning in a file. Its
// memory does not grow with the output.
type outputFile struct {
	path  string
	file  *os.File
	left  int64 // bytes that the file may still take
	bytes int64
	sum   hash.Hash
	tail  *tail.Buffer
	live  io.Writer
	err   error // of the file
}

// newOutput makes a file for output in a folder.
func newOutput(folder string, live io.Writer) (*outputFile, error) {
	f, err := os.CreateTemp(folder, "output-*")
	if err != nil {
		return nil, err
	}
	return &outputFile{path: f.Name(), file: f, left: OutputBytes, sum: sha256.New(), tail: tail.NewBuffer(TailBytes), live: live}, nil
}

// Write takes a part of the output. It never fails: a check does not fail because the disk is
// full or a reader is gone.
func (o *outputFile) Write(p []byte) (int, error) {
	o.bytes += int64(len(p))
	o.sum.Write(p)
	o.tail.Write(p)
	if o.live != nil {
		o.live.Write(p)
	}
	if part := p[:min(o.left, int64(len(p)))]; len(part) > 0 && o.err == nil {
		o.left -= int64(len(part))
		_, o.err = o.file.Write(part)
	}
	return len(p), nil
}

// finish closes the file and returns the output.
func (o *outputFile) finish() (Output, error) {
	if err := o.file.Close(); o.err == nil {
		o.err = err
	}
	last, _ := o.tail.Bytes()
	return Output{Tail: last, Bytes: o.bytes, SHA256: hex.EncodeToString(o.sum.Sum(nil)), File: o.path}, o.err
}
