"""`pome bench …` and profiles: the commands of SGLang's documents and of its roadmap for Apple silicon, with `pome bench`
in place of `python -m sglang.bench_…`, against the echo engine and a tiny model with random weights."""
import http.server
import json
import math
import pathlib
import shlex
import socket
import threading
import urllib.error

import program
import tiny_model

SERVING_FIELDS = {
    "tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len", "random_input_len",
    "random_output_len", "random_range_ratio", "server_info", "duration", "completed", "failed", "total_input_tokens",
    "total_input_text_tokens", "total_input_vision_tokens", "total_output_tokens", "total_output_tokens_retokenized",
    "request_throughput", "input_throughput", "output_throughput", "total_throughput", "concurrency", "accept_length",
    "max_output_tokens_per_s", "max_concurrent_requests", "max_itl_ms",
    *(f"{part}_{what}_ms" for part in ("mean", "median", "std", "p90", "p95", "p99")
      for what in ("e2e_latency", "ttft", "tpot", "itl"))}
DETAILS = {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors", "cached_tokens"}
SHAREGPT = [{"conversations": [{"from": "human", "value": f"question number {i}, and why is that so?"},
                               {"from": "gpt", "value": f"answer {i}"}]} for i in range(20)]


def slices(trace: pathlib.Path) -> list[dict]:
    """Of a file that has ended, or will in a moment."""
    program.wait_for(lambda: trace.read_text().endswith("]\n"), what="the trace's end")
    return [event for event in json.loads(trace.read_text()) if event["ph"] == "X"]


class BenchTest(program.ProgramTest):
    def setUp(self):
        super().setUp()
        self.results = self.home / "results.jsonl"
        self.profiles = self.home / "profiles"

    def bench(self, command: str, code: int = 0, **env: str):
        """The words of a command line; {home} stands for the test's folder."""
        result = self.run_pome("bench", *shlex.split(command.replace("{home}", str(self.home))), timeout=120,
                               SGLANG_TORCH_PROFILER_DIR=str(self.profiles), **env)
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout}\n{result.stderr}")
        return result

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def serve_profiled(self, *flags: str, **more):
        return self.serve(*flags, env={"SGLANG_TORCH_PROFILER_DIR": str(self.profiles)}, **more)

    def sharegpt(self) -> pathlib.Path:
        file = self.home / "sharegpt.json"
        file.write_text(json.dumps(SHAREGPT))
        return file


class ServingTest(BenchTest):
    def measure(self, port: int, words: str, **env: str) -> tuple[dict, str]:
        self.results.unlink(missing_ok=True)
        out = self.bench(f"serving --port {port} --output-file {{home}}/results.jsonl {words}", **env)
        (result,) = self.lines()
        return result, out.stdout

    def check(self, result: dict, requests: int, prompt: int | None, output: int):
        self.assertLessEqual(SERVING_FIELDS, set(result))
        self.assertEqual((result["completed"], result["failed"]), (requests, 0))
        if prompt is not None:
            self.assertEqual(result["total_input_tokens"], requests * prompt)
        self.assertEqual(result["total_output_tokens"], requests * output)
        for part in ("duration", "request_throughput", "mean_ttft_ms", "p99_e2e_latency_ms", "concurrency"):
            self.assertGreater(result[part], 0, part)
        self.assertLessEqual(result["median_ttft_ms"], result["median_e2e_latency_ms"])
        self.assertLessEqual(result["mean_tpot_ms"], result["mean_e2e_latency_ms"])
        self.assertLessEqual(result["median_itl_ms"], result["max_itl_ms"])
        self.assertTrue(math.isclose(result["request_throughput"] * result["duration"], requests, rel_tol=1e-6))
        self.assertTrue(math.isclose(result["total_throughput"],
                                     result["input_throughput"] + result["output_throughput"], rel_tol=1e-6))

    def test_each_backend_counts_exactly(self):
        _, port = self.serve()
        exact = "--dataset-name random --num-prompts 6 --random-input 40 --random-output 12 --random-range-ratio 1"
        for backend in ("sglang", "sglang-native", "sglang-oai", "sglang-oai-chat"):
            for streamed in ("", "--disable-stream"):
                with self.subTest(f"{backend} {streamed}"):
                    result, out = self.measure(port, f"--backend {backend} {exact} {streamed}")
                    self.check(result, 6, 40, 12)
                    self.assertEqual(result["backend"], backend)
                    self.assertEqual(result["request_rate"], "inf")
                    self.assertEqual(result["total_output_tokens_retokenized"], 72)
                    self.assertIn(" Serving Benchmark Result ".center(50, "="), out)
                    self.assertIn(f"{'Backend:':<40} {backend:<10}\n", out)
                    self.assertRegex(out, r"\nTotal generated tokens: {17} 72 *\n")

    def test_details_list_every_request(self):
        _, port = self.serve()
        result, _ = self.measure(port, "--dataset-name random-ids --num-prompts 5 --random-input-len 9 "
                                       "--random-output-len 4 --random-range-ratio 1 --output-details --tag night")
        self.assertLessEqual(DETAILS, set(result))
        self.assertEqual(result["input_lens"], [9] * 5)
        self.assertEqual(result["output_lens"], [4] * 5)
        self.assertEqual([len(gaps) for gaps in result["itls"]], [3] * 5)
        self.assertEqual(result["errors"], [""] * 5)
        self.assertEqual(result["tag"], "night")

    def test_groups_and_recorded_questions(self):
        _, port = self.serve()
        result, out = self.measure(port, "--dataset-name generated-shared-prefix --gsp-num-groups 2 "
                                         "--gsp-prompts-per-group 3 --gsp-system-prompt-len 64 --gsp-question-len 16 "
                                         "--gsp-output-len 5 --cache-report")
        self.check(result, 6, 82, 5)  # two line breaks between the parts
        self.assertGreater(result["cache_report"]["total_cached_tokens"], 0)
        self.assertIn("Cache hit rate:", out)
        result, _ = self.measure(port, f"--dataset-path {self.sharegpt()} --num-prompts 7")
        self.assertEqual((result["dataset_name"], result["completed"]), ("sharegpt", 7))
        self.assertTrue(7 * 8 <= result["total_output_tokens"] <= 7 * 9)  # "answer 3", "answer 12"

    def test_a_rate_and_a_limit_hold(self):
        _, port = self.serve()
        exact = "--dataset-name random-ids --num-prompts 8 --random-input-len 8 --random-output-len 8 " \
                "--random-range-ratio 1 --output-details"
        result, _ = self.measure(port, f"{exact} --request-rate 40 --seed 3")
        self.check(result, 8, 8, 8)
        self.assertEqual(result["request_rate"], 40)
        self.assertGreater(result["duration"], 0.04)  # eight arrivals take time
        result, out = self.measure(port, f"{exact} --max-concurrency 1")
        self.assertEqual(result["max_concurrency"], 1)
        self.assertLessEqual(result["concurrency"], 1.0)
        self.assertRegex(out, r"Max request concurrency: {16} 1 ")

    def test_extra_fields_and_the_key_reach_the_server(self):
        _, port = self.serve("--api-key", "secret")
        exact = "--dataset-name random --num-prompts 2 --random-input-len 30 --random-output-len 9 --random-range-ratio 1"
        refused = self.bench(f"serving --port {port} {exact} --ready-check-timeout-sec 0", code=1)
        self.assertIn("401", refused.stderr)
        result, _ = self.measure(port, exact + """ --extra-request-body '{"sampling_params": {"max_new_tokens": 3}}'""",
                                 OPENAI_API_KEY="secret")
        self.check(result, 2, 30, 3)

    def test_errors_are_counted_and_shown(self):
        _, port = self.serve()
        words = "--dataset-name random --num-prompts 3 --random-input-len 5 --random-output-len 2 --random-range-ratio 1 " \
                "--warmup-requests 0"
        out = self.bench(f"serving --port {port} {words} --output-file {{home}}/results.jsonl --output-details "
                         """--extra-request-body '{"nonsense": 1}'""", code=1)
        self.assertIn("3 of 3 requests failed: status 400", out.stderr)
        self.assertIn("nonsense", out.stderr)
        self.assertRegex(out.stdout, r"Failed requests: {24} 3 ")
        (result,) = self.lines()
        self.assertEqual((result["completed"], result["failed"]), (0, 3))
        self.assertIn("nonsense", result["errors"][0])
        failed = self.bench(f"serving --port {port} {words.replace('requests 0', 'requests 1')} "
                            """--extra-request-body '{"nonsense": 1}'""", code=1)
        self.assertIn("warm-up failed", failed.stderr)

    def test_the_cache_is_emptied_after_the_warm_up(self):
        _, port = self.serve()
        same = "--dataset-name random --num-prompts 1 --random-input-len 64 --random-output-len 2 --random-range-ratio 1 " \
               "--output-details"
        kept, _ = self.measure(port, f"{same} --seed 1")
        flushed, _ = self.measure(port, f"{same} --seed 2 --flush-cache")
        self.assertEqual(kept["cached_tokens"], [48])
        self.assertEqual(flushed["cached_tokens"], [0])

    def test_no_server_is_one_line(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            out = self.bench(f"serving --port {s.getsockname()[1]} --ready-check-timeout-sec 0 --dataset-name random", code=1)
        self.assertEqual(len(out.stderr.strip().splitlines()), 1)
        self.assertIn("pome serve", out.stderr)

    def test_options_are_known_refused_or_wrong(self):
        for words, said in [("--nonsense", "--nonsense"), ("--lora-name a", "adapters"),
                            ("--backend trt", "sglang-oai-chat"), ("--dataset-name mooncake", "generated-shared-prefix"),
                            ("--num-prompts 0", "--num-prompts"), ("--request-rate 0", "--request-rate"),
                            ("--profile-by-stage", "trace"), ("--extra-request-body [1]", "--extra-request-body"),
                            ("--backend sglang-oai-chat --dataset-name random-ids", "token ids"),
                            ("--dataset-path /no/such.json", "/no/such.json")]:
            self.assertIn(said, self.bench(f"serving --port 1 --ready-check-timeout-sec 0 {words}", code=2).stderr)

    def test_sharegpt_itself_is_fetched_once(self):
        body = json.dumps(SHAREGPT).encode()
        asked = []

        class Hub(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        self.addCleanup(hub.server_close)
        self.addCleanup(hub.shutdown)
        _, port = self.serve()
        for _ in range(2):
            result, _ = self.measure(port, "--backend sglang --num-prompt 10",
                                     HF_ENDPOINT=f"http://127.0.0.1:{hub.server_address[1]}")
            self.assertEqual(result["completed"], 10)
        self.assertEqual(len(asked), 1)
        self.assertTrue(asked[0].endswith("ShareGPT_V3_unfiltered_cleaned_split.json"))


class OneBatchServerTest(BenchTest):
    FIELDS = {"run_name", "batch_size", "input_len", "output_len", "latency", "input_throughput", "output_throughput",
              "overall_throughput", "last_ttft", "last_gen_throughput", "acc_length", "total_output_tokens",
              "num_early_stopped", "cache_hit_rate"}

    def test_every_shape_is_measured_with_sglangs_fields(self):
        _, port = self.serve("--max-running-requests", "8")
        out = self.bench(f"one-batch-server --model None --base-url http://127.0.0.1:{port} --batch-size 1 4 --input-len 32 64 "
                         "--output-len 8 --run-name mine --result-filename {home}/results.jsonl --show-report")
        results = self.lines()
        self.assertEqual([(r["batch_size"], r["input_len"], r["output_len"]) for r in results],
                         [(1, 32, 8), (1, 64, 8), (4, 32, 8), (4, 64, 8)])
        for result in results:
            self.assertLessEqual(self.FIELDS, set(result))
            self.assertEqual(result["run_name"], "mine")
            self.assertEqual(result["total_output_tokens"], result["batch_size"] * 8)
            self.assertEqual((result["num_early_stopped"], result["acc_length"]), (0, -1))
            self.assertEqual(result["cache_hit_rate"], 0)
            self.assertGreaterEqual(result["latency"], result["last_ttft"])
            self.assertGreater(result["overall_throughput"], 0)
        for line in ("batch size: 4\ninput_len: 64\noutput_len: 8\n", "| batch size | input len |"):
            self.assertIn(line, out.stdout)

    def test_a_part_of_the_prompts_is_cached(self):
        _, port = self.serve()
        self.bench(f"one-batch-server --port {port} --input-len 64 --output-len 4 --batch 2 --cache-hit-rate 0.5 --skip-warmup "
                   "--result-filename {home}/results.jsonl")
        self.assertEqual(self.lines()[0]["cache_hit_rate"], 0.5)

    def test_more_prompts_than_a_request_may_carry_are_one_batch(self):
        _, port = self.serve("--max-running-requests", "100")
        self.bench(f"one-batch-server --port {port} --input-len 4 --output-len 2 --batch 70 --skip-warmup "
                   "--dataset-name random-ids --result-filename {home}/results.jsonl")
        self.assertEqual(self.lines()[0]["total_output_tokens"], 140)

    def test_what_the_server_cannot_hold_is_skipped_and_said(self):
        _, port = self.serve("--max-running-requests", "2")
        out = self.bench(f"one-batch-server --port {port} --batch-size 3 --input-len 8 --output-len 2 --skip-warmup "
                         "--result-filename {home}/results.jsonl")
        self.assertIn("max running requests limit", out.stdout)
        self.assertFalse(self.results.exists())
        self.bench(f"one-batch-server --port {port} --batch-size 3 --input-len 8 --output-len 2 --skip-warmup "
                   "--enable-multi-batch --result-filename {home}/results.jsonl")
        self.assertEqual(self.lines()[0]["total_output_tokens"], 6)

    def test_refused_options_name_their_alternative(self):
        for words, said in [("--pydantic-result-filename x", "--result-filename"), ("--batch-size 0", "--batch-size"),
                            ("--backend vllm", "sglang"), ("--profile-by-stage", "trace")]:
            self.assertIn(said, self.bench(f"one-batch-server --port 1 --ready-check-timeout-sec 0 {words}", code=2).stderr)


class ProfileTest(BenchTest):
    def ask(self, port: int, path: str, body: dict | None = None) -> tuple[int, str]:
        try:
            with program.post(port, path, {} if body is None else body) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def traces(self) -> list[pathlib.Path]:
        return sorted(self.profiles.rglob("*.trace.json"))

    def test_a_profile_holds_the_steps_between_start_and_stop(self):
        _, port = self.serve_profiled()
        self.ask(port, "/generate", {"text": "before"})
        status, said = self.ask(port, "/start_profile", {"activities": ["CPU"]})
        self.assertEqual(status, 200, said)
        self.assertEqual(self.ask(port, "/start_profile")[0], 400)
        self.ask(port, "/generate", {"text": "four", "sampling_params": {"max_new_tokens": 3}})
        status, said = self.ask(port, "/stop_profile")
        self.assertEqual(status, 200, said)
        (trace,) = self.traces()
        self.assertIn(str(trace), said)
        # The answer leaves before its last step's span ends.
        self.assertIn(len([s for s in slices(trace) if s["name"] == "step"]), (2, 3))
        self.assertEqual(self.ask(port, "/stop_profile")[0], 400)

    def test_a_profile_ends_after_its_steps(self):
        _, port = self.serve_profiled()
        status, said = self.ask(port, "/start_profile", {"num_steps": "4", "start_step": 3, "profile_prefix": "bounded"})
        self.assertEqual(status, 200, said)
        self.ask(port, "/generate", {"text": "a longer prompt", "sampling_params": {"max_new_tokens": 12}})
        (trace,) = program.wait_for(self.traces, what="the trace")
        steps = [s["args"]["step"] for s in slices(trace) if s["name"] == "step"]
        self.assertEqual(steps, [3, 4, 5, 6])
        self.assertTrue(trace.name.startswith("bounded-"))
        status, said = self.ask(port, "/stop_profile")
        self.assertEqual(status, 400)
        self.assertIn(str(trace), said)

    def test_files_stay_below_the_configured_folder(self):
        _, port = self.serve_profiled()
        status, _ = self.ask(port, "/start_profile", {"output_dir": str(self.profiles / "a/b"), "num_steps": 1})
        self.assertEqual(status, 200)
        self.ask(port, "/generate", {"text": "x"})
        program.wait_for(lambda: (self.profiles / "a/b").glob("*.trace.json"))
        for wanted in ("..", "/", str(self.home / "elsewhere"), "a/../../elsewhere"):
            status, said = self.ask(port, "/start_profile", {"output_dir": wanted})
            self.assertEqual((status, json.loads(said)["error"]["param"]), (400, "output_dir"), wanted)
        self.assertFalse((self.home / "elsewhere").exists())

    def test_what_cannot_be_done_is_refused_by_name(self):
        _, port = self.serve_profiled()
        for body, field in [({"with_stack": True}, "with_stack"), ({"profile_by_stage": True}, "profile_by_stage"),
                            ({"activities": ["MEM"]}, "activities"), ({"num_steps": 0}, "num_steps"),
                            ({"profile_prefix": "a/b"}, "profile_prefix")]:
            status, said = self.ask(port, "/start_profile", body)
            self.assertEqual((status, json.loads(said)["error"]["param"]), (400, field))
        self.assertEqual(self.traces(), [])

    def test_a_server_that_records_everything_makes_no_profiles(self):
        process, port = self.serve_profiled("--trace-file", str(self.home / "whole.json"))
        status, said = self.ask(port, "/start_profile")
        self.assertEqual(status, 400)
        self.assertIn("--trace-file", said)
        self.assertEqual(self.end(process), 0)
        json.loads((self.home / "whole.json").read_text())

    def test_a_profile_that_runs_when_the_server_ends_is_whole(self):
        process, port = self.serve_profiled()
        self.ask(port, "/start_profile")
        self.ask(port, "/generate", {"text": "x"})
        self.assertEqual(self.end(process), 0)
        (trace,) = self.traces()
        self.assertTrue(slices(trace))

    def test_benchmarks_of_servers_record_profiles(self):
        _, port = self.serve_profiled()
        load = "--dataset-name random --num-prompts 3 --random-input-len 20 --random-output-len 8 --random-range-ratio 1"
        out = self.bench(f"serving --backend sglang --port {port} {load} --profile --output-file {{home}}/results.jsonl")
        self.assertIn("Stop profiling.", out.stdout)
        self.assertGreaterEqual(len(slices(self.traces()[0])), 8)
        self.bench(f"one-batch-server --model None --base-url http://localhost:{port} --batch-size 2 --input-len 16 "
                   "--output-len 8 --show-report --profile --profile-prefix batch --result-filename {home}/results.jsonl")
        (trace,) = [t for t in self.traces() if t.name.startswith("batch-")]
        self.assertLessEqual(len([s for s in slices(trace) if s["name"] == "step"]), 5)


class ModelTest(BenchTest):
    """offline-throughput and one-batch, which run the model themselves."""

    def setUp(self):
        super().setUp()
        if not json.loads(self.run_pome("check-env", "--json").stdout)["mlx_version"]:
            self.skipTest("built without MLX")
        self.model = self.home / "model"
        tiny_model.write_to(self.model)

    def offline(self, words: str) -> tuple[dict, str]:
        self.results.unlink(missing_ok=True)
        out = self.bench(f"offline-throughput --result-filename {{home}}/results.jsonl {words}")
        (result,) = self.lines()
        self.assertEqual(set(result), {"backend", "successful_requests", "total_latency", "total_input_tokens",
                                       "total_output_tokens", "last_gen_throughput", "request_throughput",
                                       "input_throughput", "output_throughput", "total_throughput"})
        self.assertIn(" Offline Throughput Benchmark Result ".center(50, "="), out.stdout)
        self.assertTrue(math.isclose(result["request_throughput"] * result["total_latency"],
                                     result["successful_requests"], rel_tol=1e-6))
        return result, out.stdout

    def test_offline_throughput_counts_exactly(self):
        for model in (str(self.model), "echo"):
            result, _ = self.offline(f"--model-path {model} --dataset-name random --num-prompts 9 --random-input 24 "
                                     "--random-output 6 --random-range-ratio 1 --skip-warmup")
            self.assertEqual((result["successful_requests"], result["total_input_tokens"], result["total_output_tokens"]),
                             (9, 216, 54))

    def test_the_roadmaps_offline_command(self):
        result, _ = self.offline(f"--model-path {self.model} --num-prompts 1 --port 43440 --dataset-path {self.sharegpt()}")
        self.assertEqual(result["successful_requests"], 1)

    def test_offline_profiles_hold_the_engines_steps(self):
        self.offline(f"--model-path {self.model} --dataset-name random-ids --num-prompts 2 --random-input-len 20 "
                     "--random-output-len 5 --random-range-ratio 1 --profile")
        names = {s["name"] for s in slices(self.profiles / "profile_offline.trace.json")}
        self.assertLessEqual({"plan", "gather", "run", "sample", "wait", "commit"}, names)

    def test_offline_refuses_by_name(self):
        for words, said in [("--backend runtime", "engine"), ("--do-not-exit", "--do-not-exit"),
                            ("""--extra-request-body '{"stop": "x"}'""", "stop"), ("--nonsense", "--nonsense")]:
            self.assertIn(said, self.bench(f"offline-throughput --model-path echo --dataset-name random {words}", code=2).stderr)

    def one_batch(self, words: str) -> tuple[list[dict], str]:
        self.results.unlink(missing_ok=True)
        out = self.bench(f"one-batch --model-path {self.model} --result-filename {{home}}/results.jsonl {words}")
        return self.lines() if self.results.exists() else [], out.stdout

    def test_the_roadmaps_one_batch_command(self):
        (result,), out = self.one_batch("--trust-remote-code --disable-radix-cache --disable-cuda-graph --tp-size 1 "
                                        "--batch-size 1 --input-len 60 --output-len 10 --port 43440")
        self.assertEqual(set(result), {"run_name", "batch_size", "input_len", "output_len", "prefill_latency",
                                       "prefill_throughput", "median_decode_latency", "median_decode_throughput",
                                       "total_latency", "overall_throughput"})
        self.assertTrue(math.isclose(result["prefill_throughput"] * result["prefill_latency"], 60, rel_tol=1e-6))
        self.assertTrue(math.isclose(result["overall_throughput"] * result["total_latency"], 70, rel_tol=1e-6))
        for line in (r"Prefill\. latency: +\d+\.\d{5} s, throughput: +\d+\.\d\d token/s\n",
                     r"Decode 4\. Batch size: 1, latency: +\d+\.\d{5} s, throughput: +\d+\.\d\d token/s\n",
                     r"Decode\.  median latency: +\d+\.\d{5} s, median throughput: +\d+\.\d\d token/s\n",
                     r"Total\. latency: +\d+\.\d{3} s, throughput: +\d+\.\d\d token/s\n"):
            self.assertRegex(out.split("Benchmark ...")[1], line)
        self.assertNotIn("Decode 5.", out.split("Benchmark ...")[1])

    def test_one_batch_sweeps_every_shape(self):
        results, out = self.one_batch("--batch-size 1 2 --input-len 16 24 --output-len 1 8 --run-name sweep --log-decode-step 3")
        self.assertEqual([(r["batch_size"], r["input_len"], r["output_len"]) for r in results],
                         [(b, i, o) for b in (1, 2) for i in (16, 24) for o in (1, 8)])
        self.assertEqual({r["run_name"] for r in results}, {"sweep"})
        self.assertNotIn("median_decode_latency", results[0])
        self.assertIn("Decode 6.", out)

    def test_nodes_do_not_grow_with_the_batch(self):
        results, out = self.one_batch("--batch-size 1 3 --input-len 16 --output-len 4 --count-nodes")
        self.assertRegex(out, r"Decode\. nodes: \d+ \(")
        self.assertGreater(results[0]["decode_nodes"], 0)
        self.assertEqual(results[0]["decode_nodes"], results[1]["decode_nodes"])
        self.assertEqual(sum(results[0]["decode_nodes_by_name"].values()), results[0]["decode_nodes"])
        self.assertGreater(results[0]["weight_bytes"], 0)

    def test_one_batch_profiles_its_stages(self):
        self.one_batch("--batch-size 1 --input-len 16 --output-len 8 --profile")
        prefill = slices(self.profiles / "profile_batch1_input16_output8_prefill.trace.json")
        decode = slices(self.profiles / "profile_batch1_input16_output8_decode.trace.json")
        self.assertEqual([s["name"] for s in prefill], ["prefill"])
        self.assertEqual([s["args"]["step"] for s in decode if s["name"] == "decode"], [4])
        self.one_batch("--batch-size 1 --input-len 16 --output-len 8 --profile --profile-stage decode --profile-start-step 1 "
                       "--profile-steps 3 --profile-prefix mine")
        decode = slices(self.profiles / "mine_batch1_input16_output8_decode.trace.json")
        self.assertEqual([s["args"]["step"] for s in decode if s["name"] == "decode"], [1, 2, 3])
        self.assertFalse(list(self.profiles.glob("mine*prefill*")))

    def test_the_correctness_test_shows_logits_and_answers(self):
        _, out = self.one_batch("--correct --output-len 5")
        for text in ("input_ids=[[", "prefill logits (first half): [[", "prefill logits (final): [[",
                     "========== Prompt 2 ==========\nToday is a sunny day and I like"):
            self.assertIn(text, out)

    def test_prompts_of_a_file_are_used(self):
        file = self.home / "prompts.txt"
        file.write_text("The capital of France is\nOnce upon a time\n")
        (result,), _ = self.one_batch(f"--prompt-filename {file} --batch-size 3 --output-len 4")
        self.assertEqual(result["batch_size"], 3)
        missing = self.bench(f"one-batch --model-path {self.model} --prompt-filename /no/file", code=2)
        self.assertIn("/no/file", missing.stderr)

    def test_one_batch_refuses_what_it_cannot_time(self):
        self.assertIn("echo", self.bench("one-batch --model-path echo", code=2).stderr)
        self.assertIn("--profile-record-shapes",
                      self.bench(f"one-batch --model-path {self.model} --profile-record-shapes", code=2).stderr)


class HelpTest(BenchTest):
    def test_every_benchmark_has_help_of_lines_that_fit(self):
        overview = self.bench("--help").stdout
        for name in ("serving", "one-batch-server", "offline-throughput", "one-batch"):
            self.assertIn(f"  {name} ", overview)
            out = self.bench(f"{name} --help").stdout
            self.assertTrue(out.startswith(f"usage: pome bench {name}"))
            self.assertEqual([line for line in out.splitlines() if len(line) > 110], [])
        self.assertIn("usage", self.bench("", code=2).stderr)
        self.assertIn("nonsense", self.bench("nonsense", code=2).stderr)


if __name__ == "__main__":
    program.main()
