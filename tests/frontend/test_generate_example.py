"""examples/generate.py: what it computes, how often it is traced, its vocabularies, its errors."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend
from frontend import gguf

FILE = Path(__file__).resolve().parents[2] / "examples" / "generate.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = spec_from_file_location("generate_example", FILE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


@pytest.fixture(autouse=True)
def small(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = example.Sizes(
        vocabulary=96, embedding_length=64, block_count=2, feed_forward_length=96, head_count=4,
        head_count_kv=2, head_length=16, epsilon=1e-5, freq_base=10000.0,
    )  # fmt: skip
    monkeypatch.setattr(example, "SMALL", sizes)


@pytest.fixture
def path(example: Any, tmp_path: Path) -> Path:
    example.random_file(tmp_path / "small.gguf", example.SMALL, 3)
    return tmp_path / "small.gguf"


def model_of(example: Any, path: Path, quantized: bool = True) -> Any:
    return example.model_of(*gguf.load(path, quantized=quantized), 32)


def numbers_of(example: Any, model: Any, compile: Any, temperature: float) -> list[int]:
    frontend.manual_seed(5)
    following = example.writer(model, temperature, 20, compile)
    numbers, times = example.generated(following, [7, 1, 30], 12)
    assert len(times) == len(numbers) == 12 and times == sorted(times)
    return numbers


@pytest.mark.parametrize("temperature", [0.8, pytest.param(0.0, marks=pytest.mark.slow)])
def test_tokens_are_those_of_floats_and_of_eager_mode(
    example: Any, path: Path, temperature: float
) -> None:
    compiled = []

    def compile(function: Any) -> Any:
        compiled.append(frontend.compile(function, fullgraph=True))
        return compiled[-1]

    want = numbers_of(
        example, model_of(example, path, False), lambda function: function, temperature
    )
    model = model_of(example, path)
    assert isinstance(model.blk[0].attn_q.weight, gguf.QuantizedWeight)
    assert model.output.weight is model.token_embd.weight
    assert numbers_of(example, model, compile, temperature) == want
    assert len(set(want)) > 2
    traced = re.findall("^traced ", compiled[0].explain(), re.MULTILINE)
    assert len(traced) == 2, "one program for the prompt, one for a token anywhere"


def test_a_prompt_at_once_is_one_token_after_the_other(example: Any, path: Path) -> None:
    ids = [4, 90, 17, 33, 2]
    model = model_of(example, path)
    with frontend.no_grad():
        whole = model(frontend.tensor([ids]), 0)
        for position, number in enumerate(ids):
            last = model(frontend.tensor([[number]]), position)
    np.testing.assert_allclose(whole.numpy(), last.numpy(), rtol=1e-4, atol=1e-5)


def test_what_it_prints(example: Any, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limit = frontend.compiler.get_packing_limit()
    arguments = ["--prompt", "7,1", "--count", "6", "--threads", "1"]
    texts = []
    for more in ([], ["--eager"], ["--pack"]):
        assert example.main([str(path), *arguments, *more]) == 0
        first, numbers, *rest = capsys.readouterr().out.splitlines()
        assert first == "small.gguf: 20 tensors, Q8_0, torch.float32"
        assert len(numbers.split()) == 6 and "tokens/s" in rest[1]
        weights, file = map(float, re.findall(r"([\d.]+) MB", rest[2])[:2])
        assert weights <= file
        texts.append(numbers)
    assert texts[0] == texts[1] == texts[2]
    assert frontend.compiler.get_packing_limit() == limit
    assert example.main(["--count", "2", "--seed", "3", "--eager"]) == 0
    assert capsys.readouterr().out.startswith("random.gguf: 20 tensors")


@pytest.mark.slow
def test_activations_in_int8(example: Any, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled and eager write the same."""
    arguments = ["--prompt", "7,1", "--count", "6", "--activations", "int8"]
    texts = []
    for more in ([], ["--eager"]):
        assert example.main([str(path), *arguments, *more]) == 0
        texts.append(capsys.readouterr().out.splitlines()[1])
    assert texts[0] == texts[1] and len(texts[0].split()) == 6


# -- vocabularies ----------------------------------------------------------------------------------


def test_a_vocabulary_by_scores(example: Any) -> None:
    tokens = ["<s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    words = {"▁": -9, "a": -9, "b": -9, "ab": -2, "▁a": -1, "▁ab": -5, "ba": -3}
    vocabulary = example.Vocabulary({
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [*tokens, *words],
        "tokenizer.ggml.scores": np.array([0.0] * 257 + list(words.values()), np.float32),
        "tokenizer.ggml.token_type": np.array([3] + [6] * 256 + [1] * 7),
        "tokenizer.ggml.bos_token_id": 0,
    })  # fmt: skip
    numbers = vocabulary.encoded("ab aba é")
    pieces = [[*tokens, *words][number] for number in numbers]
    # "▁a" is the best pair, so "▁ab" comes of "▁a" and "b"; what has no token is its bytes
    assert pieces == ["<s>", "▁ab", "▁a", "ba", "▁", "<0xC3>", "<0xA9>"]
    assert vocabulary.decoded(numbers) == " ab aba é"
    assert vocabulary.encoded("") == [0]


def test_a_vocabulary_by_merges(example: Any) -> None:
    letters = example.letters()
    assert len(set(letters)) == 256 and letters[ord(" ")] == "Ġ"
    words = ["lo", "low", "Ġlow", "er"]
    metadata = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [*letters, *words],
        "tokenizer.ggml.merges": ["l o", "lo w", "Ġ low", "e r"],
    }  # fmt: skip
    vocabulary = example.Vocabulary(metadata)
    numbers = vocabulary.encoded("low lower, 12é")
    pieces = [[*letters, *words][number] for number in numbers]
    assert pieces == ["low", "Ġlow", "er", ",", "Ġ", "1", "2", "Ã", "©"]
    assert vocabulary.decoded(numbers) == "low lower, 12é"
    with pytest.raises(ValueError, match="of the kind 'bert': there are llama and gpt2"):
        example.Vocabulary({**metadata, "tokenizer.ggml.model": "bert"})


# -- what is refused -------------------------------------------------------------------------------


def test_files_and_prompts_that_are_none(
    example: Any, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.gguf"
    for content, words in (
        (b"PK", "is no GGUF file"),
        (example.written({"general.architecture": "llama"}, {}), "has no token_embd.weight"),
        (path.read_bytes().replace(b"llama", b"lleme"), "of the architecture 'lleme'"),
        (
            path.read_bytes().replace(b"llama.block_count", b"llama.block_kount"),
            "not say llama.bl",
        ),
    ):
        other.write_bytes(content)
        assert example.main([str(other)]) == 2
        assert words in capsys.readouterr().err
    assert example.main([str(tmp_path / "none.gguf")]) == 2
    for prompt in ("96", "a text"):
        assert example.main([str(path), "--prompt", prompt]) == 2
    with pytest.raises(SystemExit, match="2"):
        example.main(["--count", "0"])
    assert "--count" in capsys.readouterr().err
    for key, value in (("rope.scaling.type", "yarn"), ("expert_count", 8)):
        state, metadata = gguf.load(path)
        with pytest.raises(ValueError, match=rf"llama\.{key} is {value}: this model has"):
            example.model_of(state, {**metadata, f"llama.{key}": value}, 8)
