"""Lets mkdocstrings render our docstrings: `Example:` sections as code, and the formulas below typeset.

The docstrings keep formulas in plain text, which a terminal shows as it is; `tests/test_formulas.py` finds each.
"""

from __future__ import annotations

from typing import Any

import griffe

FORMULAS = {
    # energies
    "E(x), with p(x) proportional to exp(-E(x))": r"$E(x)$, with $p(x) \propto e^{-E(x)}$",
    "E(v, h) = |(v - mu) / sigma|^2 / 2 - (v / sigma^2)' W h - b'h": (
        r"$E(v, h) = \frac{1}{2} \lVert (v - \mu) / \sigma \rVert^2 - (v / \sigma^2)^\top W h - b^\top h$"
    ),
    "E(v, h) = -v'W h - b_v'v - b_h'h": r"$E(v, h) = -v^\top W h - b_v^\top v - b_h^\top h$",
    "-b_v'v - sum of softplus(W'v + b_h)": r"$-b_v^\top v - \sum_j \log(1 + e^{(W^\top v + b_h)_j})$",
    "E(v, h) = -sum_ij W_i(v_i, j) h_j - sum_i b_i(v_i) - b_h'h": (
        r"$E(v, h) = -\sum_{ij} W_i(v_i, j) h_j - \sum_i b_i(v_i) - b_h^\top h$"
    ),
    "E(v) = -log of the sum over h of exp(-E(v, h))": r"$E(v) = -\log \sum_h e^{-E(v, h)}$",
    "E(x) = -1/2 x'J x - h'x, x in {-1, +1}^d": r"$E(x) = -\frac{1}{2} x^\top J x - h^\top x$, $x \in \{-1, +1\}^d$",
    "E(x) = -sum_{i<j} J_ij(x_i, x_j) - sum_i h_i(x_i), x_i": (
        r"$E(x) = -\sum_{i<j} J_{ij}(x_i, x_j) - \sum_i h_i(x_i)$, $x_i$"
    ),
    "E(x) = -1/2 sum_ij J_ij [x_i = x_j] - sum_i h_i(x_i), x_i": (
        r"$E(x) = -\frac{1}{2} \sum_{ij} J_{ij} [x_i = x_j] - \sum_i h_i(x_i)$, $x_i$"
    ),
    "E(x) = f(x) + |x|^2 / (2 scale^2), f": r"$E(x) = f(x) + \lVert x \rVert^2 / (2 s^2)$, s the `scale` and f",
    "E(x) = (x - m)' C^-1 (x - m) / 2": r"$E(x) = \frac{1}{2} (x - m)^\top C^{-1} (x - m)$",
    "E(x) = |x|^2 / 2": r"$E(x) = \lVert x \rVert^2 / 2$",
    "E(x) = sum over k of w_k E_k(x): a product of experts, the product of exp(-w_k E_k(x))": (
        r"$E(x) = \sum_k w_k E_k(x)$: a product of experts, $\prod_k e^{-w_k E_k(x)}$"
    ),
    "E(x) = -log of the sum over k of w_k exp(-E_k(x)) / Z_k": r"$E(x) = -\log \sum_k w_k e^{-E_k(x)} / Z_k$",
    "E(x) = -log of the sum over classes y of exp(f(x)[y]), f(x) the logits of p(y | x)": (
        r"$E(x) = -\log \sum_y e^{f(x)_y}$, y the classes and $f(x)$ the logits of $p(y \mid x)$"
    ),
    "Energies E(x), which define p(x) = exp(-E(x)) / Z": r"Energies $E(x)$, which define $p(x) = e^{-E(x)} / Z$",
    "Log of the sum, or integral, of exp(-E(x))": r"$\log \sum_x e^{-E(x)}$, or of the integral",
    # samplers
    "x - alpha dE/dx + sqrt(2 alpha T) noise": (
        r"$x - \alpha \, \partial E / \partial x + \sqrt{2 \alpha T}\, \xi$, $\xi$ normal noise"
    ),
    "probability proportional to g(p(y) / p(x))": r"probability proportional to $g(p(y) / p(x))$",
    "the bias falls like exp(-1 / (2 alpha))": r"the bias falls like $e^{-1 / (2 \alpha)}$",
    "    q(y) = exp(alpha [(y - x)' grad f(x) + (y - x)' W (y - x) / 2] - |y - x|^2 / (2 sigma)) / normaliser": (
        r"$$q(y) \propto \exp\left(\alpha \left[(y - x)^\top \nabla f(x) + \frac{1}{2} (y - x)^\top W (y - x)\right]"
        r" - \frac{\lVert y - x \rVert^2}{2 \sigma}\right)$$"
    ),
    "dx = v dt, dv = -dE/dx dt - friction v dt + sqrt(2 friction) dW": (
        r"$dx = v\,dt$, $dv = -\frac{\partial E}{\partial x} dt - \gamma v\,dt + \sqrt{2 \gamma}\,dW$"
        r" with friction $\gamma$"
    ),
    "from x to a neighbour y is sqrt(p(y) / p(x))": r"from x to a neighbour y is $\sqrt{p(y) / p(x)}$",
    # learners
    "<dE/dtheta>_data - <dE/dtheta>_negatives": (
        r"$\langle \partial E / \partial \theta \rangle_{\text{data}}"
        r" - \langle \partial E / \partial \theta \rangle_{\text{negatives}}$"
    ),
    "the mean over data of -sum_i log p(x_i | all others)": (
        r"the mean over data of $-\sum_i \log p(x_i \mid x_{\setminus i})$"
    ),
    "J = E[|dE/dx|^2 / 2 - tr d2E/dx2]": (
        r"$J = \mathbb{E}\left[\frac{1}{2} \lVert \nabla_x E \rVert^2 - \operatorname{tr} \nabla_x^2 E\right]$"
    ),
    "log(w / M + mean of exp(E(x) - E(z_j)) over j = 1..M)": (
        r"$\log\left(\frac{w}{M} + \frac{1}{M} \sum_{j=1}^{M} e^{E(x) - E(z_j)}\right)$"
    ),
    "exp(-E(x) - c) / (nu p_n(x))": r"$e^{-E(x) - c} / (\nu\, p_n(x))$",
}


class Docstrings(griffe.Extension):
    """Rewrites each docstring for the site."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = typeset(obj.docstring.value.replace("Example:\n", "Examples:\n"))

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Called by griffe for the whole package."""
        loader.resolve_aliases(implicit=False)
        _show_functions(pkg)


def _show_functions(package: griffe.Module) -> None:
    """Lets a name that a package exports mean the function, where one of the package's modules has the same name."""
    modules = [member for member in package.members.values() if isinstance(member, griffe.Module)]
    for module in modules:
        _show_functions(module)
        if module.name in (package.exports or ()):
            found = [other.members[module.name] for other in modules if module.name in other.members]
            function = next((member for member in found if not member.is_alias), None)
            if function is not None:
                package.members[module.name] = griffe.Alias(module.name, function, parent=package)


def typeset(docstring: str) -> str:
    """The docstring with its formulas in LaTeX, between dollars."""
    for plain, latex in FORMULAS.items():
        docstring = docstring.replace(plain, latex)
    return docstring
