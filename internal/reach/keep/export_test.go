package keep

// SetPause makes a store call a function before each write.
func (s *Store) SetPause(pause func(before string)) { s.pause = pause }
