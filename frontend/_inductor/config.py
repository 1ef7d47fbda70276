"""Switches of PyTorch's compiler: they may be set and change nothing here."""

coordinate_descent_tuning = epilogue_fusion = fx_graph_cache = max_autotune = False
coordinate_descent_check_all_directions = force_fuse_int_mm_with_mul = freezing = False


class cpp:
    """Those of its code for processors."""

    threads = -1
    simdlen = None
    enable_kernel_profile = False


class triton:
    """Those of its code for GPUs."""

    cudagraphs = cudagraph_trees = unique_kernel_names = False
