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
func readLines(r io.Reader, line, limit int, most int64) ([]byte, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for line > 1 {
		_, ended, err := fragment(in)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if ended {
			line--
		}
	}
	var text []byte
	for limit != 0 {
		part, ended, err := fragment(in)
		text = append(text, part...)
		if int64(len(text)) > most {
			return nil, errTextBound
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if ended && limit > 0 {
			limit--
		}
	}
	return text, nil
}

// fragment returns the next piece of a line, and whether the line ends there. The
// piece is valid until the next call.
func fragment(in *bufio.Reader) (part []byte, ended bool, err error) {
	part, err = in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return part, false, nil
	}
	return part, err == nil, err
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
