package peer

import (
	"net/netip"
	"net/url"

	"github.com/parley-agents/parley/hub"
)

// A Guard decides which addresses a hub may call. The zero value allows public
// addresses over TLS.
type Guard struct {
	// Allow lists networks that are called though they are not public, and without
	// TLS. Addresses that no hub can have stay refused.
	Allow []netip.Prefix
}

// A network is a range of addresses with its name for people.
type network struct {
	prefix netip.Prefix
	name   string
}

// never lists networks that no configuration opens: addresses that are not a host,
// and those under which clouds serve credentials.
var never = networks(map[string]string{
	"0.0.0.0/8":          "the unspecified network",
	"::/128":             "the unspecified address",
	"169.254.0.0/16":     "link-local, where clouds keep their metadata",
	"fe80::/10":          "link-local",
	"fec0::/10":          "site-local, which is no longer used",
	"224.0.0.0/4":        "multicast",
	"ff00::/8":           "multicast",
	"255.255.255.255/32": "broadcast",
	"fd00:ec2::/32":      "a cloud's metadata",
	"fd20:ce::/32":       "a cloud's metadata",
	"100.100.100.200/32": "a cloud's metadata",
	"192.0.0.192/32":     "a cloud's metadata",
	"168.63.129.16/32":   "a cloud's own service",
	"240.0.0.0/4":        "reserved",
	"2001::/32":          "a tunnel to another network",
	"64:ff9b:1::/48":     "a translation to another network",
	"::/96":              "an old form of an IPv4 address",
	"::ffff:0:0:0/96":    "a translation to another network",
})

// configured lists networks that are called only if Allow has them.
var configured = networks(map[string]string{
	"127.0.0.0/8":     "loopback",
	"::1/128":         "loopback",
	"10.0.0.0/8":      "private",
	"172.16.0.0/12":   "private",
	"192.168.0.0/16":  "private",
	"100.64.0.0/10":   "a carrier's own network",
	"fc00::/7":        "private",
	"192.0.0.0/24":    "for special use",
	"192.0.2.0/24":    "for documentation",
	"198.51.100.0/24": "for documentation",
	"203.0.113.0/24":  "for documentation",
	"2001:db8::/32":   "for documentation",
	"198.18.0.0/15":   "for measurements",
	"192.88.99.0/24":  "for special use",
})

func networks(list map[string]string) []network {
	var out []network
	for prefix, name := range list {
		out = append(out, network{netip.MustParsePrefix(prefix), name})
	}
	return out
}

func find(list []network, addr netip.Addr) (string, bool) {
	for _, n := range list {
		if n.prefix.Contains(addr) {
			return n.name, true
		}
	}
	return "", false
}

var (
	loopback6 = netip.IPv6Loopback()
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address in an IPv6 address that has one, else addr.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}

// CheckEndpoint reports CodePolicy when the endpoint of a peer names an address that
// the hub must not connect to. The addresses of a host name are checked when the hub
// connects.
func (g Guard) CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return hub.Errorf(hub.CodeInvalid, "peer.CheckEndpoint", "%q is not a URL", endpoint)
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return g.Check(addr, u.Scheme == "https")
}

// Check reports CodePolicy when the hub must not connect to addr, with TLS or
// without.
func (g Guard) Check(addr netip.Addr, secure bool) error {
	const op = "peer.Dial"
	if !addr.IsValid() {
		return hub.Errorf(hub.CodePolicy, op, "no address to connect to")
	}
	end := embedded(addr)
	if what, bad := find(never, end); bad && end != loopback6 {
		return hub.Errorf(hub.CodePolicy, op, "%s is never called: it is %s", addr, what)
	}
	for _, p := range g.Allow {
		if p.Contains(end) {
			return nil
		}
	}
	if what, special := find(configured, end); special {
		return hub.Errorf(hub.CodePolicy, op, "%s is not called: it is %s and not among the allowed networks", addr, what).
			WithHint("if the peer is there, start the hub with --peer-allow and its network")
	}
	if !secure {
		return hub.Errorf(hub.CodePolicy, op, "%s is not called without TLS: others could read the keys", addr).
			WithHint("use https, or start the hub with --peer-allow and the peer's network")
	}
	return nil
}
