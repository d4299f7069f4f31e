"""Studies that compare samplers on targets, as `python -m ebmlab sample` runs them."""

from ebmlab.samplers.initial_states import FromMode, FromNoise, FromPoint, Start
from ebmlab.studies.last_states import Images
from ebmlab.studies.law import LawDistance
from ebmlab.studies.log_mmd import LogMMD
from ebmlab.studies.means import MeanError
from ebmlab.studies.measures import Measure
from ebmlab.studies.study import Contender, Study
from ebmlab.studies.targets.histogram import Histogram2D
from ebmlab.studies.targets.prediction import Prediction
from ebmlab.studies.text import Sentences
from ebmlab.studies.trained import trained_energy

__all__ = [
    "Contender",
    "FromMode",
    "FromNoise",
    "FromPoint",
    "Histogram2D",
    "Images",
    "LawDistance",
    "LogMMD",
    "MeanError",
    "Measure",
    "Prediction",
    "Sentences",
    "Start",
    "Study",
    "trained_energy",
]
