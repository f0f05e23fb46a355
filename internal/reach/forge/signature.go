package forge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
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
// does not depend on the signature. The times of signatures are Unix times, at most five minutes from
// the hub's. The error is ErrSignature, whatever is wrong.
func Verify(name hub.EventVendor, secret string, header http.Header, body []byte, now time.Time) error {
	v, ok := vendors[name]
	if !ok || secret == "" || !v.verify(secret, header, body, now) {
		return ErrSignature
	}
	return nil
}

// CheckSecret refuses a secret that the vendor cannot have given out.
func CheckSecret(name hub.EventVendor, secret string) error {
	v, ok := vendors[name]
	if !ok {
		return nil // the service refuses the vendor
	}
	return v.checkSecret(secret)
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
