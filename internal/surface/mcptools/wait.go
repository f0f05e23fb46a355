package mcptools

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/service/mailroom"
)

const (
	// maxSilence is the longest wait of a call whose client hears nothing meanwhile.
	// Clients give up on a silent call after 30 seconds and more.
	maxSilence = 25 * time.Second

	// progressEvery is the time between two notifications to a waiting client.
	progressEvery = 5 * time.Second
)

// wait prepares a call of the inbox that may wait. A client with a progress token is
// told at once and every few seconds that the call goes on, until the returned
// function is called; for another one the wait is cut to maxSilence.
func (c *toolCall) wait(ctx context.Context, req *mcp.CallToolRequest) (stop func()) {
	seconds := 0
	token := req.Params.GetProgressToken()

	c.replace("wait_s", func(value json.RawMessage) json.RawMessage {
		if json.Unmarshal(value, &seconds) != nil {
			return value // for the operation to refuse
		}
		if most := int(maxSilence / time.Second); token == nil && seconds > most && seconds <= int(mailroom.MaxWait/time.Second) {
			return strconv.AppendInt(nil, int64(most), 10)
		}
		return value
	})

	if token == nil || seconds <= 0 {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 0; ; n += int(progressEvery / time.Second) {
			// A client that is not there is noticed when the call is answered.
			_ = hub.Contain("mcptools.wait", func() error {
				return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Message: "waiting for mail", Progress: float64(n), Total: float64(seconds),
				})
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})

	return func() {
		cancel()
		done.Wait()
	}
}
