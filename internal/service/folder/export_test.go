package folder

// A Manifest is what the hub writes as teamspace.manifest.json.
type Manifest = manifest
