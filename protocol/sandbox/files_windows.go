package sandbox

// openFlags is empty: on Windows no open waits, and os.Root refuses devices.
const openFlags = 0
