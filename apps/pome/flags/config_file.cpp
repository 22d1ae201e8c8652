#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "pome/flags/settings.h"

namespace pome::apps {
namespace {

constexpr size_t kConfigBytesMax = 1 << 20;

Result<std::vector<std::string>> values_of(const YAML::Node& node, const std::string& key,
                                           const std::string& where) {
  std::vector<std::string> values;
  if (node.IsNull()) {
    return std::vector<std::string>{"none"};
  }
  if (node.IsScalar()) {
    return std::vector<std::string>{node.Scalar()};
  }
  if (!node.IsSequence()) {
    return invalid(fmt::format("{}: expected a value or a list for '{}'", where, key), key);
  }
  for (const auto& item : node) {
    if (!item.IsScalar()) {
      return invalid(fmt::format("{}: expected plain values in the list '{}'", where, key), key);
    }
    values.push_back(item.Scalar());
  }
  return values;
}

}  // namespace

Result<GivenFlags> parse_config(std::string_view yaml, const std::string& where) {
  if (yaml.size() > kConfigBytesMax) {
    return invalid(
        fmt::format("{}: a configuration file has at most {} bytes", where, kConfigBytesMax),
        "config");
  }
  GivenFlags given;
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsDefined() || root.IsNull()) {
      return given;
    }
    if (!root.IsMap()) {
      return invalid(fmt::format("{}: expected lines of the form `port: 30000`", where), "config");
    }
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      auto values = values_of(entry.second, key, where);
      if (!values) {
        return values.error();
      }
      // `key:` without a value leaves the default, as an absent line does.
      if (!entry.second.IsNull()) {
        given.push_back({"--" + key, std::move(values).value()});
      }
    }
  } catch (const YAML::Exception& error) {
    return invalid(fmt::format("{}:{}: {}", where, error.mark.line + 1, error.msg), "config");
  }
  return given;
}

}  // namespace pome::apps
