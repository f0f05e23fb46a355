package server

import "net"

// ServeHTTPOn answers on a listener of the test's own, without the work that
// Serve does beside it.
func (s *Server) ServeHTTPOn(l net.Listener) error { return s.http.Serve(deadlineListener{l}) }

// CloseHTTP ends ServeHTTPOn.
func (s *Server) CloseHTTP() error { return s.http.Close() }
