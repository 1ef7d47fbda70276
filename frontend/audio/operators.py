"""torchaudio's compiled operators that its own Python asks for when it is imported, as
`torch.ops.torchaudio.*`: filters that run sample after sample. `torch.ops.load_library` of its
library, which is made for PyTorch's own, comes here.

They write into a tensor that they are given, eagerly. What aligns text with sound, and the loss of
transducers, is known by name and raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.library import Library

__all__ = ["cuda_version", "is_align_available"]


def _lfilter_core_loop(windows: Tensor, coefficients: Tensor, padded: Tensor) -> None:
    """The recursive part of a filter: `padded` [batch, channels, order - 1 + time] begins with
    zeros and gets windows [batch, channels, time] less its own last values times `coefficients`
    [channels, order], the last of which stands for the value itself. Raises TraceError in a
    trace."""
    eager_only("lfilter")
    result = np.array(padded.detach().numpy())
    factors, inputs = coefficients.detach().numpy(), windows.detach().numpy()
    order = factors.shape[1]
    for at in range(inputs.shape[2]):
        value = inputs[:, :, at].copy()
        for tap in range(order):
            value -= result[:, :, at + tap] * factors[:, tap]
        result[:, :, at + order - 1] = value
    padded.detach().copy_(creation.from_numpy(result))


def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output: Tensor
) -> None:
    """A blocker of direct current on `temp` [batch, time], added to half of `waveform`, into
    `output`; `last_in` and `last_out` [batch] are what came before, and after. Raises TraceError in
    a trace."""
    eager_only("overdrive")
    inputs, sounds = temp.detach().numpy(), waveform.detach().numpy()
    before, after = (np.array(x.detach().numpy()) for x in (last_in, last_out))
    result = np.array(output.detach().numpy())
    for at in range(inputs.shape[1]):
        after = inputs[:, at] - before + result.dtype.type(0.995) * after
        before = inputs[:, at]
        half, louder = result.dtype.type(0.5), result.dtype.type(0.75)
        result[:, at] = sounds[:, at] * half + after * louder
    for place, values in ((last_in, before), (last_out, after), (output, result)):
        place.detach().copy_(creation.from_numpy(np.array(values)))


def is_align_available() -> bool:
    """Whether `forced_align` is here: it is not."""
    return False


def cuda_version() -> None:
    """The CUDA that the library was compiled with: none."""


_OPERATORS: dict[Callable[..., Any], str] = {
    _lfilter_core_loop: "(Tensor input_signal_windows, Tensor a_coeff_flipped, "
    "Tensor(a!) padded_output_waveform) -> ()",
    _overdrive_core_loop: "(Tensor waveform, Tensor temp, Tensor(a!) last_in, "
    "Tensor(b!) last_out, Tensor(c!) output_waveform) -> ()",
}
_ABSENT = {
    "rnnt_loss_forward": "(Tensor logits, Tensor targets, Tensor logit_lengths, "
    "Tensor target_lengths, int blank, float clamp, bool fused_log_softmax) -> (Tensor, Tensor?)",
    "forced_align": "(Tensor log_probs, Tensor targets, Tensor input_lengths, "
    "Tensor target_lengths, int blank) -> (Tensor, Tensor)",
}
"""Known by name, and without a kernel."""

_LIBRARY = Library("torchaudio", "DEF")
for _function, _schema in _OPERATORS.items():
    _LIBRARY.define(_function.__name__ + _schema)
    _LIBRARY.impl(_function.__name__, _function, "CPU")
for _name, _schema in _ABSENT.items():
    _LIBRARY.define(_name + _schema)
_FACTS = Library("_torchaudio", "DEF")
for _fact, _schema in ((is_align_available, "() -> bool"), (cuda_version, "() -> int?")):
    _FACTS.define(_fact.__name__ + _schema)
    _FACTS.impl(_fact.__name__, _fact, "CompositeExplicitAutograd")
