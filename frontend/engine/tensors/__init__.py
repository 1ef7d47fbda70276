"""The Tensor and what it consists of, below everything that computes with it.

tensor is the class, over autograd_members (leaves, `.grad`, hooks) and host_values (numbers, NumPy,
indices; no_value is what they raise in a trace); views say which memory it shares; dtypes are
PyTorch's over graphc's. state is the thread's (no_grad, default dtype, backend) and lists all that
is hidden, epoch tells whether what compiled functions rely on was written, observer is who looks on
while ops run. hooks, dlpack and generator stand low because tensors need them. Methods that
compute, and whatever needs what is built on Tensor, are attached by frontend.namespace.methods.
"""
