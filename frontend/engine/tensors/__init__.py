"""The Tensor and what it consists of, below everything that computes with it.

tensor is the class, over autograd_members (leaves, `.grad`, hooks), host_values (numbers, NumPy,
indices; no_value is what they raise where there is none) and added_attributes (its `__dict__`).
views say which memory it shares with what, storages and shared_memory what memory is, and
memory_tracking whether each write to it is counted; dlpack hands it to other libraries. dtypes are
PyTorch's over graphc's, absent_dtypes those that are not here, qschemes names of
quantization, limits their numbers; host_data
makes arrays of Python data, pairs says how graphs have complex numbers, printing text of tensors,
symbolic_numbers stand for sizes and numbers that differ from call to call. tree takes nested
structures of tensors apart; handed_out stands for a value that a trace only passes on.

state is the thread's (no_grad, default dtype, the mode under way) and lists all that is hidden;
threads says on how many compiled code runs. mode is the contract of what ops ask of a trace,
fake_mode one that infers types alone, batch_mode one whose tensors are batches. epoch tells whether
what compiled functions rely on was written, observer who looks on while ops run, hooks are handles;
generator and generator_bytes are streams of random numbers; bounded is the dict of all caches.
Methods that compute, and whatever needs what is built on Tensor, are attached by
frontend.namespace.methods.
"""
