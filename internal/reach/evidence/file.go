package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/parley-agents/parley/hub"
)

// A FileClaim says that a file is there.
type FileClaim struct {
	Path   string // absolute, or relative to a root
	SHA256 string // 64 lower-case hexadecimal digits; empty if not claimed
	Size   *int64 // bytes; nil if not claimed
}

// File checks that a regular file is there and has the size and hash claimed.
func (in *Inspector) File(ctx context.Context, claim FileClaim) Check {
	const op = "evidence.File"
	if !claimedSHA256(claim.SHA256) {
		return refuted(WhatFile, hub.Errorf(hub.CodeInvalid, op, "the sha256 %s is not 64 lower-case hexadecimal digits", show(claim.SHA256)))
	}
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return refuted(WhatFile, err)
	}
	defer end()
	f, at, also, err := find(in, claim.Path, openRegular)
	if err != nil {
		return refuted(WhatFile, err)
	}
	defer f.Close()
	size := f.info.Size()
	if claim.Size != nil && *claim.Size != size {
		return refuted(WhatFile, hub.Errorf(hub.CodeHashMismatch, op, "%s has %d bytes, not %d", show(claim.Path), size, *claim.Size))
	}
	found := fmt.Sprintf("%d bytes", size)
	if also > 0 {
		found += fmt.Sprintf("; ambiguous: %d other roots have such a file, looked at %s", also, show(at))
	}
	if claim.SHA256 == "" {
		if err := in.fits(op, claim.Path, size); err != nil {
			return refuted(WhatFile, err)
		}
		return verified(WhatFile, "%s; no sha256 was claimed", found)
	}
	sum, _, err := in.digest(ctx, op, claim.Path, f)
	switch {
	case err != nil:
		return refuted(WhatFile, err)
	case sum != claim.SHA256:
		return refuted(WhatFile, hub.Errorf(hub.CodeHashMismatch, op, "the sha256 of %s is not the one claimed", show(claim.Path)))
	}
	return verified(WhatFile, "%s, and the sha256 is the one claimed", found)
}

// Digest returns the hash and size of a file, to claim them. It reports
// CodeDenied for a file outside the roots, CodeNotFound, CodeConflict for what
// is not a regular file, and CodeTooLarge.
func (in *Inspector) Digest(ctx context.Context, path string) (sum string, size int64, err error) {
	const op = "evidence.Digest"
	ctx, end, err := in.begin(ctx)
	if err != nil {
		return "", 0, err
	}
	defer end()
	f, _, also, err := find(in, path, openRegular)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if also > 0 {
		return "", 0, hub.Errorf(hub.CodeConflict, op, "%s is there under several roots", show(path)).WithHint("give an absolute path")
	}
	return in.digest(ctx, op, path, f)
}

// digest hashes an open file.
func (in *Inspector) digest(ctx context.Context, op, path string, f *regular) (sum string, size int64, err error) {
	if err := in.fits(op, path, f.info.Size()); err != nil {
		return "", 0, err
	}
	hash := sha256.New()
	size, err = io.Copy(hash, io.LimitReader(untilDone{ctx, f}, f.info.Size()+1))
	switch {
	case err != nil:
		return "", 0, in.late(ctx, explain(path, err))
	case size != f.info.Size():
		return "", 0, hub.Errorf(hub.CodeDegraded, op, "%s changes while it is read", show(path))
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}

// fits refuses what is too large to be read.
func (in *Inspector) fits(op, path string, size int64) error {
	if size > in.maxFile {
		return hub.Errorf(hub.CodeTooLarge, op, "%s is larger than %d bytes and is not read", show(path), in.maxFile)
	}
	return nil
}

func claimedSHA256(s string) bool {
	return s == "" || len(s) == hex.EncodedLen(sha256.Size) && lowerHex(s)
}

// lowerHex reports whether s has no other bytes than lower-case hexadecimal
// digits.
func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// An untilDone reads until its context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}
