"""Pictures of rows during training."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers_trainer import quiet_trainer

from ebmlab.callbacks import SampleTable, sample_table
from ebmlab.data.interface import Table
from ebmlab.datamodules import Digits, MixedTable
from ebmlab.energies import GRBM, ProductMLP
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, EnergyDiscrepancy, FromData, RatioMatching
from ebmlab.product import Product
from ebmlab.samplers import BlockGibbs

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers")


def test_it_draws_rows_over_held_out_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Table]] = []
    draw = sample_table.draw_table
    monkeypatch.setattr(sample_table, "draw_table", lambda tables: (seen.append(tables), draw(tables))[1])
    energy = ProductMLP(Product.of_columns([3, 2, 0, 0]), hidden_dim=4)
    data = MixedTable(200, 50)
    callback = SampleTable(num_samples=15, num_steps=3, at_start=False)
    trainer = quiet_trainer(tmp_path, max_epochs=1, callbacks=[callback])
    trainer.fit(RatioMatching(energy, EnergyDiscrepancy(2), num_steps=3), datamodule=data)
    assert list(tmp_path.glob("images/samples-table*.png"))
    (tables,) = seen
    assert list(tables) == ["data", "samples after 3 steps"]
    rows = {tuple(row) for row in data.raw("val").tolist()}
    assert {tuple(row) for row in tables["data"].values.tolist()} <= rows
    samples = tables["samples after 3 steps"]
    assert samples.values.shape == (15, 4) and samples.names == ("kind", "mark", "length", "width")
    assert set(samples.values[:, 0].tolist()) <= {0.0, 1.0, 2.0}


def test_data_without_rows_are_refused(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(GRBM(64, 4), BlockGibbs(), start=FromData())
    with pytest.raises(UserError, match="SampleTable needs rows of numbers and classes, but Digits"):
        quiet_trainer(tmp_path, max_epochs=1, callbacks=[SampleTable()]).fit(learner, Digits())
