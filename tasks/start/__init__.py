"""From a file that somebody has to a draft of contract, study and source: what columns hold, and how to write it."""
