"""Reads the symbol table of a 64-bit Mach-O file and judges what a program leaves open.

usage: symbols.py PROGRAM LIBMLX BRIDGE_HEADER
"""
import dataclasses
import pathlib
import re
import struct
import subprocess
import sys

MAGIC_64 = 0xFEEDFACF
LC_SYMTAB, LC_LOAD_DYLIB = 0x2, 0xC
N_EXT, N_TYPE, N_UNDF, N_STAB = 0x01, 0x0E, 0x00, 0xE0
DYNAMIC_LOOKUP = 0xFE  # the library ordinal of a name that the linker did not find

# Everything that may stay open, because the cross build has no library for it: the C++ libraries of
# cmake/deps.cmake by namespace, OpenSSL and the Objective-C run time (metal-cpp) by prefix. The bridge's names are
# those that its header declares.
NAMESPACES = ("CLI", "YAML", "boost", "fmt", "hwy", "prometheus", "spdlog")
OPENSSL_PREFIXES = ("BIO_", "CRYPTO_", "ERR_", "EVP_", "OPENSSL_", "RAND_", "SHA256", "SSL_")
OBJECTIVE_C_PREFIXES = ("CF", "MTL", "NS", "OBJC_CLASS_$_", "objc_", "sel_")


@dataclasses.dataclass(frozen=True)
class Symbol:
    name: str      # mangled, without the leading underscore
    defined: bool
    library: int   # ordinal of the library that an undefined name comes from


def read_symbols(path: pathlib.Path) -> list[Symbol]:
    """The external symbols."""
    data = path.read_bytes()
    magic, *_, commands, _, _, _ = struct.unpack_from("<8I", data)
    if magic != MAGIC_64:
        raise ValueError(f"{path} is not a 64-bit little-endian Mach-O file")
    at, table = 32, None
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command == LC_SYMTAB:
            table = struct.unpack_from("<4I", data, at + 8)
        at += size
    if table is None:
        raise ValueError(f"{path} has no symbol table")
    first, count, strings, _ = table
    symbols = []
    for index in range(count):
        name_at, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, first + 16 * index)
        if kind & N_STAB or not kind & N_EXT:
            continue
        start = strings + name_at
        name = data[start:data.index(b"\0", start)].decode()
        symbols.append(Symbol(name.removeprefix("_"), kind & N_TYPE != N_UNDF, description >> 8))
    return symbols


def demangle(names: list[str]) -> list[str]:
    if not names:
        return []
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def bridge_names(header: pathlib.Path) -> set[str]:
    return set(re.findall(r"\b(pome_\w+)\s*\(", header.read_text()))


def may_stay_open(name: str, readable: str, bridge: set[str]) -> bool:
    if not name.startswith("_Z"):
        return name in bridge or name.startswith(OPENSSL_PREFIXES + OBJECTIVE_C_PREFIXES)
    # The name itself, not its arguments: `fmt::v9::vformat(…)`, `vtable for boost::…`.
    subject = re.sub(r"^(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for )", "", readable).split("(")[0]
    return any(re.search(rf"(?:^|[\s&*]){space}::", subject) for space in NAMESPACES) and "mlx::core" not in subject


def judge(name: str, readable: str, exported: set[str], bridge: set[str]) -> str | None:
    """Why an open name must not stay open, or None."""
    if name in exported or may_stay_open(name, readable, bridge):
        return None
    if "mlx::core" in readable:
        return f"{readable}: libmlx.dylib does not export it"
    return f"{readable}: neither MLX, nor the system, nor a library of cmake/deps.cmake has it"


def faults(program: pathlib.Path, libmlx: pathlib.Path, header: pathlib.Path) -> list[str]:
    exported = {symbol.name for symbol in read_symbols(libmlx) if symbol.defined}
    undefined = [symbol.name for symbol in read_symbols(program)
                 if not symbol.defined and symbol.library == DYNAMIC_LOOKUP]
    bridge = bridge_names(header)
    verdicts = (judge(name, readable, exported, bridge)
                for name, readable in zip(undefined, demangle(undefined), strict=True))
    return sorted(verdict for verdict in verdicts if verdict)


if __name__ == "__main__":
    found = faults(*map(pathlib.Path, sys.argv[1:4]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
