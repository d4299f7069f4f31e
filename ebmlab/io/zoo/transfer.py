"""Models come from folders, web servers and the Hugging Face hub, and are compared with their sha256."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ebmlab.errors import WHY, UserError, explained, one_line
from ebmlab.extras import require
from ebmlab.io.files import check_regular, write_whole
from ebmlab.io.folders import check_is_local
from ebmlab.io.zoo.shelf import CHECKPOINT, MANIFEST, OURS, Model, pulled

HUB = "hf://"
LARGEST = 2**30  # bytes of one file
TIMEOUT = 30  # seconds without an answer


def pull(address: str, sha256: str | None = None) -> Path:
    """Fetches a model, which is `zoo/NAME` from then on, by the name in its manifest.

    Every file is compared with the sha256 in the manifest before it is written. Nothing is executed, then or later.

    Args:
        address: a folder, an http or https address of one, or `hf://OWNER/REPOSITORY`.
        sha256: that of `model.ckpt`, from a source that you trust.

    Returns:
        The checkpoint.

    Raises:
        UserError: it cannot be fetched, is no model, has another sha256, or has the name of one of ebmlab's models.

    Example:
        >>> from ebmlab.io.zoo import checkpoint, pack
        >>> _ = pack(checkpoint("zoo/rbm-digits"), Path("mine"), "mine", "# A copy")
        >>> pull("mine").parent.name
        'mine'
    """
    read = _reader(address)
    model = Model.parse(read(MANIFEST), f"{address}/{MANIFEST}")
    if sha256 is not None and model.files[CHECKPOINT] != sha256.lower():
        raise UserError(f"{address}: the sha256 of {CHECKPOINT} is {model.files[CHECKPOINT]}, not {sha256}")
    if (OURS / model.name).exists():
        raise UserError(f"{address}: zoo/{model.name} comes with ebmlab: ask for the model under another name")
    contents = {file: model.check(file, read(file), f"{address}/{file}") for file in model.files}
    folder = pulled() / model.name
    for file, content in contents.items():
        write_whole(folder / file, content)
    model.write(folder)
    return folder / CHECKPOINT


def _reader(address: str) -> Callable[[str], bytes]:
    """Reads a file of the model at an address."""
    if address.startswith(HUB):
        hub = _hub()
        return lambda file: _fetched(
            address, lambda: Path(hub.hf_hub_download(address.removeprefix(HUB), file)).read_bytes()
        )
    if urlparse(address).scheme in ("http", "https"):
        base = address.rstrip("/")
        return lambda file: _fetched(f"{base}/{file}", lambda: _download(f"{base}/{file}"))
    check_is_local(Path(address))
    return lambda file: _fetched(address, lambda: _copied(Path(address) / file))


def _copied(path: Path) -> bytes:
    check_regular(path)
    return path.read_bytes()


def _download(url: str) -> bytes:
    from http.client import HTTPException  # here, so that `--help` loads no web client
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except HTTPException as error:
        raise OSError(f"the server's answer is not one of the web ({one_line(error)})") from error
    if len(content) > LARGEST:
        raise OSError("it is larger than 1 GiB")
    return content


def _fetched(source: str, fetch: Callable[[], bytes]) -> bytes:
    with explained(f"{source} cannot be read: {WHY}", (OSError, ValueError)):  # URLError is an OSError
        return fetch()


def _hub() -> Any:
    require("hf://", "huggingface_hub")
    import huggingface_hub

    return huggingface_hub
