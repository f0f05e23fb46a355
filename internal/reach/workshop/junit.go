package workshop

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Limits of files of JUnit.
const (
	maxReports     = 1000
	maxReportBytes = 32 << 20 // of all files together
	maxReportDepth = 64       // of elements
)

// CountTests counts the tests in the files of JUnit that match a pattern (see [io/fs.Glob]) in a
// folder and were written at since or later. It returns nil if there is none. The files are
// written by the code under check, so links that lead out of the folder, pipes and files that
// are too large are refused.
func CountTests(folder, pattern string, since time.Time) (*Tests, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	if len(names) > maxReports {
		return nil, fmt.Errorf("%d files match %s; at most %d are read", len(names), pattern, maxReports)
	}

	var all *Tests
	left := int64(maxReportBytes)
	for _, name := range names {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", name)
		}
		if info.ModTime().Before(since) {
			continue
		}
		if info.Size() > left {
			return nil, fmt.Errorf("%s is too large", name)
		}
		left -= info.Size()
		tests, err := countFile(root, name, info.Size())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if all == nil {
			all = &Tests{}
		}
		all.Total += tests.Total
		all.Failed += tests.Failed
		all.Skipped += tests.Skipped
	}
	return all, nil
}

// countFile counts the tests in one file, of which it reads at most size bytes.
func countFile(root *os.Root, name string, size int64) (Tests, error) {
	f, err := root.Open(name)
	if err != nil {
		return Tests{}, err
	}
	defer f.Close()
	return countTests(io.LimitReader(f, size))
}

// countTests counts the elements testcase. The totals that a file claims in attributes are not
// read. A test with several failures is one failed test. Entities are not expanded.
func countTests(r io.Reader) (Tests, error) {
	var t Tests
	dec := xml.NewDecoder(r) // it refuses elements that do not end, and unknown entities
	depth := 0
	test := 0 // the depth of the current testcase; 0 for none
	elements := 0
	var failed, skipped bool
	for {
		token, err := dec.Token()
		switch {
		case err == io.EOF && elements > 0:
			return t, nil
		case err == io.EOF:
			return Tests{}, errors.New("the file is empty")
		case err != nil:
			return Tests{}, err
		}

		switch e := token.(type) {
		case xml.StartElement:
			depth++
			elements++
			if depth > maxReportDepth {
				return Tests{}, fmt.Errorf("elements are nested deeper than %d", maxReportDepth)
			}
			inTest := test > 0 && depth == test+1
			switch {
			case e.Name.Local == "testcase" && test == 0:
				test = depth
				failed = false
				skipped = false
			case inTest && (e.Name.Local == "failure" || e.Name.Local == "error"):
				failed = true
			case inTest && e.Name.Local == "skipped":
				skipped = true
			}
		case xml.EndElement:
			if depth == test {
				t.add(failed, skipped)
				test = 0
			}
			depth--
		}
	}
}

// add counts a test.
func (t *Tests) add(failed, skipped bool) {
	t.Total++
	switch {
	case failed:
		t.Failed++
	case skipped:
		t.Skipped++
	}
}
