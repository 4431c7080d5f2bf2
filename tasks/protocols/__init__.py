"""Protocols: many questions answered together; ``docs/proofs/questions.md``."""
