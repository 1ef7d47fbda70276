"""What modules declare that are imported when a function of theirs is first asked for: written by
`python -m frontend.namespace.lazily`, which a test holds it to."""

LAZY: dict[str, dict[str, str]] = {
    "frontend.functions.bessel_and_gamma": {
        "torch": "i0 igamma igammac mvlgamma",
        "methods": "i0 igamma igammac mvlgamma",
        "in_place": "i0_ igamma_ igammac_ mvlgamma_",
        "in_place_functions": "i0_",
    },
    "frontend.functions.compaction": {
        "torch": "nonzero_static",
        "methods": "nonzero_static",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.control": {
        "torch": "cond scan while_loop",
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.copies": {
        "torch": (
            "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy "
            "permute_copy select_copy slice_copy split_copy split_with_sizes_copy "
            "squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy "
            "view_copy"
        ),
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.differences": {
        "torch": "corrcoef cov cumulative_trapezoid diff gradient trapezoid trapz",
        "methods": "corrcoef cov diff",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.distances": {
        "torch": "cdist dist",
        "methods": "dist",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.drawn_numbers": {
        "torch": "binomial poisson",
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.histograms": {
        "torch": "histogram histogramdd",
        "methods": "histogram",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.integers_and_mantissas": {
        "torch": "frexp gcd hash_tensor lcm nextafter unravel_index",
        "methods": "frexp gcd hash_tensor lcm nextafter",
        "in_place": "gcd_ lcm_ nextafter_",
        "in_place_functions": "gcd_ lcm_",
    },
    "frontend.functions.linear_algebra.factorizations": {
        "torch": "cholesky_inverse cholesky_solve geqrf lu_unpack orgqr ormqr",
        "methods": "cholesky_inverse cholesky_solve geqrf orgqr ormqr",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.linear_algebra.former": {
        "torch": (
            "cholesky eig frobenius_norm lstsq lu lu_solve matrix_rank nuclear_norm pinverse "
            "qr solve svd symeig triangular_solve"
        ),
        "methods": "cholesky eig lstsq lu lu_solve pinverse qr solve svd symeig triangular_solve",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.linear_algebra.functions_of_matrices": {
        "torch": "matrix_exp pca_lowrank svd_lowrank vander",
        "methods": "matrix_exp",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.linear_algebra.solving": {
        "torch": "det inverse logdet slogdet",
        "methods": "det inverse logdet slogdet",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.memory": {
        "torch": "resize_as_",
        "methods": (
            "const_data_ptr is_set_to resize resize_ resize_as resize_as_ set_ storage "
            "storage_offset untyped_storage"
        ),
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.memory_order": {
        "torch": "as_strided_scatter empty_permuted",
        "methods": "as_strided_scatter dim_order",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.order_statistics": {
        "torch": (
            "bincount histc median mode nanmedian nanquantile quantile unique unique_consecutive"
        ),
        "methods": (
            "bincount histc median mode nanmedian nanquantile quantile unique unique_consecutive"
        ),
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.quantization": {
        "torch": (
            "_int_mm dequantize fake_quantize_per_channel_affine "
            "fake_quantize_per_tensor_affine quantize_per_channel quantize_per_tensor"
        ),
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.sparse_layouts": {
        "torch": (
            "dsmm sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
            "sparse_csr_tensor spmm to_sparse"
        ),
        "methods": (
            "ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced "
            "row_indices sparse_dim sparse_mask to_dense to_sparse to_sparse_coo "
            "to_sparse_csc to_sparse_csr values"
        ),
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.tensor_properties": {
        "torch": (
            "get_device is_inference is_inference_mode_enabled is_nonzero is_same_size is_signed"
        ),
        "methods": "is_nonzero is_same_size",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.functions.windows": {
        "torch": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.nn.functional.native_layers": {
        "torch": (
            "affine_grid_generator constant_pad_nd embedding_bag embedding_renorm_ "
            "grid_sampler grid_sampler_2d grid_sampler_3d native_batch_norm native_dropout "
            "native_group_norm native_layer_norm native_norm"
        ),
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.nn.functional.short_time": {
        "torch": "istft stft",
        "methods": "istft stft",
        "in_place": "",
        "in_place_functions": "",
    },
    "frontend.nn.recurrent_functions": {
        "torch": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
        "methods": "",
        "in_place": "",
        "in_place_functions": "",
    },
}
