// training.gemm_tuning: the fastest of the algorithms with right results is found, kept in the file and used,
// by one process and by several.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <barrier>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/cuda/gemm/gemm_file.h"
#include "tests/cuda_on_cpu/cublasLt.h"
#include "tests/engine/cuda/both.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::cuda {
namespace {

using cuda_on_cpu::lt_calls;
using cuda_on_cpu::LtCalls;
using nlohmann::json;
using test::error_of;
using test::slurp;
using test::TempFolder;

std::vector<json> lines_of(const std::string& file) {
  std::vector<json> lines;
  std::istringstream in(slurp(file));
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// Returns the calls of cuBLASLt that `work` makes.
template <class Work>
LtCalls calls_of(const Work& work) {
  const LtCalls before = lt_calls();
  work();
  LtCalls calls = lt_calls();
  calls.heuristics -= before.heuristics;
  calls.descriptors -= before.descriptors;
  for (std::size_t i = 0; i < calls.products.size(); ++i) calls.products[i] -= before.products[i];
  return calls;
}

struct Product {
  std::int64_t m = 16, n = 8, k = 32, pad = 0, offset = 0;
  DType type = DType::bf16, result = DType::bf16;
  enum class Plus : std::uint8_t { nothing, itself, another } plus = Plus::nothing;
};

// Returns y, including the elements around it, after computing the product `times` times.
Matrix compute(Ops& ops, const Product& p, int times = 1) {
  Matrix y(p.m, p.n, p.result, p.pad), a(p.m, p.k, p.type, p.pad), b(p.n, p.k, p.type, p.pad),
      c(p.m, p.n, p.result, p.pad);
  y.randomize(1), a.randomize(2), b.randomize(3), c.randomize(4);
  const OnGpu gy(ops, y, p.offset), ga(ops, a, p.offset), gb(ops, b, p.offset), gc(ops, c, p.offset);
  for (int i = 0; i < times; ++i)
    product(ops, gy.tensor, {ga.tensor, Trans::no, gb.tensor, Trans::yes}, 0.5f,
            p.plus == Product::Plus::nothing  ? Tensor{}
            : p.plus == Product::Plus::itself ? gy.tensor
                                              : gc.tensor);
  gy.download(y);
  return y;
}
// Uses new Ops, as another process would.
Matrix compute(const std::string& file, const Product& p, int times = 1) {
  return compute(*make_cuda_ops(0, kSmall, file), p, times);
}

const GemmMachine kMachine{};
const auto kAny = [](const AlgorithmBytes&) { return true; };
// Number of runs of an algorithm while it is timed: of one that is slow in the first round, and of others.
constexpr int kSlow = 1 + 4, kTimed = 1 + 5 * 4;

TEST(GemmTuning, UsesAndKeepsTheFastestCorrectAlgorithm) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  LtCalls calls = calls_of([&] { compute(file, {}, 3); });
  EXPECT_EQ(calls.heuristics, 1);
  EXPECT_EQ(calls.products, (std::array{kSlow, 0, kTimed + 3, kTimed, 0, 0}));
  // At odd addresses algorithm 2 is wrong.
  calls = calls_of([&] { compute(file, {.offset = 1}, 3); });
  EXPECT_EQ(calls.products, (std::array{kSlow, 0, 0, kTimed + 3, 0, 0}));

  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 2u);
  const json& line = lines[0];
  EXPECT_EQ(line["gpu"], "CUDA on a CPU");
  EXPECT_EQ(line["compute_capability"], "8.0");
  EXPECT_EQ(line["cublaslt"], 130000);
  EXPECT_EQ(line["workspace"], kSmall.blas);
  EXPECT_EQ((std::array{line["m"], line["n"], line["k"]}), (std::array<json, 3>{16, 8, 32}));
  EXPECT_EQ(line["transpose_a"], false);
  EXPECT_EQ(line["transpose_b"], true);
  EXPECT_EQ(line["operands"], "bfloat16");
  EXPECT_EQ(line["align_y"], 256);
  EXPECT_EQ(line["algorithm"].get<std::string>().size(), 128u);
  EXPECT_EQ(line["microseconds"], (json{40.0, 10.0, 12.0, nullptr}));
  EXPECT_EQ(lines[1]["align_y"], 2);
  EXPECT_EQ(lines[1]["microseconds"], (json{40.0, 12.0, nullptr}));
}

// Algorithm 3 is slower than 2. If all runs of 2 came first, the runs of 3 would be timed on a faster clock.
TEST(GemmTuning, AClockThatDriftsDoesNotDecide) {
  const TempFolder folder;
  cuda_on_cpu::quicken_products(1.06);
  const LtCalls calls = calls_of([&] { compute(folder / "tuned.jsonl", {}); });
  cuda_on_cpu::quicken_products(1);
  EXPECT_EQ(calls.products[2], kTimed + 1);
  EXPECT_EQ(calls.products[3], kTimed);
}

TEST(GemmTuning, ProductsInTheFileAreNotTimed) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  compute(file, {});
  const std::string text = slurp(file);
  const LtCalls calls = calls_of([&] { compute(file, {}, 2); });
  EXPECT_EQ(calls.heuristics, 0);
  EXPECT_EQ(calls.products, (std::array{0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(slurp(file), text);
}

TEST(GemmTuning, WithoutAFileItIsCublasLtsChoice) {
  const LtCalls calls = calls_of([] { compute("", {}, 2); });
  EXPECT_EQ(calls.heuristics, 1);
  EXPECT_EQ(calls.products, (std::array{2, 0, 0, 0, 0, 0}));
}

// Batches of all lengths: the length is the number of rows of y, or of rows that a gradient sums over.
TEST(Gemm, EverNewLengthsAskAndKeepLittle) {
  const auto ops = make_cuda_ops(0, kSmall);
  constexpr std::int64_t kMost = 5000;
  Matrix x(kMost, 1, DType::f32), one(1, 1, DType::f32);
  x.randomize(1), one.randomize(2);
  const OnGpu in(*ops, x, 0), out(*ops, x, 0), w(*ops, one, 0), dw(*ops, one, 0);
  const auto batch = [&](std::int64_t rows) {
    const Tensor of = in.tensor.slice(0, rows), y = out.tensor.slice(0, rows);
    product(*ops, y, {of, Trans::no, w.tensor, Trans::no});
    product(*ops, dw.tensor, {of, Trans::yes, y, Trans::no});
  };
  LtCalls calls = calls_of([&] {
    for (std::int64_t rows = 1; rows <= kMost; ++rows) batch(rows);
    ops->synchronize();
  });
  EXPECT_LE(calls.heuristics, 2 * (32 + 8 * 16));
  EXPECT_LE(calls.descriptors, 4096);
  // All lengths keep their algorithm, even if their descriptors have been dropped.
  calls = calls_of([&] {
    for (const std::int64_t rows : {1, 31, 33, 1000, 4999}) batch(rows);
  });
  EXPECT_EQ(calls.heuristics, 0);
}

TEST(GemmTuning, ResultsAreThoseWithoutIt) {
  const TempFolder folder;
  for (const auto& [type, result] : {std::pair{DType::f32, DType::f32},
                                     {DType::bf16, DType::bf16},
                                     {DType::bf16, DType::f32},
                                     {DType::f16, DType::f16}})
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {33, 70, 19}, {16, 8, 32}})
      for (const auto& [pad, offset] : {std::pair{0, 0}, {3, 1}})
        for (const auto plus : {Product::Plus::nothing, Product::Plus::itself, Product::Plus::another}) {
          SCOPED_TRACE(str(name_of(type), " ", m, " pad ", pad, " plus ", int(plus)));
          const std::string file = folder / "tuned.jsonl";
          std::filesystem::remove(file);
          const Product p{m, n, k, pad, offset, type, result, plus};
          const Matrix want = compute("", p, 2), got = compute(file, p, 2);
          EXPECT_TRUE(got.same_bytes(want));
          EXPECT_TRUE(got.intact());
          EXPECT_EQ(lines_of(file).size(), 1u);
        }
}

TEST(GemmTuning, EqualSizesShareALine) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  const auto ops = make_cuda_ops(0, kSmall, file);
  compute(*ops, {.m = 32});
  const LtCalls calls = calls_of([&] {
    for (const std::int64_t m : {33, 34, 35}) compute(*ops, {.m = m});
  });
  EXPECT_EQ(calls.heuristics, 0);
  EXPECT_EQ(calls.products, (std::array{0, 0, 3, 0, 0, 0}));
  for (const Product& other :
       std::vector<Product>{{.m = 36}, {.m = 31}, {.m = 32, .n = 9}, {.m = 32, .k = 36}})
    EXPECT_EQ(calls_of([&] { compute(*ops, other); }).heuristics, 1);
  EXPECT_EQ(lines_of(file).size(), 5u);
}

TEST(GemmTuning, LinesOfAnotherMachineStay) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  compute(file, {});
  const json line = lines_of(file).at(0);
  const auto other = [&](const char* key, const json& value) {
    json foreign = line;
    foreign[key] = value;
    folder.write("tuned.jsonl", foreign.dump() + "\n");
    EXPECT_EQ(calls_of([&] { compute(file, {}); }).heuristics, 1) << key;
    EXPECT_EQ(lines_of(file), (std::vector{foreign, line})) << key;
    EXPECT_EQ(calls_of([&] { compute(file, {}); }).heuristics, 0) << key;
  };
  other("gpu", "NVIDIA H200");
  other("compute_capability", "9.0");
  other("cublaslt", 130100);
  other("workspace", 1 << 20);
  other("operands", "float16");
  other("align_a", 16);
}

// Algorithms with another number in their bytes: one needs too much memory, one is wrong for these addresses,
// one has sums without a fixed order, one does not exist.
TEST(GemmTuning, AnAlgorithmThatIsNotForTheProductIsTimedAgain) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  compute(file, {.offset = 1});
  const json right = lines_of(file).at(0);
  std::string bytes = right["algorithm"];
  ASSERT_EQ(bytes.substr(16, 2), "03");
  for (const char* number : {"01", "02", "04", "06"}) {
    json wrong = right;
    wrong["algorithm"] = std::string(bytes).replace(16, 2, number);
    folder.write("tuned.jsonl", wrong.dump() + "\n");
    const LtCalls calls = calls_of([&] { compute(file, {.offset = 1}); });
    EXPECT_EQ(calls.products, (std::array{kSlow, 0, 0, kTimed + 1, 0, 0})) << number;
    EXPECT_EQ(lines_of(file), (std::vector{wrong, right}));
    EXPECT_EQ(calls_of([&] { compute(file, {.offset = 1}); }).products, (std::array{0, 0, 0, 1, 0, 0}));
  }
}

TEST(GemmTuning, DamagedLinesAreRefused) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  compute(file, {});
  const std::string good = slurp(file);
  const auto refused = [&](const std::string& line) {
    folder.write("tuned.jsonl", good + line + "\n");
    std::string error = error_of([&] { make_cuda_ops(0, kSmall, file); });
    EXPECT_EQ(slurp(file), good + line + "\n");
    for (std::size_t at; (at = error.find(file)) != error.npos;) error.replace(at, file.size(), "FILE");
    return error;
  };
  const std::string what_to_do = "\n  delete the line, or the file: missing entries are timed again";
  const auto with = [&](const char* key, const json& value) {
    json line = json::parse(good);
    line[key] = value;
    return line.dump();
  };
  const auto said = [&](const std::string& what) {
    return "3 training.gemm_tuning: line 2: FILE: " + what + what_to_do;
  };
  EXPECT_EQ(refused(good.substr(0, 60)).substr(0, 49), "3 training.gemm_tuning: line 2: FILE:2: not JSON:");
  EXPECT_EQ(refused("{}"), said("has no gpu; it must be a string"));
  EXPECT_EQ(refused(with("m", "many")), said("m must be an integer of at least 0, is \"many\""));
  EXPECT_EQ(refused(with("result", "int32")),
            said("result must be float32, bfloat16, float16 or uint8, is \"int32\""));
  const std::string hex = "algorithm must be 64 bytes in hexadecimal digits, is ";
  EXPECT_EQ(refused(with("algorithm", "00")), said(hex + "\"00\""));
  const std::string no_digits(128, 'g');
  EXPECT_EQ(refused(with("algorithm", no_digits)).find(said(hex).substr(0, 90)), 0u);
}

TEST(GemmTuning, TheLastLineMayEndWithTheFile) {
  const TempFolder folder;
  const std::string file = folder / "tuned.jsonl";
  compute(file, {});
  std::string text = slurp(file);
  text.pop_back();
  folder.write("tuned.jsonl", text);
  compute(file, {.m = 64});
  compute(file, {.m = 128});
  EXPECT_EQ(lines_of(file).size(), 3u);
  EXPECT_EQ(calls_of([&] { compute(file, {}); }).heuristics, 0);
}

TEST(GemmTuning, AFileThatCannotBeWrittenIsRefusedAtOnce) {
  const TempFolder folder;
  const auto error = [](const std::string& file) {
    return error_of([&] { make_cuda_ops(0, kSmall, file); });
  };
  const std::string begin = "6 training.gemm_tuning: ";
  EXPECT_EQ(error(folder / "no/tuned.jsonl"),
            begin + (folder / "no/tuned.jsonl") + " cannot be written: No such file or directory");
  EXPECT_EQ(error(folder.path()), begin + folder.path() + " cannot be written: Is a directory");
  EXPECT_EQ(error("/dev/null"), begin + "/dev/null is not a file");
}

// The superuser may write anywhere, so the test runs as nobody for a while.
TEST(GemmTuning, AReadOnlyFolderIsRefusedAtOnce) {
  const TempFolder folder;
  const std::string file = folder.write("read_only/tuned.jsonl", "");
  namespace fs = std::filesystem;
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(file, fs::perms(0444));
  fs::permissions(folder / "read_only", fs::perms(0555));
  const bool super = geteuid() == 0;
  if (super) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string there = error_of([&] { GemmFile(file, kMachine); });
  const std::string new_one = error_of([&] { GemmFile(folder / "read_only/new", kMachine); });
  if (super) {
    ASSERT_EQ(seteuid(0), 0);
  }
  fs::permissions(folder / "read_only", fs::perms(0755));
  EXPECT_EQ(there, "6 training.gemm_tuning: " + file + " cannot be written: Permission denied");
  EXPECT_EQ(new_one, "6 training.gemm_tuning: " + (folder / "read_only/new") +
                         " cannot be written: Permission denied");
}

GemmKey key_of_rows(std::int64_t m) { return {.m = m, .n = 1, .k = 1}; }
AlgorithmBytes numbered(std::size_t number) {
  AlgorithmBytes a{};
  a[0] = static_cast<unsigned char>(number);
  return a;
}

TEST(GemmFile, TheFirstOfTwoThatMeasuredTheSameCounts) {
  const TempFolder folder;
  GemmFile a(folder / "f", kMachine), b(folder / "f", kMachine);
  EXPECT_FALSE(a.find(key_of_rows(8), kAny) || b.find(key_of_rows(8), kAny));
  EXPECT_EQ(a.keep(key_of_rows(8), numbered(1), {}, kAny), numbered(1));
  EXPECT_EQ(b.keep(key_of_rows(8), numbered(2), {}, kAny), numbered(1));
  EXPECT_EQ(b.find(key_of_rows(8), kAny), numbered(1));
  EXPECT_EQ(lines_of(folder / "f").size(), 1u);
}

TEST(GemmFile, MayBeEmptiedWhileItIsInUse) {
  const TempFolder folder;
  GemmFile file(folder / "f", kMachine);
  for (const int i : {3, 4, 5}) file.keep(key_of_rows(1 << i), numbered(1), {}, kAny);
  std::filesystem::resize_file(folder / "f", 0);
  file.keep(key_of_rows(64), numbered(2), {}, kAny);
  EXPECT_EQ(file.find(key_of_rows(8), kAny), numbered(1));
  GemmFile(folder / "f", kMachine).keep(key_of_rows(128), numbered(3), {}, kAny);
  EXPECT_EQ(file.find(key_of_rows(128), kAny), numbered(3));
  EXPECT_EQ(lines_of(folder / "f").size(), 2u);
}

// All threads have measured the same product and write its line at the same time.
TEST(GemmFile, ManyWritersAgree) {
  const TempFolder folder;
  constexpr std::size_t kWriters = 4, kKeys = 60;
  std::array<std::vector<AlgorithmBytes>, kWriters> used;
  std::barrier together(static_cast<std::ptrdiff_t>(kWriters));
  std::vector<std::thread> writers;
  for (std::size_t w = 0; w < kWriters; ++w)
    writers.emplace_back([&, w] {
      GemmFile file(folder / "f", kMachine);
      for (std::size_t i = 0; i < kKeys; ++i) {
        const GemmKey key = key_of_rows(std::int64_t{1} << i);
        together.arrive_and_wait();
        EXPECT_FALSE(file.find(key, kAny));
        together.arrive_and_wait();
        used[w].push_back(file.keep(key, numbered(w + 1), {}, kAny));
      }
    });
  for (std::thread& t : writers) t.join();
  for (std::size_t w = 1; w < kWriters; ++w) EXPECT_TRUE(used[w] == used[0]) << w;
  EXPECT_EQ(lines_of(folder / "f").size(), kKeys);
}

TEST(GemmFile, AFullDiskLeavesCompleteLines) {
  const TempFolder folder;
  GemmFile file(folder / "f", kMachine);
  file.keep(key_of_rows(8), numbered(1), {}, kAny);
  const std::string text = slurp(folder / "f");
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{text.size() + 10, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = error_of([&] { file.keep(key_of_rows(64), numbered(2), {}, kAny); });
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(error, "6 training.gemm_tuning: " + (folder / "f") + " cannot be written: File too large");
  EXPECT_EQ(slurp(folder / "f"), text);
  EXPECT_EQ(file.keep(key_of_rows(64), numbered(2), {}, kAny), numbered(2));
  EXPECT_EQ(lines_of(folder / "f").size(), 2u);
}

}  // namespace
}  // namespace ft::cuda
