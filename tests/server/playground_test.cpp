// The page at `/` and its files, as HTTP. A browser tests what it does: tests/playground.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/server.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using Headers = std::vector<std::pair<std::string, std::string>>;

const Headers kBrowser = {{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"}};

HttpReply get(const TestServer& server, std::string_view path, const Headers& headers = {}) {
  return request(server.port(), "GET", path, "", headers);
}

// The paths that the page names.
std::vector<std::string> files_of(const std::string& page) {
  std::vector<std::string> paths;
  constexpr std::string_view kBegin = "\"/playground/";
  for (size_t at = page.find(kBegin); at != std::string::npos; at = page.find(kBegin, at + 1)) {
    paths.push_back(page.substr(at + 1, page.find('"', at + 1) - at - 1));
  }
  return paths;
}

TEST(Playground, ABrowserGetsThePageAndCurlWhatItAlwaysGot) {
  TestServer server;
  const HttpReply page = get(server, "/", kBrowser);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<!doctype html>"));
  EXPECT_EQ(get(server, "/").body,
            "pome serves echo here: POST /v1/chat/completions, GET /v1/models, GET /health\n");
  const HttpReply json = get(server, "/", {{"Accept", "application/json"}});
  EXPECT_EQ(json.header("Content-Type"), "application/json");
  EXPECT_THAT(json.body, HasSubstr(R"("served_model_name":"echo")"));
  for (const HttpReply& reply : {page, json, get(server, "/")}) {
    EXPECT_THAT(reply.header("Vary"), HasSubstr("Accept"));
  }
}

TEST(Playground, EveryFileIsThereWithItsTypeAndMayRunNothingInline) {
  TestServer server;
  const HttpReply page = get(server, "/", kBrowser);
  const std::vector<std::string> paths = files_of(page.body);
  EXPECT_GE(paths.size(), 5u);
  for (const std::string& path : paths) {
    const HttpReply file = get(server, path);
    EXPECT_EQ(file.status, 200) << path;
    const std::string type = file.header("Content-Type");
    const std::string ending = path.substr(path.rfind('.'));
    EXPECT_THAT(type, HasSubstr(ending == ".js"    ? "text/javascript"
                                : ending == ".css" ? "text/css"
                                                   : "image/svg+xml"))
        << path;
    EXPECT_EQ(file.header("X-Content-Type-Options"), "nosniff") << path;
  }
  const std::string policy = page.header("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(get(server, "/playground/").status, 404);
  EXPECT_EQ(get(server, "/playground/absent.js").status, 404);
  EXPECT_EQ(get(server, "/playground/../app.js").status, 404);
  EXPECT_EQ(request(server.port(), "POST", "/playground/app.js").status, 405);
}

TEST(Playground, WhatTheBrowserHasIsNotSentAgain) {
  TestServer server;
  for (const std::string path : {"/", "/playground/app.js"}) {
    const HttpReply first = get(server, path, kBrowser);
    const std::string tag = first.header("ETag");
    ASSERT_GE(tag.size(), 3u) << path;
    EXPECT_EQ(first.header("Cache-Control"), "no-cache") << path;
    const auto again = [&](const std::string& known) {
      Headers headers = kBrowser;
      headers.emplace_back("If-None-Match", known);
      return get(server, path, headers);
    };
    for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
      const HttpReply unchanged = again(known);
      EXPECT_EQ(unchanged.status, 304) << known;
      EXPECT_EQ(unchanged.body, "") << known;
      EXPECT_EQ(unchanged.header("ETag"), tag) << known;
      EXPECT_EQ(unchanged.header("Content-Length"), "") << known;
    }
    EXPECT_EQ(again("\"other\"").status, 200) << path;
  }
}

TEST(Playground, AConnectionGoesOnAfterA304AndAHead) {
  TestServer server;
  const std::string tag = get(server, "/playground/app.js").header("ETag");
  RawConnection connection(server.port());
  connection.send("GET /playground/app.js HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + tag +
                  "\r\n\r\n");
  EXPECT_THAT(connection.receive_until("\r\n\r\n", 5s), HasSubstr("304"));
  connection.send("HEAD / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
  const std::string head = connection.receive_until("\r\n\r\n", 5s);
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_THAT(head, HasSubstr("text/html"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length: 0")));
  connection.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(parse_reply(connection.receive_all(5s)).status, 200);
}

TEST(Playground, ThePageIsOpenAndTheApiIsNot) {
  server::ServerOptions options;
  options.api_key = "secret";
  TestServer server({}, std::move(options));
  EXPECT_EQ(get(server, "/", kBrowser).status, 200);
  EXPECT_EQ(get(server, "/playground/app.js").status, 200);
  EXPECT_EQ(get(server, "/get_model_info").status, 401);
}

TEST(Playground, APageOfAnotherNameIsRefusedAsEverythingIs) {
  TestServer server;
  Headers rebound = kBrowser;
  rebound.emplace_back("Host", "evil.example");
  EXPECT_EQ(get(server, "/", rebound).status, 403);
}

TEST(Playground, WithoutItThereIsNoPage) {
  server::ServerOptions options;
  options.playground = false;
  TestServer server({}, std::move(options));
  EXPECT_THAT(get(server, "/", kBrowser).body, HasSubstr("pome serves echo here"));
  EXPECT_EQ(get(server, "/playground/app.js").status, 404);
}

TEST(Playground, ItIsThereBeforeThereIsAModel) {
  server::ServerOptions options;
  options.port = 0;
  server::Server server(std::move(options));
  const Result<uint16_t> port = server.listen();
  ASSERT_TRUE(port.ok());
  std::thread thread([&] { server.run(); });
  EXPECT_EQ(request(*port, "GET", "/", "", kBrowser).status, 200);
  EXPECT_EQ(request(*port, "GET", "/playground/app.js").status, 200);
  EXPECT_EQ(request(*port, "GET", "/").status, 503);
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace pome::test
