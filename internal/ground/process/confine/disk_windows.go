package confine

import "io/fs"

// onDisk returns the size of a file.
func onDisk(info fs.FileInfo) int64 { return info.Size() }
