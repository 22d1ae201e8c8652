// docs/api-fields.md is written by this test (UPDATE=1) and held against the tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "protocol/anthropic/fields.h"
#include "protocol/native/fields.h"
#include "protocol/native/profile.h"
#include "protocol/ollama/fields.h"
#include "protocol/openai/fields.h"

namespace pome::protocol {
namespace {

std::string generated() {
  std::string out =
      "# Request fields\n\n"
      "Generated from the tables in `src/protocol/*/fields.cpp`; `UPDATE=1` and the test\n"
      "`pome_api_fields` rewrite it. An *honoured* field changes the answer as described. A "
      "*harmless\n"
      "hint* cannot change it: accepted, and named in the log at `--log-level debug`. A *refused* "
      "field\n"
      "would change it and is not supported: 400 with the field's name, unless its value asks for\n"
      "nothing (`null`, an empty list, the default). A field that stands in no table is refused as "
      "well,\n"
      "so that a typo is not mistaken for a setting.\n\n";
  for (const FieldTable* table : {&openai::chat_fields(),
                                  &openai::message_fields(),
                                  &openai::completion_fields(),
                                  &native::generate_fields(),
                                  &native::sampling_fields(),
                                  &native::tokenize_fields(),
                                  &native::detokenize_fields(),
                                  &native::parse_calls_fields(),
                                  &native::separate_reasoning_fields(),
                                  &native::abort_fields(),
                                  &native::profile_fields(),
                                  &anthropic::messages_fields(),
                                  &anthropic::message_fields(),
                                  &anthropic::block_fields(),
                                  &anthropic::tool_fields(),
                                  &anthropic::count_tokens_fields(),
                                  &ollama::chat_fields(),
                                  &ollama::message_fields(),
                                  &ollama::generate_fields(),
                                  &ollama::option_fields(),
                                  &ollama::show_fields()}) {
    out += fields_markdown(*table) + "\n";
  }
  out.pop_back();
  return out;
}

TEST(ApiFields, ThePageSaysWhatTheTablesSay) {
  const std::string path = std::string(POME_SOURCE_DIR) + "/docs/api-fields.md";
  if (std::getenv("UPDATE") != nullptr) {
    std::ofstream(path) << generated();
  }
  std::ifstream in(path);
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(page, generated()) << "run this test with UPDATE=1 in the environment";
}

}  // namespace
}  // namespace pome::protocol
