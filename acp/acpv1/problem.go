package acpv1

// A Problem is one fault of a message and its place. Decoding and encoding fail
// with a *Problem. The error of Validate joins one or several: errors.As finds the
// first, Unwrap() []error returns all.
type Problem struct {
	Path   string // JSON pointer to the value, "" for the message itself
	Value  string // the value, cut short; "" if it says nothing
	Reason string
}

// Error returns the path, the value and the reason.
func (p *Problem) Error() string {
	text := p.Reason
	if p.Value != "" {
		text = p.Value + " " + text
	}
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	return "acp: " + text
}
