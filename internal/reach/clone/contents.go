package clone

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// contents reads objects of the copy through one process of git. It is for one goroutine.
type contents struct {
	cmd  *exec.Cmd
	ask  io.WriteCloser
	out  *bufio.Reader
	stop context.CancelFunc
	bare string
}

// contents starts a reader, which the caller closes.
func (c *Copy) contents(ctx context.Context) (*contents, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &contents{cmd: c.alone(ctx, "cat-file", "--batch"), stop: stop, bare: c.bare}
	ask, err := r.cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = r.cmd.StdoutPipe(); err == nil {
			r.ask = ask
			r.out = bufio.NewReaderSize(out, 1<<16)
			err = r.cmd.Start()
		}
	}
	if err != nil {
		stop()
		return nil, failed(err, "read objects", c.bare)
	}
	return r, nil
}

// close ends the process.
func (r *contents) close() {
	r.ask.Close()
	r.stop()
	r.cmd.Wait() // killed
}

// copy writes the content of a blob to w, and returns its size.
func (r *contents) copy(w io.Writer, id string) (int64, error) {
	size, err := r.begin(id)
	if err != nil {
		return 0, err
	}
	if _, err := io.CopyN(w, r.out, size); err != nil {
		return 0, failed(err, "read objects", r.bare)
	}
	_, err = r.out.Discard(1)
	return size, err
}

// head returns the first bytes of a blob, and its size.
func (r *contents) head(id string, limit int64) (string, int64, error) {
	size, err := r.begin(id)
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	if _, err := io.CopyN(&b, r.out, min(size, limit)); err != nil {
		return "", 0, failed(err, "read objects", r.bare)
	}
	if _, err := io.CopyN(io.Discard, r.out, size-min(size, limit)+1); err != nil {
		return "", 0, failed(err, "read objects", r.bare)
	}
	return b.String(), size, nil
}

// begin asks for a blob and reads the line before its content.
func (r *contents) begin(id string) (size int64, err error) {
	if _, err := io.WriteString(r.ask, id+"\n"); err != nil {
		return 0, failed(err, "read objects", r.bare)
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return 0, failed(err, "read objects", r.bare)
	}
	f := strings.Fields(line)
	if len(f) != 3 || f[1] != "blob" {
		return 0, fail(ErrIncomplete, "read objects", r.bare, strings.TrimSpace(line))
	}
	if size, err = strconv.ParseInt(f[2], 10, 64); err != nil {
		return 0, fmt.Errorf("clone: the answer of git is not a size: %w", err)
	}
	return size, nil
}
