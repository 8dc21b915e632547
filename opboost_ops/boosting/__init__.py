"""Boosters on ranks and buckets, and what becomes of their trees."""
