package run

// Limit makes a recorder stop after so many bytes.
func (r *Recorder) Limit(n int64) { r.left = n }
