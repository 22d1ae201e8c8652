"""GET /metrics as a scraper reads it: Prometheus' own parser, the names that SGLang's dashboards use."""
import json
import urllib.request

from prometheus_client import parser

GAUGES = ["num_running_reqs", "num_queue_reqs", "num_used_tokens", "max_total_num_tokens", "token_usage",
          "gen_throughput", "cache_hit_rate"]
COUNTERS = ["prompt_tokens", "generation_tokens", "cached_tokens", "num_requests", "num_aborted_requests",
            "num_retracted_requests", "evicted_tokens"]
HISTOGRAMS = ["time_to_first_token_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds",
              "e2e_request_latency_seconds"]


def scrape(server) -> dict:
    """Families by name; a counter's name comes without _total, as the parser gives it."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = reply.read().decode()
    families = list(parser.text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families), "a family stands twice"
    return {family.name: family for family in families}


def value(families: dict, name: str) -> float:
    return sum(sample.value for sample in families[name].samples if not sample.name.endswith("_created"))


def count(families: dict, name: str) -> float:
    return next(sample.value for sample in families[name].samples if sample.name.endswith("_count"))


def check_format(families: dict):
    for kind, names in (("gauge", GAUGES), ("counter", COUNTERS), ("histogram", HISTOGRAMS)):
        for name in names:
            family = families["sglang:" + name]
            assert family.type == kind, name
            assert family.documentation, name
            assert all(sample.labels["model_name"] == "tested" for sample in family.samples), name
    for name in HISTOGRAMS:
        samples = families["sglang:" + name].samples
        buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name.endswith("_bucket")]
        assert buckets == sorted(buckets), "buckets rise, and so do their counts"
        assert buckets[-1][0] == float("inf")
        assert buckets[-1][1] == next(s.value for s in samples if s.name.endswith("_count"))
    for sample in [s for family in families.values() for s in family.samples]:
        assert sample.name.startswith(("sglang:", "pome:")), sample.name
        assert sample.value >= 0, sample


def check_traffic(server):
    before = scrape(server)
    prompt = "The quick brown fox jumps over the lazy dog, again and again. " * 4
    usages = []
    for n in (1, 1, 3):
        reply = server.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": prompt}], n=n, max_tokens=12)
        usages.append(reply.usage)
    stream = server.client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": prompt}], max_tokens=12, stream=True,
        stream_options={"include_usage": True})
    usages.append([chunk.usage for chunk in stream][-1])
    server.wait_until(lambda: value(scrape(server), "sglang:num_requests") ==
                      value(before, "sglang:num_requests") + 4)
    after = scrape(server)

    def grown(name: str) -> float:
        return value(after, name) - value(before, name)
    assert grown("sglang:prompt_tokens") == sum(usage.prompt_tokens for usage in usages)
    assert grown("sglang:generation_tokens") == sum(usage.completion_tokens for usage in usages)
    assert grown("sglang:cached_tokens") == sum(usage.prompt_tokens_details.cached_tokens for usage in usages)
    assert usages[1].prompt_tokens_details.cached_tokens > 0, "the second prompt is the first one's"
    assert grown("sglang:num_aborted_requests") == 0
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        assert count(after, "sglang:" + name) - count(before, "sglang:" + name) == 4
    assert value(after, "sglang:num_running_reqs") == 0
    assert value(after, "pome:last_step_age_seconds") == 0


def test_the_format_is_prometheus_own_and_the_names_are_sglangs(echo):
    check_format(scrape(echo))


def test_the_figures_are_the_answers_usage(echo):
    check_traffic(echo)


def test_a_real_model_has_the_same_and_its_memory_and_kernels(real):
    check_traffic(real)
    families = scrape(real)
    check_format(families)
    planned = {s.labels["item"]: s.value for s in families["pome:memory_planned_bytes"].samples}
    measured = {s.labels["item"]: s.value for s in families["pome:memory_measured_bytes"].samples}
    assert planned["process"] == sum(bytes for item, bytes in planned.items() if item != "process")
    assert 0 < measured["process"] < planned["process"] + (1 << 30)
    assert value(families, "pome:kernel_runs") > 0


def test_a_flushed_cache_has_nothing_for_the_next_prompt(real):
    def cached() -> int:
        reply = real.client.completions.create(model="m", prompt="one two three four five six seven " * 8, max_tokens=1)
        return reply.usage.prompt_tokens_details.cached_tokens
    cached()
    assert cached() > 0
    request = urllib.request.Request(real.url + "/flush_cache", method="POST")
    assert urllib.request.urlopen(request, timeout=10).status == 200
    assert cached() == 0


def test_health_generate_answers_while_the_model_works(real):
    stream = real.client.completions.create(model="m", prompt="Once", max_tokens=200, stream=True,
                                            extra_body={"ignore_eos": True})
    next(iter(stream))
    reply = json.load(urllib.request.urlopen(real.url + "/health_generate", timeout=20))
    assert reply["status"] == "ok"
    stream.close()
