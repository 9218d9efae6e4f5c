"""Foreign text on its way to a terminal."""


def printable(text: str) -> str:
    """One line, with control characters, line breaks and what turns the direction of writing made visible: a value
    neither commands the terminal nor forges a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
