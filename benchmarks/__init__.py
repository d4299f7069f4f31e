"""Speed beside peers (`python -m benchmarks`), and the scripts behind the numbers in docs/results."""
