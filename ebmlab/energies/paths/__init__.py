"""Energies made of energies: bridges, temperatures, sums and mixtures, and the laws at which annealed paths begin."""
