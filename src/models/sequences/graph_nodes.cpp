#include "models/sequences/graph_nodes.h"

#include <mlx/primitives.h>

#include <algorithm>
#include <map>
#include <unordered_set>

namespace pome::models {

GraphNodes count_nodes(const std::vector<mx::array>& outputs) {
  std::unordered_set<const mx::Primitive*> seen;
  std::map<std::string, int64_t> names;
  std::vector<mx::array> open(outputs);
  while (!open.empty()) {
    const mx::array node = open.back();
    open.pop_back();
    if (!node.has_primitive() || !seen.insert(&node.primitive()).second) {
      continue;
    }
    ++names[node.primitive().name()];
    open.insert(open.end(), node.inputs().begin(), node.inputs().end());
  }
  GraphNodes nodes;
  nodes.total = static_cast<int64_t>(seen.size());
  nodes.by_name.assign(names.begin(), names.end());
  std::stable_sort(nodes.by_name.begin(), nodes.by_name.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return nodes;
}

}  // namespace pome::models
