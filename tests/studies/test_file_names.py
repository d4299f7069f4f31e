"""No two files of a study have one name, and every name is one that a file can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.samplers import Gibbs
from ebmlab.studies import Contender, Images, MeanError, Study
from ebmlab.studies.measures import Measure
from ebmlab.studies.race import Result
from ebmlab.studies.report import write_texts


class Text(Measure):
    """Has a text and no curve."""

    def text(self) -> str:
        return "text"


def check(targets: list[str], samplers: list[str], sweep: str | None = None, **measures: Measure) -> None:
    energy = Ising.lattice(2, 0.2)
    contenders = {name: Contender(Gibbs()) for name in samplers}
    Study({name: energy for name in targets}, contenders, measures=measures, sweep=sweep).check()


@pytest.mark.parametrize(
    ("targets", "samplers", "measures", "name"),
    [
        (["J>0", "J<0"], ["A"], {}, "mean_energy-J_0.png"),
        (["a"], ["A b", "A_b"], {}, "a--A_b.pt"),
        (["a"], ["A/b", "A-b"], {}, "a--A-b.pt"),
        (["a", "a-b"], ["b-c", "c"], {"t": Text()}, "t-a-b-c.txt"),
        (["a"], ["A"], {"x": MeanError(), "RMSE_of_the_mean": Images((2, 2))}, "RMSE_of_the_mean-a.png"),
    ],
)
def test_two_files_of_one_name_are_refused(
    targets: list[str], samplers: list[str], measures: dict[str, Measure], name: str
) -> None:
    with pytest.raises(UserError, match=f"would both be saved as {name}; rename one"):
        check(targets, samplers, **measures)


def test_a_target_may_be_called_sweep_where_none_is_drawn() -> None:
    check(["sweep"], ["A"])
    with pytest.raises(UserError, match=r"would both be saved as mean_energy-sweep\.png"):
        check(["sweep"], ["A"], sweep="steps")


def test_names_that_differ_enough_pass() -> None:
    check(["J=0.1", "J=-0.1"], ["Gibbs-1", "DMALA 2.4"], x=MeanError(), t=Text(), y=Images((2, 2)))


def test_a_name_that_is_too_long_for_a_file_is_refused_before_the_chains_run() -> None:
    with pytest.raises(UserError, match="a name of 266 bytes, but at most 200 are allowed"):
        check(["a"], ["x" * 260])


def test_texts_of_names_with_slashes_stay_in_the_folder(tmp_path: Path) -> None:
    write_texts([Result("J/0.2 a", "Gibbs/1", exact=True, texts={"t": "text"})], tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["t-J-0.2_a-Gibbs-1.txt"]
