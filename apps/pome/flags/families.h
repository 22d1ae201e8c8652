#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pome/flags/flag.h"

namespace pome::apps {

// Flags that share their treatment and reason. An entry is "--name", "--name,--alias", and in
// `values` also
// "--name=neutral" for a flag that is refused with any other value.
struct Family {
  std::string group;
  std::string reason;
  std::vector<std::string> toggles;
  std::vector<std::string> values;
  std::vector<std::string> lists = {};
};

inline std::vector<Flag> expand(Treatment treatment, const std::vector<Family>& families) {
  std::vector<Flag> flags;
  const auto add = [&](const Family& family, std::string entry, Kind kind) {
    Flag flag;
    if (const size_t mark = entry.find('='); mark != std::string::npos) {
      flag.neutral = entry.substr(mark + 1);
      entry.resize(mark);
    }
    for (size_t begin = 0; begin != std::string::npos;) {
      const size_t comma = entry.find(',', begin);
      flag.names.push_back(entry.substr(begin, comma - begin));
      begin = comma == std::string::npos ? comma : comma + 1;
    }
    flag.group = family.group;
    flag.treatment = treatment;
    flag.kind = kind;
    flag.help = family.reason;
    flags.push_back(std::move(flag));
  };
  for (const auto& family : families) {
    for (const auto& entry : family.toggles) {
      add(family, entry, Kind::toggle);
    }
    for (const auto& entry : family.values) {
      add(family, entry, Kind::text);
    }
    for (const auto& entry : family.lists) {
      add(family, entry, Kind::list);
    }
  }
  return flags;
}

}  // namespace pome::apps
