#include "pome/bench/load/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

namespace pome::apps {
namespace {

// Common words, one token each in most vocabularies.
constexpr std::array<const char*, 48> kWords = {
    "time",    "water",   "people",   "way",    "day",        "man",    "thing",   "woman",
    "life",    "child",   "world",    "school", "state",      "family", "student", "group",
    "country", "problem", "hand",     "part",   "place",      "case",   "week",    "company",
    "system",  "program", "question", "work",   "government", "number", "night",   "point",
    "home",    "room",    "mother",   "area",   "money",      "story",  "fact",    "month",
    "lot",     "right",   "study",    "book",   "eye",        "job",    "word",    "business"};
constexpr int kTrimsMax = 8;
constexpr size_t kLooksAtOnce = 64;
constexpr size_t kShareGptBytesMax = size_t{2} << 30;

std::string made_up_text(int32_t words, std::mt19937_64& random) {
  std::string text;
  for (int32_t i = 0; i < words; ++i) {
    text += i == 0 ? "" : " ";
    text += kWords[static_cast<size_t>(draw(random, 0, static_cast<int32_t>(kWords.size()) - 1))];
  }
  return text;
}

struct MadeText {
  std::string text;
  std::vector<Token> tokens;
};

// Texts that the tokenizer reads as so many tokens each. A text is cut in tokens and read again
// until it stays at its length, at most `trims` times; where a vocabulary never lets it, the
// nearest counts.
Result<std::vector<MadeText>> texts_of_lengths(const std::vector<int32_t>& lengths,
                                               bool add_special, const PromptTokens& tokens,
                                               int trims, std::mt19937_64& random) {
  std::vector<std::string> texts;
  for (const int32_t length : lengths) {
    texts.push_back(made_up_text(length, random));
  }
  auto ids = tokens.encode(texts, add_special);
  if (!ids) {
    return ids.error();
  }
  for (int trim = 0; trim < trims; ++trim) {
    std::vector<size_t> long_ones;
    std::vector<std::vector<Token>> cut;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto length = static_cast<size_t>(lengths[i]);
      if ((*ids)[i].size() > length) {
        long_ones.push_back(i);
        cut.emplace_back((*ids)[i].begin(), (*ids)[i].begin() + lengths[i]);
      }
    }
    if (long_ones.empty()) {
      break;
    }
    auto shorter = tokens.decode(cut);
    auto again = shorter ? tokens.encode(*shorter, add_special) : shorter.error();
    if (!again) {
      return again.error();
    }
    for (size_t k = 0; k < long_ones.size(); ++k) {
      texts[long_ones[k]] = std::move((*shorter)[k]);
      (*ids)[long_ones[k]] = std::move((*again)[k]);
    }
  }
  std::vector<MadeText> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    out.push_back({std::move(texts[i]), std::move((*ids)[i])});
  }
  return out;
}

DatasetRow row_of(MadeText made, int32_t output_tokens, bool as_tokens) {
  DatasetRow row{.prompt_tokens = static_cast<int32_t>(made.tokens.size()),
                 .output_tokens = output_tokens};
  if (as_tokens) {
    row.tokens = std::move(made.tokens);
  } else {
    row.text = std::move(made.text);
  }
  return row;
}

std::vector<int32_t> draw_lengths(int32_t count, int32_t longest, double ratio,
                                  std::mt19937_64& random) {
  const int32_t shortest = std::max(static_cast<int32_t>(std::floor(longest * ratio)), 1);
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < count; ++i) {
    lengths.push_back(draw(random, std::min(shortest, longest), longest));
  }
  return lengths;
}

Result<std::vector<DatasetRow>> random_rows(const DatasetOptions& options,
                                            const PromptTokens& tokens, std::mt19937_64& random) {
  const auto inputs = draw_lengths(options.prompts, options.random_input_tokens,
                                   options.random_range_ratio, random);
  const auto outputs = draw_lengths(options.prompts, options.random_output_tokens,
                                    options.random_range_ratio, random);
  std::vector<DatasetRow> rows;
  if (options.name == "random-ids") {
    // Control tokens mostly stand at the end of a vocabulary.
    const int32_t last = std::max(tokens.vocab_tokens() / 10 * 9, 2) - 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      DatasetRow& row = rows.emplace_back();
      row.prompt_tokens = inputs[i];
      row.output_tokens = outputs[i];
      for (int32_t k = 0; k < inputs[i]; ++k) {
        row.tokens.push_back(draw(random, 0, last));
      }
    }
    return rows;
  }
  auto texts = texts_of_lengths(inputs, true, tokens, options.as_tokens ? 0 : kTrimsMax, random);
  if (!texts) {
    return texts.error();
  }
  for (size_t i = 0; i < texts->size(); ++i) {
    MadeText& made = (*texts)[i];
    if (options.as_tokens) {
      made.tokens.resize(std::min(made.tokens.size(), static_cast<size_t>(inputs[i])));
    }
    rows.push_back(row_of(std::move(made), outputs[i], options.as_tokens));
  }
  return rows;
}

// Rows of joined texts: what their parts count apart may differ from what they count together.
Result<std::vector<DatasetRow>> counted(std::vector<DatasetRow> rows, bool as_tokens,
                                        const PromptTokens& tokens) {
  std::vector<std::string> texts;
  for (const DatasetRow& row : rows) {
    texts.push_back(row.text);
  }
  auto ids = tokens.encode(texts, true);
  if (!ids) {
    return ids.error();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].prompt_tokens = static_cast<int32_t>((*ids)[i].size());
    if (as_tokens) {
      rows[i].tokens = std::move((*ids)[i]);
      rows[i].text.clear();
    }
  }
  return rows;
}

Result<std::vector<DatasetRow>> group_rows(const DatasetOptions& options,
                                           const PromptTokens& tokens, std::mt19937_64& random) {
  const auto count =
      static_cast<size_t>(options.groups) * static_cast<size_t>(options.prompts_per_group);
  const auto systems = texts_of_lengths(
      std::vector<int32_t>(static_cast<size_t>(options.groups), options.system_prompt_tokens),
      false, tokens, kTrimsMax, random);
  const auto questions = texts_of_lengths(std::vector<int32_t>(count, options.question_tokens),
                                          false, tokens, kTrimsMax, random);
  if (!systems || !questions) {
    return systems ? questions.error() : systems.error();
  }
  std::vector<DatasetRow> rows;
  for (size_t i = 0; i < count; ++i) {
    const std::string& system = (*systems)[i / static_cast<size_t>(options.prompts_per_group)].text;
    rows.push_back({.text = system + "\n\n" + (*questions)[i].text + options.suffix,
                    .output_tokens = options.group_output_tokens,
                    .shared_prefix = system});
  }
  if (!options.groups_in_order) {
    for (size_t i = rows.size(); i > 1; --i) {
      std::swap(rows[i - 1],
                rows[static_cast<size_t>(draw(random, 0, static_cast<int32_t>(i) - 1))]);
    }
  }
  return counted(std::move(rows), options.as_tokens, tokens);
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return invalid(fmt::format("--dataset-path: cannot read '{}'", path.string()), "dataset-path");
  }
  return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The rows of some exchanges, without what is too short to say anything or too long for the
// context.
Status add_sharegpt_rows(const DatasetOptions& options, const PromptTokens& tokens,
                         std::vector<Exchange> exchanges, std::vector<DatasetRow>& rows) {
  std::vector<std::string> questions, answers;
  for (const Exchange& exchange : exchanges) {
    questions.push_back(exchange.question + options.suffix);
    answers.push_back(exchange.answer);
  }
  auto asked = tokens.encode(questions, true);
  const auto said = tokens.encode(answers, false);
  if (!asked || !said) {
    return asked ? said.error() : asked.error();
  }
  for (size_t i = 0; i < exchanges.size(); ++i) {
    MadeText made{std::move(questions[i]), std::move((*asked)[i])};
    const auto input = static_cast<int32_t>(made.tokens.size());
    const int32_t output =
        options.sharegpt_output_tokens.value_or(static_cast<int32_t>((*said)[i].size()));
    const bool too_long =
        options.sharegpt_context_tokens && input + output > *options.sharegpt_context_tokens;
    if (input >= 2 && output >= 2 && !too_long &&
        rows.size() < static_cast<size_t>(options.prompts)) {
      rows.push_back(row_of(std::move(made), output, options.as_tokens));
    }
  }
  return {};
}

Result<std::vector<DatasetRow>> sharegpt_rows(const DatasetOptions& options,
                                              const PromptTokens& tokens, std::mt19937_64& random) {
  const auto text = read_file(options.path);
  if (!text) {
    return text.error();
  }
  auto exchanges = parse_sharegpt(*text);
  if (!exchanges) {
    return invalid(
        fmt::format("--dataset-path {}: {}", options.path.string(), exchanges.error().message),
        "dataset-path");
  }
  for (size_t i = exchanges->size(); i > 1; --i) {
    std::swap((*exchanges)[i - 1],
              (*exchanges)[static_cast<size_t>(draw(random, 0, static_cast<int32_t>(i) - 1))]);
  }
  std::vector<DatasetRow> rows;
  for (size_t begin = 0;
       begin < exchanges->size() && rows.size() < static_cast<size_t>(options.prompts);
       begin += kLooksAtOnce) {
    const auto first = exchanges->begin() + static_cast<long>(begin);
    const auto last =
        exchanges->begin() + static_cast<long>(std::min(begin + kLooksAtOnce, exchanges->size()));
    POME_TRY(add_sharegpt_rows(
        options, tokens, {std::make_move_iterator(first), std::make_move_iterator(last)}, rows));
  }
  return rows;
}

std::string value_of(const json::value& turn) {
  const json::object* object = turn.if_object();
  return object == nullptr ? "" : find_string(*object, "value").value_or("");
}

}  // namespace

int32_t draw(std::mt19937_64& random, int32_t lowest, int32_t highest) {
  const uint64_t span = static_cast<uint64_t>(int64_t{highest} - lowest) + 1;
  return static_cast<int32_t>(lowest + static_cast<int64_t>(random() % span));
}

double draw_gap(std::mt19937_64& random, double per_second) {
  const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;  // in (0, 1)
  return -std::log(uniform) / per_second;
}

Result<std::vector<Exchange>> parse_sharegpt(std::string_view text) {
  const auto parsed = parse_json(text, {.bytes_max = kShareGptBytesMax});
  if (!parsed || !parsed->is_array()) {
    return invalid(parsed ? std::string("expected a list of conversations")
                          : parsed.error().message);
  }
  std::vector<Exchange> out;
  for (const json::value& entry : parsed->get_array()) {
    const json::object* object = entry.if_object();
    const json::array* turns = object ? find_array(*object, "conversations") : nullptr;
    if (object != nullptr && turns == nullptr) {
      turns = find_array(*object, "conversation");
    }
    if (turns != nullptr && turns->size() >= 2) {
      out.push_back({value_of(turns->at(0)), value_of(turns->at(1))});
    }
  }
  if (out.empty()) {
    return invalid("no conversation has two turns");
  }
  return out;
}

Result<std::vector<DatasetRow>> make_dataset(const DatasetOptions& options,
                                             const PromptTokens& tokens) {
  std::mt19937_64 random(options.seed);
  Result<std::vector<DatasetRow>> rows =
      options.name == "sharegpt"                  ? sharegpt_rows(options, tokens, random)
      : options.name == "generated-shared-prefix" ? group_rows(options, tokens, random)
                                                  : random_rows(options, tokens, random);
  if (rows && rows->empty()) {
    return invalid(
        fmt::format("--dataset-name {}: no prompt is left after its limits", options.name));
  }
  return rows;
}

}  // namespace pome::apps
