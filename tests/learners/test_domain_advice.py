"""What is advised where data and an energy have different domains: a setting that the data do not have yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ebmlab.data.interface import Data
from ebmlab.datamodules import Arrays, Digits
from ebmlab.domains import Binary, Categorical, Domain, Real
from ebmlab.errors import UserError
from ebmlab.learners.fitting_data import check_domain
from ebmlab.product import Product

OTHER = "choose another energy or data set"


@pytest.mark.parametrize(
    ("binarize", "domain", "mend"),
    [
        (False, Binary((64,)), f"set the data's binarize to true, or {OTHER}"),
        (True, Real((64,)), f"set the data's binarize to false, or {OTHER}"),
        (False, Categorical((64,), 3), OTHER),
        (True, Categorical((64,), 3), OTHER),
    ],
)
def test_what_is_set_already_is_not_advised(binarize: bool, domain: Domain, mend: str) -> None:
    said(Digits(binarize=binarize), domain, mend)


def test_mixed_tables_are_advised_by_the_word_of_the_option(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)))
    data = Arrays(str(tmp_path / "x.npy"))
    said(data, Product.of_columns((3, 0, 2)), f"set the data's domain to mixed, or {OTHER}")
    said(data, Binary((3,)), f"set the data's domain to binary, or {OTHER}")


def said(data: Data, domain: Domain, mend: str) -> None:
    with pytest.raises(UserError) as error:
        check_domain(data, domain, "MLP")
    assert str(error.value).endswith(f": {mend}")
