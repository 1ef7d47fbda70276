"""`torch.distributed.fsdp`: sharded training of several processes, which is not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.fsdp",
        "CPUOffload FullStateDictConfig FullyShardedDataParallel MixedPrecision ShardingStrategy "
        "StateDictType BackwardPrefetch fully_shard",
        "there is one process; train the module itself",
    )
)
