"""What is signed, and by whom: keys of owners and sites.

- ``public_keys``: Ed25519 public keys as files name them: ``ed25519:`` and 64 hex digits, never a point of low order.
"""
