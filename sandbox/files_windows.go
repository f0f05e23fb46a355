package sandbox

// openFlags is empty: here no open waits, and os.Root refuses devices.
const openFlags = 0
