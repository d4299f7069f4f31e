"""The scripts behind docs/results: each reproduces figures or tables of one paper, and goes on where it stopped."""
