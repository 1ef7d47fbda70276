"""GGUF files, as llama.cpp and what is built on it keep models: `load` gives their tensors.

    state, metadata = frontend.gguf.load("model.gguf")

container: the file, checked; kinds: how blocks of each kind are numbers. docs/precision.md.
"""

from frontend.gguf.files import load as load

__all__ = ["load"]
