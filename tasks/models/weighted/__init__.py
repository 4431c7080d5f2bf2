"""Weighted means of outcomes whose weights are public: one private pair of numbers, and its interval."""
