#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "hub/transfer/settings.h"
#include "pome/command.h"
#include "pome/flags/command_line.h"
#include "pome/flags/help.h"
#include "pome/host/environment.h"
#include "pome/host/report.h"
#include "pome/model/model_defaults.h"

namespace pome::apps {
namespace {

struct Row {
  std::string name;
  std::string value;
  std::string origin;
};

// Keys and tokens are said to be set, and not what they are.
std::string shown(const std::string& name, const std::string& value) {
  const bool secret = name == "--api-key" || name == "--admin-api-key" || name == "HF_TOKEN";
  return secret && !value.empty() ? "(set)" : value;
}

std::vector<Row> flag_rows(const Settings& settings) {
  std::vector<Row> rows;
  for (const auto& flag : launch_flags()) {
    const Setting& setting = settings.at(flag.name());
    if (flag.treatment == Treatment::honoured || setting.given) {
      const std::string note = flag.treatment == Treatment::honoured ? "" : " (no effect)";
      rows.push_back({flag.name(), shown(flag.name(), setting.value), setting.origin + note});
    }
  }
  return rows;
}

std::vector<Row> hub_rows() {
  const hub::Settings hub = hub::settings_from(environment);
  const auto origin = [](std::initializer_list<const char*> names, const char* otherwise) {
    for (const char* name : names) {
      if (environment(name)) {
        return std::string(name);
      }
    }
    return std::string(otherwise);
  };
  return {
      {"HF_HUB_CACHE", hub.hf_cache.string(),
       origin({"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}, "default")},
      {"HF_ENDPOINT", hub.hf_endpoint, origin({"HF_ENDPOINT"}, "default")},
      {"HF_TOKEN", shown("HF_TOKEN", hub.hf_token),
       origin({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"},
              hub.hf_token.empty() ? "default" : "token file")},
      {"HF_HUB_OFFLINE", hub.offline ? "true" : "false", origin({"HF_HUB_OFFLINE"}, "default")},
      {"POME_CACHE", hub.pome_cache.string(), origin({"POME_CACHE", "XDG_CACHE_HOME"}, "default")},
      {"POME_PYPI_INDEX", hub.pypi_index,
       origin({"POME_PYPI_INDEX", "PIP_INDEX_URL"},
              hub.pypi_index == hub::Settings().pypi_index ? "default" : "pip.conf")},
      {"SSL_CERT_FILE", hub.ca_file,
       origin({"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"},
              hub.ca_file.empty() ? "default" : "pip.conf")},
  };
}

void print_rows(const std::string& title, const std::vector<Row>& rows) {
  fmt::print("{}\n", title);
  for (const auto& row : rows) {
    fmt::print("  {:<32} {:<28} {}\n", row.name, row.value.empty() ? "-" : row.value, row.origin);
  }
}

json::array to_json(const std::vector<Row>& rows) {
  json::array items;
  for (const auto& row : rows) {
    items.push_back(json::object{{"name", row.name}, {"value", row.value}, {"origin", row.origin}});
  }
  return items;
}

}  // namespace

int show_config_command(const std::vector<std::string>& words) {
  const std::vector<ExtraOption> extras = {{"--json", "For programs.", false}};
  const auto line = parse_command_line(words, true, extras, 1);
  if (!line) {
    return misused(line.error());
  }
  if (line->help || line->help_all) {
    return show_usage(R"(usage: pome show-config [MODEL] [--json] [FLAG…]

Every setting that `pome serve` would have with the same flags, and where it comes from.

)" + extras_help(extras) + flags_help(line->help_all),
                      true);
  }
  auto settings = Settings::resolve(with_model(*line), environment);
  if (!settings) {
    return misused(settings.error());
  }
  std::vector<Row> sampling;
  for (const auto& item : sampling_defaults_of(settings.value())) {
    sampling.push_back({item.name, item.value, item.origin});
  }
  if (line->has("json")) {
    fmt::print("{}\n",
               to_string(json::value(json::object{{"flags", to_json(flag_rows(settings.value()))},
                                                  {"hub", to_json(hub_rows())},
                                                  {"sampling", to_json(sampling)}})));
    return 0;
  }
  print_rows("Flags", flag_rows(settings.value()));
  print_rows("Hub", hub_rows());
  print_rows("Sampling defaults", sampling);
  return 0;
}

}  // namespace pome::apps
