package housetest_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTransactions finds functions that run inside a transaction of the store and lead to
// another one, by however many calls. A second transaction inside the first can wait for
// ever, because the engine has few connections and the first one holds one of them. It
// finds calls that take a context, too: a reader and a transaction of the store need
// none, so the call is one to the store, a service or another machine. And it finds what takes
// long: contents that are read or compared, and programs that are started, such as git and
// checks. All others wait for a transaction.
//
// A function runs inside a transaction if one of its parameters is a hub.Reader, a hub.Tx
// or a part of them. The calls of a function are all functions that its body names,
// literals included; a method of an interface stands for those of all types of this
// module that have it, and a field of a function type for every function that is
// assigned to it.
func TestTransactions(t *testing.T) {
	p := loadProgram(t)
	roots := 0
	for _, f := range p.functions {
		if path := p.pathTo(f, takesLong, p.toWork); path != nil && (p.inTransaction(f) || p.holdsTransaction(f)) {
			t.Errorf("%s: long work inside a transaction; read, end it, work, and write with a guard on what was read: %s", p.set.Position(f.node.Pos()), strings.Join(path, " -> "))
		}
		if !p.inTransaction(f) {
			continue
		}
		roots++
		for _, call := range f.contextual {
			t.Errorf("%s: a call with a context inside a transaction; make it before, or give it the reader", p.set.Position(call.Pos()))
		}
		if path := p.pathTo(f, p.opens, p.toStore); path != nil {
			t.Errorf("%s: a transaction inside another: %s", p.set.Position(f.node.Pos()), strings.Join(path, " -> "))
		}
	}
	if roots < 100 {
		t.Errorf("only %d functions inside of transactions were found", roots)
	}
}

// A function is a declared function, or a literal.
type function struct {
	name       string
	node       ast.Node
	params     *types.Tuple
	recv       *types.Var      // nil for a function without a receiver
	calls      []types.Object  // functions, methods and fields that its body names
	contextual []*ast.CallExpr // calls with a context, not those of literals inside it
}

// A program is this module with its types.
type program struct {
	set       *token.FileSet
	packages  map[string]*types.Package
	tx        *types.Interface // hub.Tx
	store     *types.Interface // hub.Store
	functions []*function
	declared  map[types.Object]*function
	assigned  map[types.Object][]*function // by the field of a function type
	named     []types.Type                 // the types of this module that are no interfaces
	methods   map[types.Object][]types.Object
	toStore   map[*function][]string // the path to the store; nil if there is none or it is being looked for
	toWork    map[*function][]string // the same for work that takes long
	context   types.Type
}

// loadProgram reads and checks the packages of this module, without their tests.
func loadProgram(t *testing.T) *program {
	t.Helper()
	p := &program{
		set: token.NewFileSet(), packages: map[string]*types.Package{}, declared: map[types.Object]*function{}, assigned: map[types.Object][]*function{},
		methods: map[types.Object][]types.Object{}, toStore: map[*function][]string{}, toWork: map[*function][]string{},
	}
	type source struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
	}
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // as the command is built
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	var own []source
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var s source
		if err := d.Decode(&s); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[s.ImportPath] = s.Export
		isOwn := strings.HasPrefix(s.ImportPath, module) && !strings.Contains(s.ImportPath, "/scripts/")
		if isOwn && s.ImportPath != module+"internal/testing/hubtest" { // it tries what calls of the store see of each other
			own = append(own, s) // go list names dependencies first
		}
	}

	imported := importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	find := func(path string) (*types.Package, error) {
		if pkg := p.packages[path]; pkg != nil {
			return pkg, nil
		}
		return imported.Import(path)
	}
	type checked struct {
		files []*ast.File
		info  *types.Info
	}
	var all []checked
	for _, s := range own {
		var files []*ast.File
		for _, name := range s.GoFiles {
			file, err := parser.ParseFile(p.set, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: importFunc(find)}
		pkg, err := conf.Check(s.ImportPath, p.set, files, info)
		if err != nil {
			t.Fatal(err)
		}
		p.packages[s.ImportPath] = pkg
		all = append(all, checked{files, info})
	}

	domain := p.packages[module+"hub"].Scope()
	p.tx = domain.Lookup("Tx").Type().Underlying().(*types.Interface)
	p.store = domain.Lookup("Store").Type().Underlying().(*types.Interface)
	std, err := find("context")
	if err != nil {
		t.Fatal(err)
	}
	p.context = std.Scope().Lookup("Context").Type()
	for _, pkg := range p.packages {
		for _, name := range pkg.Scope().Names() {
			if n, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !types.IsInterface(n.Type()) {
				p.named = append(p.named, n.Type(), types.NewPointer(n.Type()))
			}
		}
	}
	for _, c := range all {
		for _, file := range c.files {
			p.read(file, c.info)
		}
	}
	return p
}

// An importFunc imports packages.
type importFunc func(string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// read collects the functions of a file.
func (p *program) read(file *ast.File, info *types.Info) {
	literals := map[*ast.FuncLit]*function{}
	literal := func(lit *ast.FuncLit) *function {
		if literals[lit] == nil {
			literals[lit] = &function{name: "a literal at " + p.set.Position(lit.Pos()).String(), node: lit, params: info.Types[lit].Type.(*types.Signature).Params()}
			p.functions = append(p.functions, literals[lit])
			p.body(literals[lit], lit.Body, info)
		}
		return literals[lit]
	}
	value := func(e ast.Expr) *function { // the function that an expression names, if it does
		switch e := ast.Unparen(e).(type) {
		case *ast.FuncLit:
			return literal(e)
		case *ast.Ident:
			return p.reference(info.Uses[e])
		case *ast.SelectorExpr:
			return p.reference(info.Uses[e.Sel])
		}
		return nil
	}
	assign := func(field types.Object, e ast.Expr) {
		if v, ok := field.(*types.Var); ok && v.IsField() && isFunction(v.Type()) {
			if f := value(e); f != nil {
				p.assigned[v] = append(p.assigned[v], f)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			object := info.Defs[n.Name]
			if n.Body == nil {
				return false
			}
			f := p.reference(object)
			f.node, f.params = n, object.Type().(*types.Signature).Params()
			f.recv = object.Type().(*types.Signature).Recv()
			p.functions = append(p.functions, f)
			p.body(f, n.Body, info)
		case *ast.FuncLit:
			literal(n)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				assign(info.Uses[key], n.Value)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
					assign(info.Uses[s.Sel], n.Rhs[i])
				}
			}
		}
		return true
	})
}

func isFunction(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// reference returns the function of an object, which may be declared in a package that is
// read later; nil if the object is no function of this module.
func (p *program) reference(o types.Object) *function {
	f, ok := o.(*types.Func)
	if !ok || f.Pkg() == nil || p.packages[f.Pkg().Path()] == nil {
		return nil
	}
	f = f.Origin()
	if p.declared[f] == nil {
		p.declared[f] = &function{name: f.FullName()}
	}
	return p.declared[f]
}

// body collects the calls of a function. The body of a literal belongs to the function
// around it, too.
func (p *program) body(f *function, body *ast.BlockStmt, info *types.Info) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			switch o := info.Uses[id].(type) {
			case *types.Func:
				f.calls = append(f.calls, o.Origin())
			case *types.Var:
				if o.IsField() && isFunction(o.Type()) {
					f.calls = append(f.calls, o.Origin())
				}
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			for _, arg := range call.Args {
				if t := info.Types[arg].Type; t != nil && types.Identical(t, p.context) {
					f.contextual = append(f.contextual, call)
				}
			}
		}
		return true
	})
}

// inTransaction reports whether a function gets a reader or a transaction of the store.
func (p *program) inTransaction(f *function) bool {
	if f.params == nil {
		return false
	}
	for v := range f.params.Variables() {
		if p.isTransaction(v.Type()) {
			return true
		}
	}
	return false
}

// isTransaction reports whether a type is a reader or a transaction of the store, or a part of
// them.
func (p *program) isTransaction(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || n.Obj().Pkg().Path() != module+"hub" {
		return false
	}
	part, ok := n.Underlying().(*types.Interface)
	return ok && part.NumMethods() > 0 && types.Implements(p.packages[module+"hub"].Scope().Lookup("Tx").Type(), part)
}

// holdsTransaction reports whether a function gets a reader or a transaction of the store in a
// struct, as the session of a service is.
func (p *program) holdsTransaction(f *function) bool {
	if f.recv != nil && p.holds(f.recv.Type(), 3) {
		return true
	}
	if f.params == nil {
		return false
	}
	for v := range f.params.Variables() {
		if p.holds(v.Type(), 3) {
			return true
		}
	}
	return false
}

// holds reports whether a type is a struct, or a pointer to one, with a reader or a transaction
// of the store in it, or in one of its structs to a depth.
func (p *program) holds(t types.Type, depth int) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || depth == 0 || n.Obj().Pkg() == nil || !strings.HasPrefix(n.Obj().Pkg().Path(), module+"internal/service") {
		return false
	}
	s, ok := n.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range s.Fields() {
		if p.isTransaction(field.Type()) || p.holds(field.Type(), depth-1) {
			return true
		}
	}
	return false
}

// opens reports whether a method opens a transaction: one of hub.Store that does, or one of
// the engines.
func (p *program) opens(o types.Object) bool {
	switch o.Name() {
	case "View", "Update", "Lease", "IndexText":
	case "Do":
		return strings.HasSuffix(o.(*types.Func).FullName(), "rows.Slots).Do")
	default:
		return false
	}
	recv := o.Type().(*types.Signature).Recv()
	return recv != nil && (types.Implements(recv.Type(), p.store) || types.Implements(types.NewPointer(recv.Type()), p.store))
}

// bounded are functions that compare contents inside of transactions, with a bound for each
// transaction.
var bounded = []string{
	"(*" + module + "internal/service/reservation.coverage).compareLate", // maxLateSteps, for what was stored since the rest was compared
}

// takesLong reports whether a function may work for long: it reads or compares contents that
// agents wrote, or starts a program.
func takesLong(o types.Object) bool {
	if o.Pkg() == nil {
		return false
	}
	switch o.(*types.Func).FullName() {
	case module + "compat.Read", module + "compat.Compare",
		module + "internal/ground/effects.Read", "(" + module + "internal/ground/effects.Matcher).Matches", "(" + module + "internal/ground/effects.Matcher).Count",
		"(" + module + "compat.Document).Has", "(" + module + "compat.Verdict).For", "(" + module + "compat.Verdict).ForConsumers",
		"(*os/exec.Cmd).Run", "(*os/exec.Cmd).Start", "(*os/exec.Cmd).Output", "(*os/exec.Cmd).CombinedOutput":
		return true
	}
	return false
}

// pathTo returns the functions from f to a call of one that ends reports, nil if there is none.
// known has the paths that were found before.
func (p *program) pathTo(f *function, ends func(types.Object) bool, known map[*function][]string) []string {
	if path, done := known[f]; done {
		return path
	}
	known[f] = nil
	if slices.Contains(bounded, f.name) {
		return nil
	}
	for _, o := range f.calls {
		if fn, ok := o.(*types.Func); ok && ends(fn) {
			known[f] = []string{f.name, fn.FullName()}
			return known[f]
		}
	}
	for _, o := range f.calls {
		for _, next := range p.callees(o) {
			if path := p.pathTo(next, ends, known); path != nil {
				known[f] = append([]string{f.name}, path...)
				return known[f]
			}
		}
	}
	return nil
}

// callees returns the functions that an object stands for.
func (p *program) callees(o types.Object) []*function {
	if _, ok := o.(*types.Var); ok {
		return p.assigned[o]
	}
	f := o.(*types.Func)
	recv := f.Type().(*types.Signature).Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		if own := p.reference(f); own != nil {
			return []*function{own}
		}
		return nil
	}
	if p.methods[f] == nil {
		p.methods[f] = []types.Object{}
		for _, t := range p.named {
			if types.Implements(t, recv.Type().Underlying().(*types.Interface)) {
				if m, _, _ := types.LookupFieldOrMethod(t, true, f.Pkg(), f.Name()); m != nil {
					p.methods[f] = append(p.methods[f], m)
				}
			}
		}
	}
	var out []*function
	for _, m := range p.methods[f] {
		if fn := p.reference(m); fn != nil {
			out = append(out, fn)
		}
	}
	return out
}
