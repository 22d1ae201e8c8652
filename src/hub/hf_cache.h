#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pome::hub {

// A model as people write it: "org/name", "org/name:Q4_K_M" (one quantization of a GGUF repository)
// or "org/name/folder/file.gguf" (one file).
struct RepoName {
  std::string id;       // "org/name"
  std::string variant;  // "Q4_K_M", lower or upper case; empty: ours to choose
  std::string file;     // one .gguf inside; empty: all that is needed
};

// Nothing when `text` has not that form. Parts are checked, so they may become folder names.
std::optional<RepoName> parse_repo_name(std::string_view text);

// The layout that Hugging Face's programs share: models--org--name/{refs/<revision>,
// snapshots/<commit>/…, blobs/<etag>}; a snapshot's files are links to blobs, and a blob has its
// name only when it is whole.
class HfCache {
 public:
  explicit HfCache(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path repo_folder(const std::string& id) const;
  std::filesystem::path blob(const std::string& id, const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& id, const std::string& commit) const;
  // The commit that refs/<revision> names; `revision` itself when it is a commit whose snapshot is
  // there.
  std::optional<std::string> commit(const std::string& id, const std::string& revision) const;

  // Makes snapshots/<commit>/<file> a relative link to the blob.
  Status link(const std::string& id, const std::string& commit, const std::string& file,
              const std::string& etag) const;
  Status write_ref(const std::string& id, const std::string& revision,
                   const std::string& commit) const;

  // Ids of all model folders, sorted.
  std::vector<std::string> ids() const;

  const std::filesystem::path& root() const { return root_; }

 private:
  const std::filesystem::path root_;
};

// What a folder lacks to be loaded: config.json, the shards that its index names, weights that are
// cut short, a tokenizer. Empty when it is complete.
std::vector<std::string> missing_parts(const std::filesystem::path& model_folder);

// The GGUF files in a folder, as paths relative to it, sorted; hidden and unfinished files left
// out.
std::vector<std::string> gguf_files(const std::filesystem::path& folder);

// The file that a variant or a person's silence means: exact quantization first, then the order of
// kGgufPreference. Nothing when there is none, or when the variant is not there. Split files
// ("-00001-of-00003") are left out.
std::optional<std::string> choose_gguf(const std::vector<std::string>& files,
                                       const std::string& variant);

}  // namespace pome::hub
