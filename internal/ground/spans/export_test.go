package spans

import "time"

// A test does not wait as long as a hub.
func init() { flushTime = 100 * time.Millisecond }
