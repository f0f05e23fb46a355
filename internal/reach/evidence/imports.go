package evidence

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxImports bounds the lines of one script that import files, each of which may name several.
const maxImports = 100

// Lines by which a script imports a file.
var (
	pythonImport = regexp.MustCompile(`(?m)^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+\(?([\w, \t]*)|import[ \t]+([\w., \t]+))`)
	nodeImport   = regexp.MustCompile(`(?:\brequire\(|\bimport\(|\bfrom\b|\bimport\b)\s*['"](\.\.?/[^'"]+)['"]`)
)

var (
	pythonFiles = []string{".py", ""}
	nodeFiles   = []string{".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ""}
)

// imports adds the files that a script of Python or JavaScript imports from its own folder or from below
// it. It follows one level: the imports of those files are not read. A test and a script at the top of the
// tree import what they are to judge, so that their imports do not count.
func (s *scriptSearch) imports(name string, content []byte) {
	isProgram := bytes.IndexByte(content, 0) >= 0
	isSubject := path.Dir(name) == "." || isTest(name)
	if isSubject || isProgram || leadsOut(name) {
		return
	}
	first, _, _ := bytes.Cut(content, []byte("\n"))
	is := func(files []string, program string) bool {
		ext := path.Ext(name)
		return slices.Contains(files, ext) && (ext != "" || (bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte(program))))
	}
	var found []string
	switch {
	case is(pythonFiles, "python"):
		found = pythonImports(string(content))
	case is(nodeFiles, "node"):
		found = nodeImports(string(content))
	}
	for _, written := range found[:min(len(found), 8*maxImports)] {
		file := path.Join(path.Dir(name), written)
		if strings.HasPrefix(file, path.Dir(name)+"/") {
			s.add(script{name: file, importer: name}, "")
		}
	}
}

// pythonImports returns the files that a text of Python may import, relative to its folder: a module is a
// file or a folder, and a name that is imported from it may be one in that folder.
func pythonImports(text string) (out []string) {
	module := func(name string) {
		if name != "" {
			out = append(out, name+".py", name+"/__init__.py")
		}
	}
	for _, m := range pythonImport.FindAllStringSubmatch(text, maxImports) {
		for name := range strings.SplitSeq(m[3], ",") {
			if name, _, _ = strings.Cut(strings.TrimSpace(name), " "); name != "" {
				module(strings.ReplaceAll(name, ".", "/"))
			}
		}
		from := m[1]
		isRelative := strings.HasPrefix(from, ".")
		if from == "" || strings.HasPrefix(from, "..") {
			continue
		}
		folder := strings.ReplaceAll(strings.TrimPrefix(from, "."), ".", "/")
		module(folder)
		for name := range strings.SplitSeq(m[2], ",") {
			if name, _, _ = strings.Cut(strings.TrimSpace(name), " "); name != "" && (isRelative || folder != "") {
				module(path.Join(folder, name))
			}
		}
	}
	return out
}

// nodeImports returns the files that a text of JavaScript may import, relative to its folder.
func nodeImports(text string) (out []string) {
	for _, m := range nodeImport.FindAllStringSubmatch(text, maxImports) {
		name := path.Clean(m[1])
		out = append(out, name, name+".js", name+".mjs", name+".cjs", name+".ts", name+".json", name+"/index.js", name+"/index.ts")
	}
	return out
}
