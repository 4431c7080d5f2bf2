"""AIPW with the asymptotic guarantee of Schröder, Hartenstein & Feuerriegel 2025."""
