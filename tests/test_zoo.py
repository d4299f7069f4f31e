"""The models of the zoo are what their manifests say, and come and go unharmed."""

from __future__ import annotations

import hashlib
import http.server
import json
import math
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from helpers_tier import cases

import ebmlab
from benchmarks.zoo import RECIPES
from ebmlab.app.zoo_parser import _VERBS, zoo_parser
from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy, Potts
from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint
from ebmlab.io.zoo import checkpoint, names, pack, pull
from ebmlab.io.zoo.packing import seal, strip
from ebmlab.io.zoo.shelf import CARD, CHECKPOINT, LOG_Z, MANIFEST, OURS
from ebmlab.trained import likelihood
from ebmlab.trained.export import STABLE, export_energy

NAMES = sorted(path.name for path in OURS.iterdir() if (path / MANIFEST).is_file())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


@pytest.fixture
def mine() -> Path:
    pack(OURS / "rbm-digits" / CHECKPOINT, Path("mine"), "mine", "# zoo/mine\n\nA copy.\n")
    return Path("mine")


@pytest.fixture
def served(mine: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(mine))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_checkpoint_without_settings_is_not_packed(tmp_path: Path) -> None:
    torch.save({"state_dict": {}, "hyper_parameters": None}, "a.ckpt")
    with pytest.raises(UserError, match="does not say how to make its model"):
        strip(Path("a.ckpt"), tmp_path)


def test_the_python_and_the_commands_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "zoo.md").read_text()
    space: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, space)
    energy, printed = capsys.readouterr().out.splitlines()
    assert float(energy.removeprefix("tensor(").rstrip(")")) < 0
    assert printed.partition(";")[0] in (OURS / "rbm-digits" / CARD).read_text()
    words = [shlex.split(line, comments=True) for line in re.findall(r"^python -m ebmlab zoo (.*)$", page, re.M)]
    assert {zoo_parser().parse_args(given).verb for given in words if given} == {*_VERBS} - {"list"}


def test_every_recipe_names_a_config_and_every_model_a_recipe() -> None:
    recipes = yaml.safe_load(RECIPES.read_text())
    assert {*NAMES} <= recipes.keys()
    for recipe in recipes.values():
        assert (Path(__file__).parents[1] / "configs" / f"{recipe['config']}.yaml").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_models_load_score_and_are_small(name: str) -> None:
    model = ebmlab.load(f"zoo/{name}")
    raw = model.sample(3, num_steps=2)
    assert torch.isfinite(model.energy(raw)).all()
    assert sum(path.stat().st_size for path in (OURS / name).iterdir()) < 2e6
    card = (OURS / name / CARD).read_text()
    for row in ("data", "command", "hardware", "seed", "log-likelihood", "FID", "licence"):
        assert row in card
    content = load_checkpoint(OURS / name / CHECKPOINT)
    assert not {"optimizer_states", "run_state", "callbacks"} & content.keys()


@pytest.mark.parametrize("name", NAMES)
def test_log_z_comes_with_a_model_if_and_only_if_it_is_to_be_trusted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is the number of the card."""
    card, shipped = (OURS / name / CARD).read_text(), OURS / name / LOG_Z
    assert shipped.is_file() != ("not to be trusted" in card)
    if not shipped.is_file():
        return
    monkeypatch.setattr(likelihood, "computed_log_z", lambda *_: pytest.fail("log Z was computed again"))
    model = ebmlab.load(f"zoo/{name}")
    found = model.log_likelihood(model.sample(3, num_steps=2))  # at most as many chains and temperatures are asked for
    assert found.trusted and found.std_error > 0 and str(found.log_z) in card
    content = json.loads(shipped.read_text())
    monkeypatch.setattr(
        likelihood, "computed_log_z", lambda *_: likelihood.LogZ(0.5, 0.1, gap=0.0, doubts=(), method="more")
    )
    more = {"num_chains": content["num_chains"], "num_temperatures": content["num_temperatures"] + 1}
    assert model.log_likelihood(model.sample(3, num_steps=2), **more).log_z.method == "more"


def test_a_forged_log_z_is_refused(cache: Path) -> None:
    """In the model itself by the manifest, and beside a checkpoint that is not in the zoo it does not count."""
    pack(OURS / "rbm-digits" / CHECKPOINT, Path("mine"), "mine", "# zoo/mine\n")
    text = (OURS / "rbm-digits" / LOG_Z).read_text()
    (Path("mine") / LOG_Z).write_text(text)
    digest = json.loads(text)["checkpoint"]
    shutil.copy(OURS / "rbm-digits" / CHECKPOINT, Path("mine"))
    assert hashlib.sha256((Path("mine") / CHECKPOINT).read_bytes()).hexdigest() == digest
    assert likelihood.Kept(Path("mine", CHECKPOINT), 1, 1).read() is None
    seal(Path("mine"), "mine", "# zoo/mine\n")
    path = pull("mine")
    assert likelihood.Kept(path, 1, 1).read() is not None
    path.with_name(LOG_Z).write_text(text.replace("0", "1"))
    with pytest.raises(UserError, match="is damaged or another file"):
        ebmlab.load("zoo/mine")


@cases("name", {name: name for name in NAMES}, fast=["rbm-digits"])
def test_exported_energies_are_equal(name: str) -> None:
    energy = ebmlab.load(f"zoo/{name}").learner.energy
    x = energy.domain.random(7)
    export_energy(energy, Path("a.pt2"))
    assert torch.allclose(torch.export.load("a.pt2").module()(x), energy(x), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_exported_to_onnx(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    energy = ebmlab.load(f"zoo/{name}").learner.energy
    x = energy.domain.random(7)
    export_energy(energy, Path("a.onnx"))
    session = runtime.InferenceSession("a.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert torch.allclose(torch.from_numpy(found), energy(x), rtol=1e-4, atol=1e-3)


class Written(Energy):
    """E(x) = f(w'x) on three bits, for a function f of torch."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], weight: float) -> None:
        super().__init__()
        self.domain, self.function = Binary(3), function
        self.w = torch.nn.Parameter(torch.full((3,), weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x @ self.w)


FUNCTIONS = {
    "logsigmoid": torch.nn.functional.logsigmoid,
    "logaddexp": lambda z: torch.logaddexp(z, 0.5 * z),
    "logsumexp": lambda z: torch.stack([z, 0.5 * z], 1).logsumexp(1),
    "log_softmax": lambda z: torch.stack([z, 0.5 * z], 1).log_softmax(1)[:, 0],
    "softplus": torch.nn.functional.softplus,
    "erfcx": lambda z: torch.special.erfcx(z.abs()).log(),
    "log_ndtr": torch.special.log_ndtr,
    "cross_entropy": lambda z: torch.nn.functional.binary_cross_entropy_with_logits(z, z.sign(), reduction="none"),
    "log1p": lambda z: torch.log1p(z.abs()),
    "log of log1p": lambda z: torch.log1p(torch.exp(-z.abs().clamp(max=80))).log(),
    "log of expm1": lambda z: torch.expm1(torch.exp(-z.abs().clamp(max=80))).log(),
    "log of xlog1py": lambda z: torch.special.xlog1py(torch.full_like(z, 2), torch.exp(-z.abs().clamp(max=80))).log(),
}


def onnx(energy: Energy, x: torch.Tensor) -> torch.Tensor:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    export_energy(energy, Path("a.onnx"))
    session = runtime.InferenceSession("a.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.float().numpy()})
    return torch.from_numpy(found)


@pytest.mark.parametrize("weight", [-1e4, -50.0, -1.0, 0.0, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_energies_that_are_large_are_finite_in_onnx_too(name: str, weight: float) -> None:
    energy = Written(FUNCTIONS[name], weight)
    x = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    torch.testing.assert_close(onnx(energy, x), energy(x).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["special_erfcx", "special_log_ndtr"])
def test_tails_of_the_normal_law_keep_their_digits_in_float32(name: str) -> None:
    x = torch.cat([torch.linspace(-9, 9, 999), torch.logspace(1, 6, 99)])
    x = torch.cat([x, -x]) if name == "special_log_ndtr" else x
    operator = getattr(torch.ops.aten, name).default
    torch.testing.assert_close(STABLE[operator](x).double(), operator(x.double()), rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize("name", ["log1p", "expm1"])
def test_small_differences_keep_their_digits_in_float32(name: str) -> None:
    small = torch.cat([torch.logspace(-30, 0, 999), torch.linspace(0.4, 20, 999), torch.tensor([0.0, 1e10, math.inf])])
    x = torch.cat([small, -small]) if name == "expm1" else torch.cat([small, -small[small <= 1]])
    operator = getattr(torch.ops.aten, name).default
    torch.testing.assert_close(STABLE[operator](x).double(), operator(x.double()), rtol=1e-5, atol=0)


def test_a_machine_of_rectified_units_is_exported_to_onnx() -> None:
    torch.manual_seed(0)
    rbm = RBM(6, 3, hidden="rectified")
    for parameter in rbm.parameters():
        torch.nn.init.normal_(parameter, std=5.0)  # inputs far below 0
    x = rbm.domain.enumerate()
    torch.testing.assert_close(onnx(rbm, x), rbm(x).detach(), rtol=1e-5, atol=1e-5)


def test_an_energy_of_float64_is_exported_to_onnx_in_float32() -> None:
    torch.manual_seed(0)
    rbm = RBM(6, 3).double()
    x = rbm.domain.random(5)
    found = onnx(rbm, x)
    assert found.dtype == torch.float32 and rbm.W.dtype == torch.float64
    torch.testing.assert_close(found.double(), rbm(x.double()).detach(), rtol=1e-5, atol=1e-5)


class Counted(Energy):
    """E(x) = the sum of x'Wx over two halves x of the bits."""

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.weight = Binary(6), torch.nn.Parameter(torch.randn(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves = x.view(len(x), 2, 3)
        return torch.einsum("bki,ij,bkj->b", halves, self.weight, halves)


def potts() -> Potts:
    energy = Potts(4, 3)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter)
    return energy


@pytest.mark.parametrize("make", [Counted, potts])
def test_an_energy_that_counts_its_states_is_exported_for_any_number(make: Callable[[], Energy]) -> None:
    torch.manual_seed(0)
    energy = make()
    export_energy(energy, Path("a.pt2"))
    program = torch.export.load("a.pt2").module()
    for n in (1, 3, 8):
        x = energy.random(n)
        torch.testing.assert_close(program(x), energy(x))


def test_what_cannot_be_exported_says_so() -> None:
    energy = ebmlab.load("zoo/rbm-digits").learner.energy
    with pytest.raises(UserError, match=r"must end in \.pt2 or \.onnx"):
        export_energy(energy, Path("a.txt"))


def test_pull_by_folder_and_http(mine: Path, served: str) -> None:
    raw = torch.ones(2, 64)
    ours = ebmlab.load("zoo/rbm-digits").energy(raw)
    digest = hashlib.sha256((mine / CHECKPOINT).read_bytes()).hexdigest()
    assert pull(str(mine)).parent.name == "mine" and "mine" in names()
    assert torch.equal(ebmlab.load("zoo/mine").energy(raw), ours)
    shutil.rmtree("cache")
    pull(served, digest)
    assert torch.equal(ebmlab.load("zoo/mine").energy(raw), ours)


def test_what_is_damaged_or_another_is_refused(mine: Path, cache: Path) -> None:
    with pytest.raises(UserError, match=r"the sha256 of model\.ckpt is"):
        pull("mine", 64 * "0")
    manifest = json.loads((mine / MANIFEST).read_text())
    (mine / CARD).write_text("another")
    with pytest.raises(UserError, match="is damaged or another file"):
        pull("mine")
    assert not (cache / "zoo" / "mine").exists(), "nothing is half written"
    for change, message in [
        ({"name": "../up"}, "no name of a model"),
        ({"name": "rbm-digits"}, "comes with ebmlab"),
        ({"files": {}}, "no manifest"),
        ({"files": manifest["files"] | {"../evil.py": 64 * "0"}}, "no manifest"),
        ({"files": 3}, "no manifest"),
    ]:
        (mine / MANIFEST).write_text(json.dumps(manifest | change))
        with pytest.raises(UserError, match=message):
            pull("mine")
    with pytest.raises(UserError, match="cannot be read"):
        pull("gone")
    with pytest.raises(UserError, match="cannot be read"):
        pull("http://127.0.0.1:9")
    with pytest.raises(UserError, match="there is no such model"):
        checkpoint("zoo/gone")


def test_a_pulled_model_that_was_changed_is_refused(mine: Path) -> None:
    path = pull(str(mine))
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(UserError, match="is damaged or another file"):
        ebmlab.load("zoo/mine")


def test_hub(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(mine, "hub/me/mine")
    fake = SimpleNamespace(__spec__=True, hf_hub_download=lambda repository, file: str(Path("hub", repository, file)))
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    assert pull("hf://me/mine").is_file()
    with pytest.raises(UserError, match="cannot be read"):
        pull("hf://me/gone")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"pip install 'ebmlab\[hub\]'"):
        pull("hf://me/mine")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot be written \(.*\): set EBMLAB_CACHE to a folder that can be written"):
        ebmlab.load("zoo/rbm-digits")
