package team

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
)

// maxShown is the most bytes of a content in text for a reader, which is one part.
const maxShown = 32 << 10

// A Part names one part of a content.
type Part struct {
	N  int `json:"n"`  // from 1
	Of int `json:"of"` // the number of parts
}

// split returns a text in parts of at most maxShown bytes. Parts end at the end of a line
// where they can, else between two characters; together they are the text.
func split(text string) []string {
	var parts []string
	for len(text) > maxShown {
		end := strings.LastIndexByte(text[:maxShown], '\n') + 1
		if end == 0 {
			for end = maxShown; !utf8.RuneStart(text[end]); end-- {
			}
		}
		parts, text = append(parts, text[:end]), text[end:]
	}
	return append(parts, text)
}

// shownDigits is the number of digits of a digest in text for a reader, and the fewest
// in a request.
const shownDigits = 12

// digest returns the digest of a version as a reader sees it.
func digest(v hub.ArtifactVersion) string { return v.SHA256[:shownDigits] }

// Digests are given as one string or as an array.
type Digests []string

// UnmarshalJSON reads a string or an array of strings.
func (d *Digests) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*d = Digests{one}
		return nil
	}
	var many []string
	if json.Unmarshal(b, &many) != nil {
		return errors.New("must be a digest or an array of digests")
	}
	*d = many
	return nil
}

// names reports whether one of the digests is that of a version.
func (d Digests) names(v hub.ArtifactVersion) bool {
	for _, s := range d {
		if len(s) >= shownDigits && strings.HasPrefix(v.SHA256, s) {
			return true
		}
	}
	return false
}

// checkOf refuses content that was made of a version that a reader sees in parts, or that
// lacks the characters which a reader of that version does not see, unless the request has
// its digest. A reader gets that digest with the whole content alone, so that a part is
// never put back as the whole.
func (s *Service) checkOf(op string, given Content, of Digests, versions ...hub.ArtifactVersion) error {
	if given.Text == nil {
		return nil // a stored file
	}
	for _, v := range versions {
		if of.names(v) {
			continue
		}
		if len(of) >= len(versions) {
			return hub.Errorf(hub.CodeConflict, op, "of must be the digest of version %[2]d, got %[1]s", strings.Join(of, ", "), v.Version).WithHint("read version %d again", v.Version)
		}
		content, err := s.content(v.SHA256)
		if err != nil {
			return err
		}
		why := torn(string(content), *given.Text)
		if why == "" {
			continue
		}
		return hub.Errorf(hub.CodeInvalid, op, "of is required: version %d %s", v.Version, why).
			WithHint("read all parts and give the digest below the last one as of; or store the file and give its sha256: {artifact.put}")
	}
	return nil
}

// torn says why content that was made of a version may lack parts of it, "" if it does not.
func torn(of, content string) string {
	switch {
	case !utf8.ValidString(of):
		return "" // it is not shown at all
	case len(of) > maxShown:
		return fmt.Sprintf("has %d bytes and is read in %d parts", len(of), len(split(of)))
	case plaintext.Text(of) != of && plaintext.Text(content) == content:
		return "has hidden characters, and the content has none of them"
	}
	return ""
}

// renderContent writes the content of an answer, quoted: the part that was read, or the
// first one. The digest stands below the last part of a content that is shown as it is.
func renderContent(b *strings.Builder, a Answer) {
	if a.Encoding != "" {
		fmt.Fprintf(b, "It is no text: %d bytes. With format json the content is base64; in a shell: parley artifact get %s\n", a.Version.Size, a.Version.SHA256)
		return
	}

	text, part := *a.Content, Part{1, 1}
	if a.Part != nil {
		part = *a.Part
	} else if parts := split(text); len(parts) > 1 {
		text, part.Of = parts[0], len(parts)
	}

	if part.Of > 1 {
		fmt.Fprintf(b, "Part %d of %d. ", part.N, part.Of)
	}
	b.WriteString("From other agents, not from your user:\n")
	for line := range strings.Lines(text) {
		b.WriteString("> " + plaintext.Line(strings.TrimSuffix(line, "\n")) + "\n")
	}

	// A reader must not put back content that is not shown as it is.
	hidden := utf8.RuneCountInString(text) - utf8.RuneCountInString(plaintext.Text(text))
	whole := strings.HasSuffix(text, "\n") || text == ""
	switch {
	case plaintext.Text(text) != text:
		fmt.Fprintf(b, "Not as it is: characters that cannot be seen are left out (%d). Read it with format json to change it.\n", max(hidden, 1))
	case part.N < part.Of && !whole:
		b.WriteString("The last line goes on in the next part.\n")
	case part.N == part.Of && !whole:
		b.WriteString("It does not end with a line end.\n")
	}

	switch {
	case part.N < part.Of:
		fmt.Fprintf(b, "The whole has %d bytes. → acp_team artifact, version %d, part %d\n", a.Version.Size, a.Version.Version, part.N+1)
	case plaintext.Text(text) == text:
		fmt.Fprintf(b, "digest %s\n", digest(*a.Version))
	}
}
