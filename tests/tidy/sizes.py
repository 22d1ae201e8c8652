"""How long a line, a function, a file and a folder may be."""
import collections
import pathlib
import re

from tree import Finding, Tree

LINE_MAX = 100
FUNCTION_MAX = 60
HEADER_MAX = 250
SOURCE_MAX = 600
TEST_MAX = 800
ROOM_README_MAX = 40
AGENTS_MAX = 150
DENSE_DECODER_MAX = 120
DENSE_DECODERS = ("gemma3", "llama", "qwen2", "qwen3")
FOLDER_MAX = 15
# One file pair a model is the rule there, so the folder grows with the models.
OPEN_FOLDERS = ("src/models/llm",)


def check_lines(tree: Tree) -> list[Finding]:
    findings = []
    for name in tree.cpp():
        for number, line in enumerate(tree.lines(name), 1):
            if len(line) > LINE_MAX and "clang-format off" not in line and "http" not in line:
                findings.append(Finding("line", name, number, f"{len(line)} columns, at most {LINE_MAX}"))
    return findings


def check_files(tree: Tree) -> list[Finding]:
    findings = []
    for name in tree.files:
        count = len(tree.lines(name)) if name.endswith((".h", ".cpp", ".md", ".kernel", ".py", ".rs")) else 0
        bound = file_bound(name)
        if bound and count > bound:
            findings.append(Finding("file", name, count, f"{count} lines, at most {bound}"))
    return findings


def check_decoders(tree: Tree) -> list[Finding]:
    """A dense decoder is short, source and header together."""
    findings = []
    for model in DENSE_DECODERS:
        names = [name for name in (f"src/models/llm/{model}.h", f"src/models/llm/{model}.cpp") if name in tree.files]
        count = sum(len(tree.lines(name)) for name in names)
        if count > DENSE_DECODER_MAX:
            findings.append(Finding("decoder", names[-1], count,
                                    f"{count} lines with its header, at most {DENSE_DECODER_MAX}"))
    return findings


def file_bound(name: str) -> int | None:
    if name.endswith(("_test.cpp", "_test.py", "_test.rs")) or pathlib.PurePath(name).name.startswith("test_"):
        return TEST_MAX
    if name == "AGENTS.md":
        return AGENTS_MAX
    if name.startswith("src/") and name.endswith("README.md"):
        return ROOM_README_MAX
    if name.endswith(".h"):
        return HEADER_MAX
    return SOURCE_MAX if name.endswith((".cpp", ".kernel", ".py", ".rs")) else None


def check_folders(tree: Tree) -> list[Finding]:
    counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in tree.files
                                 if name.startswith(("src/", "apps/", "bridge/src", "tools/")))
    return [Finding("folder-size", folder, 1, f"{count} files, at most {FOLDER_MAX}: make folders by noun")
            for folder, count in sorted(counts.items()) if count > FOLDER_MAX and folder not in OPEN_FOLDERS]


# A line that ends in `{` outside of any function opens one unless it begins with one of these words.
NOT_FUNCTIONS = re.compile(r"^\s*(namespace|class|struct|union|enum|extern \"C\"|export|#|HWY_BEFORE|HWY_AFTER)\b")


def check_functions(tree: Tree) -> list[Finding]:
    findings = []
    for name in tree.cpp():
        for first, last in function_spans(strip(tree.lines(name))):
            length = last - first + 1
            if length > FUNCTION_MAX:
                findings.append(Finding("function", name, first, f"{length} lines, at most {FUNCTION_MAX}"))
    return findings


def function_spans(lines: list[str]) -> list[tuple[int, int]]:
    """(first line of the signature, last line) of each function, found by counting braces."""
    spans = []
    stack = []      # True for each open brace that belongs to a function's body, False for a scope of declarations
    start = 1       # first line of the declaration that is being read
    statement = ""
    opened = 0
    for number, line in enumerate(lines, 1):
        if not statement.strip():
            start = number
        for char in line:
            if char == "{":
                inside = bool(stack) and stack[-1]
                is_body = inside or opens_function(statement)
                if is_body and not inside:
                    opened = start
                stack.append(is_body)
                statement = ""
                if not is_body:
                    start = number
            elif char == "}":
                was_body = stack.pop() if stack else False
                if was_body and not (stack and stack[-1]):
                    spans.append((opened, number))
                statement = ""
            elif char == ";" and not (stack and stack[-1]):
                statement = ""
            else:
                statement += char
        statement += "\n" if statement.strip() else ""
    return spans


def opens_function(statement: str) -> bool:
    text = statement.strip()
    if NOT_FUNCTIONS.match(text) or "(" not in text:
        return False
    # Not an initializer list, nor a braced argument.
    return not text.endswith("=") and text.count("(") == text.count(")")


def strip(lines: tuple[str, ...]) -> list[str]:
    """The lines without comments, strings, character constants and preprocessor lines: only braces that count."""
    text = "\n".join(lines)
    keep_lines = lambda match: "\n" * match[0].count("\n") + " "  # noqa: E731
    text = re.sub(r'R"([^(\s]*)\(.*?\)\1"', keep_lines, text, flags=re.S)
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    text = re.sub(pattern, keep_lines, text, flags=re.S)
    text = re.sub(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", keep_lines, text, flags=re.M)
    return text.split("\n")
