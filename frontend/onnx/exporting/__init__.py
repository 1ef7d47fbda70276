"""ONNX models of functions and Modules.

- export: what `torch.onnx.export` does
- program: what it gives
- writer: a graph as a graph of ONNX, node by node
- sizes: extents as operators on shapes
- expansion: composites that have no operator, as what they are made of
- declarations: the table of ops; ops fills it, a file per family
"""
