package acpv1

// Members are the members of an object whose names the protocol does not define,
// in their order.
type Members[V any] []Member[V]

// A Member is one of them.
type Member[V any] struct {
	Name  string `acp:"name"`
	Value V
}

// Get returns the value of the member with that name, and whether there is one.
func (m Members[V]) Get(name string) (V, bool) {
	for i := range m {
		if m[i].Name == name {
			return m[i].Value, true
		}
	}
	var none V
	return none, false
}

// Set gives the member with that name a value. A new one comes last.
func (m *Members[V]) Set(name string, value V) {
	for i := range *m {
		if (*m)[i].Name == name {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, Member[V]{name, value})
}

// MarshalJSON returns the members as a JSON object, in their order.
func (m Members[V]) MarshalJSON() ([]byte, error) { return Marshal(&m) }

// UnmarshalJSON sets m to the members of a JSON object.
func (m *Members[V]) UnmarshalJSON(data []byte) error { return Unmarshal(data, m) }
