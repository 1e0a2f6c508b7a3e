// See onednn.h.
#include "engine/cpu/onednn.h"

#include <omp.h>  // sets oneDNN's number of threads to one

#include <algorithm>
#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "engine/core/divide.h"

namespace ft::cpu {
namespace {

using dnnl::memory;

memory::data_type type_of(DType t) {
  return t == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}
// (rows, cols) in memory order, or the transposed view.
memory::desc matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, bool transposed, DType t) {
  const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  return {{rows, cols}, type_of(t), strides};
}

// Creates a primitive's descriptor. Versions 2 and 3 of oneDNN differ in one thing: 2 has a further
// descriptor between the matrices and the primitive's.
template <class Matmul>
auto describe(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
              const memory::desc& bias, const memory::desc& y, const dnnl::primitive_attr& attr) {
  using Descriptor = typename Matmul::primitive_desc;
  if constexpr (requires { typename Matmul::desc; }) {
    if (bias == memory::desc()) return Descriptor(typename Matmul::desc(a, b, y), attr, engine);
    return Descriptor(typename Matmul::desc(a, b, bias, y), attr, engine);
  } else {
    if (bias == memory::desc()) return Descriptor(engine, a, b, y, attr);
    return Descriptor(engine, a, b, bias, y, attr);
  }
}

struct Primitive {
  dnnl::matmul run;
  memory::desc y, a, b, c, scratch;
};

// Summands in addition to the product: the old y, and a bias or another matrix.
enum class C : std::int64_t { none, bias, matrix };
struct Added {
  bool y;
  C c;
};
Added added_of(const ProductCall& call, bool onto) {
  if (call.c == nullptr) return {onto, C::none};
  if (call.ldc == 0) return {onto, C::bias};
  return call.c == call.y ? Added{true, C::none} : Added{onto, C::matrix};
}

// A part of y with its parts of the operands.
struct Block {
  ProductCall call;  // its terms are not used
  ProductTerm term;
};

// The parts of y for threads: at least two per thread. b's columns are divided first, because each part packs
// its columns of b; rows are divided too if there are few columns.
class Blocks {
 public:
  explicit Blocks(const ProductCall& call) : call_(call), rows_(call.rows), cols_(call.cols) {
    if (call.threads == 1) return;
    constexpr std::int64_t kLeastCols = 256, kCols = 64, kRows = 32;  // multiples of the last two
    const std::int64_t wanted = 2 * call.threads;
    cols_ = round_up(ceil_div(call.cols, std::min(wanted, ceil_div(call.cols, kLeastCols))), kCols);
    rows_ = round_up(ceil_div(call.rows, ceil_div(wanted, across())), kRows);
  }
  std::int64_t across() const { return ceil_div(call_.cols, cols_); }
  std::int64_t down() const { return ceil_div(call_.rows, rows_); }

  Block at(std::int64_t i, std::int64_t j) const {
    const std::int64_t row = i * rows_, col = j * cols_;
    Block b{call_, call_.terms[0]};
    const auto moved = [](const void* p, std::int64_t elements, DType t) {
      return p ? static_cast<const std::byte*>(p) + elements * size_of(t) : nullptr;
    };
    b.call.rows = std::min(rows_, call_.rows - row);
    b.call.cols = std::min(cols_, call_.cols - col);
    b.call.y = static_cast<std::byte*>(call_.y) + (row * call_.ldy + col) * size_of(call_.y_type);
    b.call.c = moved(call_.c, row * call_.ldc + col, call_.c_type);
    b.term.a = moved(b.term.a, b.term.a_transposed ? row : row * b.term.lda, call_.operands);
    b.term.b = moved(b.term.b, b.term.b_transposed ? col * b.term.ldb : col, call_.operands);
    return b;
  }

 private:
  const ProductCall& call_;
  std::int64_t rows_, cols_;  // of a block
};

constexpr std::int64_t kPage = 4096;

// The values that a primitive depends on.
using Key = std::array<std::int64_t, 12>;

}  // namespace

struct OneDnn::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::map<Key, std::optional<Primitive>> primitives;

  Primitive make(const Block& block, Added added) const {
    const auto& [call, t] = block;
    const auto a = matrix(call.rows, t.k, t.lda, t.a_transposed, call.operands);
    const auto b = matrix(t.k, call.cols, t.ldb, t.b_transposed, call.operands);
    const auto y = matrix(call.rows, call.cols, call.ldy, false, call.y_type);
    const auto c = added.c == C::bias     ? matrix(1, call.cols, call.cols, false, call.c_type)
                   : added.c == C::matrix ? matrix(call.rows, call.cols, call.ldc, false, call.c_type)
                                          : memory::desc();
    dnnl::post_ops after;
    if (added.y) after.append_sum(1);  // first: y may be small, c is not
    if (added.c == C::matrix) after.append_binary(dnnl::algorithm::binary_add, c);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(after);
    const auto pd = describe<dnnl::matmul>(engine, a, b, added.c == C::bias ? c : memory::desc(), y, attr);
    return {dnnl::matmul(pd), y, a, b, c, pd.scratchpad_desc()};
  }

  void run(const Primitive& p, const Block& block, Added added, std::byte* scratch) const {
    const auto& [call, term] = block;
    const auto at = [&](const memory::desc& d, const void* x) {  // oneDNN's handles are not const
      return memory(d, engine, const_cast<void*>(x));
    };
    std::unordered_map<int, memory> args{{DNNL_ARG_DST, at(p.y, call.y)},
                                         {DNNL_ARG_SRC, at(p.a, term.a)},
                                         {DNNL_ARG_WEIGHTS, at(p.b, term.b)},
                                         {DNNL_ARG_SCRATCHPAD, at(p.scratch, scratch)}};
    if (added.c == C::bias) args.emplace(DNNL_ARG_BIAS, at(p.c, call.c));
    if (added.c == C::matrix)
      args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(added.y ? 1 : 0) | DNNL_ARG_SRC_1, at(p.c, call.c));
    dnnl::stream stream(engine);
    p.run.execute(stream, args);
  }

  // Returns null if oneDNN has no primitive for it.
  const Primitive* of(const Block& block, Added added) {
    const auto& [call, t] = block;
    const auto number = [](auto x) { return static_cast<std::int64_t>(x); };
    const Key key{call.rows,
                  call.cols,
                  t.k,
                  call.ldy,
                  t.lda,
                  t.ldb,
                  number(t.a_transposed) + 2 * number(t.b_transposed),
                  number(call.operands) + 100 * number(call.y_type),
                  number(added.y),
                  number(added.c),
                  added.c == C::none ? 0 : number(call.c_type),
                  call.ldc};
    auto found = primitives.find(key);
    if (found == primitives.end()) {
      std::optional<Primitive> made;
      try {
        made = make(block, added);
      } catch (const dnnl::error&) {
      }
      found = primitives.emplace(key, std::move(made)).first;
    }
    return found->second ? &*found->second : nullptr;
  }
};

OneDnn::OneDnn() : state_(std::make_unique<State>()) {}
OneDnn::~OneDnn() = default;

// Primitives for a call: one for all blocks except the last ones, which may be smaller.
struct OneDnn::Prepared {
  Blocks blocks;
  Added added;
  std::int64_t scratch;  // bytes per thread
  const Primitive* primitives[2][2] = {};

  bool last_row(std::int64_t i) const { return i == blocks.down() - 1; }
  bool last_col(std::int64_t j) const { return j == blocks.across() - 1; }
};

std::optional<OneDnn::Prepared> OneDnn::prepare(const ProductCall& call, bool onto,
                                                std::int64_t workspace_bytes) {
  if (call.count != 1 || call.alpha != 1 || call.y_transposed || call.terms[0].k == 0) return {};
  Prepared p{Blocks(call), added_of(call, onto), workspace_bytes / call.threads / kPage * kPage};
  omp_set_num_threads(1);  // this thread's primitives are made for one thread
  for (const std::int64_t i : {std::int64_t{0}, p.blocks.down() - 1})
    for (const std::int64_t j : {std::int64_t{0}, p.blocks.across() - 1}) {
      const Primitive* one = state_->of(p.blocks.at(i, j), p.added);
      if (one == nullptr || static_cast<std::int64_t>(one->scratch.get_size()) > p.scratch) return {};
      p.primitives[p.last_row(i)][p.last_col(j)] = one;
    }
  return p;
}

bool OneDnn::can(const ProductCall& call, bool onto, std::int64_t workspace_bytes) {
  return prepare(call, onto, workspace_bytes).has_value();
}

bool OneDnn::run(const ProductCall& call, bool onto, std::int64_t workspace_bytes) {
  const std::optional<Prepared> p = prepare(call, onto, workspace_bytes);
  if (!p) return false;
  const std::int64_t across = p->blocks.across();
  share_out(*call.team, p->blocks.down() * across, call.threads == 1, [&](std::int64_t u, int thread) {
    const std::int64_t i = u / across, j = u % across;
    omp_set_num_threads(1);
    state_->run(*p->primitives[p->last_row(i)][p->last_col(j)], p->blocks.at(i, j), p->added,
                call.workspace + thread * p->scratch);
  });
  return true;
}

OneDnnTypes onednn_types() {
  __builtin_cpu_init();
  return {.f32 = false, .bf16 = __builtin_cpu_supports("amx-bf16") != 0};
}

}  // namespace ft::cpu
