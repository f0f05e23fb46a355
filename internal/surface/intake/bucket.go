package intake

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// maxBuckets is the most buckets that are kept. Beyond it the full ones are dropped, which changes
// nothing; if none is full, new callers share one.
const maxBuckets = 10_000

// dropEvery is the time between two searches for full buckets.
const dropEvery = time.Second

// A buckets bounds requests by key: each key has a bucket of tokens, which fills at a rate.
type buckets struct {
	rate  float64 // tokens a second
	burst float64

	mu      sync.Mutex // guards the fields below
	all     map[string]*bucket
	dropped time.Time // when full buckets were last dropped
}

// A bucket has the tokens of one key at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

func newBuckets(rate float64, burst int) *buckets {
	return &buckets{rate: rate, burst: float64(burst), all: map[string]*bucket{}}
}

// take takes a token of a key. It returns 0, or the time until there is one.
func (b *buckets) take(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) >= maxBuckets && b.all[key] == nil {
		if now.Sub(b.dropped).Abs() >= dropEvery { // a flood must not search all buckets with each request
			b.dropFull(now)
		}
		if len(b.all) >= maxBuckets {
			key = "" // shared
		}
	}
	k := b.all[key]
	if k == nil {
		k = &bucket{tokens: b.burst, at: now}
		b.all[key] = k
	}
	b.fill(k, now)
	if k.tokens < 1 {
		return time.Duration((1 - k.tokens) / b.rate * float64(time.Second))
	}
	k.tokens--
	return 0
}

// fill adds the tokens since the last time. A clock that was set back adds none.
func (b *buckets) fill(k *bucket, now time.Time) {
	if passed := now.Sub(k.at); passed > 0 {
		k.tokens = min(k.tokens+passed.Seconds()*b.rate, b.burst)
	}
	k.at = now
}

// dropFull removes the buckets that are full.
func (b *buckets) dropFull(now time.Time) {
	b.dropped = now
	for key, k := range b.all {
		b.fill(k, now)
		if k.tokens >= b.burst {
			delete(b.all, key)
		}
	}
}

const (
	knownFor = 24 * time.Hour // after a right signature
	maxKnown = 1000           // addresses; vendors have a few dozen
)

// A knownAddresses has the addresses from which a right signature came lately. Only the holder of a
// secret can fill it.
type knownAddresses struct {
	mu  sync.Mutex           // guards all
	all map[string]time.Time // when the last right signature came, by source and address
}

func newKnownAddresses() *knownAddresses { return &knownAddresses{all: map[string]time.Time{}} }

// has reports whether a right signature came from an address within knownFor.
func (k *knownAddresses) has(from string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.all[from]
	return ok && now.Sub(at).Abs() < knownFor
}

// add notes that a right signature came from an address. Beyond maxKnown the oldest one is forgotten.
func (k *knownAddresses) add(from string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, isKnown := k.all[from]; !isKnown && len(k.all) >= maxKnown {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(k.all)), func(a, b string) int { return k.all[a].Compare(k.all[b]) })
		delete(k.all, oldest)
	}
	k.all[from] = now
}
