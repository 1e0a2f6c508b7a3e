#include "engine/cuda/cudnn_attention.h"

#include <limits>
#include <map>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/cudnn_shapes.h"

namespace ft {
namespace cuda {
namespace {

constexpr std::int64_t kFewest = 128, kWidest = 128, kAlign = 16, kSlack = 256;
constexpr std::size_t kMostPlans = 64;  // a plan takes half a second to make

// Rows of each sequence; 0: they differ.
std::int64_t equal_rows(std::span<const std::int32_t> starts) {
  if (starts.size() < 2) return 0;
  const std::int32_t rows = starts[1] - starts[0];
  for (std::size_t i = 2; i < starts.size(); ++i)
    if (starts[i] - starts[i - 1] != rows) return 0;
  return rows;
}

bool fits(const Tensor& t) {
  return t && t.dtype == DType::bf16 && t.stride % (kAlign / 2) == 0 &&
         reinterpret_cast<std::uintptr_t>(t.data) % kAlign == 0;
}

class Attention final : public CudnnAttention {
 public:
  Attention(const Cudnn& f, Gpu& gpu, std::byte* workspace, std::int64_t bytes)
      : cudnn_(f), workspace_(workspace), bytes_(bytes) {
    try {
      gpu.use();
      device_ = cudnn_device(f, gpu.index());
    } catch (const CudnnRefusal& r) {
      throw failure(r.why);
    }
    must(f.create_handle(&handle_));
    must(f.set_stream(handle_, gpu.stream()));
  }
  ~Attention() override { cudnn_.destroy_handle(handle_); }

  bool forward(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
               const Scores& scores) override {
    if (!takes(heads, mask, scores) || !(fits(y) && fits(q) && fits(k) && fits(v))) return false;
    const CudnnShape s = shape_of(y, q, k, v, heads, mask);
    const CudnnPlan* plan = plan_of(s);
    if (!plan) return false;
    for (const std::int32_t first : mask.starts.first(mask.starts.size() - 1)) {
      Pack pack(s, scores.scale);
      pack.rows(cudnn_id::kQ, q, first).rows(cudnn_id::kK, k, first).rows(cudnn_id::kV, v, first);
      pack.rows(cudnn_id::kY, y, first).memory(cudnn_id::kLse, lse.as<float>() + first);
      run(*plan, pack, sums_bytes(s));
    }
    return true;
  }
  bool backward(Tensor dq, Tensor dk, Tensor dv, Tensor dy, Tensor y, Tensor lse, Tensor q, Tensor k,
                Tensor v, Heads heads, const Mask& mask, const Scores& scores) override {
    if (!takes(heads, mask, scores) || !(fits(y) && fits(q) && fits(k) && fits(v)) ||
        !(fits(dy) && fits(dq) && fits(dk) && fits(dv)))
      return false;
    CudnnShape s = shape_of(y, q, k, v, heads, mask);
    s.gradient = true;
    s.dy = dy.stride, s.dq = dq.stride, s.dk = dk.stride, s.dv = dv.stride;
    const CudnnPlan* plan = plan_of(s);
    if (!plan) return false;
    for (const std::int32_t first : mask.starts.first(mask.starts.size() - 1)) {
      Pack pack(s, scores.scale);
      pack.rows(cudnn_id::kQ, q, first).rows(cudnn_id::kK, k, first).rows(cudnn_id::kV, v, first);
      pack.rows(cudnn_id::kY, y, first).rows(cudnn_id::kDy, dy, first).rows(cudnn_id::kDq, dq, first);
      pack.rows(cudnn_id::kDk, dk, first).rows(cudnn_id::kDv, dv, first);
      pack.memory(cudnn_id::kLse, lse.as<float>() + first).memory(cudnn_id::kSums, workspace_);
      run(*plan, pack, sums_bytes(s));
    }
    return true;
  }

 private:
  // What a run is given, by number.
  struct Pack {
    Pack(const CudnnShape& s, float scale_of) : scale(scale_of) {
      memory(cudnn_id::kScale, &scale);
      if (s.causal) memory(cudnn_id::kMinusInfinity, &minus_infinity);
      if (s.gradient) memory(cudnn_id::kOne, &one);
    }
    Pack(const Pack&) = delete;
    Pack& operator=(const Pack&) = delete;
    Pack& memory(std::int64_t id, void* at) {
      ids.push_back(id);
      pointers.push_back(at);
      return *this;
    }
    Pack& rows(std::int64_t id, const Tensor& t, std::int64_t first) {
      return memory(id, t.data + first * t.stride * size_of(t.dtype));
    }
    float scale, minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
  };

  static UserError failure(const std::string& why) {
    return {Exit::hardware,
            str("cuDNN failed: ", why, "; model.attn_implementation=auto computes attention without it")};
  }
  void must(cudnnStatus_t status) const {
    if (status != CUDNN_STATUS_SUCCESS) throw failure(cudnn_.error_text(status));
  }

  static bool takes(Heads heads, const Mask& mask, const Scores& scores) {
    const std::int64_t rows = equal_rows(mask.starts);
    return rows >= kFewest && rows % 8 == 0 && heads.width <= kWidest && heads.width % 8 == 0 &&
           mask.window == 0 && mask.key_starts.empty() && !scores.bias && scores.dropout == 0;
  }
  static CudnnShape shape_of(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                             const Mask& mask) {
    return {.rows = equal_rows(mask.starts),
            .query_heads = heads.query,
            .key_heads = heads.key_value,
            .width = heads.width,
            .lse_stride = q.rows(),
            .q = q.stride,
            .k = k.stride,
            .v = v.stride,
            .y = y.stride,
            .causal = mask.causal};
  }
  // Bytes at the beginning of the workspace for the sums of dy y.
  static std::int64_t sums_bytes(const CudnnShape& s) {
    const std::int64_t bytes = s.gradient ? s.query_heads * s.rows * size_of(DType::f32) : 0;
    return (bytes + kSlack - 1) / kSlack * kSlack;
  }

  // Null: cuDNN has none for this shape, or it needs more memory than there is.
  const CudnnPlan* plan_of(const CudnnShape& s) {
    const auto known = plans_.find(s);
    if (known != plans_.end()) return known->second ? &*known->second : nullptr;
    if (plans_.size() >= kMostPlans) return nullptr;
    auto& plan = plans_[s];
    try {
      CudnnPlan made = cudnn_plan(cudnn_, s, *device_);
      if (made.workspace + sums_bytes(s) <= bytes_) plan = std::move(made);
    } catch (const CudnnRefusal&) {
    }
    return plan ? &*plan : nullptr;
  }

  // sums: bytes of the workspace that the plan must not touch.
  void run(const CudnnPlan& plan, const Pack& pack, std::int64_t sums) const {
    try {
      CudnnDescriptor d(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      d.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(pack.ids));
      d.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
            std::span<void* const>(pack.pointers));
      void* rest = workspace_ + sums;
      d.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, rest);
      d.finalize();
      must(cudnn_.execute(handle_, plan.plan->raw(), d.raw()));
    } catch (const CudnnRefusal& r) {
      throw failure(r.why);
    }
  }

  const Cudnn& cudnn_;
  std::byte* workspace_;
  std::int64_t bytes_;
  CudnnPart device_;
  cudnnHandle_t handle_ = nullptr;
  std::map<CudnnShape, std::optional<CudnnPlan>> plans_;  // empty: not taken
};

}  // namespace

std::unique_ptr<CudnnAttention> make_cudnn_attention(Gpu& gpu, std::byte* workspace, std::int64_t bytes) {
  const Cudnn* f = cudnn();
  if (!f)
    throw UserError(Exit::hardware,
                    "model.attn_implementation: cuDNN 9.8 or later (libcudnn.so.9) is not found; install "
                    "NVIDIA's cuDNN, or say where it is with ft --cuda-libs DIR, or leave the setting out");
  return std::make_unique<Attention>(*f, gpu, workspace, bytes);
}

}  // namespace cuda

std::optional<std::string> cudnn_version() {
  const cuda::Cudnn* f = cuda::cudnn();
  if (!f) return {};
  const std::size_t v = f->version();
  return str(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

}  // namespace ft
