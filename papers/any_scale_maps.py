"""Figures 1 to 3 of Sun et al. (2023): the ESS of AB samplers over step sizes sigma and balances alpha.

    python papers/any_scale_maps.py        # runs what is missing, prints the best settings, draws the picture

Figure 1: 100 independent bits, with means drawn uniformly from [0.05, 0.95] (the paper does not print them), AB-1st.
Figures 2 and 3: the logistic posterior and the quartic mixture of the studies, AB-trace with the W and D that
`AnyScaleTuner` finds; its own sigma and alpha are run, too. 100 chains after 200 steps, 2,000 steps (500 on
the quartic mixture), ESS of the distance to one random state, per 10,000 evaluations.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import NamedTuple

import torch
from kept import Result, run_missing
from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.energies import Bernoulli, Energy
from ebmlab.evaluation import effective_sample_size
from ebmlab.samplers import AnyScale
from ebmlab.samplers.tuners import AnyScaleTuner
from ebmlab.studies.targets import LogisticPosterior, QuarticMixture

CHAINS, BURN_IN = 100, 200
ALPHAS = [round(0.3 + 0.05 * k, 2) for k in range(15)]


class Map(NamedTuple):
    """One panel.

    Attributes:
        energy: the target.
        variant: which AB sampler runs on it.
        sigmas: the step sizes of its lines.
        steps: the number of steps that each setting gets.
        tuning: the number of steps that the tuner gets.
    """

    energy: Energy
    variant: str
    sigmas: tuple[float, ...]
    steps: int
    tuning: int


def maps() -> dict[str, Map]:
    mean = 0.05 + 0.9 * torch.rand(100, generator=torch.Generator().manual_seed(0))
    bits, posterior, mixture = Bernoulli(mean), LogisticPosterior.synthetic(), QuarticMixture()
    return {
        "100 independent bits": Map(bits, "first", (0.1, 0.2, 0.5, 1, 4, 64), 2000, 1000),
        "logistic posterior": Map(posterior, "trace", (0.1, 0.2, 0.5, 1, 4, 64), 2000, 3000),
        "quartic mixture": Map(mixture, "trace", (4, 16, 64, 250, 1000), 500, 1500),
    }


def tuned(m: Map) -> tuple[AnyScale, Tensor]:
    """The sampler with all its settings, and states of the law."""
    torch.manual_seed(0)
    x = m.energy.domain.random(CHAINS)
    if isinstance(m.energy, QuarticMixture):
        x = torch.full_like(x, 10.0)
    sampler, x = AnyScaleTuner().tune(AnyScale(m.variant, 0.2), m.energy, x, m.tuning)  # type: ignore[arg-type]
    assert isinstance(sampler, AnyScale)
    return sampler, sampler.last_states(m.energy, x, BURN_IN)


def measure(m: Map, sampler: AnyScale, x: Tensor) -> Result:
    """ESS per 10,000 evaluations and acceptance."""
    torch.manual_seed(1)
    reference, traces, acceptance = m.energy.domain.random(1), [], 0.0
    for state, info in sampler.chain(m.energy, x, m.steps):
        traces.append((state.x - reference).abs().flatten(1).sum(1))
        acceptance += float(info.acceptance.mean()) / m.steps
    ess = float(effective_sample_size(torch.stack(traces).unsqueeze(-1)))
    setting = {"sigma": float(sampler.step_size), "alpha": float(sampler.balance)}
    return {**setting, "ess": ess / (m.steps * CHAINS) * 1e4, "acceptance": acceptance}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/any_scale_maps"))
    folder = parser.parse_args().folder
    figure = Figure(figsize=(13, 4), layout="constrained")
    print("| target | the tuner's sigma, alpha | its ESS | best on the grid | its ESS | best alpha for each sigma |")
    print("|---|---|---|---|---|---|")
    for axes, (name, m) in zip(figure.subplots(1, 3), maps().items(), strict=True):
        jobs = {f"{name}--{s:g}--{a:g}": (s, a) for s in m.sigmas for a in ALPHAS} | {f"{name}--tuned": None}
        if not all((folder / f"{job}.json").exists() for job in jobs):
            sampler, x = tuned(m)

            def run(job: str, m: Map = m, jobs: dict = jobs, own: AnyScale = sampler, x: Tensor = x) -> Result:
                sampler, setting = copy.deepcopy(own), jobs[job]
                if setting is not None:
                    sampler.step_size.fill_(setting[0])
                    sampler.balance.fill_(setting[1])
                return measure(m, sampler, x)

            run_missing(folder, jobs, run, "0/1")
        found = {job: json.loads((folder / f"{job}.json").read_text()) for job in jobs}
        own = found.pop(f"{name}--tuned")
        best = {}
        for sigma in m.sigmas:
            row = [found[f"{name}--{sigma:g}--{alpha:g}"]["ess"] for alpha in ALPHAS]
            axes.plot(ALPHAS, row, ".-", label=f"sigma = {sigma:g}")
            best[sigma] = ALPHAS[row.index(max(row))]
        axes.plot(own["alpha"], own["ess"], "k*", ms=12, label="tuner")
        axes.set(title=name, xlabel="alpha", ylabel="ESS per 10,000 evaluations")
        axes.legend(fontsize="small")
        top = max(found.values(), key=lambda r: r["ess"])
        each = ", ".join(f"{alpha:g} ({sigma:g})" for sigma, alpha in best.items())
        tuner = f"{own['sigma']:.3g}, {own['alpha']:.2f} | {own['ess']:.3g}"
        print(f"| {name} | {tuner} | {top['sigma']:.3g}, {top['alpha']:.2f} | {top['ess']:.3g} | {each} |")
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "any_scale_maps.png", dpi=110)


if __name__ == "__main__":
    main()
