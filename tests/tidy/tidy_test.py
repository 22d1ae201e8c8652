"""The tidy test finds each planted fault, and nothing in a clean tree."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sizes  # noqa: E402
import tidy  # noqa: E402

TABLE = """base pure
engine/api.h pure base
kvcache pure base
server pure base engine/api.h
tensor mlx base
engine mlx base engine/api.h kvcache tensor
"""
CLEAN = {
    "cmake/rooms.txt": TABLE,
    "src/base/README.md": "# base\n",
    "src/base/CMakeLists.txt": "add_room(NAME base)\n",
    "src/base/result.h": "#pragma once\nnamespace pome {}\n",
    "src/kvcache/README.md": "# kvcache\n",
    "src/kvcache/CMakeLists.txt": "add_room(NAME kvcache DEPS base)\n",
    "src/kvcache/tree.cpp": '#include "base/result.h"\nnamespace pome::kvcache {\nint f() {\n  return 1;\n}\n}\n',
    "src/engine/README.md": "# engine\n",
    "src/engine/CMakeLists.txt": "add_room(NAME engine DEPS base kvcache tensor)\n",
    "src/engine/api.h": '#include "base/result.h"\nnamespace pome::engine {}\n',
    "src/engine/loop.h": "#include <mlx/mlx.h>\nnamespace pome::engine {}\n",
    "src/server/README.md": "# server\n",
    "src/server/CMakeLists.txt": "add_room(NAME server DEPS base)\n",
    "src/server/http.cpp": '#include "engine/api.h"\nnamespace pome::server {}\n',
}


def findings(**changes: str | None) -> list[str]:
    """What tidy says of the clean tree with some files written anew; '__' stands for '/', None removes."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = CLEAN | {name.replace("__", "/"): text for name, text in changes.items()}
        for name, text in files.items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
        return [str(finding) for finding in tidy.check(root)]


class TidyTest(unittest.TestCase):
    def finds(self, words: str, **changes: str | None) -> None:
        found = findings(**changes)
        self.assertTrue(any(words in line for line in found), f"{words!r} is not in {found}")
        self.assertEqual(len(found), 1, found)

    def test_a_clean_tree_has_no_findings(self):
        self.assertEqual(findings(), [])

    def test_an_include_that_the_row_does_not_name(self):
        self.finds("may not include kvcache/tree.h",
                   **{"src/kvcache/tree.h": "namespace pome::kvcache {}\n",
                      "src/server/http.cpp": '#include "kvcache/tree.h"\n'})

    def test_mlx_in_a_pure_room(self):
        self.finds("kvcache is pure", **{"src/kvcache/tree.cpp": "#include <mlx/array.h>\n"})

    def test_the_server_sees_one_engine_header(self):
        found = findings(**{"src/server/http.cpp": '#include "engine/loop.h"\n'})
        self.assertTrue(any("sees only engine/api.h" in line for line in found), found)

    def test_a_cycle_in_the_table(self):
        found = findings(**{"cmake/rooms.txt": TABLE.replace("kvcache pure base", "kvcache pure base server")})
        self.assertTrue(any("kvcache names server, which is not above it" in line for line in found), found)

    def test_a_pure_room_that_names_an_mlx_room(self):
        moved = TABLE.replace("tensor mlx base\n", "").replace("kvcache pure base", "tensor mlx base\nkvcache pure base tensor")
        self.finds("is pure and names the MLX room", **{"cmake/rooms.txt": moved})

    def test_a_link_that_the_row_does_not_name(self):
        self.finds("kvcache links tensor",
                   **{"src/kvcache/CMakeLists.txt": "add_room(NAME kvcache DEPS base tensor)\n"})

    def test_a_source_outside_of_every_room(self):
        self.finds("belongs to no room", **{"src/attic/x.cpp": "int x;\n"})

    def test_a_room_without_a_readme(self):
        self.finds("has no README.md", **{"src/kvcache/README.md": None})

    def test_a_room_that_the_map_does_not_name(self):
        page = "`base` `kvcache` `server` `tensor` `engine`"
        self.assertEqual(findings(**{"ARCHITECTURE.md": page}), [])
        self.finds("does not name the room `kvcache`", **{"ARCHITECTURE.md": page.replace("`kvcache`", "")})

    def test_a_link_to_nothing(self):
        self.assertEqual(findings(**{"docs/a.md": "[room](../src/base) [web](https://x.y)\n"}), [])
        self.finds("b.md does not exist", **{"docs/a.md": "[b](b.md)\n"})

    def test_a_header_in_another_namespace(self):
        self.finds("is not in namespace pome::kvcache", **{"src/kvcache/a.h": "namespace pome::other {}\n"})

    def test_lines_at_the_bound_and_past_it(self):
        self.assertEqual(findings(**{"src/base/a.cpp": "/" * 100 + "\n"}), [])
        self.finds("101 columns", **{"src/base/a.cpp": "/" * 101 + "\n"})

    def test_files_at_the_bound_and_past_it(self):
        for name, bound in (("src/base/a.h", 250), ("src/base/a.cpp", 600), ("src/base/a_test.cpp", 800),
                            ("src/base/README.md", 40)):
            start = "namespace pome {}\n"
            self.assertEqual(findings(**{name: start + "\n" * (bound - 1)}), [], name)
            self.finds(f"at most {bound}", **{name: start + "\n" * bound})

    def test_a_dense_decoder_at_the_bound_and_past_it(self):
        header = {"src/models/llm/qwen3.h": "namespace pome::models {}\n" + "\n" * 39}
        source = "namespace pome::models {}\n"
        decoder = lambda lines: [f for f in findings(**header, **{"src/models/llm/qwen3.cpp": source + "\n" * lines})
                                 if "[decoder]" in f]
        self.assertEqual(decoder(79), [])
        self.assertIn("121 lines with its header, at most 120", decoder(80)[0])

    def test_functions_at_the_bound_and_past_it(self):
        body = "namespace pome {{\nint f(int a) {{\n{}}}\n}}\n"
        self.assertEqual(findings(**{"src/base/a.cpp": body.format("  a++;\n" * 58)}), [])
        self.finds("61 lines, at most 60", **{"src/base/a.cpp": body.format("  a++;\n" * 59)})

    def test_folders_at_the_bound_and_past_it(self):
        files = {f"src/base/f{i}.cpp": "int x;\n" for i in range(12)}
        self.assertEqual(findings(**files), [])
        self.finds("16 files, at most 15", **files, **{"src/base/g.cpp": "int x;\n"})

    def test_words_that_do_not_belong(self):
        for text in ("// TO" "DO: later\n", "// FIX" "ME\n", "// see /wo" "rk/x\n", "// iss" "ue #3\n"):
            self.finds("src/base/a.cpp:1", **{"src/base/a.cpp": text})

    def test_a_model_name_in_the_engine(self):
        self.finds("model-name", **{"src/engine/loop.cpp": "int qwen3_rope;\n"})

    def test_vague_names(self):
        for text in ("class PageManager {};\n", "struct KvUtils {};\n", "void do_step() {\n}\n"):
            self.finds("vague-name", **{"src/base/a.cpp": text})

    def test_the_environment_outside_of_apps(self):
        self.finds("only apps/ reads", **{"src/base/a.cpp": 'const char* h = std::getenv("HOME");\n'})
        self.assertEqual(findings(**{"apps/main.cpp": 'const char* h = std::getenv("HOME");\n'}), [])

    def test_an_await_in_a_condition(self):
        self.finds("await-in-condition", **{"src/base/a.cpp": "  if (!co_await quiet()) {\n  }\n"})
        self.assertEqual(findings(**{"src/base/a.cpp": "  const bool q = co_await quiet();\n"}), [])

    def test_goldens_name_the_script_that_makes_them(self):
        script = {"tools/make_golden/make_x.py": 'if __name__ == "__main__":\n    main()\n'}
        origin = {"src/base/golden/x/ORIGIN": "made by    tools/make_golden/make_x.py\n"}
        data = {"src/base/golden/x/data.bin": "1"}
        self.assertEqual(findings(**script, **origin, **data), [])
        self.finds("has no ORIGIN", **script, **data)
        self.finds("make_x.py does not exist", **origin, **data)
        self.finds("names no script", **script, **data, **{"src/base/golden/x/ORIGIN": "made by hand\n"})
        self.finds("is called make_*.py", **{"tools/make_golden/x.py": script["tools/make_golden/make_x.py"]})
        self.assertEqual(findings(**{"tools/make_golden/common.py": "SEED = 1\n"}), [])

    def test_an_exception_covers_one_finding_and_must_be_needed(self):
        long_line = {"src/base/a.cpp": "/" * 101 + "\n"}
        rule = {"tests/tidy/exceptions.txt": "line src/base/a.cpp a table that reads best in one piece\n"}
        self.assertEqual(findings(**long_line, **rule), [])
        self.finds("no longer needed", **rule)
        found = findings(**long_line, **{"tests/tidy/exceptions.txt": "line src/base/a.cpp\n"})
        self.assertTrue(any("has no reason" in line for line in found), found)


class FunctionSpansTest(unittest.TestCase):
    def spans(self, text: str) -> list[tuple[int, int]]:
        return sizes.function_spans(sizes.strip(tuple(text.split("\n"))))

    def test_members_and_lambdas_belong_to_one_function_each(self):
        text = "struct A {\n  int f() {\n    auto g = [] { return 1; };\n    return g();\n  }\n  int h() { return 2; }\n};"
        self.assertEqual(self.spans(text), [(2, 5), (6, 6)])

    def test_tables_and_enums_are_no_functions(self):
        self.assertEqual(self.spans("constexpr int k[] = {\n1,\n2};\nenum class E {\n a,\n b };\nA x = f({\n1});"), [])

    def test_braces_in_strings_and_comments_do_not_count(self):
        self.assertEqual(self.spans('int f() {\n  return g("{", \'{\'); // {\n}\nint h() {\n}'), [(1, 3), (4, 5)])

    def test_a_signature_over_two_lines_counts_from_its_first(self):
        self.assertEqual(self.spans("int f(int a,\n      int b) {\n}"), [(1, 3)])


if __name__ == "__main__":
    unittest.main()
