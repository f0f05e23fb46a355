package cli

// What the fuzz targets call without a file.

// Put adds e to a configuration of cli.
func Put(cli CLI, doc []byte, e Entry) ([]byte, error) {
	e, err := e.check("test")
	if err != nil {
		return nil, err
	}
	return cli.format.put(doc, e.Name, e.server())
}

// Drop takes the server out of a configuration of cli.
func Drop(cli CLI, doc []byte, name string) ([]byte, error) { return cli.format.drop(doc, name) }

// Has reports whether a configuration of cli has the server.
func Has(cli CLI, doc []byte, name string) (bool, error) { return cli.format.has(doc, name) }

// The instruction.
var (
	PutNote  = putNote
	DropNote = dropNote
	HasNote  = hasNote
)
