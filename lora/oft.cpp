#include "lora/oft.h"

#include <algorithm>

#include "engine/layers/sum.h"
#include "lora/kinds.h"
#include "lora/starts/decompose.h"

namespace ft::lora {
namespace {

// Returns the factors of Q^0, Q^1, ..., which are PEFT's with this number of terms.
std::vector<float> series(std::int64_t terms) {
  if (terms == 2) return {1, 2};
  std::vector<float> factors(static_cast<std::size_t>(std::max<std::int64_t>(terms, 4)), 2);
  factors.front() = factors.back() = 1;
  return factors;
}

}  // namespace

std::int64_t oft_block(std::int64_t in, std::int64_t wanted) {
  if (wanted >= in) return in;
  std::int64_t lower = wanted, higher = wanted;
  while (in % lower != 0) --lower;
  while (in % higher != 0) ++higher;
  return wanted - lower <= higher - wanted ? lower : higher;
}

OftAdapter::OftAdapter(const AdapterForm& f, std::int64_t block, bool shared, std::int64_t terms)
    : FullWidthAdapter(f.out, f.in),
      above{.name = f.module + ".oft_R.weight",
            .shape = {shared ? 1 : f.in / block, block * (block - 1) / 2},
            .trainable = true},
      block_(block),
      series_(series(terms)) {}

void OftAdapter::cut(Cut, TensorRank, const Parts&) {
  throw UserError(
      Exit::config,
      "lora.peft_type: oft is not with distributed.tensor_parallel_size yet; leave one of the two out");
}

Tensor OftAdapter::square(Ctx& c) const { return c.scratch.take({block_, matrices() * block_}, DType::f32); }

Tensor OftAdapter::skew(Ctx& c, float sign) const {
  const Tensor q = square(c);
  c.ops.run(op::SkewMatrices{.y = q, .x = above.value, .sign = sign});
  return q;
}

std::vector<Tensor> OftAdapter::sums(Ctx& c, Tensor q) const {
  std::vector<Tensor> all;
  Tensor last = square(c);
  c.ops.run(op::Fill{last, 0});
  for (std::size_t i = series_.size(); i-- > 0;) {
    const Tensor next = square(c);
    c.ops.run(op::BlockProducts{.y = next, .x = last, .b = q, .diagonal = series_[i]});
    all.push_back(last = next);
  }
  std::ranges::reverse(all);
  return all;
}

void OftAdapter::rotate(Ctx& c, Tensor y, Tensor x) const {
  Scope scratch(c.scratch);
  const Tensor r = sums(c, skew(c, 1)).front();
  c.ops.run(op::BlockProducts{.y = y, .x = x, .b = r});
}

// R is a polynomial of Q, so R^T is the same polynomial of Q^T = -Q.
void OftAdapter::rotate_grad(Ctx& c, Tensor dx, Tensor dy, Tensor x) const {
  if (dx) {
    Scope scratch(c.scratch);
    const Tensor turned = sums(c, skew(c, -1)).front();
    c.ops.run(op::BlockProducts{.y = dx, .x = dy, .b = turned});
  }
  if (!above.grad) return;
  Scope scratch(c.scratch);
  const Tensor dr = square(c);
  c.ops.run(op::Fill{dr, 0});
  c.ops.run(op::BlockProductsGrad{.db = dr, .x = x, .dy = dy});
  add_grad(c, dr);
}

// With dP_0 = dR: dQ is the sum of P_(j + 1)^T dP_j, and dP_(j + 1) = dP_j Q^T.
void OftAdapter::add_grad(Ctx& c, Tensor dr) const {
  const Tensor dq = square(c), transposed = skew(c, -1);
  const std::vector<Tensor> p = sums(c, skew(c, 1));
  c.ops.run(op::Fill{dq, 0});
  Tensor dp = dr;
  for (std::size_t j = 0; j + 1 < p.size(); ++j) {
    c.ops.run(op::BlockProductsGrad{.db = dq, .x = p[j + 1], .dy = dp});
    const Tensor next = square(c);
    c.ops.run(op::BlockProducts{.y = next, .x = dp, .b = transposed});
    dp = next;
  }
  c.ops.run(op::SkewMatricesGrad{.dx = above.grad, .dy = dq});
}

void OftAdapter::initialize(const Parameter& p, LoraInit init, Random random, Tensor y,
                            std::int64_t first) const {
  const Random family = random.with(p.name);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] =
        init == LoraInit::random_b
            ? static_cast<float>(0.1 * normal_at(family, static_cast<std::uint64_t>(first + i)))
            : 0;
}

// Merges by W R^T, in double precision.
void OftAdapter::merge(Ops&, const ParameterValues& values, Tensor y, bool turned) const {
  require(!turned, "OFT of a weight that is stored inputs first");
  const Tensor read = values(above);
  const std::int64_t n = block_, out = weight_shape()[0], in = weight_shape()[1];
  const auto size = static_cast<std::size_t>(n * n);
  std::vector<double> q(size), r(size), next(size), row(static_cast<std::size_t>(n));
  const auto at = [n](std::int64_t i, std::int64_t k) { return static_cast<std::size_t>(i * n + k); };
  for (std::int64_t block = 0; block < in / n; ++block) {
    if (block < matrices()) {
      const float* from = read.as<float>() + block * read.cols();
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = i + 1; k < n; ++k) q[at(k, i)] = -(q[at(i, k)] = static_cast<double>(*from++));
      std::ranges::fill(r, 0);
      for (std::size_t term = series_.size(); term-- > 0;) {
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t k = 0; k < n; ++k) {
            double sum = i == k ? static_cast<double>(series_[term]) : 0;
            for (std::int64_t l = 0; l < n; ++l) sum += r[at(i, l)] * q[at(l, k)];
            next[at(i, k)] = sum;
          }
        std::swap(r, next);
      }
    }
    for (std::int64_t o = 0; o < out; ++o) {
      float* w = y.as<float>() + o * in + block * n;
      std::copy_n(w, n, row.begin());
      for (std::int64_t k = 0; k < n; ++k) {
        double sum = 0;
        for (std::int64_t l = 0; l < n; ++l) sum += r[at(k, l)] * row[static_cast<std::size_t>(l)];
        w[k] = static_cast<float>(sum);
      }
    }
  }
}

namespace {

constexpr PeftKey kOftKeys[] = {{"bias", "bias"},
                                {"block_share", "block_share"},
                                {"coft", nullptr, "false", true},
                                {"eps", nullptr, "6e-05"},  // of coft
                                {"exclude_modules", "exclude_modules"},
                                {"fan_in_fan_out", nullptr, "false"},
                                {"init_weights", "init_lora_weights"},
                                {"layers_pattern", "layers_pattern"},
                                {"layers_to_transform", "layers_to_transform"},
                                {"module_dropout", nullptr, "0.0", true},
                                {"modules_to_save", "modules_to_save"},
                                {"num_cayley_neumann_terms", "num_cayley_neumann_terms"},
                                {"oft_block_size", "oft_block_size"},
                                {"r", nullptr, "0", true},
                                {"target_modules", "target_modules"},
                                {"use_cayley_neumann", nullptr, "true", true}};
constexpr LoraInit kOftStarts[] = {LoraInit::kaiming, LoraInit::random_b};

std::unique_ptr<LinearAdapter> make_oft(const LoraConfig& c, const AdapterForm& form) {
  return std::make_unique<OftAdapter>(form, oft_block(form.in, c.oft_block_size), c.block_share,
                                      c.num_cayley_neumann_terms);
}

std::string fault_of_oft(const LoraConfig& c, std::int64_t in) {
  if (oft_block(in, c.oft_block_size) > 1) return "";
  return str("oft_block_size: is ", c.oft_block_size, ", and the nearest that divides ", in,
             " inputs is 1, with nothing to train");
}

std::string note_of_oft(const LoraConfig& c, std::int64_t in) {
  const std::int64_t block = oft_block(in, c.oft_block_size);
  if (block == c.oft_block_size) return "";
  return str("oft_block_size: is ", c.oft_block_size, ", which does not divide ", in,
             " inputs; their blocks have ", block, ", as in PEFT");
}

}  // namespace

constexpr AdapterKind kinds::kOft{.name = "oft",
                                  .peft_type = "OFT",
                                  .title = "OFT",
                                  .rank = 8,
                                  .keys = kOftKeys,
                                  .starts = kOftStarts,
                                  .lora_only = "oft_only",
                                  .fault_of = fault_of_oft,
                                  .note_of = note_of_oft,
                                  .before_versions =
                                      "was written by PEFT before 0.18, whose series of OFT has "
                                      "other terms",
                                  .inputs_first = false,
                                  .by_request = false,
                                  .make = make_oft};

}  // namespace ft::lora
