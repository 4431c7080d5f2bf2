"""How a writer knows that what it adds up is what was written: chain, database, and this machine's memory."""
