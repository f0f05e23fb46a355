package sandbox

import (
	"bufio"
	"context"
	"errors"
	"io"
)

var (
	errTextBound = errors.New("more text than is allowed")
	errScanBound = errors.New("more bytes scanned than is allowed")
)

// readLines returns limit lines of r from the given line on, all if limit is
// AllLines. It returns errTextBound if they have more than most bytes.
//
// It reads the lines in pieces of at most 64 KiB, so that a line before the first one
// is never in memory. A piece ends a line unless it filled the buffer: only then do line
// and limit count down.
func readLines(r io.Reader, line, limit int, most int64) ([]byte, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var text []byte
	for limit != 0 {
		piece, err := in.ReadSlice('\n')
		if line <= 1 {
			text = append(text, piece...)
		}
		switch {
		case int64(len(text)) > most:
			return nil, errTextBound
		case err == io.EOF:
			return text, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case line > 1:
			line--
		case limit > 0:
			limit--
		}
	}
	return text, nil
}

// A boundedReader reads at most left bytes of r, until ctx ends.
type boundedReader struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		return 0, errScanBound
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
