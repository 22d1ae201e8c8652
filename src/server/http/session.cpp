#include "server/http/session.h"

#include <fmt/format.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "base/log.h"

namespace pome::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using ErrorCodeOut = boost::system::error_code;

auto into(ErrorCodeOut& code) {
  return asio::redirect_error(asio::use_awaitable, code);
}

class HttpSession final : public Session, private Exchange {
 public:
  HttpSession(tcp::socket socket, const HttpContext& context)
      : context_(context), stream_(std::move(socket)) {}

  asio::awaitable<void> run() override;
  void close() override;
  bool idle() const override { return idle_; }

 private:
  using Parser = http::request_parser<http::string_body>;

  // Exchange
  const Request& request() const override { return request_; }
  asio::any_io_executor executor() const override {
    return const_cast<beast::tcp_stream&>(stream_).get_executor();
  }
  asio::awaitable<void> reply(Reply reply) override;
  Reply refusal(const Error& error, int retry_after_s = 1) const override {
    return error_reply(error, retry_after_s, error_body_(error, request_.id));
  }
  asio::awaitable<bool> begin_stream(const char* content_type) override;
  asio::awaitable<bool> send(std::string bytes) override;
  asio::awaitable<void> end_stream() override;
  bool stream_begun() const override { return stream_begun_; }
  void on_client_gone(std::function<void()> callback) override;
  bool client_gone() const override { return gone_; }

  asio::awaitable<bool> wait_for_bytes();
  asio::awaitable<bool> serve_one();
  asio::awaitable<void> refuse(const Error& error);
  asio::awaitable<void> refuse_head(const ErrorCodeOut& code);
  asio::awaitable<bool> read_body(Parser& parser);
  asio::awaitable<void> reply_options();
  asio::awaitable<void> run_handler(const Handler& handler);
  asio::awaitable<void> call_handler(const Handler& handler);
  asio::awaitable<void> watch_client();
  asio::awaitable<void> linger();
  void take_head(const Parser& parser);
  Status check_head(const Parser& parser);
  void add_common_headers(http::fields& fields) const;
  void set_gone();

  const HttpContext& context_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  Request request_;
  ErrorBody error_body_ = openai_error;  // of the route, once it is known
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool replied_ = false;
  bool stream_begun_ = false;
  bool origin_allowed_ = false;
  bool idle_ = true;
  bool gone_ = false;
  std::function<void()> gone_callback_;
};

asio::awaitable<void> HttpSession::run() {
  const auto self = shared_from_this();
  ErrorCodeOut ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  // Systems let this buffer grow to megabytes, and so long nobody sees that a client takes nothing.
  constexpr int kSendBufferBytes = 128 << 10;
  stream_.socket().set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  // The watcher reads without blocking; asynchronous operations are not affected.
  stream_.socket().non_blocking(true, ignored);
  for (;;) {
    const bool bytes_came = co_await wait_for_bytes();
    if (!bytes_came) {
      break;
    }
    idle_ = false;
    const bool goes_on = co_await serve_one();
    idle_ = true;
    if (!goes_on || gone_ || context_.closing) {
      break;
    }
  }
  if (!gone_) {
    co_await linger();
  }
  close();
}

void HttpSession::close() {
  ErrorCodeOut ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.close();
  set_gone();
}

asio::awaitable<bool> HttpSession::wait_for_bytes() {
  if (buffer_.size() > 0) {
    co_return true;
  }
  ErrorCodeOut code;
  stream_.expires_after(context_.limits.idle_timeout);
  const size_t read = co_await stream_.async_read_some(buffer_.prepare(4096), into(code));
  buffer_.commit(read);
  if (code) {
    set_gone();
  }
  co_return !code;
}

// Reads one request and answers it; false ends the connection.
asio::awaitable<bool> HttpSession::serve_one() {
  const HttpLimits& limits = context_.limits;
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes_max));
  parser.body_limit(limits.body_bytes_max);
  replied_ = stream_begun_ = false;
  keep_alive_ = origin_allowed_ = false;
  request_ = {};
  error_body_ = openai_error;
  ErrorCodeOut code;
  stream_.expires_after(limits.header_timeout);
  co_await http::async_read_header(stream_, buffer_, parser, into(code));
  if (code) {
    co_await refuse_head(code);
    co_return false;
  }
  take_head(parser);
  if (const Status head = check_head(parser); !head) {
    co_await refuse(head.error());
    co_return false;
  }
  const bool keep_alive = parser.get().keep_alive() && !context_.closing;
  keep_alive_ = keep_alive && parser.is_done();
  if (request_.method == "OPTIONS") {
    co_await reply_options();
    co_return keep_alive_;
  }
  std::string allow;
  const Result<const Route*> route = find_route(context_.routes, request_, allow);
  if (!route) {
    Reply answer = refusal(route.error());
    if (!allow.empty()) {
      answer.headers.emplace_back("Allow", allow);
    }
    co_await reply(std::move(answer));
    co_return keep_alive_;
  }
  error_body_ = (*route)->error_body;
  if (const Status key = check_api_key(request_, (*route)->access, context_.guards); !key) {
    co_await refuse(key.error());
    co_return keep_alive_;
  }
  const bool body_read = co_await read_body(parser);
  if (!body_read) {
    co_return false;
  }
  keep_alive_ = keep_alive;
  request_.body = std::move(parser.get().body());
  co_await run_handler((*route)->handler);
  co_return keep_alive_ && !gone_;
}

Status HttpSession::check_head(const Parser& parser) {
  const auto target = parse_target(std::string_view(parser.get().target()));
  if (!target) {
    return invalid("the request target is not a path");
  }
  request_.path = target->path;
  request_.query = target->query;
  if (version_ >= 11 && !request_.header("Host")) {
    return invalid("HTTP/1.1 needs a Host header", "Host");
  }
  POME_TRY(check_host_and_origin(request_, context_.guards));
  origin_allowed_ = true;
  return {};
}

asio::awaitable<void> HttpSession::refuse(const Error& error) {
  Reply answer = refusal(error);
  co_await reply(std::move(answer));
}

// A head that is not HTTP or past the limit gets its status; one that is late or cut off, nothing.
asio::awaitable<void> HttpSession::refuse_head(const ErrorCodeOut& code) {
  if (request_.id.empty()) {
    request_.id = request_id(std::nullopt);
  }
  if (code == http::error::header_limit || code == http::error::buffer_overflow) {
    Reply answer = refusal({ErrorCode::too_large,
                            fmt::format("the request line and headers are longer than {} bytes",
                                        context_.limits.header_bytes_max),
                            {}});
    answer.status = 431;
    co_await reply(std::move(answer));
  } else if (code == http::error::body_limit) {
    const Error error{
        ErrorCode::too_large,
        fmt::format("the body is longer than {} bytes", context_.limits.body_bytes_max),
        {}};
    co_await refuse(error);
  } else if (code.category() == make_error_code(http::error::bad_value).category() &&
             code != http::error::end_of_stream && code != http::error::partial_message) {
    const Error error = invalid(fmt::format("not HTTP: {}", code.message()));
    co_await refuse(error);
  } else {
    set_gone();
  }
}

asio::awaitable<bool> HttpSession::read_body(Parser& parser) {
  const HttpLimits& limits = context_.limits;
  const auto type = request_.header("Content-Type").value_or("");
  if (type.substr(0, 10) == "multipart/") {
    const Error error{ErrorCode::unsupported_media,
                      "expected a JSON body (Content-Type: application/json)", "Content-Type"};
    co_await refuse(error);
    co_return false;
  }
  const auto length = parser.content_length();
  if (length && *length > limits.body_bytes_max) {
    co_await refuse_head(http::error::body_limit);
    co_return false;
  }
  ErrorCodeOut code;
  stream_.expires_after(limits.body_timeout);
  if (!parser.is_done() &&
      equal_ignoring_case(request_.header("Expect").value_or(""), "100-continue")) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await asio::async_write(stream_, asio::buffer(kContinue), into(code));
  }
  if (!code && !parser.is_done()) {
    co_await http::async_read(stream_, buffer_, parser, into(code));
  }
  if (code) {
    co_await refuse_head(code);
    co_return false;
  }
  co_return true;
}

void HttpSession::take_head(const Parser& parser) {
  const auto& head = parser.get();
  request_.method = std::string(head.method_string());
  version_ = head.version();
  for (const auto& field : head) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request_.id = request_id(request_.header("X-Request-Id"));
}

void HttpSession::add_common_headers(http::fields& fields) const {
  fields.set(http::field::server, "pome");
  fields.set("X-Request-Id", request_.id);
  fields.set("Request-Id", request_.id);  // where Anthropic's clients look
  const std::string origin = allow_origin(request_);
  if (origin_allowed_ && !origin.empty()) {
    fields.set(http::field::access_control_allow_origin, origin);
    fields.set(http::field::vary, "Origin");
    fields.set(http::field::access_control_expose_headers, "X-Request-Id");
  }
}

asio::awaitable<void> HttpSession::reply_options() {
  Reply answer{.status = 204};
  answer.headers = {{"Allow", "GET, HEAD, POST, OPTIONS"},
                    {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                    {"Access-Control-Allow-Headers",
                     "Authorization, Content-Type, X-Request-Id, X-Api-Key, Anthropic-Version, "
                     "Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access"},
                    {"Access-Control-Max-Age", "600"}};
  co_await reply(std::move(answer));
}

asio::awaitable<void> HttpSession::reply(Reply answer) {
  CHECK(!replied_ && !stream_begun_, "one request, one answer");
  replied_ = true;
  if (gone_) {
    co_return;
  }
  http::response<http::string_body> response(static_cast<http::status>(answer.status),
                                             version_ < 11 ? 10 : 11);
  response.keep_alive(keep_alive_);
  add_common_headers(response);
  for (const auto& [name, value] : answer.headers) {
    response.set(name, value);
  }
  if (answer.status != 204 && answer.status != 304) {
    response.set(http::field::content_type, answer.content_type);
    response.content_length(answer.body.size());
    if (request_.method != "HEAD") {
      response.body() = std::move(answer.body);
    }
  }
  if (context_.on_reply) {
    context_.on_reply(request_, answer.status);
  }
  http::response_serializer<http::string_body> serializer(response);
  ErrorCodeOut code;
  stream_.expires_after(context_.limits.client_timeout);
  if (request_.method == "HEAD") {
    co_await http::async_write_header(stream_, serializer, into(code));
  } else {
    co_await http::async_write(stream_, serializer, into(code));
  }
  if (code) {
    set_gone();
  }
}

asio::awaitable<bool> HttpSession::begin_stream(const char* content_type) {
  CHECK(!replied_ && !stream_begun_, "one request, one answer");
  stream_begun_ = true;
  http::response<http::empty_body> head(http::status::ok, version_ < 11 ? 10 : 11);
  if (version_ < 11) {
    keep_alive_ = false;  // HTTP/1.0 knows no chunks: the end of the connection ends the answer
  }
  head.keep_alive(keep_alive_);
  head.chunked(version_ >= 11);
  add_common_headers(head);
  head.set(http::field::content_type, content_type);
  head.set(http::field::cache_control, "no-cache");
  head.set("X-Accel-Buffering", "no");
  if (context_.on_reply) {
    context_.on_reply(request_, 200);
  }
  http::response_serializer<http::empty_body> serializer(head);
  ErrorCodeOut code;
  stream_.expires_after(context_.limits.client_timeout);
  co_await http::async_write_header(stream_, serializer, into(code));
  if (code) {
    set_gone();
  }
  co_return !gone_;
}

asio::awaitable<bool> HttpSession::send(std::string bytes) {
  CHECK(stream_begun_, "send() needs begin_stream()");
  if (gone_ || bytes.empty()) {
    co_return !gone_;
  }
  ErrorCodeOut code;
  stream_.expires_after(context_.limits.client_timeout);
  if (version_ >= 11) {
    // A named value: g++ 12 destroys such a temporary of a co_await expression twice.
    const auto chunk = http::make_chunk(asio::buffer(bytes));
    co_await asio::async_write(stream_, chunk, into(code));
  } else {
    co_await asio::async_write(stream_, asio::buffer(bytes), into(code));
  }
  if (code) {
    set_gone();
  }
  co_return !gone_;
}

asio::awaitable<void> HttpSession::end_stream() {
  if (gone_ || version_ < 11) {
    co_return;
  }
  ErrorCodeOut code;
  stream_.expires_after(context_.limits.client_timeout);
  static constexpr std::string_view kLastChunk = "0\r\n\r\n";
  co_await asio::async_write(stream_, asio::buffer(kLastChunk), into(code));
  if (code) {
    set_gone();
  }
}

void HttpSession::on_client_gone(std::function<void()> callback) {
  if (gone_) {
    callback();
  } else {
    gone_callback_ = std::move(callback);
  }
}

void HttpSession::set_gone() {
  gone_ = true;
  if (gone_callback_) {
    std::exchange(gone_callback_, nullptr)();
  }
}

// Runs the handler with a watch on the socket beside it, and returns when both have ended.
asio::awaitable<void> HttpSession::run_handler(const Handler& handler) {
  stream_.expires_never();
  asio::cancellation_signal stop_watching;
  asio::steady_timer watch_ended(stream_.get_executor(), asio::steady_timer::time_point::max());
  bool watching = true;
  asio::co_spawn(stream_.get_executor(), watch_client(),
                 asio::bind_cancellation_slot(stop_watching.slot(), [&](std::exception_ptr) {
                   watching = false;
                   watch_ended.cancel();
                 }));
  co_await call_handler(handler);
  gone_callback_ = nullptr;
  stop_watching.emit(asio::cancellation_type::terminal);
  while (watching) {
    ErrorCodeOut ignored;
    co_await watch_ended.async_wait(into(ignored));
  }
}

// The border for exceptions: whatever a handler or a library throws ends this request and no other.
asio::awaitable<void> HttpSession::call_handler(const Handler& handler) {
  std::string what;
  try {
    co_await handler(*this);
  } catch (const std::exception& fault) {
    what = fault.what();
  }
  if (what.empty() && (replied_ || stream_begun_ || gone_)) {
    co_return;
  }
  log::error("[{}] {} {}: {}", request_.id, request_.method, request_.path,
             what.empty() ? "the handler gave no answer" : what);
  if (replied_ || stream_begun_) {
    keep_alive_ = false;  // the answer is cut; the client sees a broken body
    set_gone();
    co_return;
  }
  const Error error{
      ErrorCode::internal, fmt::format("internal error in request {}", request_.id), {}};
  co_await refuse(error);
}

asio::awaitable<void> HttpSession::watch_client() {
  const auto self = shared_from_this();
  while (buffer_.size() < context_.limits.pipelined_bytes_max) {
    ErrorCodeOut code;
    co_await stream_.socket().async_wait(tcp::socket::wait_read, into(code));
    if (code == asio::error::operation_aborted) {
      co_return;
    }
    size_t read = 0;
    if (!code) {
      read = stream_.socket().read_some(buffer_.prepare(4096), code);
      buffer_.commit(read);
    }
    if (code == asio::error::would_block || code == asio::error::try_again) {
      continue;
    }
    if (code) {
      set_gone();
      co_return;
    }
  }
}

// Closing a socket with unread bytes resets the connection and may destroy the answer on its way;
// so the rest is read and thrown away for a moment.
asio::awaitable<void> HttpSession::linger() {
  ErrorCodeOut code;
  stream_.socket().shutdown(tcp::socket::shutdown_send, code);
  stream_.expires_after(std::chrono::seconds(2));
  buffer_.clear();
  while (!code) {
    co_await stream_.async_read_some(buffer_.prepare(65536), into(code));
  }
}

}  // namespace

std::shared_ptr<Session> make_session(tcp::socket socket, const HttpContext& context) {
  return std::make_shared<HttpSession>(std::move(socket), context);
}

}  // namespace pome::server
