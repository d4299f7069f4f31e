"""Energies of data with classes: the logits of a classifier are minus the energies of x with each class."""

from __future__ import annotations

from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies.energy import Energy
from ebmlab.energies.perceptron import hidden_layers
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count, require_positive


class Classifier(Energy):
    """E(x) = -log of the sum over classes y of exp(f(x)[y]), f(x) the logits of p(y | x) (Grathwohl et al., 2020).

    So -f(x)[y] is the energy of x and y together, Eq. 5, and one network says p(x), p(y | x) and p(x | y). A subclass
    writes `logits`.

    Attributes:
        num_classes: K.

    Example:
        >>> import torch
        >>> energy: Classifier = ClassifierMLP(num_coordinates=4, num_classes=3, hidden_dim=8)
        >>> x = torch.zeros(5, 4)
        >>> energy.logits(x).shape, bool((energy(x) == -energy.logits(x).logsumexp(1)).all())
        (torch.Size([5, 3]), True)
    """

    num_classes: int

    def logits(self, x: Tensor) -> Tensor:
        """f(x), minus the energies of x `(B, *event)` with each class, `(B, K)`."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return -self.logits(x).logsumexp(1)


class ClassifierMLP(Classifier):
    """f(x)[y] = g(x)[y] - |x|^2 / (2 scale^2), g a perceptron with swish activations and K outputs, x real.

    The second term makes Z finite, as in `RealMLP`. It is the same for all classes, so that p(y | x) is the
    perceptron's.

    Args:
        num_coordinates: d, the length of x.
        num_classes: K.
        hidden_dim: units in each hidden layer.
        num_layers: how many hidden layers.
        scale: standard deviation of the Gaussian, in the units of x; a few times that of the data.

    Example:
        >>> import torch
        >>> energy = ClassifierMLP(num_coordinates=4, num_classes=3, hidden_dim=8)
        >>> energy(torch.zeros(5, 4)).shape
        torch.Size([5])
    """

    domains = (Real,)

    def __init__(
        self,
        num_coordinates: int,
        num_classes: int,
        *,
        hidden_dim: int = 256,
        num_layers: int = 2,
        scale: float = 4.0,
    ) -> None:
        super().__init__()
        require_count("ClassifierMLP", num_coordinates=num_coordinates, hidden_dim=hidden_dim, num_layers=num_layers)
        require_count("ClassifierMLP", least=2, num_classes=num_classes)
        require_positive("ClassifierMLP", scale=scale)
        self.domain = Real(num_coordinates)
        self.num_classes = num_classes
        self.scale = scale
        self.features = nn.Sequential(*hidden_layers(num_coordinates, hidden_dim, num_layers))
        self.linear = nn.Linear(hidden_dim, num_classes)

    def logits(self, x: Tensor) -> Tensor:
        return self._read_out(self.features(x)) - self._bowl(x)

    @unrounded
    def _read_out(self, features: Tensor) -> Tensor:
        outputs: Tensor = self.linear(features)
        return outputs

    @unrounded
    def _bowl(self, x: Tensor) -> Tensor:
        return x.square().sum(1, keepdim=True) / (2 * self.scale**2)
