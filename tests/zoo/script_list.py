"""Whole scripts of other people: where they lie in the folder of checkouts (each repository by its
name, as `examples` of pytorch/examples; nanoGPT, minGPT, llama2.c, llm.c and nanochat are
karpathy's, gpt-fast is pytorch-labs', Sophia Liuhong99's, pytorch-image-models huggingface's,
minimind jingyaogong's, nanoGPT_custom msknorr's), and how they are run. Those with `compiled` in
their names call `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.zoo import script_data as data

LOSS = r"[Ll]oss\D*?(\d+\.\d+)"


@dataclass(frozen=True)
class Script:
    """`commands` are run one after the other in the script's folder, after `prepare` has put data
    there. `numbers` finds what is compared in what they print; the first command's fall, where
    it trains (`falls`). `first`: how many of the numbers are compared,
    where PyTorch's own later ones move as much when weights move by float32's rounding. `solo`:
    arguments for the run that is not compared, and their replacements. `path`: a folder that the
    script imports from. `models`: it needs what torchvision alone has. `seeded`: its numbers are
    compared from its own seed, to 1e-4. `environment`: variables that it reads."""

    folder: str
    commands: tuple[str, ...]
    prepare: Callable[[Path], None] = data.nothing
    numbers: str = LOSS
    falls: bool = True
    solo: tuple[tuple[str, str], ...] = ()
    first: int | None = None
    path: str = "."
    compared: bool = True
    models: bool = False
    seeded: bool = False
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def copied(self) -> str:
        """The part of the checkouts that the script needs."""
        first, _, rest = self.folder.partition("/")
        return f"{first}/{rest.partition('/')[0]}" if first == "examples" else first


_LANGUAGE = (
    "--data data --emsize 32 --nhid 32 --nlayers 1 --bptt 10 --batch_size 4 --epochs 2 "
    "--log-interval 1 --dropout 0"
)
_PERPLEXITY = r"ppl\s+(\d+\.\d+)"
_SPOKEN = "generate.py --data data --words 5"
_NANO = (
    "train.py config/train_shakespeare_char.py --device=cpu --dtype=float32 --eval_iters=2 "
    "--block_size=32 --batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --max_iters=20 "
    "--lr_decay_iters=20 --warmup_iters=2 --dropout=0.0 --eval_interval=10 --log_interval=1 "
    "--compile=False"
)
_SAMPLED = (
    "sample.py --device=cpu --dtype=float32 --num_samples=1 --max_new_tokens=12 "
    "--out_dir=out-shakespeare-char"
)
_DIGITS = "--batch-size 32 --log-interval 1"
_REWARD = r"reward:? (?:is now )?(\d+\.\d+)"

_COMPILED = "--device=cpu --dtype=float32 --compile=True"
_LLAMA = (
    f"train.py {_COMPILED} --eval_iters=2 --batch_size=4 --max_seq_len=32 --vocab_source=custom "
    "--vocab_size=105 --dim=32 --n_layers=2 --n_heads=2 --n_kv_heads=2 --multiple_of=8 "
    "--dropout=0.0 --gradient_accumulation_steps=1 --max_iters=20 --warmup_iters=2 "
    "--eval_interval=10 --log_interval=1"
)
_SOPHIA = (
    f"{_COMPILED} --eval_iters=2 --block_size=32 --batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 "
    "--max_iters=12 --lr_decay_iters=20 --warmup_iters=2 --eval_interval=10 --log_interval=1 "
    "--gradient_accumulation_steps=1"
)
_TIMM = (
    "--data-dir . --model test_vit --num-classes 2 --img-size 64 --batch-size 8 --workers 1 "
    "--device cpu --torchcompile"
)
_TIMM_TRAINED = (
    f"{_TIMM} --epochs 3 --no-aug --smoothing 0 --sched cosine --lr 0.01 --warmup-epochs 0 "
    "--log-interval 1 --output out --experiment a --drop 0"
)
_TIMM_LOSS = r"Train: .*Loss:\s+(\S+)|Test: .*Loss:\s+(\S+)"
_MINIMIND = (
    "--use_compile 1 --device cpu --dtype float32 --epochs 1 --batch_size 4 --num_workers 1 "
    "--accumulation_steps 2 --log_interval 1 --hidden_size 64 --num_hidden_layers 2 "
    "--max_seq_len 48"
)
_NANOCHAT = (
    "scripts/base_train.py --device-type=cpu --depth=2 --aspect-ratio=32 --head-dim=32 "
    "--max-seq-len=64 --window-pattern=L --device-batch-size=2 --total-batch-size=256 "
    "--num-iterations=6 --warmup-steps=2 --eval-every=3 --eval-tokens=256 --core-metric-every=-1 "
    "--sample-every=-1"
)
SCRIPTS: dict[str, Script] = {
    "mnist": Script(
        "examples/mnist", (f"main.py {_DIGITS} --epochs 1 --save-model",), data.digits
    ),
    "mnist_rnn": Script(
        "examples/mnist_rnn", (f"main.py {_DIGITS} --epochs 2 --save-model",), data.digits
    ),
    "mnist_forward_forward": Script(
        "examples/mnist_forward_forward",
        ("main.py --epochs 5 --train_size 100 --test_size 50 --log-interval 1",),
        lambda folder: data.digits(folder / "here"),
    ),
    "vae": Script("examples/vae", (f"main.py {_DIGITS} --epochs 2",), data.digits, seeded=True),
    "dcgan": Script(
        "examples/dcgan",
        ("main.py --dataset folder --dataroot pictures --batchSize 8 --ngf 8 --ndf 8 --niter 5 "
         "--manualSeed 1",),
        data.pictures, numbers=r"Loss_[DG]: (\d+\.\d+)", falls=False, seeded=True,
    ),
    "dcgan_fake": Script(
        "examples/dcgan",
        ("main.py --dataset fake --batchSize 8 --ngf 8 --ndf 8 --dry-run --workers 1 "
         "--manualSeed 1",),
        numbers=r"Loss_[DG]: (\d+\.\d+)", falls=False, seeded=True,
    ),
    "language_lstm": Script(
        "examples/word_language_model",
        (f"main.py --model LSTM {_LANGUAGE} --use-optimizer --lr 0.01", _SPOKEN), data.words,
        numbers=_PERPLEXITY, solo=(("--use-optimizer --lr 0.01", "--tied"),), seeded=True,
    ),
    "language_gru": Script(
        "examples/word_language_model", (f"main.py --model GRU {_LANGUAGE} --lr 5", _SPOKEN),
        data.words, numbers=_PERPLEXITY, seeded=True,
    ),
    "language_rnn": Script(
        "examples/word_language_model",
        (f"main.py --model RNN_TANH {_LANGUAGE} --use-optimizer --lr 0.01", _SPOKEN), data.words,
        numbers=_PERPLEXITY, seeded=True,
    ),
    "language_transformer": Script(
        "examples/word_language_model",
        (f"main.py --model Transformer {_LANGUAGE} --use-optimizer --lr 0.01", _SPOKEN),
        data.words, solo=(("--dropout 0", "--dropout 0.1"),),
    ),
    "reinforce": Script(
        "examples/reinforcement_learning", ("reinforce.py --log-interval 2",), numbers=_REWARD,
        falls=False,
    ),
    "actor_critic": Script(
        "examples/reinforcement_learning", ("actor_critic.py --log-interval 2",), numbers=_REWARD,
        falls=False, seeded=True,
    ),
    "super_resolution": Script(
        "examples/super_resolution",
        ("main.py --upscale_factor 4 --batchSize 2 --nEpochs 5 --lr 0.001 --threads 1",
         "super_resolve.py --input_image dataset/BSDS300/images/test/4.png "
         "--model model_epoch_5.pth --output_filename out.png"),
        data.photographs, seeded=True,
    ),
    "siamese": Script(
        "examples/siamese_network",
        ("main.py --batch-size 8 --log-interval 1 --epochs 1 --lr 0.1",), data.few_digits,
        falls=False, first=3, models=True,
    ),
    "time_sequence": Script(
        "examples/time_sequence_prediction", ("train.py --steps 1",), data.waves,
        numbers=r"^loss: (\S+)", seeded=True,
    ),
    "gat": Script(
        "examples/gat",
        ("main.py --epochs 10 --val-every 1 --dropout-p 0 --hidden-dim 16 --num-heads 4",),
        data.citations,
        numbers=r"loss_train: (\S+) .*loss_val: (\S+)", seeded=True,
    ),
    "gcn": Script(
        "examples/gcn", ("main.py --epochs 10 --val-every 1 --dropout-p 0",),
        data.fetched_citations, numbers=r"loss_train: (\S+) .*loss_val: (\S+)", seeded=True,
    ),
    "imagenet": Script(
        "examples/imagenet",
        ("main.py . -a vit_b_32 --epochs 1 -b 2 -j 0 -p 1 --lr 0.001 --seed 1",),
        data.validated_pictures, numbers=r"Epoch: .*Loss (\S+) ", models=True, seeded=True,
        falls=False,
    ),
    "neural_style": Script(
        "examples/fast_neural_style",
        ("neural_style/neural_style.py train --dataset pictures --style-image "
         "pictures/class0/0.png --image-size 64 --batch-size 2 --epochs 2 "
         "--log-interval 1 --save-model-dir kept --lr 1e-4",),
        data.pictures_and_vgg16, numbers=r"content: (\S+)\s+style: (\S+)", models=True,
        falls=False, seeded=True, environment=(("TORCH_HOME", "home"),),
    ),
    "regression": Script(
        "examples/regression", ("main.py",),
        # It ends where a loss is small: after other steps in two runs of PyTorch, too.
        numbers=r"Loss: (\S+) after", falls=False, compared=False,
    ),
    "nanogpt": Script(
        "nanoGPT", (_NANO, _SAMPLED), data.characters,
        numbers=r"iter \d+: loss (\S+),|val loss (\S+)",
        solo=(("--compile=False", "--compile=True"),),
    ),
    "mingpt_adder": Script(
        "minGPT/projects/adder",
        ("adder.py --data.ndigit=1 --trainer.max_iters=51 --trainer.num_workers=0",),
        numbers=r"train loss (\S+)|score: (\d+)", path="../..",
    ),
    "mingpt_chargpt": Script(
        "minGPT/projects/chargpt",
        ("chargpt.py --model.model_type=gpt-nano --trainer.max_iters=21 --data.block_size=32 "
         "--trainer.batch_size=8 --trainer.num_workers=0",),
        data.prose, numbers=r"train loss (\S+)", path="../..",
    ),
    "nanogpt_compiled": Script(
        "nanoGPT", (_NANO.replace("False", "True"), f"{_SAMPLED} --compile=True"), data.characters,
        numbers=r"iter \d+: loss (\S+),|val loss (\S+)",
    ),
    "llama2_compiled": Script(
        "llama2.c",
        (_LLAMA, "sample.py --device=cpu --compile=True --max_new_tokens=12 --top_k=1"),
        data.stories, numbers=r"\d+ \| loss (\S+)|val loss (\S+)|token (\d+)",
    ),
    "llm_c_compiled": Script(
        "llm.c",
        ("train_gpt2.py --input_bin tokens.bin --model d12 --compile 1 --device cpu "
         "--sequence_length 16 --batch_size 2 --total_batch_size 32 --num_iterations 5 "
         "--write_tensors 0",),
        data.shard, numbers=r"train loss (\S+)", seeded=True,
    ),
    "sophia_adam_compiled": Script(
        "Sophia", (f"train_adam.py {_SOPHIA}",), data.openwebtext,
        numbers=r"iter \d+: loss (\S+),|val loss (\S+)", seeded=True,
    ),
    "sophia_compiled": Script(
        "Sophia", (f"train_sophiag.py {_SOPHIA}",), data.openwebtext,
        numbers=r"iter \d+: loss (\S+),|val loss (\S+)", seeded=True,
    ),
    "nanogpt_custom_compiled": Script(
        "nanoGPT_custom",
        (f"{_NANO.replace('False', 'True')} --min_lr=1e-4 --gradient_accumulation_steps=2 "
         "--intermediate_layer_loss=True",),
        data.characters, numbers=r"iter \d+: loss (\S+),", seeded=True,
    ),
    "timm_train_compiled": Script(
        "pytorch-image-models",
        (f"train.py {_TIMM_TRAINED}", f"validate.py {_TIMM} --checkpoint out/a/last.pth.tar"),
        data.sorted_pictures, numbers=_TIMM_LOSS, models=True, seeded=True,
    ),
    "minimind_compiled": Script(
        "minimind/trainer",
        (f"train_pretrain.py {_MINIMIND} --data_path ../dataset/texts.jsonl",
         f"train_full_sft.py {_MINIMIND} --data_path ../dataset/talks.jsonl"),
        data.talks, numbers=r"loss: (\S+),", path="..", seeded=True,
    ),
    "nanochat_compiled": Script(
        "nanochat", ("scripts/tok_train.py --vocab-size 512", _NANOCHAT), data.documents,
        numbers=r"loss: (\S+) \||bpb: (\S+)", seeded=True,
        environment=(("NANOCHAT_BASE_DIR", "base"),),
    ),
    "gpt_fast_compiled": Script(
        "gpt-fast",
        ("generate.py --checkpoint_path checkpoints/stories15M/model.pth --device cpu --compile "
         "--compile_prefill --top_k 1 --num_samples 2 --max_new_tokens 12",),
        data.small_stories, numbers=r"token (\d+)", falls=False,
    ),
}  # fmt: skip
