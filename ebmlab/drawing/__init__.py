"""All pictures: tensors as PNG files, images in rows, matplotlib figures of samples, parameters and studies.

Only `tiles` works without matplotlib. This file imports nothing, so that importing `tiles` does not load matplotlib.
"""
