#include "engine/cuda/cudnn/cudnn_attention.h"

#include <limits>
#include <map>

#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/cudnn/cudnn_runs.h"
#include "engine/cuda/cudnn/cudnn_shapes.h"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/ops.h"

namespace ft {
namespace cuda {
namespace {

using namespace cudnn_id;

constexpr std::int64_t kWidest = 128, kAlign = 16, kSlack = 256;
constexpr std::int64_t kWordBytes = std::int64_t{1} << 20;  // words of the sequences, for all runs of a call
constexpr std::size_t kAllKinds = 91801;  // before 9.18.1 cuDNN accepts some shapes that it computes wrongly

// The operands of an op::Attention or AttentionGrad.
struct Call {
  std::array<Tensor, kDv + 1> tensors;  // by number; tensors of the gradient may be empty
  Tensor lse;
  Heads heads;
  const Mask& mask;
  const Scores& scores;

  const Tensor& at(std::int64_t id) const { return tensors[static_cast<std::size_t>(id)]; }
  bool gradient() const { return static_cast<bool>(at(kDq)); }
};

constexpr bool of_keys(std::int64_t id) { return id == kK || id == kV || id == kDk || id == kDv; }

// True if cuDNN supports the tensor: offsets within it have 32 bits.
bool fits(const Tensor& t, DType type) {
  return t.dtype == type && t.stride % (kAlign / 2) == 0 &&
         reinterpret_cast<std::uintptr_t>(t.data) % kAlign == 0 &&
         t.rows() * t.stride <= std::numeric_limits<std::int32_t>::max();
}

bool takes(const Call& c) {
  const DType type = c.at(kQ).dtype;
  for (const Tensor& t : c.tensors)
    if (t && !fits(t, type)) return false;
  return (type == DType::bf16 || type == DType::f16) && c.heads.width <= kWidest && c.heads.width % 8 == 0 &&
         c.scores.dropout == 0 && c.scores.cap == 0 && (c.mask.window == 0 || c.mask.causal) &&
         !c.mask.blocks;
}

CudnnShape shape_of(const Call& c, const CudnnRun& run) {
  const auto stride = [&](std::int64_t id) { return c.at(id) ? c.at(id).stride : 0; };
  return {.batch = run.batch,
          .rows = run.rows,
          .keys = run.keys,
          .query_heads = c.heads.query,
          .key_heads = c.heads.key_value,
          .width = c.heads.width,
          .q = stride(kQ),
          .k = stride(kK),
          .v = stride(kV),
          .y = stride(kY),
          .dy = stride(kDy),
          .dq = stride(kDq),
          .dk = stride(kDk),
          .dv = stride(kDv),
          .f16 = c.at(kQ).dtype == DType::f16,
          .ragged = run.ragged,
          .causal = c.mask.causal,
          .window = c.mask.window > 0 && c.mask.window < run.rows,
          .bias = static_cast<bool>(c.scores.bias),
          .gradient = c.gradient()};
}

bool plain(const CudnnShape& s) { return !s.f16 && !s.ragged && !s.window && !s.bias && s.rows == s.keys; }

// First bytes of the parts of a run's workspace; the plan's own workspace is the last part.
struct Parts {
  std::int64_t lse = kWordBytes, sums, bias, plan;

  explicit Parts(const CudnnShape& s) {
    const auto after = [](std::int64_t at, std::int64_t bytes) {
      return at + (bytes + kSlack - 1) / kSlack * kSlack;
    };
    const std::int64_t numbers = s.batch * s.query_heads * s.rows * size_of(DType::f32);
    sums = after(lse, numbers);
    bias = after(sums, s.gradient ? numbers : 0);
    plan = after(bias, s.bias ? s.query_heads * s.rows * s.keys * size_of(DType::bf16) : 0);
  }
};

// Pointers and their numbers for a run.
struct Pack {
  void add(std::int64_t id, const void* at) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(at));
  }
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
};

class Attention final : public CudnnAttention {
 public:
  Attention(const Cudnn& f, Gpu& gpu, std::byte* workspace, std::int64_t bytes)
      : cudnn_(f), gpu_(gpu), workspace_(workspace), bytes_(bytes) {
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

  bool forward(const op::Attention& op) override {
    return compute({{Tensor{}, op.q, op.k, op.v, op.y}, op.lse, op.heads, op.mask, op.scores});
  }
  bool backward(const op::AttentionGrad& op) override {
    return !op.dbias && compute({{Tensor{}, op.q, op.k, op.v, op.y, op.dy, op.dq, op.dk, op.dv},
                                 op.lse,
                                 op.heads,
                                 op.mask,
                                 op.scores});
  }

 private:
  static UserError failure(const std::string& why) {
    return {Exit::hardware,
            str("cuDNN failed: ", why, "; model.attn_implementation=auto computes attention without it")};
  }
  void must(cudnnStatus_t status) const {
    if (status != CUDNN_STATUS_SUCCESS) throw failure(cudnn_.error_text(status));
  }

  bool compute(const Call& c) {
    if (!takes(c)) return false;
    const std::vector<CudnnRun> runs =
        cudnn_runs(c.mask, [&](const CudnnRun& run) { return plan_of(shape_of(c, run)) != nullptr; });
    if (runs.empty()) return false;
    std::vector<CudnnWords> words;
    std::vector<std::int32_t> all;
    for (const CudnnRun& run : runs) {
      const std::vector<std::int32_t>& more = words.emplace_back(run, c.mask, rows_of(c)).all();
      all.insert(all.end(), more.begin(), more.end());
    }
    if (static_cast<std::int64_t>(all.size() * sizeof all[0]) > kWordBytes) return false;
    upload(std::move(all));
    const auto* at = reinterpret_cast<const std::int32_t*>(workspace_);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      run(c, runs[i], words[i], at);
      at += words[i].all().size();
    }
    return true;
  }

  static std::vector<CudnnWords::Rows> rows_of(const Call& c) {
    std::vector<CudnnWords::Rows> rows;
    for (std::int64_t id = kQ; id <= kDv; ++id)
      if (c.at(id)) rows.push_back({c.at(id).stride, of_keys(id)});
    return rows;
  }

  // Uploads only words that differ from the last ones: all layers of a batch have the same sequences.
  void upload(std::vector<std::int32_t> words) {
    if (words == uploaded_) return;
    uploaded_.clear();  // in case the upload fails
    gpu_.upload(workspace_, words.data(), static_cast<std::int64_t>(words.size() * sizeof words[0]));
    uploaded_ = std::move(words);
  }

  // Returns null if cuDNN has no plan for this shape, or its plan needs more memory than there is.
  const CudnnPlan* plan_of(const CudnnShape& s) {
    const auto known = plans_.find(s);
    if (known != plans_.end()) return known->second ? &*known->second : nullptr;
    auto& plan = plans_[s];
    if (!plain(s) && cudnn_.version() < kAllKinds) return nullptr;
    const std::int64_t room = bytes_ - Parts(s).plan;
    if (room < 0) return nullptr;
    try {
      CudnnPlan made = cudnn_plan(cudnn_, s, *device_);
      if (made.workspace <= room) plan = std::move(made);
    } catch (const CudnnRefusal&) {
    }
    return plan ? &*plan : nullptr;
  }

  // words: the run's words on the GPU.
  void run(const Call& c, const CudnnRun& run, const CudnnWords& at, const std::int32_t* words) {
    const CudnnShape s = shape_of(c, run);
    const Parts parts(s);
    const PaddedRows lse{c.lse.as<float>(),
                         c.lse.cols(),
                         reinterpret_cast<float*>(workspace_ + parts.lse),
                         s.batch,
                         s.query_heads,
                         s.rows,
                         words + at.at(CudnnWords::kFirstRow),
                         words + at.at(CudnnWords::kRows)};
    if (s.gradient) pad_rows(gpu_.stream(), lse);
    if (s.bias) bias_of_pairs(gpu_.stream(), workspace_ + parts.bias, view_of(c.scores.bias), s.rows, s.keys);

    const float minus_infinity = -std::numeric_limits<float>::infinity(), one = 1,
                window = static_cast<float>(c.mask.window);
    Pack pack;
    pack.add(kLse, lse.padded);
    pack.add(kScale, &c.scores.scale);
    if (s.causal || s.ragged) pack.add(kMinusInfinity, &minus_infinity);
    if (s.window) pack.add(kWindow, &window);
    if (s.bias) pack.add(kBias, workspace_ + parts.bias);
    if (s.gradient) pack.add(kOne, &one);
    if (s.gradient) pack.add(kSums, workspace_ + parts.sums);
    if (s.ragged) pack.add(kRows, words + at.at(CudnnWords::kRows));
    if (s.ragged) pack.add(kKeys, words + at.at(CudnnWords::kKeys));
    std::size_t list = CudnnWords::kOffsets;
    for (std::int64_t id = kQ; id <= kDv; ++id) {
      const Tensor& t = c.at(id);
      if (!t) continue;
      const std::size_t first = run.sequences[0];
      const std::int64_t row = (of_keys(id) ? c.mask.starts_of_keys() : c.mask.starts)[first];
      pack.add(id, s.ragged ? t.data : t.data + row * t.stride * size_of(t.dtype));
      if (s.ragged) pack.add(kOffset + id, words + at.at(list));
      ++list;
    }
    execute(*plan_of(s), pack, workspace_ + parts.plan);
    if (!s.gradient) unpad_rows(gpu_.stream(), lse);
  }

  void execute(const CudnnPlan& plan, const Pack& pack, void* workspace) const {
    try {
      CudnnDescriptor d(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      d.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(pack.ids));
      d.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
            std::span<void* const>(pack.pointers));
      d.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
      d.finalize();
      must(cudnn_.execute(handle_, plan.plan->raw(), d.raw()));
    } catch (const CudnnRefusal& r) {
      throw failure(r.why);
    }
  }

  const Cudnn& cudnn_;
  Gpu& gpu_;
  std::byte* workspace_;
  std::int64_t bytes_;
  CudnnPart device_;
  cudnnHandle_t handle_ = nullptr;
  std::map<CudnnShape, std::optional<CudnnPlan>> plans_;  // empty: not supported
  std::vector<std::int32_t> uploaded_;                    // words at the beginning of the workspace
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
