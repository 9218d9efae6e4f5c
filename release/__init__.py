"""Makes what a release consists of: `make release VERSION=0.1.0`, or `python -m release 0.1.0`.

    tree      the files of one commit, with the version in them and CHANGELOG.md cut
    wheels    sdist and wheel
    debian    packages for Debian, one for each of its releases and processors; manual makes their man pages
    chart     the Helm chart, packed
    sums      SHA256SUMS over all of it, and its signature

What is made depends on the commit and on the version only: the same bytes each time, on each machine.
`tests/release` holds that.
"""
