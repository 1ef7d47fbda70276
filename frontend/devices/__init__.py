"""Names of PyTorch about where and how it runs: threads, determinism, default devices."""
