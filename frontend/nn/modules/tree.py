"""Walking a tree of Modules, and finding its parts by dotted path. Module is built on this: what is
met on the way is typed Any here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.parameter import Parameter


class Tree:
    """Members of Module that walk and look up."""

    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]

        def _get_name(self) -> str: ...

    # -- walking -----------------------------------------------------------------------------

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Dotted name and value of what `get_members_fn(module)` lists, over this module or its
        tree; None is left out, and a value met before too (where `remove_duplicate`)."""
        seen: set[int] = set()
        walk: Any = [(prefix, self)]
        if recurse:
            walk = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in walk:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Dotted name and parameter, each parameter once."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once: what an optimizer takes."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Dotted name and buffer, each buffer once."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def named_children(self) -> Iterator[tuple[str, Tree]]:
        """Name and module of the direct children, each module once."""
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Tree]:
        for _, child in self.named_children():
            yield child

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tree]]:
        """Dotted path and module, this one first, parents before children. Modules in `memo` are
        left out; those met are added to it (where `remove_duplicate`)."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Tree]:
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every module, children before their parent (weight initialisation)."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- paths -------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Tree:
        """The module at a dotted path ("" is this one). Raises AttributeError."""
        module = self
        for name in target.split(".") if target else ():
            module = _module_at(module, name)
        return module

    def set_submodule(self, target: str, module: Tree, strict: bool = False) -> None:
        """Put `module` at a dotted path, in place of the module there. The name may be new unless
        `strict`; the modules before it have to be there.

        Raises ValueError for an empty path or no module, AttributeError for a part that is missing
        or is no module.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict or hasattr(owner, name):
            _module_at(owner, name)
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        parameter = _part(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        buffer = _part(owner, name)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer


def _part(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def _module_at(module: Any, name: str) -> Any:
    part = _part(module, name)
    if not isinstance(part, Tree):
        raise AttributeError(f"`{name}` is not an nn.Module")
    return part
