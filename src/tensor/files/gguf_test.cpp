#include "tensor/files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "tensor/files/test_files.h"

namespace pome::tensor {
namespace {

using test::GgufBuilder;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

std::string error_of(const std::string& file) {
  const Result<GgufFile> parsed = parse_gguf(bytes_of(file));
  return parsed ? "no error" : parsed.error().message;
}

std::string error_of(const GgufBuilder& builder) {
  return error_of(builder.build());
}

std::string zeros(size_t count) {
  return std::string(count, '\0');
}

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;

std::string one_of_everything(uint32_t version) {
  return GgufBuilder(version)
      .text("general.architecture", "llama")
      .number<uint8_t>("u8", 0, 255)
      .number<int8_t>("i8", 1, -128)
      .number<uint16_t>("u16", 2, 65535)
      .number<int16_t>("i16", 3, -32768)
      .u32("u32", 4294967295u)
      .number<int32_t>("i32", 5, -2147483647)
      .f32("f32", 0.5f)
      .number<uint8_t>("yes", 7, 1)
      .number<uint64_t>("u64", 10, uint64_t{1} << 63)
      .number<int64_t>("i64", 11, -5)
      .number<double>("f64", 12, 0.1)
      .texts("tokens", {"a", "", "\xe2\x96\x81the"})
      .numbers<int32_t>("types", 5, {1, 3, 1})
      .tensor("a", kF32, {2, 3}, zeros(24))
      .tensor("b", kQ4_0, {2, 64}, zeros(72))
      .build();
}

TEST(Gguf, ReadsEveryMetadataTypeOfBothVersions) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = one_of_everything(version);
    const Result<GgufFile> parsed = parse_gguf(bytes_of(file));
    ASSERT_TRUE(parsed) << parsed.error().message;
    const json::object& m = parsed->metadata;
    EXPECT_EQ(find_string(m, "general.architecture"), "llama");
    EXPECT_EQ(find_int(m, "u8"), 255);
    EXPECT_EQ(find_int(m, "i8"), -128);
    EXPECT_EQ(find_int(m, "u16"), 65535);
    EXPECT_EQ(find_int(m, "i16"), -32768);
    EXPECT_EQ(find_int(m, "u32"), 4294967295);
    EXPECT_EQ(find_int(m, "i32"), -2147483647);
    EXPECT_EQ(find_double(m, "f32"), 0.5);
    EXPECT_EQ(find_bool(m, "yes"), true);
    EXPECT_EQ(m.at("u64").as_uint64(), uint64_t{1} << 63);
    EXPECT_EQ(find_int(m, "i64"), -5);
    EXPECT_EQ(find_double(m, "f64"), 0.1);
    ASSERT_EQ(find_array(m, "tokens")->size(), 3u);
    EXPECT_EQ(find_array(m, "tokens")->at(2).as_string(), "\xe2\x96\x81the");
    EXPECT_EQ(find_array(m, "types")->at(1).as_int64(), 3);
  }
}

TEST(Gguf, ShapesAreOutermostFirstAndBytesAreTheTensorsOwn) {
  const std::string file = GgufBuilder()
                               .tensor("a", kF32, {2, 3}, std::string(24, 'a'))
                               .tensor("b", kQ4_0, {2, 64}, std::string(72, 'b'))
                               .build();
  const Result<GgufFile> parsed = parse_gguf(bytes_of(file));
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->tensors.size(), 2u);
  EXPECT_EQ(parsed->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(parsed->tensors[1].encoding, Encoding::q4_0);
  EXPECT_EQ(parsed->tensors[1].bytes.size(), 72u);
  EXPECT_EQ(static_cast<char>(parsed->tensors[0].bytes.back()), 'a');
  EXPECT_EQ(static_cast<char>(parsed->tensors[1].bytes.front()), 'b');
}

TEST(Gguf, NestedArraysAreReadUpToFourDeep) {
  const auto nested = [](int depth) {
    GgufBuilder builder;
    builder.array("deep", 9, 1);
    std::string inner;
    for (int i = 2; i < depth; ++i) {
      inner += test::raw_bytes<uint32_t>({9}) + test::raw_bytes<uint64_t>({1});
    }
    inner += test::raw_bytes<uint32_t>({0}) + test::raw_bytes<uint64_t>({1}) + "\x07";
    return builder.append_metadata(inner);
  };
  EXPECT_EQ(error_of(nested(4)), "no error");
  EXPECT_THAT(error_of(nested(5)), HasSubstr("\"deep\" nests more than 4 arrays"));
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string file = one_of_everything(3);
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(error_of(file.substr(0, size)), "no error") << size << " of " << file.size();
  }
}

TEST(Gguf, AnUnsupportedTypeIsNamedWithTensorAndWhatIsSupported) {
  const std::string message = error_of(GgufBuilder().tensor("blk.0.w", 16, {1, 256}, zeros(66)));
  EXPECT_THAT(message, HasSubstr("\"blk.0.w\""));
  EXPECT_THAT(message, HasSubstr("IQ2_XXS is not supported"));
  EXPECT_THAT(message, HasSubstr("Q4_K"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("w", 12345, {1}, "")), HasSubstr("type 12345"));
}

TEST(Gguf, WrongMagicVersionAndEndianAreErrors) {
  std::string file = one_of_everything(3);
  EXPECT_THAT(error_of("GGML" + file.substr(4)), HasSubstr("does not begin with"));
  EXPECT_THAT(error_of(GgufBuilder(1)), HasSubstr("version 1 is not supported"));
  EXPECT_THAT(error_of(GgufBuilder(4)), HasSubstr("version 4 is not supported"));
  EXPECT_THAT(error_of(GgufBuilder(0x03000000)), HasSubstr("little-endian"));
}

TEST(Gguf, DuplicateKeysAndTensorsAreNamed) {
  EXPECT_THAT(error_of(GgufBuilder().u32("k", 1).u32("k", 1)), HasSubstr("\"k\" stands twice"));
  EXPECT_THAT(
      error_of(GgufBuilder().tensor("t", kF32, {1}, zeros(4)).tensor("t", kF32, {1}, zeros(4))),
      HasSubstr("\"t\": it stands twice"));
}

TEST(Gguf, OffsetsPastTheEndUnalignedOrOverlappingAreNamed) {
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {16}, zeros(64), 32)), HasSubstr("\"t\""));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {16}, zeros(63))), HasSubstr("truncated"));
  EXPECT_EQ(error_of(GgufBuilder().tensor("t", kF32, {16}, zeros(64))), "no error");
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {1}, zeros(64), 4)),
              HasSubstr("offset 4 is not a multiple of 32"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {1}, zeros(64), -64 & INT64_MAX)),
              HasSubstr("\"t\""));
  EXPECT_THAT(
      error_of(
          GgufBuilder().tensor("a", kF32, {16}, zeros(64)).tensor("b", kF32, {8}, zeros(32), 32)),
      HasSubstr("\"b\": its data overlaps that of \"a\""));
}

TEST(Gguf, DimensionsAreOneToFourAndBelowTwoToThe31) {
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {}, "")), HasSubstr("1 to 4 dimensions"));
  EXPECT_EQ(error_of(GgufBuilder().tensor("t", kF32, {1, 1, 1, 1}, zeros(4))), "no error");
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {1, 1, 1, 1, 1}, zeros(4))),
              HasSubstr("1 to 4 dimensions, got 5"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {0}, "")), HasSubstr("between 1 and"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {uint64_t{1} << 31}, "")),
              HasSubstr("between 1 and 2147483647"));
}

TEST(Gguf, ProductsOfDimensionsThatOverflowAreErrors) {
  const uint64_t big = (uint64_t{1} << 31) - 1;
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {big, big, big, big}, zeros(4))),
              HasSubstr("too large"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kF32, {big, big}, zeros(4))), HasSubstr("\"t\""));
}

TEST(Gguf, ARowHoldsWholeBlocks) {
  EXPECT_EQ(error_of(GgufBuilder().tensor("t", kQ4_0, {1, 32}, zeros(18))), "no error");
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kQ4_0, {32, 1}, zeros(18))),
              HasSubstr("whole blocks of Q4_0 (32 weights)"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", kQ4_0, {1, 33}, zeros(36))), HasSubstr("\"t\""));
}

TEST(Gguf, AlignmentIsAPowerOfTwoFrom8) {
  EXPECT_EQ(error_of(GgufBuilder().alignment(8).tensor("t", kF32, {1}, zeros(4))), "no error");
  EXPECT_EQ(error_of(GgufBuilder().alignment(1024).tensor("t", kF32, {1}, zeros(4))), "no error");
  for (const uint32_t bad : {0u, 4u, 24u, (1u << 20) + 1, 1u << 21, 1u << 31}) {
    EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", bad)),
                HasSubstr("general.alignment"));
  }
  EXPECT_THAT(error_of(GgufBuilder().text("general.alignment", "32")), HasSubstr("power of two"));
}

TEST(Gguf, CountsThatTheFileCannotHoldAreRefusedBeforeAllocating) {
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  EXPECT_THAT(error_of(GgufBuilder().array("k", 8, huge)), HasSubstr("\"k\""));
  EXPECT_THAT(error_of(GgufBuilder().array("k", 4, huge / 4 + 1)), HasSubstr("\"k\""));
  std::string file = GgufBuilder().build();
  std::memcpy(file.data() + 8, &huge, 8);
  EXPECT_THAT(error_of(file), HasSubstr("do not fit"));
  file = GgufBuilder().build();
  std::memcpy(file.data() + 16, &huge, 8);
  EXPECT_THAT(error_of(file), HasSubstr("do not fit"));
}

TEST(Gguf, MetadataArraysHoldAtMostEightMiValuesTogether) {
  const auto with_values = [](size_t count) {
    return GgufBuilder()
        .numbers<uint8_t>("a", 0, std::vector<uint8_t>(count / 2))
        .numbers<uint8_t>("b", 0, std::vector<uint8_t>(count - count / 2));
  };
  EXPECT_EQ(error_of(with_values(kGgufArrayValuesMax)), "no error");
  EXPECT_THAT(error_of(with_values(kGgufArrayValuesMax + 1)), HasSubstr("at key \"b\""));
}

TEST(Gguf, UnknownValueTypesAndOnePartOfASplitFileAreErrors) {
  EXPECT_THAT(error_of(GgufBuilder().number<uint8_t>("k", 13, 0)), HasSubstr("unknown type 13"));
  EXPECT_THAT(error_of(GgufBuilder().array("k", 99, 0)), HasSubstr("unknown type 99"));
  EXPECT_THAT(error_of(GgufBuilder().number<uint16_t>("split.count", 2, 2)),
              HasSubstr("split file"));
}

TEST(Gguf, MutatedFilesNeverCrash) {
  const std::string file = one_of_everything(3);
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string mutated = file;
      for (auto edits = 1 + random() % 4; edits > 0; --edits) {
        mutated[random() % mutated.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
      }
      const Result<GgufFile> parsed = parse_gguf(bytes_of(mutated));
      refused += parsed ? 0 : 1;
      for (const FileTensor& tensor : parsed ? parsed->tensors : std::vector<FileTensor>{}) {
        EXPECT_EQ(tensor_bytes(tensor.encoding, tensor.shape), tensor.bytes.size());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(),
                  bytes_of(mutated).data() + mutated.size());
      }
    }
    EXPECT_GT(refused, 100);
  }
}

TEST(Gguf, RandomBytesAfterTheMagicNeverCrash) {
  for (const uint32_t seed : {11u, 12u}) {
    std::mt19937 random(seed);
    for (int round = 0; round < 3000; ++round) {
      std::string file = GgufBuilder().build().substr(0, 8);
      file.resize(8 + random() % 256);
      for (size_t i = 8; i < file.size(); ++i) {
        file[i] = static_cast<char>(random() % 2 == 0 ? 0 : random());
      }
      (void)error_of(file);
    }
  }
}

}  // namespace
}  // namespace pome::tensor
