#include "engine/cuda/cudnn/cudnn_graph.h"

#include <algorithm>

namespace ft::cuda {

CudnnDescriptor::CudnnDescriptor(const Cudnn& f, cudnnBackendDescriptorType_t type) : cudnn_(f) {
  check(cudnn_.create(type, &raw_));
}
CudnnDescriptor::~CudnnDescriptor() { cudnn_.destroy(raw_); }

void CudnnDescriptor::check(cudnnStatus_t status) const {
  if (status != CUDNN_STATUS_SUCCESS) throw CudnnRefusal{cudnn_.error_text(status)};
}

CudnnTensor CudnnGraph::tensor(std::int64_t id, Four dims, Four strides, cudnnDataType_t type,
                               const Kind& kind) {
  constexpr std::int64_t kAlign = 16;
  const CudnnPart t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t->set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  t->set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  t->set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlign);
  t->set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(dims));
  t->set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(strides));
  t->set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, kind.between);
  if (kind.by_value) t->set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, kind.by_value);
  if (kind.offsets) t->set(CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, *kind.offsets->part);
  t->finalize();
  kept_.push_back(t);
  return {t, dims, strides};
}

CudnnTensor CudnnGraph::given(std::int64_t id, Four dims, Four strides, cudnnDataType_t type,
                              const CudnnTensor* offsets) {
  return tensor(id, dims, strides, type, {.offsets = offsets});
}
CudnnTensor CudnnGraph::scalar(std::int64_t id) {
  return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, {.by_value = true});
}
CudnnTensor CudnnGraph::between(Four dims, cudnnDataType_t type) {
  return between(dims, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}, type);
}
CudnnTensor CudnnGraph::between(Four dims, Four strides, cudnnDataType_t type, const CudnnTensor* offsets) {
  return tensor(next_++, dims, strides, type, {.between = true, .offsets = offsets});
}

void CudnnGraph::matmul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c,
                        const CudnnLimits& limits) {
  const CudnnPart how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how->set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  if (limits.zeros) how->set(CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 0.0);
  how->finalize();
  const CudnnPart op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op->set(CUDNN_ATTR_OPERATION_MATMUL_DESC, *how);
  op->set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.part);
  op->set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.part);
  op->set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.part);
  if (limits.m) op->set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, *limits.m->part);
  if (limits.n) op->set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, *limits.n->part);
  if (limits.k) op->set(CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, *limits.k->part);
  op->finalize();
  kept_.push_back(how);
  operations_.push_back(op);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor& y,
                           const CudnnPointwise& more) {
  const CudnnPart how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how->set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how->set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, more.type);
  if (more.axis >= 0) how->set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::int64_t{more.axis});
  how->finalize();
  const CudnnPart op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op->set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *how);
  op->set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.part);
  if (more.b) op->set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *more.b->part);
  if (more.mask) op->set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *more.mask->part);
  op->set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.part);
  op->finalize();
  kept_.push_back(how);
  operations_.push_back(op);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t by, const CudnnTensor& x, const CudnnTensor& y) {
  const CudnnPart how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how->set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, by);
  how->set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how->finalize();
  const CudnnPart op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op->set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, *how);
  op->set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.part);
  op->set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.part);
  op->finalize();
  kept_.push_back(how);
  operations_.push_back(op);
}

void CudnnGraph::reshape(const CudnnTensor& x, const CudnnTensor& y) {
  const CudnnPart op = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op->set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.part);
  op->set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.part);
  op->finalize();
  operations_.push_back(op);
}

bool CudnnGraph::deterministic(const CudnnDescriptor& config) const {
  const CudnnDescriptor engine(cudnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::array<cudnnBackendDescriptor_t, 1> into{engine.raw()};
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::span<cudnnBackendDescriptor_t>(into));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const auto count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                std::span<cudnnBackendNumericalNote_t>(notes));
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ==
         notes.begin() + count;
}

std::vector<CudnnPart> CudnnGraph::proposed(const CudnnDescriptor& graph,
                                            const CudnnDescriptor& device) const {
  constexpr std::size_t kMost = 16;  // number of engines to try
  CudnnDescriptor heuristics(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  heuristics.finalize();
  std::vector<CudnnPart> configs;
  std::vector<cudnnBackendDescriptor_t> found;
  for (std::size_t i = 0; i < kMost; ++i) {
    configs.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    found.push_back(configs.back()->raw());
  }
  const auto count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    std::span<cudnnBackendDescriptor_t>(found));
  configs.resize(std::min(kMost, static_cast<std::size_t>(count)));
  return configs;
}

// A deterministic gradient for ragged sequences on Blackwell, which the heuristics do not propose; NVIDIA's
// frontend uses it there.
CudnnPart CudnnGraph::known(const CudnnDescriptor& graph, const CudnnDescriptor& device) const {
  constexpr std::int64_t kEngine = 5, kKernels = 31, kStages = 2;
  constexpr std::size_t kNumberedAnew = 92300;
  if (cudnn_.version() >= kNumberedAnew) throw CudnnRefusal{"its engines have other numbers"};
  CudnnDescriptor engine(cudnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, kEngine);
  engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, device);
  engine.finalize();
  const auto choose = [](CudnnDescriptor& d, cudnnBackendKnobType_t knob, std::int64_t value) {
    d.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, knob);
    d.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
    d.finalize();
  };
  CudnnDescriptor kernels(cudnn_, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
      stages(cudnn_, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  choose(kernels, CUDNN_KNOB_TYPE_KERNEL_CFG, kKernels);
  choose(stages, CUDNN_KNOB_TYPE_STAGES, kStages);
  const std::array<cudnnBackendDescriptor_t, 2> choices{kernels.raw(), stages.raw()};
  CudnnPart config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config->set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  config->set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              std::span<const cudnnBackendDescriptor_t>(choices));
  config->finalize();
  return config;
}

std::optional<CudnnPlan> CudnnGraph::plan_with(const CudnnPart& config, const CudnnPart& graph,
                                               const CudnnDescriptor& device) const {
  if (!deterministic(*config)) return {};
  CudnnPlan p;
  p.plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  p.plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
  p.plan->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  p.plan->finalize();
  p.plan->get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
              std::span<std::int64_t>(&p.workspace, 1));
  p.kept = kept_;
  p.kept.insert(p.kept.end(), operations_.begin(), operations_.end());
  p.kept.insert(p.kept.end(), {graph, config});
  return p;
}

CudnnPlan CudnnGraph::plan(const CudnnDescriptor& device) const {
  const CudnnPart graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnPart& p : operations_) operations.push_back(p->raw());
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::span<const cudnnBackendDescriptor_t>(operations));
  graph->finalize();
  for (const CudnnPart& config : proposed(*graph, device)) try {
      if (auto p = plan_with(config, graph, device)) return std::move(*p);
    } catch (const CudnnRefusal&) {
    }
  if (auto p = plan_with(known(*graph, device), graph, device)) return std::move(*p);
  throw CudnnRefusal{"no deterministic engine"};
}

CudnnPart cudnn_device(const Cudnn& f, int index) {
  auto d = std::make_shared<CudnnDescriptor>(f, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  d->set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::int32_t{index});
  d->finalize();
  return d;
}
CudnnPart cudnn_device(const Cudnn& f, const std::string& json) {
  auto d = std::make_shared<CudnnDescriptor>(f, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  d->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::span<const char>(json));
  d->finalize();
  return d;
}

}  // namespace ft::cuda
