package shell

import "strings"

// Commands returns the simple commands of a shell text, each as its words without quotes,
// so that a reader can tell which programs the text names. It is not a shell: a variable
// stays as it is written, the commands in $(...) and backquotes stand beside the one that
// they are part of, and the targets of redirections are left out.
func Commands(text string) [][]string {
	r := &reader{text: text}
	for r.at < len(text) {
		r.step()
	}
	r.endCommand()
	return r.commands
}

// A reader reads the words of a shell text.
type reader struct {
	text     string
	at       int
	word     strings.Builder
	begun    bool // a word has begun, even if it is empty
	target   bool // the next word is the target of a redirection
	words    []string
	commands [][]string
}

// step reads the next part of the text.
func (r *reader) step() {
	c := r.text[r.at]
	r.at++
	switch c {
	case '\\':
		if r.at < len(r.text) {
			if r.text[r.at] != '\n' { // else the line goes on
				r.add(r.text[r.at : r.at+1])
			}
			r.at++
		}
	case '\'':
		r.add(r.until('\''))
	case '"':
		r.quoted()
	case ' ', '\t', '\r':
		r.endWord()
	case '#':
		if r.begun {
			r.add("#")
			return
		}
		if end := strings.IndexByte(r.text[r.at:], '\n'); end >= 0 {
			r.at += end
		} else {
			r.at = len(r.text)
		}
	case '\n', ';', '&', '|', '(', ')', '`':
		r.endCommand()
	case '<', '>':
		r.redirect()
	case '$':
		r.variable()
	default:
		r.add(r.text[r.at-1 : r.at])
	}
}

func (r *reader) add(s string) {
	r.begun = true
	r.word.WriteString(s)
}

// until returns the text up to the next c, and goes on behind that.
func (r *reader) until(c byte) string {
	rest := r.text[r.at:]
	if end := strings.IndexByte(rest, c); end >= 0 {
		r.at += end + 1
		return rest[:end]
	}
	r.at = len(r.text)
	return rest
}

// quoted reads a text in double quotes.
func (r *reader) quoted() {
	r.begun = true
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			return
		case c == '\\' && r.at < len(r.text):
			r.add(r.text[r.at : r.at+1])
			r.at++
		default:
			r.add(r.text[r.at-1 : r.at])
		}
	}
}

// redirect leaves out a redirection: its number before, its signs, and its target.
func (r *reader) redirect() {
	if strings.Trim(r.word.String(), "0123456789") == "" {
		r.word.Reset()
		r.begun = false
	}
	r.endWord()
	for r.at < len(r.text) && strings.IndexByte("<>&|", r.text[r.at]) >= 0 {
		r.at++
	}
	r.target = true
}

// variable reads $NAME, ${...} and the $(NAME) of a makefile as part of a word, and begins
// a command at any other $(.
func (r *reader) variable() {
	rest := r.text[r.at:]
	switch {
	case strings.HasPrefix(rest, "{"):
		r.at++
		r.add("${" + r.until('}') + "}")
	case strings.HasPrefix(rest, "("):
		end := strings.IndexByte(rest, ')')
		if end > 1 && isName(rest[1:end]) {
			r.at += end + 1
			r.add("$" + rest[:end+1])
			return
		}
		r.at++
		r.endCommand()
	default:
		r.add("$")
	}
}

func isName(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func (r *reader) endWord() {
	if r.begun && !r.target {
		r.words = append(r.words, r.word.String())
	}
	r.target = r.target && !r.begun
	r.word.Reset()
	r.begun = false
}

func (r *reader) endCommand() {
	r.endWord()
	r.target = false
	if len(r.words) > 0 {
		r.commands = append(r.commands, r.words)
	}
	r.words = nil
}
