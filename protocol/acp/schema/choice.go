package schema

import "slices"

// A Choice is a definition that offers alternatives: an enum or a union. The tables
// of choices are generated from the schemas; a test reads the schemas in another way
// and compares.
type Choice struct {
	Name string // of the definition

	// Tag is the discriminator, the member that names the variant; "" for an enum,
	// and for a union whose variants differ in their members or JSON types.
	Tag string

	// Open means that an unknown value is legal. A value that begins with _ belongs
	// to an implementation, any other unknown value to a future version of the
	// protocol. A closed enum or union allows the known values only.
	Open bool
}

// Choices returns all enums and unions, sorted by name. An unknown version has none.
func (v Version) Choices() []Choice { return slices.Clone(choices[v]) }

// Choice returns the enum or union with that name, and whether there is one.
func (v Version) Choice(name string) (Choice, bool) {
	for _, c := range choices[v] {
		if c.Name == name {
			return c, true
		}
	}
	return Choice{}, false
}
