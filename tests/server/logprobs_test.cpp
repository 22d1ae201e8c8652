// Log probabilities of prompts and outputs, through HTTP against the echo engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "support/http_client.h"
#include "support/test_server.h"

namespace pome::test {
namespace {

using ::testing::HasSubstr;

json::object reply_of(const TestServer& server, const char* path, const std::string& body) {
  const HttpReply reply = request(server.port(), "POST", path, body);
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  return parse_json(reply.body)->as_object();
}

// The JSON of each event of a stream, [DONE] left out.
std::vector<json::object> events_of(const TestServer& server, const char* path,
                                    const std::string& body) {
  const HttpReply reply = request(server.port(), "POST", path, body);
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  std::vector<json::object> events;
  for (size_t at = reply.body.find("data: {"); at != std::string::npos;
       at = reply.body.find("data: {", at + 1)) {
    const size_t end = reply.body.find("\n\n", at);
    events.push_back(
        parse_json(std::string_view(reply.body).substr(at + 6, end - at - 6))->as_object());
  }
  return events;
}

std::string many_ids(size_t count) {
  std::string ids = "1";
  for (size_t i = 1; i < count; ++i) {
    ids += fmt::format(",{}", i % 256);
  }
  return ids;
}

std::string many_prompts(size_t count, size_t tokens) {
  std::string prompts = "[" + many_ids(tokens) + "]";
  for (size_t i = 1; i < count; ++i) {
    prompts += ",[" + many_ids(tokens) + "]";
  }
  return prompts;
}

TEST(PromptLogprobs, OfALongPromptComeWholeAndInOrder) {
  TestServer server;
  const json::object body =
      reply_of(server, "/generate",
               "{\"input_ids\":[" + many_ids(1000) +
                   R"(],"sampling_params":{"max_new_tokens":2},"return_logprob":true,
                                     "logprob_start_len":10})");
  const json::array& list = body.at("meta_info").at("input_token_logprobs").as_array();
  ASSERT_EQ(list.size(), 990u);
  EXPECT_TRUE(list[0].as_array()[0].is_null());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i].as_array()[1].as_int64(), static_cast<int64_t>((i + 10) % 256));
  }
}

TEST(PromptLogprobs, TheMostThatAReplyHoldsPassAndOneMorePositionDoesNot) {
  TestServer server;
  // 32 prompts of 1025 tokens, each with 15 alternatives and its own: 2^19.
  const auto body = [](size_t prompts, size_t tokens) {
    return "{\"input_ids\":[" + many_prompts(prompts, tokens) +
           R"(],"sampling_params":{"max_new_tokens":0},"return_logprob":true,"logprob_start_len":0,
               "top_logprobs_num":15})";
  };
  EXPECT_EQ(request(server.port(), "POST", "/generate", body(32, 1025)).status, 200);
  const HttpReply refused = request(server.port(), "POST", "/generate", body(32, 1026));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("\"param\":\"logprob_start_len\""));
  EXPECT_THAT(refused.body, HasSubstr("524800 log probabilities, but one reply holds 524288"));
}

// The lists of a stream's chunks, one after another.
void append_lists(json::object& sum, const json::value& logprobs) {
  for (const auto& [name, list] : logprobs.as_object()) {
    json::array& all = sum[name].is_null() ? sum[name].emplace_array() : sum[name].as_array();
    all.insert(all.end(), list.as_array().begin(), list.as_array().end());
  }
}

TEST(PromptLogprobs, StreamedCompletionsAreTheWholeOnesInPieces) {
  TestServer server;
  std::mt19937 random(17);
  for (int i = 0; i < 30; ++i) {
    std::string prompt;
    for (uint64_t c = random() % 60 + 1; c > 0; --c) {
      constexpr const char* kPieces[] = {"a", " ", "é", "👍", "X", "the "};
      prompt += kPieces[random() % 6];
    }
    const std::string body = fmt::format(
        R"({{"prompt":"{}","max_tokens":{},"n":{},"echo":{},"logprobs":{},"stop":"eX","stream":)",
        prompt, random() % 40 + 1, random() % 2 + 1, random() % 3 > 0, random() % 4);
    const json::object whole = reply_of(server, "/v1/completions", body + "false}");
    std::map<int64_t, std::string> texts;
    std::map<int64_t, json::object> lists;
    for (const json::object& event : events_of(server, "/v1/completions", body + "true}")) {
      for (const json::value& choice : event.at("choices").as_array()) {
        const int64_t index = choice.at("index").as_int64();
        texts[index] += choice.at("text").as_string();
        append_lists(lists[index], choice.at("logprobs"));
      }
    }
    for (const json::value& choice : whole.at("choices").as_array()) {
      const int64_t index = choice.at("index").as_int64();
      EXPECT_EQ(std::string(choice.at("text").as_string()), texts[index]) << body;
      EXPECT_EQ(choice.at("logprobs").as_object(), lists[index]) << body;
    }
  }
}

TEST(PromptLogprobs, EveryEntryBeginsWhereItsTextDoes) {
  TestServer server;
  const json::object whole = reply_of(
      server, "/v1/completions", R"({"prompt":"aé👍b","max_tokens":50,"echo":true,"logprobs":0})");
  const json::object& choice = whole.at("choices").as_array()[0].as_object();
  const json::object& logprobs = choice.at("logprobs").as_object();
  const json::array& tokens = logprobs.at("tokens").as_array();
  const json::array& offsets = logprobs.at("text_offset").as_array();
  ASSERT_EQ(tokens.size(), 17u) << "eight bytes twice, and the end";
  for (const char* list : {"text_offset", "token_logprobs", "top_logprobs"}) {
    EXPECT_EQ(logprobs.at(list).as_array().size(), tokens.size()) << list;
  }
  // "aé👍b" twice: the text's characters are a é 👍 b a é 👍 b.
  EXPECT_EQ(to_string(offsets), "[0,1,2,2,3,3,3,3,4,5,6,6,7,7,7,7,8]");
}

TEST(PromptLogprobs, AStreamOfSglangsEndsWithTheWholeAnswer) {
  TestServer server;
  const std::string body =
      R"({"text":"abcdef","rid":"r","return_logprob":true,"logprob_start_len":2,
          "top_logprobs_num":2,"token_ids_logprob":[5],"stream":)";
  json::object whole = reply_of(server, "/generate", body + "false}");
  std::vector<json::object> events = events_of(server, "/generate", body + "true}");
  ASSERT_FALSE(events.empty());
  json::object& last = events.back();
  whole["meta_info"].as_object().erase("e2e_latency");
  last["meta_info"].as_object().erase("e2e_latency");
  EXPECT_EQ(whole, last);
  EXPECT_EQ(events.front().at("meta_info").at("input_token_logprobs"),
            whole.at("meta_info").at("input_token_logprobs"));
}

TEST(PromptLogprobs, AClientThatLeavesWhileAPromptIsScoredFreesItsPlace) {
  engine::EchoOptions options;
  options.token_delay = std::chrono::milliseconds(5);
  TestServer server(options);
  RawConnection client(server.port());
  client.send(request_bytes("POST", "/generate",
                            "{\"input_ids\":[" + many_ids(8000) +
                                R"(],"sampling_params":{"max_new_tokens":0},"return_logprob":true,
               "logprob_start_len":0})",
                            {}));
  ASSERT_TRUE(server.wait_for([](const engine::EngineStats& s) { return s.running == 1; }));
  client.close();
  EXPECT_TRUE(server.wait_for([](const engine::EngineStats& s) {
    return s.running + s.waiting == 0 && s.cancelled_total == 1;
  }));
}

}  // namespace
}  // namespace pome::test
