package acpv1

// A Problem is what is wrong with a message, and where. It is what decoding and
// encoding fail with; the error of Validate holds one or several, to be had with
// errors.As or through Unwrap() []error.
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
