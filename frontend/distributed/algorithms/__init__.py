"""`torch.distributed.algorithms`: contexts for uneven inputs (`join`), hooks that reduce the
gradients of DistributedDataParallel (`ddp_comm_hooks`)."""

from frontend.distributed.algorithms import ddp_comm_hooks as ddp_comm_hooks
from frontend.distributed.algorithms import join as join
from frontend.distributed.algorithms.join import Join as Join
from frontend.distributed.algorithms.join import Joinable as Joinable
from frontend.distributed.algorithms.join import JoinHook as JoinHook
