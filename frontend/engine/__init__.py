"""The engine: what a tensor is, what an op on it does, and how a function becomes a program.

Each folder imports only what stands behind it here: compiled, then frontend.functions, then
tracing, sizes, outside, eager, tensors. docs/engine.md tells how they meet.

tensors: Tensor, its memory and state, and the contract of a mode. eager: ops that compute now, and
the tape. outside: where values live that a compiled function reads, and what must hold of them.
sizes: which sizes and numbers a program leaves open. tracing: a session, which records a graph.
compiled: programs made of traces, and how a call finds its own.
"""
