//go:build !unix

package catalog_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
