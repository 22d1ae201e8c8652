#include "hub/hf_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <set>

#include "base/json.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIndexBytesMax = 64u << 20;
constexpr std::string_view kPrefix = "models--";
constexpr std::array<std::string_view, 7> kGgufPreference = {"q4_k_m", "q4_1", "q4_0", "q4_k_s",
                                                             "q5_k_m", "q8_0", "q6_k"};

// A safetensors file says in its first bytes how long it is: 8 bytes header length, a JSON header
// with offsets.
bool is_whole_safetensors(const fs::path& path) {
  std::error_code error;
  const auto file_bytes = static_cast<uint64_t>(fs::file_size(path, error));
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 8> raw{};
  if (error || !file.read(reinterpret_cast<char*>(raw.data()), raw.size())) {
    return false;
  }
  uint64_t header_bytes = 0;
  for (size_t i = raw.size(); i-- > 0;) {
    header_bytes = header_bytes << 8 | raw[i];
  }
  if (header_bytes > kIndexBytesMax || header_bytes + 8 > file_bytes) {
    return false;
  }
  std::string header(header_bytes, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size()))) {
    return false;
  }
  const auto parsed = parse_json(header);
  if (!parsed || !parsed.value().is_object()) {
    return false;
  }
  uint64_t end = 0;
  for (const auto& [name, value] : parsed.value().get_object()) {
    const json::object* tensor = value.if_object();
    const json::array* offsets = tensor ? find_array(*tensor, "data_offsets") : nullptr;
    if (offsets && offsets->size() == 2) {
      end = std::max(end, static_cast<uint64_t>(as_int((*offsets)[1]).value_or(0)));
    }
  }
  return file_bytes == 8 + header_bytes + end;
}

// The shards of an index, or every safetensors file beside config.json.
std::set<std::string> weight_files(const fs::path& folder) {
  std::set<std::string> names;
  if (const auto text = read_small_file(folder / "model.safetensors.index.json", kIndexBytesMax)) {
    const auto parsed = parse_json(*text);
    const json::object* index =
        parsed && parsed.value().is_object() ? &parsed.value().get_object() : nullptr;
    const json::object* map = index ? find_object(*index, "weight_map") : nullptr;
    for (const auto& [tensor, file] : map ? *map : json::object()) {
      names.insert(file.is_string() ? std::string(file.get_string()) : "");
    }
    return names;
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") {
      names.insert(entry.path().filename().string());
    }
  }
  return names;
}

bool has_tokenizer(const fs::path& folder) {
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  return has("tokenizer.json") || has("tokenizer.model") ||
         (has("vocab.json") && has("merges.txt"));
}

}  // namespace

std::optional<RepoName> parse_repo_name(std::string_view text) {
  RepoName name;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.variant = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!is_safe_name(name.variant)) {
      return std::nullopt;
    }
  }
  const size_t first = text.find('/');
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t second = text.find('/', first + 1);
  const std::string org(text.substr(0, first));
  const std::string repo(
      text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1));
  const auto good = [](const std::string& part) {
    return is_safe_name(part) && part.size() <= 96 && part.find("--") == std::string::npos &&
           part.find("..") == std::string::npos;
  };
  if (!good(org) || !good(repo)) {
    return std::nullopt;
  }
  name.id = org + "/" + repo;
  if (second != std::string_view::npos) {
    name.file = text.substr(second + 1);
    if (!is_safe_relative_path(name.file) || !name.file.ends_with(".gguf") ||
        !name.variant.empty()) {
      return std::nullopt;
    }
  }
  return name;
}

fs::path HfCache::repo_folder(const std::string& id) const {
  std::string folder(kPrefix);
  for (const char c : id) {
    folder += c == '/' ? "--" : std::string(1, c);
  }
  return root_ / folder;
}

fs::path HfCache::blob(const std::string& id, const std::string& etag) const {
  return repo_folder(id) / "blobs" / etag;
}

fs::path HfCache::snapshot(const std::string& id, const std::string& commit) const {
  return repo_folder(id) / "snapshots" / commit;
}

std::optional<std::string> HfCache::commit(const std::string& id,
                                           const std::string& revision) const {
  if (!is_safe_relative_path(revision)) {
    return std::nullopt;
  }
  if (auto text = read_small_file(repo_folder(id) / "refs" / revision, 1024)) {
    const std::string commit = trimmed(*text);
    return is_safe_name(commit) ? std::optional(commit) : std::nullopt;
  }
  if (is_safe_name(revision) && fs::is_directory(snapshot(id, revision))) {
    return revision;
  }
  return std::nullopt;
}

Status HfCache::link(const std::string& id, const std::string& commit, const std::string& file,
                     const std::string& etag) const {
  const fs::path path = snapshot(id, commit) / file;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path up = "../..";
  for (size_t depth = split(file, '/').size(); depth > 1; --depth) {
    up /= "..";
  }
  const fs::path fresh = path.string() + ".link";
  fs::remove(fresh, error);
  fs::create_symlink(up / "blobs" / etag, fresh, error);
  if (!error) {
    fs::rename(fresh, path, error);
  }
  if (error) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot write {}: {}", path.string(), error.message()), ""};
  }
  return {};
}

Status HfCache::write_ref(const std::string& id, const std::string& revision,
                          const std::string& commit) const {
  const fs::path path = repo_folder(id) / "refs" / revision;
  if (!write_small_file(path, commit)) {
    return Error{ErrorCode::unavailable, fmt::format("cannot write {}", path.string()), ""};
  }
  return {};
}

std::vector<std::string> HfCache::ids() const {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_, error)) {
    const std::string folder = entry.path().filename().string();
    const size_t middle = folder.find("--", kPrefix.size());
    if (folder.starts_with(kPrefix) && middle != std::string::npos) {
      found.push_back(folder.substr(kPrefix.size(), middle - kPrefix.size()) + "/" +
                      folder.substr(middle + 2));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> missing_parts(const fs::path& folder) {
  std::vector<std::string> missing;
  if (!fs::exists(folder / "config.json")) {
    missing.push_back("config.json");
  }
  const std::set<std::string> weights = weight_files(folder);
  if (weights.empty()) {
    missing.push_back("*.safetensors");
  }
  for (const auto& file : weights) {
    if (!is_safe_relative_path(file) || !fs::exists(folder / file)) {
      missing.push_back(file);
    } else if (!is_whole_safetensors(folder / file)) {
      missing.push_back(file + " (cut short)");
    }
  }
  if (!has_tokenizer(folder)) {
    missing.push_back("tokenizer.json");
  }
  return missing;
}

std::vector<std::string> gguf_files(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (it->path().extension() == ".gguf" && name.front() != '.' && fs::exists(it->path())) {
      found.push_back(it->path().lexically_relative(folder).string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::string> choose_gguf(const std::vector<std::string>& files,
                                       const std::string& variant) {
  std::vector<std::string> whole;
  for (const auto& file : files) {
    const std::string lower = lower_case(file);
    if (lower.find("-of-0") == std::string::npos && lower.find("mmproj") == std::string::npos) {
      whole.push_back(file);
    }
  }
  const auto with = [&](const std::string& tag) -> std::optional<std::string> {
    for (const auto& file : whole) {
      const std::string lower = lower_case(file);
      const size_t at = lower.rfind(tag);
      const bool ends = at != std::string::npos && lower.substr(at + tag.size()) == ".gguf";
      if (ends && (at == 0 || !std::isalnum(static_cast<unsigned char>(lower[at - 1])))) {
        return file;
      }
    }
    return std::nullopt;
  };
  if (!variant.empty()) {
    return with(lower_case(variant));
  }
  for (const auto tag : kGgufPreference) {
    if (auto found = with(std::string(tag))) {
      return found;
    }
  }
  return whole.empty() ? std::nullopt : std::optional(whole.front());
}

}  // namespace pome::hub
