"""`nn.utils`: clipping, parameters as a vector, packed and padded sequences, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend

NORMS = [2.0, 1.0, 3.0, 0.0, "inf", float("inf"), float("-inf"), "2"]


def with_gradients(system: Any, scale: float = 1.0) -> list[Any]:
    """Parameters with gradients, one without."""
    parameters = []
    for grad in ([1.0, -2.0, 3.0], [[0.5, 0.0]], None, [4.0]):
        parameter = system.nn.Parameter(system.ones(3 if grad is None else np.shape(grad)))
        parameter.grad = None if grad is None else system.tensor(grad) * scale
        parameters.append(parameter)
    return parameters


@pytest.mark.parametrize("norm_type", NORMS, ids=str)
@pytest.mark.parametrize("scale", [0.01, 1.0, float("inf"), float("nan")])
def test_clip_grad_norm(peer: Any, norm_type: Any, scale: float) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        parameters = with_gradients(system, scale)
        grads = [p.grad for p in parameters]
        log.append(repr(system.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type).item()))
        log.append([repr(p.grad) for p in parameters])
        return [p.grad is grad for p, grad in zip(parameters, grads, strict=True)]

    # The texts hold four digits, and tell NaN from NaN.
    if np.isfinite(scale):
        peer.script(lambda system, log: [clipped(system, scale, norm_type)])
    else:
        peer.script(script)


def clipped(system: Any, scale: float, norm_type: Any) -> Any:
    parameters = with_gradients(system, scale)
    total = system.nn.utils.clip_grad_norm_(iter(parameters), 1.0, norm_type)
    return [total, [p.grad for p in parameters if p.grad is not None]]


CALLS = {
    "total norm": lambda s: s.nn.utils.get_total_norm([s.ones(3), s.zeros(2)]),
    "total norm of one": lambda s: s.nn.utils.get_total_norm(s.ones(3), 1),
    "total norm of none": lambda s: s.nn.utils.get_total_norm([]),
    "total norm of integers": lambda s: s.nn.utils.get_total_norm([s.tensor([1, 2])]),
    "two dtypes": lambda s: s.nn.utils.get_total_norm([s.ones(3), s.ones(2, dtype=s.float64)]),
    "with a norm": lambda s: s.nn.utils.clip_grads_with_norm_(
        with_gradients(s), 1.0, s.tensor(4.0)
    ),
    "with a number": lambda s: s.nn.utils.clip_grads_with_norm_(with_gradients(s), 1.0, 4.0),
    "no gradients": lambda s: s.nn.utils.clip_grad_norm_([s.nn.Parameter(s.ones(1))], 1.0),
    "nothing": lambda s: s.nn.utils.clip_grad_norm_([], 1.0),
    "an empty generator": lambda s: s.nn.utils.clip_grad_norm_((p for p in ()), 1.0),
    "one parameter": lambda s: s.nn.utils.clip_grad_norm_(with_gradients(s)[0], 1.0),
    "text norm": lambda s: s.nn.utils.clip_grad_norm_(with_gradients(s), 1.0, "x"),
    "text limit": lambda s: s.nn.utils.clip_grad_norm_(with_gradients(s), "1.5"),
    "no limit": lambda s: s.nn.utils.clip_grad_norm_(with_gradients(s), "a"),
    "a number": lambda s: s.nn.utils.clip_grad_norm_(3, 1.0),
    "numbers": lambda s: s.nn.utils.clip_grad_norm_([3], 1.0),
    "the old name": lambda s: s.nn.utils.clip_grad_norm(with_gradients(s), 1.0),
    "not finite": lambda s: s.nn.utils.clip_grad_norm_(
        with_gradients(s, float("inf")), 1.0, error_if_nonfinite=True
    ),
    "finite": lambda s: s.nn.utils.clip_grad_norm_(
        with_gradients(s), 1.0, error_if_nonfinite=True, foreach=False
    ),
    "value": lambda s: s.nn.utils.clip_grad_value_(with_gradients(s), 1.5),
    "value text": lambda s: s.nn.utils.clip_grad_value_(with_gradients(s), "a"),
    "to a vector": lambda s: s.nn.utils.parameters_to_vector(with_gradients(s)),
    "nothing to a vector": lambda s: s.nn.utils.parameters_to_vector([]),
    "from a list": lambda s: s.nn.utils.vector_to_parameters([1.0], with_gradients(s)),
    "from a short vector": lambda s: s.nn.utils.vector_to_parameters(s.ones(4), with_gradients(s)),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls(peer: Any, case: str) -> None:
    peer.script(lambda system, log: CALLS[case](system))


def test_clip_grad_value(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        parameters = with_gradients(system)
        system.nn.utils.clip_grad_value_(parameters, 1.5)
        return [p.grad for p in parameters if p.grad is not None]

    peer.script(script)


def test_vectors_share_memory_with_the_parameters(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        parameters = with_gradients(system)
        vector = system.arange(9.0)
        system.nn.utils.vector_to_parameters(vector, parameters)
        log.append([parameters, [p.is_leaf for p in parameters]])
        vector.fill_(7.0)
        total = system.nn.utils.parameters_to_vector(parameters)
        (total * total).sum().backward(inputs=parameters[3])
        return [parameters, parameters[3].grad]

    peer.script(script)


# -- sequences -----------------------------------------------------------------------------------

LENGTHS = [[4, 2, 1], [4, 4, 4], [1, 1, 1]]
UNSORTED = [[2, 4, 1], [1, 1, 3], [3, 3, 1]]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("lengths", [*LENGTHS, *UNSORTED], ids=str)
def test_packing_and_back(peer: Any, lengths: Any, rest: Any, batch_first: bool) -> None:
    def run(system: Any, x: Any) -> Any:
        rnn = system.nn.utils.rnn
        packed = rnn.pack_padded_sequence(
            x, lengths, batch_first=batch_first, enforce_sorted=lengths in LENGTHS
        )
        padded, counts = rnn.pad_packed_sequence(packed, batch_first, -2.0, 5)
        unpacked = rnn.unpack_sequence(packed)
        indices = [i for i in packed[2:] if i is not None]
        return [packed.data, packed.batch_sizes, padded, counts, unpacked, indices]

    shape = (3, 4) if batch_first else (4, 3)
    peer.function(run, peer.normal(*shape, *rest))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("shapes", [[(3,), (1,), (4,)], [(2, 2), (5, 2)], [(2,)]], ids=str)
def test_padding(peer: Any, shapes: Any, batch_first: bool, side: str) -> None:
    def run(system: Any, *sequences: Any) -> Any:
        rnn = system.nn.utils.rnn
        padded = rnn.pad_sequence(list(sequences), batch_first, 1.5, side)
        lengths = [len(x) for x in sequences]
        # PyTorch transposes what it is given.
        return [padded, rnn.unpad_sequence(padded.clone(), system.tensor(lengths), batch_first)]

    def eager_only(system: Any, *sequences: Any) -> Any:
        return system.nn.utils.rnn.pad_sequence(sequences, batch_first, 1.5, side)

    arrays = [peer.normal(*shape) for shape in shapes]
    peer.function(run, *arrays, modes=("eager",))
    peer.function(eager_only, *arrays)


SEQUENCES = {
    "sorted": lambda s: s.nn.utils.rnn.pack_sequence([s.ones(3, 2), s.ones(2, 2)]),
    "unsorted": lambda s: s.nn.utils.rnn.pack_sequence([s.ones(1), s.ones(2)]),
    "unsorted allowed": lambda s: s.nn.utils.rnn.pack_sequence([s.ones(1), s.ones(2)], False),
    "too few lengths": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 3), [4, 2]),
    "a length of 0": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 2), [4, 0]),
    "a negative length": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 2), [4, -1]),
    "long lengths": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 2), [5, 1]),
    "float lengths": lambda s: s.nn.utils.rnn.pack_padded_sequence(
        s.ones(4, 2), s.tensor([4.0, 1.0])
    ),
    "2-d lengths": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 2), s.tensor([[4, 1]])),
    "no batch": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4, 0), []),
    "no dimensions": lambda s: s.nn.utils.rnn.pack_padded_sequence(s.ones(4), [4]),
    "no tensor": lambda s: s.nn.utils.rnn.pack_padded_sequence(3, [4]),
    "short total": lambda s: s.nn.utils.rnn.pad_packed_sequence(
        s.nn.utils.rnn.pack_sequence([s.ones(3)]), total_length=2
    ),
    "pad nothing": lambda s: s.nn.utils.rnn.pad_sequence([]),
    "pad a number": lambda s: s.nn.utils.rnn.pad_sequence(3),
    "pad numbers": lambda s: s.nn.utils.rnn.pad_sequence([1, 2]),
    "pad scalars": lambda s: s.nn.utils.rnn.pad_sequence([s.tensor(1.0)]),
    "pad misfits": lambda s: s.nn.utils.rnn.pad_sequence([s.ones(2, 3), s.ones(3, 2)]),
    "pad two dtypes": lambda s: s.nn.utils.rnn.pad_sequence([s.ones(2), s.tensor([1, 2, 3])]),
    "pad a tensor": lambda s: s.nn.utils.rnn.pad_sequence(s.ones(2, 3)),
    "pad a generator": lambda s: s.nn.utils.rnn.pad_sequence(s.ones(i) for i in (1, 2)),
    "pad nowhere": lambda s: s.nn.utils.rnn.pad_sequence([s.ones(2)], padding_side="top"),
    "unpad a wrong batch": lambda s: s.nn.utils.rnn.unpad_sequence(s.ones(3, 2), s.tensor([1])),
    "invert": lambda s: s.nn.utils.rnn.invert_permutation(s.tensor([2, 0, 1])),
    "invert None": lambda s: s.nn.utils.rnn.invert_permutation(None),
    "made by hand": lambda s: s.nn.utils.rnn.PackedSequence(
        s.ones(3), s.tensor([2, 1]), s.tensor([1, 0])
    ),
    "made of a pair": lambda s: s.nn.utils.rnn.PackedSequence((s.ones(3), s.tensor([2, 1]))),
    "made of data": lambda s: s.nn.utils.rnn.PackedSequence(s.ones(3)),
    "made of a list": lambda s: s.nn.utils.rnn.PackedSequence(s.ones(3), [2, 1]),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_sequences(peer: Any, case: str) -> None:
    peer.script(lambda system, log: SEQUENCES[case](system))


def test_conversions_of_packed_sequences(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        packed = system.nn.utils.rnn.pack_sequence([system.ones(2), system.ones(1)])
        for converted in (packed.double(), packed.to(system.float64), packed.long(), packed.int()):
            log.append([str(converted.data.dtype), converted.batch_sizes])
        log.append([packed.to("cpu") is packed, packed.float() is packed, packed.cpu() is packed])
        log.append([packed.is_cuda, packed.is_pinned(), packed._fields, len(packed)])
        return packed.cuda()

    _, error = peer.script(script)
    assert isinstance(error, AssertionError)


def test_a_model_that_packs_its_input(peer: Any) -> None:
    def make(nn: Any) -> Any:
        class Net(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.lstm = nn.LSTM(2, 3)

            def forward(self, x: Any) -> Any:
                rnn = nn.utils.rnn
                packed = rnn.pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False)
                output, (hidden, cell) = self.lstm(packed)
                return rnn.pad_packed_sequence(output)[0], hidden, cell

        return Net()

    peer.module(make, peer.normal(4, 3, 2))


def test_a_clipped_step_is_compiled(peer: Any) -> None:
    def step(system: Any, model: Any, x: Any) -> Any:
        model.zero_grad()
        model(x).square().sum().backward()
        total = system.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        system.nn.utils.clip_grad_value_(model.parameters(), 0.2)
        return total

    x = peer.normal(5, 3)
    theirs, ours = peer.torch.nn.Linear(3, 2), frontend.nn.Linear(3, 2)
    ours.load_state_dict(
        {k: frontend.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()}
    )
    compiled = frontend.compile(lambda x: step(frontend, ours, x))
    for _ in range(2):
        expected = step(peer.torch, theirs, peer.torch.tensor(x))
        peer.agree(compiled(frontend.tensor(x)), expected)
        for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
            peer.agree(p.grad, q.grad)


@pytest.mark.parametrize("trivialized", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights(
    peer: Any, orthogonal_map: str, shape: tuple[int, int], trivialized: bool
) -> None:
    """The same weights after three steps; columns that a base is filled up with are drawn."""
    drawn = np.random.default_rng(3).normal(size=shape)

    def script(system: Any, log: list[Any]) -> Any:
        system.manual_seed(1)
        layer = system.nn.Linear(shape[1], shape[0], bias=False, dtype=system.float64)
        layer.weight.data = system.tensor(drawn)
        system.nn.utils.parametrizations.orthogonal(
            layer, orthogonal_map=orthogonal_map, use_trivialization=trivialized
        )
        optimizer = system.optim.SGD(layer.parameters(), 0.01)
        x = system.ones(2, shape[1], dtype=system.float64)
        for _ in range(3):
            optimizer.zero_grad()
            (layer(x) ** 3).sum().backward()
            optimizer.step()
            log.append([p for p in layer.state_dict()])
        return layer.weight

    peer.script(script)
