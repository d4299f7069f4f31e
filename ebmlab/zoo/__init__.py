"""Small trained models: those that come with ebmlab, and those that were pulled. `zoo/NAME` means a checkpoint.

Example:
    >>> from ebmlab.zoo import names
    >>> "rbm-digits" in names()
    True
"""

from ebmlab.zoo.packing import pack
from ebmlab.zoo.shelf import Model, checkpoint, name_of, names
from ebmlab.zoo.transfer import pull, push

__all__ = ["Model", "checkpoint", "name_of", "names", "pack", "pull", "push"]
