package clone

// SetPause sets the function that is called before each write to a repository of a user.
func (c *Copies) SetPause(f func(before string)) { c.pause = f }
