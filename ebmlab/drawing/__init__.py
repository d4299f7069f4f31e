"""All pictures: tensors as PNG files, images in rows, matplotlib figures of samples, parameters and studies.

No module loads matplotlib before it draws with it, and `tiles` needs none. This file imports nothing.
"""
