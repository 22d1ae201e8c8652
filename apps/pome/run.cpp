#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/log.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"
#include "pome/host/signals.h"
#include "pome/model/model_defaults.h"
#include "pome/talk/answer_flags.h"
#include "pome/talk/speaker.h"

namespace pome::apps {
namespace {

constexpr const char* kHelp = R"(usage: pome run PROMPT [--model-path MODEL] [FLAG…]

Answers one prompt on standard output and exits; `-` reads the prompt from standard input. Speeds
go to standard error. The model is smollm2 unless --model-path names another. Ctrl-C ends the
answer.

  --system TEXT           what the model is told before the prompt
)";

std::string read_all_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

json::array messages_of(const CommandLine& line) {
  const std::string& word = line.positionals.front();
  json::array messages;
  if (const auto system = line.extra("system")) {
    messages.push_back(json::object{{"role", "system"}, {"content", *system}});
  }
  messages.push_back(
      json::object{{"role", "user"}, {"content", word == "-" ? read_all_input() : word}});
  return messages;
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  std::vector<ExtraOption> extras = answer_options_list();
  extras.push_back({"--system", "what the model is told before the prompt", true, "TEXT"});
  const auto line = parse_command_line(words, true, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all || line->positionals.empty()) {
    fmt::print("{}{}{}", kHelp, answer_options_help(), flags_help(line->help_all));
    return line->help || line->help_all ? 0 : kMisused;
  }
  auto options = answer_options(line.value());
  auto settings = Settings::resolve(with_default_model(line->flags), environment);
  if (!options || !settings) {
    return misused(options ? settings.error() : options.error());
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  std::atomic<bool> stop{false};
  const Signals signals([&](int) { stop = true; });
  auto model = open_model(settings.value(), hub::settings_from(environment), stop);
  if (!model) {
    return failed(model.error());
  }
  auto speaker = make_local_speaker(std::move(model).value());
  if (!speaker) {
    return failed(speaker.error());
  }
  const auto print = [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  const auto answer = (*speaker)->answer(messages_of(line.value()), options.value(), print, stop);
  if (!answer) {
    return failed(answer.error());
  }
  std::fputs("\n", stdout);
  fmt::print(stderr, "{}\n", speed_line(answer.value()));
  return stop ? kInterrupted : 0;
}

}  // namespace pome::apps
