package guard

// hasModes says that files have a mode by which git tells hooks that it runs.
const hasModes = false
