"""Reference data and the scripts that make it: each folder says which one, and `./dev golden` finds that one."""
import pathlib
import re

from tree import Finding, Tree

SCRIPTS = "tools/make_golden/"
SCRIPT = re.compile(re.escape(SCRIPTS) + r"[\w./-]+\.py\b")


def check_goldens(tree: Tree) -> list[Finding]:
    findings = check_generators(tree)
    for name in tree.files:
        folder = pathlib.PurePath(name).parent
        if "golden" not in folder.parts:
            continue
        if folder.joinpath("ORIGIN").as_posix() not in tree.files:
            findings.append(Finding("golden", name, 1, f"{folder} has no ORIGIN"))
        elif name.endswith("/ORIGIN"):
            findings += check_origin(tree, name)
    return findings


def check_origin(tree: Tree, name: str) -> list[Finding]:
    scripts = SCRIPT.findall("\n".join(tree.lines(name)))
    if not scripts:
        return [Finding("golden", name, 1, f"names no script of {SCRIPTS}")]
    return [Finding("golden", name, 1, f"{script} does not exist") for script in scripts if script not in tree.files]


def check_generators(tree: Tree) -> list[Finding]:
    """A script that runs on its own is a generator, and `./dev golden` knows generators by their name."""
    return [Finding("golden", name, 1, "a generator is called make_*.py, or ./dev golden does not find it")
            for name in tree.files if name.startswith(SCRIPTS) and name.endswith(".py")
            and not pathlib.PurePath(name).name.startswith("make_")
            and any(line.startswith('if __name__ == "__main__"') for line in tree.lines(name))]
