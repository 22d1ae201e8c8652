#include <fmt/format.h>

#include <atomic>

#include "base/log.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"
#include "pome/host/signals.h"
#include "pome/model/find_model.h"
#include "pome/model/model_defaults.h"
#include "pome/model/model_engine.h"
#include "pome/talk/answer_flags.h"

namespace pome::apps {
namespace {

const std::string kHelp = R"(usage: pome replay RECORD [--model-path MODEL] [FLAG…]

Runs the steps that `pome serve --record-steps RECORD` wrote, one after the other as they were, and
compares the tokens. Give the flags that the server had. Exit code 1 when a token differs. A record
holds the prompts as token ids.

)";

}  // namespace

int replay_command(const std::vector<std::string>& words) {
  const auto line = parse_command_line(words, true, {}, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(kHelp + flags_help(line->help_all), true);
  }
  if (line->positionals.empty()) {
    return show_usage(kHelp, false);
  }
  auto settings = Settings::resolve(with_default_model(line->flags), environment);
  if (!settings) {
    return misused(settings.error());
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  std::atomic<bool> stop{false};
  const Signals signals([&](int) { stop = true; });
  const auto model =
      find_or_pull(hub::settings_from(environment),
                   {settings->text("--model-path"), settings->text("--revision")}, stop);
  if (!model) {
    return failed(model.error());
  }
  const auto outcome =
      replay_record(settings.value(), model->path.string(), line->positionals.front());
  if (!outcome) {
    return failed(outcome.error());
  }
  fmt::print("{} steps, {} tokens compared, {} differ\n", outcome->steps, outcome->tokens,
             outcome->different);
  if (!outcome->ended_by.empty()) {
    fmt::print("ended early: {}\n", outcome->ended_by);
  }
  if (outcome->different > 0) {
    fmt::print("first: {}\n", outcome->first_difference);
    return kFailed;
  }
  return 0;
}

}  // namespace pome::apps
