"""A Module as a function of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import stack
from frontend.nn.modules.batchnorm import _BatchNorm
from frontend.nn.modules.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None, kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`module(*args, **kwargs)` with other tensors for the named parameters and buffers, for this
    call. A name that shares its tensor with others stands for all of them, with `tie_weights`. What
    the call assigns to a replaced buffer is gone afterwards; in place it changes the given tensor.

    Raises ValueError where a name stands in two of the dicts, or two tied names get two tensors;
    RuntimeError with `strict` where names are missing or unexpected.
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        tensors = dict(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        tensors = _merged(parameter_and_buffer_dicts)
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    places = dict(_places(module))
    if strict:
        _check_names(places, tensors)
    replacing = {name: tensor for name, tensor in tensors.items() if name in places}
    if tie_weights:
        replacing = _tied(places, replacing)
    with _replaced(module, places, replacing):
        return module(*arguments, **(kwargs or {}))


def _merged(dicts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = {}
    for mapping in dicts:
        for name, tensor in mapping.items():
            if name in merged:
                raise ValueError(f"{name} appears in multiple dictionaries; behavior of functional "
                                 "call is ambiguous")  # fmt: skip
            merged[name] = tensor
    return merged


def _places(module: Module) -> Iterator[tuple[str, tuple[dict[str, Any], str]]]:
    """By full name, the registry that holds a parameter or buffer, and its name there."""
    for path, part in module.named_modules(remove_duplicate=False):
        for registry in (part._parameters, part._buffers):
            for name, tensor in registry.items():
                if tensor is not None:
                    yield (f"{path}.{name}" if path else name), (registry, name)


def _check_names(places: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    missing, unexpected = [*places.keys() - tensors.keys()], [*tensors.keys() - places.keys()]
    texts = [
        f"{word} key(s): {', '.join(map(repr, sorted(names)))}."
        for word, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if texts:
        raise RuntimeError("Error(s) in reparametrizing:\n\t" + "\n\t".join(texts))


def _tied(places: dict[str, Any], replacing: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same for all names of one tensor."""
    by_tensor: dict[int, list[str]] = {}
    for name, (registry, key) in places.items():
        by_tensor.setdefault(id(registry[key]), []).append(name)
    tied = dict(replacing)
    for names in by_tensor.values():
        values = [replacing[name] for name in names if name in replacing]
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        tied.update(dict.fromkeys(names, values[0]) if values else {})
    return tied


@contextmanager
def _replaced(
    module: Module, places: dict[str, Any], replacing: dict[str, Tensor]
) -> Iterator[None]:
    """Other tensors in the registries. They are written past what tells compiled functions of
    changes, and a trace guards what was there before: afterwards all is as it was."""
    if STATE.mode is not None:
        STATE.mode.follow(module)
    put = dict.__setitem__
    chosen = [places[name] for name in replacing]
    before = [(registry, key, registry[key]) for registry, key in chosen]
    try:
        for name, tensor in replacing.items():
            registry, key = places[name]
            put(registry, key, tensor)
        yield
    finally:
        for registry, key, tensor in before:
            put(registry, key, tensor)


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of models of one class, each stacked along a new first
    dimension; stacked parameters are leaves. Raises RuntimeError for no models, for some in
    training and some not, and for models of several classes."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _leaf([dict(model.named_parameters())[name] for model in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: stack([dict(model.named_buffers())[name] for model in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _leaf(tensors: list[Any]) -> Tensor:
    wanted = {tensor.requires_grad for tensor in tensors}
    if len(wanted) > 1:
        raise RuntimeError(
            "Expected parameters from different models to have the same requires_grad"
        )
    stacked: Tensor = stack([tensor.detach() for tensor in tensors]).requires_grad_(*wanted)
    return stacked


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have every batch norm below use the statistics of the batch always, and keep none."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
