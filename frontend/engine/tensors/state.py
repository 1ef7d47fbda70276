"""The thread-local state PyTorch documents: grad mode, default dtype, and the mode under way.

This is all that the frontend keeps hidden, and a test holds the list; everything else travels as an
argument, or stands in an object that the user has.

Of a thread:
- `engine.tensors.state.STATE`: below
- `engine.eager.dispatch.QUIET`: NumPy's error state, switched off
- `overrides.protocol.OVERRIDING`: whether types are asked for `__torch_function__`, and modes
- `export.capture.EXPORTING`: whether it traces for an export
- `onnx.exporting.export.WRITING`: whether that is to ONNX

Of the process, since PyTorch has it so:
- `engine.tensors.generator.default_generator`: the stream of `manual_seed`
- `engine.tensors.printing._current`: `set_printoptions`
- `engine.tensors.threads.THREADS`: `set_num_threads`
- `nn.modules.global_hooks.GLOBAL`: hooks of all Modules
- `nn.modules.global_hooks.PARAMETER_HOOKS`: of registering parameters,
- `nn.modules.global_hooks.BUFFER_HOOKS`: buffers
- `nn.modules.global_hooks.MODULE_HOOKS`: and submodules
- `optim.optimizer._GLOBAL_PRE`: hooks of all optimizers, before a step
- `optim.optimizer._GLOBAL_POST`: and after it
- `distributions.distribution.Distribution`: `set_default_validate_args`
- `distributions.kl.registry._KL_REGISTRY`: `register_kl`
- `distributions.constraint_registry.biject_to`: its `register`
- `distributions.constraint_registry.transform_to`: and its
- `engine.compiled.stance.STANCE`: `set_stance`
- `engine.sizes.size_rules._MARKS`: `mark_dynamic`, `mark_static`
- `devices.environment._deterministic`: switches that change nothing here
- `devices.environment._matmul_precision`: the same
- `backends.cudnn`: the same
- `overrides.interception._ORIGINALS`: public functions as they were before they came to ask
- `fx._symbolic_trace._WRAPPED`: `fx.wrap`
- `fx.node._side_effectful_functions`: `fx.has_side_effect`
- `onnx.importing.declarations._TABLE`: operators of ONNX, filled as their files are imported
- `onnx.exporting.declarations._RULES`: and how ops are written as such
- `hub._own_dir`: `hub.set_dir`
- `serialization.allowed._ALLOWED`: `add_safe_globals`
- `sparse.tensor.RULES`: what functions do with sparse tensors, filled as its file is imported
- `library.operators.OPERATORS`: what `torch.library` defined
- `ops._NAMESPACES`: and where it is looked up
- `utils._pytree.SUPPORTED_NODES`: `register_pytree_node`
- `nn.utils.parametrize._CACHE`: values inside of `cached`
- `utils.data.worker._info`: of a worker process, which one it is
- `distributed.world.HERE`: of a rank, the other ones
- `distributed.deterministic.SETTING`: `set_deterministic`

Whether compiled functions still hold:
- `engine.tensors.epoch.EPOCH`: raised by whoever writes what they rely on
- `engine.tensors.epoch.TRACE_LOCK`: held by the thread that traces

What modules said as they were imported:
- `functions.declarations.DECLARED`: public functions

Numbers given out:
- `engine.tensors.hooks.RemovableHandle`: of hooks
- `engine.eager.tape.next_sequence`: of tape nodes
- `fx.graph_module._NUMBERS`: of files of written code
- `distributed.rendezvous._INCARNATIONS`: of meetings at a store

Caches, which change no result:
- `engine.tensors.state.PREPARED`: of ops (filled by `engine.eager.dispatch`)
- `engine.eager.dispatch._FILLED`: of constants
- `functions.declarations._SPELLED`: of the names of what a module declares
- `functions.declarations.late_function`: of functions of modules that are imported late
- `engine.compiled.packed_copies.PACKED`: packed copies of weights, and their limit
  (`set_packing_limit`)
- `engine.eager.kernels.native_ops._MEMO`: of kernels of single ops at their sizes
- `engine.eager.kernels.gradient_worker._asked`: gradients that a worker is to compile ahead
- `engine.eager.gradients.gradient_programs._rule`: of these rules as ops
- `engine.eager.gradients.gradient_programs._spread`: of numbers spread to a shape
- `engine.eager.kernels.kernel_families._FAMILIES`: of kernels of single ops for all sizes
- `engine.eager.kernels.kernel_families._OF_ANY_LAYOUT`: the same, by op
- `engine.eager.kernels.pointwise._VARIANTS`: of kernels of pointwise ops
- `engine.eager.fused._VARIANTS`: of kernels that change tensors in place
- `engine.eager.fused._RUNS`: and at their sizes
- `engine.eager.promotion._COMMON`: of what two types have in common
- `engine.eager.kernels.pointwise._POINTWISE`: of composites that are pointwise
- `engine.tracing.layouts._PRIMES`: of numbers that stand for open sizes
- `engine.eager.tape._kind`: of classes that nodes show themselves as
- `nn.recurrent._FIT`: of types that the ops of cells take
- `nn.recurrent._BODIES`: of the graphs of steps of recurrent layers
- `nn.functional.normalization._KNOWN`: of types of batch norms that fit
- `nn.geometry._KNOWN`: of types and numbers of windows that fit
- `functions.random.bounds`: of the limits of integer dtypes
- `functions.random_fills._kernel`: of kernels of normal numbers
- `functions.network_draws._kernel`: of kernels of numbers drawn inside networks
- `engine.tensors.generator._native`: of native code that draws
- `engine.tracing.assertions._asserted`: of tests of assertions
- `engine.outside.bytecode.scan_bytecode`: of code objects
- `engine.tracing.assertions._asserted`: the same
- `overrides.protocol.takes_over`: of types
- `vision.operators._LIBRARY`: the operators that torchvision asks for
- `audio.operators._LIBRARY`: the operators that torchaudio asks for
- `audio.operators._FACTS`: what it asks of them
- `overrides.interception._template`: of code that asks
- `fx.node.qualified_name`: of functions
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from frontend.engine.tensors.bounded import Bounded
from graphc.ir.types import DType

if TYPE_CHECKING:
    from frontend.engine.tensors.mode import Mode
    from frontend.engine.tensors.observer import Observer

PREPARED: dict[str, dict[Any, Any]] = {"numpy": Bounded(8192), "native": Bounded(8192)}
"""By eager backend, what is known of ops, by op, operand types and attributes (filled by
`dispatch`). Types are interned, so that the key hashes fast."""

_NOTHING: Any = MappingProxyType({})
_DECIDING = ("mode", "detect_anomaly", "backend", "saved_hooks", "observer")
"""What else in a thread's state follows from."""


class State(threading.local):
    """Per thread: whether the tape records (None: not here, since this is the body of a loop or
    branch, which is recorded whole), the mode under way (None: eager), the dtype of Python floats,
    what computes eager ops. The last three follow from the others. `watched`: ops go to a mode, or
    record where they were called. `prepared` is the backend's, or the mode's; so is `fast_path`,
    unless ops are watched: then it is empty, and nothing takes a short cut. `autocast` is the dtype
    of the region of `amp.autocast` under way, `saved_hooks` what packs and unpacks the values that
    nodes save, `observer` looks on while eager ops run: a profiler. The
    last of `devices` is where tensors are made (None: the CPU): the first is the default, the
    others those of `with device(…)`. `below` compiles the Modules that are called, while a
    compiled function runs eagerly. `keeps_graph`: no backward frees what it goes through, since
    another example of a `vmap` will."""

    grad_enabled: bool | None = True
    detect_anomaly: bool = False
    check_nan: bool = True
    mode: Mode[Any, Any] | None = None
    default_dtype: DType = DType.f32
    backend: str = "native"
    keeps_graph: bool = False
    watched: bool = False
    autocast: DType | None = None
    saved_hooks: Any = None
    observer: Observer | None = None
    devices: tuple[Any, ...] = (None,)
    below: Any = None
    prepared: dict[Any, Any] = PREPARED["native"]
    fast_path: dict[Any, Any] = PREPARED["native"]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _DECIDING:
            super().__setattr__(name, value)
            return
        now = {each: getattr(self, each) for each in _DECIDING}
        now[name] = value
        mode: Mode[Any, Any] | None = now["mode"]
        prepared = None if mode is None else mode.prepared
        prepared = PREPARED[now["backend"]] if prepared is None else prepared
        watched = mode is not None or now["detect_anomaly"]
        watched |= now["saved_hooks"] is not None or now["observer"] is not None
        path = _NOTHING if watched else prepared
        # All in one step: an interrupt comes before it or behind.
        put_back({name: value, "watched": watched, "prepared": prepared, "fast_path": path})


STATE = State()


def get_eager_backend() -> str:
    """What computes eager ops in this thread: "numpy" or "native"."""
    return STATE.backend


def set_eager_backend(backend: str) -> None:
    """Have eager ops of this thread computed each by the kernel the compiler makes for it alone
    ("native", as at the start; compiled at first use), or by NumPy ("numpy", which compiles
    nothing).

    With "native" eager code gives the same bits as code compiled at level *exact*. Raises
    ValueError for another name.
    """
    if backend not in PREPARED:
        raise ValueError(f"the eager backend is 'numpy' or 'native', not {backend!r}")
    STATE.backend = backend


# -- the rest of the frontend writes STATE through these, and only these -------------------------


def state_now() -> dict[str, Any]:
    """All of this thread's state."""
    return {name: getattr(STATE, name) for name in State.__annotations__}


def put_back(state: dict[str, Any]) -> None:
    """Have this thread's state be what `state_now` said, in one step."""
    STATE.__dict__.update(state)


def tracing() -> bool:
    """Whether a graph is recorded: what compiled code would not repeat is then refused."""
    return STATE.mode is not None and STATE.mode.records


def computing() -> bool:
    """Whether there are values to look at: in eager mode, also among the examples of a batch there,
    which then go one by one."""
    mode: Any = STATE.mode
    while (around := getattr(mode, "around", mode)) is not mode:
        mode = around
    return mode is None


def check_custom_gradient(tensors: Iterable[Any]) -> None:
    """What follows is recorded on these with a gradient rule that is no op's. In a batch of
    examples only the tape inside has it: where gradients come from outside, they go one by one."""
    check = getattr(STATE.mode, "check_custom_gradient", None)
    if check is not None:
        check(tensors)


def swap_mode(mode: Mode[Any, Any] | None) -> Mode[Any, Any] | None:
    """Make `mode` (None: eager) the one under way; the one before."""
    previous, STATE.mode = STATE.mode, mode
    return previous


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """Run eagerly inside, in the middle of a trace."""
    mode = swap_mode(None)
    try:
        yield
    finally:
        swap_mode(mode)


def swap_anomaly_checks(detect: bool, check_nan: bool) -> tuple[bool, bool]:
    """Set whether backward says where what failed was computed, and whether NaN is a failure; what
    was set before."""
    previous = STATE.detect_anomaly, STATE.check_nan
    STATE.detect_anomaly, STATE.check_nan = detect, check_nan
    return previous


def swap_autocast(dtype: DType | None) -> DType | None:
    """Make `dtype` (None: no autocast) that of the region under way; the one before."""
    previous, STATE.autocast = STATE.autocast, dtype
    return previous


def swap_saved_hooks(hooks: Any) -> Any:
    """Have what nodes save packed and unpacked by `hooks`, a pair, or kept as it is (None); those
    before."""
    previous, STATE.saved_hooks = STATE.saved_hooks, hooks
    return previous


def swap_devices(devices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make the last of `devices` the place where tensors are made; those before."""
    previous, STATE.devices = STATE.devices, devices
    return previous


def swap_observer(observer: Observer | None) -> Observer | None:
    """Have `observer` (None: nothing) look on while eager ops run; the one before."""
    previous, STATE.observer = STATE.observer, observer
    return previous


@contextlib.contextmanager
def keeping_graphs(keeps: bool) -> Iterator[None]:
    """Where `keeps`, no backward inside frees the tape that it goes through."""
    previous = STATE.keeps_graph
    STATE.keeps_graph = previous or keeps
    try:
        yield
    finally:
        STATE.keeps_graph = previous


@contextlib.contextmanager
def recording(mode: bool | None) -> Iterator[None]:
    """Grad mode `mode` inside; None in the body of a loop or branch."""
    previous = STATE.grad_enabled
    try:
        try:
            STATE.grad_enabled = mode
            yield
        finally:
            STATE.grad_enabled = previous
    finally:  # again, for an interrupt that came just then
        STATE.grad_enabled = previous


@contextlib.contextmanager
def modules_going_to(below: Any) -> Iterator[None]:
    """Calls of Modules inside come to `below` (None: run eagerly)."""
    previous = STATE.below
    try:
        try:
            STATE.below = below
            yield
        finally:
            STATE.below = previous
    finally:  # again, as above
        STATE.below = previous


# -- grad mode -----------------------------------------------------------------------------------


def _here(mode: bool) -> bool | None:
    """What grad mode `mode` is in `STATE`: nothing is recorded in the body of a traced loop."""
    return None if mode and STATE.mode is not None and STATE.mode.in_region else mode


class _GradMode:
    """Sets grad mode inside a `with` block or a decorated function."""

    mode = False

    def __init__(self, function: Any = None):
        self._previous: list[bool | None] = []

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        if callable(function):  # `@no_grad` without parentheses
            self._previous = []
            return self(function)
        return self

    def __enter__(self) -> None:
        self._previous.append(STATE.grad_enabled)
        STATE.grad_enabled = _here(self.mode)

    def __exit__(self, *error: Any) -> None:
        STATE.grad_enabled = self._previous.pop()

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            previous, STATE.grad_enabled = STATE.grad_enabled, _here(self.mode)
            try:
                return function(*arguments, **keywords)
            finally:
                STATE.grad_enabled = previous

        return wrapped


class no_grad(_GradMode):
    """Nothing inside is recorded: results do not require gradients."""


class inference_mode(_GradMode):
    """As `no_grad`; `inference_mode(False)` records."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls, mode)

    def __init__(self, mode: Any = True):
        super().__init__()
        self.mode = not mode


class enable_grad(_GradMode):
    """Records inside, also within `no_grad`."""

    mode = True


class set_grad_enabled(_GradMode):
    """Sets grad mode at once; as a context manager it puts the former mode back."""

    def __new__(cls, mode: bool) -> Any:
        return super().__new__(cls)

    def __init__(self, mode: bool):
        super().__init__()
        self.mode = bool(mode)
        self._former = STATE.grad_enabled
        STATE.grad_enabled = _here(self.mode)

    def __enter__(self) -> None:
        self._previous.append(self._former)
        STATE.grad_enabled = _here(self.mode)

    def __call__(self, function: Any) -> Any:
        STATE.grad_enabled = self._former
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """True where ops on tensors that require gradients are recorded."""
    return STATE.grad_enabled is not False
