// What a running server tells: metrics, request log, trace, cached tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPrompt =
    "MARKER0123456789abcdef0123456789"
    "abcdef";  // 38 tokens of the echo engine: two whole pages

std::string with_prompt(const std::string& fields = {}) {
  return std::string(R"({"prompt":")") + kPrompt + "\"" + fields + "}";
}

json::object post(TestServer& server, const char* path, const std::string& body) {
  const HttpReply reply = request(server.port(), "POST", path, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return parse_json(reply.body).value().as_object();
}

// A series by its name, without the labels' text; NaN when it is absent.
double metric(TestServer& server, const std::string& name) {
  std::istringstream lines(request(server.port(), "GET", "/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + "{", 0) == 0) {
      return std::stod(line.substr(line.rfind(' ')));
    }
  }
  return std::nan("");
}

// A client has its last byte a moment before its request is noted.
void expect_metric(TestServer& server, const std::string& name, double value) {
  for (int i = 0; i < 500 && metric(server, name) != value; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(metric(server, name), value) << name;
}

int64_t cached_of(const json::object& usage) {
  const json::object* details = find_object(usage, "prompt_tokens_details");
  return details == nullptr ? -1 : find_int(*details, "cached_tokens").value_or(-1);
}

TEST(Metrics, TheCountersAreTheSumOfTheUsages) {
  TestServer server;
  int64_t prompt = 0;
  int64_t completion = 0;
  int64_t cached = 0;
  for (const char* fields : {"", ",\"n\":3", ",\"max_tokens\":2"}) {
    const json::object reply = post(server, "/v1/completions", with_prompt(fields));
    const json::object& usage = reply.at("usage").as_object();
    prompt += find_int(usage, "prompt_tokens").value();
    completion += find_int(usage, "completion_tokens").value();
    cached += cached_of(usage);
  }
  EXPECT_EQ(cached, 64);
  expect_metric(server, "sglang:num_requests_total", 3);
  expect_metric(server, "sglang:prompt_tokens_total", static_cast<double>(prompt));
  expect_metric(server, "sglang:generation_tokens_total", static_cast<double>(completion));
  expect_metric(server, "sglang:cached_tokens_total", static_cast<double>(cached));
  expect_metric(server, "sglang:time_to_first_token_seconds_count", 3);
  expect_metric(server, "sglang:e2e_request_latency_seconds_count", 3);
  expect_metric(server, "sglang:time_per_output_token_seconds_count", 5);
  // Every token but the first of each answer came after another.
  expect_metric(server, "sglang:inter_token_latency_seconds_count",
                static_cast<double>(completion - 5));
}

TEST(Metrics, AStopStringIsAnEndAndNotAnAbort) {
  TestServer server;
  post(server, "/v1/completions", R"({"prompt":"one END two","stop":"END"})");
  expect_metric(server, "sglang:num_requests_total", 1);
  EXPECT_EQ(metric(server, "sglang:num_aborted_requests_total"), 0);
}

TEST(Metrics, WhoLeavesIsAbortedAndWhatBreaksHasFailed) {
  engine::EchoOptions options;
  options.token_delay = 5ms;
  options.script_for = [](const engine::Job& job) {
    engine::EchoScript script;
    if (job.segments.front().tokens.front() == 'f') {
      script.fail_at = 1;
    }
    return script;
  };
  TestServer server(options);
  {
    RawConnection client(server.port());
    client.send(request_bytes("POST", "/v1/completions",
                              R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":4000})",
                              {}));
    client.receive_until("data: ", 5s);
  }
  expect_metric(server, "sglang:num_aborted_requests_total", 1);
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":"fail"})").status, 500);
  expect_metric(server, "pome:failed_requests_total", 1);
  expect_metric(server, "sglang:num_requests_total", 2);
  EXPECT_EQ(metric(server, "sglang:num_aborted_requests_total"), 1);
}

TEST(Metrics, ARequestThatIsRefusedCountsAsAReplyAlone) {
  TestServer server;
  EXPECT_EQ(request(server.port(), "POST", "/v1/completions", R"({"prompt":7})").status, 400);
  EXPECT_EQ(metric(server, "sglang:num_requests_total"), 0);
  EXPECT_THAT(request(server.port(), "GET", "/metrics").body,
              HasSubstr("pome:http_replies_total{model_name=\"echo\",status=\"400\"} 1"));
}

TEST(Metrics, AreNotThereWhenTheyAreSwitchedOff) {
  server::ServerOptions options;
  options.serving.metrics_enabled = false;
  TestServer server({}, options);
  EXPECT_EQ(request(server.port(), "GET", "/metrics").status, 404);
}

TEST(CachedTokens, AreReportedByEveryEndpointStreamedOrNot) {
  TestServer server;
  post(server, "/v1/completions", with_prompt());
  EXPECT_EQ(cached_of(post(server, "/v1/completions", with_prompt()).at("usage").as_object()), 32);
  const std::string chat =
      std::string(R"({"messages":[{"role":"user","content":")") + kPrompt + "\"}]";
  EXPECT_EQ(cached_of(post(server, "/v1/chat/completions", chat + "}").at("usage").as_object()),
            32);
  const std::string text = std::string(R"({"text":")") + kPrompt + "\"";
  EXPECT_EQ(
      find_int(post(server, "/generate", text + "}").at("meta_info").as_object(), "cached_tokens"),
      32);
  const std::string usage = R"("prompt_tokens_details":{"cached_tokens":32})";
  const auto streamed = [&](const char* path, const std::string& body) {
    return request(server.port(), "POST", path, body).body;
  };
  const std::string asked = R"(,"stream":true,"stream_options":{"include_usage":true}})";
  EXPECT_THAT(streamed("/v1/chat/completions", chat + asked), HasSubstr(usage));
  EXPECT_THAT(streamed("/v1/completions", std::string(R"({"prompt":")") + kPrompt + "\"" + asked),
              HasSubstr(usage));
  EXPECT_THAT(streamed("/generate", text + R"(,"stream":true})"),
              HasSubstr(R"("cached_tokens":32)"));
}

TEST(CachedTokens, AreThoseOfThePromptsOwnNamespaceUntilTheCacheIsFlushed) {
  TestServer server;
  const auto cached = [&](const std::string& fields) {
    return cached_of(post(server, "/v1/completions", with_prompt(fields)).at("usage").as_object());
  };
  EXPECT_EQ(cached(R"(,"cache_salt":"a")"), 0);
  EXPECT_EQ(cached(R"(,"cache_salt":"a")"), 32);
  EXPECT_EQ(cached(R"(,"cache_salt":"b")"), 0);
  EXPECT_EQ(cached(R"(,"extra_key":"a")"), 0);
  EXPECT_EQ(cached(R"(,"cache_salt":"a","extra_key":"a")"), 0);
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached(""), 32);
  for (const char* method : {"POST", "GET"}) {
    EXPECT_EQ(request(server.port(), method, "/flush_cache").status, 200);
    EXPECT_EQ(cached(""), 0);
    EXPECT_EQ(cached(""), 32);
  }
}

TEST(CachedTokens, AreLeftOutOfTheUsageOnRequest) {
  server::ServerOptions options;
  options.serving.report_cached_tokens = false;
  TestServer server({}, options);
  const json::object reply = post(server, "/v1/completions", with_prompt());
  EXPECT_FALSE(reply.at("usage").as_object().contains("prompt_tokens_details"));
}

TEST(FlushCache, WorksBesideARequestThatRuns) {
  engine::EchoOptions options;
  options.token_delay = 5ms;
  TestServer server(options);
  RawConnection running(server.port());
  running.send(request_bytes("POST", "/v1/completions",
                             R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":100})",
                             {}));
  running.receive_until("data: ", 5s);
  EXPECT_EQ(request(server.port(), "POST", "/flush_cache").status, 200);
  EXPECT_THAT(running.receive_all(10s), HasSubstr("\"finish_reason\":\"length\""));
}

class RequestLog : public testing::Test {
 protected:
  // What the server writes while `exchange` runs and the server ends.
  template <typename Exchange>
  std::string logged(const server::RequestLogOptions& log, Exchange exchange) {
    server::ServerOptions options;
    options.serving.request_log = log;
    options.api_key = "SECRETKEY";
    testing::internal::CaptureStderr();
    {
      TestServer server({}, options);
      exchange(server);
    }
    return testing::internal::GetCapturedStderr();
  }

  static void ask(TestServer& server, const std::string& body) {
    request(server.port(), "POST", "/v1/completions", body,
            {{"Authorization", "Bearer SECRETKEY"}});
  }
};

TEST_F(RequestLog, IsSilentUnlessItIsAskedFor) {
  EXPECT_EQ(logged({}, [](TestServer& server) { ask(server, with_prompt()); }), "");
}

TEST_F(RequestLog, SaysWhatCameAndHowItEndedWithoutContentOrKeys) {
  const std::string body =
      with_prompt(R"(,"rid":"r1","temperature":0.7,"stop":"cdef","max_tokens":64)");
  for (const int level : {0, 1}) {
    const std::string log =
        logged({.enabled = true, .level = level}, [&](TestServer& server) { ask(server, body); });
    EXPECT_THAT(log, HasSubstr("request.received rid=\"r1\""));
    EXPECT_THAT(log, HasSubstr("endpoint=\"/v1/completions\""));
    EXPECT_THAT(log, HasSubstr("request.finished rid=\"r1\""));
    EXPECT_THAT(log, HasSubstr("status=200 finish_reason=\"stop\" prompt_tokens=38 "
                               "cached_tokens=0 completion_tokens="));
    EXPECT_THAT(log, HasSubstr("ttft_ms="));
    EXPECT_THAT(log, HasSubstr("latency_ms="));
    EXPECT_EQ(log.find("sampling.temperature=0.7") != std::string::npos, level == 1);
    EXPECT_THAT(log, Not(HasSubstr("MARKER")));
    EXPECT_THAT(log, Not(HasSubstr("cdef")));
    EXPECT_THAT(log, Not(HasSubstr("SECRETKEY")));
  }
}

TEST_F(RequestLog, HasTheContentWhenThatIsAskedFor) {
  const std::string log = logged({.enabled = true, .level = 3}, [](TestServer& server) {
    ask(server, R"({"prompt":"two\nlines \"MARKER\"","max_tokens":5})");
  });
  EXPECT_THAT(log, HasSubstr(R"(prompt="two\nlines \"MARKER\"")"));
  EXPECT_THAT(log, HasSubstr(R"(text="two\nl")"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << "one line each: " << log;
  EXPECT_THAT(log, Not(HasSubstr("SECRETKEY")));
}

TEST_F(RequestLog, CutsLongContentAtLevelTwoBetweenCharacters) {
  std::string text = "x";
  while (text.size() < 3000) {
    text += "é";
  }
  const auto log_of = [&](int level) {
    return logged(
        {.enabled = true, .level = level, .format = server::LogFormat::json},
        [&](TestServer& server) { ask(server, R"({"max_tokens":1,"prompt":")" + text + "\"}"); });
  };
  const auto prompt_of = [](const std::string& log) {
    const auto line = parse_json(log.substr(0, log.find('\n')));
    EXPECT_TRUE(line.ok()) << log;
    return find_string(line->as_object(), "prompt").value_or("");
  };
  EXPECT_EQ(prompt_of(log_of(2)), text.substr(0, 2047));
  EXPECT_EQ(prompt_of(log_of(3)), text);
}

TEST_F(RequestLog, AsJsonIsOneObjectALine) {
  const std::string log = logged(
      {.enabled = true, .format = server::LogFormat::json},
      [](TestServer& server) { ask(server, R"({"prompt":["ab","cd"],"rid":"odd \" id\n"})"); });
  std::istringstream lines(log);
  std::vector<json::object> entries;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = parse_json(line);
    ASSERT_TRUE(entry.ok()) << line;
    entries.push_back(entry->as_object());
  }
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(find_string(entries[0], "event"), "request.received");
  EXPECT_EQ(find_string(entries[1], "event"), "request.finished");
  EXPECT_EQ(find_array(entries[1], "rid")->at(0).as_string(), "odd \" id\n");
  EXPECT_EQ(find_array(entries[1], "finish_reason")->size(), 2u);
  EXPECT_EQ(find_string(entries[1], "timestamp")->size(),
            std::string("2026-01-02T03:04:05.678Z").size());
}

TEST_F(RequestLog, ARefusedRequestHasItsStatusAndNoContent) {
  const std::string log = logged({.enabled = true, .level = 3}, [](TestServer& server) {
    ask(server, R"({"prompt":"MARKER","max_tokens":"MARKER"})");
  });
  EXPECT_THAT(log, HasSubstr("request.finished"));
  EXPECT_THAT(log, HasSubstr("status=400 error=\"invalid_request_error\" param=\"max_tokens\""));
  EXPECT_THAT(log, Not(HasSubstr("MARKER")));
}

TEST(TraceFile, HasTheStepsAndTheRequests) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "server_trace.json").string();
  auto trace = telemetry::Trace::open(path);
  ASSERT_TRUE(trace.ok());
  {
    engine::EchoOptions engine_options;
    engine_options.trace = trace->get();
    server::ServerOptions options;
    options.serving.trace = trace->get();
    TestServer server(engine_options, options);
    post(server, "/v1/completions", with_prompt(R"(,"rid":"traced")"));
    EXPECT_EQ(request(server.port(), "POST", "/v1/completions", "{}").status, 400);
  }
  trace->reset();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const auto parsed = parse_json(text.str());
  ASSERT_TRUE(parsed.ok());
  std::map<std::string, int> names;
  std::map<std::string, int> open;  // begun and not ended, by name and id
  for (const json::value& value : parsed->as_array()) {
    const json::object& event = value.as_object();
    const std::string phase = find_string(event, "ph").value();
    const std::string name = find_string(event, "name").value();
    ++names[phase + name];
    if (phase == "b" || phase == "e") {
      open[name + find_string(event, "id").value()] += phase == "b" ? 1 : -1;
    }
  }
  for (const char* slice : {"Xstep", "Xplan", "Xrun", "Xcommit"}) {
    EXPECT_GT(names[slice], 0) << slice;
  }
  EXPECT_EQ(names["brequest"], 2);
  EXPECT_EQ(names["banswer"], 1);
  for (const auto& [name, count] : open) {
    EXPECT_EQ(count, 0) << name;
  }
  EXPECT_THAT(text.str(), HasSubstr("\"of\":\"traced\""));
}

}  // namespace
}  // namespace pome::test
