#include <gtest/gtest.h>

#include <thread>

#include "text/grammar/grammar_compiler.h"
#include "text/grammar/walk.h"

namespace pome::text {
namespace {

const Walker& walker() {
  static const Walker kWalker;
  return kWalker;
}

GrammarSource schema(std::string_view text) {
  return json_schema_source(parse_json(text).value(), "field").value();
}

std::string refusal(const GrammarSource& source) {
  const Result<CompiledGrammar> compiled = walker().compile(source);
  if (compiled.ok()) {
    return {};
  }
  EXPECT_EQ(compiled.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(compiled.error().field, "field");
  EXPECT_EQ(compiled.error().message.find('\n'), std::string::npos) << compiled.error().message;
  return compiled.error().message;
}

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": false})";

TEST(JsonSchema, AnOutputSatisfiesItAndThenEnds) {
  const Walked walked = walker().walk(schema(kPerson), R"({"name": "Ada", "age": 36})");
  EXPECT_TRUE(walked.whole);
  EXPECT_TRUE(walked.complete);
  EXPECT_FALSE(walker().walk(schema(kPerson), R"({"name": "Ada")").may_end);
  EXPECT_FALSE(walker().walk(schema(kPerson), R"({"name": 36})").whole);
  EXPECT_FALSE(walker().walk(schema(kPerson), R"({"name": "Ada", "age": 36, "x": 1})").whole);
  EXPECT_FALSE(walker().walk(schema(kPerson), R"(Sure: {"name")").whole);
}

TEST(JsonSchema, SpaceIsAllowedAndNotAskedFor) {
  for (const char* text : {R"({"name":"Ada","age":36})", R"({"name": "Ada", "age": 36})",
                           "{\n  \"name\": \"Ada\",\n  \"age\": 36\n}"}) {
    EXPECT_TRUE(walker().accepts(schema(kPerson), text)) << text;
  }
}

TEST(JsonSchema, SpaceComesToAnEnd) {
  const auto spaces = [](size_t count) { return "{" + std::string(count, ' ') + "\"name\""; };
  EXPECT_TRUE(walker().walk(schema(kPerson), spaces(2)).whole);
  EXPECT_FALSE(walker().walk(schema(kPerson), spaces(3)).whole);
  EXPECT_FALSE(walker().walk(schema(kPerson), "{\n\n").whole);
  EXPECT_TRUE(walker().walk(schema(kPerson), "{\n" + std::string(32, ' ') + "\"name\"").whole);
  EXPECT_FALSE(walker().walk(schema(kPerson), "{\n" + std::string(33, ' ')).whole);
  EXPECT_FALSE(walker().walk(json_object_source(), "\n{").whole);
  EXPECT_FALSE(walker().walk(json_object_source(), "{}\n").whole);
  EXPECT_TRUE(walker().walk(json_object_source(), "{}").complete);
}

TEST(JsonSchema, AnyValueIsTrueAndNoneIsRefused) {
  const GrammarSource any = schema("true");
  for (const char* text : {"1", "null", R"(["a", {"b": 2}])", R"("text")"}) {
    EXPECT_TRUE(walker().accepts(any, text)) << text;
  }
  EXPECT_FALSE(json_schema_source(false, "field").ok());
  EXPECT_FALSE(json_schema_source(3, "field").ok());
}

TEST(JsonSchema, FollowsReferencesAndRecursion) {
  const GrammarSource tree = schema(
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
          {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
          "required": ["children"], "additionalProperties": false}}})");
  EXPECT_TRUE(walker().accepts(tree, R"({"children": [{"children": []}, {"children": []}]})"));
  EXPECT_FALSE(walker().walk(tree, R"({"children": [3)").whole);
}

TEST(JsonSchema, WhatIsNotSupportedIsRefusedAndNothingIsWeakened) {
  for (const char* text :
       {R"({"type": "objct"})", R"({"type": 3})", R"({"not": {"type": "string"}})",
        R"({"type": "array", "uniqueItems": true})", R"({"if": {}, "then": {}})",
        R"({"type": "string", "format": "no-such-format"})", R"({"$ref": "https://example.org/x"})",
        R"({"$ref": "#/$defs/none"})", R"({"oneOf": [{"minimum": 1}, {"maximum": 5}]})",
        R"({"type": "string", "pattern": "("})", R"({"type": "string", "pattern": "(?=a)b"})",
        R"({"type": "object", "properties": 3})", R"({"minimum": "1"})", R"({"enum": []})",
        R"({"type": "integer", "minimum": 3, "maximum": 2})",
        R"({"type": "object", "dependentRequired": {"a": ["b"]}})"}) {
    EXPECT_NE(refusal(schema(text)), "") << text;
  }
  EXPECT_FALSE(
      json_schema_source(parse_json(R"({"x-guidance": {"lenient": true}})").value(), "f").ok());
}

TEST(JsonSchema, HostileOnesAreRefusedOrCompiledAndDoNoHarm) {
  std::string deep = "{}";
  std::string wide = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 28; ++i) {
    deep = R"({"anyOf": [)" + deep + "]}";
  }
  for (int i = 0; i < 3000; ++i) {
    wide += (i == 0 ? "\"k" : ", \"k") + std::to_string(i) + "\": {\"type\": \"string\"}";
  }
  std::string doubling = R"({"$defs": {"a0": {"type": "string"})";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "{\"$ref\": \"#/$defs/a" + std::to_string(i - 1) + "\"}";
    doubling += ", \"a" + std::to_string(i) + "\": {\"allOf\": [" + before + ", " + before + "]}";
  }
  doubling += R"(}, "$ref": "#/$defs/a39"})";
  for (const std::string& text :
       {deep, wide + "}}", doubling, std::string(R"({"$ref": "#"})"),
        std::string(R"({"type": "string", "minLength": 2000000000})"),
        std::string(R"({"type": "string", "pattern": "((a{1000}){1000}){1000}"})"),
        std::string(R"({"type": "array", "items": {"type": "string"}, "minItems": 4000000000})"),
        std::string(R"({"type": "array", "maxItems": 1000000000, "items": {"enum": ["a", "b"]}})"),
        std::string(R"({"type": "string", "pattern": "(a|b|ab)*c(a|b)*.{500}"})")}) {
    const Result<CompiledGrammar> compiled = walker().compile(schema(text));
    EXPECT_TRUE(compiled.ok() || !compiled.error().message.empty());
  }
}

TEST(Regex, TheWholeOutputMatches) {
  const GrammarSource date = regex_source("[0-9]{4}-[0-9]{2}", "field").value();
  const Walked walked = walker().walk(date, "2024-05");
  EXPECT_TRUE(walked.whole && walked.complete);
  EXPECT_FALSE(walker().walk(date, "2024-05-01").whole);
  EXPECT_FALSE(walker().walk(date, "in 2024").whole);
  EXPECT_TRUE(walker().accepts(regex_source("(yes|no)+", "field").value(), "yesno"));
  EXPECT_TRUE(walker().accepts(regex_source("a/b\\d", "field").value(), "a/b7"));
}

TEST(Regex, AnchorsAtItsEndsChangeNothing) {
  EXPECT_TRUE(walker().accepts(regex_source("^ab$", "field").value(), "ab"));
  EXPECT_TRUE(walker().accepts(regex_source("^a\\$", "field").value(), "a$"));
  EXPECT_FALSE(regex_source("^$", "field").ok());
}

TEST(Regex, WhatIsNotRegularOrTooLargeIsRefused) {
  for (const char* text : {"(", "a(?=b)", "(a)\\1", "[z-a]"}) {
    EXPECT_NE(refusal(regex_source(text, "field").value()), "") << text;
  }
  EXPECT_TRUE(regex_source(std::string(kGrammarBytesMax, 'a'), "field").ok());
  EXPECT_FALSE(regex_source(std::string(kGrammarBytesMax + 1, 'a'), "field").ok());
}

TEST(Ebnf, RulesMayRecur) {
  const GrammarSource sums = ebnf_source(
                                 "# sums of numbers\nroot ::= term (\" + \" term)*\n"
                                 "term ::= [0-9]+ | \"(\" root \")\"\n",
                                 "field")
                                 .value();
  EXPECT_TRUE(walker().accepts(sums, "1 + (22 + 3) + 4"));
  EXPECT_FALSE(walker().walk(sums, "1 + (22").may_end);
  EXPECT_FALSE(walker().walk(sums, "1 + )").whole);
}

TEST(Ebnf, RegularRulesAreOneExpressionHoweverTheyAreCut) {
  const GrammarSource source =
      ebnf_source("root ::= \"abc\" | ab \"x\"\nab ::= [a-c] [^d-z\\n]", "field").value();
  EXPECT_TRUE(walker().accepts(source, "abc"));
  EXPECT_TRUE(walker().accepts(source, "abx"));
  EXPECT_FALSE(walker().walk(source, "adx").whole);
}

TEST(Ebnf, CountsEscapesAndCharacters) {
  const auto accepts = [](const char* rules, const char* text) {
    return walker().accepts(ebnf_source(rules, "field").value(), text);
  };
  EXPECT_TRUE(accepts(R"(root ::= "a"{2,3} "\x41\u00e9\n")", "aaA\u00e9\n"));
  EXPECT_FALSE(accepts(R"(root ::= "a"{2,3})", "a"));
  EXPECT_TRUE(accepts(R"(root ::= "a"{,2})", "aa"));
  EXPECT_TRUE(accepts(R"(root ::= "a"{2,} "b"?)", "aaaa"));
  EXPECT_TRUE(accepts(R"(root ::= [äöü\]\-] . "")", "ö!"));
  EXPECT_TRUE(accepts("root ::= a |\na ::= \"x\"", "x"));
}

TEST(Ebnf, WhatIsWrongIsRefusedByItsLine) {
  for (const auto& [rules, why] : std::vector<std::pair<std::string, std::string>>{
           {"a ::= \"x\"", "root"},
           {"root ::= b", "no rule is named b"},
           {"root ::= \"x\nroot", "line 1"},
           {"root ::= \"x\"\nroot ::= \"y\"", "twice"},
           {"root ::= (\"x\"", "line 1"},
           {"root ::= [z-a]", "line 1"},
           {"root ::= \"x\"{3,2}", "line 1"},
           {"root ::= (= \"x\")", "ahead"},
           {"root ::= \"\\q\"", "line 1"},
           {"root ::= " + std::string(kGrammarDepthMax + 1, '('), "deep"}}) {
    const Result<GrammarSource> source = ebnf_source(rules, "field");
    ASSERT_FALSE(source.ok()) << rules;
    EXPECT_NE(source.error().message.find(why), std::string::npos) << source.error().message;
    EXPECT_EQ(source.error().field, "field");
  }
}

TEST(Lark, IsTakenAsItIs) {
  const GrammarSource source =
      ebnf_source("start: greeting \" \" NAME\ngreeting: \"hello\" | \"hi\"\nNAME: /[A-Z][a-z]+/",
                  "field")
          .value();
  EXPECT_TRUE(walker().accepts(source, "hello Ada"));
  EXPECT_FALSE(walker().walk(source, "hey").whole);
  EXPECT_NE(refusal(ebnf_source("start: missing", "field").value()), "");
  EXPECT_NE(refusal(ebnf_source("no start: \"x\"", "field").value()), "");
}

TEST(Lark, DepthIsBounded) {
  const auto nested = [](int depth) {
    return "start: " + std::string(depth, '(') + "\"a\"" + std::string(depth, ')');
  };
  EXPECT_TRUE(walker().accepts(ebnf_source(nested(20), "field").value(), "a"));
  EXPECT_NE(refusal(ebnf_source(nested(30000), "field").value()), "");
}

TEST(Grammar, OutputsAreIndependentOfEachOther) {
  const Grammar grammar = walker().compile(schema(kPerson))->grammar;
  const auto first = grammar.begin().value();
  const auto second = grammar.begin().value();
  EXPECT_TRUE(walk(walker().tokenizer(), *first, R"({"name": "A)").whole);
  EXPECT_TRUE(walk(walker().tokenizer(), *second, R"({"name": "B", "age": 1})").complete);
  EXPECT_TRUE(walk(walker().tokenizer(), *first, R"(da", "age": 2})").complete);
}

TEST(Grammar, ATokenThatMayNotComeIsRefusedAndOneAfterTheEndToo) {
  const auto constraint = walker().begin(schema(R"({"enum": ["a"]})"));
  EXPECT_FALSE(constraint->accept(*walker().tokenizer().token_id("}")).ok());
  EXPECT_TRUE(walk(walker().tokenizer(), *constraint, "\"a\"").complete);
  EXPECT_FALSE(constraint->accept(*walker().tokenizer().token_id("\"")).ok());
}

TEST(Grammar, EosIsSaidWhereTheGrammarLetsItEndAndEndsIt) {
  const auto constraint = walker().begin(regex_source("a+", "field").value());
  const Token eos = *walker().tokenizer().eos();
  EXPECT_FALSE(constraint->accept(eos).ok());
  EXPECT_TRUE(walk(walker().tokenizer(), *constraint, "aa").may_end);
  EXPECT_FALSE(constraint->complete());
  EXPECT_TRUE(constraint->accept(eos).ok());
  EXPECT_TRUE(constraint->complete());
}

TEST(Grammar, ControlTokensAreNoText) {
  const auto constraint = walker().begin(regex_source("(.|\\n)*", "field").value());
  const Tokenizer& tokenizer = walker().tokenizer();
  EXPECT_FALSE(
      may_come(*constraint, *tokenizer.token_id("<|im_start|>"), tokenizer.vocab_tokens()));
  EXPECT_TRUE(walk(tokenizer, *constraint, "hello, wörld \n!").whole);
}

TEST(GrammarCompiler, RemembersWhatItCompiled) {
  const Walker fresh;
  EXPECT_FALSE(fresh.compile(schema(kPerson))->was_known);
  EXPECT_TRUE(fresh.compile(schema(kPerson))->was_known);
  EXPECT_FALSE(fresh.compile(schema(R"({"type": "string"})"))->was_known);
  for (int i = 0; i < 64; ++i) {
    fresh.compile(regex_source("a{" + std::to_string(i + 1) + "}", "field").value()).value();
  }
  EXPECT_FALSE(fresh.compile(schema(kPerson))->was_known);
}

TEST(GrammarCompiler, ManyThreadsShareOne) {
  const Walker fresh;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&fresh, i] {
      for (int k = 0; k < 3; ++k) {
        const std::string key = std::to_string(i % 2 + k);
        EXPECT_TRUE(fresh.accepts(schema(R"({"enum": [")" + key + R"("]})"), "\"" + key + "\""));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// A mask of one vocabulary means nothing in another.
TEST(GrammarCompiler, EachTokenizerHasItsOwn) {
  for (const std::string& family : golden::names()) {
    const Walker of_family(family);
    const Walked walked = of_family.walk(schema(kPerson), R"({"name": "Ada", "age": 36})");
    if (family == "qwen2" || family == "llama_bpe" || family == "deepseek_v3") {
      EXPECT_TRUE(walked.whole && walked.complete) << family << ": " << walked.taken;
    }
    const auto constraint = of_family.begin(schema(kPerson));
    EXPECT_FALSE(
        may_come(*constraint, *of_family.tokenizer().eos(), of_family.tokenizer().vocab_tokens()))
        << family;
  }
}

}  // namespace
}  // namespace pome::text
