#include "hub/pull.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hub/catalog.h"
#include "hub/hf_api.h"
#include "hub/hf_cache.h"
#include "hub/pypi.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;

// Links are followed, so a snapshot counts what its blobs weigh.
int64_t bytes_under(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return static_cast<int64_t>(fs::file_size(path, error));
  }
  int64_t bytes = 0;
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (fs::is_regular_file(it->path(), ignored)) {
      const auto size = fs::file_size(it->path(), ignored);
      bytes += ignored ? 0 : static_cast<int64_t>(size);
    }
  }
  return bytes;
}

std::optional<LocalModel> find_in_snapshot(const fs::path& snapshot, const RepoName& name,
                                           const std::string& shown) {
  if (!fs::is_directory(snapshot)) {
    return std::nullopt;
  }
  if (!name.file.empty()) {
    const fs::path file = snapshot / name.file;
    return fs::is_regular_file(file) ? std::optional(LocalModel{shown, file, bytes_under(file)})
                                     : std::nullopt;
  }
  if (name.variant.empty() && missing_parts(snapshot).empty()) {
    return LocalModel{shown, snapshot, bytes_under(snapshot)};
  }
  if (auto chosen = choose_gguf(gguf_files(snapshot), name.variant)) {
    return LocalModel{shown, snapshot / *chosen, bytes_under(snapshot / *chosen)};
  }
  return std::nullopt;
}

fs::path catalog_folder(const Settings& settings, const CatalogModel& model) {
  return settings.pome_cache / model.name;
}

std::optional<LocalModel> find_catalog_model(const Settings& settings, const CatalogModel& model) {
  const fs::path file = catalog_folder(settings, model) / model.file;
  std::error_code error;
  if (fs::is_regular_file(file, error) &&
      static_cast<int64_t>(fs::file_size(file, error)) == model.bytes) {
    return LocalModel{model.name, file, model.bytes};
  }
  return std::nullopt;
}

Error not_here(const Settings& settings, const std::string& model) {
  return {ErrorCode::not_found,
          fmt::format("{} is not in {} and HF_HUB_OFFLINE is set: pull it once with the network on",
                      model, settings.hf_cache.string()),
          ""};
}

Error unknown(const std::string& model) {
  std::vector<std::string> names;
  for (const auto& entry : catalog()) {
    names.push_back(entry.name);
  }
  return invalid(
      fmt::format("'{}' is no folder or .gguf file here, no short name ({}) and no Hugging Face id "
                  "(organisation/name)",
                  model, fmt::join(names, ", ")),
      "model-path");
}

Status fetch_files(const Settings& settings, const HfCache& cache, const std::string& id,
                   const RepoListing& listing, const std::vector<RepoFile>& files,
                   const OnProgress& on_progress) {
  int64_t total = 0;
  int64_t missing = 0;
  for (const auto& file : files) {
    total += file.bytes;
    missing += std::max<int64_t>(0, file.bytes - bytes_arrived(cache.blob(id, file.etag())));
  }
  POME_TRY(check_free_space(cache.root(), missing));
  int64_t before = 0;
  for (const auto& file : files) {
    RemoteFile remote{file.path,   file_url(settings, id, listing.commit, file.path),
                      {},          file.bytes,
                      file.sha256, file.git_sha1};
    if (!settings.hf_token.empty()) {
      remote.headers["Authorization"] = "Bearer " + settings.hf_token;
    }
    const auto arrived = [&](Stage stage, int64_t bytes) {
      return !on_progress || on_progress({stage, file.path, before + bytes, total});
    };
    POME_TRY(download_file(settings, remote, cache.blob(id, file.etag()), arrived));
    POME_TRY(cache.link(id, listing.commit, file.path, file.etag()));
    before += file.bytes;
  }
  return {};
}

Result<LocalModel> pull_from_hub(const Settings& settings, const RepoName& name,
                                 const PullRequest& request, const OnProgress& on_progress) {
  if (!is_safe_relative_path(request.revision)) {
    return invalid(fmt::format("'{}' is no revision", request.revision), "revision");
  }
  if (on_progress && !on_progress({Stage::resolving, name.id, 0, 0})) {
    return Error{ErrorCode::cancelled, "stopped", ""};
  }
  auto listing = list_repo(settings, name.id, request.revision);
  if (!listing) {
    return listing.error();
  }
  auto files = needed_files(listing.value(), name.id, name.variant, name.file);
  if (!files) {
    return files.error();
  }
  const HfCache cache(settings.hf_cache);
  POME_TRY(fetch_files(settings, cache, name.id, listing.value(), files.value(), on_progress));
  if (request.revision != listing->commit) {
    POME_TRY(cache.write_ref(name.id, request.revision, listing->commit));
  }
  const fs::path snapshot = cache.snapshot(name.id, listing->commit);
  if (auto found = find_in_snapshot(snapshot, name, request.model)) {
    return *found;
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("{} was fetched but is not a model that can be loaded; missing: {}",
                           name.id, fmt::join(missing_parts(snapshot), ", ")),
               ""};
}

}  // namespace

std::optional<LocalModel> find_local(const Settings& settings, const PullRequest& request) {
  std::error_code error;
  const fs::path path(request.model);
  if (fs::is_directory(path, error) ||
      (path.extension() == ".gguf" && fs::is_regular_file(path, error))) {
    return LocalModel{request.model, path, bytes_under(path)};
  }
  if (const CatalogModel* model = find_in_catalog(request.model)) {
    return find_catalog_model(settings, *model);
  }
  if (auto name = parse_repo_name(request.model)) {
    const HfCache cache(settings.hf_cache);
    if (auto commit = cache.commit(name->id, request.revision)) {
      return find_in_snapshot(cache.snapshot(name->id, *commit), *name, request.model);
    }
  }
  return std::nullopt;
}

bool is_pullable(std::string_view model) {
  return find_in_catalog(model) || (!model.starts_with('.') && parse_repo_name(model));
}

Result<LocalModel> pull(const Settings& settings, const PullRequest& request,
                        const OnProgress& on_progress) {
  const CatalogModel* model = find_in_catalog(request.model);
  const auto name = parse_repo_name(request.model);
  if (!model && !name) {
    return unknown(request.model);
  }
  if (settings.offline) {
    auto found = find_local(settings, request);
    return found ? Result<LocalModel>(*found)
                 : Result<LocalModel>(not_here(settings, request.model));
  }
  if (!model) {
    return pull_from_hub(settings, *name, request, on_progress);
  }
  if (!find_catalog_model(settings, *model)) {
    POME_TRY(pull_from_index(settings, *model, catalog_folder(settings, *model), on_progress));
  }
  if (auto found = find_catalog_model(settings, *model)) {
    return *found;
  }
  return Error{ErrorCode::internal, fmt::format("{} vanished after it was fetched", model->file),
               ""};
}

std::vector<LocalModel> list_local(const Settings& settings) {
  std::vector<LocalModel> found;
  for (const auto& model : catalog()) {
    if (auto local = find_catalog_model(settings, model)) {
      found.push_back(*local);
    }
  }
  const HfCache cache(settings.hf_cache);
  for (const auto& id : cache.ids()) {
    if (auto local = find_local(settings, {id, "main"})) {
      found.push_back(*local);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

Result<int64_t> remove_local(const Settings& settings, const std::string& model) {
  fs::path folder;
  if (const CatalogModel* entry = find_in_catalog(model)) {
    folder = catalog_folder(settings, *entry);
  } else if (auto name = parse_repo_name(model)) {
    folder = HfCache(settings.hf_cache).repo_folder(name->id);
  } else {
    return unknown(model);
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return Error{ErrorCode::not_found,
                 fmt::format("{} is not here: nothing in {}", model, folder.string()), ""};
  }
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) {
      bytes += static_cast<int64_t>(entry.file_size(error));
    }
  }
  fs::remove_all(folder, error);
  if (error) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot remove {}: {}", folder.string(), error.message()), ""};
  }
  return bytes;
}

}  // namespace pome::hub
