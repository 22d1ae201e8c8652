#include "hub/transfer/settings.h"

#include <algorithm>
#include <cctype>

#include "hub/transfer/pip_config.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

std::string first_of(const Environment& environment,
                     std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (auto value = environment(name)) {
      return *value;
    }
  }
  return {};
}

bool is_on(const std::string& value) {
  const std::string lower = lower_case(value);
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on";
}

std::filesystem::path home_of(const Environment& environment) {
  return environment("HOME").value_or(".");
}

std::filesystem::path cache_home_of(const Environment& environment) {
  if (auto xdg = environment("XDG_CACHE_HOME")) {
    return *xdg;
  }
  return home_of(environment) / ".cache";
}

std::string token_of(const Environment& environment, const std::filesystem::path& hf_home) {
  std::string token = first_of(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (token.empty()) {
    const std::filesystem::path file = environment("HF_TOKEN_PATH").value_or(hf_home / "token");
    token = trimmed(read_small_file(file, 4096).value_or(""));
  }
  return token;
}

bool matches_no_proxy(std::string_view rule, std::string_view host) {
  if (rule == "*") {
    return true;
  }
  if (!rule.empty() && rule.front() == '.') {
    rule.remove_prefix(1);
  }
  if (rule.empty() || !host.ends_with(rule)) {
    return false;
  }
  return host.size() == rule.size() || host[host.size() - rule.size() - 1] == '.';
}

}  // namespace

Settings settings_from(const Environment& environment) {
  Settings settings;
  const std::filesystem::path hf_home =
      environment("HF_HOME").value_or(cache_home_of(environment) / "huggingface");
  settings.hf_cache = environment("HF_HUB_CACHE").value_or(hf_home / "hub");
  settings.pome_cache = environment("POME_CACHE").value_or(cache_home_of(environment) / "pome");
  settings.hf_token = token_of(environment, hf_home);
  settings.hf_endpoint = environment("HF_ENDPOINT").value_or(settings.hf_endpoint);
  settings.offline = is_on(first_of(environment, {"HF_HUB_OFFLINE"}));

  const PipConfig pip = read_pip_config(environment);
  settings.pypi_index = environment("POME_PYPI_INDEX")
                            .value_or(pip.index_url.empty() ? settings.pypi_index : pip.index_url);
  settings.find_links = pip.find_links;
  settings.ca_file =
      first_of(environment, {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  if (settings.ca_file.empty()) {
    settings.ca_file = pip.cert;
  }
  const std::string all = first_of(environment, {"ALL_PROXY", "all_proxy"});
  settings.https_proxy = first_of(environment, {"HTTPS_PROXY", "https_proxy"});
  settings.http_proxy = first_of(environment, {"http_proxy", "HTTP_PROXY"});
  settings.https_proxy = settings.https_proxy.empty() ? all : settings.https_proxy;
  settings.http_proxy = settings.http_proxy.empty() ? all : settings.http_proxy;
  settings.no_proxy = first_of(environment, {"NO_PROXY", "no_proxy"});
  while (!settings.hf_endpoint.empty() && settings.hf_endpoint.back() == '/') {
    settings.hf_endpoint.pop_back();
  }
  while (!settings.pypi_index.empty() && settings.pypi_index.back() == '/') {
    settings.pypi_index.pop_back();
  }
  return settings;
}

std::string url_host(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) {
    return {};
  }
  std::string_view rest = url.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    rest = rest.substr(at + 1);
  }
  if (!rest.empty() && rest.front() == '[') {
    const size_t end = rest.find(']');
    return lower_case(rest.substr(1, end == std::string_view::npos ? end : end - 1));
  }
  return lower_case(rest.substr(0, rest.find(':')));
}

std::string proxy_for(const Settings& settings, std::string_view url) {
  const std::string host = url_host(url);
  if (host.empty() || host == "localhost" || host == "::1" || host.starts_with("127.")) {
    return {};
  }
  for (const auto& rule : split(lower_case(settings.no_proxy), ',')) {
    const std::string wanted = trimmed(rule);
    if (matches_no_proxy(std::string_view(wanted).substr(0, wanted.find(':')), host)) {
      return {};
    }
  }
  return url.starts_with("https://") ? settings.https_proxy : settings.http_proxy;
}

}  // namespace pome::hub
