"""How the peers on the package index are called; each is imported where it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.energies import RBM, Potts


def rbms_machine(energy: RBM) -> Any:
    """The same RBM in `rbms`."""
    from rbms.bernoulli_bernoulli.classes import BBRBM

    return BBRBM(energy.W.detach().clone(), energy.b_v.detach().clone(), energy.b_h.detach().clone())


def rbms_gibbs(energy: RBM, x: Tensor, steps: int) -> Callable[[], object]:
    machine = rbms_machine(energy)
    chains = machine.init_chains(len(x), start_v=x)
    return lambda: machine.sample_state(chains, steps)


def rbms_tempering(energy: RBM, x: Tensor, betas: Tensor, steps: int) -> Callable[[], object]:
    """A step at each inverse temperature, from the hottest on, and swaps of all neighbours, as its `pt_sampling` does.

    Its swaps weigh the marginal energy, which changes the law (findings/rbms_tempering.sh).
    """
    from rbms.sampling.pt import swap_configurations

    machine = rbms_machine(energy)
    held = [machine.init_chains(len(x), start_v=x) for _ in betas]

    @torch.no_grad()
    def run() -> None:
        chains = held
        for _ in range(steps):
            chains = [machine.sample_state(c, 1, beta=b) for c, b in zip(chains, betas.tolist(), strict=True)]
            chains, _, _ = swap_configurations(chains, machine, betas)

    return run


def rbms_training(energy: RBM, x: Tensor, steps: int, lr: float) -> Callable[[], object]:
    """One update by persistent CD with `steps` steps, `fit_batch_pcd` and the optimizer, as its `train` does."""
    from rbms.training.pcd import fit_batch_pcd

    machine = rbms_machine(energy)
    machine.init_grad()
    optimizer = torch.optim.SGD(machine.parameters(), lr=lr, maximize=True)
    held = {"chains": machine.init_chains(len(x))}
    weights = torch.ones(len(x))

    @torch.no_grad()
    def run() -> None:
        held["chains"], _ = fit_batch_pcd((x, weights), held["chains"], machine, steps, 1.0)
        optimizer.step()

    return run


def rbms_ais(energy: RBM, chains: int, temperatures: int) -> Callable[[], object]:
    from rbms.partition_function.ais import compute_partition_function_ais

    machine = rbms_machine(energy)
    return lambda: compute_partition_function_ais(chains, temperatures + 1, machine)


def ebmkit_rbm(energy: RBM) -> Any:
    """The same RBM in `ebmkit`."""
    import ebm.nets

    machine = ebm.nets.RBM(energy.W.shape[0], energy.num_hidden)
    with torch.no_grad():
        machine.W.copy_(energy.W.T)
        machine.b.copy_(energy.b_v)
        machine.c.copy_(energy.b_h)
    return machine


def ebmkit_sampling(energy: RBM, name: str, x: Tensor, steps: int) -> Callable[[], object]:
    import ebm.samplers

    sampler, machine = getattr(ebm.samplers, name)(steps=steps), ebmkit_rbm(energy)
    return lambda: sampler.sample(machine, x)


def ebmkit_training(energy: RBM, x: Tensor, steps: int, lr: float) -> Callable[[], object]:
    """One update by CD with `steps` steps from a buffer."""
    import ebm
    import ebm.samplers

    machine = ebmkit_rbm(energy)
    buffer = ebm.ReplayBuffer(len(x), x.shape[1:], init_fn=lambda shape: torch.rand(shape).round())
    loss = ebm.ContrastiveDivergence(ebm.samplers.GibbsSampler(steps), buffer)
    optimizer = torch.optim.SGD(machine.parameters(), lr=lr)

    def run() -> None:
        optimizer.zero_grad()
        loss(machine, x).loss.backward()
        optimizer.step()

    return run


def ebmkit_ais(energy: RBM, name: str, chains: int, temperatures: int) -> Callable[[], object]:
    import ebm
    import ebm.samplers

    machine, shape = ebmkit_rbm(energy), (energy.W.shape[0],)
    sampler = getattr(ebm.samplers, name)(steps=1)
    base = torch.distributions.Independent(torch.distributions.Bernoulli(torch.full(shape, 0.5)), 1)
    return lambda: ebm.ais_log_z(machine, shape, base=base, n_temps=temperatures, n_chains=chains, sampler=sampler)


def sklearn_rbm(energy: RBM, x: Tensor, **settings: Any) -> Any:
    """The same RBM in scikit-learn, ready for sampling without training."""
    from sklearn.neural_network import BernoulliRBM

    machine = BernoulliRBM(energy.num_hidden, **settings)
    machine.components_ = np.ascontiguousarray(energy.W.detach().numpy().T)
    machine.intercept_visible_ = energy.b_v.detach().numpy().copy()
    machine.intercept_hidden_ = energy.b_h.detach().numpy().copy()
    machine.random_state_ = np.random.RandomState(0)
    machine.n_features_in_ = x.shape[1]
    return machine


def sklearn_gibbs(energy: RBM, x: Tensor, steps: int) -> Callable[[], object]:
    machine = sklearn_rbm(energy, x)

    def run() -> None:
        v = x.numpy()
        for _ in range(steps):
            v = machine.gibbs(v).astype(np.float32)

    return run


def sklearn_epoch(energy: RBM, data: Tensor, batch_size: int, lr: float) -> Callable[[], object]:
    """`fit` for one epoch, by persistent CD of one step."""
    from sklearn.neural_network import BernoulliRBM

    array = data.numpy()
    return lambda: BernoulliRBM(energy.num_hidden, batch_size=batch_size, learning_rate=lr, n_iter=1).fit(array)


def adabmdca_sweeps(energy: Potts, x: Tensor, sweeps: int) -> Callable[[], object]:
    """Steps at one random site of all chains, as many as a sweep has sites; one-hot states, matrix products."""
    from adabmDCA.sampling import prepare_sampler

    sampler = prepare_sampler("gibbs", x.device)
    couplings = energy.couplings().detach().transpose(1, 2).contiguous()  # (d, q, d, q)
    parameters = {"bias": energy.field.detach(), "coupling_matrix": couplings}
    return lambda: sampler(x, parameters, sweeps)


def adabmdca_energy(energy: Potts, x: Tensor) -> Callable[[], object]:
    """Of one-hot states, by products with all couplings."""
    from adabmDCA.statmech import compute_energy

    couplings = energy.couplings().detach().transpose(1, 2).contiguous()  # (d, q, d, q)
    parameters = {"bias": energy.field.detach(), "coupling_matrix": couplings}
    return lambda: compute_energy(x, parameters)


def adabmdca_statistics(x: Tensor, weights: Tensor) -> Callable[[], object]:
    """Frequencies of two points of weighted one-hot states, `(d, q, d, q)`."""
    from adabmDCA.stats import get_freq_two_points

    return lambda: get_freq_two_points(x, weights)


def adabmdca_weights(values: Tensor) -> Callable[[], object]:
    """Those of sequences `(N, d)`, each of which is compared with all."""
    from adabmDCA.fasta import compute_weights

    return lambda: compute_weights(values, 0.8)


def thrml_lattice(side: int, coupling: float, chains: int, sweeps: int) -> Callable[[], object]:
    """Sweeps over a periodic square lattice of spins, the two colours as two blocks; gives the blocks' spins."""
    sites = torch.arange(side * side).view(side, side)
    colour = (torch.arange(side).unsqueeze(1) + torch.arange(side)) % 2
    ends = [torch.stack([sites, sites.roll(-1, axis)], 2).view(-1, 2) for axis in (0, 1)]
    return thrml_graph(torch.cat(ends), [sites[colour == k] for k in (0, 1)], coupling, chains, sweeps)


def peapods_lattice(
    side: int, couplings: Any, temperatures: Tensor, chains: int, sweeps: int, *, exchange: bool = False
) -> Callable[[], object]:
    """Gibbs sweeps over a periodic square lattice, from random spins, with the means that the package takes of each.

    Args:
        side: spins in a row.
        couplings: "ferro", or those of each site to the one below and on the right, `(side, side, 2)`.
        temperatures: of the replicas of each chain, `(K,)`.
        chains: how many there are at each temperature.
        sweeps: in a run.
        exchange: whether replicas of neighbouring temperatures may swap after each sweep.
    """
    from peapods import Ising

    model = Ising((side, side), couplings=couplings, temperatures=temperatures.double().numpy(), n_replicas=chains)
    alone, interval = torch.get_num_threads() == 1, 1 if exchange else None
    return lambda: model.sample(sweeps, sweep_mode="gibbs", pt_interval=interval, sequential=alone)


def thrml_graph(
    edges: Tensor, colours: Sequence[Tensor], coupling: Any, chains: int, sweeps: int
) -> Callable[[], object]:
    """Sweeps over spins joined by edges `(n, 2)`, with one coupling or as many; a block a colour; gives their spins."""
    import jax
    import jax.numpy as jnp
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    nodes = [SpinNode() for _ in range(sum(map(len, colours)))]
    pairs = [(nodes[a], nodes[b]) for a, b in edges.tolist()]
    model = IsingEBM(nodes, pairs, jnp.zeros(len(nodes)), jnp.full(len(pairs), coupling), jnp.array(1.0))
    blocks = [Block([nodes[site] for site in sites.tolist()]) for sites in colours]
    program = IsingSamplingProgram(model, blocks, clamped_blocks=[])
    schedule = SamplingSchedule(n_warmup=sweeps, n_samples=1, steps_per_sample=1)
    begin = hinton_init(jax.random.key(0), model, blocks, (chains,))
    seeds = iter(range(2**31))

    @jax.jit
    def run(keys: Any, state: Any) -> Any:
        return jax.vmap(lambda key, s: sample_states(key, program, schedule, s, [], blocks))(keys, state)

    return lambda: jax.block_until_ready(run(jax.random.split(jax.random.key(next(seeds)), chains), begin))


def torchebm_langevin(closed: bool, x: Tensor, steps: int, step_size: float) -> Callable[[], object]:
    """Langevin on the double well sum of (x^2 - 1)^2, with a gradient by autograd or in closed form."""
    from torchebm.core import DoubleWellModel
    from torchebm.samplers import LangevinDynamics

    class ClosedForm(DoubleWellModel):  # type: ignore[misc]
        def gradient(self, x: Tensor, model_kwargs: Any = None) -> Tensor:
            return 4 * x * (x.square() - 1)

    model = (ClosedForm if closed else DoubleWellModel)(barrier_height=1.0, b=1.0, device="cpu")
    sampler = LangevinDynamics(model, step_size=step_size, device="cpu")
    return lambda: sampler.sample(x=x, n_steps=steps)


Drawn = Callable[[], tuple[Tensor, float]]
"""Draws `(steps, chains, d)` of a run, and the gradients of a chain in it, the mean over the chains."""


def blackjax_draws(
    energy: Callable[[Any], Any], x: Tensor, step_size: float, steps: int, num_leapfrog: int = 0, max_depth: int = 0
) -> Drawn:
    """HMC, or NUTS if a depth is given, as one compiled scan over all chains side by side."""
    import blackjax
    import jax
    import jax.numpy as jnp

    mass, settings = jnp.ones(x.shape[1]), {"step_size": step_size}
    log_density = lambda y: -energy(y)  # noqa: E731
    if max_depth:
        kernel = blackjax.nuts(log_density, **settings, inverse_mass_matrix=mass, max_num_doublings=max_depth)
    else:
        kernel = blackjax.hmc(log_density, **settings, inverse_mass_matrix=mass, num_integration_steps=num_leapfrog)
    chains, keys = len(x), iter(range(2**31))

    @jax.jit
    def run(key: Any, y: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, info = jax.vmap(kernel.step)(jax.random.split(key, chains), state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, jax.vmap(kernel.init)(y), jax.random.split(key, steps))[1]

    begin = jnp.asarray(x.numpy())

    def draw() -> tuple[Tensor, float]:
        draws, leaps = jax.block_until_ready(run(jax.random.key(next(keys)), begin))
        return torch.from_numpy(np.array(draws)), float(leaps.sum()) / chains

    return draw


def numpyro_draws(
    energy: Callable[[Any], Any], x: Tensor, step_size: float, steps: int, num_leapfrog: int = 0, max_depth: int = 0
) -> Drawn:
    """HMC, or NUTS if a depth is given, as one compiled scan; `MCMC.run` would compile again at each call.

    HMC takes its step size from `trajectory_length / num_steps` unless the length is None, whatever `step_size` says.
    """
    import jax
    import jax.numpy as jnp
    from numpyro.infer import HMC, NUTS

    fixed = {"potential_fn": energy, "step_size": step_size, "adapt_step_size": False, "adapt_mass_matrix": False}
    if max_depth:
        kernel = NUTS(**fixed, max_tree_depth=max_depth)
    else:
        kernel = HMC(**fixed, num_steps=num_leapfrog, trajectory_length=None)
    chains, seeds, begin = len(x), iter(range(2**31)), jnp.asarray(x.numpy())

    @jax.jit
    def run(state: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (), {})
            return state, (state.z, state.num_steps)

        return jax.lax.scan(step, state, None, length=steps)[1]

    first = kernel.init(jax.random.split(jax.random.PRNGKey(0), chains), 0, begin, (), {})

    def draw() -> tuple[Tensor, float]:
        keys = jax.random.split(jax.random.PRNGKey(next(seeds)), chains)
        draws, leaps = jax.block_until_ready(run(first._replace(rng_key=keys)))
        return torch.from_numpy(np.array(draws)), float(leaps.sum()) / chains

    return draw


def torchebm_hmc_draws(energy: Any, x: Tensor, step_size: float, steps: int, num_leapfrog: int) -> Drawn:
    """HMC by autograd; the trajectory of all chains."""
    from torchebm.core import BaseModel
    from torchebm.samplers import HamiltonianMonteCarlo

    class Same(BaseModel):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            return energy.forward(x)

    sampler = HamiltonianMonteCarlo(Same(), step_size=step_size, n_leapfrog_steps=num_leapfrog, device="cpu")

    def draw() -> tuple[Tensor, float]:
        draws = sampler.sample(x=x, n_steps=steps, return_trajectory=True)
        return draws.detach().transpose(0, 1), float(steps * num_leapfrog)

    return draw


def ebmkit_draws(
    energy: Any, x: Tensor, step_size: float, steps: int, num_leapfrog: int = 0, max_depth: int = 0
) -> Drawn:
    """HMC, or NUTS if a depth is given, without its warm-up; every evaluation moves all chains."""
    import ebm.samplers

    if max_depth:
        sampler = ebm.samplers.NUTS(step_size, steps, warmup=0, max_depth=max_depth)
    else:
        sampler = ebm.samplers.HMC(step_size, num_leapfrog, steps)

    def draw() -> tuple[Tensor, float]:
        calls = []

        def counted(y: Tensor) -> Tensor:
            calls.append(1)
            return energy.forward(y)

        return sampler.sample(counted, x, return_trajectory=True)[1:], float(len(calls))

    return draw
