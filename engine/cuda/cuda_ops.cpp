#include "engine/cuda/cuda_ops.h"

#include <algorithm>

#include "engine/cuda/cudnn_attention.h"
#include "engine/cuda/gpu_attention.h"
#include "engine/cuda/products.h"
#include "engine/cuda/status.h"
#include "engine/ops/check.h"

namespace ft {
namespace cuda {
namespace {

float* floats(const Tensor& t) { return t ? t.as<float>() : nullptr; }

constexpr std::int64_t round_up(std::int64_t n) {
  return (n + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign;
}
static_assert(CudaWorkspace::kSmall == round_up(sizeof(std::int32_t)) + round_up(sizeof(NestedMap)) +
                                           round_up(kSumParts * sizeof(double)));

// One piece of device memory, cut up.
struct Workspace {
  Workspace(Gpu& gpu, const CudaWorkspace& sizes) {
    total = sizes.total();
    memory = gpu.allocate(total);
    wrong = reinterpret_cast<std::int32_t*>(take(sizeof(std::int32_t)));
    map = reinterpret_cast<float*>(take(sizeof(NestedMap)));
    partial = reinterpret_cast<double*>(take(kSumParts * sizeof(double)));
    blas = take(sizes.blas);
    dense = take(sizes.dense);
    delta = take(sizes.delta);
    tiles = take(sizes.tiles);
    cudnn = take(sizes.cudnn);
    constexpr std::int32_t kNone = 0;
    gpu.upload(wrong, &kNone, sizeof kNone);
    gpu.upload(map, nested_map().data(), sizeof(NestedMap));
  }
  std::byte* take(std::int64_t bytes) {
    std::byte* at = memory.get() + used;
    used += round_up(bytes);
    return at;
  }

  Buffer memory;
  std::int64_t total = 0, used = 0;
  std::int32_t* wrong;  // a Wrong
  float* map;           // nested_map()
  double* partial;      // (kSumParts)
  std::byte *blas, *dense, *delta, *tiles, *cudnn;
};

const char* words_of(Wrong w) {
  switch (w) {
    case Wrong::none:
      break;
    case Wrong::position:
      return "rope: a position beyond the table";
    case Wrong::id:
      return "embedding: an id beyond the table";
    case Wrong::gathered_row:
      return "gather_rows: a row beyond x";
    case Wrong::scattered_row:
      return "scatter_rows: a row beyond y";
    case Wrong::target:
      return "cross_entropy: a target beyond the classes";
    case Wrong::key:
      return "attention_ranges: keys that are not there";
  }
  return "an index beyond its range";
}

class CudaOps final : public Ops {
 public:
  CudaOps(int index, const CudaWorkspace& sizes, const std::string& gemm_tuning)
      : gpu_(index, sizes.staging),
        work_(gpu_, sizes),
        products_(gpu_, {work_.blas, sizes.blas, work_.dense, sizes.dense, work_.map}, gemm_tuning),
        attention_(gpu_, {work_.tiles, sizes.tiles, work_.delta, sizes.delta, sizes.cache}) {
    if (sizes.cudnn > 0) cudnn_ = make_cudnn_attention(gpu_, work_.cudnn, sizes.cudnn);
  }
  ~CudaOps() override { cudaStreamSynchronize(gpu_.stream()); }

  Gpu& gpu() { return gpu_; }

  Device device() const override { return {Device::Kind::cuda, gpu_.index(), cudnn_ != nullptr}; }
  Buffer allocate(std::int64_t bytes) override { return gpu_.allocate(bytes); }
  std::int64_t workspace() const override { return work_.total; }
  std::int64_t free_memory() const override { return gpu_.free_memory() + work_.total; }

  void copy(Tensor y, Tensor x) override {
    check::copy(y, x);
    if (y.numel() == 0) return;
    const auto pitch = [](const Tensor& t, std::int64_t row) {
      return static_cast<std::size_t>(t.rows() > 1 ? t.stride * size_of(t.dtype) : row);
    };
    const bool flat = y.dense() && x.dense();
    const std::int64_t row = flat ? y.bytes() : y.cols() * size_of(y.dtype), rows = flat ? 1 : y.rows();
    const auto width = static_cast<std::size_t>(row);
    check(cudaMemcpy2DAsync(y.data, flat ? width : pitch(y, row), x.data, flat ? width : pitch(x, row), width,
                            static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, gpu_.stream()),
          "copy");
  }
  void upload(Tensor y, const void* host) override {
    check::transfer(y);
    gpu_.upload(y.data, host, y.bytes());
  }
  void download(void* host, Tensor x) override {
    check::transfer(x);
    gpu_.download(host, x.data, x.bytes());
    refuse_wrong();
  }
  void synchronize() override { refuse_wrong(); }

  void fill(Tensor y, float value) override {
    check::fill(y);
    cuda::fill(gpu_.stream(), view_of(y), value);
  }
  void add(Tensor y, Tensor x) override {
    check::add(y, x);
    cuda::add(gpu_.stream(), view_of(y), view_of(x));
  }
  void cast(Tensor y, Tensor x) override {
    check::cast(y, x);
    cuda::cast(gpu_.stream(), view_of(y), view_of(x));
  }
  void dropout(Tensor y, Tensor x, float p, Random random) override {
    check::dropout(y, x, p);
    cuda::dropout(gpu_.stream(), view_of(y), view_of(x), p, random.key);
  }
  void gated(Activation f, Tensor y, Tensor gate, Tensor up) override {
    check::gated(y, gate, up);
    cuda::gated(gpu_.stream(), f, view_of(y), view_of(gate), view_of(up));
  }
  void gated_grad(Activation f, Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) override {
    check::gated_grad(dgate, dup, dy, gate, up);
    cuda::gated_grad(gpu_.stream(), f,
                     {view_of(dgate), view_of(dup), view_of(dy), view_of(gate), view_of(up)});
  }
  void products(Tensor y, std::span<const Term> terms, float alpha, Tensor c) override {
    check::products(y, terms, c);
    products_.run(y, terms, alpha, c);
  }
  void column_sums(Tensor y, Tensor x) override {
    check::column_sums(y, x);
    cuda::column_sums(gpu_.stream(), floats(y), view_of(x));
  }

  void rms_norm(Tensor y, Tensor rstd, Tensor x, Tensor w, float eps) override {
    check::rms_norm(y, rstd, x, w);
    cuda::rms_norm(gpu_.stream(), view_of(y), floats(rstd), view_of(x), w.data, eps);
  }
  void rms_norm_grad(Tensor dx, Tensor dw, Tensor dy, Tensor x, Tensor w, Tensor rstd) override {
    check::rms_norm_grad(dx, dw, dy, x, w, rstd);
    const NormGrad g{view_of(dx), floats(dw), view_of(dy), view_of(x), w.data, floats(rstd)};
    if (dx) rms_norm_dx(gpu_.stream(), g);
    if (dw) rms_norm_dw(gpu_.stream(), g);
  }
  void rope(Tensor x, Tensor cos, Tensor sin, Tensor positions, std::int64_t head_width,
            float sign) override {
    check::rope(x, cos, sin, positions, head_width);
    cuda::rope(
        gpu_.stream(),
        {view_of(x), floats(cos), floats(sin), cos.rows(), positions.as<std::int32_t>(), head_width, sign},
        work_.wrong);
  }
  void attention(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                 const Scores& scores) override {
    check::attention(y, lse, q, k, v, heads, mask, scores);
    if (cudnn_ && cudnn_->forward(y, lse, q, k, v, heads, mask, scores)) return;
    attention_.forward(y, lse, q, k, v, heads, mask, scores);
  }
  void attention_grad(Tensor dq, Tensor dk, Tensor dv, Tensor dbias, Tensor dy, Tensor y, Tensor lse,
                      Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                      const Scores& scores) override {
    check::attention_grad(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores);
    if (cudnn_ && !dbias && cudnn_->backward(dq, dk, dv, dy, y, lse, q, k, v, heads, mask, scores)) return;
    attention_.backward(dq, dk, dv, dbias, dy, y, lse, q, k, v, heads, mask, scores);
  }
  void attention_ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                        const Scores& scores) override {
    check::attention_ranges(y, q, k, v, heads, ranges, scores);
    attention_.ranges(y, q, k, v, heads, ranges, scores, work_.wrong);
  }
  void embedding(Tensor y, Tensor ids, Tensor table) override {
    check::embedding(y, ids, table);
    cuda::gather_rows(gpu_.stream(), {view_of(y), view_of(table), ids.as<std::int32_t>(), y.rows()},
                      Wrong::id, work_.wrong);
  }
  void embedding_grad(Tensor dtable, Tensor ids, Tensor dy) override {
    check::embedding_grad(dtable, ids, dy);
    cuda::embedding_grad(gpu_.stream(), view_of(dtable), ids.as<std::int32_t>(), view_of(dy), work_.wrong);
  }
  void gather_rows(Tensor y, Tensor x, Tensor rows) override {
    check::gather_rows(y, x, rows);
    cuda::gather_rows(gpu_.stream(), {view_of(y), view_of(x), rows.as<std::int32_t>(), y.rows()},
                      Wrong::gathered_row, work_.wrong);
  }
  void scatter_rows(Tensor y, Tensor x, Tensor rows) override {
    check::scatter_rows(y, x, rows);
    cuda::scatter_rows(gpu_.stream(), {view_of(y), view_of(x), rows.as<std::int32_t>(), x.rows()},
                       work_.wrong);
  }
  void cross_entropy(Tensor loss, Tensor logits, Tensor targets, const CrossEntropy& how) override {
    check::cross_entropy(loss, logits, targets, how);
    cuda::cross_entropy(
        gpu_.stream(),
        {floats(loss), view_of(logits), targets.as<std::int32_t>(), how.scale, how.smoothing, how.gradient},
        work_.wrong);
  }

  void sum(Tensor y, Tensor x) override {
    check::sum(y, x);
    cuda::sum(gpu_.stream(), y.as<double>(), floats(x), x.numel(), work_.partial);
  }
  void sum_squares(Tensor y, Tensor x) override {
    check::sum(y, x);
    cuda::sum_squares(gpu_.stream(), y.as<double>(), floats(x), x.numel(), work_.partial);
  }
  void adamw(Tensor master, Tensor m, Tensor v, Tensor grad, const AdamW& how) override {
    check::adamw(master, m, v, grad, how);
    cuda::adamw(gpu_.stream(), {floats(master), floats(m), floats(v), floats(grad), master.numel()},
                scalars_of(how));
  }
  void sgd(Tensor master, Tensor grad, float lr, float decay, float grad_scale) override {
    check::sgd(master, grad);
    cuda::sgd(gpu_.stream(), {floats(master), floats(grad), master.numel(), lr, decay, grad_scale});
  }

 private:
  // Waits, and throws if a kernel has met an index of the data that it could not use.
  void refuse_wrong() {
    std::int32_t wrong = 0;
    gpu_.download(&wrong, work_.wrong, sizeof wrong);
    require(wrong == 0, words_of(static_cast<Wrong>(wrong)));
  }

  Gpu gpu_;
  Workspace work_;
  Products products_;
  GpuAttention attention_;
  std::unique_ptr<CudnnAttention> cudnn_;  // null: not asked for
};

}  // namespace

Gpu& gpu_of(Ops& ops) {
  auto* cuda = dynamic_cast<CudaOps*>(&ops);
  require(cuda != nullptr, "Ops of a GPU");
  return cuda->gpu();
}

}  // namespace cuda

std::unique_ptr<Ops> make_cuda_ops(int index, const CudaWorkspace& sizes, const std::string& gemm_tuning) {
  return std::make_unique<cuda::CudaOps>(index, sizes, gemm_tuning);
}

std::optional<std::string> cuda_version() {
  return str(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

}  // namespace ft
