"""`x[...]` and `x[...] = v`, for every kind of index (indices.py says what one means).

An assignment goes the way of reading back: into the view that numbers and slices select, or by a
scatter into that view's elements. Where positions repeat, the last value in row-major order stays.
"""

from __future__ import annotations

import math
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled, record_moved
from frontend.engine.eager.promotion import casted, expanded
from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data, make, make_writable
from frontend.engine.tensors.views import IndexedView, written_back
from frontend.functions import shape as s
from frontend.functions.declarations import public
from frontend.functions.indices import IndexPart, Joined, is_mask, placement, wrapped
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import INTERNED, DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops import indexing, order
from graphc.ops import movement as m

# -- reading -------------------------------------------------------------------------------------


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`: numbers, slices, None and 0-d index tensors give views; other index tensors
    and masks copy. Raises IndexError; TraceError for a mask in a trace, since the result's shape
    depends on data."""
    # What numbers, slices, None and `...` select NumPy shows: no op runs. Written out, without
    # calls, since a loader makes such views for each sample. The rest is `_selected`, errors too.
    kind, array = index.__class__, self._value
    if kind not in _BASIC_KINDS or array.__class__ is not _Array or STATE.watched:
        return _selected(self, index)
    if kind is not int and not _is_basic(index):
        if kind is not tuple or not all(map(_is_basic, index)):
            return _selected(self, index)
        if Ellipsis not in index:
            index = (*index, ...)
    tracked, type = STATE.grad_enabled, self.tensor_type
    recorded = False
    if tracked:
        if self._view is not None:
            self._view.bring_history(self)
        recorded = self._requires_grad
        if recorded and not type.dtype.is_computed:
            return _selected(self, index)
    try:
        # Of one dimension too, where NumPy gives a number for a number.
        shown = array[index, ...] if kind is int else array[index]
    except IndexError:
        return _selected(self, index)
    shape = shown.shape
    result = _new(Tensor)
    result._value = shown
    result.tensor_type = INTERNED.get((type.dtype, shape)) or TensorType(type.dtype, shape)
    result._counter = counter = self._counter
    result._view = view = _new(BasicView)
    view._parent = self
    view._former = self._former
    view.index = index
    view.seen = view.known = counter[0]
    view.tracked = True if tracked else False  # noqa: SIM210 (bool() would be a call)
    if recorded:
        record_moved(view.op, {}, (self,), result)
    return result


_new = object.__new__
_Array = np.ndarray


def _selected(self: Tensor, index: Any) -> Tensor:
    """`getitem` of index tensors and masks, in traces, and where there is an error."""
    kind = index.__class__
    if kind is Tensor and not STATE.watched:
        picked = _picked_plainly(self, index)
        if picked is not None:
            return picked
    if kind is tuple and not STATE.watched:
        picked = _picked_by_several(self, index)
        if picked is not None:
            return picked
    part = IndexPart(self._sizes, index)
    x = part.view(self)
    if not part.advanced:
        return x
    positions = part.positions()
    taken = _taken(x, positions)
    # In a trace a 0-d index is looked up at run time; else it is a number by now.
    if STATE.mode is not None and not any(i.dim() or is_mask(i) for i in part.advanced.values()):
        view = IndexedView(
            x, lambda x: _taken(x, positions),
            lambda x, new: _put(x, positions, new, indexing.index_set), True,
        )  # fmt: skip
        STATE.mode.show(taken, view)
    return taken


_NUMBERS = (int, NoneType)
_BASIC_KINDS = (int, slice, tuple, NoneType, EllipsisType)
_SET_KINDS = (*_BASIC_KINDS, Tensor)


def _is_basic(item: Any) -> bool:
    """Whether NumPy's meaning of a part of an index is PyTorch's, errors aside."""
    kind = item.__class__
    if kind is not slice:
        return kind is int or item is None or item is Ellipsis
    ends = item.start.__class__ in _NUMBERS and item.stop.__class__ in _NUMBERS
    step = item.step
    return ends and (step is None or (step.__class__ is int and step > 0))


_PARTS = {slice: "Slice", NoneType: "Unsqueeze"}
"""By kinds of parts of an index, what PyTorch calls views by them; of others "Select"."""


def _is_whole(part: Any) -> bool:
    return part is Ellipsis or (part.__class__ is slice and part == slice(None))


class BasicIndex:
    """What of an array numbers, slices, None and `...` select, as of an op."""

    __slots__ = ("index",)
    name = "index"

    def __init__(self, index: Any):
        # Of one dimension too, where NumPy gives a number for a number.
        self.index = (index, ...) if index.__class__ is int or index is None else index

    @property
    def node_name(self) -> str:
        """As PyTorch, which goes through an index from the left, calls what the last part makes."""
        if self.index.__class__ is slice:
            return "SliceBackward0"
        parts = () if self.index is Ellipsis else self.index
        kinds = [_PARTS.get(part.__class__, "Select") for part in parts if not _is_whole(part)]
        return f"{kinds[-1] if kinds else 'Alias'}Backward0"

    def compute(self, arrays: Any, attributes: Any) -> tuple[Any]:
        return (arrays[0][self.index],)

    def vjp(self, gradient: Any, output: Any, x: Any) -> tuple[Any]:
        start, size, step = self._slice(x)
        gradient = m.reshape(gradient, shape=size)
        assert m.slice_.vjp is not None
        (whole,) = m.slice_.vjp(gradient, None, x, start=start, size=size, step=step)
        return (whole,)

    def sliced(self, x: Any, gradient: Any) -> tuple[Any, Any]:
        """For the sweep: where the slice begins, None for one with steps; its gradient."""
        start, size, step = self._slice(x)
        if any(by != 1 for by in step):
            return None, gradient
        return start, m.reshape(gradient, shape=size)

    def _slice(self, x: Any) -> tuple[tuple[int, ...], ...]:
        part = IndexPart(x.tensor_type.shape, self.index)
        return tuple(part.start), tuple(part.size), tuple(part.step)


class BasicView(IndexedView):
    """A view by numbers, slices, None and `...`, as NumPy takes them. What it is made of, views by
    ops, is looked up when a history needs it."""

    __slots__ = ("index",)
    index: Any
    attributes: dict[str, Any] = {}

    @property
    def op(self) -> Any:
        return BasicIndex(self.index)

    def take(self, parent: Any) -> Tensor:
        return IndexPart(parent._sizes, self.index).view(parent)

    def put(self, parent: Any, new: Any) -> Tensor:
        shown = self.take(parent)
        while shown is not parent:
            new, shown = written_back(shown._view, new), shown._view.parent
        return new


def _picked_plainly(x: Tensor, index: Tensor) -> Tensor | None:
    """What one tensor of positions, or a mask over the first dimensions, picks in eager mode; None
    for indices of other kinds, and where PyTorch has an error. NumPy copies what nothing records,
    so that no kernel is looked up for each count of elements."""
    array, picks = x._value, index._value
    if array.__class__ is not np.ndarray or picks.__class__ is not np.ndarray or not picks.ndim:
        return None
    shape, kind = x.tensor_type.shape, index.tensor_type.dtype
    if kind is DType.bool:
        if shape[: picks.ndim] != picks.shape:
            return None
        index = from_data(np.flatnonzero(picks), copy=False)
        if picks.ndim > 1:
            x = s.reshape(x, picks.size, *shape[picks.ndim :])
    elif not shape or kind not in _POSITIONS:
        return None
    if x.requires_grad and STATE.grad_enabled:
        if kind is not DType.bool:
            index = wrapped(index, shape[0], 0)
        return CONTEXT.apply(indexing.take, (x, index), {"axis": 0})[0]
    try:
        value = np.take(x._value, index._value, 0)
    except IndexError:
        return None
    return make(value, TensorType(x.tensor_type.dtype, value.shape))


_POSITIONS = (DType.i64, DType.i32)


def _picked_by_several(x: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """What tensors of positions, each along one dimension from the first on, pick together in eager
    mode; None for other indices, and where PyTorch has an error."""
    array, shape = x._value, x.tensor_type.shape
    if array.__class__ is not np.ndarray or len(index) > len(shape):
        return None
    picks = []
    for item in index:
        if item.__class__ is not Tensor or item.tensor_type.dtype not in _POSITIONS:
            return None
        if item._value.__class__ is not np.ndarray or not item._value.ndim:
            return None
        picks.append(item._value)
    dtype = x.tensor_type.dtype
    recorded = x.requires_grad and STATE.grad_enabled
    if recorded and not dtype.is_computed:
        return None
    try:
        value = np.ascontiguousarray(array[tuple(picks)])
    except IndexError:
        return None
    result = make(value, TensorType(dtype, value.shape))
    if recorded:
        # All lie within: to wrap is to count negative ones from the end.
        positions = np.asarray(np.ravel_multi_index(picks, shape[: len(picks)], mode="wrap"))
        at = make(positions, TensorType(DType.i64, positions.shape))
        types = (x.tensor_type, at.tensor_type)
        saves = Saves(types, (result.tensor_type,), ((False, True), (False,)))
        record(_SEVERAL, {"dimensions": len(picks)}, (x, at), (result,), saves)
    return result


class PickedBySeveral:
    """What positions of several dimensions, taken for one, pick together, as of an op."""

    name = "take"

    def vjp(self, gradient: Any, output: Any, x: Any, at: Any, *, dimensions: int) -> Any:
        lead, rest = x.shape[:dimensions], x.shape[dimensions:]

        def by_x() -> Any:
            zeros = broadcast_to(lift(0, gradient), (math.prod(lead), *rest))
            whole = indexing.index_add(zeros, at, gradient, axis=0)
            return m.reshape(whole, shape=x.shape)

        return by_x, None


_SEVERAL = PickedBySeveral()


def _taken(x: Tensor, positions: dict[int, Tensor]) -> Tensor:
    joined = Joined(x, positions)
    return CONTEXT.apply(indexing.take, (joined.x, joined.position), {"axis": joined.at})[0]


# -- writing -------------------------------------------------------------------------------------


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`, in place. `value` is a number, or a tensor that broadcasts to what the
    index selects; where positions repeat, the last value in row-major order stays. Raises
    IndexError, RuntimeError where `value` does not fit, TypeError where it is neither."""
    if index.__class__ in _SET_KINDS and not STATE.watched and _set_plainly(self, index, value):
        return
    value = value if isinstance(value, Tensor) else _number(self, value)
    if index is False:
        return  # names no element
    part = IndexPart(self._sizes, index)
    value = _same_dtype(self, value, part) if part.advanced else casted(value, self.dtype)
    if _is_plain(self, value):
        _write_array(self, part, value)
        return
    view = self if part.is_whole else part.view(self)
    if part.advanced:
        view._assign(_placed(view, part, value))
        return
    new = _spread(value, view._sizes, indexed=False)
    if part.is_whole:
        # What is overwritten has a gradient: of zeros, as in PyTorch.
        everywhere = filled(True, DType.bool, new._sizes)
        new = CONTEXT.apply(e.where, (everywhere, new, view), {})[0]
    view._assign(new)


@public(method=True, in_place="torch")
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values`, broadcast, written at index tensors (one per dimension, None
    for all of it), or added there. Where positions repeat, values add up or the last stays, in
    row-major order."""
    items = tuple(slice(None) if item is None else _of_positions(item) for item in indices)
    part = IndexPart(input._sizes, items)
    values = _same_dtype(input, values, part)
    if accumulate and input.dtype is DType.bool:  # a sum of bools is whether one of them holds
        held, more = casted(input, DType.i32), casted(values, DType.i32)
        return casted(_placed(held, part, more, add=True), DType.bool)
    return _placed(input, part, values, add=accumulate)


def _of_positions(item: Tensor) -> Tensor:
    """A 0-d position as one of one element: by itself it would index as a number does."""
    is_number = item.dim() == 0 and item.dtype is not DType.bool
    return s.reshape(item, (1,)) if is_number else item


def _placed(view: Tensor, part: IndexPart, value: Tensor, add: bool = False) -> Tensor:
    """The new value of `view` with `value` where the index tensors of `part` point; `add`: with
    the sum of what is there and `value`."""
    if len(part.advanced) == 1:
        ((axis, item),) = part.advanced.items()
        if is_mask(item) and (STATE.mode is not None or value.numel() == 1):
            new, held = _masked(view, item, axis, value)
            if add:
                new = CONTEXT.apply(e.add, (view, new), {})[0]
            return CONTEXT.apply(e.where, (held, new, view), {})[0]
    return _put(view, part.positions(), value, indexing.index_add if add else indexing.index_set)


def _put(x: Tensor, indices: dict[int, Tensor], value: Tensor, op: Any) -> Tensor:
    joined = Joined(x, indices)
    new = _spread(value, joined.shape)
    replaced = CONTEXT.apply(op, (joined.x, joined.position, new), {"axis": joined.at})[0]
    return joined.undone(replaced)


def _masked(view: Tensor, mask: Tensor, axis: int, value: Tensor) -> tuple[Tensor, Tensor]:
    """For each element of `view` what `value` has for it, and whether a mask over the dimensions
    from `axis` on holds there."""
    shape = view._sizes
    sizes = mask._sizes or (1,)
    behind = len(shape) - axis - len(sizes)
    held = s.reshape(mask, *(1,) * axis, *sizes, *(1,) * behind)
    have = value._sizes
    extra = len(have) - (axis + 1 + behind)
    if extra > 0 and have[:extra] == (1,) * extra:
        have = have[extra:]
        value = s.reshape(value, have)
    at = len(have) - behind - 1  # the dimension of `value` that counts the masked elements
    if at < 0:
        new = _spread(value, shape)
    elif have[at] == 1 and at <= axis:
        new = _spread(s.reshape(value, *have[:at], *(1,) * len(sizes), *have[at + 1 :]), shape)
    else:
        count = have[at]
        message = (
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result: the mask {list(mask.shape)} does not hold {count} times"
        )
        new, fits = in_turn(shape, mask, axis, value, message)
        held = CONTEXT.apply(e.logical_and, s.broadcast_tensors(held, fits), {})[0]
    return new, expanded(held, shape)


def in_turn(
    shape: tuple[int, ...], mask: Tensor, axis: int, value: Tensor, message: str, *,
    at_most: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """For each element of `shape` the value that goes there if the mask, over the dimensions from
    `axis` on, holds: the n-th where it holds for the n-th time. And whether there are as many
    values as places (`at_most`: no fewer), which is checked when it runs, with `message`."""
    behind = shape[axis + max(mask.dim(), 1) :]
    count = value._sizes[value.dim() - len(behind) - 1]
    flat = casted(s.reshape(mask, -1), DType.i64)
    places, values = flat.sum(), filled(count, DType.i64, ())
    fits = CONTEXT.apply(e.le if at_most else e.eq, (places, values), {})[0]
    fits = CONTEXT.apply(indexing.check_all, (fits,), {"message": message})[0]
    if not count or not flat.numel():
        none = value.sum() if value.dtype.is_float else filled(0, value.dtype, ())
        return expanded(none, shape), fits
    seen = CONTEXT.apply(order.cumsum, (flat,), {"axis": 0})[0]
    # Before the first place there is no value: any will do, it is not used.
    turn = (seen - 1).clamp(0, count - 1)
    spread = _spread(value, (*shape[:axis], count, *behind))
    picked = CONTEXT.apply(indexing.take, (spread, turn), {"axis": axis})[0]
    return s.reshape(picked, *shape), fits


def _number(target: Tensor, value: Any) -> Tensor:
    complex_fits = isinstance(value, complex) and target.is_complex()
    if not isinstance(value, bool | int | float | np.integer) and not complex_fits:
        kind = type(value)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(f"can't assign a {module}{kind.__name__} to a {target.type()}")
    return filled(fitting(value, target.dtype, computed=True), target.dtype, ())


def _same_dtype(target: Tensor, value: Tensor, part: IndexPart) -> Tensor:
    """A value for an assignment by index tensors: PyTorch casts it only where it is one number for
    a mask."""
    if value.dtype is target.dtype:
        return value
    if value.numel() == 1 and all(map(is_mask, part.advanced.values())):
        return casted(value, target.dtype)
    raise DTypeError(
        "Index put requires the source and destination dtypes match, got "
        f"{SCALAR_NAMES[target.dtype]} for the destination and {SCALAR_NAMES[value.dtype]} for "
        "the source.",
        location=user_location(),
    )


def _spread(value: Tensor, shape: tuple[int, ...], *, indexed: bool = True) -> Tensor:
    """`value` broadcast to `shape`, without leading dimensions of size 1 that are too many.
    `indexed` says in which of PyTorch's words to refuse."""
    have = value._sizes
    if have == shape:
        return value
    while len(have) > len(shape) and have[0] == 1:
        have = have[1:]
    tail = shape[len(shape) - len(have) :]
    fits = len(have) <= len(shape) and all(a in (1, b) for a, b in zip(have, tail))
    if not fits and (indexed or len(have) > len(shape)):
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}",
            location=user_location(),
        )
    if have != value._sizes:
        value = CONTEXT.apply(m.reshape, (value,), {"shape": have})[0]
    return s.expand(value, shape)


# -- writing where nothing is recorded -----------------------------------------------------------


def _set_plainly(self: Tensor, index: Any, value: Any) -> bool:
    """Write by numbers, slices, None and `...` as NumPy does, a number or a tensor of the dtype, or
    a number by a mask, where nothing is recorded. False: nothing is written."""
    target, kind = self._value, self.tensor_type.dtype
    if target.__class__ is not np.ndarray or not target.flags.writeable or self._frozen is not None:
        return False
    recorded = self._requires_grad
    if isinstance(value, Tensor):
        if value.tensor_type.dtype is not kind or value._value.__class__ is not np.ndarray:
            return False
        if value._view is not None:
            value._view.bring_history(value)
        recorded |= value._requires_grad
        new: Any = value._value
    elif _is_taken_as_it_is(value, kind):
        new = value
    else:
        return False
    if STATE.grad_enabled and (recorded or self._view is not None):
        return False
    if index.__class__ is Tensor:
        places = index._value
        if index.tensor_type.dtype is not DType.bool or new is not value:
            return False
        if places.__class__ is not np.ndarray or places.shape != target.shape[: places.ndim or 1]:
            return False
    else:
        index = index if index.__class__ is tuple else (index,)
        if not all(map(_is_basic, index)):
            return False
        places = index if Ellipsis in index else (*index, ...)
    written = True
    try:
        target[places] = new
    except (IndexError, ValueError):
        written = False
    finally:  # an interrupt that comes behind the write finds it counted
        if written:
            count_write(self._counter)
    return written


def _is_taken_as_it_is(number: Any, dtype: DType) -> bool:
    """Whether NumPy rounds a number to a dtype as it is meant, and has nothing to warn of."""
    if dtype.is_storage or dtype.is_complex or dtype is DType.bool:
        return False
    if dtype.is_float:
        return number.__class__ in (int, float) and -1e30 < number < 1e30
    return number.__class__ is int and -(2**31) <= number < 2**31


def _is_plain(self: Tensor, value: Tensor) -> bool:
    """Whether an assignment can be left to NumPy: nothing is recorded or traced."""
    if STATE.mode is not None or self.is_meta or value.is_meta:
        return False
    return not (STATE.grad_enabled and (self.requires_grad or value.requires_grad))


def _write_array(self: Tensor, part: IndexPart, value: Tensor) -> None:
    target = self._array("index assignment")
    if self._view is not None and STATE.grad_enabled:
        self._view.check_writable(False)
    target = target[(*part.basic, ...)]
    if not target.flags.writeable:
        make_writable(target)
    try:
        if part.advanced:
            _put_array(target, part, value)
        else:
            whole = _spread(value, tuple(part.shape), indexed=False) if value.dim() else value
            target[...] = whole._array("index assignment")
    finally:  # an interrupt that comes behind the write finds it counted
        count_write(self._counter)


def _put_array(view: np.ndarray, part: IndexPart, value: Tensor) -> None:
    """`value` into the places of `view` that index tensors point at."""
    masks = [item for item in part.advanced.values() if is_mask(item) and item.dim()]
    if len(part.advanced) == len(masks) == 1 and value.numel() == 1:
        lead = (slice(None),) * next(iter(part.advanced))
        view[(*lead, masks[0]._value)] = value._value.reshape(())
        return
    arrays = {axis: index._value for axis, index in sorted(part.positions().items())}
    _, _, shape = placement(view.shape, {axis: array.shape for axis, array in arrays.items()})
    if any(array.ndim > 1 for array in arrays.values()):
        # NumPy goes through several index arrays in an order of its own, unless they lie alike.
        alike = np.broadcast_arrays(*arrays.values())
        arrays = dict(zip(arrays, map(np.ascontiguousarray, alike)))
    index = tuple(arrays.get(axis, slice(None)) for axis in range(max(arrays) + 1))
    view[index] = _spread(value, shape)._value
