"""Sequences of proteins and nucleic acids: alphabets, alignments, weights by identity, and structures in PDB files."""

from ebmlab.sequences.alphabet import Alphabet
from ebmlab.sequences.family import Dropped, Family, read_family
from ebmlab.sequences.pdb import Residue, distances, read_pdb
from ebmlab.sequences.placement import Placement, place
from ebmlab.sequences.weights import effective_number, sequence_weights

__all__ = [
    "Alphabet",
    "Dropped",
    "Family",
    "Placement",
    "Residue",
    "distances",
    "effective_number",
    "place",
    "read_family",
    "read_pdb",
    "sequence_weights",
]
