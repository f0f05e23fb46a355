package federation

import (
	"slices"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/hub/coord"
)

// ComparedKey is the key of the fact when the last complete comparison with a peer
// began. Dead letters before that are void.
func ComparedKey(peer coord.AID) string { return "peer.compared/" + string(peer) }

// LiveDeadLetters returns the dead letters of a peer since the last complete comparison
// with it began, newest first and at most 1,000. A dead letter whose change has the peer
// as its origin was refused on this hub; the others were refused by the peer.
func LiveDeadLetters(r hub.Reader, peer coord.AID) ([]hub.DeadLetter, error) {
	dead, err := r.DeadLetters(peer, 1000)
	if err != nil {
		return nil, err
	}
	var compared coord.Instant
	text, err := r.Meta(ComparedKey(peer))
	if err == nil {
		compared, err = coord.ParseInstant(text)
	}
	if err != nil && hub.CodeOf(err) != hub.CodeNotFound {
		return nil, err
	}
	return slices.DeleteFunc(dead, func(d hub.DeadLetter) bool { return d.At.Compare(compared) < 0 }), nil
}
