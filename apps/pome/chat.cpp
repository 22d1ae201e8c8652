#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

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

const std::string kHelp = R"(usage: pome chat [MODEL] [--url URL] [FLAG…]

Talks to a model in the terminal: smollm2 unless MODEL or --model-path names another. With --url it
talks to a server (pome's or any that speaks OpenAI's /v1/chat/completions). Standard input may be a
pipe: each line is a question.

)";

constexpr const char* kCommands = R"(  /clear           forget the conversation
  /system TEXT     tell the model something first, and begin anew; without TEXT: nothing
  /retry           answer the last question again
  /save FILE       write the conversation as JSON
  /load FILE       go on with a saved conversation
  /stats           speeds of the last answer
  /help            this list
  /quit            end; so does Ctrl-D
Ctrl-C stops an answer. A line that ends in \ goes on in the next.
)";

class Chat {
 public:
  Chat(Speaker& speaker, AnswerOptions options, std::string system, bool terminal)
      : speaker_(speaker), options_(options), system_(std::move(system)), terminal_(terminal) {}

  int run() {
    clear();
    if (terminal_) {
      fmt::print("{}. /help lists commands, Ctrl-C stops an answer, /quit ends.\n",
                 speaker_.name());
    }
    std::string line;
    while (!done_ && read_line(line)) {
      if (const Status text = check_text(line, "the line"); !text) {
        failed_ = true;
        fmt::print(stderr, "pome: {}; it is left out\n", text.error().message);
      } else if (line.starts_with('/')) {
        obey(line);
      } else if (!line.empty()) {
        ask(line);
      }
    }
    return failed_ ? kFailed : 0;
  }

  // On the signals' thread. SIGTERM ends the program: nothing here is worth waiting for.
  void on_signal(int signal) {
    if (signal == SIGTERM) {
      std::_Exit(128 + SIGTERM);
    }
    stop_ = true;
    if (!answering_ && terminal_) {
      std::fputs("\n(/quit or Ctrl-D ends)\n> ", stdout);
      std::fflush(stdout);
    }
  }

 private:
  bool read_line(std::string& line) {
    line.clear();
    std::string part;
    while (true) {
      if (terminal_) {
        std::fputs(line.empty() ? "> " : "… ", stdout);
        std::fflush(stdout);
      }
      if (!std::getline(std::cin, part)) {
        return !line.empty();
      }
      line += part;
      if (!line.ends_with('\\')) {
        return true;
      }
      line.back() = '\n';
    }
  }

  void clear() {
    messages_.clear();
    if (!system_.empty()) {
      messages_.push_back(json::object{{"role", "system"}, {"content", system_}});
    }
  }

  void ask(const std::string& question) {
    messages_.push_back(json::object{{"role", "user"}, {"content", question}});
    stop_ = false;
    answering_ = true;
    auto answer = speaker_.answer(
        messages_, options_,
        [](std::string_view piece) {
          std::fwrite(piece.data(), 1, piece.size(), stdout);
          std::fflush(stdout);
        },
        stop_);
    answering_ = false;
    std::fputs("\n", stdout);
    if (!answer) {
      failed_ = true;
      messages_.pop_back();
      fmt::print(stderr, "pome: {}\n", answer.error().message);
      return;
    }
    last_ = answer.value();
    messages_.push_back(json::object{{"role", "assistant"}, {"content", last_.text}});
  }

  void obey(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "/quit" || word == "/exit" || word == "/bye") {
      done_ = true;
    } else if (word == "/help") {
      std::fputs(kCommands, stdout);
    } else if (word == "/clear") {
      clear();
    } else if (word == "/system") {
      system_ = rest;
      clear();
    } else if (word == "/retry") {
      retry();
    } else if (word == "/save") {
      save(rest);
    } else if (word == "/load") {
      load(rest);
    } else if (word == "/stats") {
      fmt::print("{}\n", last_.total_s > 0 ? speed_line(last_) : "no answer yet");
    } else {
      fmt::print("there is no {}; /help lists the commands\n", word);
    }
  }

  void retry() {
    while (!messages_.empty() && messages_.back().at("role") != "user") {
      messages_.pop_back();
    }
    if (messages_.empty()) {
      clear();
      fmt::print("nothing was asked yet\n");
      return;
    }
    const std::string question(messages_.back().at("content").as_string());
    messages_.pop_back();
    ask(question);
  }

  void save(const std::string& file) {
    std::ofstream out(file);
    out << to_string(json::value(json::object{{"messages", messages_}})) << "\n";
    fmt::print("{} {}\n", out.flush() ? "saved to" : "cannot write", file);
  }

  void load(const std::string& file) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto parsed = parse_json(text);
    const json::object* object = parsed ? parsed.value().if_object() : nullptr;
    const json::array* messages = object ? find_array(*object, "messages") : nullptr;
    for (const auto& message : messages ? *messages : json::array()) {
      const json::object* entry = message.if_object();
      if (!entry || !find_string(*entry, "role") || !find_string(*entry, "content")) {
        messages = nullptr;
        break;
      }
    }
    if (!messages) {
      fmt::print("{} is no conversation that /save wrote\n", file);
      return;
    }
    messages_ = *messages;
    fmt::print("{} messages\n", messages_.size());
  }

  Speaker& speaker_;
  const AnswerOptions options_;
  std::string system_;
  const bool terminal_;
  json::array messages_;
  Answer last_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> answering_{false};
  bool done_ = false;
  bool failed_ = false;
};

Result<std::unique_ptr<Speaker>> make_speaker(const CommandLine& line, const Settings& settings,
                                              const std::atomic<bool>& stop) {
  const hub::Settings hub = hub::settings_from(environment);
  if (const auto url = line.extra("url")) {
    return make_remote_speaker(*url, settings.text("--api-key"), hub);
  }
  auto model = open_model(settings, hub, stop);
  if (!model) {
    return model.error();
  }
  return make_local_speaker(std::move(model).value());
}

}  // namespace

int chat_command(const std::vector<std::string>& words) {
  std::vector<ExtraOption> extras = answer_options_list();
  extras.push_back({"--system", "What the model is told first.", true, "TEXT"});
  extras.push_back({"--url",
                    "A server, say http://127.0.0.1:30000; POME_API_KEY is sent as its key.", true,
                    "URL"});
  const auto line = parse_command_line(words, true, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(kHelp + extras_help(extras) + flags_help(line->help_all), true);
  }
  const std::string system = line->extra("system").value_or("");
  if (const Status text = check_text(system, "--system"); !text) {
    return misused(text.error());
  }
  auto options = answer_options(line.value());
  auto settings = Settings::resolve(with_default_model(with_model(line.value())), environment);
  if (!options || !settings) {
    return misused(options ? settings.error() : options.error());
  }
  log::set_level(log::parse_level(settings->text("--log-level")).value());
  std::atomic<bool> stop{false};
  std::atomic<Chat*> chat{nullptr};
  auto signals = std::make_unique<const Signals>([&](int signal) {
    stop = true;
    if (Chat* running = chat.load()) {
      running->on_signal(signal);
    }
  });
  auto speaker = make_speaker(line.value(), settings.value(), stop);
  if (!speaker) {
    return failed(speaker.error());
  }
  Chat conversation(**speaker, options.value(), system, ::isatty(STDIN_FILENO) == 1);
  chat = &conversation;
  const int code = conversation.run();
  signals.reset();  // before what it speaks to
  return code;
}

}  // namespace pome::apps
