"""The tidy test: what the compiler does not see. usage: tidy.py [ROOT]; exit code 1 and one line a finding.

Rules: includes against cmake/rooms.txt, sizes, room folders, banned words, documents that match the code, goldens
that name what made them.
exceptions.txt beside this file lists what is let through, with a reason; a line that is no longer needed is a
finding too, so the list only shrinks.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import goldens  # noqa: E402
import links  # noqa: E402
import rooms  # noqa: E402
import sizes  # noqa: E402
import words  # noqa: E402
from tree import Exceptions, Finding, Tree  # noqa: E402


def check(root: pathlib.Path) -> list[Finding]:
    tree = Tree(root)
    exceptions = Exceptions(root / "tests/tidy/exceptions.txt")
    findings = []
    for rule in (rooms.check_table, rooms.check_includes, rooms.check_links, rooms.check_folders, rooms.check_map,
                 links.check_links, goldens.check_goldens, sizes.check_lines, sizes.check_functions, sizes.check_files,
                 sizes.check_decoders, sizes.check_folders, words.check_words, words.check_names, words.check_environment,
                 words.check_coroutines):
        findings += [f for f in rule(tree) if not exceptions.covers(f)]
    return findings + exceptions.unused()


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    findings = check(root)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
