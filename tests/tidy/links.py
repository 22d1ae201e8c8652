"""Links between documents: what a page points to exists."""
import posixpath
import re

from tree import Finding, Tree

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def check_links(tree: Tree) -> list[Finding]:
    findings = []
    known = set(tree.files) | {posixpath.dirname(name) for name in tree.files}
    for name in tree.files:
        if not name.endswith(".md"):
            continue
        for number, line in enumerate(tree.lines(name), 1):
            for target in LINK.findall(line):
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
                if not target.startswith(("http:", "https:", "mailto:")) and path.rstrip("/") not in known:
                    findings.append(Finding("links", name, number, f"{target} does not exist"))
    return findings
