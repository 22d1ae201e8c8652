#include "pome/model/start_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/json.h"
#include "pome/version.h"

namespace pome::apps {
namespace {

constexpr size_t kLinesMax = 12;

std::string url_of(const Settings& settings, uint16_t port) {
  std::string host = settings.text("--host");
  if (host == "0.0.0.0" || host == "::" || host.empty()) {
    host = "127.0.0.1";
  }
  return fmt::format("http://{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]",
                     port);
}

std::string curl_of(const Settings& settings, const OpenModel& model, const std::string& url) {
  const std::string key =
      settings.text("--api-key").empty() ? "" : " -H \"Authorization: Bearer $KEY\"";
  json::object body;
  body["model"] = model.served_name;
  std::string path = "/v1/completions";
  if (model.text.chat) {
    path = "/v1/chat/completions";
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", "Hello"}}};
  } else {
    body["prompt"] = "Once upon a time";
  }
  return fmt::format("curl {}{}{} -H 'Content-Type: application/json' -d '{}'", url, path, key,
                     to_string(json::value(body)));
}

// What a user might expect and does not get, and why.
std::vector<std::string> switched_off(const Settings& settings, const OpenModel& model) {
  std::vector<std::string> off;
  if (!model.text.chat) {
    off.push_back("chat (the model has no chat template; --chat-template names one)");
  }
  if (settings.on("--disable-own-kernels")) {
    off.push_back("own kernels (--disable-own-kernels)");
  }
  for (const char* flag : {"--disable-radix-cache", "--disable-overlap-schedule"}) {
    if (settings.on(flag)) {
      off.push_back(flag);
    }
  }
  return off;
}

}  // namespace

std::vector<std::string> start_report(const Settings& settings, const OpenModel& model,
                                      uint16_t port, std::chrono::duration<double> took) {
  const engine::ModelInfo& info = model.engine->model();
  const std::string url = url_of(settings, port);
  std::vector<std::string> lines = {
      fmt::format("pome {} serves {}", kVersion, model.served_name),
      fmt::format("  model    {}, {}, {}", info.architecture, info.format, model.path),
      fmt::format("  context  {} tokens, {} requests at once", info.context_tokens,
                  settings.text("--max-running-requests")),
  };
  std::vector<std::string> memory = model.engine->memory_lines();
  const size_t room = kLinesMax - lines.size() - 4;
  if (memory.size() > room) {
    // The first items share one line, so that sum and budget stay visible.
    const auto first = memory.begin();
    const auto last = first + static_cast<long>(memory.size() - room + 1);
    const std::string shared = fmt::format("{}", fmt::join(first, last, "; "));
    memory.erase(first, last);
    memory.insert(memory.begin(), shared);
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    lines.push_back((i == 0 ? "  memory   " : "           ") + memory[i]);
  }
  lines.push_back(fmt::format("  backend  {}", info.backend));
  const std::vector<std::string> off = switched_off(settings, model);
  lines.push_back("  off      " +
                  (off.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(off, "; "))));
  const char* page = settings.on("--disable-playground") ? "" : " (in a browser: the playground)";
  lines.push_back(fmt::format("  ready    {} after {:.2f} s{}", url, took.count(), page));
  lines.push_back("  try      " + curl_of(settings, model, url));
  return lines;
}

void print_start_report(const Settings& settings, const OpenModel& model, uint16_t port,
                        std::chrono::duration<double> took) {
  // A terminal that is gone is no reason to end.
  const std::string text =
      fmt::format("{}\n", fmt::join(start_report(settings, model, port, took), "\n"));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace pome::apps
