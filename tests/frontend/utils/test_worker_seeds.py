"""What PyTorch seeds NumPy's generator by, in worker processes."""

from __future__ import annotations

import numpy as np

from frontend.utils.data._utils.worker import _generate_state

OF_PYTORCH = {
    (0, 0): [2968811710, 3677149159, 745650761, 2884920346],
    (5, 1): [3025039489, 3528014902, 3507927383, 2601490367],
    (8152436061464415727, 3): [339508029, 3655928515, 4182428533, 924324491],
}
"""By base seed and worker, of 2.13."""


def test_seeds_are_pytorchs() -> None:
    for (base, worker), words in OF_PYTORCH.items():
        assert _generate_state(base, worker) == words


def test_a_worker_draws_by_them() -> None:
    import frontend

    class Drawn(frontend.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[int, int]:
            info = frontend.utils.data.get_worker_info()
            return info.seed - info.id, int(np.random.randint(1 << 30))

    loader = frontend.utils.data.DataLoader(Drawn(), batch_size=2, num_workers=2)
    for worker, (bases, drawn) in enumerate(loader):
        state = np.random.RandomState(_generate_state(int(bases[0]), worker))
        assert [int(x) for x in drawn] == [state.randint(1 << 30) for _ in range(2)]
