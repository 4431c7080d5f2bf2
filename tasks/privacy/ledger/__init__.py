"""The durable, append-only, hash-chained record of grants, reservations, releases and voids."""
