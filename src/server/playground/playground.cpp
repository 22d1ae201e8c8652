#include "server/playground/playground.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "server/playground/accept.h"
#include "web_files.h"

namespace pome::server {
namespace {

using WebFile = kWebFilesRow;

constexpr std::string_view kPage = "index.html";

struct TypeRow {
  std::string_view ending;
  const char* type;
};
constexpr TypeRow kTypes[] = {{".html", "text/html; charset=utf-8"},
                              {".css", "text/css; charset=utf-8"},
                              {".js", "text/javascript; charset=utf-8"},
                              {".svg", "image/svg+xml"}};

// Whatever an answer of the model may hold, it can neither run nor load anything.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string type_of(const WebFile& file) {
  for (const TypeRow& row : kTypes) {
    if (file.name.size() > row.ending.size() &&
        file.name.substr(file.name.size() - row.ending.size()) == row.ending) {
      return row.type;
    }
  }
  CHECK(false, "a file of web/ without a content type");
  return {};
}

Reply reply_of(const WebFile& file, const Request& request) {
  const std::string tag = fmt::format("\"{}\"", file.digest);
  Reply reply{.content_type = type_of(file),
              .headers = {{"ETag", tag},
                          {"Cache-Control", "no-cache"},
                          {"Vary", "Accept, Origin"},
                          {"Content-Security-Policy", kPolicy},
                          {"Cross-Origin-Opener-Policy", "same-origin"},
                          {"Cross-Origin-Resource-Policy", "same-origin"},
                          {"Referrer-Policy", "no-referrer"},
                          {"X-Content-Type-Options", "nosniff"}}};
  const std::string_view known = request.header("If-None-Match").value_or("");
  if (known == "*" || known.find(tag) != std::string_view::npos) {
    reply.status = 304;
  } else {
    reply.body = file.text;
  }
  return reply;
}

asio::awaitable<void> send_file(const WebFile& file, Exchange& exchange) {
  Reply reply = reply_of(file, exchange.request());
  co_await exchange.reply(std::move(reply));
}

const WebFile& page() {
  for (const WebFile& file : kWebFiles) {
    if (file.name == kPage) {
      return file;
    }
  }
  CHECK(false, "web/ has no index.html");
  return kWebFiles[0];
}

}  // namespace

std::vector<Route> with_playground(std::vector<Route> routes) {
  for (Route& route : routes) {
    if (route.method == "GET" && route.path == "/") {
      route.handler = [otherwise = std::move(route.handler)](Exchange& exchange) {
        const bool page_wanted = wants_page(exchange.request().header("Accept").value_or(""));
        return page_wanted ? send_file(page(), exchange) : otherwise(exchange);
      };
    }
  }
  for (const WebFile& file : kWebFiles) {
    if (file.name != kPage) {
      routes.push_back(
          {.method = "GET",
           .path = fmt::format("/playground/{}", file.name),
           .prefix = false,
           .access = Access::open,
           .handler = [&file](Exchange& exchange) { return send_file(file, exchange); }});
    }
  }
  return routes;
}

}  // namespace pome::server
