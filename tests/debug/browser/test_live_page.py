"""Pages that run a function in a browser: the bits of this process, from both modules; the digits'
step trains there to the example's accuracy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import safetensors
from graphc.debug.cli import main
from tests.build.models import cases, compiled
from tests.debug.browser.conftest import ROOT
from tests.debug.browser.waiting import until

sys.path.append(str(ROOT / "examples"))
try:
    import digits
finally:
    sys.path.remove(str(ROOT / "examples"))

SESSION = "document.getElementById('live').live"
READY = f"{SESSION} !== undefined"
TYPES = ("--input", "f32[batch=64,64]", "--input", "i64[batch=64]<10", "--data", "mlp_data")
MLP = str(ROOT / "examples" / "digits.py") + ":mlp_step"
Shown = Callable[..., Any]
STEPS, PEAK = 1320, 1e-3
"""Of the example: 60 epochs of 22 batches, and its learning rate, which falls to 0."""


@pytest.fixture
def shown(browser: Any) -> Iterator[Shown]:
    """A page of a file, when it is ready; nothing is asked for but that, nothing said."""
    said: list[str] = []
    asked: list[str] = []
    pages: list[Any] = []

    def show(path: Path, before: str = "") -> Any:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        if before:
            page.add_init_script(before)
        pages.append(page)
        page.goto(path.as_uri())
        until(page, READY)
        return page

    yield show
    for page in pages:
        page.close()
    assert said == []
    assert all(url.startswith(("data:", "blob:", "file:")) for url in asked), asked


@pytest.fixture(scope="module")
def digits_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    assert main(["build", MLP, *TYPES, "--kind", "page", "-o", str(folder)]) == 0
    return folder / "mlp_step.html"


def state_of(page: Any) -> dict[str, np.ndarray]:
    """The state of a page's session by key, from the bytes that it would save."""
    listed = page.evaluate(f"Array.from({SESSION}.built.toBytes())")
    return {key: value.numpy() for key, value in safetensors.load(bytes(listed)).items()}


def test_the_page_of_digits_trains_with_the_bits_of_this_process(
    digits_page: Path, shown: Shown
) -> None:
    page = shown(digits_page)
    assert page.evaluate(f"{SESSION}.differences") == []
    assert "the same bits" in page.inner_text("#live p")
    assert page.evaluate(f"{SESSION}.batch") == 64
    slides = "(slider) => { slider.value = 100; slider.dispatchEvent(new Event('input')); }"
    page.locator("#live input[type=range]").evaluate(slides)
    assert page.evaluate(f"{SESSION}.batch") == 100
    torch.manual_seed(0)
    x, y = digits.mlp_data()
    steps = 20
    taken = page.evaluate(
        f"""Array.from({{ length: {steps} }}, (_, i) => {{
          const s = {SESSION}; s.batch = 100 - i; s.step();
          return [Array.from(s.rows), s.curve[i]];
        }})"""
    )
    model = digits.make_mlp()
    keys = [f"{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")]
    fresh = shown(digits_page)
    start, end = state_of(fresh), state_of(page)
    model.load_state_dict({key: torch.from_numpy(start[key]) for key in keys})
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK)
    step = torch.compile(lambda a, b: digits.step_of(model, optimizer, a, b))
    for rows, loss in taken:
        assert step(x[rows], y[rows]).item() == loss
    for key, value in model.state_dict().items():
        assert value.numpy().tobytes() == end[key].tobytes(), key


@pytest.mark.parametrize("engine", ["relaxed", "computed"])
def test_digits_are_learned_to_the_accuracy_of_the_example(
    digits_page: Path, shown: Shown, engine: str
) -> None:
    """With its learning rate, which falls; without relaxed_madd the same, slower."""
    before = "" if engine == "relaxed" else "WebAssembly.validate = () => false;"
    page = shown(digits_page, before)
    assert page.evaluate(f"{SESSION}.isFused") == (engine == "relaxed")
    assert page.evaluate(f"{SESSION}.differences") == []
    steps = STEPS if engine == "relaxed" else 60
    last = page.evaluate(
        f"""(() => {{ const s = {SESSION};
          for (let i = 0; i < {steps}; i++) {{
            s.built.field("lr")[0] = {PEAK} * (1 - i / {STEPS});
            s.step();
          }}
          s.view.draw();
          return s.curve[s.curve.length - 1]; }})()"""
    )
    state = state_of(page)
    x, y = (np.asarray(each) for each in digits.read_digits((64,))[1].tensors)
    for layer in (0, 2, 4):
        x = x @ state[f"{layer}.weight"].T + state[f"{layer}.bias"]
        x = np.maximum(x, 0) if layer < 4 else x
    accuracy = (x.argmax(1) == y).mean()
    assert accuracy >= (0.97 if engine == "relaxed" else 0.7), (accuracy, last)
    assert f"{steps} calls" in page.inner_text("#live output")


def test_the_page_answers(digits_page: Path, shown: Shown) -> None:
    page = shown(digits_page)
    page.click("text=one call")
    assert page.inner_text("#live output").startswith("1 calls, epoch 1, result ")
    page.click("text=train")
    until(page, f"{SESSION}.curve.length > 30")
    page.click("text=pause")
    assert page.evaluate("document.querySelectorAll('#live figure').length") == 18
    page.click("text=start over")
    assert page.inner_text("#live output") == "0 calls, epoch 1"
    page.locator("#live input[aria-label=lr]").fill("0.5")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{SESSION}.built.field('lr')[0]") == 0.5
    with page.expect_download() as download:
        page.click("text=save the state")
    assert download.value.suggested_filename == "mlp_step.safetensors"
    page.evaluate(f"{SESSION}.data[1].fill(99n)")
    page.click("text=one call")
    assert "is out of bounds" in page.inner_text("#live output")


@pytest.mark.parametrize("name", cases("inference", "lstm", "lenet", "gpt", "dropout"))
def test_models_have_the_bits_of_this_process(name: str, tmp_path: Path, shown: Shown) -> None:
    function, draw = compiled(name)
    with torch.set_grad_enabled(name != "inference"):
        function.build(tmp_path, *draw(4), kind="page", name=name, calls=7)
    page = shown(tmp_path / f"{name}.html")
    assert page.evaluate(f"[{SESSION}.isFused, {SESSION}.differences]") == [True, []]
    page.evaluate(f"{SESSION}.step()")


def test_a_live_report(tmp_path: Path, shown: Shown) -> None:
    path = tmp_path / "report.html"
    assert main(["report", MLP, "--live", *TYPES, "--seconds", "0.05", "-o", str(path)]) == 0
    page = shown(path)
    until(page, "document.body.dataset.ready === '1'")
    assert page.evaluate(f"{SESSION}.differences") == []
    page.click("#live >> text=one call")
    assert page.inner_text("#live output").startswith("1 calls")
    assert page.locator("#timeline rect[data-step]").count() > 2
