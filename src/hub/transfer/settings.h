#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::hub {

// Where models come from and where they lie. Plain values: the program fills them from flags and
// environment.
struct Settings {
  std::filesystem::path
      hf_cache;  // holds models--org--name folders, shared with other Hugging Face programs
  std::filesystem::path pome_cache;  // holds one folder per short name of the catalog
  std::string hf_endpoint = "https://huggingface.co";
  std::string hf_token;
  bool offline = false;
  std::string pypi_index = "https://pypi.org/simple";
  std::vector<std::filesystem::path>
      find_links;       // folders with wheels, looked into before the index
  std::string ca_file;  // PEM; empty: the system's store
  std::string https_proxy;
  std::string http_proxy;
  std::string no_proxy;
  int connect_timeout_s = 20;
  int read_timeout_s = 60;   // without a single byte
  int attempts_max = 5;      // of one file; each goes on where the one before broke off
  int retry_pause_ms = 200;  // doubled after each attempt
  // Setting it ends a running transfer with `cancelled`, whatever that waits for: a host that does
  // not answer, a silent server, another pome that fetches the same file.
  const std::atomic<bool>* stop = nullptr;
};

// The value of an environment variable, or nothing where it is unset or empty.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

// HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH, HF_ENDPOINT, HF_HUB_OFFLINE, POME_CACHE,
// POME_PYPI_INDEX, PIP_INDEX_URL, PIP_CERT, PIP_FIND_LINKS, SSL_CERT_FILE, the proxy variables; for
// the index and the CA also pip's configuration files. The token falls back to the file that `hf
// auth login` writes.
Settings settings_from(const Environment& environment);

// The proxy for this URL, empty for none. Loopback never goes through one.
std::string proxy_for(const Settings& settings, std::string_view url);

// Host in lower case without port and brackets; empty where there is none.
std::string url_host(std::string_view url);

}  // namespace pome::hub
