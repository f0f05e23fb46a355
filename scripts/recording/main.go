// Command recording records the commands of docs/first-hour.md at a terminal, as the test
// of the page types them, and draws the recording as an animated picture.
//
//	go run ./scripts/recording
//
// It writes docs/first-hour.cast, which asciinema plays, and docs/first-hour.svg.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	castFile = "docs/first-hour.cast"
	svgFile  = "docs/first-hour.svg"

	lineHeight, charWidth, margin = 18, 8, 12 // in pixels
)

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func record() error {
	file, err := filepath.Abs(castFile)
	if err != nil {
		return err
	}
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "test", "-count", "1", "-run", "^TestPages$/docs/first-hour", "./cmd/parley")
	cmd.Env = append(os.Environ(), "PARLEY_RECORDING="+file)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	picture, err := draw(raw)
	if err != nil {
		return err
	}
	return os.WriteFile(svgFile, picture, 0o644)
}

// A part is text that appears in a line of the terminal at a time.
type part struct {
	at           float64
	line, column int
	text         string
}

// draw returns an animated picture of a recording without escape sequences: each part
// appears at its time, and the picture moves up when it is full. A command that is
// typed appears word by word.
func draw(cast []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(cast))
	var head struct{ Width, Height int }
	if err := decoder.Decode(&head); err != nil {
		return nil, err
	}

	// A part is text that appears at once: a line, or a word of a command that is typed.
	var parts []part
	line, column := 0, 0
	joins := false // the last part can grow
	for decoder.More() {
		var at float64
		var kind, text string
		if err := decoder.Decode(&[]any{&at, &kind, &text}); err != nil {
			return nil, err
		}
		for _, r := range strings.ReplaceAll(text, "\r", "") {
			if r == '\n' || column == head.Width {
				line++
				column = 0
				joins = false
				if r == '\n' {
					continue
				}
			}
			if !joins {
				parts = append(parts, part{at, line, column, ""})
			}
			parts[len(parts)-1].text += string(r)
			column++
			joins = r != ' ' || len(text) > 1
		}
	}

	var b bytes.Buffer
	width, height := head.Width*charWidth+2*margin, head.Height*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"><title>The first hour with Parley</title>
<rect width="100%%" height="100%%" rx="6" fill="#16181d"/>
<svg x="%d" y="%d" width="%d" height="%d"><g fill="#d6dae2" font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="13">
`, width, height, width, height, margin, margin, head.Width*charWidth, head.Height*lineHeight)

	// A part below the lower edge moves the picture up.
	moved := 0
	for _, p := range parts {
		if up := p.line - head.Height + 1; up > moved {
			moved = up
			fmt.Fprintf(&b, `<animateTransform attributeName="transform" type="translate" to="0 %d" begin="%.2fs" dur="0.01s" fill="freeze"/>`+"\n", -up*lineHeight, p.at)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve" textLength="%d" visibility="hidden">`, p.column*charWidth, p.line*lineHeight+13, len([]rune(p.text))*charWidth)
		if err := xml.EscapeText(&b, []byte(p.text)); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `<set attributeName="visibility" to="visible" begin="%.2fs"/></text>`+"\n", p.at)
	}

	b.WriteString("</g></svg></svg>\n")
	return b.Bytes(), nil
}
