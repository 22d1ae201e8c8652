#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/api.h"
#include "pome/flags/settings.h"

namespace pome::apps {

// Starts the engine of a model on disk; it loads on its own thread. A build without MLX refuses.
Result<std::unique_ptr<engine::Engine>> start_engine(const Settings& settings,
                                                     const std::string& path,
                                                     const std::string& served_name);

}  // namespace pome::apps
