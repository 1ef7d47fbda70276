"""The package functorch, as it comes with PyTorch: what torch.func was before. Where the frontend
is installed as torch it stands for it."""

from __future__ import annotations

from frontend._functorch.make_functional import FunctionalModule as FunctionalModule
from frontend._functorch.make_functional import (
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)
from frontend._functorch.make_functional import (
    combine_state_for_ensemble as combine_state_for_ensemble,
)
from frontend._functorch.make_functional import make_functional as make_functional
from frontend._functorch.make_functional import (
    make_functional_with_buffers as make_functional_with_buffers,
)
from frontend.func import grad as grad
from frontend.func import grad_and_value as grad_and_value
from frontend.func import hessian as hessian
from frontend.func import jacfwd as jacfwd
from frontend.func import jacrev as jacrev
from frontend.func import jvp as jvp
from frontend.func import vjp as vjp
from frontend.func import vmap as vmap
from frontend.namespace.stubs import stubs

make_fx = stubs("fx.experimental.proxy_tensor")["make_fx"]
