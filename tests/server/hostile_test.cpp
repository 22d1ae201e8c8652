// 200 hostile requests beside one stream: each ends in a 4xx or a closed connection, the stream
// goes on undisturbed, and the server is healthy afterwards.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <random>

#include "base/json.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string chat(const std::string& rest) {
  return request_bytes("POST", "/v1/chat/completions",
                       R"({"messages":[{"role":"user","content":"x"}])" + rest + "}", {});
}

std::string post(const std::string& path, const std::string& body) {
  return request_bytes("POST", path, body, {});
}

std::vector<std::string> bad_values() {
  std::vector<std::string> out;
  // Field by field, values of a wrong type or out of range.
  const std::vector<std::pair<const char*, std::vector<const char*>>> kBad = {
      {"max_tokens", {"0", "-2", "1.5", "\"9\"", "99999999999", "[]", "true"}},
      {"max_completion_tokens", {"0", "-7", "{}"}},
      {"n", {"0", "-1", "17", "1e30", "\"2\""}},
      {"temperature", {"-1", "1e308", "\"hot\"", "101"}},
      {"top_p", {"-0.1", "1.1", "[]"}},
      {"top_k", {"-2", "0.5"}},
      {"min_p", {"-0.01", "1.01"}},
      {"seed", {"1.5", "\"x\"", "{}"}},
      {"frequency_penalty", {"-2.1", "2.1"}},
      {"presence_penalty", {"-2.1", "2.1", "\"\""}},
      {"repetition_penalty", {"0", "-1", "2.1"}},
      {"stop", {"5", "[5]", "[\"\"]", "{}"}},
      {"stop_token_ids", {"[-1]", "[1.5]", "\"1\"", "[99999999999]", "[257]"}},
      {"logit_bias", {"[]", "{\"a\":1}", "{\"1\":101}", "{\"1\":\"x\"}", "{\"-1\":1}"}},
      {"stream", {"\"yes\"", "1"}},
      {"stream_options", {"{\"include_usage\":true}", "5"}},
      {"logprobs", {"5", "\"x\""}},
      {"top_logprobs", {"21", "-1", "1"}},
      {"min_tokens", {"-1", "9,\"max_tokens\":8"}},
      {"tools", {"[{}]", "{\"a\":1}"}},
      {"tool_choice", {"\"required\""}},
      {"response_format", {"{\"type\":\"json_object\"}"}},
      {"chat_template_kwargs", {"[]", "5"}},
      {"continue_final_message", {"true"}},
      {"modalities", {"[\"text\",\"audio\"]"}},
      {"model", {"5", "[]"}},
      {"rid", {"5"}},
      {"prompt_logprobs", {"1"}},
      {"nonsense", {"1"}},
  };
  for (const auto& [field, values] : kBad) {
    for (const char* value : values) {
      out.push_back(chat(fmt::format(",\"{}\":{}", field, value)));
    }
  }
  return out;
}

std::vector<std::string> bad_bodies() {
  std::vector<std::string> out;
  const std::vector<std::string> kBodies = {
      "",
      "{",
      "[]",
      "5",
      "null",
      "\"x\"",
      "{}",
      "{]",
      "{\"messages\":}",
      "nan",
      "\xff\xfe",
      "{\"a\":\"\xc3\"}",
      R"({"messages":5})",
      R"({"messages":[]})",
      R"({"messages":[5]})",
      R"({"messages":[{}]})",
      R"({"messages":[{"role":"root","content":"x"}]})",
      R"({"messages":[{"role":"user","content":[]}]})",
      R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
      R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
      R"({"messages":[{"role":"user","content":null}]})",
      R"({"messages":[{"role":"assistant","content":"x","tool_calls":5}]})",
      R"({"messages":[{"role":"user","content":"x"}],"temperature":NaN})",
      R"({"messages":[{"role":"user","content":"x"}],"temperature":Infinity})",
      std::string(100'000, '['),
      std::string(100'000, '{'),
      "{\"messages\":\"" + std::string(200'000, 'a') + "\"}",
      R"({"messages":[{"role":"user","content":")" + std::string(20'000, 'a') + "\"}]}",
      "{\"" + std::string(50'000, 'k') + "\":1}",
  };
  for (const std::string& body : kBodies) {
    out.push_back(post("/v1/chat/completions", body));
    out.push_back(post("/v1/completions", body));
    out.push_back(post("/generate", body));
  }
  return out;
}

std::vector<std::string> bad_http() {
  return {
      "\r\n\r\n\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "GET  / HTTP/1.1\r\n\r\n",
      "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "TRACE /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n",
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "FFFFFFFFFFFFFFFFF\r\n",
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
      "Content-Length: 5\r\n\r\n0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n",
      "GET /v1/models/%0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost\r\n" +
          [] {
            std::string lines;
            for (int i = 0; i < 5000; ++i) {
              lines += fmt::format("H{}: 1\r\n", i);
            }
            return lines;
          }() +
          "\r\n",
      std::string(50'000, '\0'),
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  };
}

TEST(Hostile, EachBadRequestIsRefusedAndAStreamBesideThemGoesOn) {
  engine::EchoOptions options;
  options.token_delay = 2ms;
  server::ServerOptions server_options;
  server_options.limits.body_bytes_max = 256 << 10;
  server_options.limits.header_timeout = 1s;
  server_options.limits.body_timeout = 1s;
  TestServer server(options, server_options);
  constexpr int kTokens = 3000;
  RawConnection stream(server.port());
  stream.send(post(
      "/v1/completions",
      fmt::format(R"({{"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":{}}})", kTokens)));
  auto streamed = std::async(std::launch::async, [&] { return stream.receive_all(20s); });

  std::vector<std::string> requests = bad_values();
  for (auto more : {bad_bodies(), bad_http()}) {
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  EXPECT_GE(requests.size(), 150u);
  for (const std::string& bytes : requests) {
    RawConnection client(server.port());
    ASSERT_TRUE(client.connected());
    client.send(bytes);
    const HttpReply reply = parse_reply(client.receive_all(5s));
    const std::string shown = bytes.substr(0, 300);
    EXPECT_TRUE(reply.status == 0 || (reply.status >= 400 && reply.status < 500))
        << reply.status << " for " << shown;
    EXPECT_TRUE(reply.status != 0 || client.at_end()) << "neither answer nor end for " << shown;
    if (reply.status != 0) {
      EXPECT_TRUE(parse_json(reply.body).ok()) << reply.body.substr(0, 300) << " for " << shown;
      EXPECT_NE(reply.header("X-Request-Id"), "") << shown;
    }
  }
  EXPECT_EQ(request(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"ok"})").status, 200);
  const std::string all = streamed.get();
  EXPECT_THAT(all, HasSubstr("data: [DONE]"));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("\"error\"")));
}

TEST(Hostile, RandomBytesAndMutatedRequestsNeverStopTheServer) {
  TestServer server;
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string good = chat(R"(,"max_tokens":3,"stop":["q"],"temperature":0.5)");
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    for (uint64_t edit = random() % 6 + 1; edit > 0; --edit) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0) {
        bytes.erase(at, random() % 8);
        bytes += ' ';
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    RawConnection client(server.port());
    client.send(bytes);
    client.shut_down_sending();
    client.receive_all(2s);
    ASSERT_TRUE(client.at_end()) << "seed " << seed << ", request " << i;
  }
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"ok"})").status, 200);
}

}  // namespace
}  // namespace pome::test
