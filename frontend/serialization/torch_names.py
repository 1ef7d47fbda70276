"""The names a file of PyTorch's may use, and what they stand for here.

in : what pickles name: classes, dtypes, functions of PyTorch, NumPy and Python
out: `TABLE`: plain values, and `Call`s of small functions that check all their arguments
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import Any

from frontend.engine.tensors.dtypes import _NAMES, Size, device
from frontend.engine.tensors.tensor import Tensor
from frontend.serialization import numpy_names, sparse_tensors, storages
from frontend.serialization.budget import Budget
from frontend.serialization.errors import Refused
from frontend.serialization.pickle_machine import Call, put_items, put_members
from frontend.serialization.storages import ElementType
from frontend.serialization.structure import is_namespace
from graphc.ir.types import DType

STORAGES = {
    "FloatStorage": DType.f32, "DoubleStorage": DType.f64, "HalfStorage": DType.f16,
    "BFloat16Storage": DType.bf16, "LongStorage": DType.i64, "IntStorage": DType.i32,
    "ShortStorage": DType.i16, "CharStorage": DType.i8, "ByteStorage": DType.u8,
    "BoolStorage": DType.bool, "ComplexFloatStorage": DType.c64,
    "ComplexDoubleStorage": DType.c128,
}  # fmt: skip
_NOT_HERE = {
    "complex32", "float4_e2m1fn_x2", "quint8", "qint8", "qint32", "quint4x2", "quint2x4", "bits8",
    "bits16",
}  # fmt: skip
_STORAGES_NOT_HERE = {
    "QInt8Storage": "qint8", "QUInt8Storage": "quint8", "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
}  # fmt: skip


_KINDS_NOT_HERE = {
    "_rebuild_sparse_csr_tensor": "sparse", "_rebuild_qtensor": "quantized",
    "_rebuild_nested_tensor": "nested",
}  # fmt: skip
MISSING = {
    **{f"torch.{name}": name for name in _NOT_HERE},
    **{f"torch.{storage}": name for storage, name in _STORAGES_NOT_HERE.items()},
    **{f"torch._utils.{function}": kind for function, kind in _KINDS_NOT_HERE.items()},
}


class Table(dict[str, Any]):
    """Names to what they stand for. Looking up an element type that is not here raises Refused,
    which names it."""

    def __contains__(self, name: object) -> bool:
        if name in MISSING:
            raise Refused(f"it holds {MISSING[str(name)]} tensors, which are not supported")
        return super().__contains__(name)


def _size(sizes: Any = ()) -> Size:
    if not isinstance(sizes, tuple | list) or any(type(n) is not int for n in sizes):
        raise Refused("a torch.Size of something else than numbers")
    return Size(sizes)


def _device(kind: Any, index: Any = None) -> device:
    if type(kind) is not str or not (index is None or (type(index) is int and index < 1 << 16)):
        raise Refused("a torch.device of something else than a name and a number")
    return device(kind, index)


def _pairs(kind: Any) -> Call:
    def build(budget: Budget, items: Any = ()) -> Any:
        if type(items) not in (list, tuple) or any(len(pair) != 2 for pair in items):
            raise Refused(f"a {kind.__name__} of something else than pairs")
        return put_items(kind(), [part for pair in items for part in pair], budget)

    return Call(kind.__name__, build, budgeted=True)


def _counter(budget: Budget, counts: Any = None) -> Counter[Any]:
    if counts is not None and type(counts) is not dict:
        raise Refused("a Counter of something else than a dict")
    items = [part for pair in (counts or {}).items() for part in pair]
    result: Counter[Any] = put_items(Counter(), items, budget)
    return result


def _namespace() -> Any:
    import argparse  # hardly any file names it

    return argparse.Namespace()


def _default(factory: Any = None, *arguments: Any) -> defaultdict[Any, Any]:
    if factory is not None and (type(factory) is not Call or factory.name not in _FACTORIES):
        raise Refused("a defaultdict that makes its values by something else than a plain type")
    if arguments:
        raise Refused("a defaultdict with more arguments than its type of values")
    return defaultdict(None if factory is None else _FACTORIES[factory.name])


def _items(kind: Any) -> Call:
    def build(budget: Budget, items: Any = ()) -> Any:
        if type(items) not in (list, tuple, set, frozenset):
            raise Refused(f"a {kind.__name__} of a {type(items).__name__}")
        return kind(items if kind in (list, tuple) else put_members(set(), items, budget))

    return Call(kind.__name__, build, budgeted=True)


def _numbers(kind: Any, *types: type) -> Call:
    def build(*items: Any) -> Any:
        if len(items) > 3 or any(type(item) not in types for item in items):
            raise Refused(f"a {kind.__name__} of something else than numbers")
        return kind(*items)

    return Call(kind.__name__, build)


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Refused("bytes that are written in a strange way")
    return text.encode("latin-1")


def _bytearray(data: Any = b"", *encoding: Any) -> bytearray:
    return bytearray(_bytes(data, *encoding) if type(data) is str else _plain(data))


def _plain(data: Any) -> bytes:
    if type(data) not in (bytes, bytearray):
        raise Refused("bytes that are written in a strange way")
    return bytes(data)


def _no_constructor(*_: Any) -> Any:
    raise Refused("it makes a tensor without its storage")


TENSOR = Call("Tensor", _no_constructor)
PARAMETER = Call("Parameter", _no_constructor)


def _from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """PyTorch's `_rebuild_from_type_v2`: a tensor with attributes of a user."""
    known = any(function is call for call in _REBUILD)
    if not known or not (kind is TENSOR or kind is PARAMETER) or type(arguments) is not tuple:
        raise Refused("a tensor of a class of its own")
    return storages.with_attributes(function.function(*arguments), state)


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    return storages.with_attributes(storages.parameter(data, requires_grad, hooks), state)


_REBUILD = (
    Call("_rebuild_tensor", storages.tensor), Call("_rebuild_tensor_v2", storages.tensor),
    Call("_rebuild_tensor_v3", storages.typed_tensor),
    Call("_rebuild_meta_tensor_no_storage", storages.meta_tensor),
    Call("_rebuild_parameter", storages.parameter),
    Call("_rebuild_parameter_with_state", _parameter_with_state),
    Call("_rebuild_sparse_tensor", sparse_tensors.rebuilt),
)  # fmt: skip
_BUILT_IN = (
    _items(set), _items(frozenset), _items(list), _items(tuple),
    _pairs(dict),
    _numbers(complex, int, float), _numbers(int, int, float), _numbers(float, int, float),
    _numbers(bool, int, bool), _numbers(range, int), _numbers(slice, int, type(None)),
    Call("bytes", lambda *data: _plain(*data) if data else b""), Call("bytearray", _bytearray),
    Call("str", lambda: ""),
)  # fmt: skip
_FACTORIES = {
    kind.__name__: kind
    for kind in (set, frozenset, list, tuple, dict, complex, int, float, bool, bytes, str)
}
_PYTHON_2 = {"xrange": "range", "long": "int", "unicode": "str"}


def _table() -> Table:
    built_in = {call.name: call for call in _BUILT_IN}
    built_in |= {old: built_in[new] for old, new in _PYTHON_2.items()}
    table = Table({f"torch.{name}": dtype for name, dtype in _NAMES.items()})
    table |= {f"torch.{name}": ElementType(dtype) for name, dtype in STORAGES.items()}
    table |= {f"torch._utils.{call.name}": call for call in _REBUILD}
    for module in ("builtins", "__builtin__"):
        table |= {f"{module}.{name}": call for name, call in built_in.items()}
    table |= {
        "torch.storage.UntypedStorage": ElementType(None),
        "torch.Size": Call("Size", _size),
        "torch.device": Call("device", _device),
        "torch.serialization._get_layout": Call("_get_layout", sparse_tensors.layout_of),
        "torch.Tensor": TENSOR,
        "torch.nn.parameter.Parameter": PARAMETER,
        "torch._tensor._rebuild_from_type_v2": Call("_rebuild_from_type_v2", _from_type),
        "collections.OrderedDict": _pairs(OrderedDict),
        "collections.Counter": Call("Counter", _counter, budgeted=True),
        "collections.defaultdict": Call("defaultdict", _default),
        "_codecs.encode": Call("encode", _bytes),
        "argparse.Namespace": Call("Namespace", _namespace, of_class=True),
    }
    return Table(table | numpy_names.TABLE)


TABLE = _table()


def set_state(target: Any, state: Any) -> None:
    """What BUILD does: versions of modules for the OrderedDict of a state dict, the arguments of a
    script, the content of a NumPy array, the byte order of a NumPy dtype. Raises Refused for all
    else."""
    if type(target) is OrderedDict:
        if type(state) is not dict or set(state) - {"_metadata"}:
            raise Refused("an OrderedDict with attributes other than _metadata")
        if not isinstance(state.get("_metadata", {}), dict):
            raise Refused("an OrderedDict whose _metadata is no dict")
        vars(target).update(state)
    elif is_namespace(target):
        if type(state) is not dict or any(type(name) is not str for name in state):
            raise Refused("a script's arguments without names")
        vars(target).update(state)
    else:
        numpy_names.set_state(target, state)
