package attention

// SetPage makes the service read so many handoffs at a time.
func (s *Service) SetPage(n int) { s.page = n }
