"""Energies of pairs on a graph: Ising and Potts models."""
