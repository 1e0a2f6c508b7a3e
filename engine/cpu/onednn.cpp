// See onednn.h.
#include "engine/cpu/onednn.h"

#include <omp.h>  // oneDNN's threads

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

namespace ft::cpu {
namespace {

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
  memory y, a, b, c, scratch;
  std::int64_t scratch_bytes;
};

// How c comes in: as the y there is, as a bias, as another matrix.
enum class C : std::int64_t { none, same, bias, matrix };
C kind_of_c(const ProductCall& call) {
  if (call.c == nullptr) return C::none;
  if (call.ldc == 0) return C::bias;
  return call.c == call.y ? C::same : C::matrix;
}

// All that a primitive depends on.
using Key = std::array<std::int64_t, 12>;

}  // namespace

struct OneDnn::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, std::optional<Primitive>> primitives;

  Primitive make(const ProductCall& call, C kind) {
    const ProductTerm& t = call.terms[0];
    const auto a = matrix(call.rows, t.k, t.lda, t.a_transposed, call.operands);
    const auto b = matrix(t.k, call.cols, t.ldb, t.b_transposed, call.operands);
    const auto y = matrix(call.rows, call.cols, call.ldy, false, call.y_type);
    const auto c = kind == C::bias     ? matrix(1, call.cols, call.cols, false, call.c_type)
                   : kind == C::matrix ? matrix(call.rows, call.cols, call.ldc, false, call.c_type)
                                       : memory::desc();
    dnnl::post_ops after;
    if (kind == C::same) after.append_sum(1);
    if (kind == C::matrix) after.append_binary(dnnl::algorithm::binary_add, c);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(after);
    const auto pd = describe<dnnl::matmul>(engine, a, b, kind == C::bias ? c : memory::desc(), y, attr);
    const auto scratch = pd.scratchpad_desc();
    const auto handle = [&](const memory::desc& d) { return memory(d, engine, nullptr); };
    const bool has_c = kind == C::bias || kind == C::matrix;
    return {dnnl::matmul(pd),
            handle(y),
            handle(a),
            handle(b),
            has_c ? handle(c) : memory(),
            handle(scratch),
            static_cast<std::int64_t>(scratch.get_size())};
  }

  // Null when oneDNN has nothing for it.
  Primitive* of(const ProductCall& call, C kind) {
    const ProductTerm& t = call.terms[0];
    const auto number = [](auto x) { return static_cast<std::int64_t>(x); };
    const Key key{call.rows,
                  call.cols,
                  t.k,
                  call.ldy,
                  t.lda,
                  t.ldb,
                  number(t.a_transposed) + 2 * number(t.b_transposed),
                  number(call.operands) + 100 * number(call.y_type),
                  number(kind),
                  kind == C::none ? 0 : number(call.c_type),
                  call.ldc,
                  call.threads};
    auto found = primitives.find(key);
    if (found == primitives.end()) {
      std::optional<Primitive> made;
      try {
        made = make(call, kind);
      } catch (const dnnl::error&) {
      }
      found = primitives.emplace(key, std::move(made)).first;
    }
    return found->second ? &*found->second : nullptr;
  }
};

OneDnn::OneDnn() : state_(std::make_unique<State>()) {}
OneDnn::~OneDnn() = default;

bool OneDnn::run(const ProductCall& call, std::int64_t workspace_bytes) {
  if (call.count != 1 || call.alpha != 1 || call.y_transposed || call.terms[0].k == 0) return false;
  if (omp_get_max_threads() != call.threads) omp_set_num_threads(call.threads);
  const C kind = kind_of_c(call);
  Primitive* p = state_->of(call, kind);
  if (p == nullptr || p->scratch_bytes > workspace_bytes) return false;
  const auto pointer = [](const void* x) { return const_cast<void*>(x); };  // its handles do not know const
  p->y.set_data_handle(call.y);
  p->a.set_data_handle(pointer(call.terms[0].a));
  p->b.set_data_handle(pointer(call.terms[0].b));
  p->scratch.set_data_handle(call.workspace);
  std::unordered_map<int, memory> args{{DNNL_ARG_DST, p->y},
                                       {DNNL_ARG_SRC, p->a},
                                       {DNNL_ARG_WEIGHTS, p->b},
                                       {DNNL_ARG_SCRATCHPAD, p->scratch}};
  if (kind == C::bias || kind == C::matrix) {
    p->c.set_data_handle(pointer(call.c));
    args.emplace(kind == C::bias ? DNNL_ARG_BIAS : DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, p->c);
  }
  p->run.execute(state_->stream, args);
  return true;
}

OneDnnTypes onednn_types() {
  __builtin_cpu_init();
  return {.f32 = false, .bf16 = __builtin_cpu_supports("amx-bf16") != 0};
}

}  // namespace ft::cpu
