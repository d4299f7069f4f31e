#!/usr/bin/env bash
# numpyro 0.22.0, numpyro.infer.HMC.
# Guess: HMC(step_size=0.45, num_steps=5), with adaptation off, makes five leapfrog steps of 0.45.
# Saw: the trajectory's length, 2 pi unless it is set, wins over the step size: five steps of 2 pi / 5 = 1.26, without a
#   word, and the acceptance of those. With trajectory_length=None the steps are 0.45.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2
PYTHONPATH=$folder JAX_PLATFORMS=cpu python3 - <<'PYTHON'
import jax
import jax.numpy as jnp
from numpyro.infer import HMC, MCMC


def run(**options):
    """Mean acceptance on ten standard normal numbers, step size and leapfrog steps as the state has them."""
    kernel = HMC(
        potential_fn=lambda x: (x**2).sum() / 2, adapt_step_size=False, adapt_mass_matrix=False, num_steps=5, **options
    )
    chain = MCMC(kernel, num_warmup=0, num_samples=2000, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), init_params=jnp.zeros(10), extra_fields=("accept_prob", "num_steps"))
    fields = chain.get_extra_fields()
    return float(fields["accept_prob"].mean()), int(fields["num_steps"].max())


small, large = run(step_size=0.45), run(step_size=1.2566)
meant = run(step_size=0.45, trajectory_length=None)
print("acceptance and leapfrog steps, step 0.45:", small)
print("acceptance and leapfrog steps, step 1.2566:", large)
print("acceptance and leapfrog steps, step 0.45, trajectory_length=None:", meant)
as_stated = abs(small[0] - large[0]) < 0.02 and meant[0] > small[0] + 0.15 and {small[1], large[1], meant[1]} == {5}
raise SystemExit(0 if as_stated else "the behaviour has changed")
PYTHON
