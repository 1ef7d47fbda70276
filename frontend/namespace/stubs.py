"""What stands for parts of PyTorch that are not here: one table, with what each does and why.

in : the name of a module, without `torch`
out: by name, what its file takes by `globals().update(stubs("…"))`

Of three kinds. What *raises* is a class: it can be imported, derived from and asked about by
`isinstance`, and is a NotImplementedError, saying what to use instead, when it is made or called. A
*constant* answers what a script asks before it uses something, truthfully. What has *no effect* is
called by scripts for a device or a library that is not there, and leaves nothing to be done.
Where PyTorch without that device raises, so does a function in the file itself, as PyTorch does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from frontend.namespace.absent import absent_names

Kind = Literal["raises", "constant", "no effect"]


@dataclass(frozen=True, slots=True)
class Stub:
    """Names that do the same, and why; the value that a constant gives."""

    kind: Kind
    names: str
    why: str
    value: Any = None


def raises(names: str, instead: str) -> Stub:
    """What says, when it is used, what to use `instead`."""
    return Stub("raises", names, instead)


def constant(names: str, value: Any, why: str) -> Stub:
    """What gives one value, whatever it is asked for."""
    return Stub("constant", names, why, value)


def no_effect(names: str, why: str) -> Stub:
    """What has nothing to do."""
    return Stub("no effect", names, why)


def stubs(module: str) -> dict[str, Any]:
    """The stubs of a module, by name. Raises KeyError where it has none."""
    by_name: dict[str, Any] = {}
    for stub in TABLE[module]:
        if stub.kind == "raises":
            by_name |= absent_names(module, stub.names, stub.why)
        else:
            by_name |= {name: _answering(module, name, stub) for name in stub.names.split()}
    return by_name


def _answering(module: str, name: str, stub: Stub) -> Any:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return stub.value

    answer.__name__ = answer.__qualname__ = name
    answer.__module__ = f"frontend.{module}"
    shown = "No effect" if stub.kind == "no effect" else repr(stub.value)
    answer.__doc__ = f"{shown}: {stub.why}."
    answer.stub = stub.kind  # type: ignore[attr-defined]
    return answer


_NO_CUDA = "there is no CUDA"
_OWN = "products and loops are the compiler's own"
_ONE_KERNEL = "attention is one kernel, whichever is allowed"
_ELSEWHERE = (
    constant("is_available", False, "there is no such device"),
    constant("device_count", 0, "there is no such device"),
    no_effect("manual_seed empty_cache", "there is no such device"),
)

TABLE: dict[str, tuple[Stub, ...]] = {
    "_C": (
        raises(
            "PyTorchFileReader",
            "torch.load reads files",
        ),
        raises(
            "PyTorchFileWriter",
            "torch.save writes files",
        ),
        raises(
            "DeviceObjType",
            "torch.device names a device",
        ),
        raises(
            "Stream Event",
            "work is done when a function returns: there is one device",
        ),
        raises(
            "SymInt SymFloat SymBool",
            "sizes that compiled functions leave open are ints and floats to isinstance()",
        ),
        raises(
            "Argument Block FunctionSchema Graph Node OptionalType ScriptMethod ScriptModule "
            "ScriptObject TensorType Type Value",
            "there is no TorchScript: code runs as Python, torch.fx.symbolic_trace gives a graph",
        ),
        no_effect("_log_api_usage_once", "nothing is logged"),
        constant("_get_tracing_state", None, "TorchScript traces nothing"),
        constant("_get_privateuse1_backend_name", "privateuseone", "none is registered"),
        constant(
            "_jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled "
            "_jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu "
            "_jit_set_nvfuser_enabled _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu "
            "_jit_texpr_fuser_enabled",
            False,
            "a switch of TorchScript's executor, which is not there",
        ),
        constant(
            "_are_functorch_transforms_active",
            False,
            "vmap and the derivatives of torch.func run functions on plain tensors",
        ),
    ),
    "_C._functorch": (
        raises(
            "CFunctionalizeInterpreterPtr CGradInterpreterPtr CJvpInterpreterPtr "
            "CVmapInterpreterPtr CInterpreter RandomnessType TransformType _add_batch_dim "
            "_remove_batch_dim _unwrap_batched _unwrap_for_grad _vmap_decrement_nesting "
            "_vmap_increment_nesting _wrap_for_grad current_level get_interpreter_stack "
            "maybe_get_bdim pop_dynamic_layer_stack push_dynamic_layer_stack unwrap_if_dead",
            "torch.func.vmap and torch.func.grad take functions",
        ),
    ),
    "_functorch.vmap": (
        raises(
            "_add_batch_dim _maybe_remove_batch_dim _broadcast_to_and_flatten",
            "torch.func.vmap takes functions",
        ),
    ),
    "_dynamo": (
        no_effect("mark_static_address", "every buffer stays where it is"),
        no_effect("graph_break", "a compiled function is one graph, or runs eagerly"),
        constant("is_dynamo_supported", True, "compile runs here"),
    ),
    "_subclasses.fake_tensor": (
        raises(
            "FakeTensor",
            'torch.empty(…, device="meta") has no data',
        ),
    ),
    "accelerator": (
        constant("is_available", False, "there is none"),
        constant("device_count", 0, "there is none"),
        constant("current_accelerator", None, "there is none"),
    ),
    "autograd.forward_ad": (
        raises(
            "UnpackedDualTensor dual_level enter_dual_level exit_dual_level make_dual unpack_dual",
            "use torch.func.jvp",
        ),
    ),
    "autograd.profiler": (
        raises(
            "emit_itt emit_nvtx",
            "use torch.profiler.profile",
        ),
    ),
    "backends.cuda": (
        constant("is_built", False, _NO_CUDA),
        constant(
            "flash_sdp_enabled mem_efficient_sdp_enabled math_sdp_enabled cudnn_sdp_enabled",
            True,
            _ONE_KERNEL,
        ),
        no_effect(
            "enable_flash_sdp enable_mem_efficient_sdp enable_math_sdp enable_cudnn_sdp",
            _ONE_KERNEL,
        ),
    ),
    "backends.cudnn": (
        constant("is_available", False, "there is no cuDNN"),
        constant("version", None, "there is no cuDNN"),
    ),
    "backends.mha": (
        constant("get_fastpath_enabled", True, "MultiheadAttention has one path"),
        no_effect("set_fastpath_enabled", "MultiheadAttention has one path"),
    ),
    "backends.mkl": (constant("is_available", False, _OWN),),
    "backends.mkldnn": (constant("is_available", False, _OWN),),
    "backends.mps": (
        constant("is_available is_built is_macos_or_newer", False, "there is no Metal"),
    ),
    "backends.openmp": (constant("is_available", False, _OWN),),
    "backends.opt_einsum": (
        constant("is_available", False, "einsum contracts in an order of its own"),
    ),
    "cpu": (
        constant("is_available is_initialized", True, "it is what there is"),
        constant("device_count", 1, "it is what there is"),
        constant("current_device", "cpu", "it is what there is"),
        no_effect("set_device", "there is one"),
        no_effect("synchronize", "every call has finished when it returns"),
    ),
    "cuda": (
        constant(
            "is_available is_initialized is_bf16_supported is_current_stream_capturing",
            False,
            _NO_CUDA,
        ),
        constant("device_count", 0, _NO_CUDA),
        constant(
            "memory_allocated max_memory_allocated memory_reserved max_memory_reserved",
            0,
            _NO_CUDA,
        ),
        no_effect("manual_seed manual_seed_all seed seed_all empty_cache", _NO_CUDA),
    ),
    "distributed._functional_collectives": (
        raises(
            "AsyncCollectiveTensor all_gather_tensor all_gather_tensor_autograd all_reduce "
            "all_reduce_coalesced all_to_all_single all_to_all_single_autograd broadcast "
            "permute_tensor reduce_scatter_tensor reduce_scatter_tensor_autograd wait_tensor",
            "torch.distributed has the collectives, which write into a tensor they are given",
        ),
    ),
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": (
        raises(
            "PostLocalSGDState post_localSGD_hook",
            "default_hooks has averages, plain and in half precision",
        ),
    ),
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": (
        raises(
            "PowerSGDState batched_powerSGD_hook powerSGD_hook",
            "default_hooks has averages, plain and in half precision",
        ),
    ),
    "distributed.checkpoint": (
        raises(
            "CheckpointException DefaultLoadPlanner DefaultSavePlanner FileSystemReader "
            "FileSystemWriter LoadPlanner SavePlanner StorageReader StorageWriter async_save "
            "load save",
            "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
        ),
    ),
    "distributed.checkpoint.default_planner": (
        raises(
            "DefaultLoadPlanner DefaultSavePlanner",
            "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
        ),
    ),
    "distributed.checkpoint.hf_storage": (
        raises(
            "HuggingFaceStorageReader HuggingFaceStorageWriter",
            "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
        ),
    ),
    "distributed.checkpoint.state_dict": (
        raises(
            "StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict "
            "set_model_state_dict set_optimizer_state_dict set_state_dict",
            "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
        ),
    ),
    "distributed.device_mesh": (
        raises(
            "DeviceMesh init_device_mesh",
            "ranks are numbered; torch.distributed.new_group makes rows and columns of them",
        ),
    ),
    "distributed.fsdp": (
        raises(
            "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig "
            "FullStateDictConfig FullyShardedDataParallel LocalStateDictConfig MixedPrecision "
            "MixedPrecisionPolicy OffloadPolicy ShardedStateDictConfig ShardingStrategy "
            "StateDictType UnshardHandle fully_shard register_fsdp_forward_method",
            "each rank holds all parameters: DistributedDataParallel trains data parallel, "
            "and ZeroRedundancyOptimizer keeps the optimizer's state in shares",
        ),
    ),
    "distributed.nn.functional": (
        raises(
            "all_to_all_single gather reduce scatter",
            "all_gather, all_reduce, reduce_scatter, all_to_all and broadcast are there",
        ),
    ),
    "distributed.rpc": (
        raises(
            "PyRRef RRef RpcBackendOptions TensorPipeRpcBackendOptions WorkerInfo "
            "get_worker_info init_rpc remote rpc_async rpc_sync shutdown",
            "processes send each other objects by torch.distributed.send_object_list",
        ),
    ),
    "distributed.tensor": (
        raises(
            "DTensor distribute_module distribute_tensor",
            "every process holds whole tensors; DistributedDataParallel trains data parallel",
        ),
    ),
    "distributed.tensor._utils": (
        raises(
            "compute_global_tensor_info compute_local_shape compute_local_shape_and_global_offset",
            "every process holds whole tensors; DistributedDataParallel trains data parallel",
        ),
    ),
    "export": (
        raises(
            "ShapesCollection draft_export register_dataclass unflatten FlatArgsAdapter "
            "UnflattenedModule CustomDecompTable ModuleCallEntry ModuleCallSignature",
            "torch.export.export takes dynamic_shapes by parameter and gives one flat graph; "
            "torch.compile runs a function as native code",
        ),
    ),
    "fx.experimental.proxy_tensor": (
        raises(
            "ProxyTorchDispatchMode make_fx",
            "torch.export.export gives the graph of a Module, torch.fx.symbolic_trace one of "
            "its calls",
        ),
    ),
    "masked": (
        raises("as_masked_tensor masked_tensor", "the functions of torch.masked take mask="),
        constant("is_masked_tensor", False, "there are none"),
    ),
    "mps": _ELSEWHERE,
    "nested": (
        raises(
            "as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged "
            "to_padded_tensor",
            "pad sequences to one length (torch.nn.utils.rnn.pad_sequence) and mask them",
        ),
    ),
    "sparse": (
        raises(
            "SparseSemiStructuredTensor as_sparse_gradcheck check_sparse_tensor_invariants "
            "spsolve to_sparse_semi_structured",
            "sparse tensors are COO, CSR and CSC, whose indices are always checked; mm, addmm, "
            "sampled_addmm, sum and softmax of them are here",
        ),
    ),
    "utils._python_dispatch": (
        raises(
            "TorchDispatchMode",
            "use torch.overrides.TorchFunctionMode, or frontend.trace for the graph",
        ),
    ),
    "utils.benchmark": (
        raises(
            "CallgrindStats CopyIfCallgrind FuzzedParameter FuzzedSparseTensor FuzzedTensor Fuzzer "
            "ParameterAlias",
            "Timer and Compare time statements on tensors of one's own",
        ),
    ),
    "utils.checkpoint": (
        raises(
            "SelectiveCheckpointContext create_selective_checkpoint_contexts",
            "torch.compile(…, saved_bytes=…) chooses what is kept; checkpoint a smaller part",
        ),
    ),
    "utils.cpp_extension": (
        raises(
            "BuildExtension CppExtension CUDAExtension include_paths load load_inline",
            "C++ extensions need PyTorch; torch.library.custom_op registers a function of Python",
        ),
    ),
    "utils.tensorboard.SummaryWriter": (
        raises(
            "add_onnx_graph",
            "add_graph shows a Module's graph",
        ),
    ),
    "xpu": _ELSEWHERE,
}
"""By module."""
