"""`torch._dynamo.eval_frame`: the class of compiled Modules in PyTorch, which libraries ask about.
`frontend.compile(module)` is none of it: it is called like the Module, and has its attributes."""

from frontend.namespace.absent import absent_names

_ABSENT = absent_names(
    "_dynamo.eval_frame", "OptimizedModule", "frontend.compile(module) makes another"
)
OptimizedModule = _ABSENT["OptimizedModule"]
