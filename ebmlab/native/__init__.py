"""Kernels in C++ for a CPU, where they are ahead of torch's. They are compiled once on a machine with a compiler."""

from ebmlab.native.bit_products import add_product, affine
from ebmlab.native.draws import bernoulli, coins, normal, normal_, uniform
from ebmlab.native.softplus import sum_softplus, sum_softplus_and_sigmoid

__all__ = [
    "add_product",
    "affine",
    "bernoulli",
    "coins",
    "normal",
    "normal_",
    "sum_softplus",
    "sum_softplus_and_sigmoid",
    "uniform",
]
