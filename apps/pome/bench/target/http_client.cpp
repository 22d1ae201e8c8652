#include "pome/bench/target/http_client.h"

#include <fmt/format.h>

#include <algorithm>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "hub/transfer/download.h"

namespace pome::apps {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// As long as SGLang's client waits; a benchmark may queue many requests behind each other.
constexpr int kReadTimeoutSeconds = 6 * 60 * 60;

Error broken(const std::string& url, std::string_view why) {
  return {ErrorCode::unavailable, fmt::format("{}: {}", url, why), ""};
}

struct Authority {
  std::string host;
  std::string port;
};

// "[::1]:30000", "localhost:30000", "example.org".
Authority split_authority(std::string_view text, std::string_view default_port) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  const size_t colon = bracket == std::string_view::npos ? bracket : text.find(':', bracket);
  std::string_view host = text.substr(0, colon);
  if (bracket != 0 && bracket != std::string_view::npos) {
    host = text.substr(1, bracket - 1);
  }
  return {std::string(host),
          std::string(colon == std::string_view::npos ? default_port : text.substr(colon + 1))};
}

}  // namespace

Result<HttpClient> HttpClient::open(std::string_view base_url, std::string api_key,
                                    hub::Settings settings) {
  HttpClient client;
  client.url_ = base_url;
  while (client.url_.ends_with('/')) {
    client.url_.pop_back();
  }
  std::string_view rest = client.url_;
  client.tls_ = rest.starts_with("https://");
  if (!client.tls_ && !rest.starts_with("http://")) {
    return invalid(fmt::format("expected http://host:port or https://host, got '{}'", base_url));
  }
  rest.remove_prefix(client.tls_ ? 8 : 7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const Authority authority = split_authority(rest.substr(0, slash), client.tls_ ? "443" : "80");
  client.path_ = rest.substr(slash);
  client.host_ = authority.host;
  client.port_ = authority.port;
  if (client.host_.empty() || client.port_.empty()) {
    return invalid(fmt::format("'{}' names no host", base_url));
  }
  client.api_key_ = std::move(api_key);
  client.settings_ = std::move(settings);
  return client;
}

Result<HttpAnswer> HttpClient::exchange(std::string_view method, const std::string& path,
                                        const std::string& body, const OnPiece& on_piece) const {
  return tls_ ? over_bridge(method, path, body, on_piece)
              : over_socket(method, path, body, on_piece);
}

Result<HttpAnswer> HttpClient::over_socket(std::string_view method, const std::string& path,
                                           const std::string& body, const OnPiece& on_piece) const {
  error_code fault;
  asio::io_context io(1);
  asio::ip::tcp::resolver resolver(io);
  const auto places = resolver.resolve(host_, port_, fault);
  if (fault) {
    return broken(url_, fault.message());
  }
  asio::ip::tcp::socket socket(io);
  asio::connect(socket, places, fault);
  if (fault) {
    return broken(url_, fault.message());
  }
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  http::request<http::string_body> request;
  request.method_string({method.data(), method.size()});
  request.target(path_ + path);
  request.set(http::field::host, fmt::format("{}:{}", host_, port_));
  request.set(http::field::connection, "close");
  if (!api_key_.empty()) {
    request.set(http::field::authorization, "Bearer " + api_key_);
  }
  if (!body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = body;
  }
  request.prepare_payload();
  http::write(socket, request, fault);
  if (fault) {
    return broken(url_, fault.message());
  }
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  parser.eager(true);
  const auto is_piece = [&] {
    return on_piece && parser.is_header_done() && parser.get().result_int() == 200;
  };
  while (!parser.is_done()) {
    http::read_some(socket, buffer, parser, fault);
    if (fault) {
      return broken(url_, fault.message());
    }
    if (is_piece() && !parser.get().body().empty()) {
      on_piece(parser.get().body());
      parser.get().body().clear();
    }
  }
  return HttpAnswer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

Result<HttpAnswer> HttpClient::over_bridge(std::string_view method, const std::string& path,
                                           const std::string& body, const OnPiece& on_piece) const {
  hub::HttpRequest request = hub::request_for(settings_, url_ + path);
  request.method = method;
  request.body = body;
  request.read_timeout_s = kReadTimeoutSeconds;
  request.headers["Content-Type"] = "application/json";
  if (!api_key_.empty()) {
    request.headers["Authorization"] = "Bearer " + api_key_;
  }
  HttpAnswer answer;
  hub::HttpSink sink;
  sink.on_head = [&](const hub::HttpResponse& head) {
    answer.status = head.status;
    return true;
  };
  sink.on_body = [&](std::span<const std::byte> bytes) {
    const std::string_view piece(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (on_piece && answer.status == 200) {
      on_piece(piece);
    } else {
      answer.body += piece;
    }
    return true;
  };
  const auto done = hub::http_exchange(request, sink);
  return done ? Result<HttpAnswer>(std::move(answer)) : done.error();
}

Result<json::object> HttpClient::ask(std::string_view method, const std::string& path,
                                     const json::value& body) const {
  const auto answer = exchange(method, path, body.is_null() ? "" : to_string(body));
  if (!answer) {
    return answer.error();
  }
  if (answer->status != 200) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{} {}{}: {}", method, url_, path, explain_answer(*answer)), ""};
  }
  auto parsed = parse_json(answer->body);
  if (!parsed || !parsed->is_object()) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{} {}{}: the answer is no JSON object", method, url_, path), ""};
  }
  return std::move(parsed->get_object());
}

std::string explain_answer(const HttpAnswer& answer) {
  const auto parsed = parse_json(answer.body);
  const json::object* object = parsed && parsed->is_object() ? &parsed->get_object() : nullptr;
  const json::object* error = object ? find_object(*object, "error") : nullptr;
  std::string said = error ? find_string(*error, "message").value_or("") : "";
  if (said.empty()) {
    said = answer.body.substr(0, 200);
  }
  return fmt::format("status {}: {}", answer.status, said);
}

}  // namespace pome::apps
