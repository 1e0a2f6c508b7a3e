// See onednn.h. Primitives are made once for every shape.
#include "bench/onednn.h"

#include <omp.h>

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace ft::bench {
namespace {

using cpu::ProductCall;
using cpu::ProductTerm;

using dnnl::memory;

memory::data_type type_of(DType t) {
  return t == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}
// (rows, cols) as it lies, or the view of its transpose.
memory::desc matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, bool transposed, DType t) {
  const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  return {{rows, cols}, type_of(t), strides};
}

// Versions 2 and 3 differ in one thing: 2 has a descriptor between the matrices and the primitive's.
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
  memory y, a, b, bias, scratch;
  std::int64_t scratch_bytes;
};

// All that a primitive depends on.
using Key = std::array<std::int64_t, 12>;

}  // namespace

struct OneDnn::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Primitive> primitives;

  Primitive make(const ProductCall& call, bool accumulate) {
    const ProductTerm& t = call.terms[0];
    const auto a = matrix(call.rows, t.k, t.lda, t.a_transposed, call.operands);
    const auto b = matrix(t.k, call.cols, t.ldb, t.b_transposed, call.operands);
    const auto y = matrix(call.rows, call.cols, call.ldy, false, call.y_type);
    const bool biased = call.c != nullptr && !accumulate;
    const auto bias = biased ? matrix(1, call.cols, call.cols, false, call.c_type) : memory::desc();
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1);
      attr.set_post_ops(sum);
    }
    const auto pd = describe<dnnl::matmul>(engine, a, b, bias, y, attr);
    const auto scratch = pd.scratchpad_desc();
    return {dnnl::matmul(pd),
            memory(y, engine, nullptr),
            memory(a, engine, nullptr),
            memory(b, engine, nullptr),
            biased ? memory(bias, engine, nullptr) : memory(),
            memory(scratch, engine, nullptr),
            static_cast<std::int64_t>(scratch.get_size())};
  }
};

OneDnn::OneDnn() : state_(std::make_unique<State>()) {}
OneDnn::~OneDnn() = default;

bool OneDnn::run(const ProductCall& call, std::int64_t workspace_bytes) {
  if (call.count != 1 || call.alpha != 1) return false;
  const bool accumulate = call.c == call.y, biased = call.c != nullptr && call.ldc == 0;
  if (call.c != nullptr && !accumulate && !biased) return false;
  const ProductTerm& t = call.terms[0];
  if (t.k == 0) return false;
  const std::int64_t c_kind = accumulate ? 1 : biased ? 2 + static_cast<std::int64_t>(call.c_type) : 0;
  const std::int64_t kinds = (t.a_transposed ? 1 : 0) + (t.b_transposed ? 2 : 0);
  const Key key{call.rows,
                call.cols,
                t.k,
                call.ldy,
                t.lda,
                t.ldb,
                kinds,
                static_cast<std::int64_t>(call.operands),
                static_cast<std::int64_t>(call.y_type),
                c_kind,
                call.threads,
                0};
  if (omp_get_max_threads() != call.threads) omp_set_num_threads(call.threads);
  auto found = state_->primitives.find(key);
  if (found == state_->primitives.end()) {
    try {
      found = state_->primitives.emplace(key, state_->make(call, accumulate)).first;
    } catch (const dnnl::error&) {  // bf16 needs AVX-512 here
      return false;
    }
  }
  Primitive& p = found->second;
  if (p.scratch_bytes > workspace_bytes) return false;
  p.y.set_data_handle(call.y);
  p.a.set_data_handle(const_cast<void*>(t.a));  // oneDNN's handles do not know const
  p.b.set_data_handle(const_cast<void*>(t.b));
  p.scratch.set_data_handle(call.workspace);
  std::unordered_map<int, memory> args{
      {DNNL_ARG_DST, p.y}, {DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_SCRATCHPAD, p.scratch}};
  if (c_kind >= 2) {
    p.bias.set_data_handle(const_cast<void*>(call.c));
    args.emplace(DNNL_ARG_BIAS, p.bias);
  }
  p.run.execute(state_->stream, args);
  return true;
}

}  // namespace ft::bench
