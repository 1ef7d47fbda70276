"""Lists and dicts that the arguments of nodes are made of: changing one would go past the graph's
record of who uses what, so it raises."""

from __future__ import annotations

from typing import Any, NoReturn

_HINT = (
    "object does not support mutation. If you are attempting to modify the kwargs or args of a "
    "torch.fx.Node object, instead create a new copy of it and assign the copy to the node: "
    "new_args = ... # copy and mutate args; node.args = new_args"
)


def _refusing(base: type, names: str) -> dict[str, Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"'{type(self).__name__}' {_HINT}")

    return {name: refuse for name in names.split()}


class _List(list[Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class _Dict(dict[Any, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


immutable_list: Any = type("immutable_list", (_List,), _refusing(
    list, "append clear extend insert pop remove reverse sort __delitem__ __iadd__ __imul__ "
    "__setitem__",
))  # fmt: skip
immutable_dict: Any = type("immutable_dict", (_Dict,), _refusing(
    dict, "clear pop popitem setdefault update __delitem__ __ior__ __setitem__",
))  # fmt: skip
for _kind in (immutable_list, immutable_dict):
    _kind.__module__ = __name__
