"""Time to event: one release of the cells of all people, and curves, risks and tests read off it."""
