"""Models, problems and samples of other packages, in and out.

Example:
    >>> import torch
    >>> from ebmlab.exchange import read
    >>> qubo = read({("b", "b"): 1.0, ("b", "a"): -2.0, ("a", "a"): 0.5})
    >>> qubo.names, qubo.value(qubo.states(torch.tensor([[1, 1], [1, 0]]))).tolist()
    (('b', 'a'), [-0.5, 1.0])
"""

from ebmlab.exchange.foreign import Foreign
from ebmlab.exchange.formats import KINDS, make, read, recognised, write
from ebmlab.exchange.samples import is_samples, read_samples

__all__ = ["KINDS", "Foreign", "is_samples", "make", "read", "read_samples", "recognised", "write"]
