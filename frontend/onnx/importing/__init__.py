"""ONNX models as Modules.

- files: a model's bytes, and the data beside its file
- reading: from protobuf messages to graphs of declared operators
- graphs: such graphs
- module: the Module that runs one
- declarations: the table of operators; ops fills it, a file per family
- control: operators that hold graphs
- numbers: arrays of numbers, which decide how a model is computed
- element_types: ONNX's element types and what holds them; unsigned: arithmetic on unsigned integers
- errors: what is raised
"""
