#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tensor/weights.h"

// A multimodal folder ("text_config" in config.json) keeps its language model under a module of its
// own, beside towers that text does not need.
namespace pome::models {

// A language model's tensor names to the folder's: "model.norm.weight" to
// "language_model.model.norm.weight" or to "model.language_model.norm.weight", whichever the folder
// has. Nothing where the names are the same.
std::function<std::string(std::string_view)> text_part_names(const tensor::Checkpoint& checkpoint);

// Accounts for the tensors of a multimodal folder's other modules ("vision_tower"; with or without
// "model." before them), which are not loaded, in one log line. Their bytes; 0 in other
// checkpoints.
int64_t skip_other_parts(const tensor::Weights& w, std::initializer_list<std::string_view> modules);

}  // namespace pome::models
