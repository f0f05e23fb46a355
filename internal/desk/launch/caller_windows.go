package launch

import "os"

// callingProcess returns the number of the process that called this one.
func callingProcess() int { return os.Getppid() }
