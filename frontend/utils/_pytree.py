"""`torch.utils._pytree`: nests of dicts, lists and tuples, and of registered containers, taken
apart into leaves and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "Context", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec",
    "is_namedtuple_class", "is_namedtuple_instance", "is_structseq_instance", "keystr",
    "register_pytree_node", "tree_all",
    "tree_all_only", "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path",
    "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_with_path", "tree_structure", "tree_unflatten",
]  # fmt: skip

Context = Any
PyTree = Any


class NodeDef(NamedTuple):
    """How a type of container is taken apart: children and what else it has; and put together."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None = None


@dataclass(frozen=True)
class SequenceKey:
    """The way to an item of a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(frozen=True)
class MappingKey:
    """The way to a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass
class TreeSpec:
    """A nest without its leaves. `type` is None for a leaf itself."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return sum(child.num_leaves for child in self.children_specs) if self.type else 1

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The nest with these leaves. Raises ValueError for too many or too few."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items"
            )
        return self._filled(iter(values))

    def _filled(self, leaves: Any) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._filled(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def _named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[Any], Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values))


def _keyed(values: Iterable[Any]) -> list[Any]:
    return [(SequenceKey(index), value) for index, value in enumerate(values)]


def _list_flatten(d: Iterable[Any]) -> tuple[list[Any], Any]:
    return list(d), None


def _list_flatten_with_keys(d: Iterable[Any]) -> tuple[list[Any], Any]:
    return _keyed(d), None


def _list_unflatten(values: Iterable[Any], context: Any) -> list[Any]:
    return list(values)


SUPPORTED_NODES: dict[Any, NodeDef] = {
    tuple: NodeDef(tuple, _list_flatten, lambda v, _: tuple(v)),
    list: NodeDef(list, _list_flatten, _list_unflatten),
    dict: NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    OrderedDict: NodeDef(
        OrderedDict, _dict_flatten, lambda v, keys: OrderedDict(zip(keys, v)),
        _dict_flatten_with_keys,
    ),
    defaultdict: NodeDef(
        defaultdict, lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda v, context: defaultdict(context[0], zip(context[1], v)),
    ),
    deque: NodeDef(deque, lambda x: (list(x), x.maxlen), lambda v, maxlen: deque(v, maxlen)),
    tuple[Any, ...]: NodeDef(tuple, lambda x: (list(x), type(x)), lambda v, kind: kind(*v)),
}  # fmt: skip
"""The containers that are nodes, by type; named tuples stand under `tuple[Any, ...]`."""


def register_pytree_node(
    cls: type[Any], flatten_fn: Any, unflatten_fn: Any, *, serialized_type_name: str | None = None,
    to_dumpable_context: Any = None, from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None, **others: Any,
) -> None:  # fmt: skip
    """Make instances of `cls` nodes: `flatten_fn(x)` gives children and context, `unflatten_fn`
    takes them. Raises ValueError for a class that is registered."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    return tuple[Any, ...] if _named(kind) else None


def _is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) is None


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the rest."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    kind = None if is_leaf is not None and is_leaf(tree) else _get_node_type(tree)
    if kind is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): Expected a TreeSpec, got {treespec!r}")
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Any = None) -> Iterable[Any]:
    """The leaves in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: Any = None) -> TreeSpec:
    """The nest without its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """The nest of `func(leaf, …)`; the `rests` are nests of the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_parts(rest, spec) for rest in rests]
    return spec.unflatten(func(*each) for each in zip(leaves, *others))


def _parts(tree: Any, spec: TreeSpec) -> list[Any]:
    """The parts of a nest where `spec` has leaves. Raises ValueError where it is another nest."""
    if spec.type is None:
        return [tree]
    children = (
        SUPPORTED_NODES[spec.type].flatten_fn(tree)[0]
        if _get_node_type(tree) == spec.type
        else None
    )
    if children is None or len(children) != spec.num_children:
        raise ValueError(f"Node type mismatch: expected {spec.type}, but got {type(tree)}.")
    return [
        part for child, below in zip(children, spec.children_specs) for part in _parts(child, below)
    ]


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call `func` on the leaves; the nest as it is."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: Any, /, func: Any = None, tree: Any = None, is_leaf: Any = None) -> Any:
    """`tree_map` for the leaves of a type, of several, or that a function is true of. Without a
    nest, a decorator of `func` as PyTorch's `map_only`."""
    fits = kind if callable(kind) and not isinstance(kind, type) else lambda x: isinstance(x, kind)
    return tree_map(lambda leaf: func(leaf) if fits(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether `pred` holds of every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether `pred` holds of a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None
) -> bool:
    """Whether `pred` holds of every leaf of a type."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(
    kind: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None
) -> bool:
    """Whether `pred` holds of a leaf of a type."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, kind))


def tree_is_leaf(tree: Any, is_leaf: Any = None) -> bool:
    """Whether it is no container."""
    return _is_leaf(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Any = None) -> list[Any]:
    """Pairs of the way to a leaf, a tuple of keys, and the leaf."""
    return list(_with_paths((), tree, is_leaf))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(cls, type) and _named(cls)


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is a named tuple."""
    return _named(type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether it is a tuple of one of C's classes with named fields, as `time.localtime()` is."""
    kind = type(obj)
    return issubclass(kind, tuple) and isinstance(getattr(kind, "n_sequence_fields", None), int)


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """Pairs of the way to a leaf, a tuple of keys, and the leaf; and the rest."""
    return list(_with_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def _with_paths(path: tuple[Any, ...], tree: Any, is_leaf: Any) -> Iterable[Any]:
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    keyed = node.flatten_with_keys_fn or (lambda x: (_keyed(node.flatten_fn(x)[0]), None))
    for key, child in keyed(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None
) -> Any:
    """`tree_map` of `func(path, leaf, …)`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_parts(rest, spec) for rest in rests]
    return spec.unflatten(func(path, *each) for (path, *each) in (
        (path, leaf, *rest) for (path, leaf), *rest in zip(pairs, *others)
    ))  # fmt: skip


def keystr(path: Iterable[Any]) -> str:
    """A way as text."""
    return "".join(map(str, path))
