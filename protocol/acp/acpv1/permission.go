package acpv1

// Allows reports whether an option of this kind grants the permission. An
// unknown kind never does.
func (v PermissionOptionKind) Allows() bool {
	return v == PermissionOptionKindAllowOnce || v == PermissionOptionKindAllowAlways
}

// Approves reports whether the outcome grants the permission, given the
// options that were offered. An unknown outcome, an option that was not offered,
// and one that was offered with different kinds never do.
func (x *RequestPermissionOutcome) Approves(offered []PermissionOption) bool {
	if x.Selected == nil {
		return false
	}
	found := false
	for _, o := range offered {
		if o.OptionID != x.Selected.OptionID {
			continue
		}
		if !o.Kind.Allows() {
			return false
		}
		found = true
	}
	return found
}

// Success reports whether the agent stopped because its work was done. An unknown
// reason is never a success.
func (v StopReason) Success() bool { return v == StopReasonEndTurn }
