"""Activations and dropout against PyTorch: values, gradients, special values, text."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from frontend.functions.declarations import names_of
from tests.frontend.layer_cases.activations import ACTIVATIONS, Activation

IN_PLACE = [
    "ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "SiLU", "Mish", "Hardtanh", "Hardswish",
    "Hardsigmoid", "ReLU6", "RReLU",
]  # fmt: skip
SPECIAL = np.array(
    [-np.inf, np.inf, np.nan, -1e30, 1e30, -104.0, -88.7, 88.7, -20.0, 20.5, -6.0, 6.0, -3.0, 3.0,
     -1.0, 1.0, -0.5, 0.5, 0.4, -1e-5, 1e-5, -1e-30, 1e-30, 0.0, -0.0],
    np.float32,
)  # fmt: skip


@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_layers(peer: Any, case: Activation) -> None:
    peer.module(case.make, peer.normal(3, 4, 5) * 3, training=(False,))


@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_special_values(peer: Any, case: Activation) -> None:
    # PyTorch's gradients at NaN, and its GELU at infinity, depend on the machine's vector code.
    numbers = SPECIAL[np.isfinite(SPECIAL) if case.layer == "GELU" else ~np.isnan(SPECIAL)]
    peer.module(case.make, numbers, training=(False,))
    # One at a time: the bound is relative to the greatest, and small ones count too.
    for x in (-20.0, -5.0, -1e-3, 1e-3, 1e-30, 20.0):
        if case.layer in ("GELU", "Tanh", "Tanhshrink"):  # 1 - tanh² and the like cancel there
            continue
        array = np.array([x], np.float32)
        peer.function(lambda t, x: case.make(t.nn)(x), array, modes=("eager",))


@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_nan_stays_nan(case: Activation) -> None:
    """In the result; the gradient there is whatever the rule gives, but there is one."""
    import frontend as t

    x = t.tensor([float("nan")], requires_grad=True)
    y = case.make(t.nn)(x)
    y.sum().backward()
    assert x.grad is not None
    assert np.isnan(y.detach().numpy()).all()


@pytest.mark.parametrize("case", ACTIVATIONS, ids=str)
def test_second_derivatives(peer: Any, case: Activation) -> None:
    if case.layer == "Hardsigmoid":
        pytest.skip("PyTorch has no second derivative")

    def twice(system: Any, x: Any) -> Any:
        out = case.make(system.nn)(x)
        return system.autograd.grad((out**2).sum(), [x], create_graph=True)[0]

    peer.function(twice, peer.normal(3, 7) * 2)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms(peer: Any, name: str) -> None:
    def run(system: Any, x: Any) -> Any:
        y = x * 1.5
        out = getattr(system.nn, name)(inplace=True).eval()(y)
        assert out is y
        return out, y * 2

    peer.function(run, peer.normal(4, 5) * 3)
    peer.refusal(lambda t: getattr(t.nn, name)(inplace=True)(t.zeros(2, requires_grad=True)))


@pytest.mark.parametrize(
    "name",
    ["relu_", "leaky_relu_", "elu_", "selu_", "celu_", "hardtanh_", "threshold_", "rrelu_"],
)
def test_functions_that_end_in_an_underscore(peer: Any, name: str) -> None:
    arguments = (0.1, 2.0) if name == "threshold_" else ()
    x = peer.normal(4, 5)
    peer.function(lambda t, x: getattr(t.nn.functional, name)(x.detach().clone(), *arguments), x)


def test_prelu(peer: Any) -> None:
    x = peer.normal(2, 3, 4)
    peer.module(lambda nn: nn.PReLU(), x)
    peer.module(lambda nn: nn.PReLU(3, init=-0.3), x)
    peer.module(lambda nn: nn.PReLU(), SPECIAL)
    F = "functional"
    peer.function(lambda t, x, w: getattr(t.nn, F).prelu(x, w[0]), x, peer.normal(1))
    for x, w in [((2, 3), (4,)), ((2, 3), (1, 3)), ((), (2,)), ((3,), (3,)), ((), (1,))]:
        peer.refusal(lambda t, x=x, w=w: t.nn.functional.prelu(t.zeros(x), t.zeros(w)))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_a_dimension(peer: Any, dim: int) -> None:
    x = peer.normal(4, 6, 2)
    for name in ("Softmax", "Softmin", "LogSoftmax", "GLU"):
        peer.module(lambda nn, name=name: getattr(nn, name)(dim), x, training=(True,))
    peer.function(lambda t, x: t.nn.functional.softmin(x, dim, dtype=t.float64), x)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 2)], ids=str)
def test_without_a_dimension(peer: Any, shape: tuple[int, ...]) -> None:
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        peer.module(lambda nn, name=name: getattr(nn, name)(), peer.normal(*shape))
    if len(shape) in (3, 4):
        peer.module(lambda nn: nn.Softmax2d(), peer.normal(*shape))
    else:
        peer.refusal(lambda t: t.nn.Softmax2d()(t.zeros(shape)))


def test_softmax_of_special_values(peer: Any) -> None:
    inf = np.inf
    rows = np.array([[1, -inf, 2], [-inf, -inf, -inf], [inf, 0, 1], [np.nan, 0, 1]], np.float32)
    for name in ("softmax", "log_softmax"):
        peer.function(lambda t, x, name=name: getattr(t.nn.functional, name)(x, 1), rows)


TEXTS = [
    "ReLU()", "ReLU(True)", "LeakyReLU(0.1, True)", "LeakyReLU()", "PReLU(3)", "RReLU()",
    "RReLU(0.1, 0.2, True)", "ELU()", "ELU(2, True)", "SELU()", "SELU(True)", "CELU()",
    "CELU(1.5, True)", "GELU()", "SiLU()", "SiLU(True)", "Mish()", "Mish(True)", "Sigmoid()",
    "LogSigmoid()", "Tanh()", "Tanhshrink()", "Softplus()", "Softplus(1, 2)", "Softshrink()",
    "Hardshrink(1)", "Softsign()", "Hardtanh()", "Hardtanh(-2, 2, True)", "Hardswish(True)",
    "Hardsigmoid(True)", "ReLU6()", "ReLU6(True)", "Threshold(1, 2)", "Threshold(1., 2, True)",
    "GLU()", "Softmin()", "Softmax(1)", "LogSoftmax()", "Softmax2d()", "Dropout()",
    "Dropout1d(0.1, True)", "Dropout2d()", "Dropout3d(0.2)", "AlphaDropout()",
    "FeatureAlphaDropout(0.3)", "BatchNorm1d(3)", "BatchNorm2d(3, affine=False)",
    "BatchNorm3d(3, momentum=None, track_running_stats=False)", "LayerNorm(3)",
    "LayerNorm([3, 2], bias=False)", "GroupNorm(2, 4)", "InstanceNorm1d(3)",
    "InstanceNorm2d(3, affine=True)", "RMSNorm(3)", "LocalResponseNorm(2)", "Linear(2, 3)",
    "Linear(2, 3, False)", "Bilinear(2, 3, 4)", "Identity(5, a=2)", "Embedding(3, 2)",
    "Embedding(3, 2, 1, 1.0, 1.5, True, True)", "EmbeddingBag(3, 2)",
    "EmbeddingBag(3, 2, 1.0, 3.0, True, 'sum', padding_idx=-1)", "CosineSimilarity()",
    "PairwiseDistance()",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_layer(peer: Any, text: str) -> None:
    import frontend.nn

    mine, theirs = (eval(f"nn.{text}", {"nn": nn}) for nn in (frontend.nn, peer.torch.nn))
    assert repr(mine) == repr(theirs)
    shown = lambda module: {k: v for k, v in vars(module).items() if not k.startswith("_")}  # noqa: E731
    assert shown(mine) == shown(theirs)


FILES = (
    "activation", "batchnorm", "distance", "dropout", "instancenorm", "linear", "loss",
    "loss_margins", "loss_pairs", "normalization", "sparse",
)  # fmt: skip


def parameters_of(function: Any) -> list[Any] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # PyTorch's own code in C++
        return None
    return [(p.name, p.default, p.kind) for p in parameters]


def test_every_signature_is_the_same(peer: Any) -> None:
    for package in ("functional", "modules"):
        for file in FILES:
            try:
                module = import_module(f"frontend.nn.{package}.{file}")
            except ModuleNotFoundError:
                continue
            if package == "functional":
                other, declared = peer.torch.nn.functional, names_of(module.__name__)
                names = [name for each in declared for name in each.in_namespace("nn.functional")]
            else:
                other, names = peer.torch.nn, module.__all__
            assert names, module
            for name in names:
                theirs = parameters_of(getattr(other, name))
                if theirs is None or theirs[0][0] == "args":
                    continue
                assert parameters_of(getattr(module, name)) == theirs, name


TOP_LEVEL = {
    "celu": lambda t, x: t.celu(x, 0.5),
    "selu": lambda t, x: t.selu(x),
    "threshold": lambda t, x: t.threshold(x, 0.2, 3.0),
    "rrelu": lambda t, x: t.rrelu(x),
    "prelu": lambda t, x: t.prelu(x, t.tensor([0.3])) + x.prelu(t.tensor([0.1])),
    "hardshrink": lambda t, x: t.hardshrink(x, 0.3) + x.hardshrink(),
    "dropout": lambda t, x: t.dropout(x, 0.5, False),
    "alpha_dropout": lambda t, x: t.alpha_dropout(x, 0.5, False),
    "feature_alpha_dropout": lambda t, x: t.feature_alpha_dropout(x, 1.0, True),
    "embedding": lambda t, x: t.embedding(x, t.tensor([0, 2, 2]), 2, True),
    "batch_norm": lambda t, x: t.batch_norm(x, None, None, None, None, True, 0.1, 1e-3, False),
    "instance_norm": lambda t, x: t.instance_norm(
        x[None], None, None, None, None, True, 0.1, 1e-3, False
    ),
    "layer_norm": lambda t, x: t.layer_norm(x, (4,), x[0], x[1], 1e-3),
    "rms_norm": lambda t, x: t.rms_norm(x, (4,), x[0]),
    "group_norm": lambda t, x: t.group_norm(x, 2, x[0], x[1]),
    "bce": lambda t, x: t.binary_cross_entropy_with_logits(x, x.detach().abs() / 9, reduction=2),
    "kl_div": lambda t, x: t.kl_div(x, x.detach().abs() + 1, 1),
    "hinge": lambda t, x: t.hinge_embedding_loss(x, x.detach().sign(), 0.5, 0),
    "cosine": lambda t, x: t.cosine_embedding_loss(x, x * x, t.tensor([1, -1, 1]), 0.1),
    "ranking": lambda t, x: t.margin_ranking_loss(x[0], x[1], x.detach()[2].sign(), 0.2, 2),
    "triplet": lambda t, x: t.triplet_margin_loss(x, x * 2, x + 1, 0.7, swap=True),
    "poisson": lambda t, x: t.poisson_nll_loss(x, x.detach().abs(), True, True, 1e-3, 1),
    "cosine_similarity": lambda t, x: t.cosine_similarity(x, x * x),
    "pairwise_distance": lambda t, x: t.pairwise_distance(x, x * x),
    "pdist": lambda t, x: t.pdist(x),
    "bilinear": lambda t, x: t.bilinear(x, x, x.reshape(1, 3, 4)[:, :1].repeat(2, 4, 1)),
}


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_forms_at_the_top_level(peer: Any, name: str) -> None:
    peer.function(TOP_LEVEL[name], peer.normal(3, 4))


INTEGERS = [
    "relu", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "sigmoid", "logsigmoid",
    "tanh", "tanhshrink", "softplus", "softshrink", "hardshrink", "softsign", "hardtanh",
    "hardswish", "hardsigmoid", "relu6", "glu", "rrelu", "normalize", "dropout", "gumbel_softmax",
]  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(peer: Any, name: str) -> None:
    call = lambda t: getattr(t.nn.functional, name)(t.tensor([[-5, 2, 1, 9]]))  # noqa: E731
    peer.refusal(call)
    try:
        call(peer.torch)
    except RuntimeError:
        return
    peer.function(
        lambda t, x: getattr(t.nn.functional, name)(x), np.array([-5, 2, 1, 9]), gradients=False
    )


def test_refusals(peer: Any) -> None:
    peer.refusal(lambda t: t.nn.functional.relu([1.0]))
    peer.refusal(lambda t: t.nn.functional.silu([1.0]))
    peer.refusal(lambda t: t.nn.functional.relu(t.zeros(2, dtype=t.bool)))
    peer.refusal(lambda t: t.nn.functional.glu(t.zeros(3)))
    peer.refusal(lambda t: t.nn.functional.glu(t.tensor(1.0)))
    peer.refusal(lambda t: t.nn.functional.softshrink(t.zeros(3), -1.0))
    peer.refusal(lambda t: t.nn.functional.rrelu(t.zeros(3), 0.5, 0.1))
    peer.refusal(lambda t: t.nn.functional.rrelu(t.zeros(3), 0.5, float("inf"), True))
    peer.refusal(lambda t: t.nn.functional.hardtanh(t.zeros(3), 2, 1))
    peer.refusal(lambda t: t.nn.functional.celu(t.zeros(3), 0.0))
    peer.refusal(lambda t: t.nn.Hardtanh(1, 0))
    peer.refusal(lambda t: t.nn.GELU("x")(t.zeros(2)))
    peer.refusal(lambda t: t.nn.functional.softmax(t.zeros(2), 3))


@pytest.mark.parametrize(
    "name",
    ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"],
)
def test_dropout_in_eval_mode_and_at_the_ends(peer: Any, name: str) -> None:
    x = peer.normal(2, 3, 4, 2, 2)[(slice(None),) * 3 + (0,) * (2 * (name == "Dropout1d"))]
    peer.module(lambda nn: getattr(nn, name)(0.4), x, training=(False,))
    peer.module(lambda nn: getattr(nn, name)(0.0), x)
    peer.module(lambda nn: getattr(nn, name)(1.0), x)
    peer.refusal(lambda t: getattr(t.nn, name)(1.5))
    for shape in ((2,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)):
        peer.refusal(lambda t, s=shape: getattr(t.nn, name)(0.5)(t.zeros(s)) * 0)
    peer.refusal(lambda t: getattr(t.nn, name)(0.5)(t.zeros(2, 3, 4).long()))
