"""The smallest and largest settings that are accepted, and the nearest that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ebmlab.callbacks import (
    AIS,
    FID,
    Density2D,
    EnergyLandscape,
    HammingMMD,
    OutOfDistribution,
    ParameterImages,
    SampleGrid,
    TrajectoryLikelihood,
)
from ebmlab.datamodules import Digits, EgoSmall, GaussianMixture, GrayCode2D, IsingSamples
from ebmlab.energies import GRBM, MLP, RBM, RGCN, Bernoulli, Ising, ResNet
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, hamming_mmd
from ebmlab.learners import (
    AdaptiveDMALA,
    ContrastiveDivergence,
    EnergyDiscrepancy,
    GradientGuided,
    PersistentACS,
    RatioMatching,
    ReplayBuffer,
    UniformSubset,
)
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    GWG,
    BlockGibbs,
    DiscreteHAMS,
    Gibbs,
    GibbsLangevin,
    HammingBall,
    Langevin,
    PathAuxiliary,
    RandomWalk,
    RegularisedLangevin,
    Tempered,
)
from ebmlab.samplers.tuners import ACSTuner, JumpDistance, PatternSearch, SwapRate, TargetAcceptance
from ebmlab.studies.targets import QuarticMixture

pytestmark = pytest.mark.filterwarnings("ignore:Attribute '.*' is an instance of `nn.Module`")
UNIT = ([0.0, 1.0], [-0.01, 1.01])  # the interval with its ends
HALF_OPEN = ([0.0, 0.99], [-0.01, 1.0])  # with the lower end
INSIDE = ([0.01, 0.99], [0.0, 1.0])  # and without
ONE, TWO, POSITIVE = ([1], [0]), ([2], [1]), ([0.01], [0.0])


def cd(**settings: Any) -> ContrastiveDivergence:
    return ContrastiveDivergence(RBM(3, 2), BlockGibbs(), **settings)


def estimate(**settings: Any) -> Any:
    torch.manual_seed(0)
    return ais(Ising.lattice(2, 0.1), Gibbs(), **{"num_chains": 2, "num_temperatures": 2} | settings)


LIMITS: dict[str, tuple[Callable[[Any], Any], tuple[list[Any], list[Any]]]] = {
    "AIS num_chains": (lambda k: AIS(num_chains=k), ONE),
    "AIS num_temperatures": (lambda k: AIS(num_temperatures=k), ONE),
    "AIS test_temperatures": (lambda k: AIS(test_temperatures=k), ONE),
    "AIS num_replicates": (lambda k: AIS(num_replicates=k), ONE),
    "AIS moves": (lambda k: AIS(num_moves=k), ONE),
    "AIS resample": (lambda k: AIS(resample=k), UNIT),
    "AIS every_n_epochs": (lambda k: AIS(every_n_epochs=k), ONE),
    "FID num_samples": (lambda k: FID(num_samples=k), TWO),
    "FID batch_size": (lambda k: FID(batch_size=k), ONE),
    "FID num_steps": (lambda k: FID(num_steps=k), ONE),
    "EnergyLandscape resolution": (lambda k: EnergyLandscape(resolution=k), TWO),
    "Density2D extent": (lambda k: Density2D(extent=k), ([0.01], [0.0, -5.0, math.inf, math.nan])),
    "EnergyLandscape extent": (lambda k: EnergyLandscape(extent=k), ([0.01], [0.0, math.inf])),
    "HammingMMD num_samples": (lambda k: HammingMMD(num_samples=k), TWO),
    "HammingMMD num_steps": (lambda k: HammingMMD(num_steps=k), ONE),
    "OutOfDistribution num_samples": (lambda k: OutOfDistribution({"digits": Digits()}, num_samples=k), ONE),
    "OutOfDistribution batch_size": (lambda k: OutOfDistribution({"digits": Digits()}, batch_size=k), ONE),
    "ParameterImages num_filters": (lambda k: ParameterImages(num_filters=k), ONE),
    "SampleGrid num_strips": (lambda k: SampleGrid(num_strips=k), ONE),
    "SampleGrid num_frames": (lambda k: SampleGrid(num_frames=k), TWO),
    "TrajectoryLikelihood num_chains": (lambda k: TrajectoryLikelihood(num_chains=k), ONE),
    "TrajectoryLikelihood num_steps": (lambda k: TrajectoryLikelihood(num_steps=k), ONE),
    "TrajectoryLikelihood every_n_steps": (lambda k: TrajectoryLikelihood(every_n_steps=k), ONE),
    "TrajectoryLikelihood num_data": (lambda k: TrajectoryLikelihood(num_data=k), ONE),
    "Digits batch_size": (lambda k: Digits(k), ONE),
    "EgoSmall min_nodes": (lambda k: EgoSmall(min_nodes=k), TWO),
    "EgoSmall max_nodes": (lambda k: EgoSmall(min_nodes=4, max_nodes=k), ([4], [3])),
    "EgoSmall num_graphs": (lambda k: EgoSmall(num_graphs=k), ([5], [4])),
    "GaussianMixture num_samples": (lambda k: GaussianMixture(num_samples=k, batch_size=1), ONE),
    "GrayCode2D num_bits": (lambda k: GrayCode2D(num_bits=k), ([4, 6], [2, 5])),
    "GrayCode2D num_samples": (lambda k: GrayCode2D(num_samples=k, batch_size=1), ([10], [9])),
    "IsingSamples side": (lambda k: IsingSamples(side=k), ([3], [2])),
    "RBM num_visible": (lambda k: RBM(k, 1), ONE),
    "RBM num_hidden": (lambda k: RBM(1, k), ONE),
    "GRBM num_visible": (lambda k: GRBM(k, 1), ONE),
    "GRBM num_hidden": (lambda k: GRBM(1, k), ONE),
    "MLP hidden": (lambda k: MLP(2, k), ONE),
    "MLP num_layers": (lambda k: MLP(2, 2, num_layers=k), ONE),
    "RGCN num_nodes": (lambda k: RGCN(k), TWO),
    "RGCN hidden": (lambda k: RGCN(3, k), ONE),
    "RGCN layers": (lambda k: RGCN(3, 2, num_layers=k), ONE),
    "RGCN set_base": (lambda k: RGCN(2).set_base(torch.tensor([k])), UNIT),
    "ResNet channels": (lambda k: ResNet((4, 4), k), ONE),
    "ResNet base": (lambda k: ResNet((1, 1), 1, base=[k]), UNIT),
    "Bernoulli mean": (lambda k: Bernoulli(torch.tensor([k])), UNIT),
    "Ising num_spins": (lambda k: Ising.learnable(k), ONE),
    "QuarticMixture num_components": (lambda k: QuarticMixture(2, 3, num_components=k), ONE),
    "ais num_chains": (lambda k: estimate(num_chains=k), ONE),
    "ais num_temperatures": (lambda k: estimate(num_temperatures=k), ONE),
    "ais moves": (lambda k: estimate(num_moves=k), ONE),
    "ais resample": (lambda k: estimate(resample=k), UNIT),
    "hamming_mmd samples": (lambda k: hamming_mmd(torch.zeros(k, 2), torch.zeros(4, 2), unbiased=True), TWO),
    "CD num_steps": (lambda k: cd(num_steps=k), ONE),
    "CD burn_in": (lambda k: cd(num_steps=3, burn_in=k), ([0, 2], [-1, 3])),
    "CD l1": (lambda k: cd(l1=k), ([0.0], [-0.01, math.inf])),
    "AdaptiveDMALA gain": (lambda k: AdaptiveDMALA(gain=k), POSITIVE),
    "AdaptiveDMALA rate": (lambda k: AdaptiveDMALA(rate=k), INSIDE),
    "PersistentACS cycle_length": (lambda k: PersistentACS(cycle_length=k), ONE),
    "PersistentACS tune_every": (lambda k: PersistentACS(tune_every=k), ONE),
    "ReplayBuffer size": (lambda k: ReplayBuffer(k), ONE),
    "ReplayBuffer reinitialize": (lambda k: ReplayBuffer(9, reinitialize=k), UNIT),
    "GradientGuided": (GradientGuided, ONE),
    "UniformSubset": (UniformSubset, ONE),
    "EnergyDiscrepancy num_samples": (EnergyDiscrepancy, ONE),
    "EnergyDiscrepancy flip_probability": (lambda k: EnergyDiscrepancy(1, k), ([0.01, 0.5], [0.0, 0.51])),
    "EnergyDiscrepancy stabilizer": (lambda k: EnergyDiscrepancy(1, 0.1, stabilizer=k), ([0.0], [-0.01])),
    "RatioMatching num_steps": (lambda k: RatioMatching(MLP(2), num_steps=k), ONE),
    "ACS cycle_length": (lambda k: ACS(cycle_length=k), ONE),
    "ACS alpha_min": (lambda k: ACS(alpha_max=2.0, alpha_min=k), ([0.01, 2.0], [0.0, 2.01])),
    "ACS balance_min": (lambda k: ACS(balance_max=0.9, balance_min=k), ([0.0, 0.9], [-0.01, 0.91])),
    "ACS balance_max": (lambda k: ACS(balance_max=k), ([0.5, 1.0], [0.49, 1.01])),
    "DMALA step_size": (DMALA, POSITIVE),
    "DMALA balance": (lambda k: DMALA(0.1, k), UNIT),
    "DMALA window": (lambda k: DMALA(0.1, window=k), ONE),
    "DMALA precondition": (lambda k: DMALA(0.1, precondition=[1.0, k]), POSITIVE),
    "Gibbs block_size": (Gibbs, ONE),
    "GibbsLangevin num_inner_steps": (lambda k: GibbsLangevin(0.1, num_inner_steps=k), ONE),
    "GWG num_flips": (GWG, ONE),
    "HammingBall block_size": (lambda k: HammingBall(k, 1), ONE),
    "HammingBall radius": (lambda k: HammingBall(2, k), ONE),
    "Langevin step_size": (Langevin, POSITIVE),
    "Langevin adjust_from": (lambda k: Langevin(0.1, adjust_from=k), ([0], [-1])),
    "PathAuxiliary": (PathAuxiliary, ONE),
    "DLMC step_size": (DLMC, POSITIVE),
    "RegularisedLangevin changes": (RegularisedLangevin, POSITIVE),
    "RegularisedLangevin balance": (lambda k: RegularisedLangevin(1.0, k), UNIT),
    "DiscreteHAMS step_size": (DiscreteHAMS, POSITIVE),
    "DiscreteHAMS persistence": (lambda k: DiscreteHAMS(1.0, k), HALF_OPEN),
    "DiscreteHAMS over_relaxation": (lambda k: DiscreteHAMS(1.0, over_relaxation=k), HALF_OPEN),
    "DiscreteHAMS correction": (lambda k: DiscreteHAMS(1.0, correction=k), ([0.0], [-0.01, math.inf])),
    "RandomWalk num_flips": (RandomWalk, ONE),
    "RandomWalk probability": (lambda k: RandomWalk(probability=k), ([0.01, 1.0], [0.0, 1.01])),
    "RandomWalk window": (lambda k: RandomWalk(window=k), ONE),
    "RandomWalk on few bits": (lambda k: RandomWalk(k).check(Bernoulli(torch.full((2,), 0.5))), ([2], [3])),
    "Tempered num_temperatures": (lambda k: Tempered(DMALA(0.1), num_temperatures=k), ONE),
    "Tempered swap_every": (lambda k: Tempered(DMALA(0.1), swap_every=k), ONE),
    "ACSTuner rate": (lambda k: ACSTuner(rate=k), INSIDE),
    "ACSTuner learning_rate": (lambda k: ACSTuner(learning_rate=k), ([0.01, 1.0], [0.0, 1.01])),
    "ACSTuner alpha_floor": (lambda k: ACSTuner(alpha_floor=k), ([0.01, 59.0], [0.0, 60.0])),
    "ACSTuner burn_in": (lambda k: ACSTuner(burn_in=k), ([0], [-1])),
    "ACSTuner proposals": (lambda k: ACSTuner(proposals=k), TWO),
    "ACSTuner balance_proposals": (lambda k: ACSTuner(balance_proposals=k), TWO),
    "JumpDistance rate": (lambda k: JumpDistance(rate=k), INSIDE),
    "JumpDistance decay": (lambda k: JumpDistance(decay=k), ([0.01, 1.0], [0.0, 1.01])),
    "JumpDistance window": (lambda k: JumpDistance(window=k), ONE),
    "PatternSearch window": (lambda k: PatternSearch(window=k), ONE),
    "SwapRate target": (lambda k: SwapRate(target=k), INSIDE),
    "TargetAcceptance rate": (lambda k: TargetAcceptance(rate=k), INSIDE),
    "TargetAcceptance window": (lambda k: TargetAcceptance(window=k), ONE),
    "TargetAcceptance gain": (lambda k: TargetAcceptance(gain=k), POSITIVE),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    make, (accepted, refused) = LIMITS[name]
    for value in accepted:
        make(value)
    for value in refused:
        with pytest.raises(UserError) as error:
            make(value)
        assert "\n" not in str(error.value)
