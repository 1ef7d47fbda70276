"""`torch.distributed.fsdp`: parameters in shares, which are not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.fsdp",
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig "
        "FullStateDictConfig FullyShardedDataParallel LocalStateDictConfig MixedPrecision "
        "MixedPrecisionPolicy OffloadPolicy ShardedStateDictConfig ShardingStrategy StateDictType "
        "UnshardHandle fully_shard register_fsdp_forward_method",
        "each rank holds all parameters: DistributedDataParallel trains data parallel, and "
        "ZeroRedundancyOptimizer keeps the optimizer's state in shares",
    )
)
