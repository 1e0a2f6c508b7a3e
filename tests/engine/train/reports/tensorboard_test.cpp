// Event files, byte for byte as TensorFlow's own code writes them. The expected bytes were made with the
// protocol buffers and checksums of the Python package tensorboard 2.21.0.
#include "engine/train/reports/tensorboard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/engine/train/sample_run.h"

namespace ft {
namespace {

using namespace tensorboard;  // NOLINT: a test of this namespace

TEST(TensorBoardFormat, Crc32cKnownAnswers) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
}

TEST(TensorBoardFormat, RecordsAreTensorFlowsBytes) {
  EXPECT_EQ(hex(record(version_event(1700000000.25))),
            "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");
  const std::array<Scalar, 2> scalars{{{"train/loss", 0.875}, {"train/grad_norm", 0.0}}};
  EXPECT_EQ(
      hex(record(scalars_event(1700000001.5, 300, scalars))),
      "39000000000000008b0737f10900006040fc54d94110ac022a2b0a110a0a747261696e2f6c6f7373150000603f0a160a0f"
      "747261696e2f677261645f6e6f726d15000000002923ebe7");
  EXPECT_EQ(hex(record(restart_event(1700000002.0, 301))),
            "100000000000000095fbfe180900008040fc54d94110ad023a02080184a4031a");
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// Splits a file into records, and checks both checksums of each.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, &bytes[at], 8);
    out.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(bytes.substr(at, size + 16), record(out.back()));
    at += size + 16;
  }
  return out;
}

TEST(TensorBoard, WritesCompleteRecordsAndARestartWhenResumed) {
  const TestFolder folder;
  TensorBoard first(folder.file("runs"));
  first.begin(sample_header());
  play(first, 1, 5);
  first.end(sample_summary(5));
  auto files = event_files(folder.file("runs"));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_NE(files[0].find("/events.out.tfevents."), std::string::npos);
  const auto rows = records(text_of(files[0]));
  ASSERT_EQ(rows.size(), 1u + 5 + 1 + 2) << "version, steps, an evaluation, the end and its session";
  EXPECT_NE(rows[1].find("train/learning_rate"), std::string::npos);
  EXPECT_NE(rows[6].find("eval/perplexity"), std::string::npos);

  RunHeader header = sample_header();
  header.resumed_step = 3;
  TensorBoard second(folder.file("runs"));
  second.begin(header);
  files = event_files(folder.file("runs"));
  ASSERT_EQ(files.size(), 2u) << "the first run's file is left alone";
  const auto resumed = records(text_of(files[1]));
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_EQ(resumed[1].substr(9), restart_event(0, 4).substr(9));
}

}  // namespace
}  // namespace ft
