#include <gtest/gtest.h>

#include <string>

#include "text/reading/reader.h"
#include "text/reading/task.h"

namespace pome::text {
namespace {

Task<int> sum_in_brackets(Reader& in, int depth) {
  int sum = 0;
  while (true) {
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return sum;
    }
    in.take();
    if (next == ']') {
      co_return sum;
    }
    if (next == '[') {
      sum += co_await sum_in_brackets(in, depth + 1);
    } else {
      sum += depth * (next - '0');
    }
  }
}

Task<void> list_sums(Reader& in, std::string& out) {
  while (true) {
    co_await in.skip_space();
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return;
    }
    const bool opened = co_await in.accept("[");
    const bool ended = co_await in.accept("end");
    if (opened) {
      const int sum = co_await sum_in_brackets(in, 1);
      out += std::to_string(sum) + ";";
    } else if (ended) {
      out += "end;";
    } else {
      in.take();
      out += "?";
    }
    in.forget();
  }
}

std::string read_in_pieces(std::string_view text, size_t piece) {
  Reader in;
  std::string out;
  const Task<void> task = list_sums(in, out);
  for (size_t at = 0; at < text.size(); at += piece) {
    in.push(text.substr(at, piece));
  }
  in.end();
  EXPECT_TRUE(task.done());
  return out;
}

TEST(Reader, TasksFindTheSameHoweverTheTextIsCut) {
  const std::string text = "[12[3[4]]5]  end [] en[9] end[1[2";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(read_in_pieces(text, piece), "26;end;0;??9;end;5;") << piece;
  }
}

TEST(Reader, AnEmptyPieceIsNotTheEnd) {
  Reader in;
  std::string out;
  const Task<void> task = list_sums(in, out);
  in.push("");
  in.push("[1");
  in.push("");
  in.push("2]");
  in.end();
  EXPECT_EQ(out, "3;");
}

TEST(Reader, GoesBackToWhatWasNotForgotten) {
  Reader in;
  in.push("abc");
  in.take(2);
  in.forget();  // two bytes are not worth moving
  in.rewind(1);
  EXPECT_EQ(in.arrived(), "bc");
  in.take(2);
  EXPECT_EQ(in.since(1), "bc");
  in.forget();
  EXPECT_EQ(in.position(), 3U);
  EXPECT_DEATH(in.rewind(2), "forgotten");
}

TEST(Reader, ManyShortTasksUseNoStack) {
  const std::string text(1 << 20, 'x');
  EXPECT_EQ(read_in_pieces(text, text.size()).size(), text.size());
}

TEST(Reader, TasksThatNeverEndAreFreed) {
  Reader in;
  std::string out;
  const Task<void> task = list_sums(in, out);
  in.push("[1[2[3");
  EXPECT_FALSE(task.done());
}

}  // namespace
}  // namespace pome::text
