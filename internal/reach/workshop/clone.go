package workshop

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A cloner copies folders. The copy shares no file with the original: a hard link would let a
// run change the cache. File systems that can make a copy on write do.
type cloner struct {
	cannot bool // the file system does not clone
}

// tree copies a folder with modes, times and links to a path where at most an empty folder is.
// Pipes, sockets and devices are left out.
func (c *cloner) tree(ctx context.Context, from, to string) error {
	type folder struct {
		path string
		info fs.FileInfo
	}
	var folders []folder
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			folders = append(folders, folder{target, info})
			err = os.Mkdir(target, 0o700)
			if rel == "." && errors.Is(err, fs.ErrExist) {
				err = nil
			}
			return err
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case d.Type().IsRegular():
			return c.file(path, target, info)
		}
		return nil
	})
	if err != nil {
		return err
	}

	// A folder that may not be written to gets its mode when it is full.
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		if err := errors.Join(os.Chmod(f.path, f.info.Mode().Perm()), os.Chtimes(f.path, f.info.ModTime(), f.info.ModTime())); err != nil {
			return err
		}
	}
	return nil
}

// file copies a file.
func (c *cloner) file(from, to string, info fs.FileInfo) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if c.cannot || !share(src, dst) {
		c.cannot = true
		_, err = io.Copy(dst, src)
	}
	return errors.Join(err, dst.Chmod(info.Mode().Perm()), dst.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// removeAll removes a folder whose content a check may have made hard to remove.
func removeAll(folder string) error {
	if os.RemoveAll(folder) == nil {
		return nil
	}
	filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700) // before it is listed, for the first error is about the listing
		}
		return nil
	})
	return os.RemoveAll(folder)
}
