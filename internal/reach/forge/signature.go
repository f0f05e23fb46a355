package forge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-agents/parley/hub"
)

// The headers of the generic form.
const (
	SignatureHeader = "X-Parley-Signature" // t=SECONDS,v1=HEX
	DeliveryHeader  = "X-Parley-Delivery"  // an id of the event, chosen by its sender
)

// maxAge is how far the time of a generic signature may be from the hub's clock.
const maxAge = 5 * time.Minute

// ErrSignature reports that a request is not signed with the secret of its source.
var ErrSignature = errors.New("forge: the signature is wrong")

// Verify checks that a request was signed with a secret, in the form of its vendor, in a time that
// does not depend on the signature:
//
//   - GitHub: X-Hub-Signature-256 is sha256= and the HMAC-SHA256 of the body in hexadecimal.
//   - Gitea, Forgejo: X-Gitea-Signature is the HMAC-SHA256 of the body in hexadecimal.
//   - GitLab with a secret token: X-Gitlab-Token is the secret itself.
//   - GitLab with a signing token, which begins with whsec_: Webhook-Signature has the HMAC-SHA256
//     of Webhook-Id, a full stop, Webhook-Timestamp, a full stop and the body, as v1, and base64.
//     A request that has the token in X-Gitlab-Token instead is refused.
//   - generic: X-Parley-Signature is t=SECONDS,v1=HEX with the HMAC-SHA256 of SECONDS, a full stop,
//     the value of X-Parley-Delivery, a full stop and the body.
//
// The times of the last two are Unix times, at most five minutes from the hub's.
//
// The error is ErrSignature, whatever is wrong.
func Verify(vendor hub.EventVendor, secret string, header http.Header, body []byte, now time.Time) error {
	if secret == "" {
		return ErrSignature
	}
	ok := false
	switch vendor {
	case hub.VendorGitHub:
		text, isSHA256 := strings.CutPrefix(single(header, "X-Hub-Signature-256"), "sha256=")
		ok = isSHA256 && sameSum(text, sum(secret, body))
	case hub.VendorGitea:
		text := single(header, "X-Gitea-Signature")
		if text == "" {
			text = single(header, "X-Forgejo-Signature")
		}
		ok = sameSum(text, sum(secret, body))
	case hub.VendorGitLab:
		if isSigningToken(secret) {
			ok = verifyStandard(secret, header, body, now)
			break
		}
		// Hashes have one length, so that the comparison tells nothing about that of the secret.
		given := sha256.Sum256([]byte(single(header, "X-Gitlab-Token")))
		want := sha256.Sum256([]byte(secret))
		ok = hmac.Equal(given[:], want[:])
	case hub.VendorGeneric:
		ok = verifyGeneric(secret, header, body, now)
	}
	if !ok {
		return ErrSignature
	}
	return nil
}

// verifyGeneric checks a signature in the form of this hub.
func verifyGeneric(secret string, header http.Header, body []byte, now time.Time) bool {
	stamp, rest, _ := strings.Cut(single(header, SignatureHeader), ",")
	seconds, hasTime := strings.CutPrefix(stamp, "t=")
	text, hasSum := strings.CutPrefix(rest, "v1=")
	id := single(header, DeliveryHeader)
	hasID := id != "" && len(id) <= maxDelivery
	isWhole := hasTime && hasSum && hasID
	if !isWhole || !isRecent(seconds, now) {
		return false
	}
	return sameSum(text, sum(secret, signedContent(seconds, id, body)))
}

// isRecent reports whether a Unix time is at most maxAge from now.
func isRecent(seconds string, now time.Time) bool {
	n, err := strconv.ParseInt(seconds, 10, 64)
	return err == nil && now.Sub(time.Unix(n, 0)).Abs() <= maxAge
}

// signedContent returns two headers and a body as the bytes that a signature is over.
func signedContent(first, second string, body []byte) []byte {
	return append([]byte(first+"."+second+"."), body...)
}

// The form of Standard Webhooks (standardwebhooks.com), in which GitLab signs.
const (
	signingPrefix   = "whsec_" // of a signing token; the key follows in base64
	standardID      = "Webhook-Id"
	standardTime    = "Webhook-Timestamp"
	standardSums    = "Webhook-Signature" // a list with spaces, such as v1,BASE64
	maxStandardSums = 10
)

// isSigningToken reports whether the secret of a source is a signing token of GitLab.
func isSigningToken(secret string) bool { return strings.HasPrefix(secret, signingPrefix) }

// signingKey returns the key of a signing token; nil if it has none.
func signingKey(token string) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, signingPrefix))
	if err != nil || len(key) < minSigningKey {
		return nil
	}
	return key
}

// minSigningKey is the least number of bytes of a signing key; GitLab's have 32.
const minSigningKey = 16

// CheckSecret refuses a secret that the vendor cannot have given out.
func CheckSecret(v hub.EventVendor, secret string) error {
	if v == hub.VendorGitLab && isSigningToken(secret) && signingKey(secret) == nil {
		return hub.Errorf(hub.CodeInvalid, "forge.CheckSecret", "the signing token is not %s and a key in base64", signingPrefix).
			WithHint("copy it again from the webhook's settings on GitLab")
	}
	return nil
}

// verifyStandard checks a signature with a signing token. A webhook whose token is being changed has
// several signatures, of which one must be right.
func verifyStandard(token string, header http.Header, body []byte, now time.Time) bool {
	key := signingKey(token)
	id, seconds := single(header, standardID), single(header, standardTime)
	if key == nil || id == "" || !isRecent(seconds, now) {
		return false
	}
	want := sum(string(key), signedContent(id, seconds, body))
	all := strings.Fields(single(header, standardSums))
	return slices.ContainsFunc(all[:min(len(all), maxStandardSums)], func(one string) bool {
		text, isSHA256 := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		return isSHA256 && err == nil && hmac.Equal(got, want)
	})
}

// Sign returns the value of SignatureHeader for a body, as a sender of generic events makes it.
func Sign(secret, id string, body []byte, now time.Time) string {
	seconds := strconv.FormatInt(now.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(sum(secret, signedContent(seconds, id, body)))
}

// single returns the value of a header that is there once; "" if it is not, since two readers
// could take different ones.
func single(h http.Header, name string) string {
	if all := h.Values(name); len(all) == 1 {
		return all[0]
	}
	return ""
}

// sum returns the HMAC-SHA256 of a content.
func sum(secret string, content []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(content) // cannot fail
	return mac.Sum(nil)
}

// sameSum reports whether a text is a sum in hexadecimal.
func sameSum(text string, want []byte) bool {
	got, err := hex.DecodeString(text)
	return err == nil && hmac.Equal(got, want)
}
