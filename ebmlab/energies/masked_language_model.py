"""A masked language model as an energy of the words that it fills in (Zhang et al. 2022, Sec. 7.5 and App. I.6)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from ebmlab.domains import Categorical
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError

MASK = "[MASK]"


class MaskedLanguageModel(Energy):
    """E(x) = -sum over masked positions i of log f_i(x_i | the sentence with all its blanks filled by x).

    f_i is the model's distribution over its vocabulary of V tokens at position i. The state holds m one-hot tokens,
    `(B, m, V)`. They enter the network as x times its table of token embeddings, so that E has a gradient in x, through
    the embeddings and through the sum, and costs one forward pass. The model stays frozen and without dropout.

    Args:
        text: the sentence, with [MASK] for each token to fill in.
        model: name or folder of a masked language model for `transformers`, or such a model.
        tokenizer: the model's tokenizer; needed only if `model` is not a name.

    Raises:
        UserError: the text has no [MASK] or is too long, or the model cannot be loaded.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM, BertTokenizer
        >>> with open("vocab.txt", "w") as file:
        ...     print("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "we", "went", "home", sep=chr(10), file=file)
        >>> network = BertForMaskedLM(BertConfig(vocab_size=8, hidden_size=12, num_hidden_layers=1))
        >>> energy = MaskedLanguageModel("we went [MASK]", network, BertTokenizer("vocab.txt"))
        >>> x = energy.domain.from_index(torch.tensor([[7]]))
        >>> energy.decode(x), energy(x).shape
        (['we went home'], torch.Size([1]))
    """

    domains = (Categorical,)
    domain: Categorical
    tokens: Tensor
    blanks: Tensor

    def __init__(self, text: str, model: str | nn.Module = "bert-base-uncased", tokenizer: Any = None) -> None:
        super().__init__()
        network: Any = model
        if isinstance(model, str):
            network, tokenizer = _load(model)
        elif tokenizer is None:
            raise UserError("MaskedLanguageModel: a model that is not given by name needs its tokenizer beside it")
        if MASK not in text:
            raise UserError(f"MaskedLanguageModel: no {MASK} in the text '{text}'; put one for each token to fill in")
        self.model = network.requires_grad_(False).eval()
        self.tokenizer = tokenizer
        tokens = torch.tensor(tokenizer(text.replace(MASK, tokenizer.mask_token))["input_ids"])
        limit = getattr(network.config, "max_position_embeddings", len(tokens))
        if len(tokens) > limit:
            raise UserError(f"MaskedLanguageModel: the text has {len(tokens)} tokens, the model reads at most {limit}")
        self.register_buffer("tokens", tokens, persistent=False)
        self.register_buffer("blanks", (tokens == tokenizer.mask_token_id).nonzero().squeeze(1), persistent=False)
        self.domain = Categorical(len(self.blanks), self._table.shape[0])

    def train(self, mode: bool = True) -> Self:
        """As in `nn.Module`, except that the model stays without dropout."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        words = x.to(self._table)
        sentence = self._table[self.tokens].repeat(len(x), 1, 1)  # (B, L, embedding)
        sentence[:, self.blanks] = words @ self._table
        log_f = self.model(inputs_embeds=sentence).logits[:, self.blanks].log_softmax(-1)
        energy: Tensor = -(words * log_f).sum((1, 2))
        return energy.to(x)

    def decode(self, x: Tensor) -> list[str]:
        """The filled sentences, without the special tokens that the tokenizer added."""
        tokens = self.tokens.repeat(len(x), 1)
        tokens[:, self.blanks] = self.domain.to_index(x)
        around = self.tokenizer.get_special_tokens_mask(self.tokens.tolist(), already_has_special_tokens=True)
        ours = ~torch.tensor(around, dtype=torch.bool, device=tokens.device)
        ours[self.blanks] = True
        return [self.tokenizer.decode(row) for row in tokens[:, ours].tolist()]

    @property
    def _table(self) -> Tensor:
        """Embeddings of all tokens, `(V, embedding)`."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table


def _load(name: str) -> tuple[Any, Any]:
    """Model and tokenizer by name."""
    try:
        from transformers import AutoModelForMaskedLM, AutoTokenizer
    except ImportError as error:
        raise UserError("MaskedLanguageModel needs transformers: pip install ebmlab[text]") from error
    try:
        return AutoModelForMaskedLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split()).split(". ")[0][:160]
        raise UserError(
            f"MaskedLanguageModel: the masked language model '{name}' is neither on this machine nor can it be "
            f"downloaded ({why}); give the name of a published model or a folder that save_pretrained wrote"
        ) from error
