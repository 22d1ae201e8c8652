#include "pome/model/find_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "pome/host/progress_bar.h"

namespace pome::apps {

Result<hub::LocalModel> pull_with_progress(const hub::Settings& settings,
                                           const hub::PullRequest& request,
                                           const std::atomic<bool>& stop) {
  ProgressBar bar;
  hub::Settings stoppable = settings;
  stoppable.stop = &stop;
  auto model = hub::pull(stoppable, request, [&](const hub::Progress& progress) {
    bar.show(progress);
    return !stop.load();
  });
  if (!model && model.error().code == ErrorCode::cancelled) {
    return Error{ErrorCode::cancelled,
                 "stopped; what has arrived is kept, and the same command goes on from there", ""};
  }
  return model;
}

Result<hub::LocalModel> find_or_pull(const hub::Settings& settings, const hub::PullRequest& request,
                                     const std::atomic<bool>& stop) {
  if (auto local = hub::find_local(settings, request)) {
    return *local;
  }
  std::error_code error;
  if (std::filesystem::exists(request.model, error)) {
    return invalid(fmt::format("{} is neither a folder nor a .gguf file", request.model),
                   "model-path");
  }
  return pull_with_progress(settings, request, stop);
}

}  // namespace pome::apps
