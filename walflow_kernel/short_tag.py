"""The tag of a log's record in fewer bytes, which need no other record to be read: raw DEFLATE (RFC 1951) with a
dictionary that both sides know. A tag of 80 bytes takes 21 to 39.

Blocks of a stream have one tag, so who writes keeps the result: to make it takes 7 us, to read it 2.
"""

import zlib
from typing import Final

SHORT: Final = b"\x01"  # the first byte
FIRST: Final = b"\x97"  # of a long tag: an array of seven
LAST: Final = b"\xc0"  # the seventh is nil
MOST: Final = 1 << 16  # bytes of a tag; a header of a record has 16 bits for its length
_NO_HEADER: Final = -15
_MEMORY: Final = 5  # of 1 to 9: with 9, to take and clear its tables takes 110 us, and a tag becomes no shorter

# Part of the format of a log: another one makes each short tag unreadable. What is expected most stands last, where a
# reference to it takes the fewest bits.
DICTIONARY: Final = b"".join(
    [
        b"\xa6influx\xa3cef\xa4avro\xa3csv\xa6statsd\xa7msgpack\xa6binary\xa8protobuf\xa5plain\xa4yaml\xa6dogstatsd\xa4null",
        b"\x92\xa8separate\x81\xa9separator\xa1\x00\xadlength-prefix\xa4size\xa5bytes\xa8messages\xa5whole\xc0",
        b"\x81\xa5spark\x82\xa5query\xa5batch\xa3key\xa5topic\xa9partition\xa6offset",
        b"\x81\xa9crononome\x81\xa7trigger\x81\xa9ws_client\x81\xabhttp_client",
        b"\x81\xb2unix_socket_client\x81\xb2unix_socket_server\x81\xa4path\xa5/tmp/\xa5/run/\xa5.sock\xc0",
        b"\x82\xa7request\x83\xa6method\xa4POST\xa3url\x83\xa6scheme\xa5https\xa4path\xa1/\xa5query\xa0\xa7headers\xabhttp_server",
        b"\xa6string\xa5lines\x81\xa4file\x81\xa4path\xa9/var/log/\xa4.log\xa5.json\xc0",
        b"\xa6syslog\xa8separate\x81\xaaudp_server\x81\xa4peer\x82\xa4host\xac192.168.\xa410.0\xa7172.16.\xa4port\xcd",
        b"\x81\xaatcp_client\x81\xa9ws_server\x82\xa3tls\xc3\xa4peer\x82\xa4host\xa3::1\xa4port\xcd",
        b"\xa6string\xa8separate\x01\xa4json\xa8separate\x81\xaatcp_server\x82\xa3tls\xc2\xa4peer\x82\xa4host",
        b"\xaa10.\xab172.17.0.\xac192.168.main::\xcf\x00\x00",
        b"\x01\xa4json\xa8separate\x81\xaatcp_server\x82\xa3tls\xc2\xa4peer\x82\xa4host\xa9127.0.0.1\xa4port\xcd",
    ]
)


class NotShort(ValueError):
    """The bytes are no short tag. Says why, for the end of a sentence."""


def shortened(tag: bytes) -> bytes:
    """As few bytes as can be; the tag itself where it has metadata of each event, is too large,
    or becomes no shorter."""
    if len(tag) > MOST or tag[:1] != FIRST or tag[-1:] != LAST:
        return tag
    squeeze = zlib.compressobj(
        zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, _NO_HEADER, _MEMORY, zlib.Z_DEFAULT_STRATEGY, DICTIONARY
    )
    short = SHORT + squeeze.compress(tag[1:-1]) + squeeze.flush()
    return short if len(short) < len(tag) else tag


def whole(tag: bytes) -> bytes:
    """As it was before `shortened`. Raises NotShort."""
    if tag[:1] != SHORT:
        return tag
    inflate = zlib.decompressobj(_NO_HEADER, DICTIONARY)
    try:
        data = inflate.decompress(tag[1:], MOST)
    except zlib.error:
        raise NotShort("its tag is no DEFLATE of ours") from None
    if not inflate.eof or inflate.unused_data:
        raise NotShort("its tag goes on behind its end" if inflate.eof else "its tag ends too early, or is too long")
    return FIRST + data + LAST
