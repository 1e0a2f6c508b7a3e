// Measures products of a few rows with stored weights, the work of generating one token at a time. A model's
// matrices are multiplied one after the other, too many for the cache, so they come from memory.
// bench_decoding [threads] [target] [rows] [MiB]: markdown on standard output.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/cpu_bench.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/memory.h"
#include "engine/cpu/products.h"
#include "engine/formats/four_bit.h"
#include "engine/formats/fp8.h"
#include "engine/formats/int8.h"

namespace ft::cpu {
namespace {

enum class Kind { f32, bf16, fp8, fp8_blocks, int8, nf4, nested };
constexpr const char* kNames[] = {
    "f32", "bf16", "fp8", "fp8, 128 x 128", "int8", "nf4", "nf4, double quantization"};

template <class T>
Tensor view(std::vector<T>& v) {
  return Tensor(reinterpret_cast<std::byte*>(v.data()), DTypeOf<T>::value,
                {static_cast<std::int64_t>(v.size())});
}

// A weight (cols, k) of random values.
struct Weight {
  Shape shape;
  std::vector<std::byte> dense;
  FourBitData four;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  Term term;  // only the weights are set, x is not

  Weight(Kind kind, Shape of, std::uint64_t seed) : shape(of) {
    term.tb = Trans::yes;
    if (kind == Kind::f32 || kind == Kind::bf16) {
      const DType type = kind == Kind::f32 ? DType::f32 : DType::bf16;
      dense.resize(static_cast<std::size_t>(shape.numel() * size_of(type)));
      fill_random(dense.data(), shape.numel(), type, seed);
      term.b = Tensor(dense.data(), type, shape);
      return;
    }
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    fill_random(reinterpret_cast<std::byte*>(values.data()), shape.numel(), DType::f32, seed);
    if (kind == Kind::fp8 || kind == Kind::fp8_blocks) {
      const Fp8Scheme scheme = kind == Kind::fp8 ? kFp8Channels : kFp8Blocks;
      Fp8Data data =
          quantize_fp8(shape[0], shape[1], DType::f32, scheme, [&](const Tensor& to, std::int64_t at) {
            std::copy_n(values.data() + at, to.numel(), to.as<float>());
          });
      scales = std::move(data.scales);
      codes = std::move(data.codes);
      term.fp8 = {scheme, shape, view(codes), view(scales)};
    } else if (kind == Kind::int8) {
      const Int8Data data = quantize_int8(shape.numel(), DType::f32, [&](const Tensor& to, std::int64_t at) {
        std::copy_n(values.data() + at, to.numel(), to.as<float>());
      });
      scales = data.scales;
      codes.assign(data.codes.begin(), data.codes.end());
      term.int8 = Int8Matrix{shape, view(codes), view(scales)};
    } else {
      const FourBitForm form{.nested = kind == Kind::nested};
      four = quantize(values, form);
      term.four_bit = {form,
                       shape,
                       view(four.codes),
                       form.nested ? view(four.absmax_codes) : view(four.absmax),
                       form.nested ? view(four.nested_absmax) : Tensor{},
                       form.nested
                           ? Tensor(reinterpret_cast<std::byte*>(&four.nested_offset), DType::f32, {1})
                           : Tensor{}};
    }
  }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(dense.size() + codes.size() + four.codes.size() +
                                     four.absmax_codes.size() +
                                     4 * (scales.size() + four.absmax.size() + four.nested_absmax.size()));
  }
};

// Prints the machine's limit: reads `mib` MiB, one word of each cache line, 21 times, and takes the median.
void read_memory(Team& team, std::int64_t mib) {
  constexpr std::int64_t kLine = 8, kPiece = 8192;  // words
  const std::int64_t bytes = mib << 20;
  const Buffer memory = reserve(bytes);
  auto* words = reinterpret_cast<std::uint64_t*>(memory.get());
  std::fill_n(words, bytes / 8, 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(team.size() * kLine));  // one line per thread
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i)
    seconds.push_back(time_of(team, [&] {
      share_out(team, bytes / 8 / kPiece, false, [&](std::int64_t piece, int thread) {
        std::uint64_t& sum = sums[static_cast<std::size_t>(thread * kLine)];
        for (std::int64_t w = 0; w < kPiece; w += kLine) sum += words[piece * kPiece + w];
      });
    }));
  std::nth_element(seconds.begin(), seconds.begin() + 10, seconds.end());
  std::printf("| none: memory is read | %ld.0 | %.1f | |\n", mib,
              static_cast<double>(bytes) / seconds[10] * 1e-9);
}

struct Bench {
  const Kernels& kernels;
  Team& team;
  std::int64_t rows;
  Sums sums;

  // Runs the matrices of LLaMA's layers of 768 by 2048: at least one, and together at least `mib` MiB.
  void kind(Kind kind, std::int64_t mib) const {
    std::vector<std::unique_ptr<Weight>> weights;
    std::int64_t bytes = 0, elements = 0;
    constexpr std::int64_t kShapes[][2] = {{768, 768}, {2048, 768}, {768, 2048}};
    for (std::size_t i = 0; i == 0 || bytes < mib << 20; ++i) {
      const auto& [cols, k] = kShapes[i % 3];
      const Weight& w = *weights.emplace_back(std::make_unique<Weight>(kind, Shape{cols, k}, i));
      bytes += w.bytes();
      elements += cols * k;
    }
    const DType type = kind == Kind::f32 ? DType::f32 : DType::bf16;
    std::vector<std::byte> x(static_cast<std::size_t>(rows * 2048 * 4)), y(x.size());
    fill_random(x.data(), rows * 2048, type, 1);
    Products products(kernels.products, team, {}, sums);
    double best = 1e9, spent = 0;
    for (int i = 0; i < 4000 && (i < 5 || spent < 1); ++i) {
      const double one = time_of(team, [&] {
        for (const auto& w : weights) {
          Term term = w->term;
          term.a = Tensor(x.data(), type, {rows, w->shape[1]});
          products.run({.y = Tensor(y.data(), type, {rows, w->shape[0]}), .terms = {&term, 1}});
        }
      });
      best = std::min(best, one);
      spent += one;
    }
    std::printf("| %s%s | %.1f | %.1f | %.1f |\n", kNames[static_cast<int>(kind)],
                sums == Sums::in_any_order ? ", in any order" : "", static_cast<double>(bytes) / (1 << 20),
                static_cast<double>(bytes) / best * 1e-9, static_cast<double>(elements) / best * 1e-9);
    std::fflush(stdout);
  }
};

void run(int threads, Target target, std::int64_t rows, std::int64_t mib) {
  Team team(threads);
  std::printf("%s, %d threads, %ld rows\n\n| weights | MiB | GB/s | 1e9 weights/s |\n|---|---|---|---|\n",
              name_of(target), threads, rows);
  read_memory(team, mib);
  for (const Kind kind :
       {Kind::f32, Kind::bf16, Kind::fp8, Kind::fp8_blocks, Kind::int8, Kind::nf4, Kind::nested})
    for (const Sums sums : {Sums::in_one_order, Sums::in_any_order}) {
      const Bench bench{kernels_of(target), team, rows, sums};
      for (const std::int64_t size : {std::int64_t{0}, mib}) bench.kind(kind, size);
      if (kind == Kind::f32 || kind == Kind::bf16) break;
    }
}

}  // namespace
}  // namespace ft::cpu

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : ft::cpu::usable_cores();
  const ft::cpu::Target target = ft::cpu::target_named(argc > 2 ? argv[2] : "");
  ft::cpu::run(threads, target, argc > 3 ? std::stoi(argv[3]) : 1, argc > 4 ? std::stoi(argv[4]) : 128);
}
