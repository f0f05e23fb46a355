package hub

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"
	"time"
)

// An EnvelopeID is a UUIDv7: later messages have greater ids.
type EnvelopeID string

// IDs makes UUIDv7s that rise strictly, also within a millisecond and when the
// clock steps back. The zero value is not usable; see NewIDs.
type IDs struct {
	clock Clock

	mu   sync.Mutex // guards last
	last uint64     // milliseconds<<12 | counter of the newest id
}

// NewIDs returns a source of ids that reads the given clock.
func NewIDs(clock Clock) *IDs { return &IDs{clock: clock} }

// Next returns an id greater than all before it.
func (s *IDs) Next() EnvelopeID {
	var b [16]byte
	rand.Read(b[6:]) // never fails: the runtime ends the program instead

	// The counter starts in the lower half of its 12 bits at random, so a
	// burst has room before it borrows from the next millisecond.
	now := uint64(s.clock().UnixMilli())<<12 | uint64(binary.BigEndian.Uint16(b[6:8])&0x7ff)
	s.mu.Lock()
	if now <= s.last {
		now = s.last + 1
	}
	s.last = now
	s.mu.Unlock()

	binary.BigEndian.PutUint64(b[0:8], now<<4) // 48 bits of time, 12 of counter, 4 spare
	b[7] = byte(now)                           // the counter's low byte
	b[6] = 0x70 | byte(now>>8)&0x0f            // version 7 and the counter's high bits
	b[8] = 0x80 | b[8]&0x3f                    // variant
	return EnvelopeID(formatUUID(b))
}

func formatUUID(b [16]byte) string {
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	s[8] = '-'
	hex.Encode(s[9:13], b[4:6])
	s[13] = '-'
	hex.Encode(s[14:18], b[6:8])
	s[18] = '-'
	hex.Encode(s[19:23], b[8:10])
	s[23] = '-'
	hex.Encode(s[24:36], b[10:16])
	return string(s[:])
}

// Valid reports whether id is a UUIDv7 in lower case.
func (id EnvelopeID) Valid() bool {
	isVersion7 := len(id) == 36 && id[14] == '7' && strings.IndexByte("89ab", id[19]) >= 0
	if !isVersion7 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			isDigit := c >= '0' && c <= '9'
			isLetter := c >= 'a' && c <= 'f'
			if !isDigit && !isLetter {
				return false
			}
		}
	}
	return true
}

// Time returns the instant that the id was made, to the millisecond.
func (id EnvelopeID) Time() Time {
	if !id.Valid() {
		return Time{}
	}
	var b [8]byte
	hex.Decode(b[2:6], []byte(id[0:8]))
	hex.Decode(b[6:8], []byte(id[9:13]))
	return At(time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))))
}

// FirstID returns a bound for ids: those made before t are less, those made
// later are not.
func FirstID(t Time) EnvelopeID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[0:8], uint64(max(t.UnixMilli(), 0))<<16)
	return EnvelopeID(formatUUID(b))
}
