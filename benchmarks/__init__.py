"""Speed beside peers (`python -m benchmarks`), robustness, mutants and checks of a GPU."""
