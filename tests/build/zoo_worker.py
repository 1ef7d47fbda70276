"""One process, in which the frontend is `torch`: builds a model of the zoo for each target, and
holds ten calls of the host's object to those of the compiled function.

python -m tests.build.zoo_worker NAME train|infer FOLDER TARGET...

FOLDER/TARGET has what was built. It ends with 1, and says what differs.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 10
SIZES = (4, 3, 1, 9, 2, 7, 6)


def main(name: str, how: str, folder: Path, targets: list[str]) -> None:
    import torch

    from tests.build import zoo_models

    trains = how == "train"
    call, draw = zoo_models.function(name, trains)
    with torch.set_grad_enabled(trains):
        for target in targets:
            built = call.build(folder / target, *draw(4), target=target, name=name, calls=STEPS)
            print(built)
        sizes = zoo_models.SEVEN.get(name, SIZES) if trains else SIZES
        _holds(call, draw, sizes)


def _holds(call: Any, draw: Any, sizes: tuple[int, ...]) -> None:
    """Assert that results and state have the bits of the compiled function."""
    from frontend.engine.compiled.building import source_of
    from tests.build.loaded import LoadedObject

    loaded = LoadedObject(source_of(call.function, draw(4), {}, call.options, False))
    state = loaded.state(loaded.file)
    for step in range(STEPS):
        size = sizes[step % len(sizes)]
        arguments = draw(size)
        arrays = [np.array(x.numpy()) for x in arguments]
        expected = call(*arguments).detach().numpy()
        (result,), text = loaded.call(state, arrays, batch=size)
        assert text == "", text
        assert result.tobytes() == expected.tobytes(), f"call {step} of size {size} differs"
    program = call.specializations[-1].program
    sources = dict(zip(program.inputs.names, program.inputs.sources, strict=True))
    fields = loaded.fields(state)
    assert sources.keys() >= fields.keys(), fields.keys() - sources.keys()
    for label, array in fields.items():
        assert array.tobytes() == np.array(sources[label].array(())).tobytes(), label


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    from frontend.install import install_as

    install_as("torch")
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
