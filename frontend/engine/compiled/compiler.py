"""`frontend.compile`: the same function, run as native code.

The first call with a new signature traces and compiles a specialization; later ones look it up,
check its guards, bind arrays and run. A function that calls `backward()` itself (a training step)
becomes one graph; one whose results require gradients, a forward and a backward graph.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

from frontend.engine.compiled.call_guards import broken
from frontend.engine.compiled.differentiable import written_by
from frontend.engine.compiled.fallback import Fallback, Refusal, check_apart, note_guards
from frontend.engine.compiled.inline_cache import InlineCache
from frontend.engine.compiled.options import Options, open_sizes
from frontend.engine.compiled.overlap import check_overlap
from frontend.engine.compiled.program import TracedProgram, program_of
from frontend.engine.compiled.signature import Signature, changes, signature
from frontend.engine.compiled.sizing import OpenSizes
from frontend.engine.compiled.specialization import (
    Specialization,
    nothing,
    only_specialization,
    specialization_at,
)
from frontend.engine.compiled.specializations import Specializations
from frontend.engine.compiled.stance import STANCE
from frontend.engine.compiled.trace_history import TraceHistory
from frontend.engine.outside.items import FirstCallError
from frontend.engine.outside.kinds import forward_of, name_in, runs_eagerly
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.sizes.size_rules import Rules, rules_of
from frontend.engine.tensors import tree
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.state import STATE, modules_going_to
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.effects import TracedEffects
from frontend.engine.tracing.tracer import labels_of, name_of, note_session, run_trace
from graphc.errors import GraphError, MemoryLimitError, SizeBoundError, TraceError
from graphc.ir.builder import user_location
from graphc.system import IMPORTING, uncollected


class CompiledFunction:
    """A function or Module that runs as native code; made by `frontend.compile`."""

    def __init__(self, function: Callable[..., Any], options: Options):
        self.function = function
        self.options = options
        self._history = TraceHistory(name_of(function))
        self._open_sizes = OpenSizes(options.dynamic)
        self._known = Specializations(self._open_sizes)
        self._fallback = Fallback(name_in(function) or type(function).__name__, options, type(self))
        self._named = parameter_names(function)
        if name_in(function) is not None:
            functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if STANCE.now == "force_eager":
            return self.function(*arguments, **keywords)
        cache = self._known.cache
        if cache is not None and not keywords and cache.fits(arguments):
            return cache.specialization.call(arguments)
        if STATE.mode is not None:
            return self.function(*arguments, **keywords)
        arguments, keywords = self._positional(arguments, keywords)
        leaves: list[Tensor] = []
        structure = tree.flatten((arguments, keywords), leaves)
        aliases = _aliases(leaves)
        key = signature(structure, leaves, aliases, self.options.most_threads)
        serving = self._known.find(key, leaves)
        plain = not (keywords or aliases) and _are_all(leaves, arguments)
        if serving is not None:
            one, computed = serving
            if plain and computed is None and not one.program.free.are_read:
                self._known.cache = InlineCache(one, leaves)
            return one.call(leaves, computed)
        programs = len(self._history.lines)
        refusal = self._fallback.find(key, leaves, programs) if self._fallback.refusals else None
        if refusal is None and STANCE.now != "default":
            known = self._known_at_sizes(key, leaves)
            if known is not None:
                return known.call(leaves)
            if STANCE.now == "fail_on_recompile":
                raise RuntimeError(
                    f"{name_of(self.function)} would be compiled for this call, where the stance "
                    "is 'fail_on_recompile'"
                )
            return self.function(*arguments, **keywords)
        if refusal is None:
            try:
                with modules_going_to(None):  # they are traced along with their caller
                    return self._first_call(key, leaves, structure, plain)
            except GraphError as error:
                if self.options.fullgraph or not error.is_refusal or written_by(error):
                    raise
                refusal = self._fallback.add(key, error)
        return self._fallback.run(refusal, self.function, arguments, keywords, leaves)

    def _first_call(self, key: Signature, leaves: list[Tensor], structure: Any, plain: bool) -> Any:
        """A call at sizes or of a kind that nothing serves yet. `plain`: its arguments are distinct
        tensors."""
        known = one = self._of_known_program(key, leaves)
        if one is None:
            with uncollected():
                one = self._specialization(key, leaves, structure)
        if plain and not one.program.free.are_read:
            self._known.cache = InlineCache(one, leaves)
        return self._try(one, leaves) if known is None else one.call(leaves)

    def _of_known_program(self, key: Signature, leaves: list[Tensor]) -> Specialization | None:
        """`_known_at_sizes`, which fits; None too where there is an error, which comes again."""
        try:
            return self._known_at_sizes(key, leaves)
        except GraphError:
            return None

    def _try(self, specialization: Specialization, leaves: list[Tensor]) -> Any:
        """A call that raises has done nothing: what Python did at its trace is undone, too, and
        done again at the next."""
        try:
            if not specialization.holds(leaves):
                raise self._changed(specialization.broken(leaves))
            # One line: an interrupt comes before both, or behind.
            specialization.undo, result = nothing, specialization.call(leaves)
            return result
        except BaseException as error:
            refused = getattr(error, "is_refusal", False)  # by the gradients, after the trace
            if refused:
                note_guards(error, (*specialization.guards, *specialization.program.call_guards))
            if not written_by(error) and (specialization.undo() or refused):
                self._known.forget(specialization)
            raise

    def _changed(self, what: str) -> TraceError:
        return FirstCallError(
            f"tracing {name_of(self.function)} changed what the trace relies on: {what}",
            hint="compiled code does not repeat what Python does: assign it outside, or keep what "
            "changes from call to call in a tensor that is changed in place",
            location=user_location(),
        )

    def _positional(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments, by position as far as they can be: `f(x, k=4)` is `f(x, 4)`."""
        if not keywords:
            return arguments, keywords
        rest = dict(keywords)
        names = self._named[len(arguments) :]
        moved = itertools.takewhile(lambda name: name in rest, names)
        return (*arguments, *[rest.pop(name) for name in moved]), rest

    def _specialization(
        self, key: Signature, leaves: list[Tensor], structure: Any
    ) -> Specialization:
        """A new specialization, or one that another thread made in the meantime."""
        with TRACE_LOCK.specializing:
            serving = self._known.at_signature(key, leaves)
            if serving is not None:
                return serving[0]
            while True:
                try:
                    return self._made(key, leaves, structure)
                except _MoreOpen:  # there is an end to the places that a trace assigns
                    continue

    def _made(self, key: Signature, leaves: list[Tensor], structure: Any) -> Specialization:
        try:
            sized = self._instance(key, leaves, structure)
        except (MemoryLimitError, SizeBoundError, _MoreOpen):
            raise
        except Exception as error:
            # Where it cannot be traced so, sizes are numbers; what the user has to see comes again
            # then.
            specialization = self._specialize(key, leaves, structure)
            self._open_sizes.refuse(key)
            self._history.not_open(error)
            return specialization
        return sized or self._specialize(key, leaves, structure)

    def _instance(
        self, key: Signature, leaves: list[Tensor], structure: Any
    ) -> Specialization | None:
        """The specialization at these sizes of one that serves others too, made before or now; None
        where no sizes are left open."""
        dynamic = self.options.dynamic
        rules: Rules = {}
        if dynamic is not False:
            rules = rules_of(dynamic, labels_of(self.function, structure), leaves)
        one = self._known_at_sizes(key, leaves)
        if one is None:
            self._open_sizes.look_outside(key, self._known.by_signature)
            sized = self._open_sizes.sized(key, rules)
            if sized is not None:
                return self._specialize_sized(key, leaves, structure, sized)
        return one

    def _known_at_sizes(self, key: Signature, leaves: list[Tensor]) -> Specialization | None:
        """The specialization at these sizes of a program that serves them; None for none."""
        with TRACE_LOCK.specializing:
            serving = self._known.at_signature(key, leaves)
            if serving is not None:  # of another thread, in the meantime
                return serving[0]
            serving = self._known.at_sizes(key, leaves)
            if serving is None:
                return None
            one, _ = serving
            one.prepare(leaves)
            return self._known.add(key, one)

    def _specialize_sized(
        self, key: Signature, leaves: list[Tensor], structure: Any, sized: SizedArguments
    ) -> Specialization:
        while True:
            try:
                program, undo = self._program(key, leaves, structure, sized)
                break
            except GraphError as error:  # of sizes that have to fit each other, multiples may
                multiples = sized.in_multiples(error.told_apart)
                if multiples is None:
                    raise
                sized = multiples
        try:
            specialization = specialization_at(program, key, undo)
            assert specialization is not None, "the example answers as it did"
            specialization.prepare(leaves)
        except BaseException:
            undo()
            raise
        self._history.has_numbers(program.answers)
        self._open_sizes.add(key, program)
        return self._known.add(key, specialization)

    def _specialize(self, key: Signature, leaves: list[Tensor], structure: Any) -> Specialization:
        """That of a program for this signature alone: the newest first, so that alternating ones
        keep theirs."""
        program, undo = self._program(key, leaves, structure)
        return self._known.add(key, only_specialization(program, undo))

    def _program(
        self, key: Signature, leaves: list[Tensor], structure: Any,
        sized: SizedArguments | None = None,
    ) -> tuple[TracedProgram, Callable[[], bool]]:  # fmt: skip
        """Trace and compile; and what undoes what Python did at the trace."""
        by_signature = self._known.by_signature
        known = by_signature.get(key, [])
        if known:
            reason = "again: " + (known[0].broken(leaves) or "a guard failed")
        else:
            changed = changes(key, by_signature, self.function)
            reason = f"new signature: {changed}" if changed else "first call"
            reason = "; ".join([reason, *self._open_sizes.broken(key)])
        effects = None if self.options.fullgraph else TracedEffects()
        name = name_of(self.function)
        traced = run_trace(self.function, leaves, structure, name, sized, effects, True)
        try:
            session = traced.session
            if self._open_sizes.open_assigned(session.assigned.of_fixed):
                raise _MoreOpen
            session.numbers.assign([*session.assigned.of_open, *session.assigned.of_fixed])
            relied_on = (*session.captured_globals.guards, *session.guards)
            if now_other := broken(relied_on, session.scope.paths(), leaves):
                raise self._changed("; ".join(now_other))  # before anything is compiled
            check_overlap(traced, leaves)
            if self.options.apart:
                check_apart(traced)
            number = len(self._history.lines) + 1
            program = program_of(traced, self.options, bool(STATE.grad_enabled), number)
        except BaseException as error:
            traced.session.put_back()
            note_session(error, traced.session)
            raise
        self._history.traced(reason, sized or key.types, len(known) + 1)
        return program, traced.session.undoing()

    @property
    def specializations(self) -> list[Specialization]:
        """One for each signature that was called, and for each way that its guards held."""
        return self._known.all

    @property
    def refusals(self) -> list[Refusal]:
        """Why calls run eagerly, of those that do."""
        return self._fallback.refusals

    @property
    def compile_seconds(self) -> float:
        """Time spent in the compiler so far (tracing not included)."""
        programs = {id(each.program): each.program for each in self.specializations}
        return sum(program.compiler.seconds for program in programs.values())

    @property
    def trace_reasons(self) -> tuple[str, ...]:
        """Why it was traced, each time."""
        return tuple(self._history.lines)

    def explain(self) -> str:
        """Why it was traced; what runs eagerly and why; and of the newest specialization what it
        takes and froze, the sizes of graph and memory, the time it took to compile, the dearest
        kernels by estimate, and the weightiest decisions. Of the others a line each."""
        with IMPORTING:
            from frontend.engine.compiled.explanation import explained

        head = f"{self._counted()}, level {self.options.level}"
        eager = list(self._fallback.lines())
        return explained(head, self._history, self.specializations, eager)

    def profile(self, *arguments: Any, seconds: float = 1.0, **keywords: Any) -> Any:
        """Where the time of a call on these arguments (without any, drawn ones like those of the
        last call) goes: by launch, with what bounds each, by line, module and phase. It runs for
        about `seconds` on copies: all state stays as it is. `str()` of what is returned is a table,
        `save_trace(path)` writes a Chrome trace."""
        with IMPORTING:
            from frontend.engine.compiled.inspection import profiled

        tensors, named = self._shown(arguments, keywords)
        sized = self._sized_call(tensors, named)
        return profiled(self.function, tensors, named, self.options, seconds, sized)

    def verify(self, *arguments: Any, **keywords: Any) -> Any:
        """Whether a call on these arguments (as for `profile`) gives the same result at all levels:
        eager, traced, after every pass, plan, loops, each launch, the whole call on one thread and
        on all. True in a condition where it does; `str()` of it tells what was compared, and names
        the first node that differs and who made it so. All state stays as it is."""
        with IMPORTING:
            from frontend.engine.compiled.inspection import verified

        tensors, named = self._shown(arguments, keywords)
        sized = self._sized_call(tensors, named)
        return verified(self.function, tensors, named, self.options, sized)

    def report(self, path: Any, *arguments: Any, seconds: float = 1.0, **keywords: Any) -> None:
        """Write one self-contained HTML page about a call on these arguments (as for `profile`):
        what ran and for how long, against the machine's limits, by module, line and kernel; memory,
        passes, decisions, code. It runs for about `seconds` on copies: all state stays as it is.
        Raises ArgumentError where the file cannot be written."""
        with IMPORTING:
            from frontend.engine.compiled.inspection import reported

        tensors, named = self._shown(arguments, keywords)
        sized = self._sized_call(tensors, named)
        reported(self.function, tensors, named, self.options, path, seconds, sized)

    def build(
        self, folder: Any, *arguments: Any, target: str | None = None, kind: str = "object",
        name: str | None = None, keep_grads: bool = False, calls: int = 3,
        threads: int = 1, data: Any = None, **keywords: Any,
    ) -> Any:  # fmt: skip
        """Write what a call on arguments like these (as for `profile`) computes into `folder`, to
        be used without Python: one object file, its header, its state as a safetensors file, and a
        C program that proves that the bits are those of this process (docs/build.md). Open are the
        sizes that `dynamic` or marks name, else those that calls before left open, and all ints and
        floats among the arguments. `target` as for `compile`, or another that this machine does not
        run ("x86_64-windows", "wasm32"); `name`: of the C function; `keep_grads`: the state has the
        gradients that a step leaves behind; `calls`: how many the proof makes; `threads`: as many
        as the caller of an object may bring; `kind`: also "shared" or "wheel", for Python, or
        "page", for a browser; `data`: of a page, a tensor or array for each argument, of whose rows
        it makes batches. All state of this process stays as it is. Raises ArgumentError for what is
        not built and for a folder that cannot be written, TargetError for an unknown target,
        TraceError and LoweringError for what an object cannot do."""
        with IMPORTING:
            from frontend.engine.compiled.building import source_of
            from graphc.build.building import build

        shown, named = self._shown(arguments, keywords)
        sized = self._sized_call(shown, named)
        known = None if sized is None else sized.arguments
        source = source_of(self.function, shown, named, self.options, keep_grads, known)
        return build(
            source, folder, target=target, kind=kind, name=name, calls=calls, threads=threads,
            data=data,
        )  # fmt: skip

    def _sized_call(self, arguments: Any, keywords: Any) -> Any:
        """The call on these arguments as code for several sizes serves it; None where other code
        does, or none yet."""
        with IMPORTING:
            from frontend.engine.compiled.inspection import SizedCall

        leaves: list[Tensor] = []
        arguments, keywords = self._positional(arguments, keywords)
        structure = tree.flatten((arguments, keywords), leaves)
        key = signature(structure, leaves, _aliases(leaves), self.options.most_threads)
        known = self._known.by_signature.get(key, ())
        one = next((each for each in known if each.holds(leaves)), None)
        if one is None:
            serving = self._known.at_sizes(key, leaves)
            one = None if serving is None else serving[0]
        if one is None or one.program.sizes is None:
            return None
        return SizedCall(key, one.program.sizes)

    def _shown(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a call is shown on: these arguments; where there are none, drawn ones like those of
        the call before, standard normal and, of integers, zeros."""
        if arguments or keywords or not self._known.by_signature:
            return arguments, keywords
        with IMPORTING:
            from frontend.engine.compiled.inspection import drawn_arguments

        last = next(reversed(self._known.by_signature))
        return drawn_arguments(last.structure, last.types, last.requires_grad)

    def dump(self, folder: Any) -> list[Any]:
        """Write all that is compiled so far below `folder`: the stages of each graph as files, the
        ledger, and a `repro.py` that runs it again from these files alone. The new folders.
        Captured tensors are stored as they are now; arguments are drawn. Raises ArgumentError where
        nothing is compiled yet, or for a folder that cannot be written."""
        with IMPORTING:
            from frontend.engine.compiled.dumping import dumped

        return list(dumped(self, folder))

    def _counted(self) -> str:
        every = self.specializations
        programs = len({id(each.program) for each in every})
        return (
            f"{name_of(self.function)}: {programs} program{'' if programs == 1 else 's'}, "
            f"{len(every)} specialization{'' if len(every) == 1 else 's'}"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "function" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        """Copies and pickles have the function and the options; they compile anew."""
        return type(self), (self.function, self.options)

    def __repr__(self) -> str:
        return f"<compiled {self._counted()}>"


def _are_all(leaves: Sequence[Tensor], arguments: Sequence[Any]) -> bool:
    """Whether the arguments are these tensors and nothing else."""
    return len(leaves) == len(arguments) and all(map(is_, leaves, arguments))


class _MoreOpen(Exception):
    """A trace assigned numbers that are left open from now on."""


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a function or Module that may be given by position or by keyword."""
    try:
        parameters = inspect.signature(forward_of(function)).parameters.values()
    except (TypeError, ValueError):
        return ()
    both = itertools.takewhile(lambda p: p.kind is p.POSITIONAL_OR_KEYWORD, parameters)
    return tuple([parameter.name for parameter in both])


MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BACKENDS = (
    "inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs", "ipex",
    "onnxrt", "openxla", "tvm", "tensorrt",
)  # fmt: skip
"""What PyTorch's `compile` knows by name."""


def _warn_of_unknown(options: Mapping[str, Any]) -> None:
    """Warn of a `mode` or `backend` that may be a slip of the pen."""
    for name, known in (("mode", MODES), ("backend", BACKENDS)):
        value = options.get(name)
        if isinstance(value, str) and value not in known:
            warnings.warn(
                f"compile(): {name}={value!r} is none of {', '.join(known)}; it has no effect, as "
                f"these have none",
                stacklevel=3,
            )


def _aliases(leaves: list[Tensor]) -> tuple[int, ...]:
    """For each tensor the first that it is; nothing where all are different ones."""
    identities = [id(leaf) for leaf in leaves]
    distinct = len(set(identities)) == len(identities)
    return () if distinct else tuple([identities.index(i) for i in identities])


def compile(
    function: Any = None, *, level: str = "exact", keep_grads: bool = True, disable: bool = False,
    threads: int | None = None, max_bytes: int | None = None, saved_bytes: int | None = None,
    target: str | None = None, dynamic: bool | Mapping[str, Mapping[int, str]] | None = None,
    fullgraph: bool = False, **ignored: Any,
) -> Any:  # fmt: skip
    """`function` (or a Module) as native code: `compile(model)`, `@compile`, `@compile(level=…)`.

    `level`: "none" (one kernel per op), "exact" (same bits as any other exact run), "relaxed". With
    `keep_grads=False` gradients a training step leaves behind are not written to `.grad`, so the
    update can be fused with what makes them; reading `.grad` then raises. With `disable` the
    function stays as it is. `threads`: the most threads a call may run on, None for what
    `set_num_threads` says, by default all processors this process may use; small work runs on one,
    and the bits are the same on any. `max_bytes`: the most memory a call may take for what lies
    between its inputs and results; a function that needs more raises MemoryLimitError at its first
    call and has run nothing. `saved_bytes`: the most memory for what forward keeps for backward (of
    each `backward()`, in a training step); what does not fit is computed again, to the same bits;
    MemoryLimitError where it cannot be. `target`: the processor code is made for ("host",
    "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"), None for that of the setting GRAPHC_TARGET,
    the host by default. `dynamic`: None to leave those sizes of arguments open that were seen to
    differ, so that further ones cost nothing, True to leave all open from the first call on, False
    for code for each size alone, `{"x": {0: "batch"}}` to leave axis 0 of the argument x open from
    the first call on (a Module may say so in `open_sizes`): where a name stands twice the sizes are
    equal, else SizeBoundError. A function that cannot be traced runs eagerly, to the same bits, and
    the Modules it calls are compiled each for itself; a warning says so once. With `fullgraph` it
    raises TraceError. PyTorch's other options (`mode`, `backend`, …) are accepted and have
    no effect; a `mode` or `backend` that is none of PyTorch's warns. Raises ValueError for an
    unknown level and for a target this machine cannot run, TypeError or ValueError for the others.
    """
    sizes = open_sizes(function, dynamic)
    options = Options(
        level, keep_grads, threads, max_bytes, saved_bytes, target, sizes, fullgraph=fullgraph
    )
    unknown = ignored.keys() - {"backend", "mode", "options"}
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    _warn_of_unknown(ignored)
    if function is None:
        return lambda function: compile(
            function, level=level, keep_grads=keep_grads, disable=disable, threads=threads,
            max_bytes=max_bytes, saved_bytes=saved_bytes, target=target, dynamic=dynamic,
            fullgraph=fullgraph,
        )  # fmt: skip
    if not callable(function):
        raise TypeError(f"compile() takes a function or Module, not {type(function).__name__}")
    if disable or runs_eagerly(function):
        return function
    around = getattr(type(function), "_compiled_as", CompiledFunction)  # Modules have one
    return around(function, options)
