package evidence

import "os"

// FoldCase makes t read working trees as on a file system where case does not matter.
func (t *Trees) FoldCase() { t.folds = func(*os.Root) bool { return true } }
