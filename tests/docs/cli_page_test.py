"""docs/cli.md is what the program prints. usage: cli_page_test.py POME; `./dev docs` writes the page."""
import difflib
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs/cli.md"


def main() -> int:
    printed = subprocess.run([sys.argv[1], "--help-markdown"], capture_output=True, text=True, check=True).stdout
    committed = PAGE.read_text() if PAGE.exists() else ""
    changes = list(difflib.unified_diff(committed.splitlines(), printed.splitlines(), "docs/cli.md", "pome", "", "", 0,
                                        ""))
    print("\n".join(changes[:20]))
    if changes:
        print("docs/cli.md is stale: run './dev docs' and commit it")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
