#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace pome::hub {

struct HttpRequest {
  std::string method = "GET";
  std::string url;  // http:// or https://
  std::map<std::string, std::string> headers;
  std::string body;
  std::string ca_file;  // PEM; empty: the system's store
  std::string proxy;    // empty: none
  int redirects_max =
      10;  // 0: a redirect is the answer. Authorization never follows to another host
  int connect_timeout_s = 20;
  int read_timeout_s = 60;  // without a single byte; 0: none
  // Setting it ends the exchange with `cancelled`, also while nothing arrives or nobody answers.
  const std::atomic<bool>* stop = nullptr;
};

struct HttpResponse {
  int status = 0;
  std::string url;                             // after redirects
  std::map<std::string, std::string> headers;  // names in lower case

  std::string header(const std::string& name) const;
};

// Hears the answer as it arrives, on the calling thread. False stops the exchange.
struct HttpSink {
  std::function<bool(const HttpResponse& head)> on_head;
  std::function<bool(std::span<const std::byte> part)> on_body;
};

// One exchange over the bridge (TLS by rustls), redirects followed; any status is an answer.
// Errors: `cancelled` when the sink or `stop` stopped it, `timeout`, `unavailable` when the host
// could not be reached, its certificate was not accepted or the connection broke,
// `invalid_argument` for a request that cannot be sent.
Result<HttpResponse> http_exchange(const HttpRequest& request, const HttpSink& sink);

struct HttpText {
  HttpResponse head;
  std::string body;
};

// The whole body; one longer than `bytes_max` is `too_large`.
Result<HttpText> http_text(const HttpRequest& request, size_t bytes_max);

}  // namespace pome::hub
