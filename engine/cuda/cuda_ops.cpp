#include "engine/cuda/cuda_ops.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/cuda/cudnn/cudnn_attention.h"
#include "engine/cuda/event_stamps.h"
#include "engine/cuda/gemm/fp8_products.h"
#include "engine/cuda/gemm/products.h"
#include "engine/cuda/gpu_attention.h"
#include "engine/cuda/status.h"
#include "engine/cuda/wrong_indices.h"
#include "engine/ops/ops.h"

namespace ft {
namespace cuda {
namespace {

constexpr std::int64_t round_up(std::int64_t n) {
  return (n + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign;
}
static_assert(CudaWorkspace::kSmall == round_up(WrongIndices::kBytes) + round_up(sizeof(NestedMap)) +
                                           round_up(kSumParts * sizeof(double)));

// A single allocation of device memory, divided into parts.
struct Workspace {
  Workspace(Gpu& gpu, const CudaWorkspace& sizes) {
    total = sizes.total();
    memory = gpu.allocate(total);
    wrong = reinterpret_cast<std::int32_t*>(take(WrongIndices::kBytes));
    map = reinterpret_cast<float*>(take(sizeof(NestedMap)));
    partial = reinterpret_cast<double*>(take(kSumParts * sizeof(double)));
    blas = take(sizes.blas);
    dense = take(sizes.dense);
    delta = take(sizes.delta);
    tiles = take(sizes.tiles);
    cudnn = take(sizes.cudnn);
    gpu.upload(map, nested_map().data(), sizeof(NestedMap));
  }
  std::byte* take(std::int64_t bytes) {
    std::byte* at = memory.get() + used;
    used += round_up(bytes);
    return at;
  }

  Buffer memory;
  std::int64_t total = 0, used = 0;
  std::int32_t* wrong;  // of WrongIndices
  float* map;           // nested_map()
  double* partial;      // (kSumParts)
  std::byte *blas, *dense, *delta, *tiles, *cudnn;
};

class CudaOps final : public OpsOf<CudaOps> {
 public:
  CudaOps(int index, const CudaWorkspace& sizes, const std::string& gemm_tuning)
      : gpu_(index, sizes.staging),
        work_(gpu_, sizes),
        wrong_(gpu_, work_.wrong),
        products_(gpu_,
                  {work_.blas, sizes.blas, work_.dense, sizes.dense, work_.map, work_.delta, sizes.delta},
                  sizes.products, gemm_tuning),
        attention_(gpu_, {work_.tiles, sizes.tiles, work_.delta, sizes.delta, sizes.cache}) {
    if (sizes.fp8_rows) require_fp8_products(gpu_);
    if (sizes.cudnn > 0) cudnn_ = make_cudnn_attention(gpu_, work_.cudnn, sizes.cudnn);
  }
  ~CudaOps() override { cudaStreamSynchronize(gpu_.stream()); }

  Gpu& gpu() { return gpu_; }

  Device device() const override { return {Device::Kind::cuda, gpu_.index()}; }
  Buffer allocate(std::int64_t bytes) override { return gpu_.allocate(bytes); }
  std::int64_t workspace() const override { return work_.total + more_dense_; }
  std::int64_t driver_memory() const override { return gpu_.driver_memory(); }
  std::int64_t free_memory() const override { return gpu_.free_memory() + workspace(); }
  void reserve_dense(std::int64_t bytes) override {
    if (bytes <= products_.dense_bytes()) return;
    gpu_.synchronize();  // work in the queue may use the old memory
    dense_ = {};
    dense_ = gpu_.allocate(bytes);
    products_.make_dense_in(dense_.get(), bytes);
    more_dense_ = bytes;
  }

  void copy(Tensor y, Tensor x) override {
    check_copy(y, x);
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
    check_transfer(y);
    gpu_.upload(y.data, host, y.bytes());
  }
  void download(void* host, Tensor x) override {
    check_transfer(x);
    gpu_.download(host, x.data, x.bytes());
    wrong_.refuse();
  }
  void synchronize() override { wrong_.refuse(); }
  std::unique_ptr<Stamps> stamps(std::int64_t most) override {
    return std::make_unique<EventStamps>(gpu_, most);
  }
  void enter(std::string_view where) override { where_ = where; }

 private:
  friend OpsOf<CudaOps>;
  template <class Op>
  void compute(const Op& op) {
    Queue queue{gpu_.stream(), nullptr, work_.partial};
    if constexpr (requires { op.check_indices(); }) queue.wrong = wrong_.flag_of(Op::kName, where_);
    cuda::compute(op, queue);
  }
  void compute(const op::Products& op) { products_.run(op); }
  void compute(const op::NarrowGrad& op) { products_.run(op); }
  void compute(const op::Hadamard& op) { products_.run(op); }
  void compute(const op::Attention& op) {
    if (!cudnn_ || !cudnn_->forward(op)) attention_.forward(op);
  }
  void compute(const op::AttentionGrad& op) {
    if (!cudnn_ || !cudnn_->backward(op)) attention_.backward(op);
  }
  void compute(const op::AttentionRanges& op) {
    refuse_wide(op.heads);
    compute<op::AttentionRanges>(op);
  }

  Gpu gpu_;
  Workspace work_;
  WrongIndices wrong_;
  std::string where_;  // the last label entered
  Products products_;
  Buffer dense_;
  std::int64_t more_dense_ = 0;  // bytes of dense_
  GpuAttention attention_;
  std::unique_ptr<CudnnAttention> cudnn_;  // null: not requested
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
