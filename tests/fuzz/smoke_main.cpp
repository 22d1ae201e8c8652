// Runs a libFuzzer target without libFuzzer: the corpus as it is, then seeded mutations of it until
// the time is up. usage: <target> SECONDS CORPUS_FOLDER      (SEED=n reproduces a run)
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count);

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> read_corpus(const std::string& folder) {
  std::vector<Bytes> corpus{{}};
  if (!std::filesystem::is_directory(folder))
    return corpus;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file())
      continue;
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// One to eight edits: a flipped bit, an extreme byte, a cut, a doubled span, an inserted run.
Bytes mutate(Bytes bytes, std::mt19937_64& random) {
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  const auto at = [&](size_t index) { return bytes.begin() + static_cast<std::ptrdiff_t>(index); };
  for (size_t edit = 1 + below(8); edit > 0; --edit) {
    switch (below(5)) {
      case 0:
        if (!bytes.empty())
          bytes[below(bytes.size())] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1: {
        constexpr uint8_t kExtremes[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '\n'};
        if (!bytes.empty())
          bytes[below(bytes.size())] = kExtremes[below(8)];
        break;
      }
      case 2:
        bytes.resize(below(bytes.size() + 1));
        break;
      case 3: {
        const size_t first = below(bytes.size());
        const Bytes span(at(first), at(first + below(bytes.size() - first)));
        if (bytes.size() < 65536)
          bytes.insert(at(below(bytes.size())), span.begin(), span.end());
        break;
      }
      default:
        bytes.insert(at(below(bytes.size() + 1)), 1 + below(64), static_cast<uint8_t>(random()));
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SECONDS CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  const char* seed_text = std::getenv("SEED");
  const uint64_t seed = seed_text ? std::strtoull(seed_text, nullptr, 10) : std::random_device{}();
  std::fprintf(stderr, "SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto corpus = read_corpus(argv[2]);
  for (const Bytes& bytes : corpus)
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    const Bytes bytes = mutate(corpus[random() % corpus.size()], random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::fprintf(stderr, "%zu seeds, %llu mutations, no crash\n", corpus.size(),
               static_cast<unsigned long long>(runs));
  return 0;
}
