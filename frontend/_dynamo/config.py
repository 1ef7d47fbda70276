"""Switches of PyTorch's tracer: they may be set and change nothing."""

cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
verbose = suppress_errors = capture_scalar_outputs = False
assume_static_by_default = automatic_dynamic_shapes = specialize_int = True
dynamic_shapes = optimize_ddp = compiled_autograd = False
