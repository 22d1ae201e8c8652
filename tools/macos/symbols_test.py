"""What the macOS link may leave open, and that the reader of Mach-O files reads and refuses."""
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import symbols  # noqa: E402

BRIDGE = {"pome_tokenizer_encode"}
ADD = "_ZN3mlx4core3addERKNS0_5arrayES3_"


def verdict(name: str, readable: str | None = None, exported: set[str] = frozenset({ADD})) -> str | None:
    return symbols.judge(name, readable or symbols.demangle([name])[0], set(exported), BRIDGE)


class JudgeTest(unittest.TestCase):
    def test_only_these_libraries_may_stay_open(self):
        self.assertEqual(symbols.NAMESPACES, ("CLI", "YAML", "boost", "fmt", "hwy", "prometheus", "spdlog"))
        for name in ("_ZN5boost4json6parserC1Ev", "_ZTVN6spdlog6loggerE", "EVP_DigestInit_ex", "objc_msgSend"):
            self.assertIsNone(verdict(name), name)

    def test_the_bridge_is_open_as_far_as_its_header_declares(self):
        self.assertIsNone(verdict("pome_tokenizer_encode"))
        self.assertIn("neither", verdict("pome_not_in_the_header"))

    def test_names_that_mlx_exports_resolve_and_others_do_not(self):
        self.assertIsNone(verdict(ADD))
        self.assertIn("does not export it", verdict("_ZN3mlx4core15contiguous_copyERKNS0_5arrayE"))

    def test_an_argument_of_a_third_party_type_excuses_nothing(self):
        self.assertIn("neither", verdict("_ZN4pome4readERKN5boost4json5valueE"))

    def test_a_function_of_ours_must_be_defined(self):
        self.assertIn("neither", verdict("_ZN4pome6kernels3runEv"))


class ReaderTest(unittest.TestCase):
    def read(self, data: bytes) -> list[symbols.Symbol]:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return symbols.read_symbols(pathlib.Path(file.name))

    def test_external_names_with_the_library_that_they_come_from(self):
        strings = b"\0_here\0_open\0_local\0"
        header = struct.pack("<8I", symbols.MAGIC_64, 0, 0, 0, 1, 24, 0, 0)
        entries = [(1, 0x0F, 0, 0), (7, 0x01, 0xFE << 8, 0), (13, 0x0E, 0, 0)]
        at = 32 + 24
        command = struct.pack("<6I", symbols.LC_SYMTAB, 24, at, len(entries), at + 16 * len(entries), len(strings))
        table = b"".join(struct.pack("<IBBHQ", name, kind, 0, about, value) for name, kind, about, value in entries)
        self.assertEqual(self.read(header + command + table + strings),
                         [symbols.Symbol("here", True, 0), symbols.Symbol("open", False, symbols.DYNAMIC_LOOKUP)])

    def test_another_format_is_refused(self):
        with self.assertRaises(ValueError):
            self.read(b"\x7fELF" + bytes(64))


if __name__ == "__main__":
    unittest.main()
