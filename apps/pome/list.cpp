#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "hub/catalog.h"
#include "hub/pull.h"
#include "hub/transfer/text.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"

namespace pome::apps {
namespace {

void print_json(const std::vector<hub::LocalModel>& models) {
  json::array items;
  for (const auto& model : models) {
    items.push_back(
        json::object{{"name", model.name}, {"bytes", model.bytes}, {"path", model.path.string()}});
  }
  fmt::print("{}\n", to_string(json::value(items)));
}

}  // namespace

int list_command(const std::vector<std::string>& words) {
  const std::vector<ExtraOption> extras = {{"--json", "For programs.", false}};
  const auto line = parse_command_line(words, false, extras, 0);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(R"(usage: pome list [--json]

The models on this machine that are whole, in pome's cache and in Hugging Face's.

)" + extras_help(extras),
                      true);
  }
  const auto models = hub::list_local(hub::settings_from(environment));
  if (line->has("json")) {
    print_json(models);
    return 0;
  }
  if (models.empty()) {
    fmt::print("No model is here yet. Get one: pome pull {}\n", hub::catalog().front().name);
    return 0;
  }
  size_t width = 0;
  for (const auto& model : models) {
    width = std::max(width, model.name.size());
  }
  for (const auto& model : models) {
    fmt::print("{:<{}}  {:>9}  {}\n", model.name, width, hub::format_bytes(model.bytes),
               model.path.string());
  }
  return 0;
}

}  // namespace pome::apps
