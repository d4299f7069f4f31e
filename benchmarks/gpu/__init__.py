"""`python -m benchmarks.gpu`: what a machine with a GPU is asked, part by part. Most of it no GPU has run yet."""
