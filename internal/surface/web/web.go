// Package web is the hub's page: what happens on the hub, for people in a browser, and
// the decisions that wait for one.
//
// A page is HTML from the server and needs no JavaScript; with it, a page follows the
// journal by server-sent events. Everything is read and changed by the operations of
// the tables, as the person who is signed in: a viewer reads, an operator steers. The
// page is served under a host name of its own alone, and without a session nothing but
// the sign-in page is.
//
// Text of agents is text on a page, never HTML: templates escape it, and the policy
// that every answer carries lets a browser run no script and take no style but those
// that are embedded here. It has no characters that hide or reorder text, see package
// plaintext; the export of the journal is JSON and has them as escapes.
package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-agents/parley/hub"
	"github.com/parley-agents/parley/internal/ground/text/plaintext"
	"github.com/parley-agents/parley/internal/operation/api"
	"github.com/parley-agents/parley/internal/operation/rpc"
	"github.com/parley-agents/parley/internal/service/mailroom"
	"github.com/parley-agents/parley/internal/service/signin"
)

//go:embed assets pages
var files embed.FS

// Options says what a Handler works with.
type Options struct {
	Operations *rpc.Dispatcher
	SignIn     *signin.Service
	Head       func(context.Context) (hub.Head, error) // of the journal
	Bus        hub.Bus
	Log        *slog.Logger
	Stopping   <-chan struct{} // ends every event stream when it is closed
	Version    string
	Figures    func() Figures // what the hub has counted
	Limits     mailroom.Limits
	Teams      bool // this hub has teams
}

// A Handler serves the page.
type Handler struct {
	Options
	mux    *http.ServeMux
	finder *http.ServeMux // of pages by their address
	pages  []page
	routes []string // every pattern of mux

	// Every form has this in place of the token of its session, so that one rendering
	// serves all sessions; likewise the key of a message that is sent once.
	token, once []byte

	live    live
	history samples

	mu    sync.Mutex       // guards notes
	notes map[string]*note // what a change led to, for the next page of a session
}

// A note tells a person what a change led to.
type note struct {
	Text, Hint string
	Failed     bool
}

// A page is one address of the surface.
type page struct {
	name    string // of its template
	pattern string // of its path
	nav     string // in the navigation; "" for a page below another one
	under   string // the page whose entry of the navigation is marked
	load    func(ctx context.Context, v *visit) (title string, data any, err error)
	every   time.Duration // after which it is rendered without an event; default refresh
	keeps   bool          // it shows the words of a form of it that was refused
}

// A visit is one request for a page by a person who is signed in.
type visit struct {
	*Handler
	caller   hub.Caller
	r        *http.Request // path values and query
	typed    url.Values    // a form of the page that was refused; nil without one
	overview *api.Overview // of one rendering; nil before it is asked for
}

// operator reports whether the person may steer.
func (v *visit) operator() bool { return v.caller.IsOperator() }

// An asset is an embedded file, compressed once.
type asset struct {
	kind        string
	plain, gzip []byte
}

// NewHandler returns the page of a hub.
func NewHandler(o Options) *Handler {
	h := &Handler{
		Options: o, mux: http.NewServeMux(), finder: http.NewServeMux(), notes: map[string]*note{},
		token: []byte("token-" + rand.Text()), once: []byte("once-" + rand.Text()),
	}
	h.live.views, h.live.streams = map[viewKey]*view{}, map[string]int{}

	h.pages = []page{
		{name: "now", pattern: "/{$}", nav: "Now", load: now},
		{name: "agent", pattern: "/agents/{id}", under: "now", load: oneAgent, every: time.Second},
		{name: "conversations", pattern: "/conversations", nav: "Conversations", load: conversations},
		{name: "conversation", pattern: "/conversations/{id}", under: "conversations", load: conversation},
		{name: "message", pattern: "/messages/{id}", under: "conversations", load: oneMessage},
		{name: "handoffs", pattern: "/handoffs", nav: "Handoffs", load: handoffs},
		{name: "handoff", pattern: "/handoffs/{id}", under: "handoffs", load: oneHandoff},
		{name: "teams", pattern: "/teams", nav: "Teams", load: teams},
		{name: "team", pattern: "/teams/{team}", under: "teams", load: oneTeam},
		{name: "artifact", pattern: "/teams/{team}/artifacts/{artifact...}", under: "teams", load: artifact},
		{name: "merge", pattern: "/teams/{team}/merge/{artifact...}", under: "teams", load: mergePage, keeps: true},
		{name: "files", pattern: "/files", nav: "Files", load: filesInWork},
		{name: "checks", pattern: "/checks", nav: "Checks", load: checks},
		{name: "check", pattern: "/checks/{id}", under: "checks", load: oneResult},
		{name: "landing", pattern: "/landing", nav: "Landing", load: landings},
		{name: "entry", pattern: "/landing/{id}", under: "landing", load: oneLanding, every: time.Second},
		{name: "spend", pattern: "/spend", nav: "Spend", load: spendPage},
		{name: "outside", pattern: "/outside", nav: "Events", load: eventPage},
		{name: "runs", pattern: "/runs", nav: "Runs", load: runs},
		{name: "run", pattern: "/runs/{id}", under: "runs", load: oneRun},
		{name: "contracts", pattern: "/contracts", nav: "Contracts", load: contracts},
		{name: "matrix", pattern: "/contracts/{project}", under: "contracts", load: matrix},
		{name: "contract", pattern: "/contracts/{project}/{id}", under: "contracts", load: oneContract},
		{name: "journal", pattern: "/journal", nav: "Journal", load: journal},
		{name: "proof-file", pattern: "/proof/{id}", under: "journal", load: proofPage},
		{name: "health", pattern: "/health", nav: "Health", load: health},
	}

	if !o.Teams {
		h.pages = slices.DeleteFunc(h.pages, func(p page) bool { return p.name == "teams" || p.under == "teams" })
	}

	// The finder has the same patterns, and tells which page an address names without showing it.
	for _, p := range h.pages {
		h.handle("GET "+p.pattern, h.signedIn(func(w http.ResponseWriter, r *http.Request, s session) { h.servePage(w, r, s, p) }))
		h.finder.HandleFunc("GET "+p.pattern, func(_ http.ResponseWriter, r *http.Request) {
			*r.Context().Value(targetKey{}).(*target) = target{p, r}
		})
	}

	h.handle("GET /journal/verify", h.signedIn(h.serveVerify))
	h.handle("GET /journal/export", h.signedIn(h.exportJournal))
	h.handle("GET /journal/proof/{id}", h.signedIn(h.exportProof))
	h.handle("GET /live", h.signedIn(h.stream))
	h.handle("POST /do/{action}", h.signedIn(h.change))
	h.handle("POST /sign-out", h.signedIn(h.signOut))
	h.handle("GET /sign-in", func(w http.ResponseWriter, r *http.Request) { h.serveSignIn(w, http.StatusOK, nil) })
	h.handle("POST /sign-in", h.signIn)

	// The assets of the sign-in page need no session.
	h.handle("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) {
		if openAssets[r.PathValue("name")] {
			h.serveAsset(w, r)
			return
		}
		h.signedIn(func(w http.ResponseWriter, r *http.Request, _ session) { h.serveAsset(w, r) })(w, r)
	})

	h.handle("/", h.signedIn(func(w http.ResponseWriter, r *http.Request, s session) {
		h.fail(w, r, s, hub.Errorf(hub.CodeNotFound, "web", "no page at %s", r.URL.Path).WithHint("use the navigation to find a page"))
	}))
	return h
}

// handle serves a pattern.
func (h *Handler) handle(pattern string, serve http.HandlerFunc) {
	h.routes = append(h.routes, pattern)
	h.mux.HandleFunc(pattern, serve)
}

// openAssets are the parts of the sign-in page.
var openAssets = map[string]bool{"app.css": true, "icon.svg": true}

// An appearance holds the embedded files of all pages.
type appearance struct {
	themes map[string]*template.Template // templates by the name of a page
	assets map[string]asset              // by the name of a file
}

// embedded reads the files at the first request for a page. A mistake in one of them panics: it is a
// mistake of the program, and each page has a test.
var embedded = sync.OnceValue(func() appearance {
	out := appearance{themes: map[string]*template.Template{}, assets: map[string]asset{}}
	base := template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/layout.html", "pages/parts.html"))
	for _, file := range entries("pages") {
		name := strings.TrimSuffix(file, ".html")
		out.themes[name] = template.Must(template.Must(base.Clone()).ParseFS(files, "pages/"+file))
	}

	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	for _, name := range entries("assets") {
		plain, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		out.assets[name] = asset{kinds[path.Ext(name)], plain, compressed(plain)}
	}
	return out
})

// entries returns the names of the embedded files in a folder.
func entries(folder string) (out []string) {
	all, err := files.ReadDir(folder)
	if err != nil {
		panic(err)
	}
	for _, d := range all {
		out = append(out, d.Name())
	}
	return out
}

// compressed returns b as gzip.
func compressed(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b) // a buffer takes everything
	w.Close()
	return out.Bytes()
}

// headers are in every answer. With a stricter referrer policy a browser would leave the
// origin out of the forms of a page, too.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"Referrer-Policy":         "same-origin", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}

// ServeHTTP answers a request under the page's host name.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	h.mux.ServeHTTP(w, r)
}

// cookieName is the name of the cookie with the secret of a session.
const cookieName = "parley"

// A session is a browser that is signed in, in one request.
type session struct {
	signin.Session
	caller hub.Caller
	secret string
}

// token returns the token that every change of the session carries.
func (s session) token() string { return hub.HashSecret("change:" + s.secret)[:32] }

// identify returns the session of a request.
func (h *Handler) identify(r *http.Request) (session, error) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return session{}, hub.Errorf(hub.CodeUnauthenticated, "web", "you are not signed in").WithHint("run: parley open")
	}
	s, caller, err := h.SignIn.Identify(r.Context(), signin.Label(r.Host), c.Value)
	return session{s, caller, c.Value}, err
}

// signedIn gives a request to next with its session. Without one a person who asks for
// a page is shown the sign-in page, and every other request is refused.
func (h *Handler) signedIn(next func(http.ResponseWriter, *http.Request, session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := h.identify(r)
		switch {
		case err == nil:
			next(w, r, s)
		case hub.CodeOf(err) != hub.CodeUnauthenticated:
			h.serveSignIn(w, http.StatusServiceUnavailable, err)
		case r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			h.serveSignIn(w, http.StatusUnauthorized, nil)
		default:
			http.Error(w, "sign in with: parley open", http.StatusUnauthorized)
		}
	}
}

func (h *Handler) serveSignIn(w http.ResponseWriter, status int, problem error) {
	data := layout{Title: "Sign in"}
	if problem != nil {
		data.Note = failure(problem)
	}
	h.write(w, status, "sign-in", data)
}

// noOrigin is the origin that a browser gives a file.
const noOrigin = "null"

// ownOrigin returns the origin of the pages under the name of a request.
func ownOrigin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// signIn exchanges the code of a link for a session. It is taken from the page itself,
// and from the file of parley open, so that no other page can sign a browser in. The answer is a page that leads
// on: a browser sends a strict cookie only with a request that a page of the same site
// began.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin != ownOrigin(r) && origin != noOrigin {
		h.serveSignIn(w, http.StatusForbidden, hub.Errorf(hub.CodeDenied, "web", "enter the code on the sign-in page"))
		return
	}
	if err := readForm(w, r); err != nil {
		h.serveSignIn(w, http.StatusBadRequest, err)
		return
	}
	made, secret, err := h.SignIn.Exchange(r.Context(), signin.Attempt{
		Code: r.PostForm.Get("code"), Label: signin.Label(r.Host), File: origin == noOrigin, Client: r.UserAgent(),
	})
	if err != nil {
		status, ok := statuses[hub.CodeOf(err)]
		if !ok {
			status = http.StatusUnauthorized
		}
		h.serveSignIn(w, status, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", Expires: made.Until.Time, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	h.write(w, http.StatusOK, "signed-in", layout{Title: "Signed in"})
}

func (h *Handler) signOut(w http.ResponseWriter, r *http.Request, s session) {
	err := h.checkChange(w, r, s)
	if err == nil {
		err = h.SignIn.SignOut(r.Context(), s.caller, s.ID)
	}
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

func (h *Handler) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := embedded().assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "private, no-cache")
	etag := `"` + hub.HashSecret(string(a.plain))[:16] + `"`
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeCompressed(w, r, http.StatusOK, a.plain, a.gzip)
}

// writeCompressed writes a body as the browser wants it. packed may be nil.
func writeCompressed(w http.ResponseWriter, r *http.Request, status int, plain, packed []byte) {
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if packed == nil {
			packed = compressed(plain)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		plain = packed
	}
	w.WriteHeader(status)
	w.Write(plain) // a browser that went away needs no answer
}

// A layout is the frame around a page.
type layout struct {
	Title    string
	Waiting  int // things that wait for a person
	Nav      []navEntry
	Operator bool
	Person   string
	Note     *note
	Main     template.HTML // of the page's own template
	Seq      int64         // the number of the journal entry that it includes
	Path     string        // for the event stream; "" for a page that does not change
	Token    string
	Version  string
}

type navEntry struct {
	Name, Path string
	Here       bool
}

// execute renders a part of a page. All HTML is made here, so that no page has a
// character that hides text or moves a cursor. Embedded templates have none.
func (h *Handler) execute(name, part string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := embedded().themes[name].ExecuteTemplate(&b, part, data)
	return []byte(plaintext.Text(b.String())), err
}

// write renders a template with its layout.
func (h *Handler) write(w http.ResponseWriter, status int, name string, data layout) {
	body, err := h.execute(name, "layout", data)
	if err != nil {
		h.Log.Error("a page could not be rendered", "op", name, "err", err)
		http.Error(w, "this page cannot be rendered; see the hub's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body) // a browser that went away needs no answer
}

// A rendering is the part of a page that changes.
type rendering struct {
	title   string
	waiting int
	main    []byte
	seq     int64  // a journal entry up to which it includes all
	upTo    int64  // a journal entry after which it includes none
	n       int    // counts the renderings of a view, from 1
	text    []byte // of its event, the same for all streams but for the placeholders
}

// render renders a page for everyone who may see what the caller may. The result holds
// placeholders in place of the session's token.
func (h *Handler) render(ctx context.Context, v *visit, p page) (rendering, error) {
	var out rendering
	head, err := h.Head(ctx)
	if err != nil {
		return out, err
	}
	out.seq = head.Seq
	v = &visit{Handler: h, caller: v.caller, r: v.r, typed: v.typed}
	title, data, err := p.load(ctx, v)
	if err != nil {
		return out, err
	}
	waiting, err := v.waiting(ctx)
	if err != nil {
		return out, err
	}
	if head, err = h.Head(ctx); err != nil {
		return out, err
	}
	out.upTo = head.Seq
	out.title, out.waiting = plaintext.Line(title), waiting.Count
	frame := struct {
		Operator    bool
		Token, Once string
		Data        any
	}{v.operator(), string(h.token), string(h.once), data}
	out.main, err = h.execute(p.name, "main", frame)
	return out, err
}

// personal returns a rendering's HTML for one session.
func (h *Handler) personal(main []byte, s session) []byte {
	main = bytes.ReplaceAll(main, h.token, []byte(s.token()))
	return bytes.ReplaceAll(main, h.once, []byte(rand.Text()))
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, s session, p page) {
	h.showPage(w, http.StatusOK, &visit{Handler: h, caller: s.caller, r: r}, s, p, h.takeNote(s))
}

// showPage renders a page for a visit. n may be nil.
func (h *Handler) showPage(w http.ResponseWriter, status int, v *visit, s session, p page, n *note) {
	r := v.r
	got, err := h.render(r.Context(), v, p)
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	data := h.frame(s, p)
	data.Title = got.title
	data.Waiting = got.waiting
	data.Seq = got.seq
	data.Path = r.URL.RequestURI()
	data.Note = n
	data.Main = template.HTML(h.personal(got.main, s)) // made by a template
	body, err := h.execute(p.name, "layout", data)
	if err != nil {
		h.fail(w, r, s, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writeCompressed(w, r, status, body, nil)
}

// writeStill serves a page that does not follow events.
func (h *Handler) writeStill(w http.ResponseWriter, s session, p page, title string, data any) {
	main, err := h.execute(p.name, "main", struct {
		Operator bool
		Data     any
	}{s.caller.IsOperator(), data})
	frame := h.frame(s, p)
	frame.Title, frame.Main = title, template.HTML(main) // made by a template
	if err != nil {
		frame.Main, frame.Note = "", failure(err)
	}
	h.write(w, http.StatusOK, p.name, frame)
}

// frame returns the layout of a page for a session.
func (h *Handler) frame(s session, p page) layout {
	out := layout{Operator: s.caller.IsOperator(), Token: s.token(), Version: h.Version, Person: s.Viewer}
	if out.Operator {
		out.Person = "operator"
		if s.Person != "" {
			out.Person = s.Person
		}
	}
	for _, other := range h.pages {
		if other.nav != "" {
			out.Nav = append(out.Nav, navEntry{other.nav, strings.TrimSuffix(other.pattern, "{$}"), other.name == p.name || other.name == p.under})
		}
	}
	return out
}

// statuses gives the HTTP status of the codes that a person meets; 400 for all others.
var statuses = map[hub.Code]int{
	hub.CodeNotFound: http.StatusNotFound, hub.CodeDenied: http.StatusForbidden, hub.CodeConflict: http.StatusConflict,
	hub.CodeInternal: http.StatusInternalServerError, hub.CodeDegraded: http.StatusServiceUnavailable, hub.CodeOverloaded: http.StatusServiceUnavailable,
}

// failure returns what a person is told of an error.
func failure(err error) *note {
	d := rpc.Describe(err, rpc.Commands)
	return &note{Text: d.Message, Hint: d.Hint, Failed: true}
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, s session, err error) {
	if r.Context().Err() != nil {
		return
	}
	code := hub.CodeOf(err)
	if code == hub.CodeInternal {
		h.Log.Error("a page failed", "actor", s.caller.ID, "op", r.Pattern, "err", err)
	}
	status, ok := statuses[code]
	if !ok {
		status = http.StatusBadRequest
	}
	data := h.frame(s, page{})
	data.Title = "Something went wrong"
	data.Note = failure(err)
	data.Main = `<h1>Something went wrong</h1><p><a href="/">Back to Now</a></p>`
	h.write(w, status, "verify", data)
}

// maxForm is the size of the largest form in bytes.
const maxForm = 1 << 20

func readForm(w http.ResponseWriter, r *http.Request) error {
	rpc.ArriveWithin(w, 15*time.Second)
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		err = r.ParseMultipartForm(maxForm)
	}
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return hub.Errorf(hub.CodeTooLarge, "web", "the form is larger than %s", byteCount(large.Limit)).WithHint("send long texts from the command line")
	}
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, "web", "cannot read the form")
	}
	return nil
}
