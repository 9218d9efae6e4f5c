"""`base64||`: decodes a string in base64."""

import base64
import binascii

from walflow_kernel.extractors.contract import NO_MATCH, Extract, of_bytes, takes_nothing


def extractor(argument: str) -> Extract:
    takes_nothing(argument)
    return of_bytes(_decoded)


def _decoded(text: bytes) -> object:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return NO_MATCH
