#pragma once

#include <atomic>

#include "base/result.h"
#include "hub/pull.h"

namespace pome::apps {

// Pulls with a progress bar on standard error until `stop` is set; what has arrived by then is
// kept.
Result<hub::LocalModel> pull_with_progress(const hub::Settings& settings,
                                           const hub::PullRequest& request,
                                           const std::atomic<bool>& stop);

// The model that --model-path names: what is here is taken as it is, without asking the network;
// the rest is pulled.
Result<hub::LocalModel> find_or_pull(const hub::Settings& settings, const hub::PullRequest& request,
                                     const std::atomic<bool>& stop);

}  // namespace pome::apps
