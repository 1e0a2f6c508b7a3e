// A teacher's file: written logits are read back in any order of the sequences; a file that is damaged, of
// another kind or malicious is refused with a message.
#include "engine/train/objectives/teacher_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <random>

#include "engine/cpu/cpu_ops.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

constexpr std::int64_t kVocabulary = 11;

// Returns sequences one after another; targets are the last two rows of each, or its only row.
Batch batch_of(const std::vector<std::vector<std::int32_t>>& sequences) {
  Batch b;
  b.starts = {0};
  for (const auto& s : sequences) {
    const auto begin = b.starts.back(), n = static_cast<std::int32_t>(s.size());
    b.input_ids.insert(b.input_ids.end(), s.begin(), s.end());
    for (std::int32_t t = std::max(0, n - 2); t < n; ++t) {
      b.target_rows.push_back(begin + t);
      b.targets.push_back(1);
    }
    b.starts.push_back(begin + n);
  }
  return b;
}

std::vector<float> logits_of(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> some(0, 3);
  std::vector<float> all(kVocabulary);
  for (float& x : all) x = some(random);
  return all;
}

std::vector<double> softmax(const std::vector<float>& logits) {
  double sum = 0;
  std::vector<double> all;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (const float x : logits) all.push_back(std::exp(static_cast<double>(x)) / sum);
  return all;
}

struct TeacherFiles : testing::Test {
  test::TempFolder folder;
  std::string path = folder / "t.safetensors";

  // Writes a file of two sequences, whose targets have the logits of seeds 0 to 3.
  void make(std::int64_t top_k) {
    Teaching teaching(top_k, kVocabulary);
    const Batch b = batch_of({{3, 4, 5}, {6, 7}});
    EXPECT_EQ(teaching.begin(b), std::vector<bool>(4, true));
    for (int t = 0; t < 4; ++t) teaching.add(logits_of(t));
    EXPECT_EQ(teaching.begin(b), std::vector<bool>(4, false)) << "they are there already";
    teaching.write(path);
  }
  std::string refusal() const {
    try {
      const TeacherFile file(path);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::input) << e.what();
      return e.what();
    }
    return "";
  }
};

TEST_F(TeacherFiles, LogitsAreReadBackInAnyOrder) {
  make(kVocabulary);
  const TeacherFile file(path);
  EXPECT_TRUE(file.knows(batch_of({{6, 7}, {3, 4, 5}})));
  EXPECT_FALSE(file.knows(batch_of({{6, 8}})));
  EXPECT_FALSE(file.knows(batch_of({{3, 4, 5, 6}})));
  Batch fewer = batch_of({{3, 4, 5}});
  fewer.target_rows.pop_back();
  fewer.targets.pop_back();
  EXPECT_FALSE(file.knows(fewer)) << "other targets";
  std::vector<float> row(kVocabulary);
  for (int t = 0; t < 4; ++t) {
    file.write(t, row);
    const auto want = softmax(logits_of(t)), is = softmax(row);
    for (std::size_t v = 0; v < want.size(); ++v) EXPECT_NEAR(is[v], want[v], 1e-6) << t << ' ' << v;
  }
}

TEST_F(TeacherFiles, OtherTokensShareTheRemainingProbability) {
  make(3);
  const TeacherFile file(path);
  std::vector<float> row(kVocabulary);
  file.write(2, row);
  auto want = softmax(logits_of(2));
  const auto is = softmax(row);
  auto order = want;
  std::ranges::sort(order, std::greater{});
  double left = 1 - order[0] - order[1] - order[2];
  for (std::size_t v = 0; v < want.size(); ++v)
    EXPECT_NEAR(is[v], want[v] >= order[2] ? want[v] : left / 8, 1e-6) << v;
}

TEST_F(TeacherFiles, LogitsAreOfTheTargetsOfABatch) {
  make(kVocabulary);
  const TeacherFile file(path);
  cpu::CpuOps ops(1);
  Arena saved(ops.allocate(1 << 16), 1 << 16), scratch(ops.allocate(1 << 16), 1 << 16);
  Ctx c{ops, saved, scratch, {DType::f32}};
  const Tensor logits = saved.take({2, kVocabulary}, DType::f32);
  file.logits(batch_of({{6, 7}, {3, 4, 5}}))->write(c, logits, 1);  // targets 1 and 2: 3 and 0 of the file
  for (const auto& [row, target] : {std::pair{0, 3}, std::pair{1, 0}}) {
    const auto want = softmax(logits_of(target));
    std::vector<float> is(kVocabulary);
    ops.download(is.data(), logits.slice(row, row + 1));
    for (std::size_t v = 0; v < want.size(); ++v) EXPECT_NEAR(softmax(is)[v], want[v], 1e-6) << row;
  }
  const Tensor wider = saved.take({2, kVocabulary + 1}, DType::f32);
  EXPECT_THROW(file.logits(batch_of({{6, 7}}))->write(c, wider, 0), UserError);
}

TEST_F(TeacherFiles, AFileThatIsCutIsRefused) {
  make(3);
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, n);
    EXPECT_NE(refusal(), "") << n << " bytes of " << whole.size();
  }
}

// A valid file's content; tests make one thing at a time wrong.
struct Content {
  std::vector<std::uint8_t> keys = std::vector<std::uint8_t>(32);
  std::vector<std::int32_t> first{0, 1, 2}, ids{1, 2, 3, 4};
  std::vector<float> logps{-1, -2, -1, -2};
  std::int64_t top_k = 2, width = 16;
  Metadata about{{"format", "ft-teacher-1"}, {"vocab_size", "11"}};

  void write(const std::string& path) {
    const auto tensor = [](auto& values, DType type) {
      return Tensor(reinterpret_cast<std::byte*>(values.data()), type, {std::ssize(values)});
    };
    const std::int64_t rows = std::ssize(ids) / top_k;
    write_safetensors(
        path,
        {{"keys", DType::u8, {std::ssize(keys) / width, width}},
         {"first", DType::i32, {std::ssize(first)}},
         {"ids", DType::i32, {rows, top_k}},
         {"logps", DType::f32, {rows, top_k}}},
        [&](const TensorSpec& s) {
          if (s.name == "keys") return tensor(keys, DType::u8);
          if (s.name == "first") return tensor(first, DType::i32);
          return s.name == "ids" ? tensor(ids, DType::i32) : tensor(logps, DType::f32);
        },
        about, Nonfinite::allow);
  }
};

TEST_F(TeacherFiles, InvalidContentIsRefused) {
  const std::pair<const char*, std::function<void(Content&)>> wrong[] = {
      {"no file of ft teach",
       [](Content& c) {
         c.about = {{"format", "pt"}, {"vocab_size", "11"}};
       }},
      {"no file of ft teach",
       [](Content& c) {
         c.about = {{"vocab_size", "11"}};
       }},
      {"more tokens of a target", [](Content& c) { c.about[1].second = "1"; }},
      {"more tokens of a target", [](Content& c) { c.about[1].second = "-11"; }},
      {"more tokens of a target", [](Content& c) { c.about[1].second = "99999999999999999999"; }},
      {"more tokens of a target", [](Content& c) { c.about[1].second = "many"; }},
      {"tensors are not those", [](Content& c) { c.width = 8; }},
      {"tensors are not those",
       [](Content& c) {
         c.first = {0, 2};
       }},
      {"where its sequences begin",
       [](Content& c) {
         c.first = {0, 1, 3};
       }},
      {"where its sequences begin",
       [](Content& c) {
         c.first = {-1, 1, 2};
       }},
      {"where its sequences begin",
       [](Content& c) {
         c.first = {0, 3, 2};
       }},
      {"token 11 of target 1", [](Content& c) { c.ids[2] = 11; }},
      {"token -1 of target 0", [](Content& c) { c.ids[1] = -1; }},
      {"the probabilities of target 1", [](Content& c) { c.logps[3] = 0.5F; }},
      {"the probabilities of target 0", [](Content& c) { c.logps[0] = 1e30F; }},
      {"NaN or Inf", [](Content& c) { c.logps[1] = NAN; }},
      {"NaN or Inf", [](Content& c) { c.logps[1] = -INFINITY; }}};
  Content().write(path);
  EXPECT_EQ(refusal(), "");
  for (const auto& [words, spoil] : wrong) {
    Content c;
    spoil(c);
    c.write(path);
    EXPECT_NE(refusal().find(words), std::string::npos) << words << " in: " << refusal();
  }
}

TEST(Teaching, ATeacherWithoutNumbersIsRefused) {
  Teaching teaching(2, 3);
  EXPECT_THROW(teaching.add(std::vector<float>{1, NAN, 2}), UserError);
}

}  // namespace
}  // namespace ft
