// BOFT (Liu et al., "Parameter-Efficient Orthogonal Finetuning via Butterfly Factorization", 2024), as PEFT
// computes it: diag(s) W M^T with s (out, 1) and M = F_N-1 ... F_0 (in, in) orthogonal. F_i = P_i D_i P_i^T,
// where D_i has D blocks Q (H, H) on its diagonal, and the permutation P_i mixes neighbouring blocks. Q = (I
// - S) (I + S)^-1 with S = (R - R^T) / 2 is the Cayley transform of R (N, D, H, H). Without its CUDA kernels
// PEFT trains one factor, whatever boft_n_butterfly_factor says: the tensor's N is the number of factors.
#include <cmath>
#include <numeric>
#include <utility>

#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

void check_boft(const FoldedLinear& l) {
  const std::vector<std::int64_t>& r = l.shape("boft_R");
  const auto refuse = [&](const std::string& fault) { l.refuse("boft_R", str("is ", shape_text(r), fault)); };
  if (r.size() != 4 || r[0] < 1 || r[1] < 1 || r[2] < 1 || r[2] != r[3] || l.in % r[1] != 0 ||
      l.in / r[1] != r[2])
    refuse(str(", not (factors, blocks, size, size) with blocks times size ", l.in));
  const std::int64_t mixed = r[0] - 1;
  if (mixed > 0 && (r[2] % 2 != 0 || mixed > 62 || r[1] % (std::int64_t{1} << mixed) != 0))
    refuse(str(": ", r[0], " factors need blocks of even size, and a multiple of 2^", mixed, " of them"));
  l.expect("boft_s", {l.out, 1});
}

// Returns the Cayley transform of a block r (n, n): solves (I - S) X = I + S by Gauss and Jordan's
// elimination, and Q = X^T. I - S can always be inverted, because S is skew-symmetric.
std::vector<double> cayley(const float* r, std::int64_t n) {
  std::vector<double> left(static_cast<std::size_t>(n * n)), right(left.size());
  const auto at = [n](std::vector<double>& m, std::int64_t i, std::int64_t j) -> double& {
    return m[static_cast<std::size_t>(i * n + j)];
  };
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double s = 0.5 * (static_cast<double>(r[i * n + j]) - r[j * n + i]);
      at(left, i, j) = (i == j) - s;
      at(right, i, j) = (i == j) + s;
    }
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t i = c + 1; i < n; ++i)
      if (std::abs(at(left, i, c)) > std::abs(at(left, pivot, c))) pivot = i;
    for (std::int64_t j = 0; j < n; ++j) {
      std::swap(at(left, c, j), at(left, pivot, j));
      std::swap(at(right, c, j), at(right, pivot, j));
    }
    const double by = 1 / at(left, c, c);
    for (std::int64_t j = 0; j < n; ++j) at(left, c, j) *= by, at(right, c, j) *= by;
    for (std::int64_t i = 0; i < n; ++i) {
      const double factor = i == c ? 0 : at(left, i, c);
      for (std::int64_t j = 0; factor != 0 && j < n; ++j) {
        at(left, i, j) -= factor * at(left, c, j);
        at(right, i, j) -= factor * at(right, c, j);
      }
    }
  }
  std::vector<double> q(right.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) at(q, i, j) = at(right, j, i);
  return q;
}

// Returns the i-th permutation. It moves half blocks within groups of 2^i blocks: the first, third, fifth,
// ... come first. So the first permutation moves nothing.
std::vector<std::int64_t> butterfly(std::int64_t in, std::int64_t size, std::int64_t i) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(in));
  std::iota(places.begin(), places.end(), 0);
  if (i == 0) return places;
  places.clear();
  const std::int64_t half = size / 2, halves = std::int64_t{2} << i;
  for (std::int64_t group = 0; group < in; group += half * halves)
    for (const std::int64_t parity : {0, 1})
      for (std::int64_t h = parity; h < halves; h += 2)
        for (std::int64_t k = 0; k < half; ++k) places.push_back(group + h * half + k);
  return places;
}

// Multiplies each row of W by F^T. blocks: the Q of the factor, one after another.
void turn_rows(Tensor w, const std::vector<double>& blocks, const std::vector<std::int64_t>& places,
               std::int64_t size) {
  const std::int64_t in = w.cols();
  std::vector<double> x(static_cast<std::size_t>(in));
  for (std::int64_t o = 0; o < w.rows(); ++o) {
    float* row = w.as<float>() + o * in;
    for (std::int64_t j = 0; j < in; ++j)
      x[static_cast<std::size_t>(places[static_cast<std::size_t>(j)])] = row[j];
    for (std::int64_t i = 0; i < in; ++i) {
      const std::int64_t place = places[static_cast<std::size_t>(i)], block = place / size * size;
      double sum = 0;
      for (std::int64_t k = 0; k < size; ++k)
        sum += blocks[static_cast<std::size_t>(place * size + k)] * x[static_cast<std::size_t>(block + k)];
      row[i] = static_cast<float>(sum);
    }
  }
}

void change_by_boft(Ops&, const FoldedLinear& l, Tensor w) {
  const std::vector<std::int64_t>& shape = l.shape("boft_R");
  const std::int64_t count = shape[1], size = shape[2];
  const std::vector<float> r = l.values("boft_R"), s = l.values("boft_s");
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    std::vector<double> blocks;
    for (std::int64_t d = 0; d < count; ++d) {
      const std::vector<double> q = cayley(r.data() + (n * count + d) * size * size, size);
      blocks.insert(blocks.end(), q.begin(), q.end());
    }
    turn_rows(w, blocks, butterfly(l.in, size, n), size);
  }
  for (std::int64_t o = 0; o < l.out; ++o)
    for (std::int64_t i = 0; i < l.in; ++i) w.as<float>()[o * l.in + i] *= s[static_cast<std::size_t>(o)];
}

constexpr Folding kBoftFolding{.check = check_boft, .change = change_by_boft};
constexpr PeftKey kBoftKeys[] = {{"bias", "bias"},
                                 {"boft_block_num", nullptr, "0"},
                                 {"boft_block_size", nullptr, "4"},
                                 {"boft_dropout", nullptr, "0"},
                                 {"boft_n_butterfly_factor", nullptr, "1"},
                                 {"exclude_modules", "exclude_modules"},
                                 {"fan_in_fan_out", nullptr, "false"},
                                 {"init_weights", nullptr, "true"},
                                 {"layers_pattern", "layers_pattern"},
                                 {"layers_to_transform", "layers_to_transform"},
                                 {"modules_to_save", "modules_to_save"},
                                 {"target_modules", "target_modules"}};

}  // namespace

constexpr AdapterKind kinds::kBoft{.name = "boft",
                                   .peft_type = "BOFT",
                                   .title = "BOFT",
                                   .rank = 1,
                                   .keys = kBoftKeys,
                                   .lora_only = "boft_only",
                                   .inputs_first = false,
                                   .folding = &kBoftFolding};

}  // namespace ft::lora
