"""Masked language models as energies, on a tiny BERT with random weights that can be enumerated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_data import WORDS, make_bert
from helpers_finite import bias, proposal_matches_density
from helpers_grbm import PASS
from jsonargparse import ArgumentParser

from ebmlab.domains import Categorical
from ebmlab.energies import Energy
from ebmlab.energies.masked_language_model import MaskedLanguageModel
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, DULA

transformers = pytest.importorskip("transformers")

TEXT = "the [MASK] sat [MASK]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def energy(folder: Path) -> MaskedLanguageModel:
    return MaskedLanguageModel(TEXT, str(folder)).double()


def test_energy_is_minus_the_models_log_probability_of_the_filled_in_words(energy: MaskedLanguageModel) -> None:
    assert isinstance(energy.domain, Categorical) and energy.domain.event_shape == (2, len(WORDS))
    x = energy.domain.enumerate().double()
    index = energy.domain.to_index(x)
    ids = torch.tensor([2, 5, 4, 9, 4, 3]).repeat(len(x), 1)  # [CLS] the [MASK] sat [MASK] [SEP]
    ids[:, 2], ids[:, 4] = index[:, 0], index[:, 1]
    log_f = energy.model(input_ids=ids).logits.log_softmax(-1)
    rows = torch.arange(len(x))
    expected = -log_f[rows, 2, index[:, 0]] - log_f[rows, 4, index[:, 1]]
    torch.testing.assert_close(energy(x), expected)
    assert expected.max() - expected.min() > 2
    assert (energy(x) - energy(x.flip(1))).abs().max() > 0.1  # order matters


@pytest.mark.parametrize("inference", [False, True])
def test_gradient_by_finite_differences(energy: MaskedLanguageModel, inference: bool) -> None:
    x = energy.domain.random(3).double()
    with torch.inference_mode(inference):
        value, grad = energy.value_and_grad(x)
        generator = torch.Generator().manual_seed(0)
        for _ in range(5):
            direction = torch.randn(x.shape, dtype=x.dtype, generator=generator)
            slope = (energy(x + 1e-5 * direction) - energy(x - 1e-5 * direction)) / 2e-5
            torch.testing.assert_close((grad * direction).sum((1, 2)), slope, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(energy(x), value)
    assert energy.float()(x).dtype == torch.float64 and energy(x.float()).dtype == torch.float32


@pytest.mark.parametrize("step_size", [0.5, 5.0])
def test_dmala_is_exact(energy: MaskedLanguageModel, step_size: float) -> None:
    assert bias(DMALA(step_size), energy) < 1e-10


def test_dmala_proposes_what_it_says(energy: MaskedLanguageModel) -> None:
    assert proposal_matches_density(DMALA(1.0), energy, n=5_000) > PASS


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
    at_hand = MaskedLanguageModel(TEXT, model, tokenizer).double()
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--energy", type=Energy)
    name = "ebmlab.energies.masked_language_model.MaskedLanguageModel"
    spec = {"class_path": name, "init_args": {"text": TEXT, "model": str(folder)}}
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

    renamed = MaskedLanguageModel(TEXT, energy.model, Renamed())
    x = energy.domain.random(2).double()
    torch.testing.assert_close(renamed(x), energy(x))


def test_user_errors(
    folder: Path, tmp_path: Path, energy: MaskedLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"no \[MASK\] in the text 'the cat'"):
        MaskedLanguageModel("the cat", str(folder))
    with pytest.raises(UserError, match="42 tokens, the model reads at most 40"):
        MaskedLanguageModel("[MASK] " * 40, str(folder))
    with pytest.raises(UserError, match="needs its tokenizer"):
        MaskedLanguageModel(TEXT, energy.model)
    with pytest.raises(UserError, match=r"the masked language model '.*' is neither") as error:
        MaskedLanguageModel(TEXT, str(tmp_path))  # an empty folder
    assert "\n" not in str(error.value)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install ebmlab\[text\]"):
        MaskedLanguageModel(TEXT, str(folder))
