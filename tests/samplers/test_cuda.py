"""Every sampler on a GPU, if there is one: no tensors on the CPU, states in the domain, the right laws."""

from __future__ import annotations

import pytest
import torch
from helpers_cases import CASES, EXACT, PAIRS, STRUCTURED
from helpers_finite import DOMAINS, Exact, Target
from helpers_grbm import PASS

from ebmlab.energies import RBM, Ising
from ebmlab.samplers import ACS, DMALA, DULA, GWG, BlockGibbs, ChromaticGibbs, Sampler

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_runs_and_stays_in_its_domain(name: str, domain: str) -> None:
    space = DOMAINS[domain]
    target = Target(space, "cubic").cuda()
    last, info = CASES[name].make(space).cuda().sample(target, space.random(64, device="cuda").double(), 20)
    space.validate(last)
    assert last.is_cuda and info.acceptance.is_cuda and info.acceptance.isfinite().all()


@pytest.mark.parametrize(("name", "domain"), [p for p in EXACT if not CASES[p[0]].density])
def test_exact_draws_stay_exact(name: str, domain: str) -> None:
    torch.manual_seed(0)
    exact = Exact(Target(DOMAINS[domain], "cubic"))
    x = exact.sample(200_000).cuda()
    x, _ = CASES[name].make(DOMAINS[domain]).cuda().sample(Target(DOMAINS[domain], "cubic").cuda(), x, 1)
    assert exact.p_value(x.cpu()) > PASS


@pytest.mark.parametrize("make", STRUCTURED.values(), ids=lambda make: type(make()[0]).__name__)
def test_structured_samplers(make) -> None:  # type: ignore[no-untyped-def]
    sampler, energy = make()
    energy, sampler = energy.cuda(), sampler.cuda()
    last, _ = sampler.sample(energy, energy.domain.random(64, device="cuda"), 20)
    energy.domain.validate(last)


@pytest.mark.parametrize("sampler", [DMALA(0.2), DULA(0.2), ACS(2.0), GWG(), BlockGibbs(), ChromaticGibbs()])
def test_steps_do_not_wait_for_the_gpu(sampler: Sampler) -> None:
    energy = (Ising.lattice(4, 0.3) if isinstance(sampler, ChromaticGibbs) else RBM(20, 10)).cuda()
    sampler, x = sampler.cuda(), energy.domain.random(64, device="cuda")
    state, _ = sampler.step(energy, sampler.init(energy, x, 10))  # colours and settings have been looked up
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            state, _ = sampler.step(energy, state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
