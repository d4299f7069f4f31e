"""Captions inside PNG files: a picture says of itself what it shows. Needs nothing but the standard library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def with_texts(png: bytes, texts: Mapping[str, str]) -> bytes:
    """A PNG file with texts in it, such as its `Title` and `Description`, that image viewers show.

    Args:
        png: the file.
        texts: by keyword; the keywords of the PNG specification are in Latin letters.

    Raises:
        ValueError: the bytes are no PNG file.
    """
    first = next(_chunks(png), None)
    if first is None:
        raise ValueError("these bytes are no PNG file")
    end = len(SIGNATURE) + 12 + len(first[1])  # texts may follow the header, which comes first
    made = b"".join(_chunk(b"iTXt", word.encode("latin-1") + b"\0\0\0\0\0" + texts[word].encode()) for word in texts)
    return png[:end] + made + png[end:]


def texts_in(png: bytes) -> dict[str, str]:
    """The texts in a PNG file, by keyword; those that are compressed or cut short are left out."""
    found = {}
    for kind, data in _chunks(png):
        keyword, _, rest = data.partition(b"\0")
        if kind == b"iTXt" and rest.startswith(b"\0\0"):  # not compressed
            text = rest[2:].split(b"\0", 2)[-1]  # after the language and the translated keyword
            found[keyword.decode("latin-1")] = text.decode(errors="replace")
    return found


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the content of each chunk, up to the end of the file or to where it is cut short."""
    place = len(SIGNATURE)
    while png.startswith(SIGNATURE) and place + 12 <= len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        if place + 12 + size > len(png):
            return
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        place += 12 + size


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
