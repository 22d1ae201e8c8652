#include "pome/flags/flag.h"

namespace pome::apps {
namespace {

using enum Kind;

Flag make(const char* name, Kind kind, const char* placeholder, const char* fallback,
          const char* help, std::vector<std::string> choices = {}) {
  return flag("Metrics, request log and trace", {name}, kind, placeholder, fallback, help,
              std::move(choices));
}

}  // namespace

std::vector<Flag> observing_flags() {
  return {
      make("--enable-metrics", toggle, "", "true",
           "GET /metrics answers in Prometheus' format; --enable-metrics=false makes it 404."),
      make("--enable-cache-report", toggle, "", "true",
           "OpenAI's usage says how many prompt tokens were cached; --enable-cache-report=false "
           "leaves "
           "it out."),
      make("--bucket-time-to-first-token", list, "SECONDS", "",
           "Upper bounds of that histogram's buckets, rising."),
      make("--bucket-inter-token-latency", list, "SECONDS", "",
           "Upper bounds of that histogram's buckets, rising."),
      make("--bucket-e2e-request-latency", list, "SECONDS", "",
           "Upper bounds of that histogram's buckets, rising."),
      make("--collect-tokens-histogram", toggle, "", "",
           "Histograms of prompt and answer lengths too."),
      make("--log-requests", toggle, "", "",
           "A log line when a request has been read and one when it has ended: ids, counts, times "
           "and why it ended. Neither content nor keys, unless the level asks for content."),
      make("--log-requests-level", integer, "LEVEL", "1",
           "0: ids, counts and times; 1: sampling parameters too; 2: the first 2048 bytes of "
           "prompt and answer too; 3: the whole of both."),
      make("--log-requests-format", text, "FORMAT", "text",
           "text: name=value pairs; json: one object a line.", {"text", "json"}),
      make("--trace-file", text, "FILE", "",
           "Record every step and request into FILE, which Perfetto (ui.perfetto.dev) opens. "
           "Recording ends at 512 MiB."),
  };
}

}  // namespace pome::apps
