"""Small trained models: those that come with ebmlab, and those that were pulled. `zoo/NAME` means a checkpoint.

Example:
    >>> from ebmlab.io.zoo import names
    >>> "rbm-digits" in names()
    True
"""

from ebmlab.io.zoo.packing import pack
from ebmlab.io.zoo.shelf import Model, checkpoint, name_of, names
from ebmlab.io.zoo.transfer import pull

__all__ = ["Model", "checkpoint", "name_of", "names", "pack", "pull"]
