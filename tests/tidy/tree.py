"""The files that git knows (or, without git, all of them) and the findings about them."""
import dataclasses
import functools
import pathlib
import subprocess

CPP = (".h", ".cpp")
TEXT = CPP + (".kernel", ".py", ".rs", ".sh", ".md", ".cmake", ".txt", ".json", ".yml", ".toml", ".scn", ".in", "")
# Where people other than us wrote the text, or where a machine did.
FOREIGN = ("LICENSE", "bridge/Cargo.lock", "tests/fuzz/corpus/", "tests/golden/", "docs/generated/", "web/vendor/")


@dataclasses.dataclass(frozen=True)
class Finding:
    rule: str
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


class Tree:
    def __init__(self, root: pathlib.Path):
        self.root = root
        self.files = sorted(self._listed())

    def _listed(self) -> list[str]:
        git = subprocess.run(["git", "-C", self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, check=False)
        if git.returncode == 0 and (self.root / ".git").exists():
            names = [name for name in git.stdout.decode().split("\0") if name]
        else:
            skip = {".git", ".venv", ".venv-tests", "build", "target", "dist", "__pycache__"}
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*")
                     if not skip & set(p.relative_to(self.root).parts)]
        return [name for name in names if (self.root / name).is_file() and not (self.root / name).is_symlink()]

    @functools.lru_cache(maxsize=None)
    def lines(self, name: str) -> tuple[str, ...]:
        return tuple((self.root / name).read_text(encoding="utf-8", errors="replace").splitlines())

    def cpp(self, *folders: str) -> list[str]:
        return [f for f in self.files if f.endswith(CPP) and (not folders or f.startswith(folders))]

    def text(self) -> list[str]:
        return [f for f in self.files if pathlib.PurePath(f).suffix in TEXT and not f.startswith(FOREIGN)]


class Exceptions:
    """Lines `rule  path  reason`."""

    def __init__(self, path: pathlib.Path):
        self.name = path.name
        self.rows = []
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if line.strip() and not line.startswith("#"):
                fields = line.split(None, 2)
                self.rows.append((number, fields[0], fields[1], len(fields) == 3))
        self.used = set()

    def covers(self, finding: Finding) -> bool:
        for number, rule, path, has_reason in self.rows:
            if (rule, path) == (finding.rule, finding.path) and has_reason:
                self.used.add(number)
                return True
        return False

    def unused(self) -> list[Finding]:
        return [Finding("exceptions", f"tests/tidy/{self.name}", number,
                        "no longer needed: remove it" if has_reason else "has no reason")
                for number, _, _, has_reason in self.rows if number not in self.used]
