"""Files that grow, read on as they do.

`walk` and `files_found` look which files there are; `scan` compares them with those that are known. `plain_file` and
`compressed_file` read one open file, and notice that it was cut or written anew; `copies` and `same_file` know it
again in a copy, or compressed. `followed` is what is known of one file: how far it is read, and how far its events
are acked. `checkpoint` keeps the latter on disk, `mark_keeper` says when. `sent` keeps by which name and how far
events were sent, so that a log recognises what comes again. `jobs` is what a thread does, `reads` what it gave,
`disposal` what it does with files that are dropped to be read once. `follower` has the loop. All of it goes to the
disk by `walflow.world.disk`.
"""

from connectors.file.follow.compressed_file import may_be_compressed
from connectors.file.follow.files_found import fixed_part, leads_to
from connectors.file.follow.followed_files import Following
from connectors.file.follow.follower import follow

__all__ = ["Following", "fixed_part", "follow", "leads_to", "may_be_compressed"]
