#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "hub/transfer/settings.h"

namespace pome::apps {

struct HttpAnswer {
  int status = 0;
  std::string body;  // empty where on_piece heard it
};

// A server behind a URL, as a benchmark meets it: each exchange has a connection of its own and
// blocks its thread. Plain HTTP goes straight to the socket; https goes through the bridge, which
// sets TLS up anew for each request. Any thread.
class HttpClient {
 public:
  // `base_url`: http://host:port, with or without a path before the endpoints'. `api_key` may be
  // empty.
  static Result<HttpClient> open(std::string_view base_url, std::string api_key,
                                 hub::Settings settings);

  // Hears the body of a 200 as it arrives.
  using OnPiece = std::function<void(std::string_view piece)>;
  // Any status is an answer. `unavailable` where the connection fails or breaks.
  Result<HttpAnswer> exchange(std::string_view method, const std::string& path,
                              const std::string& body, const OnPiece& on_piece = {}) const;
  // The object that a 200 is; another status is an error with what the server said.
  Result<json::object> ask(std::string_view method, const std::string& path,
                           const json::value& body = nullptr) const;

  const std::string& url() const { return url_; }

 private:
  HttpClient() = default;
  Result<HttpAnswer> over_socket(std::string_view method, const std::string& path,
                                 const std::string& body, const OnPiece& on_piece) const;
  Result<HttpAnswer> over_bridge(std::string_view method, const std::string& path,
                                 const std::string& body, const OnPiece& on_piece) const;

  std::string url_;  // without a slash at the end
  bool tls_ = false;
  std::string host_;
  std::string port_;
  std::string path_;  // before the endpoints'
  std::string api_key_;
  hub::Settings settings_;
};

// What an answer that is no 200 says went wrong, in one line.
std::string explain_answer(const HttpAnswer& answer);

}  // namespace pome::apps
