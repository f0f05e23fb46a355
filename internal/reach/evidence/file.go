package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/parley-agents/parley/hub"
)

// A FileClaim claims that a file exists.
type FileClaim struct {
	Path   string // absolute, or relative to a root
	SHA256 string // 64 lower-case hexadecimal digits; empty if not claimed
	Size   *int64 // bytes; nil if not claimed
}

func (c FileClaim) parts(in *Inspector) ([]part, func()) {
	seen := &visibleText{}
	check := func(ctx context.Context) (string, error) { return c.compare(ctx, in, seen) }
	compared := func() hub.ComparedFiles {
		if seen.digest() == "" {
			return hub.ComparedFiles{}
		}
		return hub.ComparedFiles{Path: c.Path, Visible: seen.digest()}
	}
	return []part{{what: WhatFile, check: check, compared: compared}}, func() {}
}

// A visibleText collects the content of a text file that is not too large.
type visibleText struct{ content []byte }

// Write implements io.Writer.
func (v *visibleText) Write(b []byte) (int, error) {
	if len(v.content) <= maxContent {
		v.content = append(v.content, b...)
	}
	return len(b), nil
}

// digest returns the digest of the content without what cannot be seen; "" for a file that was not read,
// is too large or is no text.
func (v *visibleText) digest() string {
	isText := v.content != nil && len(v.content) <= maxContent && bytes.IndexByte(v.content, 0) < 0
	if !isText {
		return ""
	}
	sum := sha256.Sum256(squeeze(v.content))
	return hex.EncodeToString(sum[:])
}

// compare checks that a regular file exists and has the size and hash claimed.
func (c FileClaim) compare(ctx context.Context, in *Inspector, seen *visibleText) (found string, err error) {
	const op = "evidence.File"
	if c.SHA256 != "" && (len(c.SHA256) != hex.EncodedLen(sha256.Size) || !lowerHex(c.SHA256)) {
		return "", hub.Errorf(hub.CodeInvalid, op, "the sha256 %s is not 64 lower-case hexadecimal digits", show(c.SHA256))
	}

	f, at, also, err := find(in, c.Path, openRegular)
	if err != nil {
		return "", err
	}
	defer f.Close()

	size := f.info.Size()
	if c.Size != nil && *c.Size != size {
		return "", hub.Errorf(hub.CodeHashMismatch, op, "%s has %d bytes, not %d", show(c.Path), size, *c.Size)
	}
	found = fmt.Sprintf("%d bytes", size)
	if also > 0 {
		found += fmt.Sprintf("; ambiguous: %d other roots have a file at this path, checked %s", also, show(at))
	}

	if c.SHA256 == "" {
		return found + "; no sha256 was claimed", in.fits(op, c.Path, size)
	}

	h := sha256.New()
	if err := in.hash(ctx, op, c.Path, f, io.MultiWriter(h, seen)); err != nil {
		return "", err
	}
	if hex.EncodeToString(h.Sum(nil)) != c.SHA256 {
		return "", hub.Errorf(hub.CodeHashMismatch, op, "the sha256 of %s is not the one claimed", show(c.Path))
	}
	return found + ", and the sha256 is the one claimed", nil
}

// hash writes the content of an open file to h.
func (in *Inspector) hash(ctx context.Context, op, path string, f *regular, h io.Writer) error {
	size := f.info.Size()
	if err := in.fits(op, path, size); err != nil {
		return err
	}
	n, err := io.Copy(h, io.LimitReader(contextReader{ctx, f}, size+1))
	switch {
	case err != nil:
		return in.late(ctx, explain(path, err))
	case n != size:
		return hub.Errorf(hub.CodeDegraded, op, "%s changed while it was read", show(path))
	}
	return nil
}

// fits refuses a file that is too large to be read.
func (in *Inspector) fits(op, path string, size int64) error {
	if size > in.maxFile {
		return hub.Errorf(hub.CodeTooLarge, op, "%s is larger than %d bytes and is not read", show(path), in.maxFile)
	}
	return nil
}

// lowerHex reports whether s has no other bytes than lower-case hexadecimal
// digits.
func lowerHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		isDigit := c >= '0' && c <= '9'
		isLetter := c >= 'a' && c <= 'f'
		if !isDigit && !isLetter {
			return false
		}
	}
	return true
}

// A contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
