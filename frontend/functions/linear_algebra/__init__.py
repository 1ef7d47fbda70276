"""Solutions of linear systems, determinants, factorizations and spectra of batches of matrices.

They run eagerly, by NumPy's LAPACK; `frontend.linalg` shows them under PyTorch's names. Imported
when first asked for.

solving has systems, inverses and determinants, symmetric_indefinite those that need not be
definite, decompositions and eigen the factors and spectra, functions_of_matrices exponentials and
condition numbers; former has PyTorch's older names, checks what all ask of their arguments.
"""
