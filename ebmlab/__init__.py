"""ebmlab: train, sample and evaluate energy-based models with PyTorch Lightning."""

__version__ = "0.1.0"
