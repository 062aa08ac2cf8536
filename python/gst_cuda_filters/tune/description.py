"""Finds this plugin's elements in the text of a pipeline, and writes the text with other settings.

The text follows gst-launch-1.0: words, links, NAME=VALUE, and quotes of both kinds. Everything that does not belong
to an element of this plugin stays as it was typed.
"""
import dataclasses
import re
import shlex

STRING = r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'"
SPACE = re.compile(r"\s+")
ASSIGNMENT = re.compile(rf"([\w][\w\-%:]*)\s*=\s*({STRING}|(?:\\.|\S)+)")
WORD = re.compile(r"\(|(?:\\.|[^\s!])+|!")
SHELL_WORD = re.compile(rf"(?:{STRING}|\\.|\S)+")


@dataclasses.dataclass
class Mention:
    """An element of this plugin in the text, with its settings."""
    start: int
    end: int
    factory: str
    name: str
    typed: bool  #: whether the text gives the name


def joined(words):
    """Returns the text that gst-launch-1.0 makes of its arguments: a space in an argument belongs to the word."""
    if len(words) == 1:
        return words[0]
    made = []
    for word in words:
        inside, text = False, ""
        for i, letter in enumerate(word):
            if letter == '"' and not (inside and word[i - 1] == "\\"):
                inside = not inside
            text += "\\" if letter == " " and not inside else ""
            text += letter
        made.append(text)
    return " ".join(made)


def mentions(text, factories):
    """Returns where the text mentions elements of these factories. Each gets a name of its own."""
    found, element, at = [], None, 0
    while at < len(text):
        space = SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        assignment = ASSIGNMENT.match(text, at)
        if assignment:
            at = assignment.end()
            if element:
                element.end = at
                if assignment[1] == "name":
                    element.name, element.typed = assignment[2].strip("\"'"), True
            continue
        word = WORD.match(text, at)
        at = word.end()
        element = None
        factory = word[0].rstrip(")")
        if factory in factories:
            element = Mention(word.start(), word.start() + len(factory), factory, "", False)
            found.append(element)
    taken = set(re.findall(r"[\w\-]+", text)) - set(factories)
    for element in found:
        number = 0
        while not element.name:
            name = f"{element.factory}{number}"
            if name not in taken:
                element.name = name
                taken.add(name)
            number += 1
    return found


def replaced(text, found, words):
    """Returns the text in which these words stand for each mention."""
    made, at = "", 0
    for mention, each in zip(found, words):
        made += text[at:mention.start] + each
        at = mention.end
        if not text[at:at + 1].isspace():
            made += " "  # a link may follow without a space
    return (made + text[at:]).strip()


def named(text, found):
    """Returns the text in which each mention has its name."""
    return replaced(text, found, [text[each.start:each.end] + ("" if each.typed else f" name={each.name}")
                                  for each in found])


def unescaped(word):
    """gst-launch-1.0 puts the backslashes before spaces back."""
    return re.sub(rf'("(?:\\.|[^"\\])*")|\\( )', lambda match: match[1] or match[2], word)


def shell(text):
    """Returns the command line that runs the text."""
    words = [unescaped(word) for word in SHELL_WORD.findall(text)]
    return " ".join(["gst-launch-1.0"] + [word if word == "!" else shlex.quote(word) for word in words])
