package rows

import "github.com/parley-agents/parley/hub"

var claims = newTable("claims", "claim", "item, owner, claimed_at", func(c *codec, v *hub.ItemClaim) {
	c.text(&v.Item)
	c.text((*string)(&v.Owner))
	c.stamp(&v.At)
})

var (
	claimByItem = claims.query(`WHERE item = ?1`)
	putClaim    = statement(`INSERT INTO claims (item, owner, claimed_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (item) DO UPDATE SET owner = excluded.owner, claimed_at = excluded.claimed_at`)
	removeClaim = statement(`DELETE FROM claims WHERE item = ?1`)
)

func (r *reader) ItemClaim(item string) (hub.ItemClaim, error) {
	return claims.one(r, item, claimByItem, item)
}

func (r *reader) ItemClaims(owner hub.AgentID, limit int) ([]hub.ItemClaim, error) {
	var w filter
	w.equal("owner", string(owner))
	return claims.filtered(r, w, `ORDER BY item`, limit)
}

func (t *tx) PutItemClaim(c hub.ItemClaim) error {
	_, err := claims.write(t, putClaim, &c)
	return err
}

func (t *tx) RemoveItemClaim(item string) error {
	n, err := t.run("store.RemoveItemClaim", removeClaim, item)
	if err == nil && n == 0 {
		return notFound(claims.op(), "claim", item)
	}
	return err
}
