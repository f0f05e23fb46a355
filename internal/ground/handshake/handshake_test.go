package handshake_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/handshake"
)

const (
	secret  = "the operator's key"
	channel = handshake.Channel("tcp 127.0.0.1:7420")
)

// A desk is a hub's side with one key, and a clock that the test moves.
type desk struct {
	*handshake.Hub
	now time.Time
}

func newDesk() *desk {
	d := &desk{now: time.Date(2026, 2, 21, 9, 0, 0, 0, time.UTC)}
	hashes := func(context.Context) ([]string, error) { return []string{"another", hub.HashSecret(secret)}, nil }
	d.Hub = handshake.NewHub(hashes, func() time.Time { return d.now })
	return d
}

// answer returns the operator's answer to a challenge of the hub.
func (d *desk) answer(t *testing.T) handshake.Answer {
	t.Helper()
	x := handshake.Begin(secret)
	asked, err := d.Challenge(t.Context(), channel, x.Opening)
	if err != nil {
		t.Fatal(err)
	}
	a, err := x.Answer(channel, asked)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func wantCode(t *testing.T, err error, want hub.Code) {
	t.Helper()
	if got := hub.CodeOf(err); got != want {
		t.Errorf("got %v (%s), want %s", err, got, want)
	}
}

func TestHandshake(t *testing.T) {
	t.Run("a key gives a token for ten minutes", func(t *testing.T) {
		d := newDesk()
		got, err := d.Grant(channel, d.answer(t))
		wantCode(t, err, "")
		if !handshake.IsToken(got.Token) || got.ExpiresS != 600 {
			t.Errorf("got %+v", got)
		}
		hash, err := d.KeyHash(got.Token)
		if wantCode(t, err, ""); hash != hub.HashSecret(secret) {
			t.Errorf("the token is of the key %s", hash)
		}
		d.now = d.now.Add(handshake.TokenLife + time.Second)
		_, err = d.KeyHash(got.Token)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("a challenge is answered once, in ten seconds, over its channel", func(t *testing.T) {
		d := newDesk()
		used := d.answer(t)
		_, err := d.Grant(channel, used)
		wantCode(t, err, "")
		_, err = d.Grant(channel, used)
		wantCode(t, err, hub.CodeUnauthenticated)

		_, err = d.Grant("tcp 127.0.0.1:7421", d.answer(t))
		wantCode(t, err, hub.CodeUnauthenticated)

		late := d.answer(t)
		d.now = d.now.Add(11 * time.Second)
		_, err = d.Grant(channel, late)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("a wrong proof is refused, and uses the challenge up", func(t *testing.T) {
		d := newDesk()
		good := d.answer(t)
		_, err := d.Grant(channel, handshake.Answer{Nonce: good.Nonce, Proof: good.Proof[1:] + "0"})
		wantCode(t, err, hub.CodeUnauthenticated)
		_, err = d.Grant(channel, good)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("a hub without the key gives no challenge", func(t *testing.T) {
		_, err := newDesk().Challenge(t.Context(), channel, handshake.Begin("stolen").Opening)
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("the operator answers no program that lacks the key, and none at another channel", func(t *testing.T) {
		d, x := newDesk(), handshake.Begin(secret)
		asked, err := d.Challenge(t.Context(), channel, x.Opening)
		wantCode(t, err, "")
		_, err = x.Answer("tcp 127.0.0.1:7421", asked) // a program relays between two ports
		wantCode(t, err, hub.CodeTampering)
		_, err = x.Answer(channel, handshake.Challenge{Nonce: asked.Nonce, Proof: "00"})
		wantCode(t, err, hub.CodeTampering)
	})
	t.Run("the hub's proof is no answer of the operator", func(t *testing.T) {
		d, x := newDesk(), handshake.Begin(secret)
		asked, err := d.Challenge(t.Context(), channel, x.Opening)
		wantCode(t, err, "")
		_, err = d.Grant(channel, handshake.Answer(asked))
		wantCode(t, err, hub.CodeUnauthenticated)
	})
	t.Run("nothing goes over a channel that can be overheard", func(t *testing.T) {
		overheard := handshake.TCP(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7420})
		x := handshake.Begin(secret)
		_, err := newDesk().Challenge(t.Context(), overheard, x.Opening)
		wantCode(t, err, hub.CodePolicy)
		_, err = x.Answer(overheard, handshake.Challenge{})
		wantCode(t, err, hub.CodePolicy)
		if local := handshake.TCP(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7420}); local != channel {
			t.Errorf("loopback is %q", local)
		}
	})
	t.Run("many challenges without an answer replace the oldest alone", func(t *testing.T) {
		d := newDesk()
		first := d.answer(t)
		for range 300 {
			d.now = d.now.Add(time.Millisecond)
			if _, err := d.Challenge(t.Context(), channel, handshake.Begin(secret).Opening); err != nil {
				t.Fatal(err)
			}
		}
		_, err := d.Grant(channel, first)
		wantCode(t, err, hub.CodeUnauthenticated)
		_, err = d.Grant(channel, d.answer(t))
		wantCode(t, err, "")
	})
}
