package web

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/parley-agents/parley/hub"
)

// A diagram is the map of who talks to whom: agents on a circle, a line for each pair,
// the wider the more they wrote.
type diagram struct {
	Width, Height int
	Nodes         []node
	Edges         []edge
	Text          string // the same in words

	count map[[2]hub.AgentID]int
	order []hub.AgentID
}

type node struct {
	Name   hub.AgentID
	X, Y   float64
	LX, LY float64 // of the label
	Anchor string
	R      float64
	Sent   int
}

type edge struct {
	From, To hub.AgentID
	Path     string
	Width    float64
	Count    int
}

const mapNodes = 24 // agents on the map; the others talked less

func newDiagram(names []hub.AgentID) diagram {
	return diagram{Width: 520, Height: 340, order: names, count: map[[2]hub.AgentID]int{}}
}

// add counts a message. A broadcast is not drawn: it goes to everyone alike.
func (d *diagram) add(e hub.Envelope) {
	if e.Broadcast() || e.From == hub.Self {
		return
	}
	for _, to := range e.To {
		if to != e.From {
			d.count[[2]hub.AgentID{e.From, to}]++
		}
	}
}

// place computes where everything stands.
func (d *diagram) place() {
	sent := map[hub.AgentID]int{}
	for pair, n := range d.count {
		sent[pair[0]] += n
		sent[pair[1]] += 0
	}

	// The agents that sent most are shown, in alphabetical order, so that a new count alone does
	// not move them.
	names := slices.DeleteFunc(slices.Clone(d.order), func(n hub.AgentID) bool { _, talks := sent[n]; return !talks })
	slices.SortStableFunc(names, func(a, b hub.AgentID) int { return cmp.Compare(sent[b], sent[a]) })
	names = names[:min(len(names), mapNodes)]
	slices.Sort(names)

	// Agents stand on an ellipse, the first at the top; two stand side by side.
	at := map[hub.AgentID]node{}
	cx, cy := float64(d.Width)/2, float64(d.Height)/2
	rx, ry := cx-110, cy-42
	for i, name := range names {
		angle := 2*math.Pi*float64(i)/float64(len(names)) - math.Pi/2
		if len(names) == 2 {
			angle += math.Pi / 2
		}
		x, y := math.Cos(angle), math.Sin(angle)
		n := node{Name: name, X: round(cx + rx*x), Y: round(cy + ry*y), Anchor: "middle", Sent: sent[name]}
		n.R = round(7 + math.Min(9, math.Sqrt(float64(n.Sent))))

		// A name stands beside its agent, or below or above it near the middle.
		n.LX, n.LY = n.X, n.Y+n.R+16
		switch {
		case x > 0.3:
			n.Anchor = "start"
			n.LX = n.X + n.R + 6
			n.LY = n.Y + 4
		case x < -0.3:
			n.Anchor = "end"
			n.LX = n.X - n.R - 6
			n.LY = n.Y + 4
		case y < 0:
			n.LY = n.Y - n.R - 8
		}

		at[name] = n
		d.Nodes = append(d.Nodes, n)
	}

	pairs := slices.SortedFunc(maps.Keys(d.count), func(a, b [2]hub.AgentID) int {
		return cmp.Or(cmp.Compare(d.count[b], d.count[a]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, p := range pairs {
		from, ok := at[p[0]]
		to, ok2 := at[p[1]]
		if !ok || !ok2 {
			continue
		}
		d.Edges = append(d.Edges, edge{From: p[0], To: p[1], Count: d.count[p], Width: round(1.4 + math.Min(6, 1.2*math.Log2(float64(d.count[p])))), Path: arc(from, to)})
	}

	// The text names the same edges to a reader who does not see the picture.
	for i, e := range d.Edges {
		if i == 8 {
			d.Text += ", and others"
			break
		}
		if i > 0 {
			d.Text += ", "
		}
		d.Text += fmt.Sprintf("%s to %s %d", e.From, e.To, e.Count)
	}
}

// arc returns a bent line from the edge of one node to that of another, so that the two
// directions of a pair lie beside each other.
func arc(a, b node) string {
	dx, dy := b.X-a.X, b.Y-a.Y
	length := math.Max(1, math.Hypot(dx, dy))
	ux, uy := dx/length, dy/length
	bend := math.Min(36, length/5)
	mx, my := (a.X+b.X)/2-uy*bend, (a.Y+b.Y)/2+ux*bend
	return fmt.Sprintf("M%.1f %.1f Q%.1f %.1f %.1f %.1f", a.X+ux*(a.R+2), a.Y+uy*(a.R+2), mx, my, b.X-ux*(b.R+7), b.Y-uy*(b.R+7))
}

func round(f float64) float64 { return math.Round(f*10) / 10 }
