#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "pome/bench/load/dataset.h"
#include "pome/bench/load/figures.h"
#include "pome/bench/load/statistics.h"
#include "pome/bench/target/target.h"

namespace pome::apps {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

// A token for each word, and one more at the beginning where specials are wanted.
class WordTokens final : public PromptTokens {
 public:
  Result<std::vector<std::vector<Token>>> encode(const std::vector<std::string>& texts,
                                                 bool add_special) const override {
    std::vector<std::vector<Token>> out;
    for (const std::string& text : texts) {
      auto& ids = out.emplace_back();
      if (add_special) {
        ids.push_back(0);
      }
      std::istringstream words(text);
      for (std::string word; words >> word;) {
        ids.push_back(static_cast<Token>(word.size()));
      }
    }
    return out;
  }
  Result<std::vector<std::string>> decode(
      const std::vector<std::vector<Token>>& tokens) const override {
    std::vector<std::string> out;
    for (const auto& ids : tokens) {
      auto& text = out.emplace_back();
      for (const Token id : ids) {
        text +=
            id == 0 ? "" : (text.empty() ? "" : " ") + std::string(static_cast<size_t>(id), 'a');
      }
    }
    return out;
  }
  int32_t vocab_tokens() const override { return 100; }
};

std::vector<DatasetRow> rows_of(const DatasetOptions& options) {
  auto rows = make_dataset(options, WordTokens());
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  return std::move(*rows);
}

TEST(Dataset, RandomTextsHaveTheirLengthsAsTheServerCounts) {
  const DatasetOptions options{.name = "random",
                               .prompts = 20,
                               .random_input_tokens = 30,
                               .random_output_tokens = 5,
                               .random_range_ratio = 1.0};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 20u);
  for (const DatasetRow& row : rows) {
    EXPECT_EQ(row.prompt_tokens, 30);
    EXPECT_EQ((*WordTokens().encode({row.text}, true))[0].size(), 30u);
    EXPECT_EQ(row.output_tokens, 5);
    EXPECT_TRUE(row.tokens.empty());
  }
  EXPECT_NE(rows[0].text, rows[1].text);
  EXPECT_EQ(rows, rows_of(options));
}

TEST(Dataset, ARangeDrawsLengthsFromItsPartToTheWhole) {
  int32_t shortest = 1000, longest = 0;
  for (const DatasetRow& row : rows_of({.name = "random-ids",
                               .prompts = 300,
                               .random_input_tokens = 100,
                               .random_range_ratio = 0.5})) {
    EXPECT_EQ(row.tokens.size(), static_cast<size_t>(row.prompt_tokens));
    shortest = std::min(shortest, row.prompt_tokens);
    longest = std::max(longest, row.prompt_tokens);
    for (const Token token : row.tokens) {
      EXPECT_TRUE(token >= 0 && token < 90);  // without the vocabulary's end
    }
  }
  EXPECT_EQ(shortest, 50);
  EXPECT_EQ(longest, 100);
}

TEST(Dataset, TokensOfTextsAreExact) {
  for (const DatasetRow& row : rows_of({.name = "random",
                               .prompts = 3,
                               .as_tokens = true,
                               .random_input_tokens = 17,
                               .random_range_ratio = 1.0})) {
    EXPECT_EQ(row.tokens.size(), 17u);
    EXPECT_EQ(row.prompt_tokens, 17);
    EXPECT_TRUE(row.text.empty());
  }
}

TEST(Dataset, GroupsShareTheirBeginning) {
  const auto rows = rows_of({.name = "generated-shared-prefix",
                             .groups = 3,
                             .prompts_per_group = 4,
                             .system_prompt_tokens = 20,
                             .question_tokens = 6,
                             .group_output_tokens = 9});
  ASSERT_EQ(rows.size(), 12u);
  std::map<std::string, int> groups;
  for (const DatasetRow& row : rows) {
    EXPECT_TRUE(row.text.starts_with(row.shared_prefix));
    EXPECT_EQ(row.prompt_tokens, 27);  // and one at the beginning
    EXPECT_EQ(row.output_tokens, 9);
    ++groups[row.shared_prefix];
  }
  EXPECT_EQ(groups.size(), 3u);
}

TEST(Dataset, ShareGptGivesFirstQuestionsWithTheLengthsOfTheirAnswers) {
  const auto path = std::filesystem::path(testing::TempDir()) / "sharegpt.json";
  std::ofstream(path) << R"([
    {"conversations": [{"from": "human", "value": "one two three"},
                       {"from": "gpt", "value": "four five"}, {"from": "human", "value": "six"}]},
    {"conversation": [{"value": "a b c d"}, {"value": "e f g"}]},
    {"conversations": [{"value": "alone"}]},
    {"conversations": [{"value": "short answer"}, {"value": "x"}]},
    {"other": 1}, 5])";
  auto rows = rows_of({.path = path});
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text, "a b c d");
  EXPECT_EQ(rows[0].prompt_tokens, 5);
  EXPECT_EQ(rows[0].output_tokens, 3);
  EXPECT_EQ(rows[1].output_tokens, 2);
  EXPECT_EQ(rows_of({.path = path, .prompts = 1}).size(), 1u);
  EXPECT_EQ(
      rows_of({.path = path, .suffix = " more", .sharegpt_output_tokens = 8})[0].output_tokens, 8);
  EXPECT_EQ(rows_of({.path = path, .sharegpt_context_tokens = 6})[0].text, "one two three");
  EXPECT_FALSE(make_dataset({.path = path, .sharegpt_context_tokens = 5}, WordTokens()).ok());
}

TEST(Dataset, AFileThatIsNoneIsRefused) {
  EXPECT_THAT(make_dataset({.path = "/no/file.json"}, WordTokens()).error().message,
              HasSubstr("/no/file.json"));
  for (const char* text : {"", "{}", "[]", "[1,", R"([{"conversations":[]}])", "[[[[", "\xff"}) {
    EXPECT_FALSE(parse_sharegpt(text).ok()) << text;
  }
}

TEST(Dataset, GapsOfArrivalsHaveTheirMean) {
  std::mt19937_64 random(1);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    const double gap = draw_gap(random, 4.0);
    ASSERT_GT(gap, 0.0);
    sum += gap;
  }
  EXPECT_THAT(sum / 20000, DoubleNear(0.25, 0.01));
}

TEST(Statistics, ADistributionIsThatOfItsValues) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) {
    values.push_back(i);
  }
  const Distribution d = distribution_of(values);
  EXPECT_DOUBLE_EQ(d.mean, 50);
  EXPECT_DOUBLE_EQ(d.median, 50);
  EXPECT_DOUBLE_EQ(d.p90, 90);
  EXPECT_DOUBLE_EQ(d.p99, 99);
  EXPECT_DOUBLE_EQ(d.max, 100);
  EXPECT_THAT(d.deviation, DoubleNear(29.155, 0.001));
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.25), 1.25);
  EXPECT_DOUBLE_EQ(distribution_of({}).mean, 0);
}

RequestOutcome answer(double started_s, double ttft_s, std::vector<double> gaps_s) {
  RequestOutcome outcome{.ok = true, .text = "x", .started_s = started_s, .ttft_s = ttft_s};
  outcome.latency_s = ttft_s;
  for (const double gap : gaps_s) {
    outcome.latency_s += gap;
  }
  outcome.output_tokens = static_cast<int32_t>(gaps_s.size()) + 1;
  outcome.gaps_s = std::move(gaps_s);
  return outcome;
}

TEST(Figures, TotalsAndTimesCountWhatWasAnswered) {
  const std::vector<DatasetRow> rows = {
      {.prompt_tokens = 10}, {.prompt_tokens = 20}, {.prompt_tokens = 40}};
  const std::vector<RequestOutcome> outcomes = {
      answer(0.0, 0.5, {0.25, 0.25}), answer(0.2, 1.0, {}), {.error = "status 500: no"}};
  const LoadFigures f = figures_of(rows, outcomes, 2.0);
  EXPECT_EQ(f.completed, 2);
  EXPECT_EQ(f.failed, 1);
  EXPECT_EQ(f.input_tokens, 30);
  EXPECT_EQ(f.output_tokens, 4);
  EXPECT_DOUBLE_EQ(f.latency_s.mean, 1.0);
  EXPECT_DOUBLE_EQ(f.ttft_s.mean, 0.75);
  EXPECT_DOUBLE_EQ(f.tpot_s.mean, 0.25);  // of the one with more than a token
  EXPECT_DOUBLE_EQ(f.itl_s.max, 0.25);
  EXPECT_EQ(f.requests_together_max, 2);
  const json::object fields = load_fields(f);
  EXPECT_EQ(find_double(fields, "request_throughput"), 1.0);
  EXPECT_EQ(find_double(fields, "total_throughput"), 17.0);
  EXPECT_EQ(find_double(fields, "concurrency"), 1.0);
  EXPECT_EQ(find_double(fields, "median_ttft_ms"), 750.0);
}

TEST(Figures, TheTableHasSglangsWidthsAndLabels) {
  const LoadFigures f = figures_of({{.prompt_tokens = 10}}, {answer(0, 0.5, {0.5})}, 2.0);
  const std::string table = load_table({.backend = "sglang", .together_max = 4}, f);
  for (const char* line : {"============ Serving Benchmark Result ============\n",
                           "Backend:                                 sglang    \n",
                           "Traffic request rate:                    inf       \n",
                           "Max request concurrency:                 4         \n",
                           "Successful requests:                     1         \n",
                           "Benchmark duration (s):                  2.00      \n",
                           "Request throughput (req/s):              0.50      \n",
                           "----------------End-to-End Latency----------------\n",
                           "---------------Time to First Token----------------\n",
                           "Median TTFT (ms):                        500.00    \n",
                           "---------------Inter-Token Latency----------------\n",
                           "Max ITL (ms):                            500.00    \n"}) {
    EXPECT_THAT(table, HasSubstr(line));
  }
  EXPECT_THAT(table, testing::Not(HasSubstr("Failed")));
}

TEST(Figures, NoAnswerAtAllIsZeros) {
  const LoadFigures f = figures_of({{.prompt_tokens = 10}}, {{.error = "no"}}, 1.0);
  EXPECT_EQ(f.completed, 0);
  EXPECT_EQ(f.requests_together_max, 0);
  EXPECT_DOUBLE_EQ(f.latency_s.p99, 0.0);
  EXPECT_THAT(load_table({.backend = "sglang"}, f), HasSubstr("Failed requests:"));
}

TEST(Target, AnAddressIsMadeOfWhatIsGiven) {
  EXPECT_EQ(base_url_of("http://a:1/", "b", "2"), "http://a:1/");
  EXPECT_EQ(base_url_of("", "127.0.0.1", "2"), "http://127.0.0.1:2");
  EXPECT_EQ(base_url_of("", "::1", "2"), "http://[::1]:2");
  EXPECT_EQ(base_url_of("", "http://localhost:3", "2"), "http://localhost:3");
  for (const char* bad : {"", "a:1", "ftp://a", "http://", "http://:1"}) {
    EXPECT_FALSE(HttpClient::open(bad, "", {}).ok()) << bad;
  }
  EXPECT_TRUE(HttpClient::open("http://[::1]:30000/v1", "", {}).ok());
}

}  // namespace
}  // namespace pome::apps
