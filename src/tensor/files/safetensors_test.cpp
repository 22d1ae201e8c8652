#include "tensor/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tensor/files/test_files.h"

namespace pome::tensor {
namespace {

using test::safetensors_file;
using test::TempFolder;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

std::string error_of(const std::string& file) {
  const auto parsed = parse_safetensors(bytes_of(file));
  return parsed ? "no error" : parsed.error().message;
}

std::string error_of(std::string_view header, size_t data_bytes) {
  return error_of(safetensors_file(header, std::string(data_bytes, 'x')));
}

std::string folder_error(const TempFolder& folder) {
  const auto tensors = open_safetensors_folder(folder.path());
  return tensors ? "no error" : tensors.error().message;
}

constexpr std::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

TEST(Safetensors, ReadsNamesTypesShapesAndBytes) {
  const std::string file = safetensors_file(kTwo, std::string(24, 'a') + std::string(8, 'b'));
  const auto tensors = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].encoding, Encoding::f32);
  EXPECT_EQ((*tensors)[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[1].encoding, Encoding::bf16);
  EXPECT_EQ(static_cast<char>((*tensors)[1].bytes[0]), 'b');
  EXPECT_EQ((*tensors)[1].bytes.size(), 8u);
}

TEST(Safetensors, ScalarsAndEmptyTensorsAreTensors) {
  EXPECT_EQ(error_of(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                     R"("e":{"dtype":"F16","shape":[0,7],"data_offsets":[8,8]}})",
                     8),
            "no error");
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string file = safetensors_file(kTwo, std::string(32, 'x'));
  EXPECT_EQ(error_of(file), "no error");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(error_of(file.substr(0, size)), "no error") << size;
  }
}

TEST(Safetensors, AHeaderLengthPastTheFileIsAnError) {
  std::string file = safetensors_file(kTwo, std::string(32, 'x'));
  for (const uint64_t size : {uint64_t{file.size() - 7}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::memcpy(file.data(), &size, sizeof size);
    EXPECT_THAT(error_of(file), HasSubstr("expected a header of at most"));
  }
}

TEST(Safetensors, ADuplicateNameIsNamedHoweverItIsWritten) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"( "\u0061" : {"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                       1),
              HasSubstr("\"a\": it stands twice"));
  // The same key in two entries is none.
  EXPECT_EQ(error_of(R"({"a\"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                     2),
            "no error");
}

TEST(Safetensors, BytesMustMatchTypeAndShape) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7),
              HasSubstr("\"a\": expected 8 bytes for F32 [2], got 7"));
}

TEST(Safetensors, OverlapsAndUnownedBytesAreErrors) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                       7),
              HasSubstr("\"b\": its data overlaps"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5),
              HasSubstr("\"a\": 1 bytes before it belong to no tensor"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5),
              HasSubstr("last 1 bytes"));
}

TEST(Safetensors, RangesPastTheDataAreErrorsThatNameTheTensor) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3),
              HasSubstr("\"a\": its data ends at byte 4"));
  for (const char* offsets :
       {"[4,0]", "[-1,3]", "[0]", "[0,4,4]", "[0,1e30]", "\"0,4\"", "[0,null]"}) {
    const std::string header =
        std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + offsets + "}}";
    EXPECT_THAT(error_of(header, 4), HasSubstr("\"a\"")) << offsets;
  }
}

TEST(Safetensors, ShapesThatOverflowOrAreNegativeAreErrors) {
  for (const char* shape : {"[-1]", "[2147483648]", "[2147483647,2147483647,2147483647,2147483647]",
                            "[1.5]", "[1,1,1,1,1,1,1,1,1]", "{}", "null"}) {
    const std::string header =
        std::string(R"({"a":{"dtype":"U8","shape":)") + shape + R"(,"data_offsets":[0,4]}})";
    EXPECT_THAT(error_of(header, 4), HasSubstr("\"a\"")) << shape;
  }
}

TEST(Safetensors, AnUnsupportedTypeIsNamedWithWhatIsSupported) {
  const std::string message =
      error_of(R"({"w":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}})", 1);
  EXPECT_THAT(message, HasSubstr("\"w\": dtype \"F8_E5M2\" is not supported"));
  EXPECT_THAT(message, HasSubstr("BF16"));
}

TEST(Safetensors, HeadersThatAreNoObjectsAreErrors) {
  for (const char* header : {"", "[]", "1", "{", R"({"a":1})", R"({"a":{}})", "{}x", "\xff"}) {
    EXPECT_NE(error_of(header, 0), "no error") << header;
  }
  EXPECT_EQ(error_of("{}   ", 0), "no error");
}

std::string one_tensor(std::string_view name) {
  return safetensors_file(
      "{\"" + std::string(name) + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "xxxx");
}

TEST(SafetensorsFolder, ShardsOfAnIndexAreOneSetOfTensors) {
  const TempFolder folder;
  folder.write("s1.safetensors", one_tensor("a"));
  folder.write("s2.safetensors", one_tensor("b"));
  folder.write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  const auto tensors = open_safetensors_folder(folder.path());
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->size(), 2u);
  EXPECT_NE((*tensors)[0].file, nullptr);
}

TEST(SafetensorsFolder, AnIndexThatDisagreesWithItsShardsIsAnErrorThatNamesTheTensor) {
  const TempFolder folder;
  folder.write("s1.safetensors", one_tensor("a"));
  folder.write("s2.safetensors", one_tensor("b"));
  const auto with_map = [&](std::string_view map) {
    folder.write("model.safetensors.index.json", "{\"weight_map\":" + std::string(map) + "}");
    return folder_error(folder);
  };
  EXPECT_THAT(with_map(R"({"a":"s1.safetensors","c":"s2.safetensors"})"), HasSubstr("\"b\""));
  EXPECT_THAT(with_map(R"({"a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors"})"),
              HasSubstr("\"c\": the index places it in s2.safetensors"));
  EXPECT_THAT(with_map(R"({"a":"s3.safetensors"})"), HasSubstr("s3.safetensors"));
  EXPECT_THAT(with_map("[]"), HasSubstr("weight_map"));
}

TEST(SafetensorsFolder, AnIndexCannotNameFilesOutsideTheFolder) {
  const TempFolder folder;
  for (const char* file : {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "", ".."}) {
    folder.write("model.safetensors.index.json",
                 R"({"weight_map":{"a":")" + std::string(file) + "\"}}");
    EXPECT_THAT(folder_error(folder), HasSubstr("a file beside the index")) << file;
  }
}

TEST(SafetensorsFolder, WithoutAnIndexThereIsOneFile) {
  const TempFolder folder;
  EXPECT_THAT(folder_error(folder), HasSubstr("found 0"));
  folder.write("weights.safetensors", one_tensor("a"));
  EXPECT_EQ(folder_error(folder), "no error");
  folder.write("other.safetensors", one_tensor("a"));
  EXPECT_THAT(folder_error(folder), HasSubstr("found 2"));
  folder.write("model.safetensors", one_tensor("a"));
  EXPECT_EQ(folder_error(folder), "no error");
}

TEST(Safetensors, MutatedFilesNeverCrash) {
  const std::string file = safetensors_file(kTwo, std::string(32, 'x'));
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string mutated = file;
      for (auto edits = 1 + random() % 4; edits > 0; --edits) {
        constexpr std::string_view kMarks = "\"{}[]:,0123456789-\\";
        mutated[random() % mutated.size()] =
            random() % 2 == 0 ? kMarks[random() % kMarks.size()] : static_cast<char>(random());
      }
      const auto parsed = parse_safetensors(bytes_of(mutated));
      refused += parsed ? 0 : 1;
      for (const FileTensor& tensor : parsed ? *parsed : std::vector<FileTensor>{}) {
        EXPECT_EQ(tensor_bytes(tensor.encoding, tensor.shape), tensor.bytes.size());
      }
    }
    EXPECT_GT(refused, 100);
  }
}

}  // namespace
}  // namespace pome::tensor
