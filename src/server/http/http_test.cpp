#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/exchange.h"
#include "server/http/guards.h"
#include "server/http/request.h"

namespace pome::server {
namespace {

Request with(std::vector<std::pair<std::string, std::string>> headers) {
  Request request;
  request.headers = std::move(headers);
  return request;
}

TEST(Guards, ALoopbackBindAnswersToLoopbackNamesOnly) {
  const GuardOptions options{.host = "127.0.0.1", .api_key = "", .allowed_origins = {}};
  for (const char* host :
       {"localhost", "LOCALHOST:30000", "127.0.0.1:1", "127.8.9.1", "[::1]:80", "app.localhost"}) {
    EXPECT_TRUE(check_host_and_origin(with({{"Host", host}}), options).ok()) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                           "127.evil.a.b", "[::2]", "0.0.0.0", "[::1]evil.example", "[::1", "[]"}) {
    EXPECT_FALSE(check_host_and_origin(with({{"Host", host}}), options).ok()) << host;
  }
}

TEST(Guards, ASecondHostIsRefusedWhateverItNames) {
  for (const char* bound : {"127.0.0.1", "0.0.0.0"}) {
    const GuardOptions options{.host = bound, .api_key = "", .allowed_origins = {}};
    const Status status =
        check_host_and_origin(with({{"Host", "localhost"}, {"host", "localhost"}}), options);
    ASSERT_FALSE(status.ok()) << bound;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(status.error().field, "Host");
  }
}

TEST(Guards, AHostThatNamesNothingIsRefused) {
  for (const char* bound : {"127.0.0.1", "0.0.0.0"}) {
    const GuardOptions options{.host = bound, .api_key = "", .allowed_origins = {}};
    for (const char* host : {"", ":30000", "[]", "[]:80"}) {
      const Status status = check_host_and_origin(with({{"Host", host}}), options);
      ASSERT_FALSE(status.ok()) << host;
      EXPECT_EQ(status.error().code, ErrorCode::invalid_argument) << host;
      EXPECT_EQ(status.error().field, "Host");
    }
    EXPECT_TRUE(check_host_and_origin(with({}), options).ok()) << "HTTP/1.0 has none";
  }
}

TEST(Guards, AnOpenBindTakesAnyHostAndStillChecksOrigins) {
  const GuardOptions options{
      .host = "0.0.0.0", .api_key = "", .allowed_origins = {"https://chat.example"}};
  const std::pair<std::string, std::string> host{"Host", "mac.local:30000"};
  EXPECT_TRUE(check_host_and_origin(with({host}), options).ok());
  EXPECT_TRUE(
      check_host_and_origin(with({host, {"Origin", "http://mac.local:30000"}}), options).ok());
  EXPECT_TRUE(
      check_host_and_origin(with({host, {"Origin", "https://chat.example"}}), options).ok());
  EXPECT_FALSE(
      check_host_and_origin(with({host, {"Origin", "https://evil.example"}}), options).ok());
  EXPECT_FALSE(check_host_and_origin(with({host, {"Origin", "null"}}), options).ok());
}

TEST(Guards, AllowedHostsAreThoseThatAServerAnswersTo) {
  for (const char* bound : {"127.0.0.1", "0.0.0.0"}) {
    const GuardOptions options{.host = bound,
                               .api_key = "",
                               .allowed_origins = {},
                               .allowed_hosts = {"mac.example", ".ts.example"}};
    const auto passes = [&](const char* host) {
      return check_host_and_origin(with({{"Host", host}}), options).ok();
    };
    for (const char* host : {"mac.example", "MAC.example:30000", "a.ts.example", "localhost:1"}) {
      EXPECT_TRUE(passes(host)) << host << " on " << bound;
    }
    for (const char* host : {"evil.example", "mac.example.evil", "ts.example", "ats.example"}) {
      EXPECT_FALSE(passes(host)) << host << " on " << bound;
    }
  }
  const GuardOptions any{
      .host = "127.0.0.1", .api_key = "", .allowed_origins = {}, .allowed_hosts = {"*"}};
  EXPECT_TRUE(check_host_and_origin(with({{"Host", "anything.example"}}), any).ok());
}

TEST(Guards, AKeyIsComparedWhole) {
  const GuardOptions options{.host = "", .api_key = "secret", .allowed_origins = {}};
  const auto passes = [&](const Request& request) {
    return check_api_key(request, Access::key, options).ok();
  };
  EXPECT_TRUE(passes(with({{"authorization", "bearer secret"}})));
  for (const char* value :
       {"Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret"}) {
    EXPECT_FALSE(passes(with({{"Authorization", value}}))) << value;
  }
  EXPECT_FALSE(passes(with({})));
  EXPECT_TRUE(passes(with({{"X-Api-Key", "secret"}})));
  for (const char* value : {"secre", "secrets", "", "Bearer secret"}) {
    EXPECT_FALSE(passes(with({{"x-api-key", value}}))) << value;
  }
}

// Which keys open a route: none, the user's, the admin's.
std::string openers(Access access, const std::string& api_key, const std::string& admin_api_key) {
  const GuardOptions options{
      .host = "", .api_key = api_key, .admin_api_key = admin_api_key, .allowed_origins = {}};
  std::string out;
  if (check_api_key(with({}), access, options).ok()) {
    out += "none ";
  }
  for (const char* key : {"user", "admin"}) {
    const bool bearer =
        check_api_key(with({{"Authorization", std::string("Bearer ") + key}}), access, options)
            .ok();
    EXPECT_EQ(check_api_key(with({{"x-api-key", key}}), access, options).ok(), bearer) << key;
    out += bearer ? std::string(key) + " " : "";
  }
  return out;
}

TEST(Guards, TheAdminsKeyOpensEveryRouteAndAloneTheAdminsOwn) {
  EXPECT_EQ(openers(Access::open, "user", "admin"), "none user admin ");
  EXPECT_EQ(openers(Access::key, "user", "admin"), "user admin ");
  EXPECT_EQ(openers(Access::admin, "user", "admin"), "admin ");
  EXPECT_EQ(openers(Access::admin, "user", ""), "user ");
  EXPECT_EQ(openers(Access::key, "", "admin"), "none user admin ");
  EXPECT_EQ(openers(Access::admin, "", "admin"), "admin ");
  EXPECT_EQ(openers(Access::admin, "", ""), "none user admin ");
}

TEST(Target, IsDecodedAndSplitAndABrokenCodeIsNone) {
  const auto target = parse_target("/v1/models/a%2Fb?x=1");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/models/a/b");
  EXPECT_EQ(target->query, "x=1");
  for (const char* broken : {"", "*", "http://x/", "/%", "/%0", "/%zz"}) {
    EXPECT_FALSE(parse_target(broken)) << broken;
  }
}

TEST(RequestId, IsTheClientsWhenWellFormedElseDrawn) {
  EXPECT_EQ(request_id("abc-1.2:3_4"), "abc-1.2:3_4");
  EXPECT_EQ(request_id(std::string(128, 'a')), std::string(128, 'a'));
  EXPECT_EQ(request_id(std::string(129, 'a')).size(), 32u);
  EXPECT_EQ(request_id("a b").size(), 32u);
  EXPECT_NE(random_id(), random_id());
}

TEST(Routes, AKnownPathWithAnotherMethodSaysWhichOnesItTakes) {
  const std::vector<Route> routes = {
      {.method = "GET", .path = "/a", .prefix = false, .access = Access::key, .handler = {}},
      {.method = "GET", .path = "/m/", .prefix = true, .access = Access::key, .handler = {}}};
  const auto find = [&](const char* method, const char* path, std::string& allow) {
    Request request;
    request.method = method;
    request.path = path;
    return find_route(routes, request, allow);
  };
  std::string allow;
  EXPECT_TRUE(find("HEAD", "/a", allow).ok());
  EXPECT_TRUE(find("GET", "/m/x/y", allow).ok());
  EXPECT_EQ(find("GET", "/m/", allow).error().code, ErrorCode::not_found);
  EXPECT_EQ(find("POST", "/a", allow).error().code, ErrorCode::method_not_allowed);
  EXPECT_EQ(allow, "GET, HEAD, OPTIONS");
}

}  // namespace
}  // namespace pome::server
