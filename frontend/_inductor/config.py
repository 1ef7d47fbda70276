"""Switches of PyTorch's compiler: they may be set and change nothing here."""

coordinate_descent_tuning = epilogue_fusion = fx_graph_cache = max_autotune = False
