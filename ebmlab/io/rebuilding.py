"""What a checkpoint says of how an object was made, and the object that is made of it again."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.old_names import current_class, current_paths, current_settings

IMPORTED = ("ebmlab.", "torch.nn.", "torch.optim.")  # rebuilding may import these; others must have been imported
PLAIN = (type(None), bool, int, float, str)  # the types of settings that need no description
MAKERS = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
granted: set[str] = set()  # modules that the user has named for what checkpoints may name, by `import`


class Recorded:
    """Remembers the arguments that it was made with.

    Attributes:
        reaches: what making an object reaches besides its arguments, such as the network. If it is not empty, no
            checkpoint makes one unless the user has named its module.
    """

    reaches: ClassVar[str] = ""
    _made_with: tuple[type, tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made.__dict__["_made_with"] = cls, args, kwargs  # parametrizations change an object's class later
        return made

    def tuned_arguments(self) -> dict[str, Any]:
        """Arguments that have changed since, and that no buffer of their name holds."""
        return {}


class Indescribable(Exception):
    """An object whose making cannot be described by plain data. The message names it."""


def describe(value: Any) -> Any:
    """An argument as plain data: objects become `{"class_path": ..., "init_args": ...}`, as in a config.

    Args:
        value: a number or text, of Python or NumPy, an array, a tensor or a `Recorded` object. Also an optimizer or
            schedule class, `functools.partial` of one, or a list, tuple or dictionary of all these.

    Raises:
        Indescribable: it is something else.
    """
    value = plain(getattr(value, "_orig_mod", value))  # torch.compile wraps the module that was made
    if type(value) in PLAIN:
        return value
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim < 2 else torch.from_numpy(value.copy())
    if isinstance(value, Mapping):
        return {key: describe(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [describe(entry) for entry in value]
    if isinstance(value, functools.partial) and not value.args and _is_maker(value.func):
        return {"class_path": path_of(value.func), "init_args": describe(value.keywords)}
    if _is_maker(value):
        return {"class_path": path_of(value), "init_args": {}}
    if not isinstance(value, Recorded) or "<locals>" in path_of(value._made_with[0]):
        raise Indescribable(type(value).__name__)
    return {"class_path": path_of(value._made_with[0]), "init_args": describe(arguments(value))}


def plain(value: Any) -> Any:
    """A number or text of a type of Python's own, if the value is one of NumPy's or of a subclass; else the value."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | Integral):
        return int(value) if not isinstance(value, bool) else value
    return float(value) if isinstance(value, Real) else value


def arguments(made: Recorded) -> dict[str, Any]:
    """The arguments that would make an object as it is, by name.

    They are those that it was made with, but for numbers that a tuner has changed since: buffers of an argument's name
    that no `state_dict` holds.

    Raises:
        Indescribable: some have no name.
    """
    kind, args, kwargs = made._made_with
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    given: dict[str, Any] = {}
    for name, argument in list(signature.bind(made, *args, **kwargs).arguments.items())[1:]:
        position = signature.parameters[name].kind
        if position is inspect.Parameter.VAR_POSITIONAL:
            raise Indescribable(kind.__name__)
        given |= argument if position is inspect.Parameter.VAR_KEYWORD else {name: argument}
    for name, parameter in signature.parameters.items():
        if (now := _tuned(made, name)) is not None and not _is_same(now, given.get(name, parameter.default)):
            given[name] = now.item() if now.dim() == 0 else now
    return given | made.tuned_arguments()


def _tuned(made: Recorded, name: str) -> Tensor | None:
    """The buffer of this name, of the object or of a part that holds some of its settings."""
    parts = made.children() if isinstance(made, nn.Module) else ()
    owners: list[Any] = [made, *(part for part in parts if not isinstance(part, Recorded))]
    for owner in owners:
        if name in getattr(owner, "_non_persistent_buffers_set", ()):
            return cast(Tensor | None, owner._buffers[name])
    return None


def _is_same(now: Tensor, given: Any) -> bool:
    """Whether a buffer holds what was given, in its precision."""
    if given is None or given is inspect.Parameter.empty:
        return False
    try:
        return torch.equal(torch.as_tensor(given).to(now), now)
    except (TypeError, ValueError, RuntimeError):
        return False


def rebuild(recipe: Any) -> Any:
    """Makes what `describe`, or a config, describes.

    Nothing else is called than classes of energies, samplers and the like, and of torch's modules; optimizers and
    schedules become `functools.partial` objects. A class outside ebmlab and torch must have been imported before.

    Raises:
        UserError: a class is missing, not trusted, or does not take these arguments.
    """
    if isinstance(recipe, list | tuple):
        return [rebuild(entry) for entry in recipe]
    if not isinstance(recipe, Mapping):
        return recipe
    if "class_path" not in recipe or not recipe.keys() <= {"class_path", "init_args", "dict_kwargs"}:
        return {key: rebuild(entry) for key, entry in recipe.items()}
    settings = rebuild({**(recipe.get("init_args") or {}), **(recipe.get("dict_kwargs") or {})})
    path = current_class(str(recipe["class_path"]), settings)
    made_by, settings = find(path), current_settings(path, settings)
    if _is_maker(made_by):
        return functools.partial(made_by, **settings)
    with explained(
        f"{recipe['class_path']} cannot be made again ({WHY})", (TypeError, AttributeError, ValueError, RuntimeError)
    ):
        return made_by(**settings)


def find(path: Any) -> Callable[..., Any]:
    """The class, or class method that makes an object, with a dotted path.

    Raises:
        UserError: there is none, or it is not one that a checkpoint may name.
    """
    made_by = imported(path)
    kind = getattr(made_by, "__self__", made_by)
    if not (_makes_a_part(made_by) or _is_class_method(made_by)):
        raise UserError(f"{path} is no class of a model: nothing else in a checkpoint is called")
    if (reaches := getattr(kind, "reaches", "")) and kind.__module__ not in granted:
        raise UserError(
            f"{path} reaches {reaches}, which no checkpoint does of itself: build it yourself for "
            "ebmlab.load(path, learner), or name its module if you trust it",
            option=f"import {kind.__module__}",
        )
    return made_by  # type: ignore[no-any-return]


def imported(path: Any) -> Any:
    """What a dotted path names in ebmlab or torch, or in a module that has been imported already.

    Raises:
        UserError: there is nothing of that name.
    """
    parts = current_paths(str(path)).split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:cut])
        if module not in sys.modules and f"{module}.".startswith(IMPORTED):
            try:
                importlib.import_module(module)
            except ImportError:
                continue
        if module in sys.modules:
            break
    else:
        raise UserError(
            f"{path} is not part of ebmlab and has not been imported: if you trust it, import its module before",
            option=f"import {parts[0]}",
        )
    found: Any = vars(sys.modules[module]).get(parts[cut])  # no `getattr`, by which a module may import more
    for name in parts[cut + 1 :]:
        found = getattr(found, name, None)
    if found is None:
        raise UserError(f"there is no {path}")
    return found


def path_of(kind: Any) -> str:
    """The dotted path of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _makes_a_part(found: Any) -> bool:
    """Whether something is a class of ebmlab's kinds, of torch's layers, optimizers and schedules, or of such code.

    Other packages' modules are not: to make one may reach the network, as that of an Inception score does.
    """
    if not isinstance(found, type) or not issubclass(found, (Recorded, nn.Module, *MAKERS)):
        return False
    return (
        issubclass(found, (Recorded, *MAKERS))
        or found.__module__.startswith("torch.nn.modules.")
        or _owner(found) in {_owner(kind) for kind in _written_for_ebmlab(Recorded)} - {"ebmlab", "torch"}
        or _owner(found) in {module.partition(".")[0] for module in granted}
    )


def _is_class_method(found: Any) -> bool:
    """Whether something is a public class method of a `Recorded` class, such as `Ising.lattice`, and makes one."""
    kind = getattr(found, "__self__", None)
    if not inspect.ismethod(found) or not isinstance(kind, type) or not issubclass(kind, Recorded):
        return False
    name = found.__name__
    defined = any(name in vars(base) for base in kind.__mro__ if issubclass(base, Recorded))
    return defined and not hasattr(kind, "load_from_checkpoint") and not name.startswith("_")


def _written_for_ebmlab(kind: type) -> Iterator[type]:
    derived: type
    for derived in kind.__subclasses__():
        yield derived
        yield from _written_for_ebmlab(derived)


def _owner(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_maker(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, MAKERS)
