"""Steps that are a few kernels in Triton each, for NVIDIA GPUs. No GPU has run them yet."""

from ebmlab.fused.fused import Fused

__all__ = ["Fused"]
