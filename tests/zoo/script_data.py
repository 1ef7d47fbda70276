"""Small local data for other people's scripts, in the formats that they read."""

from __future__ import annotations

import json
import pickle
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TRAINED, TESTED = 320, 64
"""How many images of digits."""
_ROOT = Path(__file__).parents[2]


def _idx(path: Path, array: np.ndarray) -> None:
    head = struct.pack(f">2xBB{array.ndim}i", 8, array.ndim, *array.shape)
    path.write_bytes(head + array.tobytes())


def few_digits(folder: Path) -> None:
    """As few digits as there can be two of each."""
    digits(folder, 40, 20)


def digits(folder: Path, trained: int = TRAINED, tested: int = TESTED) -> None:
    """MNIST's four files in `folder`/../data: ten patterns with noise."""
    raw = folder.parent / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    random = np.random.default_rng(1)
    patterns = random.integers(0, 2, (10, 7, 7)).repeat(4, 1).repeat(4, 2) * 200
    for prefix, count in (("train", trained), ("t10k", tested)):
        labels = random.permutation(np.arange(count) % 10).astype(np.uint8)
        images = patterns[labels] + random.integers(0, 55, (count, 28, 28))
        _idx(raw / f"{prefix}-images-idx3-ubyte", images.astype(np.uint8))
        _idx(raw / f"{prefix}-labels-idx1-ubyte", labels)


def _picture(path: Path, side: int, seed: int) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    waves = [np.sin(random.uniform(3, 40) * (x * a + y * (1 - a))) for a in random.random(3)]
    Image.fromarray((127 + 120 * np.stack(waves, -1)).astype(np.uint8)).save(path)


def pictures(folder: Path) -> None:
    """A folder of images for each of two classes."""
    for number in range(16):
        _picture(folder / "pictures" / f"class{number % 2}" / f"{number}.png", 80, number)


def pictures_and_vgg16(folder: Path) -> None:
    """The same, and drawn weights where torchvision keeps those it fetched; those of the layers
    that the script leaves out are one number that repeats."""
    import torch

    pictures(folder)
    random, weights, kinds = np.random.default_rng(4), {}, 3
    widths = [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512]
    place = 0
    for width in widths:
        if width:
            scale = (2 / (9 * kinds)) ** 0.5
            drawn = scale * random.standard_normal((width, kinds, 3, 3), np.float32)
            weights[f"features.{place}.weight"] = torch.from_numpy(drawn)
            weights[f"features.{place}.bias"] = torch.zeros(width)
            kinds = width
        place += 2 if width else 1
    for place, shape in ((0, (4096, 25088)), (3, (4096, 4096)), (6, (1000, 4096))):
        weights[f"classifier.{place}.weight"] = torch.zeros(1).expand(shape)
        weights[f"classifier.{place}.bias"] = torch.zeros(shape[0])
    kept = folder / "home" / "hub" / "checkpoints"
    kept.mkdir(parents=True)
    torch.save(weights, kept / "vgg16-397923af.pth")


def sorted_pictures(folder: Path, count: int = 16, validation: str = "validation") -> None:
    """The same for training and for validation."""
    for name in ("train", validation):
        for number in range(count):
            _picture(folder / name / f"class{number % 2}" / f"{number}.png", 80, number)


def validated_pictures(folder: Path) -> None:
    """The same by ImageNet's names, ten steps of two."""
    sorted_pictures(folder, 20, "val")


def photographs(folder: Path) -> None:
    """The folders of BSDS300."""
    images = folder / "dataset" / "BSDS300" / "images"
    for number in range(6):
        _picture(images / ("train" if number < 4 else "test") / f"{number}.png", 200, number)


def _prose() -> str:
    return (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def words(folder: Path) -> None:
    """Prose of this repository, split in three."""
    lines = [line for line in _prose().splitlines() if line.strip()]
    (folder / "data").mkdir(exist_ok=True)
    for name, part in (("train", lines[:30]), ("valid", lines[30:40]), ("test", lines[40:50])):
        (folder / "data" / f"{name}.txt").write_text("\n".join(part), encoding="utf-8")


def characters(folder: Path, name: str = "shakespeare_char") -> None:
    """nanoGPT's files of tokens and their characters."""
    text = _prose()
    letters = sorted(set(text))
    numbers = {letter: number for number, letter in enumerate(letters)}
    tokens = np.array([numbers[letter] for letter in text], np.uint16)
    data = folder / "data" / name
    data.mkdir(parents=True, exist_ok=True)
    tokens[:-2000].tofile(data / "train.bin")
    tokens[-2000:].tofile(data / "val.bin")
    meta = {"vocab_size": len(letters), "itos": dict(enumerate(letters)), "stoi": numbers}
    (data / "meta.pkl").write_bytes(pickle.dumps(meta))


def stories(folder: Path) -> None:
    """llama2.c's two files of tokens of a vocabulary of its own, and that."""
    data = folder / "data"
    (data / f"tok{_TOKENS}").mkdir(parents=True)
    tokens = np.frombuffer(_prose().encode(), np.uint8).astype(np.uint16) % _TOKENS
    for number, part in enumerate((tokens[:2000], tokens[2000:6000])):
        part.tofile(data / f"tok{_TOKENS}" / f"data{number:02}.bin")
    (data / f"tok{_TOKENS}.model").write_text(str(_TOKENS))


_TOKENS = 105
"""Of `stories`."""


def openwebtext(folder: Path) -> None:
    """Tokens as nanoGPT's descendants read them, of GPT-2's vocabulary."""
    characters(folder, "openwebtext")
    (folder / "data" / "openwebtext" / "meta.pkl").unlink()


def shard(folder: Path) -> None:
    """A file of tokens as llm.c writes them: a head of 256 integers, then 16 bits a token."""
    tokens = np.frombuffer(_prose().encode(), np.uint8)[:2000].astype(np.uint16)
    head = np.zeros(256, np.int32)
    head[:3] = 20240520, 1, len(tokens)
    (folder / "tokens.bin").write_bytes(head.tobytes() + tokens.tobytes())


def _paragraphs() -> list[str]:
    return [line for line in _prose().splitlines() if len(line) > 60]


def talks(folder: Path) -> None:
    """minimind's lines of JSON: texts, and questions with answers."""
    data, lines = folder.parent / "dataset", _paragraphs()[:32]
    texts = [json.dumps({"text": line}) for line in lines]
    (data / "texts.jsonl").write_text("\n".join(texts), encoding="utf-8")
    roles = ("user", "assistant")
    said = [
        json.dumps({"conversations": [{"role": r, "content": line[:40]} for r in roles]})
        for line in lines
    ]
    (data / "talks.jsonl").write_text("\n".join(said), encoding="utf-8")


def documents(folder: Path) -> None:
    """nanochat's files of documents, the last one for validation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data, lines = folder / "base" / "base_data_climbmix", _paragraphs()
    data.mkdir(parents=True)
    for number, part in enumerate((lines[20:], lines[:20])):
        pq.write_table(pa.table({"text": part}), data / f"shard_{number:05}.parquet")


def small_stories(folder: Path) -> None:
    """A model of gpt-fast's smallest size, drawn, and its tokens."""
    import torch

    place = folder / "checkpoints" / "stories15M"
    place.mkdir(parents=True)
    (place / "tokenizer.model").write_text("32000")
    random = np.random.default_rng(3)
    torch.save(
        {name: torch.from_numpy(_weights(random, shape)) for name, shape in _stories15m()},
        place / "model.pth",
    )


def _stories15m() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "tok_embeddings.weight", (32000, 288)
    for number in range(6):
        part = f"layers.{number}"
        yield f"{part}.attention.wqkv.weight", (3 * 288, 288)
        yield f"{part}.attention.wo.weight", (288, 288)
        yield f"{part}.feed_forward.w1.weight", (768, 288)
        yield f"{part}.feed_forward.w3.weight", (768, 288)
        yield f"{part}.feed_forward.w2.weight", (288, 768)
        yield f"{part}.ffn_norm.weight", (288,)
        yield f"{part}.attention_norm.weight", (288,)
    yield "norm.weight", (288,)
    yield "output.weight", (32000, 288)


def _weights(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Drawn so that one token is clearly the likeliest; ones for norms."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return (random.standard_normal(shape) * 2 / np.sqrt(shape[1])).astype(np.float32)


def prose(folder: Path) -> None:
    """The text of minGPT's model of characters."""
    (folder / "input.txt").write_text("O God, O God!" + _prose(), encoding="utf-8")


def waves(folder: Path) -> None:
    """Eight sines of 40 values, as torch.save writes an array."""
    import torch

    phases = np.random.default_rng(2).integers(0, 80, (8, 1))
    torch.save(np.sin((np.arange(40) + phases) / 20.0), folder / "traindata.pt")


def citations(folder: Path) -> None:
    """Cora's two files: papers, the words that they have, their subject; who cites whom."""
    random = np.random.default_rng(3)
    subjects = random.integers(0, 4, 1740)
    own = np.arange(40) % 4 == subjects[:, None]
    has = random.random((1740, 40)) < np.where(own, 0.4, 0.1)
    (folder / "cora").mkdir()
    papers = [
        " ".join([str(1000 + i), *map(str, row.astype(int)), f"subject{subjects[i]}"])
        for i, row in enumerate(has)
    ]
    (folder / "cora" / "cora.content").write_text("\n".join(papers))
    pairs = np.unique(random.integers(0, 1740, (4000, 2)), axis=0)
    cited = "\n".join(f"{1000 + a} {1000 + b}" for a, b in pairs)
    (folder / "cora" / "cora.cites").write_text(cited)


def fetched_citations(folder: Path) -> None:
    """The same for a script that fetches them: what it imports for that reads a file."""
    citations(folder)
    with tarfile.open(folder / "cora.tgz", "w:gz") as packed:
        packed.add(folder / "cora", "cora")
    (folder / "requests.py").write_text(
        "import contextlib, types\n"
        "def get(url, stream):\n"
        "    return contextlib.nullcontext(types.SimpleNamespace(raw=open('cora.tgz', 'rb')))\n"
    )


def nothing(folder: Path) -> None:
    """Scripts that make their own data."""
