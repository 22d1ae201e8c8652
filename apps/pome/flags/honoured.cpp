#include "pome/flags/flag.h"
#include "text/answer/answer_forms.h"

namespace pome::apps {
namespace {

using enum Kind;

std::vector<Flag> model_flags() {
  const std::string group = "Model";
  return {
      flag(group, {"--model-path", "--model"}, text, "MODEL", "",
           "A folder, a .gguf file, a short name (smollm2), a Hugging Face id (organisation/name, "
           "also "
           "organisation/name:Q4_K_M), or `echo`, which repeats the prompt without any model. What "
           "is missing is "
           "pulled."),
      flag(group, {"--tokenizer-path"}, text, "PATH", "",
           "A folder with tokenizer.json, where it is not the model's own."),
      flag(group, {"--revision"}, text, "REV", "main",
           "Branch, tag or commit of a Hugging Face id."),
      flag(group, {"--load-format"}, text, "FORMAT", "auto",
           "Formats are recognized from the files; the value must be one that pome reads.",
           {"auto", "safetensors", "gguf"}),
      flag(group, {"--served-model-name"}, text, "NAME", "",
           "The name in /v1/models and in replies. Default: the model as it was given."),
      flag(group, {"--context-length"}, integer, "TOKENS", "",
           "The most that prompt and answer may have together. Default: the model's own, or what "
           "fits into memory."),
      flag(group, {"--chat-template"}, text, "FILE", "",
           "A Jinja file, or JSON with a chat_template key, or `chatml`, in place of the model's "
           "own template."),
      flag(group, {"--hf-chat-template-name"}, text, "NAME", "",
           "Which of several named templates chats use. Default: `tool_use` where a request has "
           "tools, else `default`, else the first."),
      flag(
          group, {"--tool-call-parser"}, text, "NAME", "auto",
          "How the model writes calls of tools. `auto` sees it in the chat template, `none` leaves "
          "calls in the text and refuses requests with tools.",
          pome::text::tool_call_parser_choices()),
      flag(
          group, {"--reasoning-parser"}, text, "NAME", "auto",
          "How the model marks what it thinks, which comes as reasoning_content. `auto` sees it in "
          "the chat template, `none` leaves it in the text.",
          pome::text::reasoning_parser_choices()),
      flag(group, {"--sampling-defaults"}, text, "WHO", "model",
           "Where defaults of temperature, top_p, top_k, min_p and repetition_penalty come from: "
           "`model` reads "
           "generation_config.json, `openai` uses 1, 1, off, 0 and 1.",
           {"model", "openai"}),
  };
}

std::vector<Flag> server_flags() {
  const std::string group = "Server";
  return {
      flag(group, {"--host"}, text, "HOST", "127.0.0.1",
           "The address to listen on. `localhost` and 127.0.0.1 answer on IPv4 and IPv6 loopback; "
           "0.0.0.0 answers the "
           "network, and wants an --api-key or --insecure-no-auth."),
      flag(group, {"--port"}, integer, "PORT", "30000", "The TCP port; 0 takes a free one."),
      flag(group, {"--api-key"}, text, "KEY", "",
           "Requests must carry `Authorization: Bearer KEY`."),
      flag(group, {"--admin-api-key"}, text, "KEY", "",
           "What touches everybody's requests (/flush_cache) must carry this key, which also "
           "opens everything else. Default: --api-key."),
      flag(group, {"--insecure-no-auth"}, toggle, "", "",
           "Serve the network without a key: anybody who reaches this machine can use the model."),
      flag(group, {"--allowed-hosts"}, list, "NAME…", "",
           "The Host names that the server answers to, beside localhost and --host: `mac.example`, "
           "`.example` with all below it, `*`. Default: no other on a loopback address, any on "
           "others."),
      flag(group, {"--allowed-origins"}, list, "ORIGIN…", "",
           "Pages of these origins (`https://chat.example`, `*` for any) may use the server from a "
           "browser. Default: pages of this machine only."),
      flag(group, {"--disable-playground"}, toggle, "", "",
           "No page at `/`. Without the flag browsers find one there to try the model with; its "
           "calls of the API need the --api-key as any others do."),
      flag(group, {"--strict-model-name"}, toggle, "", "",
           "A request for another model name is 404. Default: any name is answered by the served "
           "model."),
      flag(group, {"--incremental-streaming-output"}, toggle, "", "",
           "POST /generate streams pieces; without it each event carries the whole text so far."),
      flag(group, {"--watchdog-timeout"}, number, "SECONDS", "300",
           "/health turns 503 when a step has taken longer."),
      flag(
          group, {"--client-timeout"}, number, "SECONDS", "60",
          "A client that does not take its answer for so long is dropped, and its work cancelled."),
      flag(group, {"--drain-timeout"}, number, "SECONDS", "30",
           "After SIGTERM, running answers may take so long before they are cut."),
      flag(group, {"--exit-with-parent"}, toggle, "", "",
           "Drain and exit when the process that started pome ends. Without it pome outlives its "
           "terminal."),
  };
}

std::vector<Flag> memory_flags() {
  const std::string group = "Memory and scheduling";
  return {
      flag(group, {"--max-running-requests"}, integer, "COUNT", "16",
           "Answers that are generated at once."),
      flag(group, {"--max-queued-requests"}, integer, "COUNT", "256",
           "Requests that may wait beyond those; more get 429 with Retry-After."),
      flag(group, {"--max-total-tokens"}, integer, "TOKENS", "",
           "Size of the KV pool, shared by all requests. Default: what the memory plan allows."),
      flag(group, {"--mem-fraction-static"}, number, "PART", "0.9",
           "The part of the memory budget that weights and KV pool may take, above 0 and at most "
           "1."),
      flag(group, {"--max-memory"}, text, "BYTES", "",
           "A cap on everything that pome plans: 8GiB, 500MB. Default: what the machine has free."),
      flag(
          group, {"--memory-ledger"}, text, "FOLDER", "auto",
          "Where pome processes note what memory they plan, so that two that start together do not "
          "both take what is free; `auto` is one folder for each user, `off` looks at nobody."),
      flag(group, {"--mlx-cache-limit"}, text, "BYTES", "32MiB",
           "Freed buffers that MLX may keep for the next ones; part of the memory plan. 0 keeps "
           "none."),
      flag(group, {"--mlx-clear-cache-steps"}, integer, "COUNT", "256",
           "After so many steps MLX's freed buffers go back to the system; 0: never."),
      flag(group, {"--chunked-prefill-size"}, integer, "TOKENS", "",
           "The most prompt tokens in one step, so that a long prompt does not stall running "
           "answers. "
           "Default: chosen from the measured speed."),
      flag(group, {"--kv-cache-dtype"}, text, "TYPE", "auto",
           "How keys and values are stored; auto is half precision. int8 takes 53 % of its bytes "
           "and "
           "int4 28 %, with groups of 64.",
           {"auto", "float16", "fp16", "bfloat16", "bf16", "float32", "fp32", "int8", "int4"}),
      flag(group, {"--kv-cache-group-size", "--mlx-kv-cache-group-size"}, integer, "COUNT", "64",
           "Numbers along a head that share a scale and a bias in an int8 or int4 cache; a shorter "
           "head is one group.",
           {"32", "64", "128"}),
      flag(group, {"--mlx-kv-cache-bits"}, text, "BITS", "",
           "8 and 4 are --kv-cache-dtype int8 and int4 by another name.", {"8", "4"}),
      flag(group, {"--schedule-policy"}, text, "POLICY", "fcfs",
           "Which waiting request runs next: in order of arrival, the longest cached prefix first, "
           "or by the request's priority.",
           {"fcfs", "lpm", "priority"}),
      flag(group, {"--schedule-conservativeness"}, number, "FACTOR", "1",
           "How much of its max_tokens a request is expected to use: larger values admit later, so "
           "that fewer running requests must give up their pages. Above 0 and at most 10."),
      flag(group, {"--disable-overlap-schedule"}, toggle, "", "",
           "Plan a step only when the one before has ended: slower, with the same answers."),
      flag(group, {"--disable-radix-cache"}, toggle, "", "",
           "Compute every prompt whole: no prefix is shared between requests."),
      flag(group, {"--radix-eviction-policy"}, text, "POLICY", "lru",
           "Which cached prefix goes first when pages run out: the least recently, or the least "
           "frequently used.",
           {"lru", "lfu"}),
      flag(group, {"--page-size"}, integer, "TOKENS", "16", "Tokens in a page of the KV pool."),
  };
}

std::vector<Flag> runtime_flags() {
  const std::string group = "Runtime and logging";
  return {
      flag(group, {"--threads"}, integer, "COUNT", "",
           "CPU threads for the model. Default: one a core."),
      flag(group, {"--random-seed"}, integer, "SEED", "",
           "Seeds requests that bring none, so that a restarted server repeats itself. Default: "
           "drawn "
           "from the system."),
      flag(group, {"--device"}, text, "DEVICE", "auto",
           "Where the model runs: `auto` takes the GPU that pome was built for where there is one; "
           "gpu, mps, metal and cuda ask for it.",
           {"auto", "cpu", "gpu", "mps", "metal", "cuda"}),
      flag(group, {"--log-file"}, text, "FILE", "",
           "Log lines go there instead of to standard error; it is kept below 10 MiB, and four "
           "older ones beside it."),
      flag(group, {"--disable-own-kernels"}, toggle, "", "",
           "Run on MLX's operations alone: slower, for comparison and for a chip on which an own "
           "kernel is wrong."),
      flag(group, {"--record-steps"}, text, "FILE", "",
           "Write each step's plan to FILE, one JSON object a line."),
      flag(group, {"--config"}, text, "FILE", "",
           "A YAML file with flags as keys (`port: 30000`). Flags on the command line win over it, "
           "and it wins over "
           "POME_ variables."),
      flag(group, {"--log-level"}, text, "LEVEL", "info", "debug, info, warning or error.",
           {"debug", "info", "warning", "warn", "error", "critical"}),
  };
}

}  // namespace

std::vector<Flag> honoured_flags() {
  std::vector<Flag> all;
  for (auto part :
       {model_flags(), server_flags(), memory_flags(), runtime_flags(), observing_flags()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace pome::apps
