"""Numerics: noise, random streams, softplus, products, ranks, memory. Nothing here imports another room of ebmlab."""
