#include <fmt/format.h>

#include <atomic>
#include <cstdio>

#include "hub/pull.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"
#include "pome/host/signals.h"
#include "pome/model/find_model.h"

namespace pome::apps {

int pull_command(const std::vector<std::string>& words) {
  const std::vector<ExtraOption> extras = {{"--revision", "Branch, tag or commit.", true, "REV"}};
  const auto line = parse_command_line(words, false, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all || line->positionals.empty()) {
    return show_usage(R"(usage: pome pull NAME [--revision REV]

NAME is a short name (smollm2, gemma3-270m), a Hugging Face id (organisation/name), one
quantization of a GGUF repository (organisation/name:Q4_K_M) or one file of it
(organisation/name/file.gguf). What has arrived of an interrupted pull is kept.

Variables: HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE; POME_CACHE,
POME_PYPI_INDEX, PIP_INDEX_URL; SSL_CERT_FILE, HTTPS_PROXY, NO_PROXY.

)" + extras_help(extras),
                      line->help || line->help_all);
  }
  const hub::PullRequest request{line->positionals.front(),
                                 line->extra("revision").value_or("main")};
  std::atomic<bool> stop{false};
  const Signals signals([&](int) { stop = true; });
  auto model = pull_with_progress(hub::settings_from(environment), request, stop);
  if (!model) {
    return failed(model.error());
  }
  fmt::print("{}\n", model->path.string());
  return 0;
}

}  // namespace pome::apps
