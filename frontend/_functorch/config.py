"""Switches of how PyTorch makes backward graphs: they may be set and change nothing here."""

enable_autograd_cache = donated_buffer = functionalize_rng_ops = False
activation_memory_budget = 1.0
