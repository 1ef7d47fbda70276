"""`torch.utils.data._utils.worker`: what a worker process knows of itself."""

from frontend.utils.data.worker import WorkerInfo as WorkerInfo
from frontend.utils.data.worker import _generate_state as _generate_state
from frontend.utils.data.worker import get_worker_info as get_worker_info
