"""What may be asked of data, preprocessing, loaders that were not written for ebmlab, and checks of the first batch."""

from ebmlab.data.interface import Data

__all__ = ["Data"]
