"""Kernels in C++ for a CPU, where they are ahead of torch's. They are compiled once on a machine with a compiler."""

from ebmlab.native.bit_products import add_product, affine

__all__ = ["add_product", "affine"]
