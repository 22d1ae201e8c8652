#include "pome/model/open_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "engine/echo/echo_engine.h"
#include "pome/model/find_model.h"
#include "pome/model/model_defaults.h"
#include "pome/model/model_engine.h"
#include "pome/model/model_text.h"
#include "server/generation/echo_text.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::apps {
namespace {

Result<OpenModel> open_echo(const Settings& settings, telemetry::Trace* trace) {
  auto templates = chosen_templates(settings);
  if (!templates) {
    return templates.error();
  }
  auto text = server::make_echo_text(std::move(templates).value());
  auto defaults = sampling_defaults(settings, nullptr);
  if (!text || !defaults) {
    return text ? defaults.error() : text.error();
  }
  POME_TRY(choose_forms(settings, text.value()));
  engine::EchoOptions options;
  options.model.name = served_name_of(settings);
  options.model.context_tokens = static_cast<int32_t>(
      settings.integer("--context-length").value_or(options.model.context_tokens));
  options.max_running_requests = static_cast<int32_t>(*settings.integer("--max-running-requests"));
  options.max_queued_requests = static_cast<int32_t>(*settings.integer("--max-queued-requests"));
  options.by_priority = settings.text("--schedule-policy") == "priority";
  options.page_tokens = static_cast<int32_t>(*settings.integer("--page-size"));
  options.cached_prompts_max =
      settings.on("--disable-radix-cache") ? 0 : options.cached_prompts_max;
  options.trace = trace;
  const std::string name = options.model.name;
  return OpenModel{std::make_unique<engine::EchoEngine>(std::move(options)),
                   std::move(text).value(), defaults->params, name, "echo"};
}

}  // namespace

std::string served_name_of(const Settings& settings) {
  const std::string given = settings.text("--served-model-name");
  return given.empty() ? settings.text("--model-path") : given;
}

Result<OpenModel> open_model(const Settings& settings, const hub::Settings& hub,
                             const std::atomic<bool>& stop, telemetry::Trace* trace) {
  const std::string wanted = settings.text("--model-path");
  if (wanted.empty()) {
    return invalid("which model? For example: --model-path smollm2", "model-path");
  }
  if (wanted == "echo" && !std::filesystem::exists("echo")) {
    return open_echo(settings, trace);
  }
  auto local = find_or_pull(hub, {wanted, settings.text("--revision")}, stop);
  if (!local) {
    return local.error();
  }
  auto checkpoint = tensor::Checkpoint::open(local->path);
  if (!checkpoint) {
    return checkpoint.error();
  }
  auto defaults = sampling_defaults(settings, &checkpoint.value());
  if (!defaults) {
    return defaults.error();
  }
  auto engine = start_engine(settings, local->path.string(), served_name_of(settings), trace);
  if (!engine) {
    return engine.error();
  }
  auto text = read_model_text(checkpoint.value(), settings);
  if (!text) {
    return text.error();
  }
  POME_TRY(choose_forms(settings, text.value()));
  return OpenModel{std::move(engine).value(), std::move(text).value(), defaults->params,
                   served_name_of(settings), local->path.string()};
}

}  // namespace pome::apps
