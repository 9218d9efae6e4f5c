"""Makes foreign text safe for a terminal."""


def printable(text: str) -> str:
    """One line in which control characters, line breaks and changes of the writing direction are visible, so that a
    value can neither send commands to the terminal nor forge a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
