#include "hub/transfer/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <vector>

#include "base/check.h"

namespace pome::hub {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(Algorithm algorithm) : state_(std::make_unique<State>()) {
  const EVP_MD* kind = algorithm == Algorithm::sha256 ? EVP_sha256() : EVP_sha1();
  CHECK(EVP_DigestInit_ex(state_->context, kind, nullptr) == 1, "OpenSSL lacks the digest");
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "digest update failed");
}

void Digest::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int length = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, bytes.data(), &length) == 1, "digest failed");
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string git_blob_prefix(int64_t bytes) {
  return fmt::format("blob {}", bytes) + std::string(1, '\0');
}

Result<std::string> digest_file(const std::filesystem::path& path, Algorithm algorithm,
                                std::string_view prefix,
                                const std::function<bool(int64_t bytes)>& seen) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::not_found, fmt::format("cannot read {}", path.string()), ""};
  }
  Digest digest(algorithm);
  digest.update(prefix);
  std::vector<char> part(1 << 20);
  int64_t bytes = 0;
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0) {
    const auto count = static_cast<size_t>(file.gcount());
    digest.update(std::string_view(part.data(), count));
    bytes += static_cast<int64_t>(count);
    if (seen && !seen(bytes)) {
      return Error{ErrorCode::cancelled, "stopped", ""};
    }
  }
  if (!file.eof()) {
    return Error{ErrorCode::internal, fmt::format("reading {} failed", path.string()), ""};
  }
  return digest.hex();
}

}  // namespace pome::hub
