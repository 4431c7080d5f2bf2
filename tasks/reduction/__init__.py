"""Several rows of a unit become one when data are admitted, before anything else looks at them."""
