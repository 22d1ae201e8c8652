#include "text/grammar/after_reasoning.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pome::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kSpaceBytesMax = 4;

bool is_all_space(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

std::string_view without_space_after(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

void set(std::span<uint32_t> words, Token token, bool allowed) {
  const auto bit = static_cast<size_t>(token);
  if (bit / 32 >= words.size()) {
    return;
  }
  const uint32_t mask = uint32_t{1} << (bit % 32);
  words[bit / 32] = allowed ? words[bit / 32] | mask : words[bit / 32] & ~mask;
}

bool is_set(std::span<const uint32_t> words, Token token) {
  const auto bit = static_cast<size_t>(token);
  return bit / 32 < words.size() && (words[bit / 32] >> (bit % 32) & 1) != 0;
}

class AfterReasoning final : public sampling::Constraint {
 public:
  AfterReasoning(std::shared_ptr<const ReasoningTokens> tokens, ReasoningStart start,
                 std::unique_ptr<sampling::Constraint> answer)
      : tokens_(std::move(tokens)), answer_(std::move(answer)), stage_(stage_of(start)) {}

  Status allow(std::span<uint32_t> words) override {
    switch (stage_) {
      case Stage::may_open:
        POME_TRY(answer_->allow(words));
        at_first_.assign(words.begin(), words.end());
        return add(tokens_->opening(0), words);
      case Stage::opening:
        std::fill(words.begin(), words.end(), 0);
        return add(tokens_->opening(said_.size()), words);
      case Stage::thinking:
        allow_thought(words);
        return {};
      case Stage::space:
        POME_TRY(answer_->allow(words));
        return add(tokens_->spaces(), words);
      case Stage::answer:
        break;
    }
    return answer_->allow(words);
  }

  Status accept(Token token) override {
    switch (stage_) {
      case Stage::may_open:
        if (!begins_thought(token)) {
          stage_ = Stage::answer;
          return answer_->accept(token);
        }
        [[fallthrough]];
      case Stage::opening:
        open(token);
        return {};
      case Stage::thinking:
        think(token);
        return {};
      case Stage::space:
        stage_ = Stage::answer;
        if (tokens_->is_space(token)) {
          return {};
        }
        break;
      case Stage::answer:
        break;
    }
    return answer_->accept(token);
  }

  bool complete() const override { return stage_ == Stage::answer && answer_->complete(); }

 private:
  enum class Stage { may_open, opening, thinking, space, answer };

  static Stage stage_of(ReasoningStart start) {
    switch (start) {
      case ReasoningStart::inside:
        return Stage::thinking;
      case ReasoningStart::may_open:
        return Stage::may_open;
      case ReasoningStart::none:
        break;
    }
    return Stage::answer;
  }

  static Status add(const std::vector<Token>& tokens, std::span<uint32_t> words) {
    for (const Token token : tokens) {
      set(words, token, true);
    }
    return {};
  }

  void allow_thought(std::span<uint32_t> words) const {
    std::fill(words.begin(), words.end(), ~uint32_t{0});
    const auto vocabulary = static_cast<size_t>(tokens_->tokenizer().vocab_tokens());
    for (size_t bit = vocabulary; bit < words.size() * 32; ++bit) {
      set(words, static_cast<Token>(bit), false);
    }
    for (const Token token : tokens_->eos()) {
      set(words, token, false);
    }
    for (const Token token : tokens_->forbidden(said_)) {
      set(words, token, false);
    }
  }

  // A token that is the mark opens; one that only begins it does where the answer cannot say it.
  bool begins_thought(Token token) const {
    const std::vector<Token>& opening = tokens_->opening(0);
    return std::find(opening.begin(), opening.end(), token) != opening.end() &&
           (tokens_->bytes(token) == tokens_->open() || !is_set(at_first_, token));
  }

  void open(Token token) {
    said_ += tokens_->bytes(token);
    stage_ = Stage::opening;
    if (said_.size() >= tokens_->open().size()) {
      said_.clear();
      stage_ = Stage::thinking;
    }
  }

  void think(Token token) {
    said_ += tokens_->bytes(token);
    if (said_.find(tokens_->close()) != std::string::npos) {
      stage_ = Stage::space;
      said_.clear();
    } else if (said_.size() > tokens_->tail_bytes()) {
      said_.erase(0, said_.size() - tokens_->tail_bytes());
    }
  }

  const std::shared_ptr<const ReasoningTokens> tokens_;
  const std::unique_ptr<sampling::Constraint> answer_;
  Stage stage_;
  std::string said_;  // of the mark that opens, or the thought's end
  std::vector<uint32_t> at_first_;
};

}  // namespace

ReasoningStart reasoning_start(const ReasoningStyle& style, std::string_view prompt) {
  if (begins_inside(style, prompt)) {
    return ReasoningStart::inside;
  }
  return without_space_after(prompt).ends_with(style.close) ? ReasoningStart::none
                                                            : ReasoningStart::may_open;
}

ReasoningTokens::ReasoningTokens(const Tokenizer& tokenizer, const ReasoningStyle& style,
                                 std::vector<Token> eos)
    : tokenizer_(tokenizer),
      open_(style.open),
      close_(style.close),
      interrupt_(style.interrupt),
      eos_(std::move(eos)),
      opening_(open_.size()),
      overrunning_(close_.size()),
      interrupting_(interrupt_.size()) {
  CHECK(!open_.empty() && !close_.empty(), "a thought stands between marks");
  for (Token token = 0; token < tokenizer_.vocab_tokens(); ++token) {
    read(token);
  }
}

std::string ReasoningTokens::bytes(Token token) const {
  return tokenizer_.is_special(token) ? tokenizer_.piece(token).value_or("")
                                      : tokenizer_.piece_bytes(token).bytes;
}

void ReasoningTokens::read(Token token) {
  const std::string text = bytes(token);
  if (text.empty()) {
    return;
  }
  if (text.size() <= kSpaceBytesMax && is_all_space(text)) {
    spaces_.push_back(token);
  }
  for (size_t said = 0; said < open_.size(); ++said) {
    if (std::string_view(open_).substr(said).starts_with(text)) {
      opening_[said].push_back(token);
    }
  }
  const std::string_view whole = text;
  for (size_t said = 0; said < close_.size(); ++said) {
    const std::string_view rest = std::string_view(close_).substr(said);
    const size_t at = said == 0 ? whole.find(rest) : whole.starts_with(rest) ? 0 : whole.npos;
    if (at != whole.npos && !is_all_space(whole.substr(at + rest.size()))) {
      overrunning_[said].push_back(token);
    }
  }
  for (size_t said = 0; said < interrupt_.size(); ++said) {
    const std::string_view rest = std::string_view(interrupt_).substr(said);
    if (said == 0 ? whole.find(rest) != whole.npos : whole.starts_with(rest)) {
      interrupting_[said].push_back(token);
    }
  }
}

std::vector<Token> ReasoningTokens::forbidden(std::string_view thought) const {
  std::vector<Token> out;
  const auto add = [&](std::string_view mark, const ByBytesSaid& tokens) {
    for (size_t said = 0; said < mark.size(); ++said) {
      if (thought.ends_with(mark.substr(0, said))) {
        out.insert(out.end(), tokens[said].begin(), tokens[said].end());
      }
    }
  };
  add(close_, overrunning_);
  add(interrupt_, interrupting_);
  return out;
}

bool ReasoningTokens::is_space(Token token) const {
  return std::binary_search(spaces_.begin(), spaces_.end(), token);
}

std::unique_ptr<sampling::Constraint> after_reasoning(
    std::shared_ptr<const ReasoningTokens> tokens, ReasoningStart start,
    std::unique_ptr<sampling::Constraint> answer) {
  return std::make_unique<AfterReasoning>(std::move(tokens), start, std::move(answer));
}

}  // namespace pome::text
