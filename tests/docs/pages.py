"""The documents' examples: commands and programs in fenced blocks, code in backticks, tables of endpoints."""
import dataclasses
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Example:
    page: str
    line: int
    text: str  # one command, over several lines where a quote is open

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text.splitlines()[0]}"


def pages() -> list[pathlib.Path]:
    """What a user reads first, the pages of docs/ and the rooms' READMEs."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md")]
    for folder in ("docs", "src", "apps", "bench", "tests"):
        found += sorted((ROOT / folder).rglob("*.md"))
    return [page for page in found if "golden" not in page.parts]


def name_of(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


def programs(page: pathlib.Path) -> list[Example]:
    """The blocks of Python, each one program."""
    text = page.read_text()
    return [Example(name_of(page), text.count("\n", 0, found.start(1)) + 1, found[1])
            for found in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)]


def examples(page: pathlib.Path) -> list[Example]:
    out = []
    fenced, pending, start = False, "", 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = line == "```sh"
            if pending:
                raise ValueError(f"{name_of(page)}:{start}: an example that never ends: {pending}")
            continue
        if not fenced or not (pending or line.strip()):
            continue
        start = start if pending else number
        pending += line + "\n"
        if complete(pending):
            out.append(Example(name_of(page), start, pending.rstrip("\n")))
            pending = ""
    return out


def complete(text: str) -> bool:
    if text.rstrip("\n").endswith("\\"):
        return False
    try:
        shlex.split(text, comments=True)
        return True
    except ValueError:  # an open quote
        return False


def code_spans(page: pathlib.Path) -> list[Example]:
    """Every piece of code: the commands of examples and what stands in backticks."""
    spans = examples(page)
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            spans += [Example(name_of(page), number, text) for text in re.findall(r"`([^`]+)`", line)]
    return spans


def endpoints_of(page: pathlib.Path) -> set[tuple[str, str]]:
    """(method, path) of a page's table of endpoints. "(also without `X`)" doubles a row's paths."""
    found = set()
    for line in page.read_text().splitlines():
        if not re.match(r"\| `(GET|POST|PUT) /", line):
            continue
        rows = re.findall(r"`(GET|POST|PUT) (/[^`]*)`", line)
        if also := re.search(r"\(also without `([^`]+)`\)", line):
            rows += [(method, "/" + path.replace(also[1], "", 1).lstrip("/")) for method, path in rows]
        found.update(rows)
    return found
