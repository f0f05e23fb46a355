package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// A printer is a stream of a command: text for people. It removes characters that hide
// text or move a cursor from everything that is written to it, so that no command can
// forget it, but for the colours of paint. It is safe for concurrent use.
//
// raw is the stream itself, for bytes that are no text for people: frames of a protocol,
// the terminal of another program, a screen that is drawn.
type printer struct {
	raw io.Writer

	mu   sync.Mutex // guards text
	text *plaintext.Writer
}

func newPrinter(w io.Writer) *printer {
	return &printer{raw: w, text: plaintext.NewWriter(colourWriter{w})}
}

func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// content returns the stream for the content of a file: as it is for a program, plain on
// a terminal.
func (p *printer) content() io.Writer {
	if isTerminal(p) {
		return p
	}
	return p.raw
}

// colourMark begins a colour in text for a printer. Text of others cannot have it: it is
// different in each process.
var colourMark = rand.Text()

// paint colours text on a terminal, unless NO_COLOR is set.
func (a *app) paint(w io.Writer, colour, text string) string { return paint(w, colour, text) }

// A colourWriter writes text with the colours of paint as escape sequences.
type colourWriter struct{ w io.Writer }

func (c colourWriter) Write(b []byte) (int, error) {
	if _, err := c.w.Write(bytes.ReplaceAll(b, []byte(colourMark), []byte("\x1b["))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// fileOf returns the file of a stream, nil if it has none.
func fileOf(v any) *os.File {
	if p, ok := v.(*printer); ok {
		v = p.raw
	}
	f, _ := v.(*os.File)
	return f
}

func isTerminal(v any) bool {
	f := fileOf(v)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// columns returns the width of a terminal; 0 if there is none, or it does not say.
func columns(v any) (width int) {
	if isTerminal(v) {
		width, _, _ = term.GetSize(int(fileOf(v).Fd()))
	}
	return width
}

// counted returns a number with its noun: 1 change, 2 changes.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
