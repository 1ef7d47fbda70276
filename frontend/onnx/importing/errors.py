"""What is raised for a model that cannot be read or run."""

from __future__ import annotations

from graphc.errors import GraphError


class OnnxError(GraphError, ValueError):
    """A file that is no ONNX model, a model that is damaged, or one with something that is not
    here. The message names the node and its operator."""


class OnnxNotHere(OnnxError, NotImplementedError):
    """A model that uses what there is no meaning for here: strings, sequences, an operator, an
    attribute's value."""
