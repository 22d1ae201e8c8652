#include "pome/command.h"

namespace pome::apps {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"serve", "serve [MODEL] [FLAG…]", "serve a model over HTTP: OpenAI's and SGLang's endpoints",
       serve_command},
      {"chat", "chat [MODEL] [FLAG…]", "talk to a model in the terminal, or to a server with --url",
       chat_command},
      {"run", "run PROMPT [FLAG…]", "answer one prompt and exit", run_command},
      {"replay", "replay RECORD [FLAG…]",
       "run the steps that serve --record-steps wrote, and compare", replay_command},
      {"bench", "bench BENCHMARK [OPTION…]",
       "measure a server or a model, as SGLang's benchmarks do", bench_command},
      {"pull", "pull NAME [--revision REV]", "fetch a model", pull_command},
      {"list", "list [--json]", "the models on this machine", list_command},
      {"rm", "rm NAME [-y]", "remove a model from this machine", rm_command},
      {"show-config", "show-config [FLAG…]", "every setting and where it comes from",
       show_config_command},
      {"check-env", "check-env [--json]",
       "this machine: chip, memory, system, MLX, and what is missing", check_env_command},
      {"service", "service install [MODEL] [FLAG…]",
       "keep a server running with systemd or launchd: start, stop, status, logs", service_command},
      {"completions", "completions bash|zsh|fish",
       "print what completes pome's commands in a shell", completions_command},
  };
  return all;
}

}  // namespace pome::apps
