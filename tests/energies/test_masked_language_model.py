"""Masked language models as energies, on a tiny BERT with random weights that can be enumerated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_data import WORDS, make_bert
from helpers_errors import refused
from helpers_finite import bias
from helpers_tier import cases
from jsonargparse import ArgumentParser

from ebmlab.domains import Categorical
from ebmlab.energies import Energy
from ebmlab.energies.masked_language_model import MaskedLanguageModel
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, DULA, LocallyBalanced, MetropolisSampler

transformers = pytest.importorskip("transformers")

TEXT = "the [MASK] sat [MASK]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def energy(folder: Path) -> MaskedLanguageModel:
    return MaskedLanguageModel(TEXT, str(folder), masked=False).double()


def scores(energy: MaskedLanguageModel, index: torch.Tensor, masked: bool) -> torch.Tensor:
    """E of the words `(N, 2)`, from the token numbers of whole sentences."""
    expected = torch.zeros(len(index)).double()
    for place, blank in ((2, 0), (4, 1)):
        ids = torch.tensor([2, 5, 4, 9, 4, 3]).repeat(len(index), 1)  # [CLS] the [MASK] sat [MASK] [SEP]
        ids[:, 2], ids[:, 4] = index[:, 0], index[:, 1]
        if masked:
            ids[:, place] = 4
        log_f = energy.model(input_ids=ids).logits.log_softmax(-1)
        expected -= log_f[torch.arange(len(index)), place, index[:, blank]]
    return expected


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("top_k", [None, 3])
@cases("at_once", [1, 2**26], fast=[0])
def test_energy_is_minus_the_models_log_probability_of_the_filled_in_words(
    folder: Path, masked: bool, top_k: int | None, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebmlab.energies.masked_language_model.LOGITS", at_once)
    energy = MaskedLanguageModel(TEXT, str(folder), masked=masked, top_k=top_k).double()
    size = top_k or len(WORDS)
    assert isinstance(energy.domain, Categorical) and energy.domain.event_shape == (2, size)
    x = energy.domain.enumerate().double()
    index = energy.domain.to_index(x)
    if top_k:
        log_f = energy.model(input_ids=torch.tensor([[2, 5, 4, 9, 4, 3]])).logits[0].log_softmax(-1)
        log_f[:, :5] = -torch.inf  # [PAD] to [MASK]
        best = log_f[[2, 4]].sort(descending=True).indices[:, :top_k]
        index = torch.stack([best[0][index[:, 0]], best[1][index[:, 1]]], 1)
        assert energy.decode(x[:1]) == [energy.tokenizer.decode([5, best[0, 0], 9, best[1, 0]])]
    expected = scores(energy, index, masked)
    torch.testing.assert_close(energy(x), expected)
    assert expected.max() - expected.min() > 1


def test_order_matters(energy: MaskedLanguageModel) -> None:
    x = energy.domain.enumerate().double()
    assert (energy(x) - energy(x.flip(1))).abs().max() > 0.1


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(("masked", "top_k"), [(False, None), (True, None), (True, 3), (False, 3)])
def test_gradient_by_finite_differences(folder: Path, inference: bool, masked: bool, top_k: int | None) -> None:
    energy = MaskedLanguageModel(TEXT, str(folder), masked=masked, top_k=top_k).double()
    x = energy.domain.random(3).double()
    with torch.inference_mode(inference):
        value, grad = energy.value_and_grad(x)
        generator = torch.Generator().manual_seed(0)
        for _ in range(5):
            direction = torch.randn(x.shape, dtype=x.dtype, generator=generator)
            slope = (energy(x + 1e-5 * direction) - energy(x - 1e-5 * direction)) / 2e-5
            torch.testing.assert_close((grad * direction).sum((1, 2)), slope, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(energy(x), value)
    assert energy(x.float()).dtype == torch.float64 and energy.float()(x).dtype == torch.float32


SHORT, LONG, BALANCED = DMALA(0.5), DMALA(5.0), LocallyBalanced()
FAST = [(True, 3, SHORT)]
SLOW = [
    (masked, top_k, sampler)
    for masked, top_k in ((False, None), (True, None), (True, 3))
    for sampler in (SHORT, LONG, BALANCED)
    if (masked, top_k, sampler) not in FAST
]


@pytest.mark.parametrize(
    ("masked", "top_k", "sampler"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_samplers_are_exact(folder: Path, masked: bool, top_k: int | None, sampler: MetropolisSampler) -> None:
    energy = MaskedLanguageModel(TEXT, str(folder), masked=masked, top_k=top_k).double()
    assert bias(sampler, energy) < 1e-10


def test_decoding_keeps_the_words_and_drops_what_the_tokenizer_added(energy: MaskedLanguageModel) -> None:
    index = torch.tensor([[WORDS.index("cat"), WORDS.index("##s")], [WORDS.index("dog"), WORDS.index("[SEP]")]])
    assert energy.decode(energy.domain.from_index(index)) == ["the cat sats", "the dog sat [SEP]"]


def test_the_model_stays_frozen_and_without_dropout(energy: MaskedLanguageModel) -> None:
    x = energy.domain.random(4).double()
    before = energy(x)
    energy.train()
    assert torch.equal(energy(x), before) and energy.training
    assert not any(p.requires_grad for p in energy.parameters())
    y, info = DULA(0.5).sample(energy, x, 3)
    energy.domain.validate(y)
    assert info.hops.sum() > 0


def test_a_model_and_its_name_in_a_config_give_the_same_energy(folder: Path, energy: MaskedLanguageModel) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    at_hand = MaskedLanguageModel(TEXT, model, tokenizer=tokenizer, masked=False).double()
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--energy", type=Energy)
    name = "ebmlab.energies.masked_language_model.MaskedLanguageModel"
    spec = {"class_path": name, "init_args": {"text": TEXT, "model": str(folder), "masked": False}}
    named = parser.instantiate(parser.parse_object({"energy": spec})).energy.double()
    x = energy.domain.random(4).double()
    torch.testing.assert_close((at_hand(x), named(x)), (energy(x), energy(x)))


def test_other_names_for_the_mask(energy: MaskedLanguageModel) -> None:
    class Renamed:
        """The same tokenizer, which calls its mask <mask>."""

        mask_token, mask_token_id = "<mask>", 4

        def __call__(self, text: str) -> Any:
            assert text == "the <mask> sat <mask>"
            return energy.tokenizer(TEXT)

    renamed = MaskedLanguageModel(TEXT, energy.model, tokenizer=Renamed(), masked=False)
    x = energy.domain.random(2).double()
    torch.testing.assert_close(renamed(x), energy(x))


def test_user_errors(
    folder: Path, tmp_path: Path, energy: MaskedLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"no \[MASK\] in the text 'the cat'"):
        MaskedLanguageModel("the cat", str(folder))
    with pytest.raises(UserError, match="42 tokens, the model reads at most 40"):
        MaskedLanguageModel("[MASK] " * 40, str(folder))
    short = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=5)
    with pytest.raises(UserError, match="the text has 6 tokens, the model reads at most 5"):
        MaskedLanguageModel(TEXT, energy.model, tokenizer=short)
    for top_k in (1, 6):
        with pytest.raises(UserError, match=f"top_k is {top_k}, but must be from 2 to 5, the model's words"):
            MaskedLanguageModel(TEXT, str(folder), top_k=top_k)
    with pytest.raises(UserError, match="needs its tokenizer"):
        MaskedLanguageModel(TEXT, energy.model)
    with refused(r"the masked language model '.*' is neither"):
        MaskedLanguageModel(TEXT, str(tmp_path))  # an empty folder
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'ebmlab\[text\]'"):
        MaskedLanguageModel(TEXT, str(folder))
