//go:build !unix

package server

// maxConnections returns how many connections a hub takes.
func maxConnections() int64 { return 4096 }
