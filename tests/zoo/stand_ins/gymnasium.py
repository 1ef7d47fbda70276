"""Stands in for Gymnasium where it is not installed: the cart with a pole of Barto, Sutton and
Anderson (1983), solved at a lower reward, so that training ends soon."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
STEPS = 500


class CartPole:
    """State: position, velocity, angle, angular velocity. Actions: 0 pushes left, 1 right."""

    spec = SimpleNamespace(id="CartPole-v1", reward_threshold=30.0)

    def __init__(self) -> None:
        self.random = np.random.default_rng()

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        _, speed, angle, turning = self.state
        push = FORCE if action == 1 else -FORCE
        total = CART + POLE
        thrust = (push + POLE * HALF_LENGTH * turning**2 * math.sin(angle)) / total
        inertia = HALF_LENGTH * (4 / 3 - POLE * math.cos(angle) ** 2 / total)
        falling = (GRAVITY * math.sin(angle) - math.cos(angle) * thrust) / inertia
        pulled = thrust - POLE * HALF_LENGTH * falling * math.cos(angle) / total
        self.state = self.state + SECONDS * np.array([speed, pulled, turning, falling])
        self.steps += 1
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)
        return self.state.astype(np.float32), 1.0, bool(fallen), self.steps >= STEPS, {}


def make(name: str, render_mode: str | None = None) -> CartPole:
    if name != "CartPole-v1" or render_mode is not None:
        raise ValueError(f"the stand-in has CartPole-v1 without rendering, not {name}")
    return CartPole()
