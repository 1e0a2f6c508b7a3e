// Measures how fast a model's weights are read: bench_load FOLDER [GB] writes a file of random bf16, f16 and
// f32 there. It reads the file out of the page cache into memory that has been touched, and quantizes it, as
// training does when it starts. Markdown on standard output, the best of the repeats; bytes are bytes of the
// file.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/cpu_bench.h"
#include "engine/cpu/quantize.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/files/safetensors/weights.h"
#include "engine/formats/four_bit.h"
#include "engine/formats/fp8.h"
#include "engine/quant/four_bit.h"

namespace ft {
namespace {

constexpr int kRepeats = 5;
constexpr std::int64_t kMatrix = std::int64_t{4096} * 11008;  // elements, of LLaMA-2-7B's largest linears

double best_of(const auto& f) {
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Quantizes by the formulas, one element after another: the reference for the kernel.
void quantize_simply(std::uint8_t* codes, float* absmax, const float* x, std::int64_t n) {
  const FourBitBounds bounds = four_bit_bounds(FourBitBook::nf4);
  for (std::int64_t first = 0; first < n; first += 64) {
    float most = 0;
    for (std::int64_t i = first; i < first + 64; ++i) most = std::max(most, x[i] < 0 ? -x[i] : x[i]);
    *absmax++ = most;
    for (std::int64_t i = first; i < first + 64; i += 2)
      codes[i / 2] = static_cast<std::uint8_t>(four_bit_place(bounds, x[i] * (1 / most)) << 4 |
                                               four_bit_place(bounds, x[i + 1] * (1 / most)));
  }
}

// Measures the kernels on one thread, on data in the caches, by the thread's CPU clock.
void kernels() {
  constexpr std::int64_t n = 1 << 18;
  std::vector<float> x(n), absmax(n / 64);
  std::vector<bf16> narrow(n);
  std::vector<std::uint8_t> codes(n / 2);
  cpu::fill_random(reinterpret_cast<std::byte*>(x.data()), n, DType::f32, 1);
  for (std::size_t i = 0; i < x.size(); ++i) from_float(narrow[i], x[i]);
  cpu::Team one(1);
  const auto row = [&](const char* name, const auto& f) {
    double best = 1e9;
    for (int i = 0; i < 20 * kRepeats; ++i) best = std::min(best, cpu::time_of(one, f));
    std::printf("| %s | %.2f |\n", name, static_cast<double>(n) / best * 1e-9);
  };
  std::printf("| to nf4, one thread | 10^9 elements/s |\n|---|---|\n");
  row("formulas, an element after another",
      [&] { quantize_simply(codes.data(), absmax.data(), x.data(), n); });
  for (const cpu::Target t : cpu::usable_targets()) {
    const auto places = cpu::places_of(FourBitBook::nf4);
    row(cpu::name_of(t), [&] {
      cpu::quantize_kernels_of(t).run(codes.data(), absmax.data(), narrow.data(), DType::bf16, n, 64, places);
    });
  }
  std::vector<std::uint8_t> bytes(n);
  for (const cpu::Target t : cpu::usable_targets()) {
    const std::string name = str("fp8, ", cpu::name_of(t));
    row(name.c_str(), [&] {
      for (std::size_t i = 0; i < n; i += 4096)
        cpu::quantize_kernels_of(t).fp8(bytes.data() + i, absmax.data(), narrow.data() + i, DType::bf16, 1,
                                        4096, 4096);
    });
  }
  std::printf("\n");
}

void write_model(const std::string& folder, DType type, std::int64_t matrices) {
  std::filesystem::create_directories(folder);
  std::vector<std::byte> values(static_cast<std::size_t>(kMatrix * size_of(type)));
  for (std::int64_t i = 0; i < kMatrix; ++i) {
    const float v = to_uniform(static_cast<std::uint32_t>(i * 2654435761u)) - 0.5f;
    if (type == DType::f32) reinterpret_cast<float*>(values.data())[i] = v;
    if (type == DType::bf16) from_float(reinterpret_cast<bf16*>(values.data())[i], v);
    if (type == DType::f16) from_float(reinterpret_cast<f16*>(values.data())[i], v);
  }
  std::vector<TensorSpec> specs;
  for (std::int64_t i = 0; i < matrices; ++i) specs.push_back({std::to_string(i), type, {4096, 11008}});
  write_shards(folder, "model", specs,
               [&](const TensorSpec& s) { return Tensor(values.data(), s.dtype, s.shape); });
}

void files(const std::string& root, double gigabytes) {
  std::printf("| from the page cache | GB/s | 10^9 elements/s |\n|---|---|---|\n");
  for (const DType from : {DType::bf16, DType::f16, DType::f32}) {
    const std::string folder = root + "/" + name_of(from);
    const auto matrices = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(gigabytes * 1e9 / static_cast<double>(kMatrix * size_of(from))));
    write_model(folder, from, matrices);
    const ModelFolder model(folder);
    std::vector<float> to(static_cast<std::size_t>(kMatrix));
    const auto elements = static_cast<double>(matrices * kMatrix);
    const auto row = [&](const char* what, double seconds) {
      std::printf("| %s %s | %.2f | %.2f |\n", name_of(from), what,
                  elements * static_cast<double>(size_of(from)) / seconds * 1e-9, elements / seconds * 1e-9);
    };
    for (const DType type : {DType::f32, DType::bf16})
      if (type == DType::f32 || type == from)
        row(type == from ? "as it is" : "to float32", best_of([&] {
              for (const std::string& name : model.names())
                model.read(name, Tensor(reinterpret_cast<std::byte*>(to.data()), type, {kMatrix}));
            }));
    row("to nf4, double", best_of([&] {
          for (const std::string& name : model.names())
            quantize(kMatrix, from, {FourBitBook::nf4, 64, true},
                     [&](const Tensor& y, std::int64_t first) { model.read(name, y, first); });
        }));
    row("to fp8", best_of([&] {
          for (const std::string& name : model.names())
            quantize_fp8(4096, 11008, from, kFp8Channels,
                         [&](const Tensor& y, std::int64_t first) { model.read(name, y, first); });
        }));
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace ft

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: bench_load FOLDER [GB]\n"), 2;
  ft::kernels();
  ft::files(argv[1], argc > 2 ? std::atof(argv[2]) : 2);
}
