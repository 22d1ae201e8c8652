#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/utf8.h"
#include "case_file.h"
#include "scripted_server.h"

// The case files of tests/dialects, said by a server.
namespace pome::test {

inline text::AnswerForms forms(std::string_view calls, std::string_view reasoning) {
  return text::choose_answer_forms(calls, reasoning, "").value();
}

// As OpenAI's chats declare them.
inline json::array declared_tools() {
  std::ifstream in(std::filesystem::path(POME_DIALECTS) / "tools" / "tools.json");
  return parse_json(std::string{std::istreambuf_iterator<char>(in), {}})->as_array();
}

inline bool can_be_said(const DialectCase& one) {
  return !one.output.empty() && valid_utf8(one.output) == one.output;
}

// body(server, case, its place) for every output with calls, of a server that says it.
template <class Body>
void for_each_case_of_calls(Body body) {
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "tools", 12)) {
    std::string name = file.path.stem().string();
    std::replace(name.begin(), name.end(), '_', name == "gpt_oss" ? '-' : '_');
    ScriptedServer scripted(forms(name, "none"));
    int said = 0;
    for (const DialectCase& one : file.cases) {
      if (can_be_said(one)) {
        ++said;
        scripted.says(one.output);
        body(scripted.server(), one, file.path.string() + one.title);
      }
    }
    EXPECT_GE(said, 15) << file.path;
  }
}

// body(server, content of the message, case, its place) for every output with reasoning.
template <class Body>
void for_each_case_of_reasoning(Body body) {
  for (CaseFile& file : read_case_files(std::filesystem::path(POME_DIALECTS) / "reasoning", 7)) {
    const text::AnswerForms style = forms("none", file.path.stem().string());
    ScriptedServer scripted(style);
    for (const DialectCase& one : file.cases) {
      if (can_be_said(one)) {
        // The template is the message's content: what the prompt ends with opens or closes.
        const std::string_view close =
            style.reasoning->begins_inside ? style.reasoning->close : "x";
        scripted.says(one.output);
        body(scripted.server(), one.inside ? style.reasoning->open : close, one,
             file.path.string() + one.title);
      }
    }
  }
}

}  // namespace pome::test
