"""The Tensor and what it consists of, below everything that computes with it.

tensor is the class, over autograd_members (leaves, `.grad`, hooks) and host_values (numbers, NumPy,
indices); views say which memory it shares; dtypes are PyTorch's over graphc's. state is the
thread's (no_grad, default dtype, backend), epoch what has changed since functions were compiled.
Methods that compute are attached by frontend.functions.methods.
"""
