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

const std::string kHelp = R"(usage: pome run PROMPT [--model-path MODEL] [FLAG…]

Answers one prompt on standard output and exits; `-` reads the prompt from standard input. Speeds
go to standard error. The model is smollm2 unless --model-path names another. Ctrl-C ends the
answer.

)";

std::string read_all_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

Result<json::array> messages_of(const CommandLine& line) {
  const std::string& word = line.positionals.front();
  const std::string prompt = word == "-" ? read_all_input() : word;
  json::array messages;
  if (const auto system = line.extra("system")) {
    POME_TRY(check_text(*system, "--system"));
    messages.push_back(json::object{{"role", "system"}, {"content", *system}});
  }
  POME_TRY(check_text(prompt, "the prompt"));
  messages.push_back(json::object{{"role", "user"}, {"content", prompt}});
  return messages;
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  std::vector<ExtraOption> extras = answer_options_list();
  extras.push_back({"--system", "What the model is told before the prompt.", true, "TEXT"});
  const auto line = parse_command_line(words, true, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(kHelp + extras_help(extras) + flags_help(line->help_all), true);
  }
  if (line->positionals.empty()) {
    return show_usage(kHelp, false);
  }
  auto options = answer_options(line.value());
  auto settings = Settings::resolve(with_default_model(line->flags), environment);
  if (!options || !settings) {
    return misused(options ? settings.error() : options.error());
  }
  const auto messages = messages_of(line.value());
  if (!messages) {
    return misused(messages.error());
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
  const auto answer = (*speaker)->answer(messages.value(), options.value(), print, stop);
  if (!answer) {
    return failed(answer.error());
  }
  std::fputs("\n", stdout);
  fmt::print(stderr, "{}\n", speed_line(answer.value()));
  return stop ? kInterrupted : 0;
}

}  // namespace pome::apps
