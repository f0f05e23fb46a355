package mcptools

import (
	"context"
	"sync"
	"time"

	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/usage"
)

const (
	tellDelay = time.Second     // after which the hub is told of a text, with others that came meanwhile
	tellTime  = 2 * time.Second // for the hub to answer
)

// A counter counts the texts that the program between an agent and the hub writes for the model,
// and tells the hub shortly after, and at the end. A hub that does not answer loses them: they are
// estimates.
type counter struct {
	client *rpc.Client

	mu    sync.Mutex // guards what follows
	texts map[usage.Part]api.ReadText
}

// add counts a text.
func (c *counter) add(_ string, part usage.Part, bytes int) {
	c.mu.Lock()
	if c.texts == nil {
		c.texts = map[usage.Part]api.ReadText{}
		time.AfterFunc(tellDelay, func() { c.tell(context.Background()) })
	}
	t := c.texts[part]
	t.Part = part
	t.Times++
	t.Bytes += bytes
	c.texts[part] = t
	c.mu.Unlock()
	if part == usage.Definitions { // which count for every call from now on
		c.tell(context.Background())
	}
}

// tell tells the hub the texts since the last time.
func (c *counter) tell(ctx context.Context) {
	c.mu.Lock()
	var p api.ReadTexts
	for _, t := range c.texts {
		p.Texts = append(p.Texts, t)
	}
	c.texts = nil
	c.mu.Unlock()
	if len(p.Texts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	rpc.Call(ctx, c.client, api.CountTexts, p) // estimates may be lost
}
