"""Every picture: tensors as PNG files, images in rows, matplotlib figures of samples, parameters and studies.

Only `tiles` does without matplotlib. This file imports nothing, so that whoever needs only `tiles` loads only that.
"""
