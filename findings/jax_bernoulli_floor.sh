#!/usr/bin/env bash
# jax 0.10.2, jax.random.bernoulli with its defaults (float32).
# Guess: with p = 1e-9 a draw is true once in 1e9; rare events are rare.
# Saw: once in 8 million. The uniform number that decides is a multiple of 2^-23 and is 0 as often as any other, so that no
#   positive p counts for less than 1.2e-7. A Gibbs sampler crosses every barrier above 16 nats at this rate, however high.
#   The same grid ends jax.random.normal at 5.42 standard deviations; 3e8 draws should have some 20 beyond.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" "jax==0.10.2"
PYTHONPATH=$folder python3 - <<'PYTHON'
import jax

draws, size, p = 30, 10**7, 1e-9
count = jax.jit(lambda key: jax.random.bernoulli(key, p, (size,)).sum())
found = sum(int(count(jax.random.key(i))) for i in range(draws))
print(f"true in {draws * size:.0e} draws: {found}; p gives {draws * size * p}, 2^-23 gives {draws * size / 2**23:.0f}")
largest = jax.jit(lambda key: abs(jax.random.normal(key, (size,))).max())
tail = max(float(largest(jax.random.key(i))) for i in range(draws))
print(f"largest of as many normal numbers: {tail:.3f}")
raise SystemExit(0 if 10 < found < 100 and tail < 5.43 else "the behaviour has changed")
PYTHON
