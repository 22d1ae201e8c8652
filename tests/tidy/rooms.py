"""The layer table: which room may include and link which, and what each room folder holds."""
import functools
import re

from tree import Finding, Tree

TABLE = "cmake/rooms.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ADD_ROOM = re.compile(r"add_room\s*\(([^)]*)\)", re.S)
# What a room may link is more than `DEPS`; these words end the list.
KEYWORDS = {"NAME", "DEPS", "LIBS", "RING", "TEST_DEPS", "TEST_LIBS"}
# The only MLX room that the server may know is a pure header.
SERVER_SEES = {"engine/api.h"}


@functools.lru_cache(maxsize=None)
def table(tree: Tree) -> dict[str, tuple[str, list[str], int]]:
    """room or face -> (kind, what it may include, line)"""
    rows = {}
    for number, line in enumerate(tree.lines(TABLE), 1):
        fields = line.split()
        if fields and not line.startswith("#"):
            rows[fields[0]] = (fields[1], fields[2:], number)
    return rows


def owner(tree: Tree, path: str) -> str | None:
    """The room, or the face, that a path under src/ belongs to: the longest one that matches."""
    rows = table(tree)
    if path in rows:
        return path
    parts = path.split("/")[:-1]
    while parts:
        if "/".join(parts) in rows:
            return "/".join(parts)
        parts.pop()
    return None


def check_table(tree: Tree) -> list[Finding]:
    """A row names only rows above it (so there is no cycle), and a pure room no MLX room."""
    findings, above = [], set()
    for room, (kind, deps, number) in table(tree).items():
        if kind not in ("pure", "mlx"):
            findings.append(Finding("table", TABLE, number, f"{room}: kind is pure or mlx, not {kind}"))
        for dep in deps:
            if dep not in above:
                findings.append(Finding("table", TABLE, number, f"{room} names {dep}, which is not above it"))
            elif kind == "pure" and table(tree)[dep][0] == "mlx":
                findings.append(Finding("table", TABLE, number, f"{room} is pure and names the MLX room {dep}"))
        above.add(room)
    return findings


def check_includes(tree: Tree) -> list[Finding]:
    findings = []
    for name in tree.cpp("src/"):
        room = owner(tree, name.removeprefix("src/"))
        if room is None:
            findings.append(Finding("include", name, 1, f"belongs to no room of {TABLE}"))
            continue
        for number, line in enumerate(tree.lines(name), 1):
            if match := INCLUDE.match(line):
                findings += [Finding("include", name, number, text)
                             for text in include_faults(tree, name, room, *match.groups())]
    return findings


def include_faults(tree: Tree, name: str, room: str, quote: str, target: str) -> list[str]:
    kind, deps, _ = table(tree)[room]
    if quote == "<":
        foreign = target.startswith("mlx/")
        return [f"{room} is pure and includes <{target}>"] if foreign and kind == "pure" else []
    if f"src/{target}" not in tree.files:
        beside = name.rsplit("/", 1)[0] + "/" + target
        if beside in tree.files:
            return [f'"{target}" is written from src/: "{beside.removeprefix("src/")}"']
        return []  # a generated header or a library's
    other = owner(tree, target)
    faults = []
    test = name.endswith("_test.cpp")
    if other is None:
        faults.append(f"{target} belongs to no room")
    elif other != room and other not in deps and not (test and allowed_in_test(tree, room, other)):
        faults.append(f"{room} may not include {target} ({other} is not in its row of {TABLE})")
    if room == "server" and target.startswith("engine/") and target not in SERVER_SEES and not test:
        faults.append(f"the server sees only engine/api.h, not {target}")
    return faults


def allowed_in_test(tree: Tree, room: str, other: str) -> bool:
    """A test may use what its TEST_DEPS links, as long as a pure room's test stays pure."""
    rows = table(tree)
    if rows[room][0] == "pure" and rows[other][0] == "mlx":
        return False
    return other in arguments(tree, room).get("TEST_DEPS", [])


@functools.lru_cache(maxsize=None)
def arguments(tree: Tree, room: str) -> dict[str, list[str]]:
    """What add_room() of this room says, by keyword."""
    name = f"src/{room}/CMakeLists.txt"
    if name not in tree.files:
        return {}
    text = re.sub(r"#.*", "", "\n".join(tree.lines(name)))
    for variable, value in re.findall(r"\bset\(\s*(\w+)\s+([^)]*)\)", text):
        text = text.replace("${" + variable + "}", value)
    match = ADD_ROOM.search(text)
    said, keyword = {}, None
    for word in match[1].split() if match else []:
        if word in KEYWORDS:
            keyword = word
            said[keyword] = []
        elif keyword:
            said[keyword].append(word)
    return said


def check_links(tree: Tree) -> list[Finding]:
    """DEPS of add_room() names only what the room's row allows."""
    findings = []
    rows = table(tree)
    for room, (kind, deps, _) in rows.items():
        said = arguments(tree, room)
        if not said:
            continue
        name = f"src/{room}/CMakeLists.txt"
        if said.get("NAME") != [room]:
            findings.append(Finding("link", name, 1, f"add_room(NAME …) is not {room}"))
        for dep in said.get("DEPS", []):
            # A face is linked through the room that it belongs to, so the room itself must not be.
            if dep not in deps:
                findings.append(Finding("link", name, 1, f"{room} links {dep}, which its row of {TABLE} does not name"))
        for dep in said.get("TEST_DEPS", []):
            if dep not in rows or (kind == "pure" and rows[dep][0] == "mlx"):
                findings.append(Finding("link", name, 1, f"the tests of {room} may not link {dep}"))
    return findings


def check_folders(tree: Tree) -> list[Finding]:
    """Each room has a README and a CMakeLists.txt; its namespace is its name."""
    findings = []
    for room, (_, _, number) in table(tree).items():
        sources = [f for f in tree.cpp(f"src/{room}/") if owner(tree, f.removeprefix("src/")) == room]
        if room.endswith(".h") or not sources:
            continue
        for needed in ("README.md", "CMakeLists.txt"):
            if f"src/{room}/{needed}" not in tree.files:
                findings.append(Finding("folder", f"src/{room}", 1, f"has no {needed}"))
        if room == "base":  # its names belong to everybody
            continue
        space = "namespace pome::" + room.split("/")[-1]
        spaces = ("namespace pome::" + room.replace("/", "::"), space, "namespace pome::" + room.split("/")[0])
        for name in sources:
            if name.endswith(".h") and not any(line.startswith(spaces) for line in tree.lines(name)):
                if any(line.startswith("namespace pome") for line in tree.lines(name)):
                    findings.append(Finding("namespace", name, 1, f"is not in {spaces[0]}"))
    return findings


def check_map(tree: Tree) -> list[Finding]:
    """ARCHITECTURE.md names every room, so that a reader finds it."""
    if "ARCHITECTURE.md" not in tree.files:
        return []
    page = "\n".join(tree.lines("ARCHITECTURE.md"))
    return [Finding("map", "ARCHITECTURE.md", 1, f"does not name the room `{room}`")
            for room in table(tree) if not room.endswith(".h") and f"`{room}`" not in page]
