"""Antibody sequences filled in by a masked language model, as Zhang et al. (2022) do with sentences (Table 3).

    pip download --no-deps sapiens==1.0.5 && unzip sapiens-1.0.5-py3-none-any.whl "sapiens/models/*" -d runs
    python papers/antibodies.py convert runs/sapiens/models/v1/checkpoint_vh.pt      # writes runs/sapiens_heavy
    python -m ebmlab sample --config configs/sampling/antibody_infilling.yaml --seed 0 --name 0      # and 1, 2
    python papers/antibodies.py table runs/antibody_infilling/0 runs/antibody_infilling/1 runs/antibody_infilling/2

Sapiens (Prihoda et al. 2022) is a RoBERTa of 4 layers and 0.6 million weights that has read human heavy chains. Its
package keeps it in fairseq's format; `convert` writes it for `transformers`. `table` prints means and ranges of
the runs, and draws the likelihood against the diversity, point by point as the chains go on.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch
from matplotlib.figure import Figure
from study_seeds import cell
from torch import Tensor

from ebmlab.io.files import load
from ebmlab.studies.report import markdown

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # as fairseq numbers them; <mask> comes last
HEADS = 8
NAMES = {
    "embed_tokens": "embeddings.word_embeddings",
    "embed_positions": "embeddings.position_embeddings",
    "emb_layer_norm": "embeddings.LayerNorm",
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}


def renamed(key: str) -> str:
    """The name of a weight of fairseq in `transformers`.

    >>> renamed("decoder.sentence_encoder.layers.0.self_attn.k_proj.weight")
    'roberta.encoder.layer.0.attention.self.key.weight'
    """
    if key.startswith("decoder.lm_head"):
        head = key.removeprefix("decoder.")
        return (
            head
            if "dense" in head or "layer_norm" in head
            else head.replace("lm_head.weight", "lm_head.decoder.weight")
        )
    path, kind = key.removeprefix("decoder.sentence_encoder.").rsplit(".", 1)
    if not path.startswith("layers."):
        return f"roberta.{NAMES[path]}.{kind}"
    _, number, part = path.split(".", 2)
    return f"roberta.encoder.layer.{number}.{NAMES[part]}.{kind}"


def convert(checkpoint: Path, folder: Path) -> None:
    """Writes the model and its tokenizer, which reads letters with spaces between them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

    with torch.serialization.safe_globals([argparse.Namespace]):
        weights: dict[str, Tensor] = torch.load(checkpoint, map_location="cpu")["model"]
    words = [*SPECIAL, *LETTERS, "<mask>"]
    size, width = weights["decoder.sentence_encoder.embed_tokens.weight"].shape
    if size != len(words):
        raise SystemExit(f"{checkpoint} has {size} tokens, but Sapiens has {len(words)}")
    config = RobertaConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=1 + max(int(k.split(".")[3]) for k in weights if ".layers." in k),
        num_attention_heads=HEADS,
        intermediate_size=len(weights["decoder.sentence_encoder.layers.0.fc1.weight"]),
        max_position_embeddings=len(weights["decoder.sentence_encoder.embed_positions.weight"]),
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    model = RobertaForMaskedLM(config)
    ours = {renamed(key): value for key, value in weights.items()}
    kinds = "roberta.embeddings.token_type_embeddings.weight"  # fairseq has none
    ours |= {kinds: torch.zeros(1, width), "lm_head.decoder.bias": ours["lm_head.bias"]}
    model.load_state_dict(ours)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    limit = config.max_position_embeddings - 2  # positions count from the padding's
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="<mask>", **names, model_max_length=limit
    ).save_pretrained(folder)
    print(f"{folder}: {sum(p.numel() for p in model.parameters())} weights")


COLUMNS = {
    "acceptance": "acceptance",
    "hops": "residues changed a step",
    "pseudo_log_likelihood": "pseudo-log-likelihood of the likeliest (nats)",
    "self_bleu": "their self-BLEU (%)",
    "unique_2grams": "unique 2-grams (%)",
    "unique_3grams": "unique 3-grams (%)",
    "seconds": "seconds",
}


def table(folders: list[Path]) -> str:
    """Mean and range over the runs, for each sampler."""
    rows = [row for folder in folders for row in csv.DictReader((folder / "table.csv").read_text().splitlines())]
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    table = []
    for name in samplers:
        mine = [row for row in rows if row["sampler"] == name]
        table.append([name, str(len(mine)), *(cell([float(row[key]) for row in mine]) for key in COLUMNS)])
    return markdown(["sampler", "runs", *COLUMNS.values()], table)


def draw(folders: list[Path]) -> Figure:
    """A line for each sampler from its first step to its last, the mean over the runs."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for path in sorted((folders[0] / "results").glob("*.pt"), key=lambda p: p.stat().st_mtime):
        files = [folder / "results" / path.name for folder in folders]
        runs = [load(file) for file in files if file.exists()]
        curves = [torch.tensor([r["curves"][key] for r in runs]).mean(0) for key in ("mean energy", "self-BLEU (%)")]
        (line,) = axes.plot(-curves[0], curves[1], ".-", lw=1, label=runs[0]["sampler"])
        axes.plot(-curves[0][-1], curves[1][-1], "o", ms=9, color=line.get_color())
    axes.set(xlabel="mean pseudo-log-likelihood of all sequences (nats)", ylabel="self-BLEU of the likeliest (%)")
    axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("convert").add_argument("checkpoint", type=Path)
    commands.add_parser("table").add_argument("folders", type=Path, nargs="+")
    args = parser.parse_args()
    if args.command == "convert":
        convert(args.checkpoint, Path("runs/sapiens_heavy"))
    else:
        print(table(args.folders))
        draw(args.folders).savefig(Path(__file__).parents[1] / "docs" / "pictures" / "antibody_infilling.png", dpi=120)


if __name__ == "__main__":
    main()
