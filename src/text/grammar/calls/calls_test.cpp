#include <gtest/gtest.h>

#include "text/grammar/calls/call_grammar.h"
#include "text/grammar/calls/tagged_text.h"
#include "text/grammar/walk.h"

namespace pome::text {
namespace {

constexpr const char* kMarks[] = {"[TOOL_CALLS]",         "<｜tool▁calls▁begin｜>",
                                  "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
                                  "<｜tool▁call▁end｜>",  "<｜tool▁sep｜>"};

// A small vocabulary with these control tokens too.
Tokenizer with_control_tokens(const std::vector<std::string>& marks) {
  json::object golden = golden::tokenizer_golden("qwen2");
  json::object& tokenizer = golden.at("tokenizer_json").as_object();
  json::array& added = tokenizer.at("added_tokens").as_array();
  auto id = static_cast<int64_t>(tokenizer.at("model").at("vocab").as_object().size() + 8);
  for (const std::string& mark : marks) {
    json::object token = added[0].as_object();
    token["id"] = id++;
    token["content"] = mark;
    token["special"] = true;
    added.push_back(std::move(token));
  }
  return golden::from_json(golden);
}

class Held {
 public:
  explicit Held(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)), compiler_(tokenizer_) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }

  Walked walk(const GrammarSource& source, std::string_view text) const {
    const std::vector<Token> eos = {*tokenizer_.eos()};
    const Result<CompiledGrammar> compiled = compiler_.compile(source, eos, "tools");
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    return text::walk(tokenizer_, *compiled->grammar.begin().value(), text);
  }
  bool accepts(const GrammarSource& source, std::string_view text) const {
    const Walked walked = walk(source, text);
    return walked.whole && walked.may_end;
  }

 private:
  Tokenizer tokenizer_;
  GrammarCompiler compiler_;
};

const Held& held() {
  static const Held kHeld(with_control_tokens({std::begin(kMarks), std::end(kMarks)}));
  return kHeld;
}

json::value parsed(std::string_view text) {
  return parse_json(text).value();
}

std::vector<CalledFunction> functions() {
  const json::value city = parsed(
      R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
          "additionalProperties": false})");
  const json::value days = parsed(
      R"({"properties": {"days": {"type": "integer"}}, "required": ["days"],
          "additionalProperties": false})");
  return {{.name = "weather", .parameters = city, .field = "tools[0]"},
          {.name = "wait", .parameters = days, .field = "tools[1]"},
          {.name = "any", .field = "tools[2]"}};
}

GrammarSource calls(ToolDialect dialect, CallRules rules = {}) {
  return call_source(held().tokenizer(), dialect, functions(), rules).value();
}

// Names and arguments that the dialect's parser finds.
std::string read(ToolDialect dialect, const std::string& text) {
  const DeclaredTools tools(parsed(R"([{"type": "function", "function": {"name": "weather"}},
                 {"type": "function", "function": {"name": "wait"}}])")
                                .as_array());
  ToolParser parser(dialect, tools);
  std::vector<ToolEvent> events = parser.feed(text);
  for (ToolEvent& event : parser.finish()) {
    events.push_back(std::move(event));
  }
  std::string out;
  for (const ToolEvent& event : events) {
    if (event.kind == ToolEvent::Kind::call_ends) {
      out += event.whole ? ";" : "?";
    } else {
      out += event.text;
    }
  }
  return out;
}

struct Sample {
  ToolDialect dialect;
  std::string one;
  std::string two;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples = {
      {ToolDialect::hermes,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
       "\n<tool_call>\n{\"name\": \"wait\", \"arguments\": {\"days\": 3}}\n</tool_call>"},
      {ToolDialect::llama3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}",
       "; {\"name\": \"wait\", \"parameters\": {\"days\": 3}}"},
      {ToolDialect::mistral,
       "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}]",
       ", {\"name\": \"wait\", \"arguments\": {\"days\": 3}}]"},
      {ToolDialect::deepseekv3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
       "{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>wait\n```json\n{\"days\": 3}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolDialect::deepseekv31,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Oslo\"}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁call▁begin｜>wait<｜tool▁sep｜>{\"days\": "
       "3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolDialect::kimi_k2,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
       "<|tool_call_argument_begin|>{\"city\": "
       "\"Oslo\"}<|tool_call_end|><|tool_calls_section_end|>",
       "<|tool_call_begin|>functions.wait:1<|tool_call_argument_begin|>{\"days\": 3}"
       "<|tool_call_end|><|tool_calls_section_end|>"},
      {ToolDialect::hunyuan,
       "<tool_calls>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}]</tool_calls>",
       ", {\"name\": \"wait\", \"arguments\": {\"days\": 3}}]</tool_calls>"},
  };
  return kSamples;
}

// Both calls in one output: what closes a list stands once, at its end.
std::string both(const Sample& sample) {
  std::string first = sample.one;
  for (const char* end :
       {"]</tool_calls>", "]", "<｜tool▁calls▁end｜>", "<|tool_calls_section_end|>"}) {
    if (first.ends_with(end)) {
      first.resize(first.size() - std::string_view(end).size());
      break;
    }
  }
  return first + sample.two;
}

TEST(ForcedCalls, EachDialectWritesWhatItsParserReads) {
  EXPECT_EQ(samples().size(), forced_dialect_names().size());
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(name_of(sample.dialect));
    ASSERT_TRUE(can_force_calls(sample.dialect));
    const Walked one = held().walk(calls(sample.dialect), sample.one);
    EXPECT_TRUE(one.whole && one.may_end) << one.taken;
    EXPECT_EQ(read(sample.dialect, sample.one), "weather{\"city\":\"Oslo\"};");
    const Walked two = held().walk(calls(sample.dialect), both(sample));
    EXPECT_TRUE(two.whole && two.may_end) << two.taken;
    EXPECT_EQ(read(sample.dialect, both(sample)), "weather{\"city\":\"Oslo\"};wait{\"days\":3};");
  }
}

TEST(ForcedCalls, OneCallIsOne) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(name_of(sample.dialect));
    const GrammarSource one = calls(sample.dialect, {.one_call = true});
    EXPECT_TRUE(held().walk(one, sample.one).complete);
    EXPECT_FALSE(held().walk(one, both(sample)).whole);
  }
}

TEST(ForcedCalls, NothingElseIsSaidAndArgumentsSatisfyTheSchema) {
  const GrammarSource source = calls(ToolDialect::hermes);
  EXPECT_EQ(held().walk(source, "Sure").taken, "");
  EXPECT_FALSE(held().walk(source, "<tool_call>\n{\"name\": \"other\"").whole);
  const std::string head = "<tool_call>\n{\"name\": \"weather\", \"arguments\": ";
  EXPECT_FALSE(held().walk(source, head + "{\"days\"").whole);
  EXPECT_FALSE(held().walk(source, head + "{}").whole);
  EXPECT_FALSE(held().walk(source, head + "3").whole);
  EXPECT_TRUE(held().accepts(source,
                             "<tool_call>\n{\"name\": \"any\", \"arguments\": {\"x\": [1, {}]}}\n"
                             "</tool_call>"));
}

TEST(StrictCalls, TextIsFreeAndCallsInItAreHeld) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(name_of(sample.dialect));
    const GrammarSource source = calls(sample.dialect, {.required = false});
    EXPECT_TRUE(held().accepts(source, "Hello, no call."));
    EXPECT_TRUE(held().accepts(source, sample.one));
    if (sample.dialect != ToolDialect::llama3) {
      EXPECT_TRUE(held().accepts(source, "One moment.\n" + sample.one));
    }
    std::string wrong = sample.one;
    wrong.replace(wrong.find("city"), 4, "town");
    EXPECT_FALSE(held().walk(source, wrong).whole);
  }
}

TEST(StrictCalls, TheMarkCannotBeSaidAsText) {
  const GrammarSource source = calls(ToolDialect::hermes, {.required = false});
  EXPECT_FALSE(held().walk(source, "Say <tool_call> and go on").whole);
  EXPECT_TRUE(held().accepts(source, "Say <tool_cal and go on"));
  const GrammarSource marked = calls(ToolDialect::mistral, {.required = false});
  EXPECT_FALSE(held().walk(marked, "Say [TOOL_CALLS] and").whole);
}

TEST(StrictCalls, OrAnAnswerInsteadOfText) {
  const std::string answer = json_schema_in_lark(parsed(R"({"type": "integer"})"), "f").value();
  for (const ToolDialect dialect : {ToolDialect::hermes, ToolDialect::mistral}) {
    const GrammarSource source = calls(dialect, {.required = false, .or_answer = answer});
    EXPECT_TRUE(held().accepts(source, "42"));
    EXPECT_FALSE(held().walk(source, "Hello").whole);
    EXPECT_TRUE(held().accepts(source, samples()[dialect == ToolDialect::hermes ? 0 : 2].one));
  }
}

TEST(ForcedCalls, MistralsLaterModelsNameTheFunctionFirst) {
  const Held later(with_control_tokens({"[TOOL_CALLS]", "[ARGS]"}));
  const GrammarSource source =
      call_source(later.tokenizer(), ToolDialect::mistral, functions(), {}).value();
  const std::string two =
      "[TOOL_CALLS]weather[ARGS]{\"city\": \"Oslo\"}[TOOL_CALLS]wait[ARGS]{\"days\": 3}";
  EXPECT_TRUE(later.accepts(source, two));
  EXPECT_EQ(read(ToolDialect::mistral, two), "weather{\"city\":\"Oslo\"};wait{\"days\":3};");
}

TEST(ForcedCalls, ArgumentsThatAreNoObjectAreRefused) {
  for (const char* schema : {R"({"type": "string"})", "3", R"({"type": ["object", "null"]})"}) {
    const auto source =
        call_source(held().tokenizer(), ToolDialect::hermes,
                    {{.name = "f", .parameters = parsed(schema), .field = "here"}}, {});
    ASSERT_FALSE(source.ok()) << schema;
    EXPECT_TRUE(source.error().field.starts_with("here")) << source.error().field;
  }
}

TEST(ForcedCalls, TheOtherDialectsCannotBe) {
  for (const ToolDialect dialect : {ToolDialect::qwen3_coder, ToolDialect::pythonic,
                                    ToolDialect::gpt_oss, ToolDialect::glm45, ToolDialect::gemma}) {
    EXPECT_FALSE(can_force_calls(dialect)) << name_of(dialect);
  }
}

TEST(StructuralTag, WhatBeginsWithATriggerGoesOnAsAStructure) {
  const auto source = structural_tag_source(
      held().tokenizer(),
      parsed(R"({"type": "structural_tag", "triggers": ["<fn="], "structures": [
          {"begin": "<fn=a>", "schema": {"type": "integer"}, "end": "</fn>"},
          {"begin": "<fn=b>", "schema": {"type": "string"}, "end": "</fn>"}]})")
          .as_object(),
      "tag");
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_TRUE(held().accepts(*source, "free text"));
  EXPECT_TRUE(held().accepts(*source, "so <fn=a>3</fn> and <fn=b>\"x\"</fn> done"));
  EXPECT_FALSE(held().walk(*source, "so <fn=a>\"x\"").whole);
  EXPECT_FALSE(held().walk(*source, "so <fn=c>").whole);
}

TEST(StructuralTag, ATriggerMayBeAControlToken) {
  const auto source = structural_tag_source(held().tokenizer(),
                                            parsed(R"({"triggers": ["[TOOL_CALLS]"], "structures": [
          {"begin": "[TOOL_CALLS]", "schema": {"type": "integer"}, "end": "<|im_start|>"}]})")
                                                .as_object(),
                                            "tag");
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_TRUE(held().accepts(*source, "a[TOOL_CALLS]3<|im_start|>b"));
  EXPECT_FALSE(held().walk(*source, "a[TOOL_CALLS]b").whole);
}

TEST(StructuralTag, WhatIsMissingIsRefusedByName) {
  for (const auto& [text, field] : std::vector<std::pair<const char*, const char*>>{
           {R"({})", "tag.structures"},
           {R"({"format": {}})", "tag.format"},
           {R"({"structures": [], "triggers": ["a"]})", "tag.structures"},
           {R"({"structures": [{"begin": "a", "schema": {}, "end": ""}]})", "tag.triggers"},
           {R"({"structures": [{"begin": "b", "schema": {}, "end": ""}], "triggers": ["a"]})",
            "tag.structures[0].begin"},
           {R"({"structures": [{"begin": "a", "end": ""}], "triggers": ["a"]})",
            "tag.structures[0]"},
           {R"({"structures": [{"begin": "a", "schema": 3, "end": ""}], "triggers": ["a"]})",
            "tag.structures[0].schema"}}) {
    const auto source = structural_tag_source(held().tokenizer(), parsed(text).as_object(), "tag");
    ASSERT_FALSE(source.ok()) << text;
    EXPECT_EQ(source.error().field, field);
  }
}

TEST(LarkText, ControlTokensStandAsThemselves) {
  const Tokenizer& tokenizer = held().tokenizer();
  const auto id = [&](const char* piece) { return std::to_string(*tokenizer.token_id(piece)); };
  EXPECT_EQ(lark_text(tokenizer, "a\n\"b"), R"("a\n\"b")");
  EXPECT_EQ(lark_text(tokenizer, "a<｜tool▁sep｜>b"),
            "\"a\" <[" + id("<｜tool▁sep｜>") + "]> \"b\"");
  EXPECT_EQ(lark_text(tokenizer, "[TOOL_CALLS]"), "<[" + id("[TOOL_CALLS]") + "]>");
  EXPECT_EQ(lark_text(tokenizer, ""), "\"\"");
}

}  // namespace
}  // namespace pome::text
