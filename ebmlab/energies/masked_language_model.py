"""A masked language model as an energy of the words that it fills in (Zhang et al. 2022, Sec. 7.5 and App. I.6)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from ebmlab.domains import Categorical
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError
from ebmlab.extras import require
from ebmlab.numerics.noise import wide

MASK = "[MASK]"
LOGITS = 2**26  # at once, 256 MB; only those of the blanks are kept for the gradient


class MaskedLanguageModel(Energy):
    """E(x) = -sum over the m blanks of log f_i(x_i | the sentence without word i, its other blanks filled by x).

    f_i is the model's distribution over its vocabulary of V tokens at position i. The state holds m one-hot tokens,
    `(B, m, V)`. They enter the network as x times its table of token embeddings, so E has a gradient in x. It comes
    through the embeddings and through the sum. The model stays frozen and without dropout.

    Args:
        text: the sentence, with [MASK] for each token to fill in.
        model: name or folder of a masked language model for `transformers`, or such a model.
        tokenizer: the model's tokenizer; needed only if `model` is not a name.
        masked: whether the model reads a mask in place of the word that it scores, as in the paper; one energy then
            takes m sentences. If False, the model reads the whole sentence once, so it sees each word that it scores.
        top_k: keep only the K words of each blank that the model finds likeliest with all blanks empty, none of them a
            special token. The state is then `(B, m, K)`, and samplers that try every word become affordable. None keeps
            the whole vocabulary.

    Raises:
        UserError: the text has no [MASK] or is too long, there are not `top_k` words, or the model cannot be loaded.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM, BertTokenizer
        >>> with open("vocab.txt", "w") as file:
        ...     print("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "we", "went", "home", sep=chr(10), file=file)
        >>> network = BertForMaskedLM(BertConfig(vocab_size=8, hidden_size=12, num_hidden_layers=1))
        >>> energy = MaskedLanguageModel("we went [MASK]", network, tokenizer=BertTokenizer("vocab.txt"))
        >>> x = energy.domain.from_index(torch.tensor([[7]]))
        >>> energy.decode(x), energy(x).shape
        (['we went home'], torch.Size([1]))
    """

    domains = (Categorical,)
    reaches = "the network or a folder, for a model by its name"
    domain: Categorical
    tokens: Tensor
    blanks: Tensor
    words: Tensor | None

    def __init__(
        self,
        text: str,
        model: str | nn.Module = "bert-base-uncased",
        *,
        tokenizer: Any = None,
        masked: bool = True,
        top_k: int | None = None,
    ) -> None:
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
        limits = (network.config, "max_position_embeddings"), (tokenizer, "model_max_length")
        limit = min(getattr(owner, name, len(tokens)) for owner, name in limits)  # a config may count unused positions
        if len(tokens) > limit:
            raise UserError(f"MaskedLanguageModel: the text has {len(tokens)} tokens, the model reads at most {limit}")
        self.register_buffer("tokens", tokens, persistent=False)
        self.register_buffer("blanks", (tokens == tokenizer.mask_token_id).nonzero().squeeze(1), persistent=False)
        self.masked = masked
        size = len(self._table)
        special = getattr(tokenizer, "all_special_ids", [])
        if top_k is not None and not 2 <= top_k <= size - len(special):
            most = f"{size - len(special)}, the model's words"
            raise UserError(f"MaskedLanguageModel: top_k is {top_k}, but must be from 2 to {most}")
        words = self._likeliest(top_k, special) if top_k is not None else None  # (m, K)
        self.register_buffer("words", words, persistent=False)
        self.domain = Categorical(len(self.blanks), top_k or size)

    def train(self, mode: bool = True) -> Self:
        """As in `nn.Module`, except that the model stays without dropout."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        x_ = x.to(self._table)
        sentence = self._table[self.tokens].repeat(len(x), 1, 1)  # (B, L, embedding)
        sentence[:, self.blanks] = self._embed(x_).to(sentence)  # autocast rounds the product
        if self.masked:
            i = torch.arange(len(self.blanks), device=x.device)
            copies = sentence.unsqueeze(1).repeat(1, len(i), 1, 1)  # (B, m, L, embedding)
            copies[:, i, self.blanks] = self._table[self.tokens[self.blanks]]
            at = self.blanks.repeat(len(x)).unsqueeze(1)
            log_f = self._log_f(copies.flatten(0, 1), at).view(len(x), len(i), -1)
        else:
            log_f = self._log_f(sentence, self.blanks.expand(len(x), -1))
        if self.words is not None:
            log_f = log_f.gather(2, self.words.expand(len(x), -1, -1))
        energy: Tensor = -(x_ * log_f).sum((1, 2))
        return energy.to(x)

    def decode(self, x: Tensor) -> list[str]:
        """The filled sentences, without the special tokens that the tokenizer added."""
        tokens = self.tokens.repeat(len(x), 1)
        index = self.domain.to_index(x)
        tokens[:, self.blanks] = index if self.words is None else self.words.gather(1, index.T).T
        around = self.tokenizer.get_special_tokens_mask(self.tokens.tolist(), already_has_special_tokens=True)
        ours = ~torch.tensor(around, dtype=torch.bool, device=tokens.device)
        ours[self.blanks] = True
        return [self.tokenizer.decode(row) for row in tokens[:, ours].tolist()]

    def _embed(self, x: Tensor) -> Tensor:
        """The words of the blanks, `(B, m, embedding)`."""
        if self.words is None:
            return x @ self._table
        return torch.einsum("bmk,mke->bme", x, self._table[self.words])

    def _log_f(self, sentences: Tensor, at: Tensor) -> Tensor:
        """Log f of all words at positions `at` `(N, k)` of the sentences `(N, L, embedding)`: `(N, k, V)`."""
        part = max(1, LOGITS // (sentences.shape[1] * len(self._table)))
        found = []
        for some, places in zip(torch.split(sentences, part), torch.split(at, part), strict=True):
            rows = torch.arange(len(some), device=some.device).unsqueeze(1)
            found.append(wide(self.model(inputs_embeds=some).logits[rows, places]).log_softmax(-1))
        return torch.cat(found)

    @torch.no_grad()
    def _likeliest(self, k: int, special: list[int]) -> Tensor:
        """The K likeliest words of each blank with all blanks empty, `(m, K)`."""
        log_f = self._log_f(self._table[self.tokens].unsqueeze(0), self.blanks.unsqueeze(0))[0]
        log_f[:, special] = -torch.inf
        return log_f.topk(k).indices

    @property
    def _table(self) -> Tensor:
        """Embeddings of all tokens, `(V, embedding)`."""
        table: Tensor = self.model.get_input_embeddings().weight
        return table


def _load(name: str) -> tuple[Any, Any]:
    """Model and tokenizer by name."""
    require("MaskedLanguageModel", "transformers")
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    try:
        return AutoModelForMaskedLM.from_pretrained(name), AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split()).split(". ")[0][:160]
        raise UserError(
            f"MaskedLanguageModel: the masked language model '{name}' is neither on this machine nor can it be "
            f"downloaded ({why}); give the name of a published model or a folder that save_pretrained wrote"
        ) from error
