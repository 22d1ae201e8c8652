#include "protocol/native/tokenize.h"
#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {

namespace native = protocol::native;

asio::awaitable<void> handle_abort(ServerContext& context, Exchange& exchange) {
  const Result<json::value> body = parse_body(exchange.request());
  const Result<native::AbortRequest> request =
      body ? native::parse_abort_request(*body) : Result<native::AbortRequest>(body.error());
  if (!request) {
    co_await refuse(context, exchange, request.error());
    co_return;
  }
  if (request->abort_all) {
    context.journal.abort_what_is_read();
  }
  const int found =
      request->abort_all ? context.dispatcher.abort_all() : context.dispatcher.abort(request->rid);
  json::object reply;
  reply["aborted"] = found;
  Reply answer = json_reply(200, reply);
  co_await exchange.reply(std::move(answer));
}

// What runs keeps its memory, so this works beside running requests too.
asio::awaitable<void> handle_flush_cache(ServerContext& context, Exchange& exchange) {
  const Status flushed = context.engine.flush_cache();
  if (!flushed) {
    co_await refuse(context, exchange, flushed.error());
    co_return;
  }
  Reply answer{.body = "Cache flushed.\n", .content_type = "text/plain; charset=utf-8"};
  co_await exchange.reply(std::move(answer));
}

asio::awaitable<void> handle_start_profile(ServerContext& context, Exchange& exchange) {
  return start_profile(context.options.profiler, exchange);
}

asio::awaitable<void> handle_stop_profile(ServerContext& context, Exchange& exchange) {
  return stop_profile(context.options.profiler, exchange);
}

}  // namespace pome::server
