"""`frontend.fx`: a function or Module as a graph of the calls it makes, to look at and change.

`symbolic_trace` runs it on `Proxy`s, which stand for its arguments and note what is done with them
in a `Graph`; a `GraphModule` runs the graph, as Python code written from it. (This is a graph of
Python calls. What `frontend.compile` compiles is another one: `graphc.ir`.)

_symbolic_trace and proxy trace, node and graph are what comes out, graph_module runs it as
code_generation writes it, interpreter node by node. subgraph_rewriter replaces patterns,
immutable_collections are what arguments lie in, traceback says where calls come from.
"""

from __future__ import annotations

from frontend.fx import traceback
from frontend.fx._symbolic_trace import Tracer, symbolic_trace, wrap
from frontend.fx.graph import Graph
from frontend.fx.graph_module import GraphModule
from frontend.fx.interpreter import Interpreter, Transformer
from frontend.fx.node import Node, has_side_effect, map_arg
from frontend.fx.proxy import Proxy
from frontend.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
    "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "traceback", "wrap",
]  # fmt: skip
