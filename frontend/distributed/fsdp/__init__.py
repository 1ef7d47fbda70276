"""`torch.distributed.fsdp`: parameters in shares, which are not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.fsdp",
        "CPUOffload FullStateDictConfig FullyShardedDataParallel MixedPrecision ShardingStrategy "
        "StateDictType BackwardPrefetch fully_shard",
        "each rank holds all parameters: DistributedDataParallel trains data parallel, and "
        "ZeroRedundancyOptimizer keeps the optimizer's state in shares",
    )
)
