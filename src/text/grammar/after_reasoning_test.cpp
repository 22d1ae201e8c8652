#include "text/grammar/after_reasoning.h"

#include <gtest/gtest.h>

#include "text/grammar/walk.h"

namespace pome::text {
namespace {

const Walker& walker() {
  static const Walker kWalker;
  return kWalker;
}

std::shared_ptr<const ReasoningTokens> tokens_of(const char* style) {
  return std::make_shared<const ReasoningTokens>(walker().tokenizer(), *find_reasoning_style(style),
                                                 std::vector<Token>{*walker().tokenizer().eos()});
}

std::unique_ptr<sampling::Constraint> begin(ReasoningStart start, const char* style = "qwen3") {
  return after_reasoning(tokens_of(style), start,
                         walker().begin(regex_source("\\{[a-z]*\\}", "field").value()));
}

Walked walked(ReasoningStart start, std::string_view text, const char* style = "qwen3") {
  return walk(walker().tokenizer(), *begin(start, style), text);
}

TEST(AfterReasoning, TheThoughtIsFreeAndTheAnswerIsHeld) {
  EXPECT_TRUE(walked(ReasoningStart::inside, "Hm {9} ü\n</think>\n\n{ab}").complete);
  EXPECT_EQ(walked(ReasoningStart::inside, "Hm</think>\n\nab").taken, "Hm</think>\n\n");
  EXPECT_TRUE(walked(ReasoningStart::inside, "</think>{ab}").complete);
}

TEST(AfterReasoning, AThoughtMayComeFirstOrNot) {
  EXPECT_TRUE(walked(ReasoningStart::may_open, "<think>\nHm\n</think>\n\n{ab}").complete);
  EXPECT_TRUE(walked(ReasoningStart::may_open, "{ab}").complete);
  EXPECT_EQ(walked(ReasoningStart::may_open, "Hm").taken, "");
  EXPECT_EQ(walked(ReasoningStart::none, "<think>").taken, "");
}

TEST(AfterReasoning, MarksOfSeveralTokensCountToo) {
  EXPECT_TRUE(walked(ReasoningStart::may_open, "[THINK]Hm[/THINK]{ab}", "mistral").complete);
  EXPECT_EQ(walked(ReasoningStart::may_open, "[THI}", "mistral").taken, "[THI");
  EXPECT_EQ(walked(ReasoningStart::inside, "a[/THINK]\nab", "mistral").taken, "a[/THINK]\n");
}

TEST(AfterReasoning, EosDoesNotEndAThought) {
  const auto constraint = begin(ReasoningStart::inside);
  const Tokenizer& tokenizer = walker().tokenizer();
  EXPECT_FALSE(may_come(*constraint, *tokenizer.eos(), tokenizer.vocab_tokens()));
  EXPECT_FALSE(walk(tokenizer, *constraint, "Hm").may_end);
  EXPECT_FALSE(constraint->complete());
}

TEST(AfterReasoning, ATokenCannotEndTheThoughtAndSayMore) {
  const auto tokens = tokens_of("qwen3");
  for (const Token token : tokens->forbidden("so</thin")) {
    const std::string bytes = tokens->bytes(token);
    EXPECT_TRUE(bytes.starts_with("k>") || bytes.find("</think>") != std::string::npos ||
                bytes.find("<tool_call>") != std::string::npos)
        << bytes;
  }
}

TEST(AfterReasoning, WhatWouldInterruptAThoughtMayNotCome) {
  EXPECT_EQ(walked(ReasoningStart::inside, "Hm\n<tool_call>").taken.find("<tool_call>"),
            std::string::npos);
}

TEST(AfterReasoning, BeginsAsThePromptLeftIt) {
  const ReasoningStyle& qwen3 = *find_reasoning_style("qwen3");
  const ReasoningStyle& r1 = *find_reasoning_style("deepseek-r1");
  EXPECT_EQ(reasoning_start(qwen3, "assistant\n<think>\n"), ReasoningStart::inside);
  EXPECT_EQ(reasoning_start(qwen3, "assistant\n"), ReasoningStart::may_open);
  EXPECT_EQ(reasoning_start(qwen3, "assistant\n<think>\n\n</think>\n\n"), ReasoningStart::none);
  EXPECT_EQ(reasoning_start(r1, "assistant\n"), ReasoningStart::inside);
}

}  // namespace
}  // namespace pome::text
