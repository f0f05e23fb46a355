package intake

import (
	"fmt"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := newBuckets(2, 3)
	for i := range 3 {
		if wait := b.take("a", now); wait != 0 {
			t.Errorf("request %d waits %s", i, wait)
		}
	}
	if wait := b.take("a", now); wait != 500*time.Millisecond {
		t.Errorf("got %s, want half a second", wait)
	}
	if wait := b.take("b", now); wait != 0 {
		t.Errorf("another key waits %s", wait)
	}
	if wait := b.take("a", now.Add(time.Second)); wait != 0 {
		t.Errorf("after a second: %s", wait)
	}
	if wait := b.take("a", now.Add(-time.Hour)); wait != 0 {
		t.Errorf("a token that was there is gone because the clock was set back: %s", wait)
	}
	if wait := b.take("a", now.Add(-time.Hour)); wait == 0 {
		t.Error("a clock that was set back gives tokens")
	}
}

// A flood from many addresses has bounded memory, and callers that were there before keep their
// buckets.
func TestBucketsAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := newBuckets(1, 2)
	for i := range maxBuckets + 5000 {
		b.take(fmt.Sprint(i), now)
	}
	if len(b.all) > maxBuckets+1 {
		t.Errorf("%d buckets are kept", len(b.all))
	}
	if b.take("late", now) == 0 {
		t.Error("new callers beyond the bound do not share a bucket")
	}
	if wait := b.take("late", now.Add(time.Minute)); wait != 0 || len(b.all) > 2 {
		t.Errorf("after a minute: %s, %d buckets", wait, len(b.all))
	}
}

func TestKnownAddresses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := newKnownAddresses()
	k.add("a", now)
	if !k.has("a", now.Add(time.Hour)) || k.has("a", now.Add(knownFor)) || k.has("b", now) {
		t.Error("an address is known for a day after a right signature, and no other is")
	}
	for i := range maxKnown {
		k.add(fmt.Sprint(i), now.Add(time.Duration(i+1)*time.Second))
	}
	if k.has("a", now) || len(k.all) != maxKnown {
		t.Errorf("%d addresses are kept, the oldest among them: %v", len(k.all), k.has("a", now))
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:4711":              "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:4711": "2001:db8:1:2::",
		"[2001:db8:1:2:ffff::1]:4712": "2001:db8:1:2::",
		"[2001:db8:1:3:3:4:5:6]:4711": "2001:db8:1:3::",
		"[::ffff:192.0.2.7]:4711":     "::ffff:192.0.2.7",
		"/run/a.sock":                 "/run/a.sock",
	} {
		if got := Network(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
