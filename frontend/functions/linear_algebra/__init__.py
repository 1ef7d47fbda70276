"""Solutions of linear systems, determinants, factorizations and spectra of batches of matrices.

They run eagerly, by NumPy's LAPACK; `frontend.linalg` shows them under PyTorch's names. Imported
when first asked for.
"""
