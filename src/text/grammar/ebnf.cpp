#include "text/grammar/ebnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "text/grammar/grammar_source.h"

namespace pome::text {
namespace {

// A rule in Lark's words; a reference stands as a byte that no text has, and the rule's number.
constexpr char kReference = '\xff';

struct Rule {
  std::string name = {};
  std::string body = {};
  std::vector<size_t> references = {};
  bool defined = false;
  bool terminal = false;  // without recursion: one regular expression, however it is cut
};

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += {static_cast<char>(0xc0 | (c >> 6)), tail(c)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xe0 | (c >> 12)), tail(c >> 6), tail(c)};
  } else {
    out += {static_cast<char>(0xf0 | (c >> 18)), tail(c >> 12), tail(c >> 6), tail(c)};
  }
}

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// Reads the rules, recursing into parentheses only.
class EbnfReader {
 public:
  explicit EbnfReader(std::string_view text) : text_(text) {}

  Result<std::vector<Rule>> read() {
    while (skip_space(), at_ < text_.size()) {
      const std::string name = take_name();
      if (name.empty() || !take("::=")) {
        return failed("expected a rule, \"name ::= …\"");
      }
      const size_t index = index_of(name);
      if (rules_[index].defined) {
        return failed(fmt::format("the rule {} stands twice", name));
      }
      rule_ = index;
      rules_[index].defined = true;
      Result<std::string> body = read_choices(0);
      if (!body) {
        return body.error();
      }
      rules_[index].body = std::move(*body);
    }
    for (const Rule& rule : rules_) {
      if (!rule.defined) {
        return Error{
            ErrorCode::invalid_argument, fmt::format("no rule is named {}", rule.name), {}};
      }
    }
    return std::move(rules_);
  }

 private:
  Error failed(std::string_view what) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return {ErrorCode::invalid_argument, fmt::format("line {}: {}", line + 1, what), {}};
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool take(std::string_view what) {
    skip_space();
    if (!text_.substr(at_).starts_with(what)) {
      return false;
    }
    at_ += what.size();
    return true;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string take_name() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  size_t index_of(const std::string& name) {
    const auto [found, is_new] = indices_.emplace(name, rules_.size());
    if (is_new) {
      rules_.push_back({.name = name});
    }
    return found->second;
  }

  bool next_is_rule() {
    const size_t begin = at_;
    const bool is_rule = !take_name().empty() && take("::=");
    at_ = begin;
    return is_rule;
  }

  Result<std::string> read_choices(int depth) {
    std::string out;
    do {
      Result<std::string> choice = read_sequence(depth);
      if (!choice) {
        return choice;
      }
      out += (out.empty() ? "" : " | ") + *choice;
    } while (take("|"));
    return out;
  }

  Result<std::string> read_sequence(int depth) {
    std::string out;
    while (skip_space(), at_ < text_.size() && peek() != '|' && peek() != ')' && !next_is_rule()) {
      Result<std::string> item = read_item(depth);
      if (!item) {
        return item;
      }
      Result<std::string> times = read_times();
      if (!times) {
        return times;
      }
      out += (out.empty() ? "" : " ") + *item + *times;
    }
    return out.empty() ? std::string("\"\"") : out;
  }

  Result<std::string> read_item(int depth) {
    if (peek() == '"') {
      return read_literal();
    }
    if (peek() == '[') {
      return read_class();
    }
    if (take("(")) {
      if (depth >= kGrammarDepthMax) {
        return failed(
            fmt::format("expected parentheses at most {} deep in each other", kGrammarDepthMax));
      }
      if (peek() == '=') {
        return failed("looking ahead, (=…), is not supported");
      }
      Result<std::string> inner = read_choices(depth + 1);
      if (inner && !take(")")) {
        return failed("expected )");
      }
      return inner ? Result<std::string>("(" + *inner + ")") : inner;
    }
    if (peek() == '.') {
      ++at_;
      return std::string("/(?s:.)/");
    }
    const std::string name = take_name();
    if (name.empty()) {
      return failed("expected a literal, a class, a group or a rule's name");
    }
    const size_t index = index_of(name);
    rules_[rule_].references.push_back(index);
    return fmt::format("{}{}{}", kReference, index, kReference);
  }

  Result<std::string> read_times() {
    const char c = peek();
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      return std::string(1, c);
    }
    if (c != '{') {
      return std::string();
    }
    ++at_;
    const std::optional<int> least = take_number();
    const bool range = take(",");
    const std::optional<int> most = range ? take_number() : least;
    if (!take("}") || (!least && !most) || (least && most && *least > *most)) {
      return failed("expected {count}, {least,}, {,most} or {least,most}");
    }
    return most ? fmt::format("{{{},{}}}", least.value_or(0), *most)
                : fmt::format("{{{},}}", *least);
  }

  std::optional<int> take_number() {
    skip_space();
    int number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc() || number < 0) {
      return std::nullopt;
    }
    at_ += static_cast<size_t>(end - begin);
    return number;
  }

  Result<std::string> read_literal() {
    std::string literal;
    for (++at_; peek() != '"';) {
      const std::optional<char32_t> next = take_character();
      if (!next) {
        return failed("a literal does not end, or holds an escape that is not known");
      }
      append_utf8(literal, *next);
    }
    ++at_;
    return lark_string(literal);
  }

  Result<std::string> read_class() {
    std::string out = "/[";
    ++at_;
    if (peek() == '^') {
      ++at_;
      out += '^';
    }
    const size_t begin = at_;
    while (peek() != ']') {
      const std::optional<char32_t> first = take_character();
      std::optional<char32_t> last = first;
      if (first && peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = take_character();
      }
      if (!first || !last || *last < *first) {
        return failed("a class does not end, or holds what is not known");
      }
      out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(*first));
      if (*last != *first) {
        out += fmt::format("-\\x{{{:x}}}", static_cast<uint32_t>(*last));
      }
    }
    if (at_ == begin) {
      return failed("a class is empty");
    }
    ++at_;
    return out + "]/";
  }

  // One code point, or an escape of one.
  std::optional<char32_t> take_character() {
    if (at_ >= text_.size() || text_[at_] == '\n') {
      return std::nullopt;
    }
    if (text_[at_] != '\\') {
      return take_code_point();
    }
    ++at_;
    const char c = peek();
    if (c == '\0') {
      return std::nullopt;
    }
    ++at_;
    switch (c) {
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 't':
        return U'\t';
      case 'x':
        return take_hex(2);
      case 'u':
        return take_hex(4);
      case 'U':
        return take_hex(8);
      default:  // what has a meaning of its own: \" \\ \] \- \^
        return std::ispunct(static_cast<unsigned char>(c)) != 0
                   ? std::optional(static_cast<char32_t>(c))
                   : std::nullopt;
    }
  }

  // The text is UTF-8.
  char32_t take_code_point() {
    const auto lead = static_cast<unsigned char>(text_[at_++]);
    const size_t bytes = character_bytes(lead);
    char32_t code = bytes == 1 ? lead : lead & (0x7fU >> bytes);
    for (size_t i = 1; i < bytes; ++i) {
      code = (code << 6) | (static_cast<unsigned char>(text_[at_++]) & 0x3fU);
    }
    return code;
  }

  std::optional<char32_t> take_hex(size_t digits) {
    uint32_t code = 0;
    const std::string_view shown = text_.substr(std::min(at_, text_.size()), digits);
    const auto [end, error] = std::from_chars(shown.data(), shown.data() + shown.size(), code, 16);
    if (shown.size() != digits || error != std::errc() || end != shown.data() + shown.size() ||
        code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      return std::nullopt;
    }
    at_ += digits;
    return static_cast<char32_t>(code);
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t rule_ = 0;  // the one that is read
  std::vector<Rule> rules_;
  std::map<std::string, size_t> indices_;
};

// A rule that reaches itself is none; all others are, from the leaves up.
void find_terminals(std::vector<Rule>& rules) {
  bool found = true;
  while (found) {
    found = false;
    for (Rule& rule : rules) {
      if (!rule.terminal &&
          std::all_of(rule.references.begin(), rule.references.end(),
                      [&](size_t reference) { return rules[reference].terminal; })) {
        rule.terminal = true;
        found = true;
      }
    }
  }
}

// Lark tells terminals from rules by their letters.
std::string lark_name(const std::vector<Rule>& rules, size_t index) {
  return fmt::format("{}{}", rules[index].terminal ? 'T' : 'r', index);
}

std::string with_names(const std::vector<Rule>& rules, std::string_view body) {
  std::string out;
  while (!body.empty()) {
    const size_t begin = std::min(body.find(kReference), body.size());
    out += body.substr(0, begin);
    body.remove_prefix(begin);
    if (body.empty()) {
      break;
    }
    size_t index = 0;
    std::from_chars(body.data() + 1, body.data() + body.size(), index);
    out += lark_name(rules, index);
    body.remove_prefix(body.find(kReference, 1) + 1);
  }
  return out;
}

}  // namespace

Result<std::string> lark_of_ebnf(std::string_view text) {
  if (first_invalid_byte(text)) {
    return Error{ErrorCode::invalid_argument, "expected UTF-8", {}};
  }
  Result<std::vector<Rule>> read = EbnfReader(text).read();
  if (!read) {
    return read.error();
  }
  std::vector<Rule>& rules = *read;
  find_terminals(rules);
  const auto root = std::find_if(rules.begin(), rules.end(),
                                 [](const Rule& rule) { return rule.name == "root"; });
  if (root == rules.end()) {
    return Error{ErrorCode::invalid_argument, "no rule is named root", {}};
  }
  std::string out =
      fmt::format("start: {}\n", lark_name(rules, static_cast<size_t>(root - rules.begin())));
  for (size_t i = 0; i < rules.size(); ++i) {
    out += fmt::format("{}: {}\n", lark_name(rules, i), with_names(rules, rules[i].body));
  }
  return out;
}

}  // namespace pome::text
