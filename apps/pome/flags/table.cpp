#include <algorithm>
#include <map>

#include "base/check.h"
#include "pome/flags/flag.h"

namespace pome::apps {
namespace {

std::string canonical(std::string_view name) {
  while (name.starts_with('-')) {
    name.remove_prefix(1);
  }
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::map<std::string, size_t, std::less<>> index_of(const std::vector<Flag>& flags) {
  std::map<std::string, size_t, std::less<>> index;
  for (size_t i = 0; i < flags.size(); ++i) {
    for (const auto& name : flags[i].names) {
      CHECK(index.emplace(canonical(name), i).second, "a flag stands twice in the table");
    }
  }
  return index;
}

// Letters to insert, delete or replace (Levenshtein, 1966).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Flag::variable() const {
  std::string text = "POME_" + key();
  for (char& c : text) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

Flag flag(std::string group, std::vector<std::string> names, Kind kind, std::string placeholder,
          std::string fallback, std::string help, std::vector<std::string> choices) {
  return {.names = std::move(names),
          .group = std::move(group),
          .treatment = Treatment::honoured,
          .kind = kind,
          .fallback = std::move(fallback),
          .help = std::move(help),
          .choices = std::move(choices),
          .neutral = "",
          .placeholder = std::move(placeholder)};
}

const std::vector<Flag>& launch_flags() {
  static const std::vector<Flag> flags = [] {
    std::vector<Flag> all = honoured_flags();
    for (auto part : {meaningless_flags(), refused_flags()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return flags;
}

const Flag* find_flag(std::string_view name) {
  static const auto index = index_of(launch_flags());
  const auto found = index.find(canonical(name));
  return found == index.end() ? nullptr : &launch_flags()[found->second];
}

std::string nearest_flag(std::string_view name) {
  const std::string wanted = canonical(name);
  std::string best;
  size_t best_distance = std::max<size_t>(2, wanted.size() / 4) + 1;
  for (const auto& flag : launch_flags()) {
    for (const auto& spelling : flag.names) {
      const size_t d = distance(wanted, canonical(spelling));
      if (d < best_distance) {
        best_distance = d;
        best = spelling;
      }
    }
  }
  return best;
}

}  // namespace pome::apps
