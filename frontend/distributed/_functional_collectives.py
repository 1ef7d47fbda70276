"""`torch.distributed._functional_collectives`: collectives whose results are new tensors."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed._functional_collectives",
        "AsyncCollectiveTensor all_gather_tensor all_gather_tensor_autograd all_reduce "
        "all_reduce_coalesced all_to_all_single all_to_all_single_autograd broadcast "
        "permute_tensor reduce_scatter_tensor reduce_scatter_tensor_autograd wait_tensor",
        "torch.distributed has the collectives, which write into a tensor they are given",
    )
)
