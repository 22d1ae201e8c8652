#include "engine/record/step_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pome::engine {
namespace {

using testing::HasSubstr;

std::filesystem::path some_file(const std::string& name) {
  return std::filesystem::temp_directory_path() / (name + std::to_string(getpid()));
}

RecordedSequence some_sequence() {
  RecordedSequence one;
  one.sequence = SequenceId{~uint64_t{0}};
  one.prompt = {1, 2, 3};
  one.stop_tokens = {9};
  one.seed = ~uint64_t{1};
  one.sampling.temperature = 0.7f;
  one.sampling.top_p = 0.93f;
  one.sampling.logit_bias = {{4, -2.5f}, {8, 100.0f}};
  one.sampling.min_tokens = 3;
  return one;
}

TEST(StepRecord, EveryKindOfLineComesBackAsItWas) {
  scheduler::StepPlan plan;
  plan.step = 4;
  plan.rows.resize(1);
  plan.rows[0].count = 1;
  plan.rows[0].samples = true;
  const std::vector<RecordLine> lines = {
      RecordedPool{16, {100, 20}}, some_sequence(), plan,
      RecordedTokens{4, {{SequenceId{7}, 11}, {SequenceId{8}, 0}}}, RecordedFault{5}};
  for (const RecordLine& line : lines) {
    const std::string written = to_string(to_json(line));
    const auto read = record_line_from_json(parse_json(written).value());
    ASSERT_TRUE(read.ok()) << written << read.error().message;
    EXPECT_EQ(read->index(), line.index());
    EXPECT_EQ(to_string(to_json(*read)), written);
  }
}

TEST(StepRecord, FloatsComeBackToTheBit) {
  RecordedSequence one = some_sequence();
  for (const float value : {0.1f, 1.0f / 3.0f, 1e-30f, 0.99999994f}) {
    one.sampling.temperature = value;
    const auto read = record_line_from_json(parse_json(to_string(to_json(one))).value());
    EXPECT_EQ(std::get<RecordedSequence>(*read).sampling.temperature, value);
  }
}

TEST(StepRecord, RefusesWhatIsNotALine) {
  for (const char* text :
       {"[]", "{}", "3", R"({"page_tokens":0,"group_pages":[4]})",
        R"({"page_tokens":16,"group_pages":[1]})", R"({"prompt":[],"sequence":1})",
        R"({"committed":-1,"tokens":[]})", R"({"committed":1,"tokens":[[1]]})",
        R"({"committed":1,"tokens":[[1,-5]]})", R"({"failed":"x"})"}) {
    EXPECT_FALSE(record_line_from_json(parse_json(text).value()).ok()) << text;
  }
}

TEST(StepRecord, ALineThatWasCutOffIsTheEndAndADamagedOneIsNamed) {
  const std::filesystem::path path = some_file("pome_record_");
  {
    StepRecorder recorder;
    ASSERT_TRUE(recorder.open(path).ok());
    recorder.write(RecordedPool{16, {100}});
    recorder.write(RecordedFault{1});
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  auto reader = StepRecordReader::open(path);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->next()->has_value());
  EXPECT_FALSE(reader->next()->has_value());
  std::ofstream(path) << "{\"failed\":1}\nnonsense\n";
  reader = StepRecordReader::open(path);
  EXPECT_TRUE(reader->next()->has_value());
  EXPECT_THAT(reader->next().error().message, HasSubstr("line 2"));
  std::filesystem::remove(path);
}

TEST(StepRecord, SaysThatAFileCannotBeWrittenOrRead) {
  StepRecorder recorder;
  EXPECT_THAT(recorder.open("/no/such/folder/file").error().message, HasSubstr("--record-steps"));
  EXPECT_FALSE(StepRecordReader::open("/no/such/file").ok());
}

}  // namespace
}  // namespace pome::engine
