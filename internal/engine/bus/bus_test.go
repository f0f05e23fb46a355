package bus_test

import (
	"testing"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/engine/bus"
)

var _ hub.Bus = (*bus.Local)(nil)

func got(hints <-chan struct{}) bool {
	select {
	case <-hints:
		return true
	default:
		return false
	}
}

func TestLocal(t *testing.T) {
	var b bus.Local
	one, cancelOne := b.Subscribe("a")
	both, cancelBoth := b.Subscribe("a", "b")
	defer cancelBoth()

	t.Run("nobody is woken before a hint", func(t *testing.T) {
		if got(one) || got(both) {
			t.Error("a hint came from nowhere")
		}
	})
	t.Run("hints that come close together are one", func(t *testing.T) {
		for range 1000 {
			b.Publish("a")
		}
		if !got(one) || got(one) {
			t.Error("want exactly one hint")
		}
	})
	t.Run("a topic wakes its subscribers only", func(t *testing.T) {
		got(both)
		b.Publish("b")
		if got(one) || !got(both) {
			t.Error("topic b must wake the second subscriber alone")
		}
	})
	t.Run("after cancel nothing comes", func(t *testing.T) {
		cancelOne()
		cancelOne() // twice is harmless
		b.Publish("a")
		if got(one) {
			t.Error("a cancelled subscriber was woken")
		}
	})
}
